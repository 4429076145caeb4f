package forecast

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Series is one quantity on a regular time grid, in the caller's unit. Values[i] is the mean over
// [Start+i·Step, Start+(i+1)·Step). NaN means missing, never zero.
//
// Invariants: Step > 0; AtLeast is nil or as long as Values. AtLeast[i] marks Values[i] as a lower bound of the true
// demand (the sample was taken while requests waited, so it is clipped at capacity). A lower bound never lowers what a
// forecaster knows: see Carried for the rule when it is used as a level or as a seasonal reference, and Forecaster for
// the rule when it is used as an error.
//
// Location places seasons in wall-clock time (a 9 o'clock peak stays at 9 across a daylight-saving change); nil means
// UTC.
type Series struct {
	Start    time.Time
	Step     time.Duration
	Values   []float64
	AtLeast  []bool
	Location *time.Location
}

// valueMax bounds the size of a value: sums of squares, and what is extrapolated from it, stay finite.
const valueMax = 1e100

// problemsMax is the number of problems of one kind that an error lists before it only counts them.
const problemsMax = 20

// Len returns the number of steps, known or missing.
func (s Series) Len() int { return len(s.Values) }

// TimeAt returns the start of step i. i may lie outside the series: TimeAt(Len()) is the start of the next step.
func (s Series) TimeAt(i int) time.Time { return s.Start.Add(time.Duration(i) * s.Step) }

// End returns the end of the last step, which is the start of the step that a forecast begins with.
func (s Series) End() time.Time { return s.TimeAt(len(s.Values)) }

// Known returns the number of steps that are not missing. A lower bound counts as known. O(n).
func (s Series) Known() int {
	n := 0
	for _, v := range s.Values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// Validate reports every violated invariant at once, joined, or nil: Step must be positive, AtLeast nil or as long as
// Values, no value infinite or beyond 1e100 in size, and no lower bound missing (a bound that is not known is no bound). An empty series is
// valid. O(n).
func (s Series) Validate() error {
	var errs []error
	if s.Step <= 0 {
		errs = append(errs, fmt.Errorf("series step is %v, must be positive", s.Step))
	}
	if s.AtLeast != nil && len(s.AtLeast) != len(s.Values) {
		errs = append(errs, fmt.Errorf("series has %d lower-bound marks for %d values, must be none or one each",
			len(s.AtLeast), len(s.Values)))
	}
	bad := 0
	for i, v := range s.Values {
		if math.Abs(v) > valueMax {
			if bad++; bad <= problemsMax {
				errs = append(errs, fmt.Errorf("series value %d is %v, must be finite, at most 1e100 in size, or missing", i, v))
			}
		} else if math.IsNaN(v) && i < len(s.AtLeast) && s.AtLeast[i] {
			if bad++; bad <= problemsMax {
				errs = append(errs, fmt.Errorf("series value %d is missing but marked as a lower bound", i))
			}
		}
	}
	if bad > problemsMax {
		errs = append(errs, fmt.Errorf("and %d more bad values", bad-problemsMax))
	}
	return errors.Join(errs...)
}

// Tail returns the last n steps, or the whole series when it has fewer. It shares memory with s. It panics when n < 0.
func (s Series) Tail(n int) Series {
	if n < 0 {
		panic("forecast: negative tail length")
	}
	return s.slice(max(0, len(s.Values)-n), len(s.Values))
}

// slice returns steps [from, to), sharing memory with s.
func (s Series) slice(from, to int) Series {
	t := s
	t.Start = s.TimeAt(from)
	t.Values = s.Values[from:to]
	if s.AtLeast != nil {
		t.AtLeast = s.AtLeast[from:to]
	}
	return t
}

// lowerBound reports whether step i is marked as a lower bound.
func (s Series) lowerBound(i int) bool { return s.AtLeast != nil && s.AtLeast[i] }

// Carried returns, for every step, what was known about the level at the end of it: the value where there is one, the
// level of the step before in a gap, and at a lower bound the larger of the bound and the level of the step before.
// Steps before the first known value stay NaN: a gap is never filled with zero, nor from the future.
//
//	values   3  NaN  5≥  4≥  2
//	carried  3   3   5   5   2
func (s Series) Carried() []float64 {
	out := make([]float64, len(s.Values))
	level := math.NaN()
	for i, v := range s.Values {
		level = carry(level, v, s.lowerBound(i))
		out[i] = level
	}
	return out
}

// carry is one step of Carried: the level after value v, given the level before.
func carry(level, v float64, atLeast bool) float64 {
	switch {
	case math.IsNaN(v):
		return level
	case atLeast && level > v:
		return level
	}
	return v
}
