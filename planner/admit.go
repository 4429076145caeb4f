package planner

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Admission is what a gateway may let in while the ready replicas carry less than is asked for. What it lets in beyond
// that is late whatever happens: told early, clients can go elsewhere.
type Admission struct {
	// Need is how many replicas the load of this moment needs; fewer are ready.
	Need int `json:"need_replicas"`
	// Load is what the ready replicas carry within the SLO, in the mix of the load offered now; its Requests are 0 while
	// the requests of that load are not counted. Of it Share is the part of the load offered.
	Load  Load  `json:"load"`
	Share Ratio `json:"share"`
	// QueueDepth is how many requests may wait: at the rate above those beyond it begin later than the TTFT allows. nil
	// when requests are not counted or no TTFT is promised.
	QueueDepth *int `json:"queue_depth_requests,omitempty"`
	// Until is when the next replica is expected to serve (the median of what is known about starts); nil is unknown.
	Until *time.Time `json:"until,omitempty"`
	// Cause is why replicas are short, Owner who can remedy that.
	Cause ShortageCause `json:"cause"`
	Owner Owner         `json:"owner"`
	Why   string        `json:"why"`
}

// String is the cause, whose job it is, the reason, and what may be let in while requests are counted.
func (a *Admission) String() string {
	text := fmt.Sprintf("%s (%s): %s", a.Cause, a.Owner, a.Why)
	if a.QueueDepth != nil {
		text += fmt.Sprintf("; admit %.3g requests/s and let at most %d wait", float64(a.Load.Requests), *a.QueueDepth)
	}
	return text
}

// ShortageCause says why the ready replicas carry less than the load.
type ShortageCause string

// The causes, in the order in which the first that applies is named.
const (
	ShortOfLimit    ShortageCause = "replicas_max"  // the owner's limit is below the need
	ShortOfQuota    ShortageCause = "quota"         // no quota for what is planned
	ShortOfStock    ShortageCause = "no stock"      // the provider has no nodes
	ShortOfSlots    ShortageCause = "no slot"       // nothing holds another replica
	ShortOfFacts    ShortageCause = "metric outage" // the plan was held for lack of facts
	ShortOfStarts   ShortageCause = "cold start"    // enough is starting, or was planned already
	ShortOfForecast ShortageCause = "forecast miss" // fewer were planned before
)

// admit says what may be let in while the load exceeds what is ready. With the load, the replicas or the profile unknown
// nothing is said: a gateway must not shed on a guess.
func (c *course) admit() {
	if !c.needKnown || c.state.Replicas == nil || c.needNow <= c.state.Replicas.Ready {
		return
	}
	l, ready := c.state.Load.Load, c.state.Replicas.Ready
	filled := c.rates.utilisation(float64(l.Prompt), float64(l.Completion))
	share := min(1, float64(ready)/filled)
	a := &Admission{Need: c.needNow, Share: Ratio(share), Load: Load{Prompt: TokenRate(share) * l.Prompt, Completion: TokenRate(share) * l.Completion,
		Requests: RequestRate(share) * l.Requests}}
	if l.Requests > 0 && c.policy.TTFT > 0 {
		depth := int(math.Floor(float64(a.Load.Requests) * c.policy.TTFT.Seconds()))
		a.QueueDepth = &depth
	}
	until := "nobody knows when"
	if at, ok := c.nextReady(); ok {
		a.Until = &at
		until = "about " + c.clock(at)
	}
	a.Cause, a.Owner = c.shortageCause()
	a.Why = fmt.Sprintf("with %s %s can be served, %.0f %% of what is asked for, until the next one serves (%s)", plural(ready, "ready replica"), a.Load,
		100*share, until)
	c.out.Admission = a
}

// nextReady is the earliest median end of the starts under way, or with none of them that of one ordered now, if one
// can be had.
func (c *course) nextReady() (at time.Time, ok bool) {
	starting := c.state.Replicas.ordered()
	for _, s := range starting {
		lt, known := c.leadTimeOf(s.Path)
		if !known {
			continue
		}
		if end := c.now.Add(lt.Remaining(max(0, c.now.Sub(s.Since)), 0.5)); !ok || end.Before(at) {
			at, ok = end, true
		}
	}
	unplaced := 0
	for _, s := range c.shortfalls {
		unplaced += s.Replicas
	}
	if len(starting) > 0 || c.lead == nil || unplaced >= c.wanted-c.supply {
		return at, ok
	}
	lt, ok := c.leadTimeOf(c.lead.Path)
	if !ok {
		return at, false
	}
	return c.now.Add(lt.Quantile(0.5)), true
}

// shortageCause names the first cause, in the order of the constants, that applies.
func (c *course) shortageCause() (ShortageCause, Owner) {
	if most := c.policy.ReplicasMax; most > 0 && most < c.needNow {
		return ShortOfLimit, OwnerApplication
	}
	for _, cause := range []ShortageCause{ShortOfQuota, ShortOfStock, ShortOfSlots} {
		applies := func(s Shortfall) bool { return s.Replicas > 0 && s.Cause.shortage() == cause }
		if slices.ContainsFunc(c.shortfalls, applies) {
			return cause, OwnerPlatform
		}
	}
	switch {
	case c.blind != "":
		return ShortOfFacts, OwnerPlatform
	case max(c.supply, c.memory.Replicas) >= c.needNow:
		return ShortOfStarts, OwnerPlatform
	}
	return ShortOfForecast, OwnerPlatform
}

// shortage is what replicas that are left out for a cause make the ready ones short of.
func (c Cause) shortage() ShortageCause {
	switch c {
	case QuotaCapped:
		return ShortOfQuota
	case NoStock:
		return ShortOfStock
	}
	return ShortOfSlots
}
