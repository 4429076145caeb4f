package planner

import (
	"fmt"
	"math"
	"time"
)

// size turns load into replicas: what this moment needs, and the reactive floor, below which no forecast and no veto may
// push the plan (design: never worse than reactive):
//
//	max( ceil((offered load + backlog ÷ drainWithin) ÷ one replica), ceil(waiting ÷ queueThreshold) )
//
// Unknown parts are left out: they cannot lower the floor, and blindness keeps the plan from shrinking meanwhile.
func (c *course) size() {
	l, p := c.state.Load, c.state.Profile
	if l != nil && p != nil {
		c.needNow = p.replicasFor(float64(l.Prompt), float64(l.Completion))
		c.needKnown = c.loadKnown
		c.floor = c.needNow
		c.step(StageSize, &c.needNow, sizeText(*l, *p))
	} else {
		c.step(StageSize, nil, "the load cannot be turned into replicas: it is unknown or there is no replica profile")
	}
	c.addBacklog()
	c.addQueue()
	if c.floorWhy != "" {
		c.step(StageSize, &c.floor, "reactive floor: "+c.floorWhy)
	}
	needed := c.floor
	if !c.needKnown {
		needed = max(needed, c.memory.Replicas) // nobody can say that less was needed
	}
	horizon := max(c.policy.ScaleDownWindow, reactiveWindowMin)
	c.next.Needed = pushMax(c.memory.Needed, Count{At: c.now, Replicas: needed}, c.now.Add(-horizon))
}

func sizeText(l ObservedLoad, p Profile) string {
	why := fmt.Sprintf("%s fill %.2f replicas (one takes %.0f prompt or %.0f completion tok/s", l.Load,
		p.utilisation(float64(l.Prompt), float64(l.Completion)), float64(p.Prompt), float64(p.Completion))
	if p.Source != "" {
		why += "; " + p.Source
	}
	return why + ")"
}

// reactiveWindowMin is the shortest stretch of observed need that a release without forecast authority may rest on: the
// HPA's default scale-down stabilisation.
const reactiveWindowMin = 5 * time.Minute

// addBacklog raises the floor to the load plus the queue's tokens worked off within the policy's time. An unknown load
// is left out, which makes the sum a lower bound.
func (c *course) addBacklog() {
	p, b := c.state.Profile, c.state.Signals.Backlog
	if p == nil || b == nil || (b.Prompt <= 0 && b.Completion <= 0) {
		return
	}
	var l Load
	if c.state.Load != nil {
		l = c.state.Load.Load
	}
	seconds := c.policy.DrainWithin.Seconds()
	n := p.replicasFor(float64(l.Prompt)+float64(b.Prompt)/seconds, float64(l.Completion)+float64(b.Completion)/seconds)
	if n > c.floor {
		c.floor = n
		c.floorWhy = fmt.Sprintf("a backlog of %.0f prompt + %.0f completion tokens on top of the load, worked off within %s",
			float64(b.Prompt), float64(b.Completion), shortDuration(c.policy.DrainWithin))
	}
}

// addQueue raises the floor so that no replica has more than the threshold waiting.
func (c *course) addQueue() {
	w := c.state.Signals.Waiting
	if w == nil || *w <= 0 {
		return
	}
	n := ceilCount(math.Max(*w, 0) / c.policy.QueueThreshold)
	if n > c.floor {
		c.floor = n
		c.floorWhy = fmt.Sprintf("requests waiting: %.0f, at most %g per replica are wanted", *w, c.policy.QueueThreshold)
	}
}
