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
	free, held, closed, open, launching := 0, 0, 0, 0, p.Launching
	for _, n := range p.Nodes {
		held += n.GPUs - n.FreeGPUs
		switch {
		case n.Usable:
			free += n.FreeGPUs
			open++
		case n.Launching:
			launching++
			closed += n.FreeGPUs
		default:
			closed += n.FreeGPUs
		}
	}
	g.gpus.WithLabelValues(p.Name, "free").Set(float64(free))
	g.gpus.WithLabelValues(p.Name, "held").Set(float64(held))
	g.gpus.WithLabelValues(p.Name, "closed").Set(float64(closed))
	g.nodes.WithLabelValues(p.Name, "open").Set(float64(open))
	g.nodes.WithLabelValues(p.Name, "closed").Set(float64(len(p.Nodes) - open - (launching - p.Launching)))
	g.nodes.WithLabelValues(p.Name, "launching").Set(float64(launching))
}

// targetGauges show what the latest plan asks of what the models share, and what the free GPUs are worth to them. Each
// plan replaces all of them: what a plan does not name is absent.
type targetGauges struct {
	nodes, buffers, quotas, shortfalls, unusable, slots *prometheus.GaugeVec
}

func (g *targetGauges) observe(d *planner.Decision) {
	for _, v := range []*prometheus.GaugeVec{g.nodes, g.buffers, g.quotas, g.shortfalls, g.unusable, g.slots} {
		v.Reset()
	}
	for _, p := range d.Pools {
		g.nodes.WithLabelValues(p.Pool, string(p.By)).Set(float64(p.Nodes))
	}
	for _, b := range d.Buffers {
		g.buffers.WithLabelValues(b.Model, b.Pool).Set(float64(b.Replicas))
	}
	for _, q := range d.Quotas {
		g.quotas.WithLabelValues(q.Queue, q.Flavor, q.Resource).Set(float64(q.Nominal))
	}
	for _, s := range d.Shortfalls {
		g.shortfalls.WithLabelValues(s.Model, string(s.Cause)).Add(float64(s.Replicas))
	}
	worst := map[[2]string]int{}
	for _, s := range d.Slots {
		key := [2]string{s.Pool, s.Shape}
		if most, seen := worst[key]; seen && most >= s.Unusable {
			continue // models that the pool's nodes are kept for differently: the one that can use the least is shown
		}
		worst[key] = s.Unusable
		g.observeSlots(&s.Fragmentation)
	}
}

func (g *targetGauges) observeSlots(f *planner.Fragmentation) {
	for cause, gpus := range map[string]int{"remainder": f.Remainder + f.GroupRemainder, "scatter": f.Scatter, "coupling": f.Coupling,
		"topology": f.TopologyLoss} {
		g.unusable.WithLabelValues(f.Pool, f.Shape, cause).Set(float64(gpus))
	}
	g.slots.WithLabelValues(f.Pool, f.Shape, "now").Set(float64(f.Slots))
	if f.Reachable != nil {
		g.slots.WithLabelValues(f.Pool, f.Shape, "reachable").Set(float64(*f.Reachable))
	} else {
		g.slots.DeleteLabelValues(f.Pool, f.Shape, "reachable")
	}
}
