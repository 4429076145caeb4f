package forecast

import (
	"fmt"
	"math"
	"time"
)

// Agg is how Resample makes one coarse value from several fine ones.
type Agg int

const (
	// AggMean keeps a rate a rate.
	AggMean Agg = iota
	// AggMax keeps the peak, which is what replicas are sized on.
	AggMax
	// AggSum adds amounts, such as requests per step.
	AggSum
)

// String returns mean, max or sum.
func (a Agg) String() string {
	switch a {
	case AggMean:
		return "mean"
	case AggMax:
		return "max"
	case AggSum:
		return "sum"
	}
	return fmt.Sprintf("Agg(%d)", int(a))
}

// Resample returns s on a coarser grid that begins at s.Start. step must be a multiple of s.Step; a finer step is
// refused, because nothing in the data says how the value moved inside a step. Steps at the end that do not fill a whole
// coarse step are dropped.
//
// Missing rule: a coarse value is missing when fewer than half of its fine values are known. Otherwise AggMean is the
// mean of the known ones, AggSum that mean times the number of fine steps (a gap counts as an average step, never as
// zero), and AggMax the largest known one, marked as a lower bound if any fine value is missing. A coarse value with a
// lower bound among its parts is a lower bound.
func (s Series) Resample(step time.Duration, agg Agg) (Series, error) {
	if err := s.Validate(); err != nil {
		return Series{}, fmt.Errorf("resampling: %w", err)
	}
	if step < s.Step {
		return Series{}, fmt.Errorf("resampling to %v: finer than the series step %v, must be a multiple of it", step, s.Step)
	}
	if step%s.Step != 0 {
		return Series{}, fmt.Errorf("resampling to %v: must be a multiple of the series step %v", step, s.Step)
	}
	if agg < AggMean || agg > AggSum {
		return Series{}, fmt.Errorf("resampling with %v: must be mean, max or sum", agg)
	}
	per := int(step / s.Step)
	out := Series{Start: s.Start, Step: step, Values: make([]float64, len(s.Values)/per), Location: s.Location}
	for i := range out.Values {
		v, low := s.slice(i*per, (i+1)*per).aggregate(agg)
		out.Values[i] = v
		if low {
			if out.AtLeast == nil {
				out.AtLeast = make([]bool, len(out.Values))
			}
			out.AtLeast[i] = true
		}
	}
	return out, nil
}

// aggregate applies the missing rule of Resample to all of s.
func (s Series) aggregate(agg Agg) (value float64, atLeast bool) {
	sum, peak, known := 0.0, math.Inf(-1), 0
	for i, v := range s.Values {
		if math.IsNaN(v) {
			continue
		}
		known++
		sum += v
		peak = max(peak, v)
		atLeast = atLeast || s.lowerBound(i)
	}
	if 2*known < len(s.Values) {
		return math.NaN(), false
	}
	switch agg {
	case AggMax:
		return peak, atLeast || known < len(s.Values)
	case AggSum:
		return sum / float64(known) * float64(len(s.Values)), atLeast
	}
	return sum / float64(known), atLeast
}
