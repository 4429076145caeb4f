package planner

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/forecast"
)

// genCoverage draws what a forecaster could have measured: shares that ascend with the level.
func genCoverage(t *rapid.T) *ForecastCoverage {
	draw := func(kind string) forecast.Coverage {
		c := forecast.Coverage{Forecasts: rapid.SampledFrom([]int{0, 1, 40, 900, 100_000}).Draw(t, kind+" forecasts")}
		share := 0.0
		for _, level := range []float64{0.5, 0.75, 0.9, 0.95, 0.975, 0.99} {
			share = rapid.Float64Range(share, 1).Draw(t, kind+" share")
			c.Peak = append(c.Peak, forecast.Covered{P: level, Share: share})
		}
		return c
	}
	return &ForecastCoverage{Prompt: draw("prompt"), Completion: draw("completion")}
}

// TestCoverageNeverLowersAPlan: whatever coverage was measured, the plan is at least the one without any.
func TestCoverageNeverLowersAPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		known := copyState(t, s)
		for i := range s.Models {
			if f := s.Models[i].Forecast; f != nil {
				f.Coverage = nil
				known.Models[i].Forecast.Coverage = genCoverage(t)
			}
		}
		without, with := mustDecide(t, s, p), mustDecide(t, known, p)
		for i := range without.Models {
			a, b := without.Models[i].Replicas, with.Models[i].Replicas
			if (a == nil) != (b == nil) || a != nil && *b < *a {
				t.Fatalf("%s: without coverage the plan is %s, with it %s", without.Models[i].Name, countText(a), countText(b))
			}
		}
	})
}

// A share that has all but faded away is still a number, if only 0.
func TestReadLevelOfTinyShares(t *testing.T) {
	for _, share := range []float64{5.7e-306, 1e-300, 1e-9} {
		f := &Forecast{Coverage: &ForecastCoverage{Prompt: forecast.Coverage{Forecasts: 1,
			Peak: []forecast.Covered{{P: 0.5, Share: share}, {P: 0.9, Share: 1}}}}}
		if _, seen := f.readLevel(0.5); seen == nil || !(math.Abs(*seen.Prompt-share) <= 0.01*max(share, 1e-280)) {
			t.Errorf("a share of %v is read as %v", share, seen)
		}
	}
}

// TestReadLevel works the rule out by hand: 3000 forecasts over 1 step count as 2000 trials, so that the noise of p95
// is 2·√(.95·.05/2000) = 0.975 points, and over 30 steps as 66.7, so that it is 5.34.
func TestReadLevel(t *testing.T) {
	low := []forecast.Covered{{P: 0.5, Share: 0.4}, {P: 0.9, Share: 0.8}, {P: 0.95, Share: 0.88}, {P: 0.99, Share: 0.96}}
	for name, c := range map[string]struct {
		peak      []forecast.Covered
		forecasts int
		steps     int
		want      float64
	}{
		// .94025 lies at (.94025 − .88)/(.96 − .88) = .753 of the way from .95 to .99.
		"between two levels": {low, 3000, 1, 0.9801},
		// .8966 at .2077 of it.
		"few windows of their own": {low, 3000, 30, 0.9583},
		"too few to tell":          {low, 20, 30, 0.95},
		"held":                     {[]forecast.Covered{{P: 0.5, Share: 0.6}, {P: 0.95, Share: 0.97}}, 3000, 1, 0.95},
		// .94025 is above what p99 held; (.94025 − .9)/(1 − .9) of the way from .99 to 1.
		"beyond the highest level": {[]forecast.Covered{{P: 0.5, Share: 0.5}, {P: 0.95, Share: 0.85}, {P: 0.99, Share: 0.9}}, 3000, 1, 0.994},
		"never held":               {[]forecast.Covered{{P: 0.5, Share: 0}, {P: 0.99, Share: 0}}, 3000, 1, 0.9994},
		"nothing matured":          {nil, 0, 1, 0.95},
	} {
		f := &Forecast{Coverage: &ForecastCoverage{Completion: forecast.Coverage{Peak: c.peak, Forecasts: c.forecasts}}}
		f.Prompt = forecast.Ensemble{Step: time.Minute, Paths: [][]float64{make([]float64, c.steps)}}
		got, seen := f.readLevel(0.95)
		if math.Abs(got-c.want) > 6e-5 {
			t.Errorf("%s: p95 is read at %v, want %v", name, got, c.want)
		}
		if (seen == nil) != (c.forecasts == 0) || seen != nil && (seen.Prompt != nil || seen.Completion == nil) {
			t.Errorf("%s: seen is %+v", name, seen)
		}
	}
}

// TestCoverageOfTheTracker: the State that a Tracker makes carries what its forecasters have measured, and none while
// nothing has matured or the method measures nothing.
func TestCoverageOfTheTracker(t *testing.T) {
	for method, want := range map[string]bool{"auto": true, "last": false} {
		tr := newTestTracker(t, method)
		past := make([]float64, 600)
		for i := range past {
			past[i] = 500 + 100*math.Sin(float64(i)/20)
		}
		if err := tr.Fit("chat", steps(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), past...)); err != nil {
			t.Fatal(err)
		}
		f := tr.State(Observation{At: tr.End("chat")}, Memory{}).Models[0].Forecast
		if got := f.Coverage != nil; got != want {
			t.Fatalf("%s: coverage is %+v", method, f.Coverage)
		}
		if want && (f.Coverage.Prompt.Forecasts < 100 || len(f.Coverage.Completion.Peak) < 4 || f.Coverage.Prompt.Peak[0].P < 0.5) {
			t.Errorf("%s: coverage is %+v", method, f.Coverage)
		}
	}
}

func TestCoverageProblems(t *testing.T) {
	for want, c := range map[string]ForecastCoverage{
		"prompt.forecasts is -1":         {Prompt: forecast.Coverage{Forecasts: -1}},
		"completion has a share of 1.5":  {Completion: forecast.Coverage{Peak: []forecast.Covered{{P: 0.5, Share: 1.5}}}},
		"share of 0.2 at p 0.5 after":    {Prompt: forecast.Coverage{Peak: []forecast.Covered{{P: 0.9, Share: 0.1}, {P: 0.5, Share: 0.2}}}},
		"prompt has a share of NaN at p": {Prompt: forecast.Coverage{Steps: []forecast.Covered{{P: 0.9, Share: math.NaN()}}}},
	} {
		if err := c.problem(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
