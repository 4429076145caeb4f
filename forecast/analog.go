package forecast

import (
	"math"
)

// analog looks for earlier days whose last hours went like those of now, and forecasts that what followed then follows
// now, moved to the level of now (the method of analogues, Lorenz 1969; k nearest neighbours). It knows shapes that no
// mean of days shows: a holiday is like a Sunday, a release day like the last one.
type analog struct {
	window []float64 // scratch: the last hours
}

const (
	analogPoints  = 12 // of the window, evenly spread
	analogHours   = 3.0
	analogNearest = 4
	analogSlack   = 2 // places tried around the same time of day, either side
)

func (a *analog) name() string   { return nameAnalog }
func (a *analog) learn(*mixture) {}

func (a *analog) ahead(m *mixture, dst []float64) {
	last := m.past.n - 1
	stride := max(1, int(analogHours*3600/m.past.clock.step.Seconds()/analogPoints))
	a.window = grow(a.window, analogPoints)
	for i := range a.window {
		a.window[i] = m.past.carried(last-i*stride, 1)
	}
	var best [analogNearest]struct {
		at       int
		distance float64
	}
	for i := range best {
		best[i].at, best[i].distance = -1, math.Inf(1)
	}
	for days := 1; days <= seasonDaysMax; days++ {
		at := m.past.clock.sameTime(last, days)
		if at-analogPoints*stride < 0 {
			break
		}
		for slack := -analogSlack; slack <= analogSlack; slack++ {
			then := at + slack*stride/2
			d := a.distance(m, then, stride)
			for i := range best {
				if d < best[i].distance {
					copy(best[i+1:], best[i:])
					best[i].at, best[i].distance = then, d
					break
				}
			}
		}
	}
	for j, k := range m.knots {
		sum, weight := 0.0, 0.0
		for _, b := range best {
			if b.at < 0 {
				continue
			}
			if rise := m.past.at(b.at+k) - m.past.at(b.at); !math.IsNaN(rise) {
				w := 1 / (b.distance + 1e-9)
				sum += w * rise
				weight += w
			}
		}
		dst[j] = m.past.level + sum/weight // NaN without any
	}
}

// distance is the mean square difference of shape between the last hours and those before step then; +Inf when unknown.
func (a *analog) distance(m *mixture, then, stride int) float64 {
	shift := a.window[0] - m.past.at(then)
	sum, n := 0.0, 0
	for i := 1; i < analogPoints; i++ {
		if d := a.window[i] - m.past.at(then-i*stride) - 0.5*shift; !math.IsNaN(d) {
			sum += d * d
			n++
		}
	}
	if n < analogPoints/2 {
		return math.Inf(1)
	}
	return sum / float64(n)
}
