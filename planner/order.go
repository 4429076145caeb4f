package planner

import (
	"slices"
	"strings"
)

// Change is one write of a transaction.
type Change struct {
	// Kind is quota, nodes, buffer or replicas; Name what it is of.
	Kind ChangeKind `json:"kind"`
	Name string     `json:"name"`
	From int        `json:"from"`
	To   int        `json:"to"`
}

// ChangeKind is what a Change is of.
type ChangeKind string

// The kinds of Change.
const (
	ChangeQuota    ChangeKind = "quota"
	ChangeNodes    ChangeKind = "nodes"
	ChangeBuffer   ChangeKind = "buffer"
	ChangeReplicas ChangeKind = "replicas"
)

// order is what a Decision changes, in an order that is safe to stop anywhere in: on the way up quota, then nodes and
// buffers, then replicas; then the way down in reverse. A quota that is lowered so that another is raised comes before it,
// for in between the same GPUs would be promised twice. Replicas are counted from what KEDA was told last, or
// from what runs, to what it is told now, which is the plan or, past the HPA's dead-band, more; a model whose plan is not
// acted upon is not among them. Buffers count from the last Decision's.
func order(s *State, d *Decision) []Change {
	var quotasDown, quotasUp, nodesUp, nodesDown, buffersUp, buffersDown, replicasUp, replicasDown []Change
	add := func(up, down *[]Change, c Change) {
		switch {
		case c.To > c.From:
			*up = append(*up, c)
		case c.To < c.From:
			*down = append(*down, c)
		}
	}
	for _, q := range d.Quotas {
		name := q.Queue + "/" + q.Flavor
		if q.Resource != "" {
			name += "/" + q.Resource
		}
		add(&quotasUp, &quotasDown, Change{ChangeQuota, name, q.Now, q.Nominal})
	}
	for _, p := range d.Pools {
		if p.By == NodeCount {
			add(&nodesUp, &nodesDown, Change{ChangeNodes, p.Pool, p.Now, p.Nodes})
		}
	}
	for _, c := range bufferChanges(s, d) {
		add(&buffersUp, &buffersDown, c)
	}
	for i := range d.Models {
		if c, ok := replicaChange(s, &d.Models[i]); ok {
			add(&replicasUp, &replicasDown, c)
		}
	}
	var out []Change
	given := len(quotasUp) > 0
	if given {
		out = append(out, quotasDown...)
	}
	for _, part := range [][]Change{quotasUp, nodesUp, buffersUp, replicasUp, replicasDown, buffersDown, nodesDown} {
		out = append(out, part...)
	}
	if !given {
		out = append(out, quotasDown...)
	}
	return out
}

// bufferChanges are the buffers that are not what the last Decision asked for, by model, then by pool.
func bufferChanges(s *State, d *Decision) []Change {
	type key struct{ model, pool string }
	before := map[key]int{}
	var out []Change
	for _, m := range s.Memory.Models {
		for _, b := range m.Buffers {
			before[key{m.Name, b.Pool}] = b.Replicas
		}
	}
	for _, b := range d.Buffers {
		out = append(out, Change{ChangeBuffer, b.Model + " in " + b.Pool, before[key{b.Model, b.Pool}], b.Replicas})
		delete(before, key{b.Model, b.Pool})
	}
	for _, m := range s.Memory.Models {
		for _, b := range m.Buffers {
			if _, gone := before[key{m.Name, b.Pool}]; gone && d.Model(m.Name) != nil {
				out = append(out, Change{ChangeBuffer, m.Name + " in " + b.Pool, b.Replicas, 0})
			}
		}
	}
	return out
}

// replicaChange is how what KEDA is told of a model differs from the last time, or from what runs when none is remembered; ok is false
// when nothing acts on the plan, or it is not known from what it changes.
func replicaChange(s *State, m *ModelDecision) (c Change, ok bool) {
	i, known := slices.BinarySearchFunc(s.Models, m.Name, func(m ModelState, name string) int { return strings.Compare(m.Name, name) })
	if m.Authority != Act || m.Answer == nil || m.Replicas == nil || !known {
		return Change{}, false
	}
	state := &s.Models[i]
	if a := state.Actuator; a != nil && a.Paused {
		return Change{}, false
	}
	c = Change{Kind: ChangeReplicas, Name: m.Name, To: *m.Answer}
	at, remembered := slices.BinarySearchFunc(s.Memory.Models, m.Name, func(m ModelMemory, name string) int { return strings.Compare(m.Name, name) })
	switch {
	case remembered:
		c.From = s.Memory.Models[at].told()
		if c.To == s.Memory.Models[at].Replicas {
			c.From = c.To // the plan stands, and an HPA that went past it stays there
		}
	case state.Replicas != nil:
		c.From = state.Replicas.supply()
	default:
		return Change{}, false
	}
	return c, true
}
