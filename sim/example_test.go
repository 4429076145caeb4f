package sim_test

import (
	"context"
	"fmt"
	"time"

	"forewarm/planner"
	"forewarm/sim"
)

// Somebody orders two more replicas of the chat model in the demo world and looks again two minutes later: the one that
// fits beside the model's own weights serves, the other waits for its node.
func ExampleCluster() {
	world := sim.DemoWorld()
	cluster, err := sim.NewCluster(world, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, five := context.Background(), 5
	order := planner.Decision{At: world.Start, Models: []planner.ModelDecision{{Name: "chat-70b", Answer: &five}}}
	if err := cluster.Apply(ctx, order); err != nil {
		fmt.Println(err)
		return
	}
	obs, err := cluster.Observe(ctx, world.Start.Add(2*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	chat := obs.Models[0]
	fmt.Println(chat.Name, chat.Replicas.Ready, "ready")
	for _, s := range chat.Replicas.Starting {
		fmt.Println("starting on path", s.Path)
	}
	for _, s := range chat.Starts {
		fmt.Println(s.Outcome, "on path", s.Key.Path, "after", s.Total.Round(time.Second))
	}
	// Output:
	// chat-70b 4 ready
	// starting on path cold_node
	// served on path cached_weights after 1m36s
}
