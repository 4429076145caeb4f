package benchmark

import (
	"math"
	"slices"
	"time"
)

const (
	// baselineWindow is how far back the direct baseline looks, and clockWidth how far around the time of day.
	baselineWindow = 28 * day
	clockWidth     = 30 * time.Minute
	// directMin is the number of ratios below which the direct baseline takes those of all times of day.
	directMin = 30
	// conformalWindow is how far back the errors of the last value are kept.
	conformalWindow = 7 * day
	// directOffset, as a share of the mean, is added to peak and level so that their ratio exists at zero.
	directOffset = 0.01
)

// DirectPeaks forecasts the maximum over horizon steps after each origin without a model: the empirical quantile of
// peak ÷ level over the origins around the same time of day on the last 28 days, times the level now. It sees only
// windows that ended by the origin. Level is the last known value; peak and level are offset by a hundredth of the mean
// known then, so that a ratio exists at zero. Fewer than 30 ratios (less than a day of history, say) are replaced by
// those of all times of day; without any there is no forecast.
func (c Case) DirectPeaks(origins []int, horizon int) Predictions {
	levels, means, peaks := c.Series.Carried(), c.runningMeans(), c.peaks(horizon)
	out := Predictions{}
	for _, o := range origins {
		offset := directOffset * means[o]
		var ratios []float64
		take := func(at int) {
			if r := (peaks[at] + offset) / (levels[at] + offset); !math.IsNaN(r) && !math.IsInf(r, 0) {
				ratios = append(ratios, r)
			}
		}
		oldest := max(0, o-int(baselineWindow/c.Series.Step))
		for d := 1; ; d++ {
			same := c.Series.SameTime(o, d)
			width := int(clockWidth / c.Series.Step)
			if same+width < oldest {
				break
			}
			for at := max(oldest, same-width); at <= min(same+width, o-horizon); at++ {
				take(at)
			}
		}
		if len(ratios) < directMin {
			ratios = ratios[:0]
			for at := oldest; at <= o-horizon; at++ {
				take(at)
			}
		}
		if qs := empirical(ratios); qs != nil {
			for j := range qs {
				qs[j] = max(0, qs[j]*(levels[o]+offset)-offset)
			}
			out[o] = Prediction{Peaks: map[int][]float64{horizon: qs}}
		}
	}
	return out
}

// LastPeaks forecasts the maximum over horizon steps after each origin as the last known value plus the conformal
// quantile of that forecast's own errors over the windows of the last seven days that ended by the origin (split
// conformal prediction on a rolling window: Lei et al., Distribution-free predictive inference for regression, 2018).
func (c Case) LastPeaks(origins []int, horizon int) Predictions {
	levels, peaks := c.Series.Carried(), c.peaks(horizon)
	keep := int(conformalWindow / c.Series.Step)
	errorAt := func(at int) float64 {
		if at < 0 {
			return math.NaN()
		}
		return peaks[at] - levels[at]
	}
	var known []float64 // ascending
	out, next := Predictions{}, 0
	for _, o := range origins {
		for ; next <= o-horizon; next++ {
			known = insert(known, errorAt(next))
			known = remove(known, errorAt(next-keep))
		}
		if qs := conformal(known); qs != nil {
			for j := range qs {
				qs[j] = max(0, levels[o]+qs[j])
			}
			out[o] = Prediction{Peaks: map[int][]float64{horizon: qs}}
		}
	}
	return out
}

// peaks returns Peak of every step, NaN where the window leaves the series.
func (c Case) peaks(horizon int) []float64 {
	out := make([]float64, c.Series.Len())
	for i := range out {
		out[i] = math.NaN()
		if i+horizon < len(out) {
			out[i] = c.Peak(i, horizon)
		}
	}
	return out
}

// runningMeans returns the mean of the known values until each step.
func (c Case) runningMeans() []float64 {
	out := make([]float64, c.Series.Len())
	sum, n := 0.0, 0.0
	for i, v := range c.Series.Values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
		out[i] = sum / max(1, n)
	}
	return out
}

// empirical returns the quantiles of xs, which it sorts: linear interpolation at rank p·(n+1), as in forecast.Ensemble.
// Nil without values.
func empirical(xs []float64) []float64 {
	if len(xs) == 0 {
		return nil
	}
	slices.Sort(xs)
	ps := Quantiles()
	out := make([]float64, len(ps))
	for j, p := range ps {
		rank := min(max(p*float64(len(xs)+1)-1, 0), float64(len(xs)-1))
		lo := int(rank)
		hi := min(lo+1, len(xs)-1)
		out[j] = xs[lo] + (rank-float64(lo))*(xs[hi]-xs[lo])
	}
	return out
}

// conformal returns the smallest of ascending xs that covers a further one with probability p at least, or the largest
// where there are too few to promise that. Nil without values.
func conformal(xs []float64) []float64 {
	if len(xs) == 0 {
		return nil
	}
	ps := Quantiles()
	out := make([]float64, len(ps))
	for j, p := range ps {
		rank := int(math.Ceil(p * float64(len(xs)+1)))
		out[j] = xs[min(max(rank, 1), len(xs))-1]
	}
	return out
}

// insert adds x to ascending xs; NaN is left out.
func insert(xs []float64, x float64) []float64 {
	if math.IsNaN(x) {
		return xs
	}
	at, _ := slices.BinarySearch(xs, x)
	return slices.Insert(xs, at, x)
}

// remove takes one x out of ascending xs; NaN is not in it.
func remove(xs []float64, x float64) []float64 {
	at, ok := slices.BinarySearch(xs, x)
	if !ok {
		return xs
	}
	return slices.Delete(xs, at, at+1)
}
