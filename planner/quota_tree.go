package planner

import (
	"cmp"
	"slices"
)

// quotaKey is what quota is counted in: a flavor of whole GPUs, or of another resource.
type quotaKey struct{ flavor, resource string }

// quotaNode is a ClusterQueue or a Cohort for one flavor and resource. Its arithmetic is Kueue's own (resource_node.go of
// pkg/cache/scheduler, v0.17), on whole GPUs.
type quotaNode struct {
	parent             *quotaNode
	nominal            int // its own
	lent               int // what its children lend it
	used               int // what it and its children take of subtree
	borrowing, lending *int
	at                 int // the index in State.Quotas; -1 for a Cohort
}

// subtree is what the node has to give: its own quota and what its children lend.
func (n *quotaNode) subtree() int { return n.nominal + n.lent }

// guaranteed is the part of subtree that is not lent to others.
func (n *quotaNode) guaranteed() int {
	if n.lending == nil || n.parent == nil {
		return 0
	}
	return max(0, n.subtree()-*n.lending)
}

// available is how much more can be taken through the node, borrowed included; below 0 when more is in use than there is.
func (n *quotaNode) available() int {
	if n.parent == nil {
		return n.subtree() - n.used
	}
	local := max(0, n.guaranteed()-n.used)
	above := n.parent.available()
	if n.borrowing != nil {
		stored := n.subtree() - n.guaranteed()
		usedAbove := max(0, n.used-n.guaranteed())
		above = min(above, stored-usedAbove+*n.borrowing)
	}
	return local + above
}

// use takes gpus through the node: what its own part does not cover comes from above.
func (n *quotaNode) use(gpus int) {
	local := max(0, n.guaranteed()-n.used)
	n.used += gpus
	if n.parent != nil && gpus > local {
		n.parent.use(gpus - local)
	}
}

// root is the topmost node: within it quotas lend to each other.
func (n *quotaNode) root() *quotaNode {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// quotaTree builds the nodes of one flavor and resource: one per quota of s, in the order of s.Quotas, under Cohorts.
// Cohorts that name each other in a circle, which Kueue does not admit, are cut at the first that repeats.
func quotaTree(s *State, key quotaKey) []*quotaNode {
	cohorts := map[string]*quotaNode{}
	parents := map[string]string{}
	for _, c := range s.Cohorts {
		parents[c.Name] = c.Parent
	}
	var cohort func(name string) *quotaNode
	cohort = func(name string) *quotaNode {
		if name == "" {
			return nil
		}
		if n := cohorts[name]; n != nil {
			return n
		}
		n := &quotaNode{at: -1}
		cohorts[name] = n
		if up := cohort(parents[name]); up != nil && up.root() != n {
			n.parent = up
		}
		return n
	}
	for _, c := range s.Cohorts {
		n := cohort(c.Name)
		for _, q := range c.Shared {
			if key == (quotaKey{q.Flavor, q.Resource}) {
				n.nominal, n.borrowing, n.lending = q.Nominal, q.BorrowingLimit, q.LendingLimit
			}
		}
	}
	var queues []*quotaNode
	for i := range s.Quotas {
		q := &s.Quotas[i]
		if key == (quotaKey{q.Flavor, q.Resource}) {
			queues = append(queues, &quotaNode{parent: cohort(q.Cohort), nominal: q.Nominal, borrowing: q.BorrowingLimit,
				lending: q.LendingLimit, at: i})
		}
	}
	lend(append(slices.Clone(queues), byDepth(cohorts)...))
	for _, n := range queues {
		q := &s.Quotas[n.at]
		n.use(max(q.Used, q.Reserved))
	}
	return queues
}

// lend adds what each node lends to the one above, children first.
func lend(nodes []*quotaNode) {
	for _, n := range nodes {
		if n.parent != nil {
			n.parent.lent += n.subtree() - n.guaranteed()
		}
	}
}

// byDepth is the cohorts, the deepest first; the names make the order that of the State.
func byDepth(cohorts map[string]*quotaNode) []*quotaNode {
	depth := func(n *quotaNode) (d int) {
		for ; n.parent != nil; n = n.parent {
			d++
		}
		return d
	}
	out := make([]*quotaNode, 0, len(cohorts))
	for _, n := range cohorts {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *quotaNode) int { return cmp.Compare(depth(b), depth(a)) })
	return out
}
