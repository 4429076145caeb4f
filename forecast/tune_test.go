package forecast

import (
	"math"
	"testing"
	"time"
)

// TestParametersFollowTheSeries: what was fitted on one habit of demand is given up when updates show another.
func TestParametersFollowTheSeries(t *testing.T) {
	noisy := func(n int, seed uint64) []float64 { // nothing to follow: smooth as much as possible
		rng := testRand(seed)
		out := make([]float64, n)
		for i := range out {
			out[i] = 1000 + 100*rng.NormFloat64()
		}
		return out
	}
	f := NewDampedDrift(Options{})
	if err := f.Fit(minutes(noisy(6000, 41)...)); err != nil {
		t.Fatal(err)
	}
	d := f.method.(*dampedDrift)
	before := d.alpha
	for _, v := range randomWalk(5*1440, 42).Values {
		f.Update(v, false)
	}
	if before > 0.2 || d.alpha < 0.7 {
		t.Errorf("alpha is %v on noise and %v on a random walk", before, d.alpha)
	}
	if len(d.level) != len(f.h.vals) || len(d.trend) != len(f.h.vals) {
		t.Errorf("%d levels and %d trends of %d steps", len(d.level), len(d.trend), len(f.h.vals))
	}

	// A daily shape that repeats exactly is best read from yesterday; once every day differs from the one before and is
	// like the same day last week, it is not.
	weekly := minutes(make([]float64, 21*1440)...)
	for i := range weekly.Values {
		hour := 2 * math.Pi * float64(i%1440) / 1440
		height := 1.0
		if i >= 7*1440 { // before that all days are alike
			height = []float64{1, 3, 0.5, 2, 4, 0.3, 1.5}[i/1440%7]
		}
		weekly.Values[i] = 1000 + 200*height*math.Sin(9*hour)
	}
	g := NewSeasonalNaive(Options{})
	if err := g.Fit(weekly.slice(0, 7*1440)); err != nil {
		t.Fatal(err)
	}
	s := g.method.(*seasonalNaive)
	if back := s.lags[time.Wednesday][0]; back != 1 {
		t.Errorf("with equal days the first reference lies %d days back, want 1", back)
	}
	for _, v := range weekly.Values[7*1440:] {
		g.Update(v, false)
	}
	if back := s.lags[time.Wednesday][0]; back != 7 {
		t.Errorf("with a weekly shape the first reference lies %d days back, want 7", back)
	}
}

// TestTunerTriesEveryChoiceOnceADay: whatever the step, and never two in one update.
func TestTunerTriesEveryChoiceOnceADay(t *testing.T) {
	for _, step := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		h := &history{clock: newWallClock(monday, step, nil)}
		tn, tried := newTuner(h, 27), map[int]int{}
		for range max(27, int(day/step)) {
			if i, ok := tn.due(); ok {
				tried[i]++
			}
		}
		if len(tried) != 27 || tried[0] > 2 {
			t.Errorf("step %v: %d of 27 choices were tried in a day, the first %d times", step, len(tried), tried[0])
		}
	}
}

// TestClippedValuesChooseNothing: a shortage that clips every value must not be a reason for other parameters.
func TestClippedValuesChooseNothing(t *testing.T) {
	s := dailyDemand(4*1440, time.Minute, nil, 43)
	f, g := NewDampedDrift(Options{}), NewSeasonalNaive(Options{})
	if f.Fit(s) != nil || g.Fit(s) != nil {
		t.Fatal("fit")
	}
	for range 8 * 1440 {
		f.Update(5, true)
		g.Update(5, true)
	}
	for name, trial := range map[string]float64{
		nameDrift:    f.method.(*dampedDrift).trial(f.h),
		nameSeasonal: g.method.(*seasonalNaive).trial(g.h),
	} {
		if !math.IsInf(trial, 1) {
			t.Errorf("%s was scored %v on lower bounds", name, trial)
		}
	}
}
