package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// size turns load into replicas: what this moment needs, and the reactive floor, below which no forecast and no veto may
// push the plan (design: never worse than reactive):
//
//	max( ceil((offered load + backlog ÷ drainWithin) ÷ one replica), ceil(waiting ÷ queueThreshold) )
//
// Unknown parts are left out: they cannot lower the floor, and blindness keeps the plan from shrinking meanwhile.
func (c *course) size() {
	l := c.state.Load
	if c.state.Profile != nil {
		c.rates = c.ratesFor(l)
	}
	if l != nil && c.state.Profile != nil {
		c.needNow = c.rates.replicasFor(float64(l.Prompt), float64(l.Completion))
		c.needKnown = c.loadKnown
		c.floor = c.needNow
		s := c.step(StageSize, &c.needNow, c.sizeText(l.Load))
		if c.rates.capacity != nil {
			s.BoundBy = string(c.rates.capacity.Bound)
		}
		c.priceAlternatives()
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

// ratesFor turns the profile into rates for the requests of the last hours, or for those of this moment when they are of
// another shape and need more: a burst of long contexts must not be sized as so many more requests of the usual kind.
func (c *course) ratesFor(l *ObservedLoad) sized {
	usual := c.ratesOf(c.state.Requests, l)
	if l == nil || usual.mix == nil {
		return usual
	}
	now, ok := l.mix()
	if !ok || !now.moved(*usual.mix) {
		return usual
	}
	burst := c.ratesOf(&now, l)
	if burst.utilisation(float64(l.Prompt), float64(l.Completion)) <= usual.utilisation(float64(l.Prompt), float64(l.Completion)) {
		return usual
	}
	before := Load{Prompt: TokenRate(float64(usual.mix.Prompt) * float64(l.Requests)),
		Completion: TokenRate(float64(usual.mix.Completion) * float64(l.Requests)), Requests: l.Requests}
	burst.surge = SurgeCause(before, l.Load, burst.Profile)
	burst.usual = usual.mix
	return burst
}

// ratesOf turns the profile into rates for one mix and the replicas that there are, or as many as the load needs when
// those are more: spread over more replicas each finds less in its prefix cache, so that a number that was right for fewer
// is short.
func (c *course) ratesOf(mix *RequestMix, l *ObservedLoad) sized {
	replicas := max(1, c.memory.Replicas)
	if c.supplyOK {
		replicas = max(1, c.supply)
	}
	rates := c.state.Profile.sizedFor(mix, c.policy.slo(), replicas)
	const rounds = 4 // each adds less than the one before
	for range rounds {
		if l == nil || !c.state.Profile.dilutes() {
			break
		}
		need := rates.replicasFor(float64(l.Prompt), float64(l.Completion))
		if need <= replicas {
			break
		}
		replicas = need
		rates = c.state.Profile.sizedFor(mix, c.policy.slo(), replicas)
	}
	return rates
}

func (c *course) sizeText(l Load) string {
	r := &c.rates
	var b strings.Builder
	fmt.Fprintf(&b, "%s fill %.2f replicas (", l, r.utilisation(float64(l.Prompt), float64(l.Completion)))
	switch {
	case r.capacity != nil:
		b.WriteString(c.capacityText())
	case r.mix != nil:
		fmt.Fprintf(&b, "one takes %.0f prompt or %.0f completion tok/s at %s, by the table of measured rates", float64(r.Prompt),
			float64(r.Completion), r.mix)
	default:
		fmt.Fprintf(&b, "one takes %.0f prompt or %.0f completion tok/s", float64(r.Prompt), float64(r.Completion))
	}
	if r.usual != nil {
		fmt.Fprintf(&b, "; requests are of another shape now: %.0f + %.0f tokens were usual", float64(r.usual.Prompt), float64(r.usual.Completion))
		if r.surge != SurgeNone {
			fmt.Fprintf(&b, ", %s", r.surge)
		}
	}
	if r.Source != "" {
		b.WriteString("; " + r.Source)
	}
	b.WriteByte(')')
	return b.String()
}

// capacityText says what one replica of known physics carries, within what, and how far it is from its other limits.
func (c *course) capacityText() string {
	a, p, slo := c.rates.capacity, c.state.Profile.Physics, c.policy.slo()
	var b strings.Builder
	fmt.Fprintf(&b, "one carries %.3g requests/s of %s", float64(a.Requests), c.rates.mix)
	if bounds := metBounds(slo, a.Unmet); bounds != "" {
		fmt.Fprintf(&b, ", p%s of them with %s", percent(slo.Percentile), bounds)
	}
	fmt.Fprintf(&b, ": ITL is %.0f ms on average then, %.0f of %d sequences and %.0f %% of the KV tokens are in use",
		float64(a.ITL)/float64(time.Millisecond), float64(a.Sequences), p.MaxSequences, 100*float64(a.KVTokens/p.KVTokens))
	for _, bound := range a.Unmet {
		what := fmt.Sprintf("ITL of %v", slo.ITL)
		if bound == BoundTTFT {
			what = fmt.Sprintf("TTFT of %v", slo.TTFT)
		}
		fmt.Fprintf(&b, "; the %s is out of reach for such requests even on an idle replica, so it is left out", what)
	}
	if c.rates.mix.moved(p.Requests) {
		fmt.Fprintf(&b, "; the profile was made for %s", p.Requests)
	}
	return b.String()
}

// metBounds names the bounds of an SLO that replicas can meet.
func metBounds(slo SLO, unmet []Constraint) string {
	var bounds []string
	if slo.TTFT > 0 && !slices.Contains(unmet, BoundTTFT) {
		bounds = append(bounds, fmt.Sprintf("TTFT ≤ %v", slo.TTFT))
	}
	if slo.ITL > 0 && !slices.Contains(unmet, BoundPrefill) && !slices.Contains(unmet, BoundDecode) {
		bounds = append(bounds, fmt.Sprintf("ITL ≤ %v", slo.ITL))
	}
	return strings.Join(bounds, " and ")
}

// reactiveWindowMin is the shortest stretch of observed need that a release without forecast authority may rest on: the
// HPA's default scale-down stabilisation.
const reactiveWindowMin = 5 * time.Minute

// addBacklog raises the floor to the load plus the queue's tokens worked off within the policy's time. An unknown load
// is left out, which makes the sum a lower bound.
func (c *course) addBacklog() {
	b := c.state.Signals.Backlog
	if c.state.Profile == nil || b == nil || (b.Prompt <= 0 && b.Completion <= 0) {
		return
	}
	var l Load
	if c.state.Load != nil {
		l = c.state.Load.Load
	}
	seconds := c.policy.DrainWithin.Seconds()
	n := c.rates.replicasFor(float64(l.Prompt)+float64(b.Prompt)/seconds, float64(l.Completion)+float64(b.Completion)/seconds)
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
