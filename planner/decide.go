package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// breakAfter is how many intervals may pass between two Decisions before the run of ticks counts as broken: two lost
// ticks are a hiccup, more is a restart or an outage during which nobody watched the load.
const breakAfter = 4

// Decide chooses capacity. It returns one ModelDecision per model of s, in the same order, and the Memory to put into
// the next State.
//
// Missing facts never lower a plan: a model with an unknown or old load, unknown replicas or no profile is held at its
// last plan (or at what runs) and may only grow; a model about which nothing was ever known gets a nil count. Shortfalls
// are results. A fact that breaks its invariant counts as missing and holds its own model (see Sound). The only errors are
// Policies out of range and States whose time, names or Memory are unusable; all problems are reported at once and s is
// not modified.
//
// Cost: linear in the number of models × sample paths × forecast steps, plus models × nodes for placing.
func Decide(s State, p Policy) (Decision, error) {
	s = s.Sound()
	if err := errors.Join(append(s.unusable(), p.Validate())...); err != nil {
		return Decision{}, fmt.Errorf("planner: %w", err)
	}
	s.Now = fixZone(s.Now)
	unbroken := unbrokenSince(s)
	memories := make(map[string]ModelMemory, len(s.Memory.Models))
	for _, m := range s.Memory.Models {
		memories[m.Name] = m
	}
	stock := stockMemory(&s)
	rules := growthRules{now: s.Now, stock: stock, static: p.Pools == Act}
	room := newRoom(s.Inventory, rules)
	if s.Inventory.stale(s.Now) {
		room = nil
	}
	book, ending := newQuotaBook(&s, p), s.Inventory.ending()
	d := Decision{
		At:     s.Now,
		Models: make([]ModelDecision, 0, len(s.Models)),
		Gaps:   slices.Clone(s.Gaps),
		Memory: Memory{At: s.Now, Unbroken: unbroken, Models: make([]ModelMemory, 0, len(s.Models))},
	}
	portions := s.divide(p)
	courses := make([]*course, len(s.Models))
	for i := range s.Models {
		memory, remembered := memories[s.Models[i].Name]
		c := &course{
			state:      &s.Models[i],
			now:        s.Now,
			interval:   s.Interval,
			policy:     p.For(s.Models[i].Name),
			seed:       p.Seed,
			memory:     memory,
			remembered: remembered,
			unbroken:   unbroken,
			inventory:  s.Inventory,
			cluster:    s.Evidence,
			thresholds: p.Diagnose,
		}
		c.missingGauge = missingGauge(s.Gaps, c.state.Name, c.state)
		if part, ok := portions[c.state.Name]; ok {
			c.state, c.portion = &part.state, part.steps
			c.missingGauge = missingGauge(s.Gaps, part.gauges, c.state)
			c.invalid = invalidFacts(s.Gaps, c.state.Name, part.gauges)
		} else {
			c.invalid = invalidFacts(s.Gaps, c.state.Name, "")
		}
		c.standby = s.served(c.policy.Standby)
		if s.Inventory != nil {
			c.quotas = book.of(c, s.Inventory.Pools)
		} else {
			c.quotas = book.of(c, nil)
		}
		c.quotaPods = book.pods(c)
		c.ending = ending
		courses[i] = c
	}
	turn := inTurn(courses)
	for _, tier := range tiers(turn) {
		for _, c := range tier {
			c.reserve(room)
		}
		for _, c := range tier {
			c.decide(room, book)
		}
	}
	yield(courses, s.Inventory)
	for _, c := range courses {
		c.capInsurance()
		c.answer()
	}
	for _, c := range turn {
		d.Buffers = append(d.Buffers, c.buffer(room)...)
	}
	slices.SortStableFunc(d.Buffers, func(a, b BufferTarget) int { return cmp.Compare(a.Model, b.Model) })
	d.Pools = poolTargets(room, courses)
	for _, c := range turn {
		c.planQuota(room, book)
	}
	for _, c := range courses {
		c.admit()
		d.Models = append(d.Models, c.out)
		for _, short := range c.asked() {
			short.Owner = OwnerPlatform // nodes, stock, quota and start times all are
			d.Shortfalls = append(d.Shortfalls, short)
		}
		if c.wantedOK || c.remembered { // a plan that was never made must not be remembered as one of 0
			d.Memory.Models = append(d.Memory.Models, c.next)
		}
	}
	d.Quotas, d.Memory.Quotas = book.targets()
	d.Memory.Stock = stock
	keepForgotten(&d, s.Memory)
	if !s.Inventory.stale(s.Now) {
		d.Slots = modelSlots(s, rules, func(model int) int { return courses[model].quotaPods })
	}
	d.Order = order(&s, &d)
	return d, nil
}

// served is the model whose demand a standby is for; nil when there is none.
func (s *State) served(standby *Standby) *ModelState {
	if standby == nil {
		return nil
	}
	return s.model(standby.For)
}

// fixZone keeps the offset of t and drops its zone rules and monotonic reading, which JSON does not carry: a State must
// give the same texts before and after it was recorded.
func fixZone(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Round(0).In(time.FixedZone("", offset))
}

// unbrokenSince is the start of the current run of ticks. A first start, a pause of more than breakAfter intervals and
// a clock that went back all start it anew.
func unbrokenSince(s State) time.Time {
	m := s.Memory
	if m.At.IsZero() || m.Unbroken.IsZero() || m.At.After(s.Now) || s.Now.Sub(m.At) > breakAfter*s.Interval {
		return s.Now
	}
	return m.Unbroken
}

// keepForgotten carries the memory of models that this State does not mention: an observation that lost a model must
// not erase the plan that the model comes back to. Nobody watches such a model, so its plan counts as wanted meanwhile:
// it may shrink only after a scale-down window has been watched again.
func keepForgotten(d *Decision, old Memory) {
	next := &d.Memory
	known := make(map[string]bool, len(d.Models))
	for _, m := range d.Models {
		known[m.Name] = true
	}
	for _, m := range old.Models {
		if !known[m.Name] {
			unwatched := Count{At: d.At, Replicas: m.Replicas}
			m.Wanted = pushMax(m.Wanted, unwatched, time.Time{})
			m.Needed = pushMax(m.Needed, unwatched, time.Time{})
			next.Models = append(next.Models, m)
		}
	}
	slices.SortFunc(next.Models, func(a, b ModelMemory) int { return cmp.Compare(a.Name, b.Name) })
}

// course is one model on its way through the stages. Each stage reads what earlier ones set and adds Steps to out.
type course struct {
	// in
	state      *ModelState
	now        time.Time
	interval   time.Duration
	policy     ModelPolicy
	seed       uint64
	memory     ModelMemory
	remembered bool
	unbroken   time.Time
	// missingGauge names a gauge that should be here and is not.
	missingGauge string
	// standby is the model whose demand this one takes over by its policy; nil is none, or one that the State does not have.
	standby *ModelState
	// portion says why the state's load is a part of a model's that others serve too.
	portion []Step
	// invalid names facts that were left out because they broke an invariant.
	invalid string
	// for diagnose: the hardware, evidence of the whole cluster, and the policy's thresholds.
	inventory  *Inventory
	cluster    *ClusterEvidence
	thresholds *Thresholds

	// demand.go
	loadKnown bool   // a load was observed and is fresh
	blind     string // why nothing may shrink; empty when all facts are there

	// size.go
	rates      sized // the profile for the present requests; valid when there is one
	needNow    int   // replicas that the offered load of this moment needs; valid when needKnown
	needKnown  bool
	floor      int // the reactive floor; 0 when unknown, which never lowers anything
	floorWhy   string
	supply     int // ready + starting; valid when supplyKnown
	supplyOK   bool
	forecastOK bool

	// coverage.go
	level    float64       // at which the forecast is read: the service level or above
	coverage *PeakCoverage // nil is unknown

	// place.go
	lead      *Lead
	quotas    []int // the quotas its replicas are admitted under, by index
	quotaPods int   // the pods beyond those there are that they admit
	pending   int   // replicas that wait for a node
	waiting   landed
	nodesFor  []int   // nodes to be launched for those, per pool
	surge     int     // replicas of a rollout that room is kept for
	placed    int     // replicas beyond the supply that have a slot, those of the buffer included
	ending    []*Node // those that are known to go away

	// veto.go
	frozen bool // nothing may shrink while writing makes it worse
	vetoed bool // a veto holds growth: neither replicas nor room for them are ordered

	// warm.go and guard.go
	wanted   int
	wantedOK bool

	// insure.go
	uninsured int // the wish without survival and standby

	// tier.go
	promised int // terminating replicas whose GPUs a higher tier waits for
	dropped  int // replicas that fit nowhere and are not asked for while a higher tier waits; shortfalls still has them
	given    int // ready replicas that are given up for a higher tier

	// out
	out        ModelDecision
	next       ModelMemory
	shortfalls []Shortfall
}

// missingGauge reports the queue length as missing when a Gap says that it should be there: a model that never had the
// gauge has no Gap, and must not be blind for ever.
func missingGauge(gaps []Gap, model string, m *ModelState) string {
	if m.Signals.Waiting != nil {
		return ""
	}
	for _, g := range gaps {
		if g.Model == model && g.Fact == "waiting" {
			return "the queue length is missing"
		}
	}
	return ""
}

func (c *course) decide(room *room, book *quotaBook) {
	c.out = ModelDecision{Name: c.state.Name, Authority: c.policy.Authority}
	c.next = ModelMemory{Name: c.state.Name, Replicas: c.memory.Replicas, Wanted: c.memory.Wanted, Needed: c.memory.Needed}
	c.out.Steps = append(c.out.Steps, c.portion...)
	c.demand()
	c.size()
	c.probe(room)
	c.warm()
	c.insure()
	c.diagnose()
	c.guard()
	if c.wantedOK {
		c.commit()
		c.place(room, book)
	}
}

// commit writes the plan into the Decision and the Memory.
func (c *course) commit() {
	plan := c.wanted
	c.out.Replicas = &plan
	c.out.Serving = plan
	if c.needKnown {
		c.out.Serving = min(c.needNow, plan)
	}
	c.out.Warm = plan - c.out.Serving
	c.next.Replicas = plan
}

// answer is what KEDA is told under the model's authority.
func (c *course) answer() {
	switch c.policy.Authority {
	case Act:
		if c.out.Replicas != nil {
			told := c.tell(*c.out.Replicas)
			c.out.Answer = &told
			if told > *c.out.Replicas {
				c.next.Told = told
			}
		} else {
			c.step(StageGuard, nil, "KEDA gets an error, which blocks scale-in and leaves sibling triggers alone")
		}
	default:
		// observe and advise: the sibling trigger decides alone, so the answer must not depend on what we know.
		minimum := c.policy.ReplicasMin
		c.out.Answer = &minimum
		c.step(StageGuard, &minimum, fmt.Sprintf("authority is %s: KEDA is told the configured minimum, the plan is published only",
			c.policy.Authority))
	}
}

func (c *course) step(stage Stage, replicas *int, why string) *Step {
	var n *int
	if replicas != nil {
		v := *replicas
		n = &v
	}
	c.out.Steps = append(c.out.Steps, Step{Stage: stage, Replicas: n, Why: why})
	return &c.out.Steps[len(c.out.Steps)-1]
}
