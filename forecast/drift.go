package forecast

import (
	"math"
	"slices"
)

// dampedDrift is exponential smoothing with a damped additive trend: level l, trend b,
//
//	l(t) = l(t−1) + φ·b(t−1) + α·e(t)
//	b(t) = φ·b(t−1) + α·β·e(t)
//	forecast(t+k) = l(t) + (φ + … + φ^k)·b(t)
//
// where e(t) is the error of the forecast one step ahead (Hyndman and Athanasopoulos §8.2, error-correction form of
// §8.5). A missing step has no error: a rising level follows its dying trend and then stays, a falling one stops where
// it is, so that a gap neither restarts, runs away, nor lowers anything. A lower bound below the forecast counts as
// missing, one above it raises the level and ends a fall.
type dampedDrift struct {
	alpha, beta, phi float64
	level, trend     []float64 // per step of the history; NaN before the first known value
	tuner            tuner
}

func (d *dampedDrift) name() string { return nameDrift }

// driftFitSteps is how much of the history chooses the parameters.
const driftFitSteps = 5000

// The grid of parameters is coarse on purpose: the error is flat around its minimum.
var (
	driftAlphas = []float64{0.15, 0.4, 0.75, 1}
	driftBetas  = []float64{0.02, 0.1, 0.3}
	driftPhis   = []float64{0.7, 0.9, 0.97}
)

func driftChoices() int { return len(driftAlphas) * len(driftBetas) * len(driftPhis) }

// driftChoice returns the i-th choice of parameters, without state.
func driftChoice(i int) dampedDrift {
	n, m := len(driftPhis), len(driftBetas)
	return dampedDrift{alpha: driftAlphas[i/(n*m)], beta: driftBetas[i/n%m], phi: driftPhis[i%n]}
}

// fit chooses the parameters with the smallest mean absolute error, a few steps ahead, over the tail of h, and runs them
// over all of it.
func (d *dampedDrift) fit(h *history) {
	best := math.Inf(1)
	chosen := dampedDrift{alpha: 0.75, beta: 0.02, phi: 0.7} // with too few values to tell: close to the last value
	for i := range driftChoices() {
		c := driftChoice(i)
		if loss := c.trial(h); loss < best {
			best, chosen = loss, c
		}
	}
	chosen.tuner = newTuner(h, driftChoices())
	*d = chosen
	d.run(h)
}

// run works out the state after every step of h.
func (d *dampedDrift) run(h *history) {
	d.level, d.trend = slices.Grow(d.level[:0], len(h.vals)), slices.Grow(d.trend[:0], len(h.vals))
	for i := range h.vals {
		d.step(h, i)
	}
}

// trial returns the mean absolute error of d over the last driftFitSteps of h at one and at lead steps ahead, +Inf when
// no step can be scored; missing and clipped ones cannot. It keeps no per-step state beyond a short ring.
func (d dampedDrift) trial(h *history) float64 {
	from := max(0, len(h.vals)-driftFitSteps)
	const lead = 8
	level, trend := math.NaN(), 0.0
	gain := d.gain(lead)
	var ahead [lead]float64 // ahead[i%lead] is the forecast for step i made lead steps before
	sum, n := 0.0, 0
	for i := from; i < len(h.vals); i++ {
		if v, ok := h.scorable(i); ok && i-from >= 2*lead && !math.IsNaN(ahead[i%lead]) {
			sum += math.Abs(v-level-d.phi*trend) + math.Abs(v-ahead[i%lead])
			n++
		}
		level, trend = d.next(level, trend, h.vals[i], h.lowerBound(i))
		ahead[i%lead] = level + gain*trend
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// gain returns φ + … + φ^k.
func (d *dampedDrift) gain(k int) float64 {
	sum, p := 0.0, 1.0
	for range k {
		p *= d.phi
		sum += p
	}
	return sum
}

// next is one step of the recursion.
func (d *dampedDrift) next(level, trend, v float64, atLeast bool) (float64, float64) {
	if math.IsNaN(level) {
		return v, 0
	}
	ahead, dying := level+d.phi*trend, d.phi*trend
	// A bound below the forecast proves no fall, and is worth no more than a gap.
	if math.IsNaN(v) || atLeast && v < ahead {
		return max(level, ahead), max(0, dying)
	}
	e := v - ahead
	level, trend = ahead+d.alpha*e, dying+d.alpha*d.beta*e
	if atLeast {
		trend = max(0, trend)
	}
	return level, trend
}

// step appends the state after step i.
func (d *dampedDrift) step(h *history, i int) {
	level, trend := math.NaN(), 0.0
	if n := len(d.level); n > 0 {
		level, trend = d.level[n-1], d.trend[n-1]
	}
	level, trend = d.next(level, trend, h.vals[i], h.lowerBound(i))
	d.level, d.trend = append(d.level, level), append(d.trend, trend)
}

func (d *dampedDrift) update(h *history, dropped int) {
	if dropped > 0 {
		d.level, d.trend = dropFront(d.level, dropped), dropFront(d.trend, dropped)
	}
	d.step(h, h.last())
	if i, ok := d.tuner.due(); ok {
		if c := driftChoice(i); better(c.trial(h), d.trial(h)) {
			d.alpha, d.beta, d.phi = c.alpha, c.beta, c.phi
			d.run(h)
		}
	}
}

func (d *dampedDrift) points(h *history, origin int, dst []float64) {
	at, slope := d.level[origin], d.trend[origin]
	for k := range dst {
		slope *= d.phi
		at += slope
		dst[k] = h.floor(at)
	}
}
