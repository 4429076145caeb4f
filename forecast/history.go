package forecast

import (
	"fmt"
	"math"
	"time"
)

// history is the bounded memory that methods share: the values themselves, and the level carried through gaps. Indexes
// are relative to the oldest value kept, and move when old values are dropped.
type history struct {
	clock   wallClock
	vals    []float64 // NaN is missing
	low     []bool    // nil until the first lower bound
	carried []float64 // see Series.Carried
	keep    int       // steps kept at least, once seen

	// scale is a slow mean of the absolute known values, the yardstick that tells a small level from a large one. It
	// forgets over scaleSteps, so that a series that has grown is not measured with its youth.
	scale      float64
	scaleSteps float64
	known      int // values seen since the fit, up to scaleSteps

	nonNegative bool // no negative value was ever seen, so forecasts are held at zero
}

// newHistory loads s, keeping at most the given duration of it. The error is ErrShortHistory or an invalid series.
func newHistory(s Series, keep time.Duration) (*history, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	if s.Known() == 0 {
		return nil, fmt.Errorf("%w: %d steps of %v, none known; at least one known value is needed",
			ErrShortHistory, s.Len(), s.Step)
	}
	h := &history{keep: max(2, int(keep/s.Step)), nonNegative: true}
	h.scaleSteps = max(1, float64(3*day)/float64(s.Step))
	s = s.Tail(h.keep)
	if s.Known() == 0 {
		return nil, fmt.Errorf("%w: the last %v hold no known value; at least one is needed", ErrShortHistory, keep)
	}
	h.clock = newWallClock(s.Start, s.Step, s.Location)
	for i, v := range s.Values {
		h.append(v, s.lowerBound(i))
	}
	return h, nil
}

// append adds the value of the next step and returns how many of the oldest values were dropped to make room: nearly
// always none, and an eighth of the history at once when the slack is used up, which makes it O(1) amortised.
func (h *history) append(v float64, atLeast bool) (dropped int) {
	if math.Abs(v) > valueMax {
		panic("forecast: value infinite or beyond 1e100")
	}
	if n := len(h.vals); n >= h.keep+h.keep/8+1 {
		dropped = n - h.keep + 1
		h.drop(dropped)
	}
	level := math.NaN()
	if n := len(h.carried); n > 0 {
		level = h.carried[n-1]
	}
	h.vals = append(h.vals, v)
	h.carried = append(h.carried, carry(level, v, atLeast))
	if atLeast && h.low == nil {
		h.low = make([]bool, len(h.vals)-1, cap(h.vals))
	}
	if h.low != nil {
		h.low = append(h.low, atLeast)
	}
	if !math.IsNaN(v) {
		h.known++
		h.scale += (math.Abs(v) - h.scale) / min(float64(h.known), h.scaleSteps)
		h.nonNegative = h.nonNegative && v >= 0
	}
	return dropped
}

func (h *history) drop(n int) {
	h.vals = dropFront(h.vals, n)
	h.carried = dropFront(h.carried, n)
	if h.low != nil {
		h.low = dropFront(h.low, n)
	}
	h.clock.start = h.clock.start.Add(time.Duration(n) * h.clock.step)
}

// dropFront removes the first n elements, keeping the array.
func dropFront[T any](xs []T, n int) []T {
	return xs[:copy(xs, xs[n:])]
}

func (h *history) last() int { return len(h.vals) - 1 }

func (h *history) lowerBound(i int) bool { return h.low != nil && h.low[i] }

// scorable returns step i when a forecast can be scored on it: a missing or clipped value says nothing about one that
// was higher.
func (h *history) scorable(i int) (float64, bool) {
	v := h.vals[i]
	return v, !math.IsNaN(v) && !h.lowerBound(i)
}

// timeAt returns the start of step i.
func (h *history) timeAt(i int) time.Time { return h.clock.start.Add(time.Duration(i) * h.clock.step) }

// floor holds a forecast of a quantity that was never negative at zero.
func (h *history) floor(v float64) float64 {
	if h.nonNegative && v < 0 {
		return 0
	}
	return v
}
