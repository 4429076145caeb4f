package planner

import (
	"math"
	"slices"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// learnStarts hands ended starts to the ledger, and those under way as right-censored samples: a pod that is still
// starting says "longer than this". Samples that the ledger refuses are returned as text.
func (t *Tracker) learnStarts(m *trackedModel, look *ModelObservation, now time.Time) []string {
	var refused []string
	add := func(s coldstart.Sample) {
		s.Key.Model, s.Key.Shape = m.Name, m.Shape.String()
		if err := t.cfg.Ledger.Add(s); err != nil {
			refused = append(refused, err.Error())
		}
		m.leadsAt = time.Time{}
	}
	for _, s := range look.Starts {
		add(s)
	}
	if look.Replicas == nil {
		return refused
	}
	for _, s := range look.Replicas.Starting {
		if s.Since.After(now) {
			continue // clock skew between sources: it has not been starting for any time yet
		}
		add(coldstart.Sample{
			ID:      s.ID,
			Key:     coldstart.Key{Path: s.Path},
			Started: s.Since,
			Total:   now.Sub(s.Since),
			Outcome: coldstart.Pending,
		})
	}
	return refused
}

// Inherit learns the starts that another Tracker knows, those that pick picks; nil picks all. It returns the samples that the
// ledger refuses as text. Neither Tracker may be in use meanwhile.
func (t *Tracker) Inherit(from *Tracker, pick func(coldstart.Sample) bool) []string {
	var refused []string
	for _, s := range from.cfg.Ledger.Samples() {
		if pick != nil && !pick(s) {
			continue
		}
		if err := t.cfg.Ledger.Add(s); err != nil {
			refused = append(refused, err.Error())
		}
	}
	return refused
}

// Keyed returns the starts of a model under the key that the ledger has them under: with the model's name and shape. Those
// of a model that is not tracked come back as they are.
func (t *Tracker) Keyed(model string, starts []coldstart.Sample) []coldstart.Sample {
	i := slices.IndexFunc(t.cfg.Models, func(m TrackedModel) bool { return m.Name == model })
	if i < 0 {
		return starts
	}
	out := slices.Clone(starts)
	for k := range out {
		out[k].Key.Model, out[k].Key.Shape = model, t.cfg.Models[i].Shape.String()
	}
	return out
}

// leadsMaxAge is how long an estimate is kept while the model itself has no new start: long enough that a fleet whose
// models all borrow from each other does not scan the ledger every tick.
const leadsMaxAge = time.Minute

// leadTimes estimates every start path; a path about which nothing is known is left out.
func (t *Tracker) leadTimes(m *trackedModel, now time.Time) []coldstart.LeadTime {
	if !m.leadsAt.IsZero() && now.Sub(m.leadsAt) >= 0 && now.Sub(m.leadsAt) < leadsMaxAge {
		return m.leads
	}
	var out []coldstart.LeadTime
	for _, path := range coldstart.Paths() {
		lt := t.cfg.Ledger.Estimate(coldstart.Key{Model: m.Name, Shape: m.Shape.String(), Path: path}, now)
		if lt.Known() {
			out = append(out, lt)
		}
	}
	m.leads, m.weightsOn, m.leadsAt = out, weightsOn(t.cfg.Ledger.Of(m.Name)), now
	return out
}

// requestSizes is the exponentially weighted mean of tokens per request, which turns a queue length into work.
type requestSizes struct {
	prompt, completion, requests float64 // weighted sums of rates
}

// sizeDecay is the weight a step keeps at the next one: a half-life of about an hour of one-minute steps.
const sizeDecay = 0.988

func (r *requestSizes) add(prompt, completion, requests float64) {
	r.prompt = r.prompt*sizeDecay + prompt
	r.completion = r.completion*sizeDecay + completion
	r.requests = r.requests*sizeDecay + requests
}

// mix is the mean size of a request; nil when it is unknown. A request without a token of either kind counts as one: the
// rates are means over time and need not belong to whole requests.
func (r requestSizes) mix() *RequestMix {
	if r.requests <= 0 {
		return nil
	}
	return &RequestMix{Prompt: Tokens(max(1, r.prompt/r.requests)), Completion: Tokens(max(1, r.completion/r.requests))}
}

// backlog is the work of waiting requests of mean size; nil when either is unknown.
func (r requestSizes) backlog(waiting *float64) *Backlog {
	if waiting == nil || r.requests <= 0 {
		return nil
	}
	return &Backlog{
		Prompt:     Tokens(*waiting * r.prompt / r.requests),
		Completion: Tokens(*waiting * r.completion / r.requests),
	}
}

// append adds one step at start to the history.
func (h *LoadHistory) append(start time.Time, cfg TrackerConfig, p, c, r float64, atLeast bool) {
	for _, s := range []struct {
		to *forecast.Series
		v  float64
	}{{&h.Prompt, p}, {&h.Completion, c}, {&h.Requests, r}} {
		if s.to.Len() == 0 {
			*s.to = forecast.Series{Start: start, Step: cfg.Step, Location: cfg.Location, AtLeast: []bool{}}
		}
		s.to.Values = append(s.to.Values, s.v)
		s.to.AtLeast = append(s.to.AtLeast, atLeast && !math.IsNaN(s.v)) // a missing value bounds nothing
	}
}

// cloneHistory copies a history so that the Tracker owns it; every series gets AtLeast marks of full length.
func cloneHistory(h LoadHistory, loc *time.Location) LoadHistory {
	clone := func(s forecast.Series) forecast.Series {
		s.Values = slices.Clone(s.Values)
		marks := make([]bool, len(s.Values))
		copy(marks, s.AtLeast)
		for i := range s.Values {
			s.Values[i] = known(s, i)
			marks[i] = marks[i] && !math.IsNaN(s.Values[i]) // a missing value bounds nothing
		}
		s.AtLeast, s.Location = marks, loc
		return s
	}
	return LoadHistory{Prompt: clone(h.Prompt), Completion: clone(h.Completion), Requests: clone(h.Requests)}
}

// known is value i of s, NaN when it is not a usable rate (missing, infinite, negative).
func known(s forecast.Series, i int) float64 {
	if v := s.Values[i]; v >= 0 && !math.IsInf(v, 0) {
		return v
	}
	return math.NaN()
}

func lowerBound(h LoadHistory, i int) bool {
	return h.Prompt.AtLeast != nil && h.Prompt.AtLeast[i] || h.Completion.AtLeast != nil && h.Completion.AtLeast[i]
}

// finite passes a gauge on when it is a usable number.
func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) || *v < 0 {
		return nil
	}
	return v
}

// sampleDigits is the precision of sample paths in a State: far finer than any forecast, and a third of the bytes of a
// recorded State.
const sampleDigits = 4

// briefly rounds every value of e to sampleDigits significant digits, in place.
func briefly(e forecast.Ensemble) forecast.Ensemble {
	for _, path := range e.Paths {
		for k, v := range path {
			path[k] = roundDigits(v)
		}
	}
	return e
}

func roundDigits(v float64) float64 {
	const least = 1e-290 // below it a unit would not be finite
	if math.Abs(v) < least {
		return 0
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v)))) + 1 - sampleDigits
	if exponent > 0 {
		unit := math.Pow10(exponent)
		return math.Round(v/unit) * unit
	}
	unit := math.Pow10(-exponent)
	return math.Round(v*unit) / unit
}
