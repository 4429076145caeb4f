package planner

import (
	"math"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// dayOf is a history of prompt and half as many completion tokens at a step of ten minutes; nothing is known before own.
func dayOf(start time.Time, n, own int, size float64) LoadHistory {
	series := func(size float64) forecast.Series {
		s := forecast.Series{Start: start, Step: 10 * time.Minute, Values: make([]float64, n)}
		for i := range s.Values {
			s.Values[i] = size * (2 + math.Sin(2*math.Pi*float64(i)/144))
			if i < own {
				s.Values[i] = math.NaN()
			}
		}
		return s
	}
	return LoadHistory{Prompt: series(size), Completion: series(size / 2), Requests: series(size / 1000)}
}

// A model of one day takes the shape of its sibling at its own size and says so; one with enough of its own, or too
// little to tell its size, takes nothing.
func TestBorrowShape(t *testing.T) {
	const n = 4 * 144
	sibling := dayOf(monday, n, 0, 300)
	h := dayOf(monday, n, 3*144, 30)
	got, err := h.BorrowShape(sibling, "big")
	if err != nil || !strings.HasPrefix(got.Borrowed, "of big: prompt tokens 432 steps borrowed") {
		t.Fatalf("%q, %v", got.Borrowed, err)
	}
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	whole := dayOf(monday, n, 0, 30)
	for i, v := range got.Prompt.Values {
		if math.Abs(v-whole.Prompt.Values[i]) > 1e-9 || math.Abs(got.Completion.Values[i]-whole.Completion.Values[i]) > 1e-9 {
			t.Fatalf("step %d: %v prompt, want %v", i, v, whole.Prompt.Values[i])
		}
	}
	if !math.IsNaN(got.Requests.Values[0]) || got.Requests.Values[n-1] != h.Requests.Values[n-1] {
		t.Error("requests were borrowed")
	}
	for _, own := range []int{144, n - 3, n} {
		h := dayOf(monday, n, own, 30)
		if got, err := h.BorrowShape(sibling, "big"); err != nil || got.Borrowed != "" || got.Prompt.Len() != n || got.ReadAgain != (own > 144) {
			t.Errorf("%d unknown steps: %q, read again %v, %v", own, got.Borrowed, got.ReadAgain, err)
		}
	}
}

// The plan says whose history its forecast rests on.
func TestPlanSaysWhatIsBorrowed(t *testing.T) {
	const n = 4 * 144
	h, err := dayOf(monday.Add(-n*10*time.Minute), n, n, 30).Inherit(dayOf(monday.Add(-n*10*time.Minute), n, 0, 300), "old")
	if err != nil {
		t.Fatal(err)
	}
	ledger, tracked := &coldstart.Ledger{}, TrackedModel{Name: "new", Shape: Shape{GPUs: 1, Pods: 1}}
	tr, err := NewTracker(TrackerConfig{Step: 10 * time.Minute, Horizon: time.Hour, Interval: time.Minute, Paths: 40, Method: "last",
		Ledger: ledger, Models: []TrackedModel{tracked}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Fit("new", h); err != nil {
		t.Fatal(err)
	}
	s := tr.State(Observation{At: monday, Models: []ModelObservation{{Name: "new"}}}, Memory{})
	if f := s.Models[0].Forecast; f == nil || !strings.HasPrefix(f.Borrowed, "of old: 576 steps inherited") {
		t.Fatalf("the forecast is %+v", f)
	}
	d, err := Decide(s, Policy{Defaults: DefaultModelPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	if steps := d.Models[0].Steps; !strings.Contains(steps[0].Why, "on a history of old: 576 steps inherited") {
		t.Errorf("the plan does not say it: %+v", steps[0])
	}
}
