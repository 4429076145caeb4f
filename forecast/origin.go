package forecast

import "math"

// origin is a forecast of the mixture as it was made, kept until its horizon has been seen. Bands are the knots and, last,
// the peak over the horizon.
type origin struct {
	at       int       // the last step known then; −1 marks an empty one
	level    float64   // the value then
	size     float64   // the usual step then
	jump     []bool    // per band: the day before says that demand jumps until then
	centres  []float32 // bands × candidates
	replayed []float32 // bands × grid: the quantiles that stand for the centre of the replay
	x        []float32 // bands × regressors
	spread   []float32 // bands: the usual error
	mood     []float32 // bands × moods: regressors of the spread
	raw      []float32 // bands × grid: the quantiles of the aggregation
	final    []float32 // bands × grid: with the conformal correction, ascending
}

func newOrigin(bands, candidates int) origin {
	n := bands * (candidates + regressors + 1 + moods + 3*gridLen)
	flat := make([]float32, n)
	cut := func(n int) []float32 {
		part := flat[:n:n]
		flat = flat[n:]
		return part
	}
	return origin{at: -1, jump: make([]bool, bands), centres: cut(bands * candidates), replayed: cut(bands * gridLen), x: cut(bands * regressors), spread: cut(bands),
		mood: cut(bands * moods), raw: cut(bands * gridLen), final: cut(bands * gridLen)}
}

// grid is the quantiles that the mixture forecasts of every band; what lies between is interpolated.
var grid = [...]float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99}

const (
	gridLen    = len(grid)
	gridMedian = 4
)

// moods are the regressors of the spread.
const moods = 7

// observe works out the forecast made at the last step seen into m.now.
func (m *mixture) observe() {
	o := &m.now
	o.at, o.level = m.past.n-1, m.past.level
	o.size = m.steady.usual()
	bands, cand := len(m.bands), m.candidates
	m.lookAhead()
	nan := float32(math.NaN())
	for i := range o.centres {
		o.centres[i] = nan
	}
	buf := m.buf[:len(m.knots)]
	for e, x := range m.experts {
		x.ahead(m, buf)
		peak := math.Inf(-1)
		for j, z := range buf {
			z = m.sane(z)
			o.centres[j*cand+e] = float32(z)
			peak = max(peak, z)
		}
		o.centres[(bands-1)*cand+e] = float32(peak)
	}
	o.centres[(bands-1)*cand+len(m.experts)] = float32(m.sane(o.level + m.peaks.ahead(m)))
	m.regress(o)
	m.seeJumps(o)
	for j := range bands {
		mood := o.mood[j*moods : (j+1)*moods]
		m.steady.moods(m, j, mood)
		mood[moods-1] = float32(m.restless[j].mood(m.restless[j].bin(m.here)))
		o.spread[j] = float32(m.band(o, j).spread(mood))
	}
	m.replayErrors(o)
	for j := range bands {
		m.aggregate(o, j)
	}
}

// lookAhead works out where the knots after the last step lie in the seasons.
func (m *mixture) lookAhead() {
	last := m.past.n - 1
	m.here = m.seasons.place(&m.past.clock, last)
	for j, k := range m.knots {
		m.places[j] = m.seasons.place(&m.past.clock, last+k)
	}
}

// sane bounds a forecast to what demand could be believed to do.
func (m *mixture) sane(z float64) float64 { return m.reach().hold(z) }

func (m *mixture) reach() reach {
	return reach{low: m.past.low - saneMargin, high: m.past.high + saneMargin}
}

// saneMargin is how far, on the scale of squash, a forecast may leave the range of all values seen: about twice.
const saneMargin = 0.7

// regress fills the regressors of every band, and the centres that the quantile regression makes of them.
func (m *mixture) regress(o *origin) {
	var x, peak [regressors]float64
	m.sharedRegressors(x[:], o.size)
	copy(peak[:], x[:])
	for j, k := range m.knots {
		m.aheadRegressors(x[8:], k, m.places[j], o.size)
		m.regressBand(o, j, x[:])
		for i := 8; i < regressors; i++ {
			if j == 0 {
				peak[i] = x[i]
			}
			peak[i] = max(peak[i], x[i])
		}
	}
	m.regressBand(o, len(m.bands)-1, peak[:])
}

func (m *mixture) regressBand(o *origin, j int, x []float64) {
	for i, v := range x {
		o.x[j*regressors+i] = float32(clamp(v, regressorMax))
	}
	at := j*m.candidates + len(m.experts) + 1
	for t := range regressionLevels {
		o.centres[at+t] = float32(m.sane(o.level + m.quantreg.fits[j][t].dot(x)*o.size))
	}
}

// regressorMax bounds a regressor, in usual steps: one burst must not decide a regression.
const regressorMax = 50

// aggregate works out the quantiles of band j.
func (m *mixture) aggregate(o *origin, j int) {
	b := m.band(o, j)
	spread := float64(o.spread[j])
	raw, final := o.raw[j*gridLen:(j+1)*gridLen], o.final[j*gridLen:(j+1)*gridLen]
	centres := o.centres[j*m.candidates : (j+1)*m.candidates]
	replayed := o.replayed[j*gridLen : (j+1)*gridLen]
	lean := b.usual * m.restless[j].shift(m.restless[j].bin(m.here))
	for p, level := range grid {
		take(p, centres, replayed)
		q := b.mix(p, centres, spread, m.reach())
		if o.jump[j] {
			q = b.envelop(level, q, centres)
		}
		q += lean
		raw[p] = float32(q)
		final[p] = float32(m.sane(q + spread*b.correction(p)))
	}
	take(gridMedian, centres, replayed)
	ascend(final)
}

// ascend sorts quantiles that cross, from the median outwards.
func ascend(qs []float32) {
	for p := gridMedian + 1; p < len(qs); p++ {
		qs[p] = max(qs[p], qs[p-1])
	}
	for p := gridMedian - 1; p >= 0; p-- {
		qs[p] = min(qs[p], qs[p+1])
	}
}
