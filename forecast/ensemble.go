package forecast

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Ensemble is a set of equally likely sample paths of one quantity: Paths[i][k] is path i over
// [Start+k·Step, Start+(k+1)·Step), in the unit of the Series it was made from.
//
// Invariants: every path has the same length; every value is finite and, for a quantity that was never negative, not
// negative. Path i of two Ensembles that were sampled with the same Blocks belongs to the same possible future, so
// quantities may be combined path by path, never quantile by quantile.
type Ensemble struct {
	Start time.Time
	Step  time.Duration
	Paths [][]float64
}

// Steps returns the number of steps of every path, 0 without paths.
func (e Ensemble) Steps() int {
	if len(e.Paths) == 0 {
		return 0
	}
	return len(e.Paths[0])
}

// Validate reports every violated invariant at once, joined, or nil: Step positive, at least one path of at least one
// step, all of one length, every value finite. O(paths·steps).
func (e Ensemble) Validate() error {
	var errs []error
	if e.Step <= 0 {
		errs = append(errs, fmt.Errorf("ensemble step is %v, must be positive", e.Step))
	}
	if e.Steps() == 0 {
		errs = append(errs, fmt.Errorf("ensemble has %d paths of %d steps, must have at least one of each",
			len(e.Paths), e.Steps()))
	}
	bad := 0
	report := func(err error) {
		if bad++; bad <= problemsMax {
			errs = append(errs, err)
		}
	}
	for i, p := range e.Paths {
		if len(p) != e.Steps() {
			report(fmt.Errorf("ensemble path %d has %d steps, must have %d as path 0", i, len(p), e.Steps()))
		}
		for k, v := range p {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				report(fmt.Errorf("ensemble path %d step %d is %v, must be finite", i, k, v))
			}
		}
	}
	if bad > problemsMax {
		errs = append(errs, fmt.Errorf("and %d more bad values", bad-problemsMax))
	}
	return errors.Join(errs...)
}

// Quantile returns the p-quantile over paths of step k, 0 ≤ k < Steps(). It panics when p is outside 0..1, k outside the
// steps, or there are no paths. See quantile of sorted values for the definition. O(paths·log paths).
func (e Ensemble) Quantile(p float64, k int) float64 {
	return quantileSorted(p, e.sortedStep(k))
}

// PeakQuantile returns the p-quantile over paths of the maximum over steps [from, to). This is what a window must be
// sized on: the maximum of per-step quantiles is broken by most paths when steps vary independently. It panics when p is
// outside 0..1, the window is empty or outside the steps, or there are no paths. O(paths·(to−from)).
func (e Ensemble) PeakQuantile(p float64, from, to int) float64 {
	return quantileSorted(p, e.sortedPeaks(from, to))
}

// sortedStep returns the values of step k over all paths, ascending.
func (e Ensemble) sortedStep(k int) []float64 {
	if k < 0 || k >= e.Steps() {
		panic(fmt.Sprintf("forecast: step %d outside the ensemble's %d steps", k, e.Steps()))
	}
	xs := make([]float64, len(e.Paths))
	for i, p := range e.Paths {
		xs[i] = p[k]
	}
	slices.Sort(xs)
	return xs
}

// sortedPeaks returns the maximum over steps [from, to) of every path, ascending.
func (e Ensemble) sortedPeaks(from, to int) []float64 {
	if from < 0 || to > e.Steps() || from >= to {
		panic(fmt.Sprintf("forecast: window [%d,%d) is empty or outside the ensemble's %d steps", from, to, e.Steps()))
	}
	xs := make([]float64, len(e.Paths))
	for i, p := range e.Paths {
		xs[i] = slices.Max(p[from:to])
	}
	slices.Sort(xs)
	return xs
}

// quantileSorted returns the p-quantile of ascending xs by linear interpolation at rank p·(n+1), held at the smallest
// and the largest value. That definition (number 6 of Hyndman and Fan, Sample quantiles in statistical packages, The
// American Statistician 1996) covers a further draw of the same kind with probability p exactly, where the more common
// number 7 covers too little with few paths. It is monotone in p. It panics when p is outside 0..1 or xs is empty.
func quantileSorted(p float64, xs []float64) float64 {
	if !(p >= 0 && p <= 1) {
		panic(fmt.Sprintf("forecast: quantile %v outside 0..1", p))
	}
	if len(xs) == 0 {
		panic("forecast: quantile of nothing")
	}
	rank := p*float64(len(xs)+1) - 1
	lo := int(math.Floor(rank))
	if lo < 0 {
		return xs[0]
	}
	if lo >= len(xs)-1 {
		return xs[len(xs)-1]
	}
	a, b := xs[lo], xs[lo+1]
	// The clamp keeps quantiles from crossing by a rounding error.
	return min(b, max(a, a+(rank-float64(lo))*(b-a)))
}
