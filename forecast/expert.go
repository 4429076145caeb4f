package forecast

import (
	"math"
	"time"
)

// expert is one way to see the future of a mixture's series, on the scale of squash. It sees every step once, in order,
// and keeps what it needs: nothing is refitted.
type expert interface {
	name() string
	// learn takes in the step that was just appended to the past.
	learn(m *mixture)
	// ahead fills dst with the centre of its forecast at each of m.knots, made after the last step; NaN where it has none.
	ahead(m *mixture, dst []float64)
}

// hold is the last value, carried through gaps.
type hold struct{}

func (hold) name() string   { return nameLast }
func (hold) learn(*mixture) {}

func (hold) ahead(m *mixture, dst []float64) {
	for j := range dst {
		dst[j] = m.past.level
	}
}

// trend is damped exponential smoothing (see dampedDrift) as a bank: every choice of parameters runs, and the one whose
// errors have lately been smallest speaks.
type trend struct {
	runs []trendRun
	best int
}

type trendRun struct {
	alpha, beta, phi float64
	gain             float64 // φ + … + φ^trendLead
	level, slope     float64
	ahead            [trendLead]float64 // ahead[i%trendLead] is the forecast for step i made trendLead steps before
	loss             float64
}

const (
	trendLead   = 8
	trendMemory = 1000.0 // steps over which losses are remembered
)

func newTrend() *trend {
	t := &trend{}
	for _, alpha := range []float64{0.1, 0.25, 0.5, 0.75, 1} {
		for _, beta := range []float64{0, 0.05, 0.25} {
			for _, phi := range []float64{0.8, 0.97} {
				if beta == 0 && phi != 0.8 {
					continue // without a slope there is nothing to damp
				}
				r := trendRun{alpha: alpha, beta: beta, phi: phi, gain: gain(phi, trendLead), level: math.NaN()}
				for i := range r.ahead {
					r.ahead[i] = math.NaN()
				}
				t.runs = append(t.runs, r)
			}
		}
	}
	return t
}

func (t *trend) name() string { return nameDrift }

func (t *trend) learn(m *mixture) {
	i := m.past.n - 1
	z, real := m.past.measured(i)
	least := math.Inf(1)
	for x := range t.runs {
		r := &t.runs[x]
		if real && !math.IsNaN(r.level) && !math.IsNaN(r.ahead[i%trendLead]) {
			e := math.Abs(z-r.level-r.phi*r.slope) + math.Abs(z-r.ahead[i%trendLead])
			r.loss += (e - r.loss) / trendMemory
		}
		r.step(z)
		r.ahead[i%trendLead] = r.level + r.slope*r.gain
		if r.loss < least {
			least, t.best = r.loss, x
		}
	}
}

// step is one step of the recursion. A gap lets a rise die away and ends a fall.
func (r *trendRun) step(z float64) {
	switch {
	case math.IsNaN(r.level):
		r.level = z
	case math.IsNaN(z):
		r.level, r.slope = max(r.level, r.level+r.phi*r.slope), max(0, r.phi*r.slope)
	default:
		ahead, dying := r.level+r.phi*r.slope, r.phi*r.slope
		e := z - ahead
		r.level, r.slope = ahead+r.alpha*e, dying+r.alpha*r.beta*e
	}
}

// gain returns φ + … + φ^k.
func gain(phi float64, k int) float64 { return phi * (1 - math.Pow(phi, float64(k))) / (1 - phi) }

func (t *trend) ahead(m *mixture, dst []float64) {
	r := &t.runs[t.best]
	for j, k := range m.knots {
		dst[j] = r.level + r.slope*gain(r.phi, k)
	}
}

// lagged is the seasonal naive forecast: the mean of what earlier days did at the same local time (of three the median: an
// outage of one day is none of the next), moved to the level of now unless plain.
type lagged struct {
	label string
	lags  [7][]int // per weekday of the step forecast: days back, in order of preference
	days  int      // how many of them are averaged, at most 3
	plain bool
}

func newLagged(label string, rule seasonRule, days int, plain bool) *lagged {
	l := &lagged{label: label, days: days, plain: plain}
	for d := range l.lags {
		l.lags[d] = seasonLags(rule, time.Weekday(d))
	}
	if rule == seasonWeek {
		for d := range l.lags {
			l.lags[d] = l.lags[d][:seasonDaysMax/7] // another day of the week is not what this one claims to know
		}
	}
	return l
}

func (l *lagged) name() string   { return l.label }
func (l *lagged) learn(*mixture) {}

// reference returns the value for the local time of step i from steps up to limit; NaN when no earlier day is known.
func (l *lagged) reference(m *mixture, i, limit int) float64 {
	weekday, _ := m.past.clock.local(i)
	var known [3]float64
	n := 0
	for _, back := range l.lags[weekday] {
		r := m.past.clock.sameTime(i, back)
		if r < 0 || r > limit {
			continue
		}
		if z := m.past.at(r); !math.IsNaN(z) {
			known[n] = z
			if n++; n == l.days {
				break
			}
		}
	}
	switch n {
	case 0:
		return math.NaN()
	case 1:
		return known[0]
	case 2:
		return (known[0] + known[1]) / 2
	}
	return max(min(known[0], known[1]), min(max(known[0], known[1]), known[2]))
}

// laggedLevel is the number of steps that make the level.
const laggedLevel = 3

func (l *lagged) ahead(m *mixture, dst []float64) {
	last := m.past.n - 1
	shift := 0.0
	if !l.plain {
		n := 0
		for i := max(0, last-laggedLevel+1); i <= last; i++ {
			if d := m.past.at(i) - l.reference(m, i, last-laggedLevel); !math.IsNaN(d) {
				shift += d
				n++
			}
		}
		if n == 0 {
			shift = math.NaN()
		} else {
			shift /= float64(n)
		}
	}
	for j, k := range m.knots {
		dst[j] = l.reference(m, last+k, last) + shift
	}
}
