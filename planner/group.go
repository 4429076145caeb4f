package planner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"forewarm/forecast"
)

// Role is the part of the work that a model's replicas do. Empty is all of it: prefill and decode in the same iterations.
type Role string

// The roles of the two pools of a disaggregated model. Prefill replicas are sized by prompt tokens within the TTFT, decode
// replicas by completion tokens and the contexts they hold within the ITL, so that prompts that get longer grow the first
// alone.
const (
	RolePrefill Role = "prefill"
	RoleDecode  Role = "decode"
)

// group is a model that several workloads serve: its variants, or the pools of its disaggregated replicas. One of them is
// the head, whose load, forecast, requests and signals are those of all.
type group struct {
	head    *ModelState
	members []*ModelState // the head first, the others by name
}

// groups are the models that others serve too, in the order of the State.
func (s *State) groups() []group {
	byHead := map[string][]*ModelState{}
	for i := range s.Models {
		if m := &s.Models[i]; m.Serves != "" {
			byHead[m.Serves] = append(byHead[m.Serves], m)
		}
	}
	var out []group
	for i := range s.Models {
		m := &s.Models[i]
		if others := byHead[m.Name]; len(others) > 0 && m.Serves == "" {
			out = append(out, group{head: m, members: append([]*ModelState{m}, others...)})
		}
	}
	return out
}

// groupProblems reports members without a head and heads that are members themselves.
func (s *State) groupProblems() []error {
	byName := make(map[string]*ModelState, len(s.Models))
	for i := range s.Models {
		byName[s.Models[i].Name] = &s.Models[i]
	}
	var errs []error
	for i := range s.Models {
		m := &s.Models[i]
		if !slices.Contains([]Role{"", RolePrefill, RoleDecode}, m.Role) {
			errs = append(errs, fmt.Errorf("model %q: role is %q: prefill, decode or none are allowed", m.Name, m.Role))
		}
		if m.Price != nil && !(*m.Price > 0 && *m.Price <= 1e6) {
			errs = append(errs, fmt.Errorf("model %q: price_per_hour is %v: above 0 to 1000000 is allowed; leave an unknown one out",
				m.Name, *m.Price))
		}
		if m.Serves == "" {
			continue
		}
		head := byName[m.Serves]
		switch {
		case head == nil || head == m:
			errs = append(errs, fmt.Errorf("model %q: serves is %q: the name of another model of the state is allowed", m.Name, m.Serves))
		case head.Serves != "":
			errs = append(errs, fmt.Errorf("model %q: serves is %q, which serves %q itself: a model with a load of its own is allowed",
				m.Name, m.Serves, head.Serves))
		case (head.Role == "") != (m.Role == ""):
			errs = append(errs, fmt.Errorf("model %q: role is %q and that of %q, which it serves, %q: either all have one or none",
				m.Name, m.Role, head.Name, head.Role))
		}
	}
	return errs
}

// portion is what of the group's load one member is planned for.
type portion struct {
	state ModelState
	// steps say how it came about.
	steps []Step
	// gauges is the model whose gaps count for the signals and all else that is taken from the head.
	gauges string
}

// divide gives every member of every group its part of the load: by role, then among the variants of a role by the
// cheapest mix. Models without others are not in the result.
func (s *State) divide(p Policy) map[string]portion {
	out := map[string]portion{}
	for _, g := range s.groups() {
		for _, role := range []Role{"", RolePrefill, RoleDecode} {
			var variants []*variant
			for _, m := range g.members {
				if m.Role == role {
					variants = append(variants, &variant{state: projected(m, g.head, role), policy: p.For(m.Name)})
				}
			}
			if len(variants) == 0 {
				continue
			}
			mixed := s.mix(variants)
			for i, v := range variants {
				v.state.scale(mixed.shares[i])
				out[v.state.Name] = portion{state: v.state, steps: mixed.steps[i], gauges: g.head.Name}
			}
		}
	}
	return out
}

// fromHead are the facts, as in Gap, that projected takes from the head.
var fromHead = []string{"requests", "load", "forecast", "waiting"}

// projected is a member with the head's load in place of its own, as far as it concerns the role.
func projected(m, head *ModelState, role Role) ModelState {
	out := *m
	out.Requests, out.Signals = head.Requests, head.Signals
	out.Load, out.Forecast = nil, nil
	if head.Load != nil {
		l := *head.Load
		if m != head {
			l.Source = "asked of " + head.Name
		}
		out.Load = &l
	}
	if head.Forecast != nil {
		f := *head.Forecast
		out.Forecast = &f
	}
	switch role {
	case RolePrefill:
		out.keep(true, false)
	case RoleDecode:
		out.keep(false, true)
	}
	out.Profile = m.Profile.forRole(role)
	return out
}

// keep leaves the tokens of one kind in the load and the forecast, and makes the requests those that such replicas see.
func (m *ModelState) keep(prompts, completions bool) {
	mix := m.Requests
	if m.Load != nil {
		if now, ok := m.Load.mix(); ok && (mix == nil || now.moved(*mix)) {
			mix = &now // of the other kind nothing is left in the load to see them by
		}
		if !prompts {
			m.Load.Prompt, m.Load.Requests = 0, 0
		}
		if !completions {
			m.Load.Completion = 0
		}
	}
	if mix != nil {
		only := *mix
		if !completions {
			only.Completion, only.CompletionCV, only.Correlation = 1, 0, 0
		}
		m.Requests = &only
	}
	if f := m.Forecast; f != nil {
		if !prompts {
			f.Prompt = scaled(f.Prompt, 0)
		}
		if !completions {
			f.Completion = scaled(f.Completion, 0)
		}
	}
	if b := m.Signals.Backlog; b != nil {
		only := *b
		if !prompts {
			only.Prompt = 0
		}
		if !completions {
			only.Completion = 0
		}
		m.Signals.Backlog = &only
	}
	if !prompts {
		m.Signals.Waiting = nil // the queue is in front of prefill
	}
}

// decodeHit is the share of a prompt that a decode replica need not compute: its KV tokens come from prefill.
const decodeHit = 0.999

// forRole is the profile of a replica that does only one part of the work: prefill makes one token of a request, decode
// finds the prompt in its cache. Stated rates and tables have both parts apart already.
func (p *Profile) forRole(role Role) *Profile {
	if p == nil || p.Physics == nil || role == "" {
		return p
	}
	physics := *p.Physics
	switch role {
	case RolePrefill:
		physics.Requests.Completion, physics.Requests.CompletionCV, physics.Requests.Correlation = 1, 0, 0
	case RoleDecode:
		physics.PrefixHit = &PrefixHit{Rate: decodeHit, Affine: true}
	}
	return &Profile{Physics: &physics, Source: p.Source}
}

// scale keeps a share of the load.
func (m *ModelState) scale(share float64) {
	if share == 1 {
		return
	}
	if l := m.Load; l != nil {
		l.Prompt *= TokenRate(share)
		l.Completion *= TokenRate(share)
		l.Requests *= RequestRate(share)
	}
	if f := m.Forecast; f != nil {
		f.Prompt, f.Completion = scaled(f.Prompt, share), scaled(f.Completion, share)
	}
	if w := m.Signals.Waiting; w != nil {
		part := *w * share
		m.Signals.Waiting = &part
	}
	if b := m.Signals.Backlog; b != nil {
		m.Signals.Backlog = &Backlog{Prompt: b.Prompt * Tokens(share), Completion: b.Completion * Tokens(share)}
	}
	if r := m.Signals.Running; r != nil {
		part := *r * share
		m.Signals.Running = &part
	}
}

// reference is the load that a mix is chosen for: the largest of now's and of that path of the forecast whose peak is at
// the service level, both in units of one replica of the profile; ok is false when neither is known. Only what a replica
// ordered until then could serve counts of the forecast: the peak until the slowest start would be there.
func (v *variant) reference(now time.Time, interval time.Duration, rates Profile) (l Load, ok bool) {
	most := math.Inf(-1)
	if v.state.Load != nil {
		l, ok = v.state.Load.Load, true
		most = rates.utilisation(float64(l.Prompt), float64(l.Completion))
	}
	f := v.state.Forecast
	if f == nil {
		return l, ok
	}
	c := course{state: &v.state, now: now}
	until := c.forecastEnd()
	if lt, known := c.leadTimeOf(""); known {
		q := 1 - (1-v.policy.ServiceLevel)/2
		until = now.Add(lt.Quantile(q) + v.policy.DrainTime + interval)
	}
	if !c.forecastCovers() {
		return l, ok
	}
	first, last, _ := c.window(now, until)
	type peak struct {
		at   Load
		fill float64
	}
	peaks := make([]peak, len(f.Prompt.Paths))
	for i := range peaks {
		peaks[i].fill = math.Inf(-1)
		for k := first; k <= last; k++ {
			p, g := f.Prompt.Paths[i][k], f.Completion.Paths[i][k]
			if fill := rates.utilisation(p, g); fill > peaks[i].fill {
				peaks[i] = peak{Load{Prompt: TokenRate(p), Completion: TokenRate(g)}, fill}
			}
		}
	}
	slices.SortStableFunc(peaks, func(a, b peak) int {
		switch {
		case a.fill < b.fill:
			return -1
		case a.fill > b.fill:
			return 1
		}
		return 0
	})
	at := peaks[min(max(ceilCount(v.policy.ServiceLevel*float64(len(peaks)))-1, 0), len(peaks)-1)]
	if at.fill > most {
		return at.at, true
	}
	return l, ok
}

// scaled is the ensemble times a factor.
func scaled(e forecast.Ensemble, factor float64) forecast.Ensemble {
	paths := make([][]float64, len(e.Paths))
	for i, path := range e.Paths {
		paths[i] = make([]float64, len(path))
		for k, v := range path {
			paths[i][k] = factor * v
		}
	}
	e.Paths = paths
	return e
}
