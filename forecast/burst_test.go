package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestDailyBurstIsForeseen is what forewarm exists for: the load jumps at the same time every day, from nothing or from a
// base, and the upper quantile of the steps and of the peak of a window in the burst must hold most of it before it
// begins, from the third day on. The p95 over the whole day must not be the burst: an hour before and an hour after it is near the base.
func TestDailyBurstIsForeseen(t *testing.T) {
	const high = 700.0
	burst := time.Date(2026, 12, 1, 9, 3, 0, 0, time.UTC)
	for _, step := range []time.Duration{10 * time.Second, time.Minute} {
		for _, days := range []int{2, 5, 14} {
			for _, quiet := range []float64{0, 150} {
				if step < time.Minute && days > 5 {
					continue // takes long and says nothing new
				}
				t.Run(fmt.Sprintf("%v/%d days/from %v", step, days, quiet), func(t *testing.T) {
					f := func(before time.Duration) Ensemble {
						end := burst.Add(-before)
						n := int(time.Duration(days) * day / step)
						s := Series{Start: end.Add(-time.Duration(n) * step), Step: step, Values: make([]float64, n)}
						for i := range s.Values {
							at := s.Start.Add(time.Duration(i) * step)
							ripple := 1 + 0.02*math.Sin(float64(at.Unix())*0.7)*math.Cos(float64(at.Unix())*0.013)
							s.Values[i] = quiet * ripple
							if since := (at.Sub(burst) + 100*day) % day; since < 10*time.Minute {
								s.Values[i] = high * ripple
							}
						}
						a := NewAuto(Options{Horizon: 12})
						if err := a.Fit(s); err != nil {
							t.Fatal(err)
						}
						b := Blocks{Ages: make([]int, 200)}
						for i := range b.Ages {
							b.Ages[i] = (i * 83) % (n - 100)
						}
						return a.Sample(12, b)
					}
					for _, before := range []time.Duration{2 * step, 5 * step} {
						k := int(before / step)
						e := f(before)
						if q := e.Quantile(0.95, k+1); q < 0.8*high {
							t.Errorf("%v before: p95 of the burst's second step is %.0f, want at least %.0f", before, q, 0.8*high)
						}
						if q := e.PeakQuantile(0.95, k, k+3); q < 0.8*high {
							t.Errorf("%v before: p95 of the peak of its first three steps is %.0f, want at least %.0f", before, q, 0.8*high)
						}
					}
					for _, before := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
						if q := f(before).PeakQuantile(0.95, 0, 12); q > quiet+0.1*high {
							t.Errorf("%v before: p95 of the peak is %.0f, want at most %.0f", before, q, quiet+0.1*high)
						}
					}
				})
			}
		}
	}
}
