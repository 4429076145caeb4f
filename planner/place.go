package planner

import (
	"fmt"
	"strings"

	"forewarm/coldstart"
)

// probe asks which slot the next replica would get and reads the lead time of that start path.
func (c *course) probe(r *room) {
	path, where := coldstart.PathUnknown, "the hardware is unknown, so the slowest start path counts"
	switch {
	case c.inventory.stale(c.now):
		where = fmt.Sprintf("the hardware was last seen %s ago, %s are allowed, so the slowest start path counts",
			shortDuration(c.now.Sub(c.inventory.At)), shortDuration(inventoryMaxAge))
	case c.state.Shape == (Shape{}):
		where = "the shape is unknown, so the slowest start path counts"
	case r != nil:
		under, slot := "", false
		path, under, slot = r.path(c.ask())
		where = c.slotText(r, path, under, slot)
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

// ask is what the model looks for in a room.
func (c *course) ask() ask { return ask{Shape: c.state.Shape, model: c.state.Name} }

func (c *course) slotText(r *room, path coldstart.Path, under string, slot bool) string {
	shape := c.state.Shape
	if path == coldstart.WarmNode {
		return "a running node has room for a replica of " + shape.String()
	}
	gpus, hole := r.freeGPUs(c.ask())
	free := fmt.Sprintf("%d GPUs are free, %d on the emptiest node", gpus, hole)
	if under != "" {
		return fmt.Sprintf("no running node has room for a replica of %s (%s): a node under way or to be launched into pool %s has", shape, free, under)
	}
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

// reserve puts the replicas that wait for a node, and those that a rollout under way may still add, before any model of
// its tier gets new ones: they were ordered before. What waits makes the provisioner launch nodes; room for a surge is
// only kept.
func (c *course) reserve(r *room) {
	if r == nil || c.state.Shape == (Shape{}) || c.state.Replicas == nil {
		return
	}
	reps := c.state.Replicas
	for _, s := range reps.Starting {
		if s.Pending {
			c.pending++
		}
	}
	if c.pending > 0 {
		before := r.added()
		c.waiting = r.put(c.ask(), c.pending, false)
		c.nodesFor = r.grown(before)
	}
	if surge := reps.surgeLeft(); surge > 0 {
		for i := range r.pools {
			if c.surge < surge && r.pools[i].pool.holds(c.state.Shape) {
				c.surge += r.pools[i].ready.take(c.ask(), surge-c.surge)
			}
		}
	}
}

// place puts the replicas beyond the supply into slots; what does not fit is a shortfall with its cause. Only those that
// the quota admits get any: the others would wait at its gate, and the nodes for them with nothing on them.
func (c *course) place(r *room, q *quotaBook) {
	if r == nil || c.state.Shape == (Shape{}) || !c.supplyOK {
		return
	}
	c.placeWaiting(r)
	missing := c.wanted - c.supply
	if missing <= 0 {
		return
	}
	admitted, why := q.admit(c, missing)
	if admitted < missing {
		c.shortfalls = append(c.shortfalls, Shortfall{Model: c.state.Name, Cause: QuotaCapped, Replicas: missing - admitted, Why: why})
	}
	before := r.added()
	l := r.put(c.ask(), admitted, false)
	c.placed = l.placed()
	text := fmt.Sprintf("of %d new replicas %d fit on running nodes", missing, l.ready)
	if l.coming > 0 {
		text += fmt.Sprintf(", %d on nodes under way", l.coming)
	}
	text += fmt.Sprintf(", %d on nodes to be launched", l.launched)
	if admitted < missing {
		text += fmt.Sprintf(", %d are beyond the quota", missing-admitted)
	}
	if l.nowhere > 0 {
		text += fmt.Sprintf(", %d nowhere", l.nowhere)
		c.shortfall(r, l.nowhere)
	}
	c.step(StagePlace, nil, text)
	c.poolSteps(r, r.grown(before))
}

// placeWaiting says what became of the replicas that wait for a node.
func (c *course) placeWaiting(r *room) {
	if c.pending > 0 {
		l := c.waiting
		text := fmt.Sprintf("%s for a node: %d fit on running nodes, %d on nodes under way, %d on nodes to be launched",
			waits(c.pending), l.ready, l.coming, l.launched)
		if l.nowhere > 0 {
			text += fmt.Sprintf(", %d nowhere", l.nowhere)
			c.shortfall(r, l.nowhere)
		}
		c.step(StagePlace, nil, text)
		c.poolSteps(r, c.nodesFor)
	}
	if left := c.state.Replicas.surgeLeft(); left > 0 {
		c.step(StagePlace, nil, fmt.Sprintf("a rollout may add %d more: room is kept for %d", left, c.surge))
	}
}

func waits(n int) string {
	if n == 1 {
		return "1 replica waits"
	}
	return fmt.Sprintf("%d replicas wait", n)
}

func (c *course) poolSteps(r *room, grown []int) {
	for i, n := range grown {
		if n > 0 {
			c.step(StagePools, nil, fmt.Sprintf("pool %s: %s more", r.pools[i].pool.Name, plural(n, "node")))
		}
	}
}

// grown is how many nodes are to be launched since before, per pool.
func (r *room) grown(before []int) []int {
	now := r.added()
	for i := range now {
		now[i] -= before[i]
	}
	return now
}

// shortfall notes replicas that fit nowhere. The room is what is left after all that fitted was placed. No stock comes
// first because it is the one that passes by itself; fragmentation next, because GPUs that are free can be joined.
func (c *course) shortfall(r *room, replicas int) {
	s := c.state.Shape
	needs := s.GPUs * s.Pods
	free, hole := r.freeGPUs(c.ask())
	left := fmt.Sprintf("%d GPUs are free, %d on the emptiest node, and a replica needs %s", free, hole, s.demand())
	f := Shortfall{Model: c.state.Name, Replicas: replicas, Cause: PoolLimit, Why: left + "; no pool with such nodes may grow"}
	if free >= needs {
		f.Cause = Fragmented
	}
	for i := range r.pools {
		p := &r.pools[i]
		if p.growth.why == "" || !p.pool.holds(s) || p.nodesFor(c.ask()) == 0 {
			continue
		}
		if p.growth.cause == NoStock {
			f.Cause, f.Why = NoStock, fmt.Sprintf("pool %s cannot launch nodes, %s; %s", p.pool.Name, p.growth.why, left)
			break
		}
		f.Why += fmt.Sprintf("; pool %s: %s", p.pool.Name, p.growth.why)
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
