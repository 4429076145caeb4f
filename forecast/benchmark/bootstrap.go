package benchmark

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// draws is the number of bootstrap samples of every interval; each interval spans the middle 95 % of them.
const draws = 1000

// Interval is a 95 % bootstrap interval.
type Interval struct{ Low, High float64 }

// Contains reports whether x lies in the interval, ends included.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Pair is the losses of two methods at the same origins of one series.
type Pair struct{ Ours, Theirs []Loss }

// RatioInterval returns the interval of Ratio when origins are drawn again, both methods' together. Their windows do not
// overlap.
func (p Pair) RatioInterval(rng *rand.Rand) Interval {
	return middle(draws, func() float64 { return p.redrawn(rng) })
}

func (p Pair) redrawn(rng *rand.Rand) float64 {
	ours, theirs := make([]Loss, len(p.Ours)), make([]Loss, len(p.Ours))
	for i := range ours {
		j := rng.IntN(len(p.Ours))
		ours[i], theirs[i] = p.Ours[j], p.Theirs[j]
	}
	return Ratio(ours, theirs)
}

// GeometricInterval returns the interval of the geometric mean of the ratios of pairs, when the origins of each series
// are drawn again. The series stay the same.
func GeometricInterval(pairs []Pair, rng *rand.Rand) Interval {
	ratios := make([]float64, len(pairs))
	return middle(draws, func() float64 {
		for i, p := range pairs {
			ratios[i] = p.redrawn(rng)
		}
		return GeometricMean(ratios)
	})
}

// BlockInterval returns the interval of the mean of xs, which are in order of time and may depend on their neighbours,
// by drawing blocks of the given length (moving blocks that wrap around: Politis and Romano, A circular block-resampling
// procedure for stationary data, 1992). Both ends are NaN without values.
func BlockInterval(xs []float64, block int, rng *rand.Rand) Interval {
	if len(xs) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	block = max(1, min(block, len(xs)))
	return middle(draws, func() float64 {
		sum := 0.0
		for n := 0; n < len(xs); {
			from := rng.IntN(len(xs))
			for k := 0; k < block && n < len(xs); k++ {
				sum += xs[(from+k)%len(xs)]
				n++
			}
		}
		return sum / float64(len(xs))
	})
}

// exact returns the exact interval of a share when hits of n independent trials succeeded (Clopper and Pearson, The use of
// confidence or fiducial limits illustrated in the case of the binomial, Biometrika 1934).
func exact(hits, n float64) Interval {
	const tail = 0.025
	i := Interval{Low: 0, High: 1}
	if hits > 0 {
		i.Low = mathext.InvRegIncBeta(hits, n-hits+1, tail)
	}
	if hits < n {
		i.High = mathext.InvRegIncBeta(hits+1, n-hits, 1-tail)
	}
	return i
}

// middle returns the middle 95 % of n draws.
func middle(n int, draw func() float64) Interval {
	xs := make([]float64, 0, n)
	for range n {
		if x := draw(); !math.IsNaN(x) {
			xs = append(xs, x)
		}
	}
	if len(xs) == 0 {
		return Interval{math.NaN(), math.NaN()}
	}
	slices.Sort(xs)
	const tail = 0.025
	at := int(tail * float64(len(xs)))
	return Interval{xs[at], xs[len(xs)-1-at]}
}
