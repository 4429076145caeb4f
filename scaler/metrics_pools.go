package scaler

import (
	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// poolGauges show the hardware as the planner sees it. What is unknown is absent, never zero.
type poolGauges struct {
	gpus, nodes *prometheus.GaugeVec
	shown       map[string]bool // pools
}

func (g *poolGauges) observe(inv *planner.Inventory) {
	now := map[string]bool{}
	if inv != nil {
		for i := range inv.Pools {
			p := &inv.Pools[i]
			now[p.Name] = true
			g.observePool(p)
		}
	}
	for name := range g.shown {
		if !now[name] {
			g.gpus.DeletePartialMatch(prometheus.Labels{"pool": name})
			g.nodes.DeletePartialMatch(prometheus.Labels{"pool": name})
		}
	}
	g.shown = now
}

func (g *poolGauges) observePool(p *planner.Pool) {
	free, held, closed, open := 0, 0, 0, 0
	for _, n := range p.Nodes {
		held += n.GPUs - n.FreeGPUs
		if n.Usable {
			free += n.FreeGPUs
			open++
		} else {
			closed += n.FreeGPUs
		}
	}
	g.gpus.WithLabelValues(p.Name, "free").Set(float64(free))
	g.gpus.WithLabelValues(p.Name, "held").Set(float64(held))
	g.gpus.WithLabelValues(p.Name, "closed").Set(float64(closed))
	g.nodes.WithLabelValues(p.Name, "open").Set(float64(open))
	g.nodes.WithLabelValues(p.Name, "closed").Set(float64(len(p.Nodes) - open))
	g.nodes.WithLabelValues(p.Name, "launching").Set(float64(p.Launching))
}
