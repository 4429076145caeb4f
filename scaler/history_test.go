package scaler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

func TestLoopReadsTheStepsOfAnOutage(t *testing.T) {
	w := &world{load: 1000, ready: 1}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 1)
	w.observeErr = errors.New("down")
	next = ticks(l, next, 120) // half an hour
	w.observeErr = nil
	ticks(l, next, 1)
	want := "chat 09:00..09:20" // Observe itself brings the last ten minutes
	if got := w.historyCalls[len(w.historyCalls)-1]; got != want {
		t.Errorf("after the outage history was read for %q, want %q", got, want)
	}
}

func TestLoopRetriesAHistoryThatCouldNotBeRead(t *testing.T) {
	w := &world{load: 1000, ready: 2, historyErr: errors.New("503")}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 3)
	if got := len(w.historyCalls); got != 1 {
		t.Errorf("history was asked %d times within a minute, want once", got)
	}
	if got := planned(t, l); got < 2 {
		t.Errorf("with a history that cannot be read the plan is %d, below the 2 that run", got)
	}
	w.historyErr = nil
	ticks(l, next, 4)
	if l.Plan().Decision.Model("chat").Peak == nil {
		t.Error("no forecast after the history could be read")
	}
}

func TestLoopUsesWhatAPartialHistoryHolds(t *testing.T) {
	w := &world{load: 1000, ready: 1, historyErr: fmt.Errorf("store 3 is down: %w", planner.ErrPartial)}
	l := newLoop(t, w, nil)
	ticks(l, monday, 6)
	if l.Plan().Decision.Model("chat").Peak == nil || len(w.historyCalls) != 1 {
		t.Errorf("a partial history was not used, or asked for %d times", len(w.historyCalls))
	}
	if s := part(l, "history"); !strings.Contains(s.Error, "store 3") {
		t.Errorf("the status hides that the history is partial: %+v", s)
	}
}

// A model that may borrow another's shape later is planned with what it has, and its history is read again until it did.
func TestLoopReadsAgainWhatMayBeCompleted(t *testing.T) {
	w := &world{load: 1000, ready: 1, readAgain: true}
	l := newLoop(t, w, nil)
	next := ticks(l, monday, 36) // nine minutes
	if l.Plan().Decision.Model("chat").Peak == nil || len(w.historyCalls) != 1 {
		t.Fatalf("its own history was not used, or asked for %d times in nine minutes", len(w.historyCalls))
	}
	next = ticks(l, next, 8)
	if len(w.historyCalls) != 2 {
		t.Fatalf("asked for %d times in eleven minutes, want twice", len(w.historyCalls))
	}
	w.readAgain = false
	next = ticks(l, next, 44)
	ticks(l, next, 44)
	if len(w.historyCalls) != 3 {
		t.Errorf("asked for %d times, want three: nothing can be added any more", len(w.historyCalls))
	}
}

func TestLoopReadsHistoriesBesideTheTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		slow := &slowWorld{world: world{load: 1000, ready: 1}, takes: 40 * time.Second}
		l := newLoop(t, &slow.world, func(c *Config) { c.Source, c.HistoryWorkers = slow, 2 })
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Second)
		if l.Plan() == nil {
			t.Error("the first plan waits for the history")
		}
		before := l.Plan().Decision.Model("chat").Peak
		time.Sleep(time.Minute)
		after := l.Plan().Decision.Model("chat").Peak
		if after == nil || slow.calls != 1 {
			t.Errorf("after a minute the forecast is %v and history was asked %d times (at first %v)", after, slow.calls, before)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// slowWorld takes its time for a history.
type slowWorld struct {
	world
	takes time.Duration
	calls int
}

func (w *slowWorld) History(ctx context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	w.calls++
	select {
	case <-time.After(w.takes):
		return w.history(from, to), nil
	case <-ctx.Done():
		return planner.LoadHistory{}, ctx.Err()
	}
}

// fleet is a world whose models are all alike but for the history of one, which cannot be read.
type fleet struct {
	world
	models []string
	broken string
}

func (w *fleet) History(_ context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	if model == w.broken {
		return planner.LoadHistory{}, errors.New("422")
	}
	return w.history(from, to), nil
}

func (w *fleet) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	obs, err := w.world.Observe(ctx, now)
	if err != nil {
		return obs, err
	}
	one := obs.Models
	obs.Models = nil
	for _, name := range w.models {
		m := one[0]
		m.Name = name
		obs.Models = append(obs.Models, m)
	}
	return obs, nil
}

func newFleet(t *testing.T, w *fleet, change func(*Config)) *Loop {
	t.Helper()
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := planner.TrackerConfig{Step: time.Minute, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 20,
		Method: "last", Ledger: ledger}
	for _, name := range w.models {
		cfg.Models = append(cfg.Models, planner.TrackedModel{Name: name, Shape: planner.Shape{GPUs: 1, Pods: 1},
			Profile: &planner.Profile{Prompt: 20000, Completion: 2000}})
	}
	tracker, err := planner.NewTracker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return newLoop(t, &w.world, func(c *Config) {
		c.Source, c.Tracker, c.Models = w, tracker, w.models
		change(c)
	})
}

// The models whose history was read must not hide the one whose was not, whatever the order.
func TestLoopNamesTheHistoryThatFailed(t *testing.T) {
	w := &fleet{world: world{load: 1000, ready: 1}, models: []string{"a", "b", "c"}, broken: "b"}
	l := newFleet(t, w, func(*Config) {})
	next := ticks(l, monday, 1)
	if got := part(l, "history").Error; got != "history of b: 422" {
		t.Errorf("the status is %q", got)
	}
	w.broken = ""
	ticks(l, next, 5) // a minute later it is tried again
	if got := part(l, "history"); got.Error != "" || got.LastGood.IsZero() {
		t.Errorf("the status after the retry is %+v", got)
	}
	w.broken = "c"
	w.observeErr = errors.New("down")
	next = ticks(l, next.Add(75*time.Second), 120)
	w.observeErr = nil
	ticks(l, next, 1)
	if got := part(l, "backfill").Error; got != "history of c: 422" {
		t.Errorf("the status of the backfill is %q", got)
	}
}

// A fleet whose histories all come at once is fitted over several ticks, each of which makes a plan.
func TestLoopFitsNoLongerThanATickAllows(t *testing.T) {
	w := &fleet{world: world{load: 1000, ready: 1}, models: []string{"a", "b", "c"}}
	l := newFleet(t, w, func(c *Config) {
		c.HistoryWorkers = 3
		c.Clock = VirtualClock(monday, 1e12) // half an interval is below a nanosecond
	})
	ctx := context.Background()
	l.readHistories(ctx, monday) // which may have taken in one already
	l.workers.Wait()
	for left := len(l.reading.unread); left > 0; left-- {
		l.takeInDone(ctx, monday)
		if got := len(l.reading.unread); got != left-1 {
			t.Fatalf("%d histories are left of %d, want one less", got, left)
		}
	}
}

func TestLoopStartsOverWhenTheClockGoesBack(t *testing.T) {
	w := &world{load: 1000, ready: 1}
	l := newLoop(t, w, nil)
	ticks(l, monday.Add(2*time.Hour), 2) // the clock was two hours ahead
	w.load = 3000
	ticks(l, monday, 2)
	m := l.Plan().Decision.Model("chat")
	if len(w.historyCalls) != 2 || m.Peak == nil || *m.Replicas < 3 {
		t.Errorf("after the clock went back history was read %d times and %d replicas are planned for a load of 3 (forecast %v)",
			len(w.historyCalls), *m.Replicas, m.Peak)
	}
}
