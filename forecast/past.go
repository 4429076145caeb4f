package forecast

import (
	"fmt"
	"math"
	"time"
)

const (
	// fineSpan is how much of the past a mixture keeps step by step, at least fineStepsMin and at most fineStepsMax steps
	// of it; older values are kept as means over coarseStep, for coarseSpan.
	fineSpan     = 2 * day
	fineStepsMin = 256
	fineStepsMax = 17280 // two days of 10 s
	coarseStep   = 10 * time.Minute
	coarseSpan   = 35 * day
)

// past is the bounded memory of a mixture, on the scale of squash: the last days step by step, and before them means of
// ten minutes. Steps are counted from the first one that Fit was given and the count never moves, so an index stays good
// for as long as its value is kept.
type past struct {
	clock  wallClock
	squash squash
	n      int // steps seen: the index of the next one

	fine []float64 // ring; NaN is missing; a clipped sample is replaced by what it is believed to have been
	real []bool    // ring: the value was measured, neither missing nor clipped

	coarse []float32 // ring of means over per steps; nil when steps are coarse themselves
	per    int
	sum    float64 // of the coarse step in progress
	count  int

	level       float64 // the last value known
	low, high   float64 // the range of all values seen
	nonNegative bool
	first       float64 // the first value seen, in the caller's unit
	varied      bool    // another one was seen since

	// mean is a slow mean of the absolute values, in the caller's unit.
	mean, meanSteps float64
	known           int
}

// newPast returns an empty past for a series like s.
func newPast(s Series, keep time.Duration, sq squash) *past {
	p := &past{clock: newWallClock(s.Start, s.Step, s.Location), squash: sq, per: 1, level: math.NaN(),
		low: math.Inf(1), high: math.Inf(-1), nonNegative: true}
	keep = min(keep, coarseSpan)
	steps := max(fineStepsMin, min(fineStepsMax, int(keep/s.Step)))
	if s.Step < coarseStep {
		steps = max(fineStepsMin, min(steps, fineStepsMax, int(fineSpan/s.Step)))
		p.per = int((coarseStep + s.Step/2) / s.Step)
		p.coarse = make([]float32, max(1, int(keep/(time.Duration(p.per)*s.Step))))
	}
	p.fine, p.real = make([]float64, steps), make([]bool, steps)
	p.meanSteps = max(1, float64(3*day)/float64(s.Step))
	return p
}

// meanAbsolute is the slow mean that past would have at the end of s; 0 when nothing is known.
func meanAbsolute(s Series) float64 {
	p := past{meanSteps: max(1, float64(3*day)/float64(s.Step))}
	for _, v := range s.Values {
		p.measure(v)
	}
	return p.mean
}

func (p *past) measure(v float64) {
	if !math.IsNaN(v) {
		p.known++
		p.mean += (math.Abs(v) - p.mean) / min(float64(p.known), p.meanSteps)
	}
}

// append adds the value of the next step, in the caller's unit. believed is the value to keep in its place, on the scale
// of squash, when it is clipped.
func (p *past) append(v float64, atLeast bool, believed float64) {
	if math.Abs(v) > valueMax {
		panic("forecast: value infinite or beyond 1e100")
	}
	z := math.NaN()
	if !math.IsNaN(v) {
		if z = p.squash.in(v); atLeast {
			z = max(z, believed)
		}
		p.level = z
		p.low, p.high = min(p.low, z), max(p.high, z)
		p.nonNegative = p.nonNegative && v >= 0
		if p.known == 0 {
			p.first = v
		}
		p.varied = p.varied || v != p.first
	}
	p.measure(v)
	at := p.n % len(p.fine)
	p.fine[at], p.real[at] = z, !math.IsNaN(v) && !atLeast
	if p.coarse != nil {
		p.fold(z)
	}
	p.n++
}

// fold adds z to the coarse step in progress; a coarse step is known when any of its steps is.
func (p *past) fold(z float64) {
	if !math.IsNaN(z) {
		p.sum += z
		p.count++
	}
	if (p.n+1)%p.per == 0 {
		p.coarse[p.n/p.per%len(p.coarse)] = float32(p.sum / float64(p.count)) // NaN when none is known
		p.sum, p.count = 0, 0
	}
}

// at returns the value of step i, NaN when it is missing, forgotten or not seen yet. Before the fine past it is that of
// the coarse step around i.
func (p *past) at(i int) float64 {
	switch {
	case i < 0 || i >= p.n:
		return math.NaN()
	case i >= p.n-len(p.fine):
		return p.fine[i%len(p.fine)]
	}
	return p.coarseMean(i / p.per)
}

// smooth is at, but for straight lines between the middles of coarse steps in place of the stair: the difference of two
// steps of a stair is that of two means of ten minutes, or nothing, by the minute that it is taken in.
func (p *past) smooth(i int) float64 {
	if i < 0 || i >= p.n-len(p.fine) {
		return p.at(i)
	}
	own, place := i/p.per, 2*(i%p.per)+1-p.per
	z, other := p.coarseMean(own), p.coarseMean(own+1)
	if place < 0 {
		other, place = p.coarseMean(own-1), -place
	}
	if math.IsNaN(other) {
		return z
	}
	return z + float64(place)/float64(2*p.per)*(other-z)
}

// coarseMean returns the mean of a coarse step; NaN when it is missing, forgotten or not complete.
func (p *past) coarseMean(i int) float64 {
	if p.coarse == nil || i < 0 || i >= p.n/p.per || (p.n-1)/p.per-i >= len(p.coarse) {
		return math.NaN()
	}
	return float64(p.coarse[i%len(p.coarse)])
}

// measured returns the value of step i when a forecast can be scored on it.
func (p *past) measured(i int) (float64, bool) {
	if i < max(0, p.n-len(p.fine)) || i >= p.n {
		return 0, false
	}
	at := i % len(p.fine)
	return p.fine[at], p.real[at]
}

// carried is at, with the nearest earlier value in place of a missing one as far back as gap steps.
func (p *past) carried(i, gap int) float64 {
	for back := range gap + 1 {
		if z := p.at(i - back); !math.IsNaN(z) {
			return z
		}
	}
	return math.NaN()
}

// highest returns the maximum over steps from..to inclusive, and whether all of them were measured.
func (p *past) highest(from, to int) (float64, bool) {
	peak := math.Inf(-1)
	for i := from; i <= to; i++ {
		z, ok := p.measured(i)
		if !ok {
			return 0, false
		}
		peak = max(peak, z)
	}
	return peak, true
}

// expand returns the past as a Series in the caller's unit, coarse steps spread over their fine ones.
func (p *past) expand() Series {
	first := max(0, p.n-len(p.fine))
	if p.coarse != nil {
		first = max(0, min(first, ((p.n-1)/p.per-len(p.coarse)+1)*p.per))
	}
	s := Series{Start: p.timeAt(first), Step: p.clock.step, Location: p.clock.loc, Values: make([]float64, p.n-first)}
	for i := range s.Values {
		z := p.at(first + i)
		s.Values[i] = p.squash.out(z) // NaN stays NaN
		if _, ok := p.measured(first + i); !ok && !math.IsNaN(z) && first+i >= p.n-len(p.fine) {
			if s.AtLeast == nil {
				s.AtLeast = make([]bool, len(s.Values))
			}
			s.AtLeast[i] = true
		}
	}
	return s
}

func (p *past) timeAt(i int) time.Time { return p.clock.start.Add(time.Duration(i) * p.clock.step) }

// usable checks s for Fit and cuts it to what is kept.
func usable(s Series, keep time.Duration) (Series, error) {
	if err := s.Validate(); err != nil {
		return s, fmt.Errorf("forecast: %w", err)
	}
	if s.Known() == 0 {
		return s, fmt.Errorf("%w: %d steps of %v, none known; at least one known value is needed", ErrShortHistory, s.Len(), s.Step)
	}
	s = s.Tail(max(2, int(min(keep, coarseSpan)/s.Step)))
	if s.Known() == 0 {
		return s, fmt.Errorf("%w: the last %v hold no known value; at least one is needed", ErrShortHistory, keep)
	}
	return s, nil
}
