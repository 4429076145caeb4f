package forecast

import "math"

// autoregression forecasts what is left when the shape of the day and week (see seasons) is taken off, by its own last
// steps:
//
//	x(t) = z(t) − shape(t)
//	Δx(t+1) = c + Σ a_i·Δx(t−i) + b·(x(t) − level(t))
//
// with b ≤ 0 in effect a return to the level: an ARIMA(p,1,0) with error correction, which leaves it to the data whether
// there is a unit root. Coefficients are those of a robust regression that forgets.
type autoregression struct {
	fit     leastSquares
	recent  [arLags + 2]float64 // x(t), x(t−1), …
	known   int                 // how many of them
	size    float64             // mean absolute error one step ahead
	scratch [(arLags + 2) * (arLags + 3) / 2]float64
}

const (
	arLags       = 6
	arRidge      = 4
	arSolveEvery = 8
)

func newAutoregression(memory float64) *autoregression {
	return &autoregression{fit: newLeastSquares(arLags+2, memory, arRidge)}
}

func (a *autoregression) name() string { return nameAutoregression }

// regressors fills x for the state in recent.
func (a *autoregression) regressors(recent []float64, level, size float64, x []float64) {
	x[0] = 1
	for i := range arLags {
		x[1+i] = (recent[i] - recent[i+1]) / size
	}
	x[arLags+1] = (recent[0] - level) / size
}

func (a *autoregression) learn(m *mixture) {
	z := m.past.carried(m.past.n-1, 0)
	if math.IsNaN(z) {
		return // the step before stands in: a gap is no change
	}
	now := z - m.seasons.shape(m.here)
	if a.known == len(a.recent) {
		var x [arLags + 2]float64
		size := max(a.size, 1e-9)
		a.regressors(a.recent[:], m.seasons.level, size, x[:])
		y := (now - a.recent[0]) / size
		e := math.Abs(y - a.fit.dot(x[:]))
		if _, real := m.past.measured(m.past.n - 1); real {
			a.fit.add(x[:], y, 1/max(1, e))
			if m.past.n%arSolveEvery == 0 {
				a.fit.solve(a.scratch[:])
			}
		}
	}
	if a.known > 0 {
		a.size += max(0.002, 1/float64(a.known)) * (math.Abs(now-a.recent[0]) - a.size)
	}
	copy(a.recent[1:], a.recent[:len(a.recent)-1])
	a.recent[0] = now
	a.known = min(a.known+1, len(a.recent))
}

func (a *autoregression) ahead(m *mixture, dst []float64) {
	if a.known < len(a.recent) {
		for j := range dst {
			dst[j] = math.NaN()
		}
		return
	}
	recent := a.recent
	var x [arLags + 2]float64
	size := max(a.size, 1e-9)
	for j, k := 0, 1; k <= m.horizon; k++ {
		a.regressors(recent[:], m.seasons.level, size, x[:])
		next := recent[0] + clamp(a.fit.dot(x[:]), arStepMax)*size
		copy(recent[1:], recent[:len(recent)-1])
		recent[0] = next
		if k == m.knots[j] {
			dst[j] = next + m.seasons.shape(m.places[j])
			j++
		}
	}
}

// arStepMax bounds a forecast step, in usual steps, so that coefficients learned from few values cannot explode.
const arStepMax = 20
