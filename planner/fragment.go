package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fragmentation says what the free GPUs of one pool are worth to replicas of one shape. All counts are of GPUs but Slots,
// Packed, Reclaimable, Reachable (pods) and Groups (replicas of several pods).
//
// A node's slots are min(⌊free GPUs/k⌋, ⌊free CPU/c⌋, ⌊free memory/m⌋, free pods); a dimension that is not asked for, or
// of which the node's free amount is unknown, drops out. Nodes that are not Usable, that are kept for other models, or
// whose GPUs are shared count nowhere.
//
// Invariants: Unusable = FreeGPUs − k·Slots = Remainder + Scatter + Coupling, all ≥ 0. For replicas of several pods
// FreeGPUs − k·n·Groups = Unusable + GroupRemainder + TopologyLoss.
type Fragmentation struct {
	Pool  string `json:"pool"`
	Shape string `json:"shape"`
	// FreeGPUs are free now; those that lower priorities hold are in none of the counts but Reclaimable.
	FreeGPUs int `json:"free_gpus"`
	Slots    int `json:"slots"`
	// Packed is what the same GPUs would hold if they were all on one node.
	Packed   int `json:"slots_if_packed"`
	Unusable int `json:"unusable_gpus"`
	// Remainder is what no packing helps; Scatter what moving pods would; Coupling what CPU, memory or the number of pods
	// keeps from being used, so that requests are to be fixed and not GPUs.
	Remainder int `json:"remainder_gpus"`
	Scatter   int `json:"scatter_gpus"`
	Coupling  int `json:"coupling_gpus"`
	// Groups are the replicas of several pods that fit at the shape's topology level; nil for single pods.
	Groups         *int `json:"groups,omitempty"`
	GroupRemainder int  `json:"group_remainder_gpus,omitempty"`
	// TopologyLoss is what the level costs: GPUs of the replicas that would fit if the pool were one domain.
	TopologyLoss int `json:"topology_loss_gpus,omitempty"`
	// Reclaimable are the slots if pods of lower priority than the model's gave way; nil while the priority of the model's
	// own pods is unknown.
	Reclaimable *int `json:"slots_reclaimable,omitempty"`
	// Reachable adds to Slots what empty nodes bring: those under way and those that may be launched, as far as limits,
	// reservations, the provider's stock and, in a Decision, the model's quota go; nil while the limit is unknown.
	Reachable *int `json:"slots_reachable,omitempty"`
	// FGD is the free GPUs on nodes that hold no slot at all: the measure of Weng et al., "Beware of Fragmentation:
	// Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", ATC 2023, for whole GPUs. It is blind to what
	// is stranded beside a slot, so that it is read beside Unusable and never planned with.
	FGD int `json:"fgd_gpus"`
	// Move is the cheapest move of pods that makes one more slot; nil when there is none, or for replicas of several pods.
	Move *Move `json:"move,omitempty"`
}

// Move is pods that leave a node for others so that one more replica fits. It is advice; nothing carries it out.
type Move struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"` // sorted
}

// String prints the move as the Steps do.
func (m Move) String() string {
	return fmt.Sprintf("moving %s off node %s would make a slot", strings.Join(m.Pods, ", "), m.Node)
}

// Slots is how many pods of shape s the node has room for now: 0 when it is not Usable, or is kept for other models.
func (n *Node) Slots(s Shape, model string) int {
	return n.slotsWith(s, model, n.FreeGPUs)
}

func (n *Node) slotsWith(s Shape, model string, free int) int {
	if !n.open(model) {
		return 0
	}
	slots := free / s.GPUs
	if s.CPU > 0 && n.FreeCPU != nil {
		slots = min(slots, int(*n.FreeCPU/s.CPU))
	}
	if s.Memory > 0 && n.FreeMemory != nil {
		slots = min(slots, int(*n.FreeMemory/s.Memory))
	}
	if n.FreePods != nil {
		slots = min(slots, *n.FreePods)
	}
	return slots
}

// open says whether pods of the model may be bound to the node.
func (n *Node) open(model string) bool {
	return n.Usable && (len(n.OnlyFor) == 0 || slices.Contains(n.OnlyFor, model))
}

// holds says whether replicas of the shape can be in the pool at all. GPUs that are shared are nobody's to count.
func (p *Pool) holds(s Shape) bool {
	return p.Sharing == "" && (s.Product == "" || s.Product == p.Product)
}

// Fragmentation says what the pool's free GPUs are worth to replicas of shape s of the model; ok is false when the pool
// cannot hold the shape. The shape must be valid. Cost: linear in the nodes, times the distinct subsets of one node's
// tenants for the move.
func (p *Pool) Fragmentation(s Shape, model string) (f Fragmentation, ok bool) {
	g := growth{cause: PoolLimit, nodes: launchMax}
	if p.Launchable != nil {
		g.nodes = min(g.nodes, *p.Launchable)
	}
	if p.NoStock {
		g = growth{cause: NoStock}
	}
	return p.fragmentation(s, model, g)
}

// fragmentation is Fragmentation for a pool that may grow so far.
func (p *Pool) fragmentation(s Shape, model string, g growth) (f Fragmentation, ok bool) {
	if !p.holds(s) {
		return Fragmentation{}, false
	}
	f = Fragmentation{Pool: p.Name, Shape: s.String()}
	own, ownKnown := p.priorities()[model]
	byGPUs, reclaimable := 0, 0
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if !n.open(model) {
			continue
		}
		slots := n.Slots(s, model)
		f.FreeGPUs += n.FreeGPUs
		f.Slots += slots
		byGPUs += n.FreeGPUs / s.GPUs
		if slots == 0 {
			f.FGD += n.FreeGPUs
		}
		if ownKnown {
			reclaimable += n.slotsWith(s, model, n.FreeGPUs+n.below(own))
		}
	}
	k := s.GPUs
	f.Packed = f.FreeGPUs / k
	f.Unusable = f.FreeGPUs - k*f.Slots
	f.Remainder, f.Scatter, f.Coupling = f.FreeGPUs-k*f.Packed, k*(f.Packed-byGPUs), k*(byGPUs-f.Slots)
	if ownKnown {
		f.Reclaimable = &reclaimable
	}
	f.Reachable = p.reachable(ask{s, model}, f.Slots, g)
	if s.Pods > 1 {
		f.groups(p, s, model)
	} else {
		f.Move = p.cheapestMove(s, model)
	}
	return f, true
}

// groups fills what is about replicas of several pods. The levels nest by construction: node, domain, pool.
func (f *Fragmentation) groups(p *Pool, s Shape, model string) {
	domains := map[string]int{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		key := ""
		switch {
		case s.Topology == "":
		case s.Topology == topologyNode || n.Domain == "": // a node without the label is its own domain
			key = "node " + n.Name
		default:
			key = "domain " + n.Domain
		}
		domains[key] += n.Slots(s, model)
	}
	groups := 0
	for _, slots := range domains {
		groups += slots / s.Pods
	}
	top := f.Slots / s.Pods
	f.Groups = &groups
	f.GroupRemainder = s.GPUs * (f.Slots - s.Pods*top)
	f.TopologyLoss = s.GPUs * s.Pods * (top - groups)
}

// priorities is the lowest scheduling priority of each model's own pods in the pool, where any is known.
func (p *Pool) priorities() map[string]int {
	out := map[string]int{}
	for i := range p.Nodes {
		for _, t := range p.Nodes[i].Tenants {
			if t.Model == "" || t.Priority == nil {
				continue
			}
			if lowest, ok := out[t.Model]; !ok || *t.Priority < lowest {
				out[t.Model] = *t.Priority
			}
		}
	}
	return out
}

// below is the GPUs of the node's pods of a lower priority; one of unknown priority stays.
func (n *Node) below(priority int) int {
	gpus := 0
	for _, t := range n.Tenants {
		if t.Priority != nil && *t.Priority < priority {
			gpus += t.GPUs
		}
	}
	return gpus
}

// reachable adds nodes under way, and those that may be launched. What is under way comes whatever the stock is now.
func (p *Pool) reachable(a ask, slots int, g growth) *int {
	empty := p.emptyNode()
	perNode := empty.slots(a)
	slots += p.Launching * perNode
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Launching && !n.Usable {
			room := roomOf(n)
			slots += room.slots(a)
		}
	}
	switch {
	case perNode == 0 || g.cause == NoStock && g.nodes == 0:
	case p.Launchable == nil && !p.Static && len(p.Reservations) == 0:
		return nil
	default:
		slots += g.nodes * perNode
	}
	return &slots
}

// ModelSlots is the worth of one pool's free GPUs to some models: those that have the same shape, and of which neither the
// nodes that are kept for them nor their priority makes a difference.
type ModelSlots struct {
	Models []string `json:"models"` // sorted
	Fragmentation
}

// alike are the models for which a pool is worth the same.
type alike struct {
	pool     int
	shape    Shape
	own      string // the model itself where nodes are kept for some
	quota    int    // the pods that its quota admits
	priority int
	known    bool
}

// modelSlots is the worth of every pool to every model that can be in it, by the pool's name, then by the first model.
// It is computed once for all models that are alike. quota is the pods beyond those there are that a model's quota admits.
func modelSlots(s State, g growthRules, quota func(model int) int) []ModelSlots {
	if s.Inventory == nil {
		return nil
	}
	pools := make([]*Pool, 0, len(s.Inventory.Pools))
	for i := range s.Inventory.Pools {
		pools = append(pools, &s.Inventory.Pools[i])
	}
	slices.SortStableFunc(pools, func(a, b *Pool) int { return cmp.Compare(a.Name, b.Name) })
	var out []ModelSlots
	for i, p := range pools {
		at := map[alike]int{}
		kept := slices.ContainsFunc(p.Nodes, func(n Node) bool { return len(n.OnlyFor) > 0 })
		priorities, growth := p.priorities(), g.of(p)
		for k := range s.Models {
			m := &s.Models[k]
			if m.Shape == (Shape{}) || !p.holds(m.Shape) {
				continue
			}
			key := alike{pool: i, shape: m.Shape, quota: quota(k)}
			if kept {
				key.own = m.Name
			}
			key.priority, key.known = priorities[m.Name]
			if same, ok := at[key]; ok {
				out[same].Models = append(out[same].Models, m.Name)
				continue
			}
			f, _ := p.fragmentation(m.Shape, m.Name, growth)
			if f.Reachable != nil {
				*f.Reachable = min(*f.Reachable, max(f.Slots, key.quota))
			}
			at[key] = len(out)
			out = append(out, ModelSlots{Models: []string{m.Name}, Fragmentation: f})
		}
	}
	return out
}

// String prints the numbers that are not zero beside what fits.
func (f Fragmentation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d GPUs free hold %s of %s", f.FreeGPUs, plural(f.Slots, "pod"), f.Shape)
	if f.Groups != nil {
		fmt.Fprintf(&b, " in %s", plural(*f.Groups, "whole replica"))
	}
	if f.Unusable > 0 {
		fmt.Fprintf(&b, "; %d unusable (remainder %d, scatter %d, coupling %d)", f.Unusable, f.Remainder, f.Scatter, f.Coupling)
	}
	if f.TopologyLoss > 0 {
		fmt.Fprintf(&b, "; topology loses %d", f.TopologyLoss)
	}
	if f.FGD > 0 {
		fmt.Fprintf(&b, "; FGD %d", f.FGD)
	}
	if f.Reclaimable != nil && *f.Reclaimable != f.Slots {
		fmt.Fprintf(&b, "; %d if lower priorities gave way", *f.Reclaimable)
	}
	if f.Reachable == nil {
		b.WriteString("; how many more nodes may be launched is unknown")
	} else if *f.Reachable != f.Slots {
		fmt.Fprintf(&b, "; %d with nodes under way or launchable", *f.Reachable)
	}
	if f.Move != nil {
		b.WriteString("; " + f.Move.String())
	}
	return b.String()
}
