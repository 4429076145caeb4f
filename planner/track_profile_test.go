package planner_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

// TestTrackerLearnsProfile: a Tracker that starts from a profile of half the true costs comes, from what the engine says of
// itself minute by minute, to size as the true costs would. A replica that has just been added, whose first minutes are ten
// times as slow, teaches nothing; without Learn the profile stays as it is.
func TestTrackerLearnsProfile(t *testing.T) {
	truth := planner.Physics{Iteration: 8, Prefill: 0.03, Decode: 0.03, Attention: 6e-5, PrefillAttention: 2.4e-6,
		KVTokens: 400_000, MaxSequences: 256, MaxBatchedTokens: 2048,
		Requests: planner.RequestMix{Prompt: 1000, Completion: 200, PromptCV: 1, CompletionCV: 1}}
	stale := truth
	stale.Iteration, stale.Prefill, stale.Decode, stale.Attention = 4, 0.015, 0.015, 3e-5
	learning, fixed := learningTracker(t, stale, &planner.LearnerConfig{}), learningTracker(t, stale, nil)
	slo := planner.SLO{ITL: 60 * time.Millisecond, Percentile: 0.95}
	want := float64(truth.Capacity(truth.Requests, slo, 1).Requests)
	off := func(p *planner.Profile) float64 {
		return math.Abs(float64(p.Physics.Capacity(truth.Requests, slo, 1).Requests)/want - 1)
	}

	s := newScraper(t, truth, 5)
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var state planner.ModelState
	for minute := range 150 {
		rate := 4 + 6*math.Abs(math.Sin(float64(minute)/9)) // of requests; without changes of load costs cannot be told apart
		sample := s.scrape(rate, truth.Requests, time.Hour)
		ready := 1
		if minute == 100 {
			ready = 2
			sample.ITL *= 10
		}
		look := planner.ModelObservation{Name: "chat", Replicas: &planner.Replicas{Ready: ready}, Load: minuteOf(start, minute, rate),
			Engine: &planner.EngineLook{Running: sample.Running, Prompt: sample.Prompt,
				KVUsage: planner.Ratio(sample.KVTokens / truth.KVTokens), ITL: sample.ITL}}
		obs := planner.Observation{At: start.Add(time.Duration(minute+1) * time.Minute), Models: []planner.ModelObservation{look}}
		before := state.Profile
		state = learning.State(obs, planner.Memory{}).Models[0]
		if minute == 100 && off(state.Profile) != off(before) {
			t.Errorf("a fresh replica moved the capacity from %.3f off to %.3f", off(before), off(state.Profile))
		}
		if got := fixed.State(obs, planner.Memory{}).Models[0].Profile; got.Physics.Iteration != stale.Iteration {
			t.Fatalf("the profile that is not to be learned has an α of %v", got.Physics.Iteration)
		}
	}
	if before, after := off(&planner.Profile{Physics: &stale}), off(state.Profile); after > 0.1 || before < 0.5 {
		t.Errorf("the capacity is %.0f %% off, it was %.0f %% with the profile: at most 10 %% are wanted", 100*after, 100*before)
	}
	if !strings.Contains(state.Profile.Source, "learned from the engines") {
		t.Errorf("the source does not say that it was learned: %q", state.Profile.Source)
	}
}

func learningTracker(t *testing.T, p planner.Physics, learn *planner.LearnerConfig) *planner.Tracker {
	t.Helper()
	tr, err := planner.NewTracker(planner.TrackerConfig{Step: time.Minute, Horizon: 30 * time.Minute, Interval: time.Minute, Paths: 20,
		Method: "last", Ledger: &coldstart.Ledger{}, Models: []planner.TrackedModel{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1},
			Profile: &planner.Profile{Physics: &p, Source: "stale"}, Learn: learn}}})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// minuteOf is one minute of load at a rate of requests of the usual sizes.
func minuteOf(start time.Time, minute int, rate float64) planner.LoadHistory {
	one := func(v float64) forecast.Series {
		return forecast.Series{Start: start.Add(time.Duration(minute) * time.Minute), Step: time.Minute, Values: []float64{v}}
	}
	return planner.LoadHistory{Prompt: one(1000 * rate), Completion: one(200 * rate), Requests: one(rate)}
}

// TestTrackerLearnsFromPhysicsOnly: a profile of stated rates has no costs that could be learned.
func TestTrackerLearnsFromPhysicsOnly(t *testing.T) {
	_, err := planner.NewTracker(planner.TrackerConfig{Step: time.Minute, Horizon: time.Hour, Interval: time.Minute, Paths: 20,
		Method: "last", Ledger: &coldstart.Ledger{}, Models: []planner.TrackedModel{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1},
			Profile: &planner.Profile{Prompt: 1000, Completion: 100}, Learn: &planner.LearnerConfig{}}}})
	if err == nil || !strings.Contains(err.Error(), "no physics to start from") {
		t.Errorf("the error is %v", err)
	}
}
