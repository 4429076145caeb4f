package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"forewarm/coldstart"
)

// room is the free hardware during one Decide: placing a replica takes from it, so that two models never count the same
// slot. A nil room is unknown hardware.
type room struct {
	pools []poolRoom // sorted by name
}

// poolRoom is the free hardware of one pool. Nodes are sorted by domain, then name, so that the order in which an
// inventory lists them cannot reach the Decision.
type poolRoom struct {
	pool  *Pool
	nodes []nodeRoom
	// byFree lists, per number of free GPUs, the nodes that had it; an entry is stale once its node has fewer. count is
	// how many entries are not.
	byFree [][]int
	count  []int
	free   int // GPUs, over all nodes
	added  int // nodes to be launched into the pool
	why    []string
}

type nodeRoom struct {
	name, domain string
	free         int
}

// launchMax bounds how many nodes one Decision asks of a pool whose limit is unknown, so that an absurd load (a unit
// mistake) costs neither memory nor an absurd order.
const launchMax = 10_000

func newRoom(inv *Inventory) *room {
	if inv == nil {
		return nil
	}
	r := &room{pools: make([]poolRoom, 0, len(inv.Pools))}
	for i := range inv.Pools {
		p := poolRoom{pool: &inv.Pools[i]}
		for _, n := range inv.Pools[i].Nodes {
			if !n.Usable || n.FreeGPUs <= 0 {
				continue
			}
			domain := n.Domain
			if domain == "" {
				domain = "node " + n.Name // its own
			}
			p.nodes = append(p.nodes, nodeRoom{name: n.Name, domain: domain, free: n.FreeGPUs})
		}
		slices.SortStableFunc(p.nodes, func(a, b nodeRoom) int {
			return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.name, b.name))
		})
		for i := range p.nodes {
			p.file(i)
		}
		r.pools = append(r.pools, p)
	}
	slices.SortStableFunc(r.pools, func(a, b poolRoom) int { return cmp.Compare(a.pool.Name, b.pool.Name) })
	return r
}

// file enters node i under its number of free GPUs.
func (p *poolRoom) file(i int) {
	f := p.nodes[i].free
	for len(p.byFree) <= f {
		p.byFree, p.count = append(p.byFree, nil), append(p.count, 0)
	}
	p.byFree[f] = append(p.byFree[f], i)
	p.count[f]++
	p.free += f
}

// occupy takes GPUs from node i.
func (p *poolRoom) occupy(i, gpus int) {
	p.count[p.nodes[i].free]--
	p.free -= p.nodes[i].free
	p.nodes[i].free -= gpus
	p.file(i)
}

// fullest is the node with the fewest free GPUs that are at least gpus.
func (p *poolRoom) fullest(gpus int) (node int, ok bool) {
	for f := gpus; f < len(p.byFree); f++ {
		if p.count[f] == 0 {
			continue
		}
		for at, i := range p.byFree[f] {
			if p.nodes[i].free == f {
				p.byFree[f] = p.byFree[f][at:] // what lies before is stale for good
				return i, true
			}
		}
	}
	return 0, false
}

// hole is the largest number of free GPUs on one node.
func (p *poolRoom) hole() int {
	for f := len(p.count) - 1; f > 0; f-- {
		if p.count[f] > 0 {
			return f
		}
	}
	return 0
}

func (p *poolRoom) holds(s Shape) bool { return s.Product == "" || s.Product == p.pool.Product }

// take places up to want replicas on the nodes there are and returns how many fitted. One pod goes to the fullest node
// that holds it (best fit, so that large holes stay large); several pods go to the domain with the fewest pod slots that
// suffice.
func (p *poolRoom) take(s Shape, want int) int {
	fitted := 0
	for fitted < want {
		if s.Pods > 1 {
			from, to, ok := p.tightest(s)
			if !ok {
				break
			}
			p.fill(s, from, to)
			fitted++
			continue
		}
		i, ok := p.fullest(s.GPUs)
		if !ok {
			break
		}
		n := min(want-fitted, p.nodes[i].free/s.GPUs)
		p.occupy(i, n*s.GPUs)
		fitted += n
	}
	return fitted
}

// fill puts the pods of one replica on nodes [from, to), each on the fullest that holds it.
func (p *poolRoom) fill(s Shape, from, to int) {
	for range s.Pods {
		best := -1
		for i := from; i < to; i++ {
			if f := p.nodes[i].free; f >= s.GPUs && (best < 0 || f < p.nodes[best].free) {
				best = i
			}
		}
		p.occupy(best, s.GPUs)
	}
}

// tightest is the run of nodes [from, to) that is one domain of the shape's topology level, has room for all its pods,
// and has the fewest pod slots that suffice; the first by name of several. Without a topology level the pool is one
// domain.
func (p *poolRoom) tightest(s Shape) (from, to int, ok bool) {
	fewest := 0
	for start := 0; start < len(p.nodes); {
		slots, end := 0, start
		for ; end < len(p.nodes) && s.together(p.nodes[start], p.nodes[end]); end++ {
			slots += p.nodes[end].free / s.GPUs
		}
		if slots >= s.Pods && (!ok || slots < fewest) {
			from, to, fewest, ok = start, end, slots, true
		}
		start = end
	}
	return from, to, ok
}

// together reports whether pods of one replica may be spread over both nodes.
func (s Shape) together(a, b nodeRoom) bool {
	switch s.Topology {
	case "":
		return true
	case topologyNode:
		return a.name == b.name
	default:
		return a.domain == b.domain
	}
}

// topologyNode is the topology level at which all pods of a replica share one node.
const topologyNode = "node"

// nodesFor is how many new nodes one replica needs in the pool; 0 when the pool's nodes are too small.
func (p *poolRoom) nodesFor(s Shape) int {
	perNode := p.pool.GPUsPerNode / s.GPUs
	if perNode < 1 || s.Topology == topologyNode && perNode < s.Pods {
		return 0
	}
	return (s.Pods + perNode - 1) / perNode
}

// launchable is how many more nodes may be launched now. An unknown limit is taken as room: the launch itself will tell.
func (p *poolRoom) launchable() int {
	if p.pool.NoStock {
		return 0
	}
	if l := p.pool.Launchable; l != nil {
		return min(*l, launchMax) - p.added
	}
	return launchMax - p.added
}

// launch adds nodes for up to want replicas, places these, and returns how many.
func (p *poolRoom) launch(s Shape, want int) int {
	nodes, placed := p.nodesFor(s), 0
	if nodes == 0 {
		return 0
	}
	for placed < want && nodes <= p.launchable() {
		domain := fmt.Sprintf("launch %d", p.added)
		for range nodes {
			p.nodes = append(p.nodes, nodeRoom{name: fmt.Sprintf("new %d", p.added), domain: domain, free: p.pool.GPUsPerNode})
			p.file(len(p.nodes) - 1)
			p.added++
		}
		placed += p.take(s, want-placed) // there may be room for more than the one replica they were launched for
	}
	return placed
}

// freeGPUs is what is free in the pools that can hold the shape, usable or not by it.
func (r *room) freeGPUs(s Shape) int {
	free := 0
	for i := range r.pools {
		if r.pools[i].holds(s) {
			free += r.pools[i].free
		}
	}
	return free
}

// largestHole is the largest number of free GPUs on one node.
func (r *room) largestHole(s Shape) int {
	hole := 0
	for i := range r.pools {
		if r.pools[i].holds(s) {
			hole = max(hole, r.pools[i].hole())
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
		fits := p.hole() >= s.GPUs
		if s.Pods > 1 {
			_, _, fits = p.tightest(s)
		}
		if fits {
			return coldstart.WarmNode, true
		}
		if n := p.nodesFor(s); n > 0 && n <= p.launchable() {
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
		where = c.slotText(r, path, slot)
		if slot || path == coldstart.ColdNode {
			refined, why := r.slotPath(c.state, path)
			path, where = refined, where+why
		}
	}
	lt, known := c.leadTimeOf(path)
	if !known {
		c.step(StageProbe, nil, where+"; no lead time is known")
		return
	}
	if path != coldstart.PathUnknown && lt.Path != path {
		where += fmt.Sprintf(" (nothing is known about starts on a %s: the slowest path that is known stands in)", pathName(path))
	}
	// Half of the tolerated risk; the load is read at τ itself, so together they may miss by up to 1.5·(1−τ).
	q := 1 - (1-c.policy.ServiceLevel)/2
	c.lead = &Lead{Path: lt.Path, Quantile: q, Time: lt.Quantile(q), Basis: lt.Basis, Samples: lt.Samples, Shift: lt.Shift}
	c.out.Lead = c.lead
	c.step(StageProbe, nil, where+"; "+c.lead.text())
}

func (c *course) slotText(r *room, path coldstart.Path, slot bool) string {
	shape := c.state.Shape
	if path == coldstart.WarmNode {
		return "a running node has room for a replica of " + shape.String()
	}
	free := fmt.Sprintf("%d GPUs are free, %d on the emptiest node", r.freeGPUs(shape), r.largestHole(shape))
	if slot {
		return fmt.Sprintf("no running node has room for a replica of %s (%s): a node must be launched", shape, free)
	}
	return fmt.Sprintf("no node has or can get room for a replica of %s (%s)", shape, free)
}

func (l Lead) text() string {
	basis := fmt.Sprintf("%s, %s", l.Basis, plural(l.Samples, "start"))
	if text := l.unmeasured(); text != "" {
		basis = text
	}
	if l.Borrowed != "" {
		basis += ", topped up with " + string(l.Borrowed) + " ones"
	}
	if l.Shift.Starts > 0 {
		basis += fmt.Sprintf(", the newest %d took %.2g times as long as those before", l.Shift.Starts, l.Shift.Factor)
	}
	return fmt.Sprintf("lead time %s (p%s of %s starts; %s)", shortDuration(l.Time), percent(l.Quantile), pathName(l.Path), basis)
}

// unmeasured marks a lead time that a person typed in, or that comes from published figures, in every Step that rests on
// it; "" for one that was measured.
func (l Lead) unmeasured() string {
	switch l.Basis {
	case coldstart.Stated:
		return "stated, not measured"
	case coldstart.Prior:
		return "from published figures for such weights, not measured"
	}
	return ""
}

// brief is the lead time with what must not be forgotten about it.
func (l Lead) brief() string {
	if text := l.unmeasured(); text != "" {
		return shortDuration(l.Time) + " [" + text + "]"
	}
	return shortDuration(l.Time)
}

// pathName is a start path in words.
func pathName(p coldstart.Path) string {
	if p == coldstart.PathUnknown {
		return "all"
	}
	return strings.ReplaceAll(string(p), "_", " ")
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
	fitted := r.takeAny(c.state.Shape, missing)
	before := r.added()
	launched := r.launchAny(c.state.Shape, c.state.Name, missing-fitted)
	nowhere := missing - fitted - launched
	why := fmt.Sprintf("of %d new replicas %d fit on running nodes, %d on nodes to be launched", missing, fitted, launched)
	if nowhere > 0 {
		why += fmt.Sprintf(", %d nowhere", nowhere)
		c.shortfall(r, nowhere)
	}
	c.step(StagePlace, nil, why)
	for i, n := range r.added() {
		if n > before[i] {
			c.step(StagePools, nil, fmt.Sprintf("pool %s: %s more", r.pools[i].pool.Name, plural(n-before[i], "node")))
		}
	}
}

func (r *room) takeAny(s Shape, want int) int {
	fitted := 0
	for i := range r.pools {
		if r.pools[i].holds(s) {
			fitted += r.pools[i].take(s, want-fitted)
		}
	}
	return fitted
}

func (r *room) launchAny(s Shape, model string, want int) int {
	launched := 0
	for i := range r.pools {
		p := &r.pools[i]
		if !p.holds(s) || launched == want {
			continue
		}
		if n := p.launch(s, want-launched); n > 0 {
			launched += n
			p.why = append(p.why, model)
		}
	}
	return launched
}

// added is how many nodes are to be launched, per pool.
func (r *room) added() []int {
	added := make([]int, len(r.pools))
	for i := range r.pools {
		added[i] = r.pools[i].added
	}
	return added
}

// shortfall notes replicas that fit nowhere. The room is what is left after all that fitted was placed. No stock comes
// first because it is the one that passes by itself; fragmentation next, because GPUs that are free can be joined.
func (c *course) shortfall(r *room, replicas int) {
	s := c.state.Shape
	free, needs := r.freeGPUs(s), s.GPUs*s.Pods
	left := fmt.Sprintf("%d GPUs are free, %d on the emptiest node, and a replica needs %s", free, r.largestHole(s), s.demand())
	f := Shortfall{Model: c.state.Name, Replicas: replicas, Cause: PoolLimit, Why: left + "; no pool with such nodes may grow"}
	if free >= needs {
		f.Cause = Fragmented
	}
	for i := range r.pools {
		if p := &r.pools[i]; p.holds(s) && p.pool.NoStock && p.nodesFor(s) > 0 {
			f.Cause, f.Why = NoStock, fmt.Sprintf("pool %s cannot launch nodes, the provider has none; %s", p.pool.Name, left)
			break
		}
	}
	c.shortfalls = append(c.shortfalls, f)
}

// demand is what a replica of the shape needs, in words.
func (s Shape) demand() string {
	if s.Pods == 1 {
		return fmt.Sprintf("%d on one", s.GPUs)
	}
	if s.Topology == "" {
		return fmt.Sprintf("%d on each of %d pods", s.GPUs, s.Pods)
	}
	return fmt.Sprintf("%d on each of %d pods in one %s", s.GPUs, s.Pods, s.Topology)
}
