package planner

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
)

// wavy is n minutes of a noisy day from start, with a few missing minutes.
func wavy(start time.Time, n int) LoadHistory {
	prompt := make([]float64, n)
	for i := range prompt {
		at := start.Add(time.Duration(i) * time.Minute)
		minute := float64(at.Unix()/60) / 1440
		noise := rand.New(rand.NewPCG(5, uint64(at.Unix()))).Float64()
		if prompt[i] = 3000 * (1.2 + math.Sin(2*math.Pi*minute)) * (0.9 + 0.2*noise); noise < 0.01 {
			prompt[i] = nan
		}
	}
	return steps(start, prompt...)
}

// TestRestoredTrackerGoesOnAsBefore: a Tracker that reads a snapshot, and the load since it was made, is in the State
// that the one that was never stopped is in, to the last digit, then and for as long as both go on; with and without
// events.
func TestRestoredTrackerGoesOnAsBefore(t *testing.T) {
	calendar, err := forecast.NewCalendar([]forecast.Event{
		{Name: "all-hands", Start: monday.Add(-2*24*time.Hour + time.Hour), Duration: 2 * time.Hour, Recurrence: "FREQ=DAILY", Learn: true}})
	if err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string]*forecast.Calendar{"without events": nil, "with events": calendar} {
		t.Run(name, func(t *testing.T) {
			cfg := trackerConfig("auto")
			cfg.Events = events
			whole, err := NewTracker(cfg)
			if err != nil {
				t.Fatal(err)
			}
			history := wavy(monday.Add(-3*24*time.Hour), 3*24*60)
			history.Borrowed = "of old: 1000 steps inherited"
			if err := whole.Fit("chat", history); err != nil {
				t.Fatal(err)
			}
			minute := func(i int) LoadHistory { return wavy(monday.Add(time.Duration(i)*time.Minute), 1) }
			for i := range 30 {
				look(whole, minute(i))
			}
			kept, err := whole.Snapshot("chat")
			if err != nil {
				t.Fatal(err)
			}
			const late = 75 // minutes after monday at which the second one starts
			for i := 30; i < late; i++ {
				look(whole, minute(i))
			}
			again, err := NewTracker(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s, err := DecodeSnapshot(kept)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Restore(s, wavy(s.End(), late-30)); err != nil {
				t.Fatal(err)
			}
			for i := late; i < late+60; i++ {
				a, b := text(t, look(whole, minute(i))), text(t, look(again, minute(i)))
				if a != b {
					t.Fatalf("minute %d: the State is\n%.2000s\nrestored\n%.2000s", i, a, b)
				}
			}
		})
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestSnapshotThatCannotBe: what cannot be kept or restored is an error that says why, and what a Tracker knew stays.
func TestSnapshotThatCannotBe(t *testing.T) {
	naive := newTestTracker(t, "last")
	if _, err := naive.Snapshot("chat"); !errors.Is(err, ErrNoSnapshot) || !strings.Contains(err.Error(), "no history yet") {
		t.Errorf("nothing fitted: %v", err)
	}
	look(naive, wavy(monday, 200))
	if _, err := naive.Snapshot("chat"); !errors.Is(err, ErrNoSnapshot) || !strings.Contains(err.Error(), `"last" has none`) {
		t.Errorf("a method without snapshots: %v", err)
	}
	if _, err := naive.Snapshot("chatt"); err == nil || errors.Is(err, ErrNoSnapshot) {
		t.Errorf("an unknown model: %v", err)
	}
	tr := newTestTracker(t, "auto")
	look(tr, wavy(monday, 200))
	data, err := tr.Snapshot("chat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeSnapshot(data[:100]); err == nil {
		t.Error("half a snapshot is decoded")
	}
	s, err := DecodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	end := s.End()
	for what, c := range map[string]struct {
		change func(*TrackerConfig)
		tail   LoadHistory
		says   string
	}{
		"horizon": {func(c *TrackerConfig) { c.Horizon = time.Hour }, LoadHistory{}, "horizon of 30 steps"},
		"step":    {func(c *TrackerConfig) { c.Step = 2 * time.Minute }, LoadHistory{}, "its step is 1m0s: 2m0s is allowed"},
		"method":  {func(c *TrackerConfig) { c.Method = "last" }, LoadHistory{}, `method "last" has no snapshots`},
		"model":   {func(c *TrackerConfig) { c.Models[0].Name = "code" }, LoadHistory{}, `"chat" is not tracked`},
		"late":    {func(c *TrackerConfig) {}, wavy(end.Add(time.Minute), 5), "starts at 2026-03-02T12:21:00Z"},
		"early":   {func(c *TrackerConfig) {}, wavy(end.Add(-time.Minute), 5), "starts at 2026-03-02T12:19:00Z"},
	} {
		cfg := trackerConfig("auto")
		c.change(&cfg)
		into, err := NewTracker(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := into.Restore(s, c.tail); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("another %s: %v, want %q", what, err, c.says)
		}
		if at := into.End("chat"); !at.IsZero() {
			t.Errorf("another %s: the tracker has taken over something: %v", what, at)
		}
	}
}
