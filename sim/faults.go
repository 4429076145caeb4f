package sim

import (
	"fmt"
	"strings"
	"time"
)

// Fault is one thing that goes wrong, After the world's start. Exactly one of the others is set, besides For.
type Fault struct {
	After time.Duration `yaml:"after"`
	// For is how long NoStock and SlowRegistry last, and the notice of ReclaimNode.
	For time.Duration `yaml:"for"`
	// FailNode takes a node away at once.
	FailNode string `yaml:"fail_node"`
	// ReclaimNode takes a spot node away after its notice: it is cordoned, its replicas are drained and ordered anew
	// elsewhere, and what is left when the time is up is lost.
	ReclaimNode string `yaml:"reclaim_node"`
	// NoStock is a pool whose launches find no machine. Replicas without a node stay pending and try again.
	NoStock string `yaml:"no_stock"`
	// SlowRegistry is the factor on what starts that begin in this time spend on images and weights from afar.
	SlowRegistry float64 `yaml:"slow_registry"`
	// MetricsGap is how long the metrics store is away, ScalerOutage whatever answers KEDA, and APIOutage the API server, so
	// that no autoscaler syncs.
	MetricsGap   time.Duration `yaml:"metrics_gap"`
	ScalerOutage time.Duration `yaml:"scaler_outage"`
	APIOutage    time.Duration `yaml:"api_outage"`
}

func (s Scenario) checkFault(f Fault) error {
	var p problems
	p.duration("after", f.After, 0, s.Duration)
	p.duration("for", f.For, 0, 24*time.Hour)
	p.duration("metrics_gap", f.MetricsGap, 0, 24*time.Hour)
	p.duration("scaler_outage", f.ScalerOutage, 0, 24*time.Hour)
	p.duration("api_outage", f.APIOutage, 0, 24*time.Hour)
	p.within("slow_registry", f.SlowRegistry, 0, 1000)
	kinds := []struct {
		key        string
		set, lasts bool
	}{
		{"fail_node", f.FailNode != "", false}, {"reclaim_node", f.ReclaimNode != "", true}, {"no_stock", f.NoStock != "", true},
		{"slow_registry", f.SlowRegistry != 0, true}, {"metrics_gap", f.MetricsGap != 0, false},
		{"scaler_outage", f.ScalerOutage != 0, false}, {"api_outage", f.APIOutage != 0, false},
	}
	var set, all []string
	for _, k := range kinds {
		all = append(all, k.key)
		if k.set {
			set = append(set, k.key)
			if k.lasts != (f.For != 0) {
				p.add("for is %v beside %s: it is needed with reclaim_node, no_stock and slow_registry, and with no other", f.For, k.key)
			}
		}
	}
	if len(set) != 1 {
		p.add("%d of %s are there: exactly one is needed", len(set), strings.Join(all, ", "))
	}
	for key, name := range map[string]string{"fail_node": f.FailNode, "reclaim_node": f.ReclaimNode} {
		if name != "" && !s.World.hasNode(name) {
			p.add("%s is %q: a node of this world is allowed", key, name)
		}
	}
	if f.NoStock != "" && !s.World.hasPool(f.NoStock) {
		p.add("no_stock is %q: a pool of this world is allowed", f.NoStock)
	}
	return p.err()
}

func (w World) hasPool(name string) bool {
	for _, p := range w.Pools {
		if p.Name == name {
			return true
		}
	}
	return false
}

func (w World) hasNode(name string) bool {
	for _, p := range w.Pools {
		for _, n := range p.Nodes {
			if n.Name == name {
				return true
			}
		}
	}
	return false
}

// troubles are the faults that last, and until when.
type troubles struct {
	noStock           map[string]int64 // by pool
	registry          float64
	slowUntil         int64
	scalerOut, apiOut int64
}

// strike makes a fault happen at the present. A node that is gone by then cannot fail again: nothing happens.
func (c *Cluster) strike(f Fault) error {
	at := c.Now()
	switch {
	case f.FailNode != "":
		if c.node(f.FailNode) == nil {
			return nil
		}
		return c.FailNode(f.FailNode)
	case f.ReclaimNode != "":
		c.reclaim(c.node(f.ReclaimNode), f.For)
	case f.NoStock != "":
		if c.troubles.noStock == nil {
			c.troubles.noStock = map[string]int64{}
		}
		c.troubles.noStock[f.NoStock] = c.now + int64(f.For)
		over := c.timeline.add(c.seatPending)
		c.timeline.set(over, c.now+int64(f.For))
	case f.SlowRegistry != 0:
		c.troubles.registry, c.troubles.slowUntil = f.SlowRegistry, c.now+int64(f.For)
	case f.MetricsGap != 0:
		return c.MetricsGap(at, at.Add(f.MetricsGap))
	case f.ScalerOutage != 0:
		c.troubles.scalerOut = c.now + int64(f.ScalerOutage)
	case f.APIOutage != 0:
		c.troubles.apiOut = c.now + int64(f.APIOutage)
	}
	return nil
}

// reclaim cordons a node, lets its replicas go and takes the node away after the notice.
func (c *Cluster) reclaim(n *node, notice time.Duration) {
	if n == nil || n.cordoned {
		return
	}
	n.cordoned = true
	for _, m := range c.models {
		for _, r := range append([]*replica(nil), m.replicas...) {
			if r.node == n && r.state != leaving {
				c.release(r)
			}
		}
	}
	for _, m := range c.models {
		c.reconcile(m)
	}
	end := c.timeline.add(func() {
		if !n.gone {
			if err := c.FailNode(n.name); err != nil {
				panic(fmt.Sprintf("sim: %v", err))
			}
		}
	})
	c.timeline.set(end, c.now+int64(notice))
}
