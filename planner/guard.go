package planner

import "fmt"

// guard turns the wish into a plan that is safe to act on: never below the reactive floor, never shrinking while blind,
// after a break or within the scale-down window, always within the limits. Up beats down: every rule but the limits can
// only raise.
func (c *course) guard() {
	if !c.wantedOK {
		c.step(StageGuard, nil, "there is no number that can be trusted, so there is no plan")
		return
	}
	if c.floor > c.wanted {
		c.wanted = c.floor
		why := c.floorWhy
		if why == "" {
			why = "the load of this moment"
		}
		c.step(StageGuard, &c.wanted, "raised to the reactive floor: "+why).BoundBy = "reactive floor"
	}
	c.consolidate()
	// Before the wish is remembered: while facts are missing nobody can say that less was wanted.
	c.holdBlind()
	c.next.Wanted = pushMax(c.memory.Wanted, Count{At: c.now, Replicas: c.wanted}, c.now.Add(-c.policy.ScaleDownWindow))
	c.holdFrozen()
	c.holdAfterBreak()
	c.holdWindow()
	c.limit()
	if c.paused() {
		c.step(StageGuard, &c.wanted, "the ScaledObject is paused: nothing acts on this plan until it is resumed")
	}
}

// paused says whether nothing acts on the plan because the ScaledObject is paused.
func (c *course) paused() bool { return c.state.Actuator != nil && c.state.Actuator.Paused }

// last is the count that a hold goes back to: the last plan, or what runs when no plan is remembered.
func (c *course) last() int {
	if c.remembered {
		return c.memory.Replicas
	}
	return c.supply
}

func (c *course) hold(floor int, why, bound string) {
	if floor <= c.wanted {
		return
	}
	rejected := fmt.Sprintf("shrink to %d", c.wanted)
	c.wanted = floor
	c.out.Held = why
	s := c.step(StageGuard, &c.wanted, "held: "+why)
	s.BoundBy, s.Rejected = bound, rejected
}

// holdBlind keeps the plan while a fact is missing. What runs is not the measure here: with facts missing the last
// decision that had them is.
func (c *course) holdBlind() {
	if c.blind != "" {
		c.hold(c.last(), "facts are missing: "+c.blind, "missing facts")
	}
}

// holdAfterBreak keeps the plan, and what runs, until a scale-down window has been watched since the last start or
// outage.
func (c *course) holdAfterBreak() {
	watched := c.now.Sub(c.unbroken)
	if watched >= c.policy.ScaleDownWindow {
		return
	}
	c.hold(max(c.last(), c.supply), fmt.Sprintf(
		"the load has been watched without a break for %s, %s are needed before the plan may shrink",
		shortDuration(watched), shortDuration(c.policy.ScaleDownWindow)), "restart")
}

// holdWindow keeps the largest wish of the scale-down window.
func (c *course) holdWindow() {
	if c.policy.ScaleDownWindow == 0 {
		return
	}
	most, ok := maxSince(c.next.Wanted, c.now.Add(-c.policy.ScaleDownWindow))
	if ok {
		c.hold(most, fmt.Sprintf("%d were wanted within the last %s", most, shortDuration(c.policy.ScaleDownWindow)),
			"scale-down window")
	}
}

// limit applies the owner's bounds; they beat everything else.
func (c *course) limit() {
	if minimum := c.policy.ReplicasMin; c.wanted < minimum {
		c.wanted = minimum
		c.step(StageGuard, &c.wanted, fmt.Sprintf("replicas_min is %d", minimum)).BoundBy = "replicas_min"
	}
	if maximum := c.policy.ReplicasMax; maximum > 0 && c.wanted > maximum {
		rejected := fmt.Sprintf("%d replicas", c.wanted)
		c.wanted = maximum
		c.out.Held = "" // the limit decided, not the hold
		s := c.step(StageGuard, &c.wanted, fmt.Sprintf("replicas_max is %d", maximum))
		s.BoundBy, s.Rejected = "replicas_max", rejected
	}
}
