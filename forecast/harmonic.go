package forecast

import (
	"math"
	"time"
)

// harmonic is a regression on sine and cosine waves of the day and the week in local time, with an autoregressive error
// (dynamic harmonic regression, Hyndman and Athanasopoulos §10.5): smooth where a profile is ragged, and sure of itself
// after few days.
//
//	forecast(t+k) = H(t+k) + ρ_k·(z(t) − H(t))
type harmonic struct {
	fit     leastSquares
	size    float64
	seen    int
	carry   []carry1 // per knot: how much of the present error is left
	x       [harmonicTerms]float64
	scratch []float64
}

// carry1 is a regression of one value on one other that forgets.
type carry1 struct{ xy, xx float64 }

const (
	harmonicDay   = 6 // waves a day
	harmonicWeek  = 3 // waves a week
	harmonicTerms = 1 + 2*(harmonicDay+harmonicWeek)
	harmonicRidge = 2
	harmonicSolve = 12
	harmonicSpan  = 2 * day // of known values before the first forecast
)

func newHarmonic(knots int, memory float64) *harmonic {
	return &harmonic{fit: newLeastSquares(harmonicTerms, memory, harmonicRidge), carry: make([]carry1, knots),
		scratch: make([]float64, harmonicTerms*(harmonicTerms+1)/2)}
}

func (h *harmonic) name() string { return nameHarmonic }

// waves fills h.x for step i.
func (h *harmonic) waves(m *mixture, i int) {
	weekday, seconds := m.past.clock.local(i)
	h.x[0] = 1
	at := 1
	for _, w := range []struct {
		turn  float64
		count int
	}{{float64(seconds) / float64(secondsADay), harmonicDay}, {(float64(weekday) + float64(seconds)/float64(secondsADay)) / 7, harmonicWeek}} {
		sin, cos := math.Sincos(2 * math.Pi * w.turn)
		s, c := sin, cos
		for range w.count {
			h.x[at], h.x[at+1] = s, c
			s, c = s*cos+c*sin, c*cos-s*sin
			at += 2
		}
	}
}

func (h *harmonic) learn(m *mixture) {
	i := m.past.n - 1
	z, real := m.past.measured(i)
	if !real || i%m.past.per != 0 {
		return
	}
	h.waves(m, i)
	z -= m.seasons.level // the waves are those around the level; errors move with it
	e := z - h.fit.dot(h.x[:])
	h.seen++
	h.size += max(0.005, 1/float64(h.seen)) * (math.Abs(e) - h.size)
	h.fit.add(h.x[:], z, 1/max(1, math.Abs(e)/max(h.size, 1e-9)))
	if h.seen%harmonicSolve == 0 {
		h.fit.solve(h.scratch)
	}
	for j, k := range m.knots {
		then := m.past.at(i - k)
		if math.IsNaN(then) {
			continue
		}
		now := e
		h.waves(m, i-k)
		then -= m.seasons.level + h.fit.dot(h.x[:])
		limit := seasonClip * h.size
		now, then = clamp(now, limit), clamp(then, limit)
		c := &h.carry[j]
		c.xy += 0.01 * (now*then - c.xy)
		c.xx += 0.01 * (then*then - c.xx)
	}
}

func (h *harmonic) ahead(m *mixture, dst []float64) {
	i := m.past.n - 1
	if time.Duration(h.seen*m.past.per)*m.past.clock.step < harmonicSpan {
		for j := range dst {
			dst[j] = math.NaN()
		}
		return
	}
	h.waves(m, i)
	level := m.seasons.level
	rest := m.past.level - level - h.fit.dot(h.x[:])
	for j, k := range m.knots {
		h.waves(m, i+k)
		rho := 1.0
		if c := h.carry[j]; c.xx > 0 {
			rho = max(0, min(1, c.xy/c.xx))
		}
		dst[j] = level + h.fit.dot(h.x[:]) + rho*rest
	}
}
