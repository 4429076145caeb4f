package planner

import (
	"fmt"
	"time"

	"forewarm/coldstart"
)

// nodeLead is how long a replica takes that needs a new node first; false when nothing is known of it.
func (c *course) nodeLead() (time.Duration, bool) {
	lt, known := c.leadTimeOf(coldstart.ColdNode)
	if !known || c.lead == nil {
		return 0, false
	}
	return max(lt.Quantile(c.lead.Quantile), c.lead.Time), true
}

// needWithin is the replicas that are needed at any time until ahead from now, recent wishes included as long as the
// scale-down window keeps them; the plan itself where the future is unknown.
func (c *course) needWithin(ahead time.Duration) int {
	need := c.wanted
	if !c.forecastOK || c.state.Profile == nil {
		return need
	}
	need = max(need, c.needBefore(c.now.Add(ahead+c.interval)))
	if window := c.policy.ScaleDownWindow; window > 0 {
		lately, _ := maxSince(c.next.Wanted, c.now.Add(-window))
		need = max(need, lately)
	}
	if most := c.policy.ReplicasMax; most > 0 {
		need = min(need, most)
	}
	return need
}

// buffer keeps room for the replicas that will be needed before a node that is ordered later could be there, beyond what
// KEDA is told and what runs: those make their own nodes come. Nodes that may be taken away at any time hold no buffer.
// While the future is unknown, the last buffer stays; so does, while the provider has no nodes, the room of replicas that
// are released. A paused model has none, nor has one that gives GPUs up for a higher tier.
func (c *course) buffer(r *room) []BufferTarget {
	if r == nil || c.state.Shape == (Shape{}) || !c.wantedOK || !c.supplyOK {
		return c.lastBuffers()
	}
	if c.paused() || c.yielded() {
		return nil
	}
	lead, known := c.nodeLead()
	need, why := c.needWithin(lead), fmt.Sprintf("until a node ordered now could serve (%s)", shortDuration(lead))
	if !known || c.blind != "" {
		need, why = max(need, c.wanted+c.memory.Buffer), "as before, for facts are missing"
	}
	if lost := c.onEndingNodes(lead); lost > 0 {
		need += lost
		why += fmt.Sprintf(", %d of them for those whose nodes go away", lost)
	}
	if r.short(c.ask()) {
		if kept := c.memory.Replicas + c.memory.Buffer; kept > need {
			need, why = kept, "as before, for the provider has no nodes to get them back"
		}
	}
	told := 0
	if c.out.Answer != nil {
		told = *c.out.Answer
	}
	if most := c.wanted + c.memory.Buffer; c.vetoed && need > most {
		need, why = most, why+" as far as a veto lets grow" // more room is not the remedy when more replicas are not
	}
	given := max(told, c.supply)
	c.next.Buffer = max(0, need-c.wanted)
	if need <= given {
		return nil
	}
	before := r.added()
	l := r.put(c.ask(), max(0, need-max(c.wanted, c.supply)), true)
	c.placed += l.placed()
	return c.bufferTargets(r, l, need-given, before, fmt.Sprintf("%d are needed %s, KEDA is told %d and %d run or start", need, why, told, c.supply))
}

// yielded says whether the plan is below the wish for the sake of a higher tier.
func (c *course) yielded() bool { return c.out.Replicas != nil && *c.out.Replicas < c.wanted }

// lastBuffers are those of the last Decision, while nothing can be said about them.
func (c *course) lastBuffers() []BufferTarget {
	c.next.Buffer, c.next.Buffers = c.memory.Buffer, c.memory.Buffers
	var out []BufferTarget
	for _, b := range c.memory.Buffers {
		out = append(out, BufferTarget{Model: c.state.Name, Pool: b.Pool, Replicas: b.Replicas, Why: "as before, for facts are missing"})
	}
	return out
}

// bufferTargets are the buffers for chunks replicas, those beyond the plan where they were put, the others in the first
// pool that holds them.
func (c *course) bufferTargets(r *room, l landed, chunks int, before []int, why string) []BufferTarget {
	perPool, left := make([]int, len(r.pools)), chunks
	for i, n := range l.pools {
		perPool[i] = min(n, left)
		left -= perPool[i]
	}
	// More may have found no node than there are chunks: where the dead-band raised the answer, a part of it is told to KEDA.
	nowhere := min(l.nowhere, left)
	for i := range r.pools {
		p := &r.pools[i]
		if left > 0 && p.pool.holds(c.state.Shape) && !p.pool.Spot && (p.empty.slots(c.ask()) > 0 || l.pools[i] > 0) {
			perPool[i] += left - nowhere
			break
		}
	}
	text := fmt.Sprintf("%s: room for %d more", why, chunks)
	if nowhere > 0 {
		text += fmt.Sprintf(", of which %d cannot be had on nodes that stay", nowhere)
	}
	c.step(StagePools, nil, text)
	for i, n := range r.grown(before) {
		if n > 0 {
			r.pools[i].buffered += n
			c.step(StagePools, nil, fmt.Sprintf("pool %s: %s more for the buffer", r.pools[i].pool.Name, plural(n, "node")))
		}
	}
	var out []BufferTarget
	for i, n := range perPool {
		if n > 0 {
			c.next.Buffers = append(c.next.Buffers, PoolCount{r.pools[i].pool.Name, n})
			out = append(out, BufferTarget{Model: c.state.Name, Pool: r.pools[i].pool.Name, Replicas: n, Why: why})
		}
	}
	return out
}

// onEndingNodes is the model's replicas on nodes that go away before new ones could be there.
func (c *course) onEndingNodes(lead time.Duration) int {
	pods := 0
	for _, n := range c.ending {
		if n.endsBy(c.now.Add(lead + c.interval)) {
			for _, t := range n.Tenants {
				if t.Model == c.state.Name {
					pods++
				}
			}
		}
	}
	return (pods + c.state.Shape.Pods - 1) / c.state.Shape.Pods
}

// short says whether new nodes for the ask fail for lack of stock in every pool that could bring any.
func (r *room) short(a ask) bool {
	short := false
	for i := range r.pools {
		p := &r.pools[i]
		if !p.pool.holds(a.Shape) || p.nodesFor(a) == 0 {
			continue
		}
		if p.growth.cause != NoStock {
			if r.launchable(i) > 0 {
				return false
			}
			continue
		}
		short = true
	}
	return short
}

// poolTargets turns the nodes that placing asked for into targets. A pool whose nodes come and go by themselves gets none
// unless it grows: its nodes leave by the provisioner's own consolidation. A static pool loses one node at a time, only an
// empty one that nothing was put on (so that what all need until a node could be back still fits without it), and none
// while a model that could use it is blind or the provider is short of nodes.
func poolTargets(r *room, courses []*course) []PoolTarget {
	if r == nil {
		return nil
	}
	var targets []PoolTarget
	for i := range r.pools {
		p := &r.pools[i]
		now := len(p.pool.Nodes) + p.pool.Launching
		t := PoolTarget{Pool: p.pool.Name, Now: now, Nodes: now + p.added, By: PodsWait}
		switch {
		case p.added > 0:
			t.Why = fmt.Sprintf("%d more than now, for %s", p.added, p.names())
			if p.pool.Static {
				t.By = NodeCount
			} else if p.buffered == p.added {
				t.By = BufferChunks
			}
		case p.pool.Static && p.pool.Launching == 0 && r.spare(i, courses):
			t.Nodes, t.By, t.Why = now-1, NodeCount, "1 less than now: it is empty, and what is needed until one could be back fits without it"
		default:
			continue
		}
		targets = append(targets, t)
	}
	return targets
}

// spare says whether a node of pool i is empty and may go.
func (r *room) spare(i int, courses []*course) bool {
	p := &r.pools[i]
	if p.growth.cause == NoStock {
		return false
	}
	for _, c := range courses {
		if c.state.Shape != (Shape{}) && !p.pool.holds(c.state.Shape) {
			continue
		}
		if c.blind != "" || !c.wantedOK || c.out.Held != "" || r.short(c.ask()) {
			return false
		}
	}
	for k := range p.ready.nodes {
		if p.ready.nodes[k].free == p.pool.GPUsPerNode {
			return true
		}
	}
	return false
}

// planQuota notes what the model will hold of its quotas when batch work that is told to leave now has left: as far as
// there are slots for it, since what is admitted without one waits for ever. Without hardware facts, or blind, nothing is
// asked for and nothing given back.
func (c *course) planQuota(r *room, b *quotaBook) {
	if len(c.quotas) == 0 {
		return
	}
	if r == nil || c.state.Shape == (Shape{}) || !c.wantedOK || !c.supplyOK {
		b.plan(c, 0, true)
		return
	}
	lead, known := c.nodeLead()
	need := c.needWithin(b.policy.DrainTime + lead)
	if c.yielded() {
		need = *c.out.Replicas
	}
	more := max(0, need-c.supply)
	placed := min(more, c.placed)
	placed += r.put(c.ask(), more-placed, false).placed()
	each := c.state.Shape.GPUs * c.state.Shape.Pods
	gated := min(c.pending*each, b.quotas[c.quotas[0]].Waiting)
	b.plan(c, placed*each+gated, c.blind != "" || !known)
	if placed > 0 && more > max(0, c.wanted-c.supply) {
		c.step(StageQuota, nil, fmt.Sprintf("%d are needed by the time that batch work could leave and a node could be there (%s): "+
			"quota for %d more is planned", need, shortDuration(b.policy.DrainTime+lead), placed))
	}
}
