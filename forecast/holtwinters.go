package forecast

import "math"

// holtWinters is exponential smoothing with a season of the day and one of the week and an autoregressive error (Taylor,
// Short-term electricity demand forecasting using double seasonal exponential smoothing, JORS 2003), additive on the
// scale of squash and so multiplicative where demand is large:
//
//	forecast(t+k) = l(t) + d(t+k) + w(t+k) + φ^k·e(t)
//	e(t) = z(t) − l(t−1) − d(t) − w(t)
//	l(t) = l(t−1) + α·e(t),  d(t) += δ·e(t),  w(t) += ω·e(t)
//
// The parameters are chosen by tune. An error counts up to seasonClip times the usual one in the seasons.
type holtWinters struct {
	alpha, phi, delta, omega float64
	level                    float64
	day, week                profile
	rest, size               float64 // e(t), and its mean size
	seen                     int
}

func newHoltWinters(s *seasons) *holtWinters {
	return &holtWinters{level: math.NaN(), day: newProfile(len(s.broad.shape), 0), week: newProfile(len(s.week.shape), 0)}
}

func (h *holtWinters) name() string { return nameHoltWinters }

func (h *holtWinters) reset() {
	clear(h.day.shape)
	clear(h.week.shape)
	h.level, h.rest, h.size, h.seen = math.NaN(), 0, 0, 0
}

func (h *holtWinters) learn(m *mixture) {
	h.step(m.here, m.past.at(m.past.n-1), len(m.seasons.broad.shape) > 1)
}

func (h *holtWinters) step(at place, z float64, seasonal bool) {
	if math.IsNaN(z) {
		h.rest *= h.phi
		return
	}
	if math.IsNaN(h.level) {
		h.level = z
	}
	e := z - h.level - h.day.at(at.broad) - h.week.at(at.week)
	h.seen++
	h.size += max(0.002, 1/float64(h.seen)) * (math.Abs(e) - h.size)
	h.level += h.alpha * e
	if seasonal {
		c := clamp(e, seasonClip*h.size)
		h.day.add(at.broad, h.delta*c)
		h.week.add(at.week, h.omega*c)
	}
	h.rest = (1 - h.alpha) * e
}

func (h *holtWinters) ahead(m *mixture, dst []float64) {
	for j, at := range m.places {
		dst[j] = h.level + h.day.at(at.broad) + h.week.at(at.week) + math.Pow(h.phi, float64(m.knots[j]))*h.rest
	}
}

// add moves a profile at a spot, both bins by their shares.
func (p *profile) add(s spot, by float64) {
	p.shape[s.bin] += (1 - s.share) * float32(by)
	p.shape[s.next] += s.share * float32(by)
}

// tune chooses the parameters with the smallest mean absolute error, one step and lead steps ahead, over the second half
// of zs, whose steps lie at places, and leaves the state as of before the first. O(choices·steps).
func (h *holtWinters) tune(places []place, zs []float64, lead int) {
	best, chosen := math.Inf(1), *h
	chosen.alpha, chosen.phi, chosen.delta, chosen.omega = 0.02, 0.95, 0.15, 0.1
	for _, alpha := range []float64{0.002, 0.02, 0.2} {
		for _, phi := range []float64{0.7, 0.95, 0.995} {
			for _, gain := range []float64{0.06, 0.2} {
				h.reset()
				h.alpha, h.phi, h.delta, h.omega = alpha, phi, gain, gain/2
				if loss := h.trial(places, zs, lead); loss < best {
					best, chosen = loss, *h
				}
			}
		}
	}
	*h = chosen
	h.reset()
}

func (h *holtWinters) trial(places []place, zs []float64, lead int) float64 {
	fade := math.Pow(h.phi, float64(lead))
	sum, n := 0.0, 0
	for i, z := range zs {
		if ahead := i + lead; ahead < len(zs) && i > len(zs)/2 {
			at, next := places[ahead], places[i]
			far := zs[ahead] - h.level - h.day.at(at.broad) - h.week.at(at.week) - fade*h.rest
			near := z - h.level - h.day.at(next.broad) - h.week.at(next.week) - h.phi*h.rest
			if e := math.Abs(far) + math.Abs(near); !math.IsNaN(e) {
				sum += e
				n++
			}
		}
		h.step(places[i], z, true)
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}
