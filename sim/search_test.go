package sim

import (
	"testing"

	"pgregory.net/rapid"
)

// The search tries at most ⌈log₂⌉ replays, finds the least setting that attains the goal, and keeps the cheapest of all
// that do; when none does it keeps the one that attains most.
func TestSearchFindsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		least := rapid.IntRange(0, n+3).Draw(t, "least") // above n: no setting attains it
		f, tried := newSearch(0.9), 0
		err := f.bisect(n, func(i int) (Score, error) {
			tried++
			share := 0.9 + float64(i-least)/1000
			return Score{Policy: "x", AttainedShare: &share, GPUHours: ClusterGPUHours{GPUHours: GPUHours{Serving: float64(i)}}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := float64(min(least, n)); f.best.GPUHours.Serving != want {
			t.Fatalf("setting %v of %d is kept, the least that attains is %d", f.best.GPUHours.Serving, n, least)
		}
		if tried > 7 {
			t.Fatalf("%d replays for %d settings", tried, n)
		}
	})
}

// Names of policies are read and written alike; goals may have a fraction.
func TestPolicyNamesRoundTrip(t *testing.T) {
	for _, name := range []string{"forewarm", "fixed:8", "kpa", "kpa:12", "wva", "oracle", "oracle:99.5", "tuned:99"} {
		spec, err := ParsePolicy(name)
		if err != nil || spec.String() != name {
			t.Errorf("%s reads as %v, %v", name, spec, err)
		}
	}
	for _, name := range []string{"fixed", "cron:3", "oracle:0", "tuned:101", "oracle:x", "kpa:-1"} {
		if spec, err := ParsePolicy(name); err == nil {
			t.Errorf("%s reads as %v", name, spec)
		}
	}
}
