package forecast

import "time"

// record is what the mixture and the naive experts have lost on forecasts that have matured: the pinball loss, in the
// caller's unit, of recordGrid over the first, middle and last knot plus that of the peak.
type record struct {
	origins                  int
	weight, forget           float64
	mixture, naive, seasonal float64
	skip                     int
}

// recordGrid are the grid quantiles that count: the middle, and the upper ones that plans are made with.
var recordGrid = [...]int{2, 4, 5, 7}

const (
	expertLast     = 0 // places in mixture.experts
	expertSeasonal = 2
)

func newRecord(m *mixture, step time.Duration) record {
	span := float64(scoreSpan) / float64(step) / float64(m.stride)
	return record{forget: 1 / min(scoreOriginsMax, max(scoreOriginsMin, span)), skip: scoreBurnIn}
}

const (
	// scoreSpan is the time over which scores are forgotten (to 1/e), kept within scoreOriginsMin and -Max origins.
	scoreSpan       = 1 * day
	scoreOriginsMin = 50
	scoreOriginsMax = 300
	// scoreBurnIn is how many origins teach the weights before the mixture itself is scored.
	scoreBurnIn = 10
	// lossFloor is the loss, as a share of the mean value, that counts as none.
	lossFloor = 5e-4
)

// add scores the forecast of an origin whose horizon has been seen.
func (r *record) add(m *mixture, o *origin, peak float64) {
	if r.skip > 0 {
		r.skip--
		return
	}
	var sums [3]float64
	steps := 0.0
	knots := [3]int{0, len(m.knots) / 2, len(m.knots) - 1}
	for x, j := range knots {
		if x > 0 && j == knots[x-1] {
			continue
		}
		if z, ok := m.past.measured(o.at + m.knots[j]); ok {
			steps++
			m.losses(o, j, z, &sums)
		}
	}
	for x := range sums {
		sums[x] /= max(1, steps)
	}
	m.losses(o, len(m.bands)-1, peak, &sums)
	for x := range sums {
		if sums[x] < lossFloor*m.past.mean {
			sums[x] = 0 // nobody errs on constant demand, and rounding must not decide who errs less
		}
	}
	keep := 1 - r.forget
	r.weight = r.weight*keep + 1
	r.mixture = r.mixture*keep + sums[0]
	r.naive = r.naive*keep + sums[1]
	r.seasonal = r.seasonal*keep + sums[2]
	r.origins++
}

// losses adds the mean pinball losses of the mixture as it was, and of the last value and the seasonal naive with the
// offsets that they have learned by now.
func (m *mixture) losses(o *origin, j int, z float64, sums *[3]float64) {
	b := m.band(o, j)
	y := m.past.squash.out(z)
	spread := float64(o.spread[j])
	for _, p := range recordGrid {
		level := grid[p]
		sums[0] += Pinball(level, m.value(float64(o.final[j*gridLen+p])), y) / float64(len(recordGrid))
		for x, e := range [2]int{expertLast, expertSeasonal} {
			q := float64(o.centres[j*m.candidates+e]) + spread*float64(b.offset[p*m.candidates+e])
			if q != q {
				q = float64(o.level) // nothing a season ago: the last value stands in
			}
			sums[1+x] += Pinball(level, m.value(q), y) / float64(len(recordGrid))
		}
	}
}

// value returns a quantile in the caller's unit.
func (m *mixture) value(z float64) float64 {
	y := m.past.squash.out(z)
	if m.past.nonNegative {
		y = max(0, y)
	}
	return y
}

func (r *record) skill() Skill {
	if r.weight == 0 {
		return Skill{}
	}
	return Skill{Origins: r.origins, Loss: r.mixture / r.weight, LastLoss: r.naive / r.weight, SeasonalLoss: r.seasonal / r.weight}
}
