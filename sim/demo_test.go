package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"forewarm/planner"
)

// The demo's story must be true: few replicas before the burst, many in it, one whole hole and the rest scattered.
func TestDemoWorldTellsItsStory(t *testing.T) {
	w := DemoWorld()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := NewCluster(w, 1)
	if err != nil {
		t.Fatal(err)
	}
	obs, err := c.Observe(context.Background(), w.Start)
	if err != nil {
		t.Fatal(err)
	}
	var free []int
	for _, n := range obs.Inventory.Pools[0].Nodes {
		if n.FreeGPUs > 0 {
			free = append(free, n.FreeGPUs)
		}
	}
	slices.Sort(free)
	if want := []int{1, 1, 2, 2, 4}; !slices.Equal(free, want) {
		t.Errorf("free GPUs per node are %v, the story says %v", free, want)
	}
	if got := *obs.Inventory.Pools[0].Launchable; got != 4 {
		t.Errorf("%d nodes can be launched, the story says 4", got)
	}
	local, err := time.LoadLocation(DemoTimezone)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Start.In(local).Format("Mon 15:04"); got != "Mon 09:05" {
		t.Errorf("the world starts %s, the story says Mon 09:05", got)
	}
	chat := c.model("chat-70b")
	busy := func(at time.Time) float64 {
		load := chat.gen.(*Generator).Rate(at)
		return float64(load.Prompt/chat.cfg.Profile.Prompt) + float64(load.Completion/chat.cfg.Profile.Completion)
	}
	quiet, burst := busy(w.Start), busy(w.Start.Add(22*time.Minute))
	if quiet < 1 || quiet > 3 {
		t.Errorf("chat keeps %.1f replicas busy at 09:05, the story says at most 3", quiet)
	}
	if burst < 6 || burst > 10 {
		t.Errorf("chat keeps %.1f replicas busy at 09:27, the story says 6 to 10", burst)
	}
}

// What a planner is told must be true: replicas loaded to their profile meet the SLO, and loaded to a tenth beyond the
// true saturation do not. Three of them, since the code model's trains of requests need to be shared.
func TestDemoProfilesHoldTheSLO(t *testing.T) {
	for _, m := range DemoWorld().Models {
		attained := func(prompt, completion planner.TokenRate) float64 {
			w := DemoWorld()
			m := m
			load := &m.Workload
			load.Day, load.Weekend, load.Bursts, load.Level, load.Clients = nil, nil, nil, Level{}, nil
			meanPrompt, _ := load.Prompt.Moments()
			meanCompletion, _ := load.Completion.Moments()
			load.Requests = planner.RequestRate(3 / (meanPrompt/float64(prompt) + meanCompletion/float64(completion)))
			m.Replicas, m.ReplicasMin, m.ReplicasMax = 3, 3, 3
			w.Models = []Model{m}
			for i := range w.Pools[0].Nodes {
				w.Pools[0].Nodes[i].Cached = nil
			}
			c := mustCluster(t, w, 1)
			if err := c.Advance(w.Start.Add(2 * time.Hour)); err != nil {
				t.Fatal(err)
			}
			return *c.Stats()[0].Attained
		}
		within := attained(m.Profile.Prompt, m.Profile.Completion)
		beyond := attained(m.Physics.Prompt*1.1, m.Physics.Completion*1.1)
		t.Logf("%s: attained %.4f at the profile, %.4f beyond saturation", m.Name, within, beyond)
		if within < 0.98 {
			t.Errorf("%s attains %.4f at its profile, at least 0.98 promised", m.Name, within)
		}
		if beyond > 0.5 {
			t.Errorf("%s attains %.4f beyond saturation", m.Name, beyond)
		}
	}
}
