package scaler

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// A pool's GPUs are shown by what can be done with them, and a pool, or hardware, that is not known any more is absent.
func TestMetricsFollowThePools(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() float64 { return 0 })
	inv := &planner.Inventory{Pools: []planner.Pool{
		{Name: "big", Launching: 1, Nodes: []planner.Node{{Name: "a", GPUs: 8, FreeGPUs: 3, Usable: true}, {Name: "b", GPUs: 8, FreeGPUs: 6}}},
		{Name: "small", Nodes: []planner.Node{{Name: "c", GPUs: 2, FreeGPUs: 2, Usable: true}}},
	}}
	check := func(metric, pool, state string, want float64) {
		t.Helper()
		if got := gather(t, reg, metric, pool, state); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s of %s %s is %v, want %v", metric, pool, state, got, want)
		}
	}
	m.pools.observe(inv)
	check("forewarm_pool_gpus", "big", "free", 3)
	check("forewarm_pool_gpus", "big", "held", 7)
	check("forewarm_pool_gpus", "big", "closed", 6)
	check("forewarm_pool_nodes", "big", "open", 1)
	check("forewarm_pool_nodes", "big", "closed", 1)
	check("forewarm_pool_nodes", "big", "launching", 1)
	check("forewarm_pool_gpus", "small", "free", 2)
	m.pools.observe(&planner.Inventory{Pools: inv.Pools[:1]})
	check("forewarm_pool_gpus", "small", "free", math.NaN())
	check("forewarm_pool_gpus", "big", "free", 3)
	m.pools.observe(nil)
	check("forewarm_pool_gpus", "big", "free", math.NaN())
	check("forewarm_pool_nodes", "big", "open", math.NaN())
}

// What the plan asks of pools, buffers and quotas is shown as long as the latest plan asks for it.
func TestMetricsFollowTheTargets(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() float64 { return 0 })
	check := func(metric string, want float64, labels ...string) {
		t.Helper()
		if got := gather(t, reg, metric, labels...); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s of %v is %v, want %v", metric, labels, got, want)
		}
	}
	reachable := 4
	d := planner.Decision{
		Pools:      []planner.PoolTarget{{Pool: "h200", Nodes: 3, Now: 2, By: planner.BufferChunks}},
		Buffers:    []planner.BufferTarget{{Model: "chat", Pool: "h200", Replicas: 2}},
		Quotas:     []planner.QuotaTarget{{Queue: "serving", Flavor: "h200", Nominal: 16}},
		Shortfalls: []planner.Shortfall{{Model: "chat", Cause: planner.QuotaCapped, Replicas: 1}, {Model: "chat", Cause: planner.QuotaCapped, Replicas: 2}},
		Slots: []planner.ModelSlots{
			{Models: []string{"chat"}, Fragmentation: planner.Fragmentation{Pool: "h200", Shape: "4x1", Slots: 1, Unusable: 6, Remainder: 2, Scatter: 4, Reachable: &reachable}},
			{Models: []string{"code"}, Fragmentation: planner.Fragmentation{Pool: "h200", Shape: "4x1", Slots: 3, Unusable: 1, Remainder: 1}},
		},
	}
	m.targets.observe(&d)
	check("forewarm_pool_nodes_planned", 3, "buffer", "h200")
	check("forewarm_buffer_replicas_planned", 2, "chat", "h200")
	check("forewarm_quota_gpus_planned", 16, "h200", "serving", "")
	check("forewarm_shortfall_replicas", 3, "QuotaCapped", "chat")
	check("forewarm_unusable_gpus", 4, "scatter", "h200", "4x1")
	check("forewarm_slots", 1, "h200", "4x1", "now")
	check("forewarm_slots", 4, "h200", "4x1", "reachable")
	m.targets.observe(&planner.Decision{})
	check("forewarm_pool_nodes_planned", math.NaN(), "buffer", "h200")
	check("forewarm_shortfall_replicas", math.NaN(), "QuotaCapped", "chat")
	check("forewarm_slots", math.NaN(), "h200", "4x1", "reachable")
}
