package planner

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func trackerConfig(method string) TrackerConfig {
	return TrackerConfig{
		Step: time.Minute, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 40, Method: method, Seed: 7,
		Models: []TrackedModel{{Name: "chat", Shape: Shape{GPUs: 1, Pods: 1}, Profile: &Profile{Prompt: 10_000, Completion: 1_000}}},
		Ledger: &coldstart.Ledger{},
	}
}

func newTestTracker(t testing.TB, method string) *Tracker {
	t.Helper()
	tr, err := NewTracker(trackerConfig(method))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// steps is a LoadHistory of one-minute steps from start; completion is a tenth of prompt, a request has 100 prompt tokens.
func steps(start time.Time, prompt ...float64) LoadHistory {
	grid := func(per float64) forecast.Series {
		s := forecast.Series{Start: start, Step: time.Minute}
		for _, v := range prompt {
			s.Values = append(s.Values, v/per)
		}
		return s
	}
	return LoadHistory{Prompt: grid(1), Completion: grid(10), Requests: grid(100)}
}

// look is one Observation of chat at the time its load history ends.
func look(tr *Tracker, h LoadHistory) ModelState {
	return lookAt(tr, h.Prompt.End(), ModelObservation{Name: "chat", Load: h, LoadSource: "gateway"}).Models[0]
}

func lookAt(tr *Tracker, now time.Time, m ModelObservation) State {
	return tr.State(Observation{At: now, Models: []ModelObservation{m}}, Memory{})
}

func gapsOf(s State, fact string) []string {
	var out []string
	for _, g := range s.Gaps {
		if g.Fact == fact {
			out = append(out, g.Detail)
		}
	}
	return out
}

func sameForecast(a, b *Forecast) bool {
	return a != nil && b != nil && slices.EqualFunc(a.Prompt.Paths, b.Prompt.Paths, slices.Equal[[]float64]) &&
		slices.EqualFunc(a.Completion.Paths, b.Completion.Paths, slices.Equal[[]float64])
}

var nan = math.NaN()

// TestTrackerMissing: missing, negative and infinite samples, a step that nobody sent and one that is marked as a bound
// but missing teach the same: nothing. The newest load is the last one that was known.
func TestTrackerMissing(t *testing.T) {
	for name, bad := range map[string]float64{"NaN": nan, "negative": -5, "infinite": math.Inf(1), "negative infinite": math.Inf(-1)} {
		t.Run(name, func(t *testing.T) {
			a, b := newTestTracker(t, "last"), newTestTracker(t, "last")
			h := steps(monday, 1000, 1100, bad, 1200, bad)
			h.Prompt.AtLeast = []bool{false, false, true, false, true}
			got := look(a, h)
			look(b, steps(monday, 1000, 1100))
			look(b, steps(monday.Add(3*time.Minute), 1200)) // step 2 is left out
			want := look(b, steps(monday.Add(4*time.Minute), nan))
			if !sameForecast(got.Forecast, want.Forecast) {
				t.Errorf("forecast %v, want %v", got.Forecast, want.Forecast)
			}
			if got.Load == nil || got.Load.Prompt != 1200 || !got.Load.At.Equal(monday.Add(4*time.Minute)) {
				t.Errorf("newest load %+v, want 1200 at 09:04", got.Load)
			}
			for _, v := range got.Forecast.Prompt.Paths[0] {
				if v < 900 {
					t.Fatalf("a missing step pulls the forecast to %v", v)
				}
			}
		})
	}
}

// TestTrackerStateStays: a State does not change when the Tracker goes on, and says where its load was read even when
// later looks bring none.
func TestTrackerStateStays(t *testing.T) {
	tr := newTestTracker(t, "last")
	if err := tr.Fit("chat", steps(monday.Add(-time.Hour), slices.Repeat([]float64{900}, 60)...)); err != nil {
		t.Fatal(err)
	}
	at := func(m int) time.Time { return monday.Add(time.Duration(m) * time.Minute) }
	first := lookAt(tr, at(0), ModelObservation{Name: "chat", LoadSource: "gateway"}).Models[0]
	second := lookAt(tr, at(1), ModelObservation{Name: "chat", Load: steps(monday, 1000), LoadSource: "served tokens"}).Models[0]
	third := lookAt(tr, at(2), ModelObservation{Name: "chat", LoadSource: "gateway"}).Models[0]
	if first.Load.Source != "gateway" || first.Load.Prompt != 900 {
		t.Errorf("the load of the history is now %+v", first.Load)
	}
	if second.Load.Source != "served tokens" || third.Load.Source != "served tokens" || third.Load.Prompt != 1000 {
		t.Errorf("the load read from served tokens is %+v, and at the next look %+v", second.Load, third.Load)
	}
	third.Load.Prompt = 1
	if got := lookAt(tr, at(3), ModelObservation{Name: "chat"}).Models[0].Load.Prompt; got != 1000 {
		t.Errorf("whoever holds a State can change the Tracker: load %v", got)
	}
}

// TestTrackerRepeats: steps that were seen before change nothing, neither the forecast nor the newest load.
func TestTrackerRepeats(t *testing.T) {
	a, b := newTestTracker(t, "drift"), newTestTracker(t, "drift")
	look(a, steps(monday, 1000, 1100, 1200, 1300))
	got := look(a, steps(monday.Add(2*time.Minute), 9999, 9999, 1400))
	want := look(b, steps(monday, 1000, 1100, 1200, 1300, 1400))
	if !sameForecast(got.Forecast, want.Forecast) || got.Load.Prompt != 1400 {
		t.Errorf("repeated steps changed what is known: load %+v, want %+v", got.Load, want.Load)
	}
	if end := a.End("chat"); !end.Equal(monday.Add(5 * time.Minute)) {
		t.Errorf("the steps seen end at %v, want 09:05", end)
	}
	old := look(a, steps(monday, 5000))
	if !sameForecast(old.Forecast, got.Forecast) || old.Load.Prompt != 1400 {
		t.Errorf("an old step changed what is known: %+v", old.Load)
	}
}

// TestTrackerShortHistory: with nothing known there is no forecast and a Gap says why; Fit keeps what it was given, and
// the forecast comes with the first known step.
func TestTrackerShortHistory(t *testing.T) {
	tr := newTestTracker(t, "last")
	s := lookAt(tr, monday, ModelObservation{Name: "chat"})
	if s.Models[0].Forecast != nil || len(gapsOf(s, "forecast")) != 1 {
		t.Fatalf("forecast %v, gaps %+v", s.Models[0].Forecast, s.Gaps)
	}
	err := tr.Fit("chat", steps(monday, nan, nan))
	if !errors.Is(err, forecast.ErrShortHistory) {
		t.Fatalf("Fit: %v, want %v", err, forecast.ErrShortHistory)
	}
	s = lookAt(tr, monday.Add(2*time.Minute), ModelObservation{Name: "chat"})
	if g := gapsOf(s, "forecast"); len(g) != 1 || !strings.Contains(g[0], "history too short") {
		t.Errorf("gaps %q, want one that says that the history is too short", g)
	}
	m := look(tr, steps(monday.Add(2*time.Minute), 1000))
	if m.Forecast == nil || !m.Forecast.Prompt.Start.Equal(monday.Add(3*time.Minute)) {
		t.Errorf("forecast %+v after the first known step, want one from 09:03", m.Forecast)
	}
}

// TestTrackerRefuses: steps that do not continue the grid are refused with a Gap, and the knowledge stays as it was.
func TestTrackerRefuses(t *testing.T) {
	tr := newTestTracker(t, "last")
	before := look(tr, steps(monday, 1000, 1100))
	next := monday.Add(2 * time.Minute)
	wrongStep := steps(next, 5000)
	wrongStep.Prompt.Step, wrongStep.Completion.Step, wrongStep.Requests.Step = time.Hour, time.Hour, time.Hour
	uneven := steps(next, 5000)
	uneven.Completion.Values = nil
	marks := steps(next, 5000)
	marks.Prompt.AtLeast = []bool{true, true}
	for name, c := range map[string]struct {
		h    LoadHistory
		want string
	}{
		"wrong step":                {wrongStep, "the load history has a step of 1h0m0s: 1m0s is allowed"},
		"series of unequal length":  {uneven, "completion has 0 values of 1m0s"},
		"marks of unequal length":   {marks, "prompt has 2 lower-bound marks for 1 values"},
		"off the grid":              {steps(next.Add(30*time.Second), 5000), "not a whole number of steps of 1m0s from 2026-03-02T09:02:00Z"},
		"a clock that runs ahead":   {steps(next.Add(time.Hour), 5000), "ends at 2026-03-02T10:03:00Z, after now, 2026-03-02T09:03:00Z"},
		"ahead by more than a hole": {steps(next.Add(30*24*time.Hour), 5000), "after now"},
	} {
		t.Run(name, func(t *testing.T) {
			s := lookAt(tr, monday.Add(3*time.Minute), ModelObservation{Name: "chat", Load: c.h})
			if g := gapsOf(s, "load"); len(g) != 1 || !strings.Contains(g[0], c.want) {
				t.Errorf("gaps %q, want one with %q", g, c.want)
			}
			if m := s.Models[0]; !sameForecast(m.Forecast, before.Forecast) || m.Load.Prompt != 1100 {
				t.Errorf("what was refused changed what is known: %+v", m.Load)
			}
		})
	}
	if err := tr.Fit("chat", wrongStep); err == nil || !strings.Contains(err.Error(), "1m0s is allowed") {
		t.Errorf("Fit with a wrong step: %v", err)
	}
	if err := tr.Fit("code", steps(monday, 1)); err == nil || !strings.Contains(err.Error(), `"code" is not tracked`) {
		t.Errorf("Fit of an unknown model: %v", err)
	}
}

// TestTrackerLowerBound: a bound is carried into the newest load and never lowers the forecast.
func TestTrackerLowerBound(t *testing.T) {
	bounded, plain := newTestTracker(t, "last"), newTestTracker(t, "last")
	for _, tr := range []*Tracker{bounded, plain} {
		look(tr, steps(monday, 3000, 3000, 3000))
	}
	h := steps(monday.Add(3*time.Minute), 1000)
	h.Completion.AtLeast = []bool{true}
	got := look(bounded, h)
	want := look(plain, steps(monday.Add(3*time.Minute), 1000))
	if !got.Load.LowerBound || want.Load.LowerBound {
		t.Errorf("lower bounds %v and %v, want true and false", got.Load.LowerBound, want.Load.LowerBound)
	}
	if a, b := got.Forecast.Prompt.Quantile(.5, 0), want.Forecast.Prompt.Quantile(.5, 0); a < 3000 || b > 2000 {
		t.Errorf("median %v after a bound of 1000, %v after a load of 1000; want 3000 and 1000", a, b)
	}
	first := newTestTracker(t, "last") // bounds that arrive before the fit
	h = steps(monday, 3000, 1000)
	h.Prompt.AtLeast = []bool{false, true}
	if m := look(first, h); m.Forecast.Prompt.Quantile(.5, 0) < 3000 {
		t.Errorf("median %v: a bound in the first history lowered it", m.Forecast.Prompt.Quantile(.5, 0))
	}
}

// TestTrackerJointPaths: completion is a tenth of prompt, so it must be on every path: both replay the same moments.
func TestTrackerJointPaths(t *testing.T) {
	for _, method := range forecast.Names() {
		tr := newTestTracker(t, method)
		var load []float64
		for i := range 400 {
			load = append(load, 2000+500*math.Sin(float64(i)/7)+300*math.Sin(float64(i*i)))
		}
		f := look(tr, steps(monday, load...)).Forecast
		moved := false
		for i := range f.Prompt.Paths {
			for k, p := range f.Prompt.Paths[i] {
				if c := f.Completion.Paths[i][k]; math.Abs(p-10*c) > 1e-6*p+1e-9 {
					t.Fatalf("%s: path %d step %d: prompt %v, completion %v", method, i, k, p, c)
				}
				moved = moved || p != f.Prompt.Paths[0][k]
			}
		}
		if !moved {
			t.Errorf("%s: all paths are the same", method)
		}
	}
}

// TestTrackerCachesForecast: the paths are drawn once per step, not once per tick, and are as if drawn at once.
func TestTrackerCachesForecast(t *testing.T) {
	tr := newTestTracker(t, "drift")
	first := look(tr, steps(monday, 1000, 1100, 1250)).Forecast
	again := lookAt(tr, monday.Add(3*time.Minute+15*time.Second), ModelObservation{Name: "chat"}).Models[0].Forecast
	if first != again {
		t.Error("the forecast was drawn again although no step arrived")
	}
	if next := look(tr, steps(monday.Add(3*time.Minute), 1300)).Forecast; next == first || !next.Prompt.Start.Equal(monday.Add(4*time.Minute)) {
		t.Errorf("a new step left the forecast as it was: %+v", next)
	}
	if same := look(newTestTracker(t, "drift"), steps(monday, 1000, 1100, 1250)).Forecast; !sameForecast(first, same) {
		t.Error("the same history gives other paths")
	}
}

// TestTrackerBacklog: waiting requests of mean size are work; an unknown queue or unknown sizes are no backlog, not zero.
func TestTrackerBacklog(t *testing.T) {
	tr := newTestTracker(t, "last")
	waiting := 12.0
	backlog := func(load LoadHistory, w *float64) *Backlog {
		return lookAt(tr, monday.Add(2*time.Minute), ModelObservation{Name: "chat", Load: load, Waiting: w}).Models[0].Signals.Backlog
	}
	if b := backlog(LoadHistory{}, &waiting); b != nil {
		t.Errorf("backlog %+v before any request was seen", b)
	}
	b := backlog(steps(monday, 1000, 3000), &waiting)
	if b == nil || math.Abs(float64(b.Prompt)-1200) > 1e-6 || math.Abs(float64(b.Completion)-120) > 1e-6 {
		t.Errorf("backlog %+v of 12 requests of 100 + 10 tokens", b)
	}
	for _, w := range []*float64{nil, &nan} {
		if b := backlog(LoadHistory{}, w); b != nil {
			t.Errorf("backlog %+v of an unknown queue", b)
		}
	}
	minus := -1.0
	s := lookAt(tr, monday.Add(2*time.Minute), ModelObservation{Name: "chat", Waiting: &minus, Running: &nan})
	if signals := s.Models[0].Signals; signals.Waiting != nil || signals.Running != nil {
		t.Errorf("signals %+v, want unknown ones", signals)
	}
}

// TestTrackerStarts: ended starts become the lead time, one that is still pending after ten minutes raises it, and a
// sample that the ledger refuses is a Gap.
func TestTrackerStarts(t *testing.T) {
	tr := newTestTracker(t, "last")
	var ended []coldstart.Sample
	for i := range 5 {
		ended = append(ended, coldstart.Sample{ID: string(rune('a' + i)), Key: coldstart.Key{Path: coldstart.WarmNode}, Started: monday,
			Total: time.Duration(150+10*i) * time.Second, Outcome: coldstart.Served})
	}
	s := lookAt(tr, monday.Add(5*time.Minute), ModelObservation{Name: "chat", Starts: ended})
	if len(s.Models[0].LeadTimes) != 1 || s.Models[0].LeadTimes[0].Quantile(.9) != 190*time.Second {
		t.Fatalf("lead times %+v, want one with p90 190 s", s.Models[0].LeadTimes)
	}
	now := monday.Add(15 * time.Minute)
	r := &Replicas{Starting: []StartingReplica{{ID: "slow", Since: now.Add(-10 * time.Minute), Path: coldstart.WarmNode},
		{ID: "from the future", Since: now.Add(time.Minute), Path: coldstart.WarmNode}}}
	s = lookAt(tr, now, ModelObservation{Name: "chat", Replicas: r})
	if lt := s.Models[0].LeadTimes[0]; lt.Quantile(.9) <= 10*time.Minute || lt.Censored != 1 {
		t.Errorf("lead time %+v with a pod that has been starting for ten minutes", lt)
	}
	if s.Models[0].LeadTimes[0].From.Shape != "1x1" || s.Models[0].LeadTimes[0].From.Model != "chat" {
		t.Errorf("lead time is from %v", s.Models[0].LeadTimes[0].From)
	}
	bad := coldstart.Sample{ID: "bad", Started: monday, Total: -1, Outcome: coldstart.Served}
	s = lookAt(tr, now, ModelObservation{Name: "chat", Starts: []coldstart.Sample{bad}})
	if g := gapsOf(s, "start"); len(g) != 1 || !strings.Contains(g[0], `"bad"`) {
		t.Errorf("gaps %q, want one that names the sample", g)
	}
	if g := gapsOf(lookAt(newTestTracker(t, "last"), now, ModelObservation{Name: "chat"}), "lead_time"); len(g) != 1 {
		t.Errorf("gaps %q, want one for the unknown lead time", g)
	}
}

// TestTrackerLongHole: a hole of up to two weeks is missing steps; a longer one starts the history anew, on any grid.
func TestTrackerLongHole(t *testing.T) {
	tr := newTestTracker(t, "last")
	look(tr, steps(monday, 1000, 1000))
	m := look(tr, steps(monday.Add(14*24*time.Hour), 5000))
	if len(m.Forecast.Prompt.Paths) != 40 || m.Load.Prompt != 5000 {
		t.Fatalf("after two weeks: %+v", m.Load)
	}
	at := monday.Add(29*24*time.Hour + 30*time.Second)
	m = look(tr, steps(at, 7000))
	if m.Forecast == nil || !m.Forecast.Prompt.Start.Equal(at.Add(time.Minute)) {
		t.Fatalf("forecast %+v after a longer hole", m.Forecast)
	}
	for _, v := range m.Forecast.Prompt.Paths[0] {
		if v != 7000 {
			t.Fatalf("the forecast is %v: it remembers what was before the hole", v)
		}
	}
}

// TestTrackerUnobserved: a model that the Observation does not have keeps its newest load, has unknown replicas, and a Gap.
func TestTrackerUnobserved(t *testing.T) {
	tr := newTestTracker(t, "last")
	look(tr, steps(monday, 1000))
	s := tr.State(Observation{At: monday.Add(2 * time.Minute), Gaps: []Gap{{Fact: "observation"}}}, Memory{})
	if m := s.Models[0]; m.Load == nil || m.Replicas != nil || m.Forecast == nil {
		t.Errorf("model state %+v", m)
	}
	if g := gapsOf(s, "load"); len(g) != 1 || len(gapsOf(s, "observation")) != 1 {
		t.Errorf("gaps %+v", s.Gaps)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestTrackerAuthority: a method that keeps no score has no authority to shrink, and auto says how much it has scored.
func TestTrackerAuthority(t *testing.T) {
	f := look(newTestTracker(t, "last"), steps(monday, 1000)).Forecast
	if f.MayShrink || !strings.Contains(f.Authority, `"last" keeps no score`) {
		t.Errorf("authority %v: %s", f.MayShrink, f.Authority)
	}
	tr := newTestTracker(t, "auto")
	if _, _, ok := tr.Skill("chat"); ok {
		t.Error("skill before any history")
	}
	f = look(tr, steps(monday, 1000, 1000, 1000)).Forecast
	if f.MayShrink || !strings.Contains(f.Authority, "prompt tokens: only") {
		t.Errorf("authority %v: %s", f.MayShrink, f.Authority)
	}
	if _, _, ok := tr.Skill("chat"); !ok {
		t.Error("no skill after a fit")
	}
}

func TestNewTrackerReportsEverything(t *testing.T) {
	_, err := NewTracker(TrackerConfig{Method: "oracle", Paths: 3, Models: []TrackedModel{
		{Name: "chat", Shape: Shape{GPUs: 1, Pods: 1}}, {}, {Name: "code", Profile: &Profile{}}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"step is 0s", "interval is 0s", "paths is 3", "ledger is missing", `unknown forecaster "oracle"`,
		"name is empty", "shape.gpus is 0", "profile.prompt_tokens_per_s is 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	cfg := trackerConfig("last")
	cfg.Models = append(cfg.Models, cfg.Models[0])
	cfg.Horizon = time.Second
	if _, err := NewTracker(cfg); err == nil || !strings.Contains(err.Error(), `"chat" is named twice`) ||
		!strings.Contains(err.Error(), "horizon is 1s: 1 to 10000 steps of 1m0s are allowed") {
		t.Errorf("error %v", err)
	}
}

// TestRoundDigitsOfTheSmallest: no finite number becomes one that JSON cannot hold.
func TestRoundDigitsOfTheSmallest(t *testing.T) {
	for _, v := range []float64{5.696189077778436e-306, math.SmallestNonzeroFloat64, 1e-300, -1e-307, math.MaxFloat64 / 2} {
		if got := roundDigits(v); math.IsNaN(got) || math.IsInf(got, 0) || math.Abs(got-v) > math.Abs(v)*1e-3+1e-290 {
			t.Errorf("%v becomes %v", v, got)
		}
	}
}
