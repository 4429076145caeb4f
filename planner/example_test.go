package planner_test

import (
	"fmt"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

// At 09:12 one replica runs, a burst is forecast for 09:15, and a start takes three minutes: four more are ordered now.
func ExampleDecide() {
	now := time.Date(2026, 3, 2, 9, 12, 0, 0, time.UTC)
	lead, err := coldstart.StatedQuantiles(coldstart.WarmNode, 150*time.Second, 175*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	path := func(rates ...float64) forecast.Ensemble { // one future; a Tracker draws hundreds from history
		return forecast.Ensemble{Start: now, Step: time.Minute, Paths: [][]float64{rates}}
	}
	state := planner.State{Now: now, Interval: 15 * time.Second, Models: []planner.ModelState{{
		Name:      "chat-70b",
		Shape:     planner.Shape{GPUs: 4, Pods: 1},
		Profile:   &planner.Profile{Prompt: 40_000, Completion: 3_000},
		Load:      &planner.ObservedLoad{Load: planner.Load{Prompt: 2_000, Completion: 2_700}, At: now},
		Forecast:  &planner.Forecast{Prompt: path(2_000, 2_000, 2_000, 9_000, 9_000), Completion: path(2_700, 2_700, 2_700, 13_000, 13_000)},
		Replicas:  &planner.Replicas{Ready: 1},
		LeadTimes: []coldstart.LeadTime{lead},
	}}}
	decision, err := planner.Decide(state, planner.Policy{Defaults: planner.DefaultModelPolicy()})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := decision.Model("chat-70b")
	fmt.Printf("%d replicas: %d serving, %d warm\n", *plan.Replicas, plan.Serving, plan.Warm)
	for _, s := range plan.Steps {
		if s.Stage == planner.StageWarm {
			fmt.Println(s.Why)
		}
	}
	// Output:
	// 5 replicas: 1 serving, 4 warm
	// p95 of the peak over 09:15:00–09:15:15 (lead time 3m [stated, not measured], tick 15s) needs 5; 1 ready: order 4 more
}
