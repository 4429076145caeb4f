package planner

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// TrackerConfig is what a Tracker must know beforehand. It holds facts about the models, not wishes.
type TrackerConfig struct {
	// Step is the step of the load history, Horizon how far to forecast, Interval the time between two ticks.
	Step, Horizon, Interval time.Duration
	// History bounds how much of the past the forecasters keep; 0 is forecast.DefaultHistory.
	History time.Duration
	// Paths is the number of joint sample paths.
	Paths int
	// Method is the forecaster's name (see forecast.Names).
	Method string
	Seed   uint64
	// Location places daily and weekly seasons; nil means UTC.
	Location *time.Location
	// Events change demand at known times; nil is none.
	Events *forecast.Calendar
	Models []TrackedModel
	// Ledger holds the cold starts known so far and the stated lead times. The Tracker adds what it observes.
	Ledger *coldstart.Ledger
}

// TrackedModel is one model to forecast.
type TrackedModel struct {
	Name    string
	Shape   Shape
	Profile *Profile // nil is unknown
	// Serves, Role and Price are as in ModelState. A model that serves another is not forecast by itself.
	Serves string
	Role   Role
	Price  *Price
	// Alternatives are as in ModelState.
	Alternatives []Alternative
	// Learn makes the Tracker learn what the profile's iterations cost from the engines; nil keeps the profile as it is.
	Learn *LearnerConfig
}

// Tracker turns Observations into States: it keeps one forecaster per model and token kind, the cold-start ledger and
// the mean size of a request. Live loop and simulator use the same one. It is deterministic, does no I/O and is not
// safe for concurrent use.
//
// Missing steps stay missing in the forecasters (they keep their last knowledge), and a model that could not be
// forecast has no Forecast in its State and a Gap that says why.
type Tracker struct {
	cfg    TrackerConfig
	models []*trackedModel // sorted by name
	byName map[string]*trackedModel
	open   map[gapKey]time.Time // since when each gap of the last State is open
}

type gapKey struct{ model, fact string }

type trackedModel struct {
	TrackedModel
	prompt, completion forecast.Forecaster
	fitted             bool
	fitProblem         string
	history            LoadHistory // kept only until the forecasters are fitted
	next               time.Time   // start of the first step not yet seen
	steps              int         // steps seen since the start of the fitted history
	newest             *ObservedLoad
	sizes              requestSizes
	borrowed           string          // of the fitted history
	ensemble           *Forecast       // of the steps seen so far; nil when a new step made it old
	engines            *profileLearner // nil when the profile is not learned
	leads              []coldstart.LeadTime
	weightsOn          []string  // nodes, as of leadsAt
	leadsAt            time.Time // when leads were estimated; zero makes them old
}

// NewTracker checks the configuration and returns a Tracker without history. It reports every problem at once.
func NewTracker(cfg TrackerConfig) (*Tracker, error) {
	var errs []error
	if cfg.Step <= 0 {
		errs = append(errs, fmt.Errorf("step is %v: a positive duration is allowed", cfg.Step))
	} else if cfg.Horizon < cfg.Step || cfg.Horizon/cfg.Step > 10_000 {
		errs = append(errs, fmt.Errorf("horizon is %v: 1 to 10000 steps of %v are allowed", cfg.Horizon, cfg.Step))
	}
	if cfg.Interval <= 0 {
		errs = append(errs, fmt.Errorf("interval is %v: a positive duration is allowed", cfg.Interval))
	}
	if cfg.Paths < 20 || cfg.Paths > 10_000 {
		errs = append(errs, fmt.Errorf("paths is %d: 20 to 10000 are allowed", cfg.Paths))
	}
	if cfg.Ledger == nil {
		errs = append(errs, errors.New("ledger is missing"))
	}
	t := &Tracker{cfg: cfg, byName: map[string]*trackedModel{}}
	for _, m := range cfg.Models {
		tm, err := newTrackedModel(cfg, m)
		if err != nil {
			errs = append(errs, fmt.Errorf("model %q: %w", m.Name, err))
			continue
		}
		if t.byName[m.Name] != nil {
			errs = append(errs, fmt.Errorf("model %q is named twice", m.Name))
		}
		t.byName[m.Name] = tm
		t.models = append(t.models, tm)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("planner: tracker: %w", err)
	}
	slices.SortFunc(t.models, func(a, b *trackedModel) int { return cmp.Compare(a.Name, b.Name) })
	return t, nil
}

func newTrackedModel(cfg TrackerConfig, m TrackedModel) (*trackedModel, error) {
	if m.Name == "" {
		return nil, errors.New("name is empty")
	}
	var profile error
	if m.Profile != nil {
		profile = m.Profile.Validate()
	}
	opts := forecast.Options{History: cfg.History}
	if cfg.Step > 0 {
		opts.Horizon = int(cfg.Horizon / cfg.Step)
	}
	prompt, err := forecast.New(cfg.Method, opts)
	if err != nil {
		return nil, errors.Join(m.Shape.Validate(), profile, err)
	}
	completion, err := forecast.New(cfg.Method, opts)
	engines, engineErr := newProfileLearner(m)
	if err := errors.Join(m.Shape.Validate(), profile, err, engineErr); err != nil {
		return nil, err
	}
	return &trackedModel{
		TrackedModel: m, prompt: forecast.WithEvents(prompt, cfg.Events, m.Name),
		completion: forecast.WithEvents(completion, cfg.Events, m.Name), fitProblem: "no history yet", engines: engines,
	}, nil
}

// Fit replaces a model's history. It returns forecast.ErrShortHistory, wrapped, when there is too little of it; what was
// given is kept and fitted as soon as later Observations complete it.
func (t *Tracker) Fit(model string, h LoadHistory) error {
	m := t.byName[model]
	if m == nil {
		return fmt.Errorf("planner: model %q is not tracked", model)
	}
	if err := t.checkGrid(h); err != nil {
		return fmt.Errorf("planner: model %q: %w", model, err)
	}
	m.history = cloneHistory(h, t.cfg.Location)
	m.next = h.Prompt.End()
	m.newest, m.sizes, m.ensemble, m.borrowed = nil, requestSizes{}, nil, h.Borrowed
	for i := range h.Prompt.Values {
		m.note(h, i, "")
	}
	return m.fit()
}

// End returns the end of the newest step seen of a model; zero when none was.
func (t *Tracker) End(model string) time.Time {
	if m := t.byName[model]; m != nil {
		return m.next
	}
	return time.Time{}
}

// Serves names the model whose load a model carries a part of; empty for one that has a load of its own, and is forecast
// from its history, or is not tracked.
func (t *Tracker) Serves(model string) string {
	if m := t.byName[model]; m != nil {
		return m.TrackedModel.Serves
	}
	return ""
}

// Skill is what the model's forecasters (prompt, completion) have shown on its own past; ok is false when the method
// does not keep score or nothing is fitted.
func (t *Tracker) Skill(model string) (prompt, completion forecast.Skill, ok bool) {
	m := t.byName[model]
	if m == nil || !m.fitted {
		return forecast.Skill{}, forecast.Skill{}, false
	}
	p, okP := bare(m.prompt).(skilled)
	c, okC := bare(m.completion).(skilled)
	if !okP || !okC {
		return forecast.Skill{}, forecast.Skill{}, false
	}
	return p.Skill(), c.Skill(), true
}

type skilled interface{ Skill() forecast.Skill }

// coverage is how often the forecasters' quantiles have held; nil when the method does not measure it or nothing has
// matured yet.
func (m *trackedModel) coverage() *ForecastCoverage {
	p, okP := bare(m.prompt).(covered)
	c, okC := bare(m.completion).(covered)
	if !okP || !okC {
		return nil
	}
	out := &ForecastCoverage{Prompt: brieflyCovered(p.Coverage()), Completion: brieflyCovered(c.Coverage())}
	if out.Prompt.Forecasts == 0 && out.Completion.Forecasts == 0 {
		return nil
	}
	return out
}

type covered interface{ Coverage() forecast.Coverage }

// brieflyCovered keeps what Decide reads, for a State is written often: the peak at the levels from the middle on.
func brieflyCovered(c forecast.Coverage) forecast.Coverage {
	out := forecast.Coverage{Steps: []forecast.Covered{}, Peak: []forecast.Covered{}, Forecasts: c.Forecasts}
	for _, at := range c.Peak {
		if at.P >= 0.5 {
			out.Peak = append(out.Peak, forecast.Covered{P: at.P, Share: roundDigits(at.Share)})
		}
	}
	return out
}

// checkGrid reports a history that cannot be continued by this Tracker.
func (t *Tracker) checkGrid(h LoadHistory) error {
	if err := h.Validate(); err != nil {
		return err
	}
	if h.Prompt.Step != t.cfg.Step {
		return fmt.Errorf("the load history has a step of %v: %v is allowed", h.Prompt.Step, t.cfg.Step)
	}
	return nil
}

func (m *trackedModel) fit() error {
	err := errors.Join(m.prompt.Fit(m.history.Prompt), m.completion.Fit(m.history.Completion))
	m.fitted = err == nil
	if err != nil {
		m.fitProblem = err.Error()
		return fmt.Errorf("planner: model %q: %w", m.Name, err)
	}
	m.steps = m.history.Prompt.Len()
	m.history = LoadHistory{} // the forecasters keep what they need
	return nil
}

// State takes in an Observation and assembles the State of this tick. memory is that of the last Decision.
func (t *Tracker) State(obs Observation, memory Memory) State {
	s := State{
		Now:       obs.At,
		Interval:  t.cfg.Interval,
		Models:    make([]ModelState, 0, len(t.models)),
		Inventory: obs.Inventory,
		Quotas:    obs.Quotas,
		Cohorts:   obs.Cohorts,
		Evidence:  obs.Evidence,
		Memory:    memory,
		Gaps:      slices.Clone(obs.Gaps),
	}
	looks := make(map[string]*ModelObservation, len(obs.Models))
	for i := range obs.Models {
		looks[obs.Models[i].Name] = &obs.Models[i]
	}
	for _, m := range t.models {
		look := looks[m.Name]
		if look == nil {
			look = &ModelObservation{Name: m.Name}
			s.Gaps = append(s.Gaps, Gap{Model: m.Name, Fact: "load", Since: obs.At, Detail: "the model was not observed"})
		}
		ms, gaps := t.modelState(m, look, obs.Inventory, obs.At)
		s.Models = append(s.Models, ms)
		s.Gaps = append(s.Gaps, gaps...)
	}
	t.dateGaps(s.Gaps)
	return s
}

// dateGaps lets a gap that was open in the last State keep the time since which it is.
func (t *Tracker) dateGaps(gaps []Gap) {
	open := make(map[gapKey]time.Time, len(gaps))
	for i := range gaps {
		key := gapKey{gaps[i].Model, gaps[i].Fact}
		if since, ok := t.open[key]; ok && since.Before(gaps[i].Since) {
			gaps[i].Since = since
		}
		open[key] = gaps[i].Since
	}
	t.open = open
}

func (t *Tracker) modelState(m *trackedModel, look *ModelObservation, inv *Inventory, now time.Time) (ModelState, []Gap) {
	var gaps []Gap
	gap := func(fact, format string, args ...any) {
		gaps = append(gaps, Gap{Model: m.Name, Fact: fact, Since: now, Detail: fmt.Sprintf(format, args...)})
	}
	if m.Serves == "" {
		if err := t.ingest(m, look, now); err != nil {
			gap("load", "%v", err)
		}
	}
	for _, s := range t.learnStarts(m, look, now) {
		gap("start", "%s", s)
	}
	t.learnProfile(m, look, now)
	ms := ModelState{
		Name: m.Name, Load: m.load(look.LoadSource), Replicas: look.Replicas, Shape: m.Shape, Profile: m.profile(), Actuator: look.Actuator,
		Evidence: look.Evidence, Serves: m.Serves, Role: m.Role, Price: m.Price, Alternatives: m.Alternatives,
		Signals:   Signals{Waiting: finite(look.Waiting), Running: finite(look.Running)},
		LeadTimes: t.leadTimes(m, now), WeightsOn: present(m.weightsOn, inv),
	}
	if m.Serves == "" {
		ms.Signals.Backlog = m.sizes.backlog(ms.Signals.Waiting)
		ms.Requests = m.sizes.mix()
		if ms.Forecast = t.forecast(m); ms.Forecast == nil {
			gap("forecast", "%s", m.fitProblem)
		}
	} else {
		ms.Load = nil // that of the model it serves counts
	}
	if ms.Profile == nil {
		gap("profile", "no replica profile is configured")
	}
	if len(ms.LeadTimes) == 0 {
		gap("lead_time", "no start was measured and none is stated")
	}
	return ms, gaps
}

// load is the newest known load, nil when there is none. It is a copy: a State is handed on and must not change under
// whoever keeps it. A load that came with the history has no source of its own and takes that of the look.
func (m *trackedModel) load(source string) *ObservedLoad {
	if m.newest == nil {
		return nil
	}
	l := *m.newest
	if l.Source == "" {
		l.Source = source
	}
	return &l
}

// ingest feeds the steps that were not seen before to the forecasters; steps left out are missing.
func (t *Tracker) ingest(m *trackedModel, look *ModelObservation, now time.Time) error {
	h := look.Load
	if h.Prompt.Len() == 0 && h.Completion.Len() == 0 {
		return nil
	}
	if err := t.checkGrid(h); err != nil {
		return err
	}
	if err := m.checkPlace(h, now); err != nil {
		return err
	}
	if !m.next.IsZero() && h.Prompt.Start.Sub(m.next) > lostAfter {
		// A hole this long would be all the forecasters see; their history starts anew.
		m.fitted, m.history, m.next = false, LoadHistory{}, time.Time{}
	}
	if m.next.IsZero() {
		m.next = h.Prompt.Start
	}
	for i := range h.Prompt.Values {
		at := h.Prompt.TimeAt(i)
		if at.Before(m.next) {
			continue
		}
		for m.next.Before(at) {
			m.see(LoadHistory{}, -1, t.cfg)
		}
		m.see(h, i, t.cfg)
		m.note(h, i, look.LoadSource)
	}
	if !m.fitted {
		if err := m.fit(); err != nil && !errors.Is(err, forecast.ErrShortHistory) {
			return err
		}
	}
	return nil
}

// checkPlace refuses steps that do not continue what was seen. One look from a clock that runs ahead would make all later
// steps look old; one off the grid would shift them.
func (m *trackedModel) checkPlace(h LoadHistory, now time.Time) error {
	if end := h.Prompt.End(); end.After(now.Add(h.Prompt.Step)) {
		return fmt.Errorf("the load history ends at %s, after now, %s", end.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	if hole := h.Prompt.Start.Sub(m.next); !m.next.IsZero() && hole <= lostAfter && hole%h.Prompt.Step != 0 {
		return fmt.Errorf("the load history starts at %s, not a whole number of steps of %v from %s, the end of the steps seen",
			h.Prompt.Start.Format(time.RFC3339Nano), h.Prompt.Step, m.next.Format(time.RFC3339Nano))
	}
	return nil
}

// lostAfter is the longest hole that is filled with missing steps.
const lostAfter = 14 * 24 * time.Hour

// see hands step i of h, or a missing step when i < 0, to the forecasters or to the history that waits for them.
func (m *trackedModel) see(h LoadHistory, i int, cfg TrackerConfig) {
	p, c, r := math.NaN(), math.NaN(), math.NaN()
	atLeast := false
	if i >= 0 {
		p, c, r = known(h.Prompt, i), known(h.Completion, i), known(h.Requests, i)
		atLeast = lowerBound(h, i)
	}
	if m.fitted {
		m.prompt.Update(p, atLeast && !math.IsNaN(p)) // a missing value bounds nothing
		m.completion.Update(c, atLeast && !math.IsNaN(c))
		m.steps++
	} else {
		m.history.append(m.next, cfg, p, c, r, atLeast)
	}
	m.next = m.next.Add(cfg.Step)
	m.ensemble = nil
}

// note remembers step i of h as the newest load when it is known, and learns the size of requests from it.
func (m *trackedModel) note(h LoadHistory, i int, source string) {
	p, c, r := known(h.Prompt, i), known(h.Completion, i), known(h.Requests, i)
	if math.IsNaN(p) || math.IsNaN(c) {
		return
	}
	m.newest = &ObservedLoad{
		Load:       Load{Prompt: TokenRate(p), Completion: TokenRate(c)},
		At:         h.Prompt.TimeAt(i + 1),
		LowerBound: lowerBound(h, i),
		Source:     source,
	}
	if !math.IsNaN(r) {
		m.newest.Requests = RequestRate(r)
		m.sizes.add(p, c, r)
	}
}

// forecast samples joint paths; the result is kept until a new step arrives.
func (t *Tracker) forecast(m *trackedModel) *Forecast {
	if !m.fitted {
		return nil
	}
	if m.ensemble != nil {
		return m.ensemble
	}
	kept := min(m.steps, max(1, int(forecast.DefaultHistory/t.cfg.Step))) // older errors are forgotten
	clock := forecast.BlockClock{Last: m.next.Add(-t.cfg.Step), Step: t.cfg.Step, Steps: kept, Location: t.cfg.Location}
	rng := rand.New(rand.NewPCG(t.cfg.Seed, hash("paths", m.Name)))
	horizon := int(t.cfg.Horizon / t.cfg.Step)
	blocks := forecast.DrawBlocks(rng, clock, t.cfg.Paths, horizon)
	f := &Forecast{
		Prompt:     briefly(m.prompt.Sample(horizon, blocks)),
		Completion: briefly(m.completion.Sample(horizon, blocks)),
		Method:     m.prompt.Name(),
		Borrowed:   m.borrowed,
		Events:     m.eventsAhead(m.next, m.next.Add(time.Duration(horizon)*t.cfg.Step)),
	}
	f.MayShrink, f.Authority = t.authority(m)
	f.Coverage = m.coverage()
	m.ensemble = f
	return f
}

// authority joins what both token kinds have shown: the forecast may shrink a plan only when neither loses.
func (t *Tracker) authority(m *trackedModel) (bool, string) {
	p, c, ok := t.Skill(m.Name)
	if !ok {
		return false, fmt.Sprintf("method %q keeps no score against the naive forecasts", m.prompt.Name())
	}
	if may, why := p.MayShrink(); !may {
		return false, "prompt tokens: " + why
	}
	may, why := c.MayShrink()
	return may, "completion tokens: " + why
}
