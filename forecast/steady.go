package forecast

import (
	"math"
	"time"
)

// steady knows how restless a series is: the usual size of a step when the shape of the day is taken off, over the last
// few steps, the last hour and the last days, and by the time of day. The spread of a forecast is regressed on it, so
// that quantiles are wide before the hour that is never the same and after a shock, and narrow at night.
type steady struct {
	quick, brief, slow float64
	share              [3]float64
	seen               int
	clock              [clockBins]float64 // mean absolute change over the middle knot, by the local time it ends at
	clockSeen          [clockBins]uint8
	clockMean          float64
	last, lastShape    float64
}

const (
	clockBins  = 48
	clockGain  = 0.02
	quickSteps = 5.0
	restFloor  = 0.05
)

func newSteady(step time.Duration) *steady {
	per := func(span time.Duration, least float64) float64 { return 1 / max(least, float64(span)/float64(step)) }
	return &steady{share: [3]float64{1 / quickSteps, per(time.Hour, 20), per(2*day, 200)}, last: math.NaN()}
}

func (s *steady) usual() float64 { return max(s.slow, spreadFloor) }

func (s *steady) learn(m *mixture) {
	i := m.past.n - 1
	z, real := m.past.measured(i)
	if !real {
		s.last = math.NaN()
		return
	}
	shape := m.seasons.shape(m.here)
	if !math.IsNaN(s.last) {
		s.seen++
		e := math.Abs(z - s.last - shape + s.lastShape)
		for x, v := range []*float64{&s.quick, &s.brief, &s.slow} {
			*v += max(s.share[x], 1/float64(s.seen)) * (e - *v)
		}
	}
	s.last, s.lastShape = z, shape
	k := m.knots[len(m.knots)/2]
	then := m.past.at(i - k)
	if math.IsNaN(then) {
		return
	}
	e := math.Abs(z - then - shape + m.seasons.shape(m.seasons.place(&m.past.clock, i-k)))
	s.clockMean += max(0.001, 1/float64(s.seen+1)) * (e - s.clockMean)
	bin := m.seasons.clockBin(m.here, clockBins)
	if s.clockSeen[bin] < math.MaxUint8 {
		s.clockSeen[bin]++
	}
	s.clock[bin] += max(clockGain, 1/float64(s.clockSeen[bin])) * (e - s.clock[bin])
}

// moods fills the regressors of the spread of band j.
func (s *steady) moods(m *mixture, j int, dst []float32) {
	base := max(s.slow, spreadFloor)
	dst[0] = 1
	dst[1] = float32(math.Log((s.quick + restFloor*base) / base))
	dst[2] = float32(math.Log((s.brief + restFloor*base) / base))
	at := m.places[min(j, len(m.knots)-1)]
	bin := m.seasons.clockBin(at, clockBins)
	dst[3] = 0
	if s.clockSeen[bin] > 0 && s.clockMean > 0 {
		dst[3] = float32(math.Log((s.clock[bin] + restFloor*s.clockMean) / s.clockMean))
	}
	dst[4] = float32(clamp(m.past.level-m.seasons.level, 3))
	dst[5] = 0
	if m.past.level == 0 {
		dst[5] = 1
	}
}

// peaks is the direct forecast of the peak over the horizon: the level of now times the usual ratio of peak to level at
// this time of day.
type peaks struct {
	rise [clockBins]float64 // mean of peak − level
	seen [clockBins]uint8
}

const peaksGain = 0.03

func (p *peaks) bin(m *mixture, i int) int {
	return m.seasons.clockBin(m.seasons.place(&m.past.clock, i), clockBins)
}

// learn takes in that the peak over the horizon after step i came out rise above the level there.
func (p *peaks) learn(m *mixture, i int, rise float64) {
	bin := p.bin(m, i)
	if p.seen[bin] < math.MaxUint8 {
		p.seen[bin]++
	}
	p.rise[bin] += max(peaksGain, 1/float64(p.seen[bin]+1)) * (rise - p.rise[bin])
}

func (p *peaks) ahead(m *mixture) float64 { return p.rise[p.bin(m, m.past.n-1)] }
