package scaler

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/coldstart"
	"forewarm/planner"
)

var ordered = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func servedStart(id string, after time.Duration) coldstart.Sample {
	return coldstart.Sample{ID: id, Key: coldstart.Key{Path: coldstart.WarmNode}, Started: ordered.Add(after), Total: 200 * time.Second,
		Outcome: coldstart.Served, Phases: map[coldstart.Phase]time.Duration{coldstart.ImagePull: 120 * time.Second}}
}

// series is what one series of a histogram or a counter says.
type series struct {
	count, buckets int
	sum, value     float64
	native, found  bool
}

// seriesOf reads the series of a family with the given labels.
func seriesOf(t *testing.T, reg *prometheus.Registry, family string, labels map[string]string) series {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			matches := f.GetName() == family
			for _, l := range m.Label {
				want, asked := labels[l.GetName()]
				matches = matches && (!asked || want == l.GetValue())
			}
			if h := m.GetHistogram(); matches {
				return series{count: int(h.GetSampleCount()), buckets: len(h.GetBucket()), sum: h.GetSampleSum(),
					value: m.GetCounter().GetValue(), native: len(h.GetPositiveSpan()) > 0, found: true}
			}
		}
	}
	return series{}
}

// Starts become classic buckets and native ones beside them. A start that is told twice counts once; one that served
// after it was given up counts under both outcomes, since both happened.
func TestStartMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newStartMetrics(reg)
	failed := servedStart("b", 0)
	failed.Outcome, failed.Phases = coldstart.Failed, nil
	broken := servedStart("c", 0)
	broken.Total = -1
	unknown := servedStart("d", 0)
	unknown.Key.Path = coldstart.PathUnknown
	m.observe("chat", []coldstart.Sample{servedStart("a", 0), failed, broken}, ordered)
	m.observe("chat", []coldstart.Sample{servedStart("a", 0), servedStart("b", 0), unknown}, ordered)
	m.settle(ordered.Add(startSettles))
	if h := seriesOf(t, reg, "forewarm_failed_start_seconds", map[string]string{"model": "chat", "path": "warm_node"}); h.count != 1 || h.sum != 200 {
		t.Errorf("failed: got %+v, want one start of 200 s", h)
	}
	h := seriesOf(t, reg, "forewarm_start_seconds", map[string]string{"model": "chat", "path": "warm_node"})
	if h.count != 2 || h.sum != 400 || h.buckets != len(startBuckets) || !h.native {
		t.Errorf("got %+v: want 2 starts of 400 s, %d classic buckets and native ones", h, len(startBuckets))
	}
	for phase, want := range map[string]float64{"image_pull": 3 * 120, "unattributed": 3 * 80} { // of a, b and d
		if got := seriesOf(t, reg, "forewarm_start_phase_seconds", map[string]string{"phase": phase}); got.sum != want {
			t.Errorf("%s sums to %v: want %v", phase, got.sum, want)
		}
	}
	for outcome, want := range map[string]float64{"served": 2, "failed": 1} {
		if got := seriesOf(t, reg, "forewarm_starts_total", map[string]string{"path": "warm_node", "outcome": outcome}); got.value != want {
			t.Errorf("%s: %v, want %v", outcome, got.value, want)
		}
	}
	if !seriesOf(t, reg, "forewarm_start_seconds", map[string]string{"path": "unknown"}).found {
		t.Error("a start on an unknown path is not counted")
	}
	for i := range 2 * startsSeen {
		m.observe("chat", []coldstart.Sample{servedStart(fmt.Sprint(i), 0)}, ordered)
		m.settle(ordered.Add(startSettles))
	}
	if len(m.seen) > startsSeen || len(m.order) > startsSeen {
		t.Errorf("%d starts are remembered: want at most %d", len(m.seen), startsSeen)
	}
}

// The newest starts are shown, newest first; one that is told again replaces what was known.
func TestStartsAPI(t *testing.T) {
	l := NewLoop(Config{PastStarts: []coldstart.Sample{{ID: "past", Key: coldstart.Key{Model: "chat"}, Started: ordered.Add(-time.Hour),
		Total: time.Minute, Outcome: coldstart.Served}}})
	for i := range startsKept + 5 {
		l.starts.add("chat", []coldstart.Sample{servedStart(fmt.Sprint(i), time.Duration(i)*time.Minute)})
	}
	again := servedStart("24", 24*time.Minute)
	again.Total = 99 * time.Second
	l.starts.add("chat", []coldstart.Sample{again})
	if _, ok := l.Starts("chat"); ok {
		t.Error("a model that is not planned has starts")
	}
	lead, err := coldstart.StatedDuration(coldstart.WarmNode, time.Minute, 1.5)
	if err != nil {
		t.Fatal(err)
	}
	l.starts.note(&planner.State{Models: []planner.ModelState{{Name: "chat", LeadTimes: []coldstart.LeadTime{lead}}, {Name: "new"}}})
	l.plan.Store(&Plan{Version: 1, Decision: &planner.Decision{Models: []planner.ModelDecision{{Name: "chat"}, {Name: "new"}}}})
	mux := http.NewServeMux()
	(&API{Loop: l, Now: func() time.Time { return ordered }, Ready: func() bool { return true }}).Register(mux)
	get := func(model string) (StartsView, int) {
		r := httptest.NewRecorder()
		mux.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/api/starts?model="+model, nil))
		var v StartsView
		if r.Code == http.StatusOK {
			if err := json.Unmarshal(r.Body.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
		}
		return v, r.Code
	}
	v, code := get("chat")
	if code != 200 || len(v.Starts) != startsKept || v.Starts[0].ID != "24" || v.Starts[0].Total != 99*time.Second || v.Starts[1].ID != "23" {
		t.Errorf("code %d, %d starts: %+v", code, len(v.Starts), v.Starts[:2])
	}
	if len(v.LeadTimes) != 1 || v.LeadTimes[0].P50 != 60 || v.LeadTimes[0].Basis != coldstart.Stated {
		t.Errorf("lead times %+v", v.LeadTimes)
	}
	if v, code := get("new"); code != 200 || len(v.Starts) != 0 || len(v.LeadTimes) != 0 {
		t.Errorf("a model without starts: %d, %+v", code, v)
	}
	if _, code := get("nobody"); code != 404 {
		t.Errorf("an unknown model: %d", code)
	}
}

// startingWorld is a world in which a start ended that knows neither its model nor its shape, as the cluster tells it.
type startingWorld struct{ *world }

func (w startingWorld) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	obs, err := w.world.Observe(ctx, now)
	obs.Models[0].Starts = []coldstart.Sample{servedStart("a", 0)}
	return obs, err
}

// What is recorded of a start is what a restarted process must find again: the model and the shape, without which its own
// key has no starts.
func TestRecordedStartsHaveTheirKey(t *testing.T) {
	var recorded []coldstart.Sample
	l := newLoop(t, &world{load: 100, ready: 1}, func(c *Config) {
		c.Source = startingWorld{&world{load: 100, ready: 1}}
		c.RecordStarts = func(_ context.Context, s []coldstart.Sample) error {
			recorded = append(recorded, s...)
			return nil
		}
	})
	l.Tick(t.Context(), ordered.Add(time.Hour))
	want := planner.Shape{GPUs: 1, Pods: 1}.String()
	if len(recorded) != 1 || recorded[0].Key.Model != "chat" || recorded[0].Key.Shape != want {
		t.Errorf("recorded %+v: want one of chat, %s", recorded, want)
	}
}

// A new Tracker knows what the one before has learned, apart from what is not to be taken over.
func TestReconfigureKeepsStarts(t *testing.T) {
	l := newLoop(t, &world{load: 100, ready: 1}, func(c *Config) { c.Source = startingWorld{&world{load: 100, ready: 1}} })
	l.Tick(t.Context(), ordered.Add(time.Hour))
	for _, kept := range []bool{true, false} {
		ledger, err := coldstart.NewLedger(coldstart.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tracker, err := planner.NewTracker(planner.TrackerConfig{Step: time.Minute, Horizon: 30 * time.Minute, Interval: 15 * time.Second,
			Paths: 50, Method: "auto", Seed: 1, Ledger: ledger,
			Models: []planner.TrackedModel{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1}}}})
		if err != nil {
			t.Fatal(err)
		}
		next := l.cfg
		next.Source, next.Tracker = &world{load: 100, ready: 1}, tracker
		next.Inherits = func(s coldstart.Sample) bool { return kept && s.ID == "a" }
		l.Reconfigure(next)
		l.Tick(t.Context(), ordered.Add(time.Hour+time.Minute))
		if n := len(ledger.Samples()); (n == 1) != kept {
			t.Errorf("%d starts are known after a change that keeps them: %t", n, kept)
		}
	}
}

// A start is in the histogram with its first answer, whether that is told at once, later or never.
func TestStartMetricsEndAtTheFirstAnswer(t *testing.T) {
	answered := func(id string) coldstart.Sample {
		s := servedStart(id, 0)
		s.Total += 30 * time.Second
		s.Phases = map[coldstart.Phase]time.Duration{coldstart.ImagePull: 120 * time.Second, coldstart.FirstToken: 30 * time.Second}
		return s
	}
	reg := prometheus.NewRegistry()
	m := newStartMetrics(reg)
	for _, step := range []struct {
		why   string
		told  []coldstart.Sample
		after time.Duration
		count int
		sum   float64
	}{
		{"ready; the answer may still come", []coldstart.Sample{servedStart("a", 0), servedStart("b", 0)}, 0, 0, 0},
		{"a has answered", []coldstart.Sample{answered("a")}, 3 * time.Minute, 1, 230},
		{"told with its answer at first", []coldstart.Sample{answered("c")}, 4 * time.Minute, 2, 460},
		{"nobody asked b", nil, startSettles, 3, 660},
		{"a is told once more", []coldstart.Sample{answered("a")}, 2 * startSettles, 3, 660},
	} {
		m.observe("chat", step.told, ordered.Add(step.after))
		m.settle(ordered.Add(step.after))
		if h := seriesOf(t, reg, "forewarm_start_seconds", map[string]string{"model": "chat"}); h.count != step.count || h.sum != step.sum {
			t.Errorf("%s: %d starts of %v s in all, want %d of %v", step.why, h.count, h.sum, step.count, step.sum)
		}
	}
}
