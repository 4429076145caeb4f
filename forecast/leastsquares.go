package forecast

import "math"

// leastSquares is a weighted linear regression that learns one observation at a time and forgets exponentially: the
// sums XᵀWX and XᵀWy are kept, and solved with a ridge when asked. Unlike the recursive form it cannot diverge when the
// regressors stop moving, and an observation costs p²/2.
type leastSquares struct {
	p      int
	gram   []float32 // lower triangle of XᵀWX, row by row; the ridge makes up for its rounding
	cross  []float64 // XᵀWy
	beta   []float64 // the coefficients last solved for; zero before
	growth float64   // weight of an observation now, relative to the first: forgetting the old is growing the new
	keep   float64   // share of the weight of the past that one observation leaves
	ridge  float64   // in observations of unit regressors
}

func newLeastSquares(p int, memory, ridge float64) leastSquares {
	return leastSquares{p: p, gram: make([]float32, p*(p+1)/2), cross: make([]float64, p), beta: make([]float64, p),
		growth: 1, keep: 1 - 1/memory, ridge: ridge}
}

// growthMax is when the sums are scaled back.
const growthMax = 1e4

// add learns that x gave y, with weight w. Neither may be NaN.
func (l *leastSquares) add(x []float64, y, w float64) {
	if l.growth /= l.keep; l.growth > growthMax {
		for i := range l.gram {
			l.gram[i] /= float32(l.growth)
		}
		for i := range l.cross {
			l.cross[i] /= l.growth
		}
		l.growth = 1
	}
	w *= l.growth
	at := 0
	for i, xi := range x {
		wx := w * xi
		row := l.gram[at : at+i+1]
		for j := range row {
			row[j] += float32(wx * x[j])
		}
		l.cross[i] += wx * y
		at += i + 1
	}
}

// solve works out beta by Cholesky decomposition of the sums plus the ridge. O(p³).
func (l *leastSquares) solve(scratch []float64) {
	p, c := l.p, scratch[:len(l.gram)]
	ridge := l.ridge * l.growth
	for i := range p {
		row := c[i*(i+1)/2:]
		for j := range i + 1 {
			sum := float64(l.gram[i*(i+1)/2+j])
			if i == j {
				sum += ridge
			}
			other := c[j*(j+1)/2:]
			for k := range j {
				sum -= row[k] * other[k]
			}
			if i == j {
				row[i] = math.Sqrt(max(sum, 1e-12*ridge))
			} else {
				row[j] = sum / other[j]
			}
		}
	}
	for i := range p { // forward
		row, sum := c[i*(i+1)/2:], l.cross[i]
		for k := range i {
			sum -= row[k] * l.beta[k]
		}
		l.beta[i] = sum / row[i]
	}
	for i := p - 1; i >= 0; i-- { // backward
		sum := l.beta[i]
		for k := i + 1; k < p; k++ {
			sum -= c[k*(k+1)/2+i] * l.beta[k]
		}
		l.beta[i] = sum / c[i*(i+1)/2+i]
	}
}

// dot returns the fitted value at x.
func (l *leastSquares) dot(x []float64) float64 {
	sum := 0.0
	for i, b := range l.beta {
		sum += b * x[i]
	}
	return sum
}
