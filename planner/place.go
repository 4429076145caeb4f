package planner

import (
	"fmt"

	"forewarm/coldstart"
)

// room is the free hardware during one Decide: placing a replica takes from it, so that two models never count the same
// slot. A nil room is unknown hardware.
type room struct {
	pools []poolRoom
}

type poolRoom struct {
	pool  *Pool
	nodes []nodeRoom
	added int // nodes to be launched into the pool
	why   []string
}

type nodeRoom struct {
	domain string
	free   int
}

func newRoom(inv *Inventory) *room {
	if inv == nil {
		return nil
	}
	r := &room{pools: make([]poolRoom, 0, len(inv.Pools))}
	for i := range inv.Pools {
		p := poolRoom{pool: &inv.Pools[i]}
		for _, n := range inv.Pools[i].Nodes {
			if n.Usable && n.FreeGPUs > 0 {
				p.nodes = append(p.nodes, nodeRoom{domain: n.Domain, free: n.FreeGPUs})
			}
		}
		r.pools = append(r.pools, p)
	}
	return r
}

func (p *poolRoom) holds(s Shape) bool { return s.Product == "" || s.Product == p.pool.Product }

// take places one replica and reports whether it fitted. One pod goes to the fullest node that holds it (best fit, so
// that large holes stay large); several pods go to the domain with the fewest pod slots that suffice.
func (p *poolRoom) take(s Shape) bool {
	if s.Pods == 1 {
		best := -1
		for i, n := range p.nodes {
			if n.free >= s.GPUs && (best < 0 || n.free < p.nodes[best].free) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		p.nodes[best].free -= s.GPUs
		return true
	}
	domain, ok := p.tightestDomain(s)
	if !ok {
		return false
	}
	left := s.Pods
	for i := range p.nodes {
		for n := &p.nodes[i]; left > 0 && (s.Topology == "" || n.domain == domain) && n.free >= s.GPUs; left-- {
			n.free -= s.GPUs
		}
	}
	return true
}

// tightestDomain is the domain with the fewest pod slots that hold all pods of s. Without a topology level the pool is
// one domain.
func (p *poolRoom) tightestDomain(s Shape) (domain string, ok bool) {
	slots := map[string]int{}
	for _, n := range p.nodes {
		d := n.domain
		if s.Topology == "" {
			d = ""
		}
		slots[d] += n.free / s.GPUs
	}
	best := 0
	for d, n := range slots {
		// Ties go to the smaller name: map order must not reach the Decision.
		if n >= s.Pods && (!ok || n < best || n == best && d < domain) {
			domain, best, ok = d, n, true
		}
	}
	return domain, ok
}

// nodesFor is how many new nodes one replica needs in the pool; ok is false when the pool's nodes are too small, may
// not be launched, or are out of stock. An unknown limit is taken as room: the launch itself will tell.
func (p *poolRoom) nodesFor(s Shape) (n int, ok bool) {
	perNode := p.pool.GPUsPerNode / s.GPUs
	if perNode < 1 || p.pool.NoStock {
		return 0, false
	}
	n = (s.Pods + perNode - 1) / perNode
	if l := p.pool.Launchable; l != nil && p.added+n > *l {
		return 0, false
	}
	return n, true
}

// launch adds the nodes for one replica and places it on them.
func (p *poolRoom) launch(s Shape, model string) bool {
	n, ok := p.nodesFor(s)
	if !ok {
		return false
	}
	for range n {
		p.nodes = append(p.nodes, nodeRoom{domain: "to be launched", free: p.pool.GPUsPerNode})
	}
	p.added += n
	p.why = append(p.why, model)
	return p.take(s)
}

// freeGPUs is what is free in the pools that can hold the shape, usable or not by it.
func (r *room) freeGPUs(s Shape) int {
	free := 0
	for i := range r.pools {
		if r.pools[i].holds(s) {
			for _, n := range r.pools[i].nodes {
				free += n.free
			}
		}
	}
	return free
}

// largestHole is the largest number of free GPUs on one node.
func (r *room) largestHole(s Shape) int {
	hole := 0
	for i := range r.pools {
		if r.pools[i].holds(s) {
			for _, n := range r.pools[i].nodes {
				hole = max(hole, n.free)
			}
		}
	}
	return hole
}

// path is the start path of the next replica of shape s, and whether there is any slot for it at all.
func (r *room) path(s Shape) (coldstart.Path, bool) {
	launchable := false
	for i := range r.pools {
		p := &r.pools[i]
		if !p.holds(s) {
			continue
		}
		if _, ok := p.tightestDomain(s); ok {
			return coldstart.WarmNode, true
		}
		if _, ok := p.nodesFor(s); ok {
			launchable = true
		}
	}
	return coldstart.ColdNode, launchable
}

// probe asks which slot the next replica would get and reads the lead time of that start path.
func (c *course) probe(r *room) {
	path, where := coldstart.PathUnknown, "the hardware is unknown, so the slowest start path counts"
	if r != nil {
		slot := false
		path, slot = r.path(c.state.Shape)
		switch {
		case path == coldstart.WarmNode:
			where = "a running node has room for a replica of " + c.state.Shape.String()
		case slot:
			where = fmt.Sprintf("no running node has room for a replica of %s (%d GPUs free, largest hole %d): a node must be launched",
				c.state.Shape, r.freeGPUs(c.state.Shape), r.largestHole(c.state.Shape))
		default:
			where = fmt.Sprintf("no node has or can get room for a replica of %s (%d GPUs free, largest hole %d)",
				c.state.Shape, r.freeGPUs(c.state.Shape), r.largestHole(c.state.Shape))
		}
	}
	lt, known := c.leadTimeOf(path)
	if !known {
		c.step(StageProbe, nil, where+"; no lead time is known")
		return
	}
	// Half of the tolerated risk goes to the lead time, half to the load: (1−q) + (1−τ′) ≤ 1−τ.
	q := 1 - (1-c.policy.ServiceLevel)/2
	c.lead = &Lead{Path: lt.Path, Quantile: q, Time: lt.Quantile(q), Basis: lt.Basis, Samples: lt.Samples}
	if lt.Borrowed > 0 {
		c.lead.Borrowed = lt.BorrowedBasis
	}
	c.out.Lead = c.lead
	c.step(StageProbe, nil, where+"; "+c.lead.text())
}

func (l Lead) text() string {
	path := string(l.Path)
	if path == "" {
		path = "any path"
	}
	basis := string(l.Basis)
	switch l.Basis {
	case coldstart.Stated:
		basis = "stated, not measured"
	default:
		basis = fmt.Sprintf("%s, %d starts", basis, l.Samples)
	}
	if l.Borrowed != "" {
		basis += ", topped up from " + string(l.Borrowed) + " ones"
	}
	return fmt.Sprintf("lead time %s: q%s of %s (%s)", shortDuration(l.Time), percent(l.Quantile), path, basis)
}

// leadTimeOf is the distribution of a start path. A path that was never measured or stated gets the slowest of those
// that were: a lead time too long orders early, one too short orders late.
func (c *course) leadTimeOf(path coldstart.Path) (coldstart.LeadTime, bool) {
	var slowest coldstart.LeadTime
	found := false
	for _, lt := range c.state.LeadTimes {
		if !lt.Known() {
			continue
		}
		if lt.Path == path && path != coldstart.PathUnknown {
			return lt, true
		}
		if !found || lt.Quantile(slowestAt) > slowest.Quantile(slowestAt) {
			slowest, found = lt, true
		}
	}
	return slowest, found
}

// slowestAt is the quantile by which start paths are compared.
const slowestAt = 0.9

// place puts the replicas beyond the supply into slots; what does not fit is a shortfall with its cause.
func (c *course) place(r *room) {
	if r == nil || !c.supplyOK {
		return
	}
	missing := c.wanted - c.supply
	if missing <= 0 {
		return
	}
	shape := c.state.Shape
	free, hole := r.freeGPUs(shape), r.largestHole(shape)
	fitted, launched := 0, 0
	for fitted+launched < missing {
		switch {
		case r.takeAny(shape):
			fitted++
		case r.launchAny(shape, c.state.Name):
			launched++
		default:
			c.shortfall(r, missing-fitted-launched, free, hole)
			c.step(StagePlace, nil, fmt.Sprintf("%d of %d new replicas fit on running nodes, %d on nodes to be launched, %d nowhere",
				fitted, missing, launched, missing-fitted-launched))
			return
		}
	}
	c.step(StagePlace, nil, fmt.Sprintf("%d of %d new replicas fit on running nodes, %d on nodes to be launched",
		fitted, missing, launched))
}

func (r *room) takeAny(s Shape) bool {
	for i := range r.pools {
		if r.pools[i].holds(s) && r.pools[i].take(s) {
			return true
		}
	}
	return false
}

func (r *room) launchAny(s Shape, model string) bool {
	for i := range r.pools {
		if r.pools[i].holds(s) && r.pools[i].launch(s, model) {
			return true
		}
	}
	return false
}

func (c *course) shortfall(r *room, replicas, free, hole int) {
	shape := c.state.Shape
	f := Shortfall{Model: c.state.Name, Replicas: replicas, Cause: PoolLimit,
		Why: fmt.Sprintf("%d GPUs are free and no pool with %s may grow", free, shape)}
	needs := shape.GPUs * shape.Pods
	if free >= needs {
		f.Cause = Fragmented
		f.Why = fmt.Sprintf("%d GPUs are free, but the largest hole is %d and a replica is %s", free, hole, shape)
	}
	for i := range r.pools {
		if p := &r.pools[i]; p.holds(shape) && p.pool.NoStock {
			f.Cause, f.Why = NoStock, fmt.Sprintf("pool %s cannot launch nodes: the provider has none", p.pool.Name)
		}
	}
	c.shortfalls = append(c.shortfalls, f)
}
