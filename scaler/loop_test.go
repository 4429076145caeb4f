package scaler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// world is a Source with one model of steady load; tests break it piece by piece.
type world struct {
	load         float64 // completion tokens/s; prompt is ten times that
	ready        int
	observeErr   error
	historyErr   error
	observeFrom  time.Time // the oldest step that Observe brings; zero: ten steps back
	historyCalls []string
	broken       bool // an impossible inventory
	readAgain    bool // the history could be completed later
}

func (w *world) history(from, to time.Time) planner.LoadHistory {
	n := int(to.Sub(from) / time.Minute)
	series := func(v float64) forecast.Series {
		s := forecast.Series{Start: from, Step: time.Minute, Values: make([]float64, n)}
		for i := range s.Values {
			s.Values[i] = v
		}
		return s
	}
	return planner.LoadHistory{Prompt: series(10 * w.load), Completion: series(w.load), Requests: series(w.load / 200)}
}

func (w *world) History(_ context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	w.historyCalls = append(w.historyCalls, fmt.Sprintf("%s %s..%s", model, from.Format("15:04"), to.Format("15:04")))
	if w.historyErr != nil && !errors.Is(w.historyErr, planner.ErrPartial) {
		return planner.LoadHistory{}, w.historyErr
	}
	h := w.history(from, to)
	h.ReadAgain = w.readAgain
	return h, w.historyErr
}

func (w *world) Observe(_ context.Context, now time.Time) (planner.Observation, error) {
	if w.observeErr != nil {
		return planner.Observation{}, w.observeErr
	}
	to := now.Truncate(time.Minute)
	from := to.Add(-10 * time.Minute)
	if !w.observeFrom.IsZero() {
		from = w.observeFrom
	}
	obs := planner.Observation{At: now, Models: []planner.ModelObservation{{
		Name: "chat", Load: w.history(from, to), LoadSource: "arrivals at the gateway",
		Replicas: &planner.Replicas{Ready: w.ready},
	}}}
	if w.broken {
		obs.Inventory = &planner.Inventory{Pools: []planner.Pool{{Name: "p", Nodes: []planner.Node{{Name: "n", GPUs: 1, FreeGPUs: 2}}}}}
	}
	return obs, nil
}

func newTracker(t *testing.T) *planner.Tracker { return newTrackerOf(t, 30*time.Minute) }

func newTrackerOf(t *testing.T, horizon time.Duration) *planner.Tracker {
	t.Helper()
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lt, err := coldstart.StatedDuration(coldstart.WarmNode, 3*time.Minute, coldstart.DefaultSpread(coldstart.WarmNode))
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.SetStated(coldstart.Key{Model: "chat", Path: coldstart.WarmNode}, lt); err != nil {
		t.Fatal(err)
	}
	tracker, err := planner.NewTracker(planner.TrackerConfig{
		Step: time.Minute, Horizon: horizon, Interval: 15 * time.Second, Paths: 50, Method: "auto", Seed: 1, Ledger: ledger,
		Models: []planner.TrackedModel{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1},
			Profile: &planner.Profile{Prompt: 20000, Completion: 2000}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

// newLoop wires a loop over w; change adjusts the configuration.
func newLoop(t *testing.T, w *world, change func(*Config)) *Loop {
	t.Helper()
	policy := planner.DefaultModelPolicy()
	policy.Authority = planner.Act
	cfg := Config{
		Clock: WallClock(), Source: w, Tracker: newTracker(t), Policy: planner.Policy{Defaults: policy}, Models: []string{"chat"},
		Interval: 15 * time.Second, Step: time.Minute, History: 24 * time.Hour,
	}
	if change != nil {
		change(&cfg)
	}
	return NewLoop(cfg)
}

func planned(t *testing.T, l *Loop) int {
	t.Helper()
	p := l.Plan()
	if p == nil || p.Decision.Model("chat") == nil || p.Decision.Model("chat").Replicas == nil {
		t.Fatalf("no plan: %+v", p)
	}
	return *p.Decision.Model("chat").Replicas
}

func part(l *Loop, name string) PartStatus {
	for _, s := range l.Status() {
		if s.Part == name {
			return s
		}
	}
	return PartStatus{}
}

// ticks runs n ticks from start and returns the time of the next.
func ticks(l *Loop, start time.Time, n int) time.Time {
	for range n {
		l.Tick(context.Background(), start)
		start = start.Add(15 * time.Second)
	}
	return start
}

func TestLoopPlansFromHistoryAtTheFirstTick(t *testing.T) {
	w := &world{load: 1000, ready: 1} // utilisation 1.0: one replica
	l := newLoop(t, w, nil)
	l.Tick(context.Background(), monday)
	if got := planned(t, l); got != 1 {
		t.Errorf("a steady load of one replica plans %d", got)
	}
	if l.Plan().Decision.Model("chat").Peak == nil {
		t.Error("the first tick has no forecast although the history was there")
	}
	if got := len(w.historyCalls); got != 1 {
		t.Errorf("history read %d times: %v", got, w.historyCalls)
	}
}

func TestLoopHoldsWhileTheSourceIsDownAndSaysSo(t *testing.T) {
	w := &world{load: 3000, ready: 3}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 4)
	w.observeErr = errors.New("connection refused")
	w.load = 100
	next = ticks(l, next, 200) // far longer than every window
	if got := planned(t, l); got != 3 {
		t.Errorf("without observations the plan went to %d, 3 must be held", got)
	}
	d := l.Plan().Decision
	if len(d.Gaps) == 0 || !strings.Contains(d.Gaps[0].Detail, "connection refused") || !d.Gaps[0].Since.Before(monday.Add(time.Minute)) {
		t.Errorf("the gap does not say what is missing since when: %+v", d.Gaps)
	}
	if d.Model("chat").Held == "" {
		t.Error("the plan does not say that it is held")
	}
	w.observeErr, w.load = nil, 5000
	ticks(l, next, 2)
	if d := l.Plan().Decision; len(d.Gaps) > 0 || planned(t, l) < 5 {
		t.Errorf("after recovery %d replicas are planned for a load of 5, gaps %+v", planned(t, l), d.Gaps)
	}
}

// A look that the end of the process cuts short makes no plan, and is no failure.
func TestLoopEndsWithoutABlindPlan(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &endingWorld{world: world{load: 1000, ready: 1}, end: cancel}
	l := newLoop(t, &w.world, func(c *Config) { c.Source = w })
	l.Tick(context.Background(), monday)
	before := l.Plan()
	w.ending = true
	l.Tick(ctx, monday.Add(15*time.Second))
	if l.Plan() != before {
		t.Error("the tick that was cut short published a plan")
	}
	for _, got := range l.Status() {
		if got.Error != "" {
			t.Errorf("the end counts as a failure: %+v", got)
		}
	}
}

// endingWorld ends the process in the middle of a look.
type endingWorld struct {
	world
	ending bool
	end    context.CancelFunc
}

func (w *endingWorld) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	if w.ending {
		w.end()
		return planner.Observation{}, ctx.Err()
	}
	return w.world.Observe(ctx, now)
}

// A plan that is published is recorded, although the process ends meanwhile: the next one must know what KEDA was told.
func TestLoopRecordsALastPlan(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	recorded := errors.New("not recorded")
	l := newLoop(t, &world{load: 1000, ready: 1}, func(c *Config) {
		c.Record = func(ctx context.Context, _ planner.Decision) error {
			cancel()
			recorded = ctx.Err()
			return recorded
		}
	})
	l.Tick(ctx, monday)
	if l.Plan() == nil || recorded != nil {
		t.Errorf("published %v, recorded with %v", l.Plan(), recorded)
	}
}

func TestLoopRecordsBeforeItPublishes(t *testing.T) {
	var order []string
	l := newLoop(t, &world{load: 1000, ready: 1}, func(c *Config) {
		c.Record = func(context.Context, planner.Decision) error { order = append(order, "record"); return nil }
		c.Publish = func(Plan) { order = append(order, "publish") }
		c.Apply = func(context.Context, planner.Decision) error { order = append(order, "apply"); return nil }
		c.RecordState = func(_ context.Context, s planner.State, p planner.Policy, d planner.Decision) error {
			replayed, err := planner.Decide(s, p)
			if err != nil || !reflect.DeepEqual(replayed, d) {
				t.Errorf("the recorded state does not replay: %v", err)
			}
			order = append(order, "state")
			return nil
		}
	})
	l.Tick(context.Background(), monday)
	if got := strings.Join(order, " "); got != "record publish apply state" {
		t.Errorf("order is %q", got)
	}
}

func TestLoopFinishesATickThatIsUnderWay(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := newLoop(t, &world{load: 1000, ready: 1}, func(c *Config) {
		c.Record = func(ctx context.Context, _ planner.Decision) error { return ctx.Err() }
		c.Publish = func(Plan) { cancel() } // SIGTERM in the middle of a tick
		c.Apply = func(ctx context.Context, _ planner.Decision) error { return ctx.Err() }
		c.RecordState = func(ctx context.Context, _ planner.State, _ planner.Policy, _ planner.Decision) error {
			return ctx.Err()
		}
	})
	l.Tick(ctx, monday)
	parts := map[string]string{}
	for _, s := range l.Status() {
		parts[s.Part] = s.Error
	}
	for _, part := range []string{"record", "apply", "record_state"} {
		if err, ran := parts[part]; !ran || err != "" {
			t.Errorf("%s ran: %v, error %q", part, ran, err)
		}
	}
}

func TestLoopServesAlthoughTheJournalFails(t *testing.T) {
	l := newLoop(t, &world{load: 1000, ready: 1}, func(c *Config) {
		c.Record = func(context.Context, planner.Decision) error { return errors.New("disk full") }
	})
	l.Tick(context.Background(), monday)
	planned(t, l)
	if s := part(l, "record"); s.Error != "disk full" || !s.LastGood.IsZero() {
		t.Errorf("the status does not show the full disk: %+v", l.Status())
	}
}

func TestLoopKeepsTheLastPlanWhenDecideFails(t *testing.T) {
	l := newLoop(t, &world{load: 1000, ready: 1}, nil)
	ticks(l, monday, 1)
	before := l.Plan()
	l.Tick(context.Background(), monday.AddDate(500, 0, 0)) // a year that no State may have
	if l.Plan() != before {
		t.Error("a failed Decide replaced the plan; it must be left to age")
	}
	if s := part(l, "decide"); s.Error == "" {
		t.Errorf("the status does not show the failure: %+v", l.Status())
	}
}

// A fact that cannot be is left out with a gap that says so, and everything else goes on.
func TestLoopLeavesOutAnImpossibleInventory(t *testing.T) {
	w := &world{load: 1000, ready: 1}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 1)
	before := l.Plan()
	w.broken = true
	ticks(l, next, 1)
	if p := l.Plan(); p == before || len(p.Decision.Gaps) != 1 || !p.Decision.Gaps[0].Invalid || p.Decision.Gaps[0].Fact != "inventory" {
		t.Errorf("plan %+v, want one with a gap for the inventory", p)
	}
}

func TestLoopRestartHoldsFromMemory(t *testing.T) {
	w := &world{load: 4000, ready: 4}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 8)
	if got := planned(t, l); got < 4 {
		t.Fatalf("plan is %d before the restart", got)
	}
	before, memory := planned(t, l), l.Plan().Decision.Memory
	w.load, w.ready = 100, 1 // the process was gone for a while; the world went on
	l = newLoop(t, w, func(c *Config) { c.Memory = memory })
	for at := next.Add(10 * time.Minute); at.Before(next.Add(15 * time.Minute)); at = at.Add(15 * time.Second) {
		l.Tick(context.Background(), at)
		if got := planned(t, l); got < before {
			t.Fatalf("%s after the restart the plan fell from %d to %d", at.Sub(next.Add(10*time.Minute)), before, got)
		}
	}
	ticks(l, next.Add(15*time.Minute), 40)
	if got := planned(t, l); got >= before {
		t.Errorf("the plan never came down: %d", got)
	}
}

func TestLoopTicksOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var at []time.Duration
		l := newLoop(t, &world{load: 1000, ready: 1}, func(c *Config) {
			c.Clock = VirtualClock(monday, 60)
			c.Apply = func(_ context.Context, d planner.Decision) error {
				at = append(at, d.At.Sub(monday))
				return nil
			}
		})
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Second + time.Millisecond) // 60 virtual seconds
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v at the end of its context", err)
		}
		if fmt.Sprint(at) != "[0s 15s 30s 45s 1m0s]" {
			t.Errorf("ticks at %v", at)
		}
	})
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := VirtualClock(monday, 60)
		time.Sleep(2 * time.Second)
		if got := c.Now().Sub(monday); got != 2*time.Minute {
			t.Errorf("after 2 s at 60x it is %v later", got)
		}
		if got := c.Wall(15 * time.Second); got != 250*time.Millisecond {
			t.Errorf("15 s take %v on the wall", got)
		}
		if w := WallClock(); !w.Now().Equal(time.Now()) {
			t.Error("the wall clock is not the wall clock")
		}
	})
}
