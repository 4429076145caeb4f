package forecast

import "math"

// profiled forecasts that the day goes as days of its class (working day or weekend) do, minute by minute, around the
// slow level, with what is left of the present error:
//
//	forecast(t+k) = level(t) + day(t+k) + ρ_k·(z(t) − level(t) − day(t))
//
// where day is the profile that seasons learns at the full step, and ρ_k a regression that forgets. A mean of many days
// carries less noise than any of them, and keeps what smoother shapes lose.
type profiled struct {
	carry []carry1 // per knot
}

const profiledTeach = 0.002

func newProfiled(knots int) *profiled { return &profiled{carry: make([]carry1, knots)} }

func (p *profiled) name() string { return nameProfile }

// rest is the distance of the value at step i from level and profile; NaN when it is not known.
func (p *profiled) rest(m *mixture, i int) float64 {
	return m.past.at(i) - m.seasons.level - m.seasons.day.at(m.seasons.place(&m.past.clock, i).day)
}

func (p *profiled) learn(m *mixture) {
	i := m.past.n - 1
	if _, real := m.past.measured(i); !real {
		return
	}
	limit := seasonClip * m.seasons.size
	now := clamp(p.rest(m, i), limit)
	for j, k := range m.knots {
		then := p.rest(m, i-k)
		if i < k || math.IsNaN(then) {
			continue
		}
		then = clamp(then, limit)
		c := &p.carry[j]
		c.xy += profiledTeach * (now*then - c.xy)
		c.xx += profiledTeach * (then*then - c.xx)
	}
}

func (p *profiled) ahead(m *mixture, dst []float64) {
	rest := m.past.level - m.seasons.level - m.seasons.day.at(m.here.day)
	for j, at := range m.places {
		rho := 1.0
		if c := p.carry[j]; c.xx > 0 {
			rho = max(0, min(1, c.xy/c.xx))
		}
		dst[j] = m.seasons.level + m.seasons.day.at(at.day) + rho*rest
	}
}

func (p *profiled) code(c *coder) {
	for i := range p.carry {
		c.float(&p.carry[i].xy, &p.carry[i].xx)
	}
}
