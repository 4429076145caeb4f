package benchmark

import (
	"math"

	"forewarm/forecast"
)

// Prediction is what a method says at one origin: Steps[k-1][j] is the j-th quantile of step k, Peaks[h][j] that of the
// maximum over steps 1..h. A nil list of quantiles was not given.
type Prediction struct {
	Steps [][]float64
	Peaks map[int][]float64
}

// Predictions are those of one method, by origin.
type Predictions map[int]Prediction

// Loss is the score of one origin. Pinball is 2·Σ pinball over everything scored, averaged over quantiles; Abs is Σ|y|.
type Loss struct {
	Pinball float64
	Abs     float64
	Scored  int
	Failed  int // scored, with quantiles that were missing, not finite or crossing
}

// StepLoss scores steps 1..horizon at origin. Unknown values are not scored.
//
// A list of quantiles that is missing, of the wrong length, not finite or crossing has failed: it is charged, quantile by
// quantile, the worse of having said zero and having said twice the largest value known until the origin. That is never
// a better score than saying anything reasonable, so nobody gains by abstaining.
func (c Case) StepLoss(p Prediction, origin, horizon int) Loss {
	var l Loss
	for k := 1; k <= horizon; k++ {
		var qs []float64
		if k <= len(p.Steps) {
			qs = p.Steps[k-1]
		}
		c.charge(&l, 0, qs, origin, c.Actual(origin+k))
	}
	return l
}

// PeakLoss scores the maximum over steps 1..horizon at origin, by the same rule, with the quantiles from p on.
func (c Case) PeakLoss(p Prediction, origin, horizon int, from float64) Loss {
	var l Loss
	c.charge(&l, from, p.Peaks[horizon], origin, c.Peak(origin, horizon))
	return l
}

// charge adds the loss of qs when y happened, over the quantiles from p = from on.
func (c Case) charge(l *Loss, from float64, qs []float64, origin int, y float64) {
	if math.IsNaN(y) {
		return
	}
	ps := Quantiles()
	l.Scored++
	l.Abs += math.Abs(y)
	failed := !Valid(qs, len(ps))
	high := 0.0
	if failed {
		l.Failed++
		high = 2 * c.largest(origin)
	}
	sum, n := 0.0, 0.0
	for j, p := range ps {
		switch {
		case p < from:
			continue
		case failed:
			sum += max(forecast.Pinball(p, 0, y), forecast.Pinball(p, high, y))
		default:
			sum += forecast.Pinball(p, qs[j], y)
		}
		n++
	}
	l.Pinball += 2 * sum / n
}

// largest returns the largest value known until origin, 0 when none is.
func (c Case) largest(origin int) float64 {
	most := 0.0
	for _, v := range c.Series.Values[:origin+1] {
		if v > most {
			most = v
		}
	}
	return most
}

// crossTolerance is how far, relative to their size, quantiles may cross by rounding.
const crossTolerance = 1e-9

// Valid reports whether qs are n finite quantiles that do not cross.
func Valid(qs []float64, n int) bool {
	if len(qs) != n {
		return false
	}
	for j, q := range qs {
		if math.IsNaN(q) || math.IsInf(q, 0) {
			return false
		}
		if j > 0 && qs[j-1] > q+crossTolerance*math.Abs(q) {
			return false
		}
	}
	return true
}

// Sum adds up losses of origins.
func Sum(losses []Loss) Loss {
	var s Loss
	for _, l := range losses {
		s.Pinball += l.Pinball
		s.Abs += l.Abs
		s.Scored += l.Scored
		s.Failed += l.Failed
	}
	return s
}

// WQL is the weighted quantile loss, 2·Σ pinball ÷ Σ|y| averaged over quantiles: 0 is perfect, and it has no unit. NaN
// when all actual values were zero or unknown.
func (l Loss) WQL() float64 {
	if l.Abs == 0 {
		return math.NaN()
	}
	return l.Pinball / l.Abs
}

// wqlFloor is the loss, as a share of the mean demand, below which two methods are equally perfect.
const wqlFloor = 1e-6

// Ratio returns a's loss ÷ b's over the same origins. NaN when nothing could be scored.
func Ratio(a, b []Loss) float64 {
	return (Sum(a).WQL() + wqlFloor) / (Sum(b).WQL() + wqlFloor)
}

// GeometricMean returns exp of the mean logarithm; NaN of nothing.
func GeometricMean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(xs)))
}
