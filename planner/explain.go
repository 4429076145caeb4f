package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"forewarm/coldstart"
)

// Recorded is one State of a journal and the Policy it was decided under.
type Recorded struct {
	State  State
	Policy Policy
}

// CounterfactualKind is what kind of change would have prevented a shortage.
type CounterfactualKind string

// The kinds, in the order in which the first that prevents the shortage is named: what a line of configuration changes
// comes before what somebody has to build or buy.
const (
	RemedyLimit     CounterfactualKind = "higher replicas_max"
	RemedyAuthority CounterfactualKind = "authority act"
	RemedyVeto      CounterfactualKind = "remedy of a veto"
	RemedyQuota     CounterfactualKind = "more quota"
	RemedyLevel     CounterfactualKind = "higher service level"
	RemedyPhase     CounterfactualKind = "faster phase"
	RemedySlots     CounterfactualKind = "more slots"
	RemedyEarlier   CounterfactualKind = "earlier start"
)

// Counterfactual is one change and what a replay with it gives.
type Counterfactual struct {
	Kind  CounterfactualKind `json:"kind"`
	What  string             `json:"what"`
	Owner Owner              `json:"owner"`
	// Prevents is whether no replica would have been short; Short is how many still would have been, at worst.
	Prevents bool `json:"prevents"`
	Short    int  `json:"short_replicas"`
}

// Explanation says why a model was short of replicas, and which change would have prevented it.
type Explanation struct {
	Model string `json:"model"`
	// From and To are the first and last State of the newest shortage in a row; both zero when there was none.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Need is the most that was needed then, Short the most that was missing.
	Need  int           `json:"need_replicas"`
	Short int           `json:"short_replicas"`
	Cause ShortageCause `json:"cause,omitempty"`
	Owner Owner         `json:"owner,omitempty"`
	// Asked is when the plan first asked for Need; zero when it never did.
	Asked time.Time `json:"asked,omitzero"`
	// Lead is the lead time that the plan counted with when the shortage began; 0 is unknown.
	Lead time.Duration `json:"lead_ns,omitempty"`
	// Changes are all that were replayed; Remedy is the first that prevents the shortage, nil when none does.
	Changes []Counterfactual `json:"changes,omitempty"`
	Remedy  *Counterfactual  `json:"remedy,omitempty"`
	Why     string           `json:"why"`
}

// ErrNoRecords is returned when nothing recorded tells about the model.
var ErrNoRecords = errors.New("no recorded state has the model")

// Explain finds the newest shortage of a model in recorded States, oldest first, and replays them with one change at a
// time. removals are the phases that could be shorter (see Removals).
//
// A State counts as short when the load known then needs more replicas than were ready. What a change gives is counted
// as the plan does: what was ordered at a State, was held until the shortage and had a slot is ready a lead time (at the
// plan's quantile) later. Each State is decided anew as it was recorded, with the change; what the change would have
// done to the States after it is not simulated, and between two States that a sparse journal holds nothing is ordered.
// Cost: one Decide per State and change.
func Explain(model string, records []Recorded, removals []Removal) (Explanation, error) {
	e := Explanation{Model: model}
	x := explaining{model: model}
	for _, r := range records {
		if r.State.model(model) != nil {
			x.records = append(x.records, r)
		}
	}
	if len(x.records) == 0 {
		return e, fmt.Errorf("%w %q", ErrNoRecords, model)
	}
	base, err := x.replay(nil)
	if err != nil {
		return e, err
	}
	first, last, ok := newestShortage(base)
	if !ok {
		e.Why = fmt.Sprintf("in %d recorded states from %s to %s the ready replicas carried the load", len(base),
			base[0].at.Format(time.RFC3339), base[len(base)-1].at.Format(time.RFC3339))
		return e, nil
	}
	x.first, x.last = first, last
	x.describe(&e, base)
	e.Short = 0
	for _, o := range base[first : last+1] {
		e.Short = max(e.Short, o.need-o.ready)
	}
	switch planned, known := x.short(base); {
	case !known:
		e.Why += "; no recorded state is a lead time older than the shortage, so what would have prevented it cannot be told"
		return e, nil
	case planned == 0:
		e.Why += "; the plan had ordered them in time: the starts took longer than the lead time that it counted with"
		return e, nil
	}
	for _, c := range x.changes(&e, base, removals) {
		after, err := x.replay(c.apply)
		if err != nil {
			return e, err
		}
		left, known := x.short(after)
		c.Short, c.Prevents = left, known && left == 0
		e.Changes = append(e.Changes, c.Counterfactual)
		if c.Prevents && e.Remedy == nil {
			remedy := c.Counterfactual
			e.Remedy = &remedy
		}
	}
	return e, nil
}

// model returns a model's state, or nil.
func (s *State) model(name string) *ModelState {
	i, ok := slices.BinarySearchFunc(s.Models, name, func(m ModelState, name string) int { return cmp.Compare(m.Name, name) })
	if !ok {
		return nil
	}
	return &s.Models[i]
}

// explaining is one explanation under way; first and last index the shortage in records.
type explaining struct {
	model       string
	records     []Recorded
	first, last int
}

// outcome is what one State gave.
type outcome struct {
	at          time.Time
	need, ready int // 0, 0 while unknown
	planned     int // what the plan asked for
	ordered     int // what was on its way or there after this decision, as far as it had slots
	lead        time.Duration
	decision    *ModelDecision
}

// replay decides all States with a change.
func (x *explaining) replay(change func(*State, *ModelPolicy)) ([]outcome, error) {
	out := make([]outcome, 0, len(x.records))
	for _, r := range x.records {
		s, p := r.State, r.Policy
		s.Models = slices.Clone(s.Models)
		if change != nil {
			mp := p.For(x.model)
			change(&s, &mp)
			p.Models = maps.Clone(p.Models)
			if p.Models == nil {
				p.Models = map[string]ModelPolicy{}
			}
			p.Models[x.model] = mp
		}
		d, err := Decide(s, p)
		if err != nil {
			return nil, fmt.Errorf("replaying %s: %w", s.Now.Format(time.RFC3339), err)
		}
		out = append(out, x.outcome(&s, &d))
	}
	return out, nil
}

func (x *explaining) outcome(s *State, d *Decision) outcome {
	m, md := s.model(x.model), d.Model(x.model)
	o := outcome{at: s.Now, decision: md}
	supply := 0
	if m.Replicas != nil {
		supply = m.Replicas.supply()
		if a := md.Admission; a != nil {
			o.need, o.ready = a.Need, m.Replicas.Ready
		}
	}
	if md.Replicas != nil {
		o.planned = *md.Replicas
	}
	o.ordered = supply
	if md.Answer != nil {
		o.ordered = max(supply, *md.Answer)
	}
	for _, f := range d.Shortfalls {
		if f.Model == x.model {
			o.ordered = max(supply, o.ordered-f.Replicas)
		}
	}
	if md.Lead != nil {
		o.lead = md.Lead.Time
	}
	return o
}

// newestShortage returns the last States in a row that were short.
func newestShortage(all []outcome) (first, last int, ok bool) {
	for last = len(all) - 1; last >= 0 && all[last].need <= all[last].ready; last-- {
	}
	if last < 0 {
		return 0, 0, false
	}
	for first = last; first > 0 && all[first-1].need > all[first-1].ready; first-- {
	}
	return first, last, true
}

// short is how many replicas are short at worst in the States of the shortage; known is false when no State is a lead
// time older than its beginning.
func (x *explaining) short(all []outcome) (worst int, known bool) {
	for j := x.first; j <= x.last; j++ {
		o := all[j]
		there := o.ready
		k := j
		for k >= 0 && (all[k].lead == 0 || all[k].at.Add(all[k].lead).After(o.at)) {
			k--
		}
		if k >= 0 {
			held := all[k].ordered
			for _, between := range all[k : j+1] {
				held = min(held, between.ordered)
			}
			there = max(there, held)
			known = true
		} else if j == x.first {
			return max(worst, o.need-there), false
		}
		worst = max(worst, o.need-there)
	}
	return worst, known
}

func (x *explaining) describe(e *Explanation, base []outcome) {
	e.From, e.To = base[x.first].at, base[x.last].at
	e.Lead = base[x.first].lead
	e.Cause, e.Owner = base[x.first].decision.Admission.Cause, base[x.first].decision.Admission.Owner
	for _, o := range base[x.first : x.last+1] {
		e.Need = max(e.Need, o.need)
	}
	asked := "never asked for so many"
	for _, o := range base[:x.last+1] {
		if o.planned >= e.Need {
			e.Asked = o.at
			asked = fmt.Sprintf("first asked for them at %s", o.at.Format(time.TimeOnly))
			break
		}
	}
	lead := "an unknown lead time"
	if e.Lead > 0 {
		lead = "a lead time of " + shortDuration(e.Lead)
	}
	e.Why = fmt.Sprintf("up to %d replicas were needed from %s on and %d were ready at first; the plan %s, with %s", e.Need,
		e.From.Format(time.TimeOnly), base[x.first].ready, asked, lead)
}

// candidate is a change and how to make it.
type candidate struct {
	Counterfactual
	apply func(*State, *ModelPolicy)
}

// changes are those that could matter, in the order of their kinds.
func (x *explaining) changes(e *Explanation, base []outcome, removals []Removal) []candidate {
	out := x.policyChanges(e, base)
	for _, level := range []float64{0.99, 0.999} {
		if level > x.records[x.first].Policy.For(x.model).ServiceLevel {
			out = append(out, candidate{Counterfactual{Kind: RemedyLevel, What: fmt.Sprintf("service_level %g", level), Owner: OwnerPlatform},
				func(_ *State, p *ModelPolicy) { p.ServiceLevel = max(p.ServiceLevel, level) }})
		}
	}
	removals = slices.Clone(removals)
	slices.SortStableFunc(removals, func(a, b Removal) int { return cmp.Compare(a.From-a.To, b.From-b.To) })
	for _, r := range removals {
		out = append(out, candidate{Counterfactual{Kind: RemedyPhase, Owner: phaseOwner(r.Phase),
			What: fmt.Sprintf("%s on %s in %s instead of %s", r.Phase, r.Path, shortDuration(r.To), shortDuration(r.From))},
			func(s *State, _ *ModelPolicy) { x.shorten(s, r) }})
	}
	if c, ok := x.moreSlots(e.Need); ok {
		out = append(out, c)
	}
	if e.Lead > 0 {
		by := e.From.Add(-e.Lead)
		what := fmt.Sprintf("a minimum of %d from %s", e.Need, by.Format(time.TimeOnly))
		if e.Asked.After(by) {
			what += fmt.Sprintf(", %s before the plan asked for them", shortDuration(e.Asked.Sub(by)))
		}
		out = append(out, candidate{Counterfactual{Kind: RemedyEarlier, What: what, Owner: OwnerPlatform}, func(_ *State, p *ModelPolicy) {
			p.Authority, p.ReplicasMin = Act, max(p.ReplicasMin, e.Need)
			if p.ReplicasMax > 0 {
				p.ReplicasMax = max(p.ReplicasMax, e.Need)
			}
		}})
	}
	return out
}

// policyChanges are those of limits, authority, vetoes and quotas.
func (x *explaining) policyChanges(e *Explanation, base []outcome) (out []candidate) {
	p := x.records[x.first].Policy.For(x.model)
	if p.ReplicasMax > 0 && p.ReplicasMax < e.Need {
		out = append(out, candidate{Counterfactual{Kind: RemedyLimit, Owner: OwnerApplication,
			What: fmt.Sprintf("replicas_max of at least %d instead of %d", e.Need, p.ReplicasMax)},
			func(_ *State, p *ModelPolicy) { p.ReplicasMax = 0 }})
	}
	if p.Authority != Act {
		out = append(out, candidate{Counterfactual{Kind: RemedyAuthority, Owner: OwnerPlatform,
			What: fmt.Sprintf("under %s KEDA was told %d whatever the plan was", p.Authority, p.ReplicasMin)},
			func(_ *State, p *ModelPolicy) { p.Authority = Act }})
	}
	if rule, ok := vetoOf(base[:x.last+1]); ok {
		// The evidence stays: launches that failed and KV tokens in use count for more than vetoes.
		out = append(out, candidate{Counterfactual{Kind: RemedyVeto, Owner: rule.Owner, What: fmt.Sprintf("%s: %s", rule.Rule, rule.Remedy)},
			func(_ *State, p *ModelPolicy) { p.unvetoed = true }})
	}
	if len(x.records[x.first].State.Quotas) > 0 {
		out = append(out, candidate{Counterfactual{Kind: RemedyQuota, Owner: OwnerPlatform, What: "no limit by quota"},
			func(s *State, _ *ModelPolicy) { s.Quotas, s.Cohorts = nil, nil }})
	}
	return out
}

// vetoOf is the first veto that held growth.
func vetoOf(all []outcome) (Finding, bool) {
	for _, o := range all {
		held := slices.ContainsFunc(o.decision.Steps, func(s Step) bool { return s.Stage == StageDiagnose && s.BoundBy == "veto" })
		if i := slices.IndexFunc(o.decision.Findings, func(f Finding) bool { return f.Verdict == Veto }); held && i >= 0 {
			return o.decision.Findings[i], true
		}
	}
	return Finding{}, false
}

// shorten makes the starts on a path as much shorter as the removal says, in proportion at every quantile.
func (x *explaining) shorten(s *State, r Removal) {
	m := s.model(x.model)
	m.LeadTimes = slices.Clone(m.LeadTimes)
	for i := range m.LeadTimes {
		lt := &m.LeadTimes[i]
		if lt.Path != r.Path || !lt.Known() {
			continue
		}
		median := lt.Quantile(0.5)
		by := max(0.01, (median-(r.From-r.To)).Seconds()/median.Seconds())
		*lt = lt.Scaled(by)
	}
}

// moreSlots adds a node that holds all that is needed to the first pool that can hold the model.
func (x *explaining) moreSlots(need int) (candidate, bool) {
	inv, shape := x.records[x.first].State.Inventory, x.records[x.first].State.model(x.model).Shape
	if inv == nil {
		return candidate{}, false
	}
	fits := func(p Pool) bool { return p.holds(shape) }
	i := slices.IndexFunc(inv.Pools, fits)
	if i < 0 {
		return candidate{}, false
	}
	gpus := need * shape.GPUs * max(1, shape.Pods)
	return candidate{Counterfactual{Kind: RemedySlots, Owner: OwnerPlatform,
		What: fmt.Sprintf("%d more free GPUs on running nodes of pool %s", gpus, inv.Pools[i].Name)}, func(s *State, _ *ModelPolicy) {
		if s.Inventory == nil {
			return
		}
		more := *s.Inventory
		more.Pools = slices.Clone(more.Pools)
		if i := slices.IndexFunc(more.Pools, fits); i >= 0 {
			p := &more.Pools[i]
			// After every name of the pool, for nodes are sorted.
			name := "~"
			if n := len(p.Nodes); n > 0 {
				name = p.Nodes[n-1].Name + "~"
			}
			p.Nodes = append(slices.Clone(p.Nodes), Node{Name: name, GPUs: gpus, FreeGPUs: gpus, Usable: true})
		}
		s.Inventory = &more
	}}, true
}

// phaseOwner is who can shorten a phase: nodes and scheduling are the platform's, what the pod does is the application's.
func phaseOwner(p coldstart.Phase) Owner {
	switch p {
	case coldstart.NodeLaunch, coldstart.NodeRegister, coldstart.NodeReady, coldstart.Schedule:
		return OwnerPlatform
	}
	return OwnerApplication
}
