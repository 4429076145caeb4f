package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// cheapestMove is the fewest pods of one node whose move to other nodes of the pool makes the pool hold one more replica
// of a single pod; nil when there is none. Of several with as few pods it is the one that moves the fewest GPUs, then the
// first by node. Pods that are pinned stay. A pod lands on a node that takes every model's pods, or the same models' as
// the one it leaves. What the tenants ask besides GPUs is unknown, so that moves are told by GPUs alone and nodes whose
// CPU, memory or pods already bind are left out.
func (p *Pool) cheapestMove(s Shape, model string) *Move {
	landing := newLanding(p)
	order := make([]int, len(p.Nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Nodes[a].Name, p.Nodes[b].Name) })
	var best *plannedMove
	seen := map[string]bool{}
	for _, i := range order {
		n := &p.Nodes[i]
		if !n.open(model) || n.Slots(s, model) < n.FreeGPUs/s.GPUs {
			continue
		}
		kind := n.kind()
		if seen[kind] {
			continue // what moves off a node like it was found before
		}
		seen[kind] = true
		if m := landing.cheapest(n, s, best); m != nil {
			best = m
		}
	}
	if best == nil {
		return nil
	}
	slices.Sort(best.pods)
	return &Move{Node: best.node, Pods: best.pods}
}

type plannedMove struct {
	node string
	pods []string
	gpus int
}

// landing is the free GPUs that pods can land on: bins[key][f] nodes with f free GPUs, by the models that they are kept
// for. Which node of a kind it is does not matter, so that a cluster of any size is a few counts.
type landing struct {
	bins map[string][]int
	most int
}

func newLanding(p *Pool) *landing {
	l := &landing{bins: map[string][]int{}}
	for _, n := range p.Nodes {
		l.most = max(l.most, n.FreeGPUs)
	}
	for _, n := range p.Nodes {
		if n.Usable && n.FreeGPUs > 0 {
			l.add(only(&n), n.FreeGPUs, 1)
		}
	}
	return l
}

func (l *landing) add(key string, free, by int) {
	if l.bins[key] == nil {
		l.bins[key] = make([]int, l.most+1)
	}
	l.bins[key][free] += by
}

// kind is all of a node that matters to a move off it.
func (n *Node) kind() string {
	var movable []int
	for _, t := range n.Tenants {
		if t.Pinned == "" && t.GPUs > 0 {
			movable = append(movable, t.GPUs)
		}
	}
	slices.Sort(movable)
	return fmt.Sprint(n.FreeGPUs, movable, only(n))
}

func only(n *Node) string { return strings.Join(n.OnlyFor, "\x00") }

// cheapest is the cheapest move off node n if it is cheaper than best, else nil.
func (l *landing) cheapest(n *Node, s Shape, best *plannedMove) *plannedMove {
	bySize := map[int][]string{}
	for _, t := range n.Tenants {
		if t.Pinned == "" && t.GPUs > 0 {
			bySize[t.GPUs] = append(bySize[t.GPUs], t.Pod)
		}
	}
	sizes := make([]int, 0, len(bySize))
	for size := range bySize {
		sizes = append(sizes, size)
	}
	slices.SortFunc(sizes, func(a, b int) int { return cmp.Compare(b, a) })
	if n.FreeGPUs > 0 { // a pod cannot land where it leaves
		l.add(only(n), n.FreeGPUs, -1)
		defer l.add(only(n), n.FreeGPUs, 1)
	}
	keys := []string{""}
	if k := only(n); k != "" {
		keys = append(keys, k)
	}
	search := moveSearch{l: l, keys: keys, k: s.GPUs, node: n, sizes: sizes, pods: bySize, best: best}
	search.choose(0, nil, 0)
	if search.best == best {
		return nil
	}
	return search.best
}

// moveSearch tries how many pods of each size leave a node. Pods of a size are alike, so that a node has few choices.
type moveSearch struct {
	l     *landing
	keys  []string
	k     int
	node  *Node
	sizes []int // largest first
	pods  map[int][]string
	best  *plannedMove
}

func (m *moveSearch) choose(at int, items []int, gpus int) {
	if m.best != nil && (len(items) > len(m.best.pods) || len(items) == len(m.best.pods) && gpus >= m.best.gpus) {
		return // it can only get dearer
	}
	free := m.node.FreeGPUs
	if gain := (free+gpus)/m.k - free/m.k; gain > 0 && m.lands(items, gain-1) {
		m.best = m.named(items, gpus)
		return
	}
	if at == len(m.sizes) {
		return
	}
	size := m.sizes[at]
	m.choose(at+1, items, gpus)
	for range m.pods[size] {
		items = append(slices.Clip(items), size)
		gpus += size
		m.choose(at+1, items, gpus)
	}
}

// named turns sizes into pods, the first by name of each.
func (m *moveSearch) named(items []int, gpus int) *plannedMove {
	out := &plannedMove{node: m.node.Name, gpus: gpus}
	taken := map[int]int{}
	for _, size := range items {
		names := m.pods[size]
		slices.Sort(names)
		out.pods = append(out.pods, names[taken[size]])
		taken[size]++
	}
	return out
}

// lands reports whether the pods fit on other nodes while these lose at most lose slots.
func (m *moveSearch) lands(items []int, lose int) bool {
	if len(items) == 0 {
		return true
	}
	size := items[0]
	for _, key := range m.keys {
		bins := m.l.bins[key]
		for free := size; free < len(bins); free++ {
			lost := free/m.k - (free-size)/m.k
			if bins[free] == 0 || lost > lose {
				continue
			}
			bins[free]--
			bins[free-size]++
			ok := m.lands(items[1:], lose-lost)
			bins[free-size]--
			bins[free]++
			if ok {
				return true
			}
		}
	}
	return false
}
