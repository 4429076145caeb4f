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
