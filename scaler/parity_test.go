package scaler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler"
	"forewarm/sim"
)

const (
	paritySeed     = 7
	parityHistory  = 7 * 24 * time.Hour
	parityInterval = 15 * time.Second
	paritySpan     = 20 * time.Minute
)

// parityWorld is one realisation of the demo's morning with everything that plans it.
func parityWorld(t *testing.T) (*sim.Cluster, *planner.Tracker, planner.Policy, sim.World) {
	t.Helper()
	world := sim.DemoWorld()
	cluster, err := sim.NewCluster(world, paritySeed)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cluster.PastStarts(10, parityHistory) {
		if err := ledger.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	cfg := planner.TrackerConfig{Step: sim.LoadStep, Horizon: 30 * time.Minute, Interval: parityInterval, Paths: 50,
		Method: "auto", Seed: paritySeed, Ledger: ledger}
	policy := planner.Policy{Seed: paritySeed, Defaults: planner.DefaultModelPolicy()}
	policy.Defaults.Authority = planner.Act
	for _, m := range world.Models {
		profile := m.Profile
		cfg.Models = append(cfg.Models, planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: &profile})
	}
	tracker, err := planner.NewTracker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cluster, tracker, policy, world
}

// The live loop and the simulator's own run over the same world must decide the same, byte for byte: the simulator
// would otherwise answer for a planner that nobody runs.
func TestLiveLoopAndSimulatorDecideTheSame(t *testing.T) {
	ctx := context.Background()
	var simulated [][]byte
	cluster, tracker, policy, world := parityWorld(t)
	for _, m := range world.Models {
		h, err := cluster.History(ctx, m.Name, world.Start.Add(-parityHistory), world.Start)
		if err != nil {
			t.Fatal(err)
		}
		if err := tracker.Fit(m.Name, h); err != nil {
			t.Fatal(err)
		}
	}
	err := sim.Run(ctx, cluster, tracker, policy, world.Start, world.Start.Add(paritySpan), parityInterval,
		func(_ planner.State, d planner.Decision) { simulated = append(simulated, encode(t, d)) })
	if err != nil {
		t.Fatal(err)
	}

	var lived [][]byte
	cluster, tracker, policy, world = parityWorld(t)
	cfg := scaler.Config{Source: cluster, Tracker: tracker, Policy: policy, Interval: parityInterval, Step: sim.LoadStep,
		History: parityHistory, Apply: cluster.Apply,
		Publish: func(p scaler.Plan) { lived = append(lived, encode(t, *p.Decision)) }}
	for _, m := range world.Models {
		cfg.Models = append(cfg.Models, m.Name)
	}
	loop := scaler.NewLoop(cfg)
	for now := world.Start; !now.After(world.Start.Add(paritySpan)); now = now.Add(parityInterval) {
		loop.Tick(ctx, now)
	}

	if len(simulated) != len(lived) || len(lived) < 80 {
		t.Fatalf("%d simulated and %d live decisions", len(simulated), len(lived))
	}
	changes := 0
	for i := range lived {
		if !bytes.Equal(lived[i], simulated[i]) {
			t.Fatalf("tick %d differs:\nlive      %.2000s\nsimulated %.2000s", i, lived[i], simulated[i])
		}
		if i > 0 && !bytes.Equal(targets(t, lived[i]), targets(t, lived[i-1])) {
			changes++
		}
	}
	if changes < 3 {
		t.Errorf("the plan changed %d times in a morning with a burst: the comparison proves nothing", changes)
	}
}

func encode(t *testing.T, d planner.Decision) []byte {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// targets cuts the replica counts out of an encoded Decision.
func targets(t *testing.T, b []byte) []byte {
	t.Helper()
	var d planner.Decision
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, m := range d.Models {
		out = append(out, *m.Replicas)
	}
	return encodeInts(t, out)
}

func encodeInts(t *testing.T, n []int) []byte {
	t.Helper()
	b, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
