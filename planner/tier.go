package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// inTurn is the courses in the order in which they get slots: higher tiers first, those of one tier by name.
func inTurn(courses []*course) []*course {
	out := slices.Clone(courses)
	slices.SortStableFunc(out, func(a, b *course) int { return cmp.Compare(b.policy.Priority, a.policy.Priority) })
	return out
}

// tiers cuts courses in their turn into tiers.
func tiers(turn []*course) [][]*course {
	var out [][]*course
	for i, c := range turn {
		if i == 0 || c.policy.Priority != turn[i-1].policy.Priority {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], c)
	}
	return out
}

// yield lets lower tiers give GPUs up for replicas of higher ones that fit nowhere, the lowest tier first. What serves the
// load of now comes before what is warm: for serving replicas a lower tier goes down to its ReplicasMin, for warm ones it
// gives its own warm ones only. While a higher tier waits for GPUs that a lower one could hold, the lower one asks for
// nothing that fits nowhere: it would take what becomes free.
//
// Only replicas of one pod, or of the same shape, are counted: which pod of a workload goes is not ours to say, so that it
// must not matter. A model of which facts are missing yields nothing, and one whose need is unknown is given nothing that
// serves. One that holds fewer GPUs than are needed counts only as far as nodes are seen on which enough of them
// are beside each other; a Step then names the node.
func yield(courses []*course, inv *Inventory) {
	turn := inTurn(courses)
	for _, short := range turn {
		missing := short.nowhere()
		waits := short.waitsForNode()
		if missing == 0 && waits == 0 {
			continue
		}
		for _, victim := range slices.Backward(turn) {
			if victim.policy.Priority >= short.policy.Priority || !short.compatible(victim) || victim.blind != "" {
				continue
			}
			victim.asksOnlyWhatFits(short)
			missing -= short.takeLeaving(victim, missing)
			missing -= short.takeFrom(victim, missing, inv)
		}
		if missing > 0 && short.policy.Priority > turn[len(turn)-1].policy.Priority {
			short.step(StagePlace, nil, fmt.Sprintf("no lower tier has more to yield: %s short", plural(missing, "replica")))
		}
	}
}

// nowhere is how many replicas of the plan have no slot.
func (c *course) nowhere() int {
	n := 0
	for _, s := range c.shortfalls {
		if slices.Contains([]Cause{Fragmented, PoolLimit, NoStock}, s.Cause) {
			n += s.Replicas
		}
	}
	return n
}

// waitsForNode is how many starting replicas have no node.
func (c *course) waitsForNode() int {
	n := 0
	if r := c.state.Replicas; r != nil {
		for _, s := range r.ordered() {
			if s.Pending {
				n++
			}
		}
	}
	return n
}

// compatible says whether replicas of both could hold the same GPUs.
func (c *course) compatible(o *course) bool {
	a, b := c.state.Shape, o.state.Shape
	return (a.Product == b.Product || a.Product == "" || b.Product == "") && (a.Pods == 1 && b.Pods == 1 || a == b)
}

// asksOnlyWhatFits takes replicas that fit nowhere off the plan.
func (c *course) asksOnlyWhatFits(short *course) {
	n := min(c.nowhere(), c.yieldable(c.policy.ReplicasMin))
	if n <= 0 {
		return
	}
	c.lower(n, fmt.Sprintf("%s (tier %d) waits for GPUs: %d that fit nowhere are not asked for", short.state.Name,
		short.policy.Priority, n))
}

// yieldable is how many replicas the plan is above a floor; 0 without a plan.
func (c *course) yieldable(floor int) int {
	if c.out.Replicas == nil {
		return 0
	}
	return max(0, *c.out.Replicas-floor)
}

// takeLeaving counts on the slots of replicas of the victim that are terminating, so that it is not asked for more while
// they drain, and returns how many there are.
func (c *course) takeLeaving(victim *course, missing int) int {
	r := victim.state.Replicas
	if r == nil || missing <= 0 || r.Leaving <= victim.promised {
		return 0
	}
	slots, gone, _ := c.freed(victim, missing, r.Leaving-victim.promised, nil)
	if gone == 0 {
		return 0
	}
	victim.promised += gone
	c.step(StagePlace, nil, fmt.Sprintf("%s of %s (tier %d) terminate: room for %d of ours when they are gone",
		plural(gone, "replica"), victim.state.Name, victim.policy.Priority, slots))
	return slots
}

// takeFrom takes up to so many slots from a lower tier and returns how many.
func (c *course) takeFrom(victim *course, missing int, inv *Inventory) int {
	if missing <= 0 || !victim.supplyOK || c.out.Replicas == nil || victim.out.Replicas == nil {
		return 0
	}
	serving := 0
	if c.needKnown {
		serving = min(missing, max(0, c.out.Serving-(*c.out.Replicas-missing)))
	}
	kept := max(victim.policy.ReplicasMin, victim.out.Serving)
	running := min(*victim.out.Replicas, victim.state.Replicas.Ready)
	can := func(floor int) int { return max(0, running-floor) }
	slots, gone, where := c.freed(victim, serving, can(victim.policy.ReplicasMin), inv)
	if slots == serving && missing > serving {
		more, goneToo, whereToo := c.freed(victim, missing-serving, max(0, can(kept)-gone), inv)
		slots, gone = slots+more, gone+goneToo
		if where == "" {
			where = whereToo
		}
	}
	if gone == 0 {
		return 0
	}
	// What the plan already releases is free without being asked for.
	released := min(gone, max(0, victim.state.Replicas.Ready-*victim.out.Replicas))
	victim.lower(gone-released, fmt.Sprintf("yields %s to %s (tier %d over %d)%s", plural(gone, "replica"), c.state.Name,
		c.policy.Priority, victim.policy.Priority, where))
	c.step(StagePlace, nil, fmt.Sprintf("%s (tier %d) yields %s: room for %d of ours%s", victim.state.Name, victim.policy.Priority,
		plural(gone, "replica"), slots, where))
	return slots
}

// freed is how many slots for c up to wanted, and by how many replicas of the victim up to most, can be made.
func (c *course) freed(victim *course, wanted, most int, inv *Inventory) (slots, gone int, where string) {
	if wanted <= 0 || most <= 0 {
		return 0, 0, ""
	}
	need, holds := c.state.Shape, victim.state.Shape
	if per := holds.GPUs / need.GPUs; per > 0 || need == holds {
		per = max(per, 1)
		gone = min(most, (wanted+per-1)/per)
		return min(wanted, gone*per), gone, ""
	}
	var nodes []string
	for _, n := range inv.together(need, victim.state.Name) {
		if slots == wanted || gone+n.pods > most {
			break
		}
		slots, gone = slots+1, gone+n.pods
		nodes = append(nodes, n.name)
	}
	if len(nodes) > 0 {
		where = ", those on " + strings.Join(nodes, ", ")
	}
	return slots, gone, where
}

// beside is a node on which pods of a model hold what is missing for a slot.
type beside struct {
	name string
	pods int
}

// together are the nodes on which pods of the model hold enough GPUs beside each other for one more slot of the shape, those
// with the fewest of them first.
func (inv *Inventory) together(s Shape, model string) []beside {
	var out []beside
	if inv == nil {
		return nil
	}
	for i := range inv.Pools {
		p := &inv.Pools[i]
		for k := range p.Nodes {
			n := &p.Nodes[k]
			if !p.holds(s) || !n.Usable {
				continue
			}
			free, pods := n.FreeGPUs%s.GPUs, 0
			for _, t := range n.Tenants {
				if t.Model == model && free < s.GPUs {
					free, pods = free+t.GPUs, pods+1
				}
			}
			if free >= s.GPUs && pods > 0 {
				out = append(out, beside{n.Name, pods})
			}
		}
	}
	slices.SortFunc(out, func(a, b beside) int { return cmp.Or(cmp.Compare(a.pods, b.pods), cmp.Compare(a.name, b.name)) })
	return out
}

// lower takes n replicas off the plan after it was made. The wish stays remembered: it comes back when there is room.
func (c *course) lower(n int, why string) {
	plan := *c.out.Replicas - n
	rejected := fmt.Sprintf("%d replicas", *c.out.Replicas)
	c.out.Replicas = &plan
	c.out.Serving = min(c.out.Serving, plan)
	c.out.Warm = plan - c.out.Serving
	c.next.Replicas = plan
	if c.policy.Authority != Act {
		why += fmt.Sprintf("; its authority is %s, so a person must lower it", c.policy.Authority)
	}
	s := c.step(StagePlace, &plan, why)
	s.BoundBy = "a higher tier"
	if n > 0 {
		s.Rejected = rejected
	}
}
