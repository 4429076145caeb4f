package sim

import (
	"context"
	"math"

	"forewarm/planner"
)

// wva is the saturation analyzer of llm-d's workload variant autoscaler, version 2, as it is published (docs and source
// of llm-d-workload-variant-autoscaler, 0.9), for one variant a model:
//
//	demand   = tokens in use + waiting requests · mean prompt
//	k1       = 0.80 · KV tokens of a replica
//	k2       = tokens in use of a replica, the last time that its queue was at least 5 long; until then N·(I + O/2) with
//	           N = min(B·O/(I + O), S): B batched tokens, S sequences of the engine's settings
//	required = max(0, demand/0.85 − supply with starting ones), spare = max(0, ready supply − demand/0.70)
//
// in tokens, with a supply of min(k1, k2) a replica. It adds what is required and takes away whole replicas that are
// spare. It needs KV metrics: without them its trigger is in error.
type wva struct {
	engines map[string]*planner.Physics // settings only
	seen    map[string]float64          // k2 as observed
}

func newWVA(s Scenario) *wva {
	w := &wva{engines: map[string]*planner.Physics{}, seen: map[string]float64{}}
	for _, m := range s.World.Models {
		w.engines[m.Name] = m.Engine
	}
	return w
}

// Thresholds of the analyzer.
const (
	wvaKV       = 0.80
	wvaQueue    = 5
	wvaGrowAt   = 0.85
	wvaShrinkAt = 0.70
)

func (w *wva) tick(_ context.Context, c *Cluster, s sight) error {
	for i, m := range c.models {
		g, engine := s.models[i], w.engines[m.cfg.Name]
		if g.blind || engine == nil || math.IsNaN(g.kv) || g.arrived == 0 {
			m.triggers = []metric{{target: 1, err: true}}
			continue
		}
		m.triggers = []metric{{value: float64(w.desired(m, g, engine)), target: 1}}
	}
	return nil
}

func (w *wva) desired(m *model, g gauges, engine *planner.Physics) int {
	in, out := float64(g.prompt)/float64(g.arrived), float64(g.completion)/float64(g.arrived)
	perReplica := g.kv * float64(engine.KVTokens)
	if float64(g.waiting) >= wvaQueue*float64(g.ready) {
		w.seen[m.cfg.Name] = perReplica
	}
	k2, observed := w.seen[m.cfg.Name]
	if !observed || k2 == 0 {
		n := min(float64(engine.MaxBatchedTokens)*out/(in+out), float64(engine.MaxSequences))
		k2 = n * (in + out/2)
	}
	capacity := max(1, min(wvaKV*float64(engine.KVTokens), k2))
	demand := perReplica*float64(g.ready) + float64(g.waiting)*in
	supply, ready := capacity*float64(m.desired), capacity*float64(g.ready)
	if required := demand/wvaGrowAt - supply; required > 0 {
		return m.desired + int(math.Ceil(required/capacity))
	}
	spare := max(0, ready-demand/wvaShrinkAt)
	return max(1, m.desired-int(spare/capacity))
}
