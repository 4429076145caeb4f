package forecast

import (
	"math"
	"time"
)

// mixture is the engine: experts, their aggregation, the conformal correction, and the record of how all that did.
//
// One step goes: what was forecast for it is scored and taught (mature); it joins the past; seasons and experts learn it;
// the next forecast is made (observe). What observe needs is kept per origin until the horizon has been seen.
type mixture struct {
	horizon int
	seed    uint64
	stride  int // steps between origins that are kept for scoring
	knots   []int
	past    *past
	seasons *seasons
	steady  *steady
	peaks   peaks
	experts []expert
	week    *lagged // one of them
	// averages are exponential means of the last 3, 10, 30 and 100 steps.
	averages   [4]float64
	quantreg   *quantileRegression
	mute       []bool     // per candidate: has no say
	candidates int        // experts, the direct peak, the regressions and the replay
	bands      []band     // for each knot and the peak
	restless   []restless // the same
	jumps      []*band    // the same, for origins before a jump; nil before the first
	jumpy      float64    // share of origins before a jump
	sought     bool       // this origin is looked at because it is one
	record     record

	now     origin   // the forecast made at the last step
	open    []origin // ring of those that have not matured
	errors  templates
	replay  replay
	here    place   // of the last step
	places  []place // of the knots after the last step
	buf     []float64
	history time.Duration
}

var averageSteps = [4]float64{3, 10, 30, 100}

const (
	knotsMax = 8
	openMax  = 16 // forecasts kept until they have matured
	// Horizons of more than openLong steps are for reports: few series, and too few origins to lose any.
	openLong    = 100
	openMaxLong = 120
	fitOrigins  = 2400 // origins that a fit scores
	fitJumps    = 600  // and origins before a jump on top of them
)

// newKnots returns the steps ahead that are forecast themselves: all up to eight, else a geometric row.
func newKnots(horizon int) []int {
	var knots []int
	if horizon <= knotsMax {
		for k := range horizon {
			knots = append(knots, k+1)
		}
		return knots
	}
	for i := range knotsMax {
		k := int(math.Round(math.Pow(float64(horizon), float64(i)/(knotsMax-1))))
		if n := len(knots); n > 0 {
			k = max(k, knots[n-1]+1)
		}
		knots = append(knots, k)
	}
	knots[knotsMax-1] = horizon
	return knots
}

// newMixture returns a mixture that has seen nothing, for a series like s.
func newMixture(s Series, horizon int, keep time.Duration, only string) *mixture {
	m := &mixture{horizon: horizon, knots: newKnots(horizon), history: keep}
	m.stride = (horizon + openMax - 1) / openMax
	if horizon > openLong {
		m.stride = (horizon + openMaxLong - 1) / openMaxLong
	}
	m.past = newPast(s, keep, newSquash(meanAbsolute(s)))
	m.seasons, m.steady = newSeasons(s.Step), newSteady(s.Step)
	steps := func(span time.Duration) float64 { return float64(span) / float64(s.Step) }
	m.quantreg = newQuantileRegression(len(m.knots), min(5000, max(1500, steps(10*day))))
	m.week = newLagged(nameWeekLevel, seasonWeek, 2, false)
	m.experts = []expert{
		hold{},
		newTrend(),
		newLagged(nameSeasonal, seasonWeekday, 1, true),
		newLagged(nameDayLevel, seasonWeekday, 3, false),
		m.week,
		newProfiled(len(m.knots)),
		newHoltWinters(m.seasons),
		newAutoregression(min(8000, max(1000, steps(4*day)))),
		newHarmonic(len(m.knots), max(300, steps(10*day)/float64(m.past.per))),
	}
	m.restrict(only)
	m.candidates = len(m.mute)
	for range len(m.knots) + 1 {
		m.bands = append(m.bands, newBand(m.candidates, m.mute))
		m.restless = append(m.restless, newRestless(minutesIn(s.Step)))
	}
	m.bands[len(m.bands)-1].holds = true
	m.jumps = make([]*band, len(m.bands))
	m.places, m.buf = make([]place, len(m.knots)), make([]float64, len(m.knots))
	m.now = newOrigin(len(m.bands), m.candidates)
	m.open = make([]origin, horizon/m.stride+2)
	for i := range m.open {
		m.open[i] = newOrigin(len(m.bands), m.candidates)
	}
	m.errors = newTemplates(m)
	m.replay = newReplay(len(m.bands))
	return m
}

// expertNames are the experts that New makes on their own.
var expertNames = []string{nameDayLevel, nameWeekLevel, nameProfile, nameHoltWinters, nameAutoregression, nameHarmonic, nameQuantileRegression}

// restrict leaves only the named expert awake; the last value and the seasonal naive stay, without a say, because the
// record compares with them.
func (m *mixture) restrict(only string) {
	m.mute = make([]bool, len(m.experts)+1+len(regressionLevels)+1)
	if only == "" {
		return
	}
	for c := range m.mute {
		m.mute[c] = m.candidateName(c) != only
	}
}

// fit takes in a history: all of it passes through the seasons and the experts, and up to fitOrigins forecasts are made
// and scored on the way, most of them recent.
func (m *mixture) fit(s Series) {
	zs, places := make([]float64, s.Len()), make([]place, s.Len())
	clock := m.past.clock
	for i, v := range s.Values {
		zs[i], places[i] = m.past.squash.in(v), m.seasons.place(&clock, i)
		if s.lowerBound(i) {
			zs[i] = math.NaN() // a clipped value chooses nothing
		}
	}
	for _, x := range m.experts {
		if h, ok := x.(*holtWinters); ok {
			h.tune(places, zs, min(m.horizon, 20))
		}
	}
	recent := max(0, s.Len()-fitOrigins*m.stride*5/8)
	sparse := max(1, recent/(fitOrigins*3/8*m.stride)+1)
	jumps := 0
	for i, v := range s.Values {
		look := i >= recent || i/m.stride%sparse == 0 || i == s.Len()-1
		if !look && jumps < fitJumps && m.jumped(i) {
			look, m.sought = true, true
			jumps++
		}
		m.step(v, s.lowerBound(i), look)
		m.sought = false
	}
}

// step takes in the next value; forecast says whether to make a forecast after it.
func (m *mixture) step(v float64, atLeast, forecast bool) {
	m.past.append(v, atLeast, m.believed(atLeast))
	i := m.past.n - 1
	m.here = m.seasons.place(&m.past.clock, i)
	m.mature(i)
	if z := m.past.at(i); !math.IsNaN(z) {
		m.seasons.learn(m.here, z)
		for x, steps := range averageSteps {
			m.averages[x] += max(1/steps, 1/float64(m.seasons.learned)) * (z - m.averages[x])
		}
	}
	m.steady.learn(m)
	for _, x := range m.experts {
		x.learn(m)
	}
	if !forecast || math.IsNaN(m.past.level) {
		m.now.at = -1
		return
	}
	m.observe()
	if i%m.stride == 0 {
		o := &m.open[i/m.stride%len(m.open)]
		o.copyFrom(&m.now)
	}
	m.errors.keep(m)
}

// believed returns what a clipped sample is at least taken for: the forecast for it when one was just made, else the level
// before it or what the shape of the day says.
func (m *mixture) believed(atLeast bool) float64 {
	switch {
	case !atLeast || m.past.n == 0 || math.IsNaN(m.past.level):
		return math.Inf(-1)
	case m.now.at == m.past.n-1:
		return float64(m.now.final[gridMedian])
	}
	at := m.seasons.place(&m.past.clock, m.past.n)
	return max(m.past.level, m.seasons.level+m.seasons.shape(at))
}

// mature scores and teaches the forecasts whose step, or whole horizon, has just been seen.
func (m *mixture) mature(i int) {
	z, real := m.past.measured(i)
	for j, k := range m.knots {
		if o := m.origin(i - k); o != nil && real {
			m.teach(o, j, z)
		}
	}
	o := m.origin(i - m.horizon)
	if o == nil {
		return
	}
	if peak, ok := m.past.highest(o.at+1, i); ok {
		m.peaks.learn(m, o.at, peak-o.level)
		m.teach(o, len(m.bands)-1, peak)
		m.record.add(m, o, peak)
	}
}

func (m *mixture) teach(o *origin, j int, z float64) {
	loss := m.cost(z)
	b := m.band(o, j)
	if b.usual == 0 {
		b.usual = math.Abs(z - o.level)
		if o.jump[j] {
			b.usual = m.bands[j].usual
		}
	}
	var x [regressors]float64
	for i := range x {
		x[i] = float64(o.x[j*regressors+i])
	}
	m.quantreg.learn(j, x[:], clamp((z-o.level)/o.size, regressorMax), max(b.usual/o.size, 1e-3), loss, b.seen%regressionSolve == 0)
	if r := &m.restless[j]; b.usual > 0 {
		r.learn(r.bin(m.seasons.place(&m.past.clock, o.at)), (z-float64(o.final[j*gridLen+gridMedian]))/b.usual)
	}
	b.learn(o, j, z, m.reach())
}

// cost is what an error at z costs in the caller's unit, relative to one at the mean: the slope of squash.
func (m *mixture) cost(z float64) float64 {
	return min(5, max(0.1, math.Exp(math.Abs(z))*squashShare/(1+squashShare)))
}

// origin returns the kept forecast made at step i; nil when there is none.
func (m *mixture) origin(i int) *origin {
	if i < 0 || i%m.stride != 0 {
		return nil
	}
	if o := &m.open[i/m.stride%len(m.open)]; o.at == i {
		return o
	}
	return nil
}

func (o *origin) copyFrom(from *origin) {
	o.at, o.level, o.size = from.at, from.level, from.size
	copy(o.jump, from.jump)
	copy(o.centres, from.centres)
	copy(o.replayed, from.replayed)
	copy(o.x, from.x)
	copy(o.spread, from.spread)
	copy(o.mood, from.mood)
	copy(o.raw, from.raw)
	copy(o.final, from.final)
}
