package forecast

import "math"

// quantileRegression forecasts each knot directly: the change from now to then is linear in what is known now (the last
// changes, the distance to several averages, what the shapes of the day and week do until then, and what the same
// stretch did yesterday and a week ago). There is a regression for each of a low, the middle and a high quantile
// (Koenker and Bassett, Regression quantiles, 1978), learned online by iteratively reweighted least squares with a ridge
// towards "no change".
type quantileRegression struct {
	fits    [][len(regressionLevels)]leastSquares // per knot and the peak
	scratch []float64
}

// regressionLevels are the quantiles regressed for.
var regressionLevels = [...]float64{0.1, 0.5, 0.9}

const (
	regressors      = 15
	regressionRidge = 6
	regressionSolve = 8
	// regressionWeightMax bounds the weight of a small error, in usual errors: a regression on absolute errors would
	// follow a single point that it meets exactly.
	regressionWeightMax = 4
)

func newQuantileRegression(knots int, memory float64) *quantileRegression {
	q := &quantileRegression{fits: make([][len(regressionLevels)]leastSquares, knots+1),
		scratch: make([]float64, regressors*(regressors+1)/2)}
	for j := range q.fits {
		for t := range q.fits[j] {
			q.fits[j][t] = newLeastSquares(regressors, memory, regressionRidge)
		}
	}
	return q
}

// learn takes in that the regressors x of knot j were followed by a change y, in usual steps, whose usual size is size.
func (q *quantileRegression) learn(j int, x []float64, y, size, weight float64, solve bool) {
	for t, p := range regressionLevels {
		f := &q.fits[j][t]
		e := y - f.dot(x)
		w := 2 * p
		if e < 0 {
			w = 2 * (1 - p)
		}
		w *= weight * min(regressionWeightMax, size/max(math.Abs(e), 1e-12))
		f.add(x, y, w)
		if solve {
			f.solve(q.scratch)
		}
	}
}

// sharedRegressors fills the regressors that all knots share; size is the usual step.
func (m *mixture) sharedRegressors(x []float64, size float64) {
	z := m.past.level
	x[0] = 1
	x[1] = (z - m.past.carried(m.past.n-2, 3)) / size
	x[2] = (z - m.past.carried(m.past.n-3, 3)) / size
	for i, a := range m.averages {
		x[3+i] = (z - a) / size
	}
	x[7] = (z - m.seasons.level - m.seasons.shape(m.here)) / size
	for i := range 8 {
		if math.IsNaN(x[i]) {
			x[i] = 0
		}
	}
}

// aheadRegressors fills those of the step k ahead, at a place.
func (m *mixture) aheadRegressors(x []float64, k int, at place, size float64) {
	last := m.past.n - 1
	s := m.seasons
	x[0] = (s.day.at(at.day) - s.day.at(m.here.day)) / size
	x[1] = (s.broad.at(at.broad) - s.broad.at(m.here.broad)) / size
	x[2] = (s.week.at(at.week) - s.week.at(m.here.week)) / size
	x[3] = (m.past.level - s.level - s.day.at(at.day)) / size
	x[4] = (m.past.level - s.level - s.week.at(at.week)) / size
	for i, days := range [2]int{1, 7} {
		then := m.past.clock.sameTime(last, days)
		d := (m.past.smooth(m.past.clock.sameTime(last+k, days)) - m.past.smooth(then)) / size
		if math.IsNaN(d) || k > last-then {
			d = 0
		}
		x[5+i] = d
	}
}
