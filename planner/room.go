package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

// ask is what is looked for in a room: pods of a shape, for one model.
type ask struct {
	Shape
	model string
}

// room is the free hardware during one Decide: placing a replica takes from it, so that two models never count the same
// slot. A nil room is unknown hardware.
type room struct {
	pools []poolRoom // sorted by name
}

// poolRoom is the free hardware of one pool.
type poolRoom struct {
	pool *Pool
	// ready are the nodes that take pods now; coming are those under way and those that this Decision launches, which
	// nobody's next replica may take for running ones.
	ready, coming rack
	empty         nodeRoom // a node of the pool with nothing on it
	added         int      // nodes to be launched into the pool
	buffered      int      // of these, for buffers
	why           []string // the models they are for
	growth        growth
}

// rack is some nodes. They are sorted by domain, then name, so that the order in which an inventory lists them cannot
// reach the Decision.
type rack struct {
	nodes []nodeRoom
	// byFree lists, per number of free GPUs, the nodes that had it; an entry is stale once its node has fewer. count is
	// how many entries are not.
	byFree [][]int
	count  []int
	free   int  // GPUs, over all nodes
	kept   bool // some nodes are kept for some models
}

// unknownAmount marks what is not known to be limited on a node.
const unknownAmount = -1

type nodeRoom struct {
	name, domain string
	free         int
	cpu          MilliCPU // unknownAmount when unknown, as memory and pods
	memory       Bytes
	pods         int
	only         []string // the models it is kept for; empty for all
}

// roomOf is what node n has left.
func roomOf(n *Node) nodeRoom {
	out := nodeRoom{name: n.Name, domain: n.Domain, free: n.FreeGPUs, cpu: unknownAmount, memory: unknownAmount,
		pods: unknownAmount, only: n.OnlyFor}
	if out.domain == "" {
		out.domain = "node " + n.Name // its own
	}
	if n.FreeCPU != nil {
		out.cpu = *n.FreeCPU
	}
	if n.FreeMemory != nil {
		out.memory = *n.FreeMemory
	}
	if n.FreePods != nil {
		out.pods = *n.FreePods
	}
	return out
}

// takes says whether pods of the model may be bound to the node.
func (n *nodeRoom) takes(model string) bool {
	return len(n.only) == 0 || slices.Contains(n.only, model)
}

// slots is how many pods of the ask the node has room for.
func (n *nodeRoom) slots(a ask) int {
	if !n.takes(a.model) {
		return 0
	}
	slots := n.free / a.GPUs
	if a.CPU > 0 && n.cpu != unknownAmount {
		slots = min(slots, int(n.cpu/a.CPU))
	}
	if a.Memory > 0 && n.memory != unknownAmount {
		slots = min(slots, int(n.memory/a.Memory))
	}
	if n.pods != unknownAmount {
		slots = min(slots, n.pods)
	}
	return slots
}

// launchMax bounds how many nodes one Decision asks of a pool whose limit is unknown, so that an absurd load (a unit
// mistake) costs neither memory nor an absurd order.
const launchMax = 10_000

// newRoom is the free hardware of inv at now. Pools whose GPUs are shared have none to count. Nodes that go away soon,
// with the reservation that they are of, take no new replicas.
func newRoom(inv *Inventory, g growthRules) *room {
	if inv == nil {
		return nil
	}
	r := &room{pools: make([]poolRoom, 0, len(inv.Pools))}
	for i := range inv.Pools {
		pool := &inv.Pools[i]
		p := poolRoom{pool: pool, empty: pool.emptyNode(), growth: g.of(pool)}
		for k := range pool.Nodes {
			n := &pool.Nodes[k]
			switch {
			case n.FreeGPUs <= 0 || pool.Sharing != "" || n.endsBy(g.now.Add(goneSoon)):
			case n.Usable:
				p.ready.nodes = append(p.ready.nodes, roomOf(n))
			case n.Launching:
				p.coming.nodes = append(p.coming.nodes, roomOf(n))
			}
		}
		for k := range pool.Launching {
			p.coming.nodes = append(p.coming.nodes, p.newNode(fmt.Sprintf("launching %04d", k), "launching"))
		}
		p.ready.sort()
		p.coming.sort()
		r.pools = append(r.pools, p)
	}
	slices.SortStableFunc(r.pools, func(a, b poolRoom) int { return cmp.Compare(a.pool.Name, b.pool.Name) })
	return r
}

// goneSoon is how long a node must stay for a new replica to be worth its start.
const goneSoon = 30 * time.Minute

func (p *poolRoom) newNode(name, domain string) nodeRoom {
	n := p.empty
	n.name, n.domain = name, domain
	return n
}

func (k *rack) sort() {
	slices.SortStableFunc(k.nodes, func(a, b nodeRoom) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.name, b.name))
	})
	for i := range k.nodes {
		k.file(i)
		k.kept = k.kept || len(k.nodes[i].only) > 0
	}
}

// file enters node i under its number of free GPUs.
func (k *rack) file(i int) {
	f := k.nodes[i].free
	for len(k.byFree) <= f {
		k.byFree, k.count = append(k.byFree, nil), append(k.count, 0)
	}
	k.byFree[f] = append(k.byFree[f], i)
	k.count[f]++
	k.free += f
}

// occupy puts pods of the ask on node i.
func (k *rack) occupy(i, pods int, a ask) {
	n := &k.nodes[i]
	k.count[n.free]--
	k.free -= n.free
	n.free -= pods * a.GPUs
	if n.cpu != unknownAmount {
		n.cpu -= MilliCPU(pods) * a.CPU
	}
	if n.memory != unknownAmount {
		n.memory -= Bytes(pods) * a.Memory
	}
	if n.pods != unknownAmount {
		n.pods -= pods
	}
	k.file(i)
}

// fullest is the node with the fewest free GPUs that has room for a pod of the ask.
func (k *rack) fullest(a ask) (node int, ok bool) {
	for f := a.GPUs; f < len(k.byFree); f++ {
		if k.count[f] == 0 {
			continue
		}
		stale := 0
		for at, i := range k.byFree[f] {
			if k.nodes[i].free != f {
				if stale == at {
					stale++
				}
				continue
			}
			if k.nodes[i].slots(a) > 0 {
				k.byFree[f] = k.byFree[f][stale:] // what lies before is stale for good
				return i, true
			}
		}
		k.byFree[f] = k.byFree[f][stale:]
	}
	return 0, false
}

// freeFor is the free GPUs on nodes that take the model's pods, and the most on one of them.
func (k *rack) freeFor(model string) (free, hole int) {
	if k.kept {
		for i := range k.nodes {
			if n := &k.nodes[i]; n.takes(model) {
				free, hole = free+n.free, max(hole, n.free)
			}
		}
		return free, hole
	}
	for f := len(k.count) - 1; f > 0 && hole == 0; f-- {
		if k.count[f] > 0 {
			hole = f
		}
	}
	return k.free, hole
}

// fits reports whether there is room for a replica.
func (k *rack) fits(a ask) bool {
	if a.Pods > 1 {
		_, _, ok := k.tightest(a)
		return ok
	}
	_, ok := k.fullest(a)
	return ok
}

// take places up to want replicas and returns how many fitted. One pod goes to the fullest node that holds it (best fit,
// so that large holes stay large); several pods go to the domain with the fewest pod slots that suffice.
func (k *rack) take(a ask, want int) int {
	fitted := 0
	for fitted < want {
		if a.Pods > 1 {
			from, to, ok := k.tightest(a)
			if !ok {
				break
			}
			k.fill(a, from, to)
			fitted++
			continue
		}
		i, ok := k.fullest(a)
		if !ok {
			break
		}
		n := min(want-fitted, k.nodes[i].slots(a))
		k.occupy(i, n, a)
		fitted += n
	}
	return fitted
}

// fill puts the pods of one replica on nodes [from, to), each on the fullest that holds it.
func (k *rack) fill(a ask, from, to int) {
	for range a.Pods {
		best := -1
		for i := from; i < to; i++ {
			if n := &k.nodes[i]; n.slots(a) > 0 && (best < 0 || n.free < k.nodes[best].free) {
				best = i
			}
		}
		k.occupy(best, 1, a)
	}
}

// tightest is the run of nodes [from, to) that is one domain of the shape's topology level, has room for all its pods,
// and has the fewest pod slots that suffice; the first by name of several. Without a topology level the rack is one
// domain.
func (k *rack) tightest(a ask) (from, to int, ok bool) {
	fewest := 0
	for start := 0; start < len(k.nodes); {
		slots, end := 0, start
		for ; end < len(k.nodes) && a.together(k.nodes[start], k.nodes[end]); end++ {
			slots += k.nodes[end].slots(a)
		}
		if slots >= a.Pods && (!ok || slots < fewest) {
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

// nodesFor is how many new nodes one replica needs in the pool; 0 when an empty node of it is too small, or not for the
// model.
func (p *poolRoom) nodesFor(a ask) int {
	perNode := p.empty.slots(a)
	if perNode < 1 || a.Topology == topologyNode && perNode < a.Pods {
		return 0
	}
	return (a.Pods + perNode - 1) / perNode
}

// launchable is how many more nodes may be launched into pool i now. Pools of one group share its limits.
func (r *room) launchable(i int) int {
	left := r.pools[i].growth.nodes
	for k := range r.pools {
		if k == i || r.pools[i].pool.Group != "" && r.pools[k].pool.Group == r.pools[i].pool.Group {
			left -= r.pools[k].added
		}
	}
	return max(0, left)
}

// launch adds nodes to pool i for up to want replicas, places these, and returns how many.
func (r *room) launch(i int, a ask, want int) int {
	p := &r.pools[i]
	nodes, placed := p.nodesFor(a), 0
	if nodes == 0 {
		return 0
	}
	for placed < want && nodes <= r.launchable(i) {
		domain := fmt.Sprintf("new %d", p.added)
		for range nodes {
			p.coming.nodes = append(p.coming.nodes, p.newNode(fmt.Sprintf("new %d", p.added), domain))
			p.coming.file(len(p.coming.nodes) - 1)
			p.added++
		}
		placed += p.coming.take(a, want-placed) // there may be room for more than the one replica they were launched for
	}
	if placed > 0 {
		p.why = append(p.why, a.model)
	}
	return placed
}

// landed is where replicas were placed; pools counts them by pool.
type landed struct {
	ready, coming, launched, nowhere int
	pools                            []int
}

func (l landed) placed() int { return l.ready + l.coming + l.launched }

// put places up to want replicas: on running nodes, on those under way, on nodes to be launched, in this order.
// steadily leaves out pools whose nodes may be taken away at any time.
func (r *room) put(a ask, want int, steadily bool) landed {
	l := landed{pools: make([]int, len(r.pools))}
	pools := func(place func(i int, left int) int) (n int) {
		for i := range r.pools {
			if r.pools[i].pool.holds(a.Shape) && !(steadily && r.pools[i].pool.Spot) {
				placed := place(i, want-l.placed()-n)
				l.pools[i] += placed
				n += placed
			}
		}
		return n
	}
	l.ready = pools(func(i, left int) int { return r.pools[i].ready.take(a, left) })
	l.coming = pools(func(i, left int) int { return r.pools[i].coming.take(a, left) })
	l.launched = pools(func(i, left int) int { return r.launch(i, a, left) })
	l.nowhere = want - l.placed()
	return l
}

// freeGPUs is what is free on running nodes that take the model's pods, usable or not by them, and hole the most of it on
// one node.
func (r *room) freeGPUs(a ask) (free, hole int) {
	for i := range r.pools {
		if !r.pools[i].pool.holds(a.Shape) {
			continue
		}
		f, h := r.pools[i].ready.freeFor(a.model)
		free, hole = free+f, max(hole, h)
	}
	return free, hole
}

// path is the start path of the next replica, and whether there is any slot for it at all. under is the pool whose node
// under way has the slot; empty when it is not on one.
func (r *room) path(a ask) (path coldstart.Path, under string, ok bool) {
	launchable := false
	for i := range r.pools {
		p := &r.pools[i]
		if !p.pool.holds(a.Shape) {
			continue
		}
		if p.ready.fits(a) {
			return coldstart.WarmNode, "", true
		}
		if under == "" && p.coming.fits(a) {
			under = p.pool.Name
		}
		if n := p.nodesFor(a); n > 0 && n <= r.launchable(i) {
			launchable = true
		}
	}
	return coldstart.ColdNode, under, launchable || under != ""
}

// added is how many nodes are to be launched, per pool.
func (r *room) added() []int {
	added := make([]int, len(r.pools))
	for i := range r.pools {
		added[i] = r.pools[i].added
	}
	return added
}

// names are the models the pool's new nodes are for.
func (p *poolRoom) names() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(p.why))), ", ")
}
