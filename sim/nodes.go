package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// pool is the state of one Pool.
type pool struct {
	cfg      Pool
	nodes    []*node // sorted by name
	launched int     // nodes ever launched, which numbers their names
}

// node is one machine. It is under way until ready.
type node struct {
	name     string
	pool     *pool
	gpus     int
	others   int
	used     int // by our replicas
	cached   map[string]bool
	launched bool // by us: goes when it stays empty
	gone     bool
	cordoned bool // nothing more is placed here
	ordered  int64
	running  int64 // instant at which its instance runs
	ready    int64 // instant at which its GPUs are allocatable
	actor    *actor
}

func (n *node) free() int { return n.gpus - n.others - n.used }

func (c *Cluster) newPool(cfg Pool) *pool {
	p := &pool{cfg: cfg}
	for _, nc := range cfg.Nodes {
		n := &node{name: nc.Name, pool: p, gpus: nc.GPUs, others: nc.Others, cached: map[string]bool{},
			ordered: c.now, running: c.now, ready: c.now}
		for _, m := range nc.Cached {
			n.cached[m] = true
		}
		p.nodes = append(p.nodes, n)
	}
	slices.SortFunc(p.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return p
}

// packings are the ways to choose a node; empty is most-allocated.
var packings = []string{"", mostAllocated, leastAllocated, leastFragmenting}

const (
	mostAllocated    = "most-allocated"  // the fewest free GPUs that suffice, so that large holes stay whole
	leastAllocated   = "least-allocated" // the most free GPUs, the scheduler's default
	leastFragmenting = "fgd"             // where fragmentation grows least (Weng et al., FGD, ATC 2023), then most-allocated
)

// findNode is the node that a replica of m goes to: one that is ready before one under way, then by the packing, then by
// name. nil when none has room.
func (c *Cluster) findNode(m *model) *node {
	var best *node
	better := func(a, b *node) bool {
		if ar, br := a.ready <= c.now, b.ready <= c.now; ar != br {
			return ar
		}
		switch c.world.Packing {
		case leastAllocated:
			return a.free() > b.free()
		case leastFragmenting:
			if x, y := c.fragmentation(a, m.cfg.Shape.GPUs), c.fragmentation(b, m.cfg.Shape.GPUs); x != y {
				return x < y
			}
		}
		return a.free() < b.free()
	}
	for _, p := range c.pools {
		if !p.fits(m) {
			continue
		}
		for _, n := range p.nodes {
			if !n.cordoned && n.free() >= m.cfg.Shape.GPUs && (best == nil || better(n, best)) {
				best = n
			}
		}
	}
	return best
}

// fragmentation is how many more free GPUs of a node the models cannot use once so many of them are taken: for each model
// that runs on its product the free GPUs count where a replica does not fit any more, all models alike.
func (c *Cluster) fragmentation(n *node, taken int) int {
	grown := 0
	for _, m := range c.models {
		if !n.pool.fits(m) {
			continue
		}
		unusable := func(free int) int {
			if free < m.cfg.Shape.GPUs {
				return free
			}
			return 0
		}
		grown += unusable(n.free()-taken) - unusable(n.free())
	}
	return grown
}

func (p *pool) fits(m *model) bool {
	return m.cfg.Shape.Product == "" || m.cfg.Shape.Product == p.cfg.Product
}

// launchNode orders a node that holds a replica of m from the first pool that has room; nil when none has.
func (c *Cluster) launchNode(m *model) *node {
	for _, p := range c.pools {
		if !p.fits(m) || p.cfg.GPUsPerNode < m.cfg.Shape.GPUs || len(p.nodes) >= p.cfg.NodesMax ||
			c.now < c.troubles.noStock[p.cfg.Name] {
			continue
		}
		p.launched++
		r := newStream(c.seed, purposeNode, nameSeed(p.cfg.Name), uint64(p.launched))
		n := &node{name: fmt.Sprintf("%s-launched-%04d", p.cfg.Name, p.launched), pool: p, gpus: p.cfg.GPUsPerNode,
			cached: map[string]bool{}, launched: true, ordered: c.now}
		n.running = c.now + int64(p.cfg.Launch.draw(r.Rand))
		n.ready = n.running + int64(p.cfg.Ready.draw(r.Rand))
		n.actor = c.timeline.add(func() { c.nodeEvent(n) })
		c.accountUpTo(c.now)
		p.nodes = append(p.nodes, n)
		slices.SortFunc(p.nodes, func(a, b *node) int { return strings.Compare(a.name, b.name) })
		c.timeline.set(n.actor, n.ready)
		return n
	}
	return nil
}

// nodeEvent handles a launched node that became ready, or stood empty long enough to be given back.
func (c *Cluster) nodeEvent(n *node) {
	if n.used == 0 && n.pool.cfg.IdleAfter > 0 && c.now > n.ready {
		c.removeNode(n)
		return
	}
	c.accountUpTo(c.now)
	c.watchIdle(n)
	c.seatPending()
}

// watchIdle starts or stops the clock of an empty launched node.
func (c *Cluster) watchIdle(n *node) {
	if !n.launched || n.gone || c.now < n.ready {
		return
	}
	at := int64(never)
	if n.used == 0 && n.pool.cfg.IdleAfter > 0 {
		at = c.now + int64(n.pool.cfg.IdleAfter)
	}
	c.timeline.set(n.actor, at)
}

func (c *Cluster) removeNode(n *node) {
	c.accountUpTo(c.now)
	n.gone = true
	n.pool.nodes = slices.DeleteFunc(n.pool.nodes, func(o *node) bool { return o == n })
	if n.actor != nil {
		c.timeline.set(n.actor, never)
	}
}

// FailNode takes a node away at the present instant, as a machine that dies: the requests in its replicas are lost,
// starts on it fail, and the replicas are ordered anew elsewhere. It returns an error when there is no such node.
func (c *Cluster) FailNode(name string) error {
	n := c.node(name)
	if n == nil {
		return fmt.Errorf("sim: failing node %q: there is no such node", name)
	}
	c.removeNode(n) // first, so that nobody is seated on it
	for _, m := range c.models {
		for _, r := range slices.Clone(m.replicas) {
			if r.node == n {
				c.lose(r)
			}
		}
	}
	for _, m := range c.models {
		c.reconcile(m)
	}
	return nil
}

func (c *Cluster) node(name string) *node {
	for _, p := range c.pools {
		for _, n := range p.nodes {
			if n.name == name {
				return n
			}
		}
	}
	return nil
}

// interval is a stretch [from, to) of Unix nanoseconds.
type interval struct{ from, to int64 }

// gapsMax bounds the gaps that a world remembers.
const gapsMax = 10_000

// MetricsGap makes the metrics of [from, to) missing: load, waiting and running are unknown to an Observe in it, the
// sibling trigger is in error, and steps of load that touch it stay missing for ever, since they were never collected.
// Replicas and inventory come from the API server and stay known.
func (c *Cluster) MetricsGap(from, to time.Time) error {
	if !from.Before(to) {
		return fmt.Errorf("sim: metrics gap from %s to %s: an end after the start is allowed",
			from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	if len(c.gaps) >= gapsMax {
		return fmt.Errorf("sim: metrics gap from %s: there are %d gaps already, which is the limit",
			from.Format(time.RFC3339), gapsMax)
	}
	c.gaps = append(c.gaps, interval{from.UnixNano(), to.UnixNano()})
	return nil
}

// blind reports whether metrics are missing at an instant.
func (c *Cluster) blind(at int64) bool {
	return slices.ContainsFunc(c.gaps, func(g interval) bool { return g.from <= at && at < g.to })
}

// gapTouches reports whether metrics are missing at any instant of [from, to).
func (c *Cluster) gapTouches(from, to int64) bool {
	return slices.ContainsFunc(c.gaps, func(g interval) bool { return g.from < to && from < g.to })
}
