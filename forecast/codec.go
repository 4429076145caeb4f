package forecast

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// ensembleJSON is the stable wire form of Ensemble.
type ensembleJSON struct {
	Start  time.Time   `json:"start"`
	StepNS int64       `json:"step_ns"`
	Paths  [][]float64 `json:"paths"`
}

// MarshalJSON writes {"start","step_ns","paths"}: start as RFC 3339 in UTC, the step in nanoseconds, values in the
// shortest form that reads back to the same bits. An Ensemble that does not Validate is an error.
func (e Ensemble) MarshalJSON() ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, fmt.Errorf("encoding ensemble: %w", err)
	}
	return json.Marshal(ensembleJSON{Start: e.Start.UTC(), StepNS: int64(e.Step), Paths: e.Paths})
}

// UnmarshalJSON reads what MarshalJSON writes; writing it again gives the same bytes. Unlike a plain decode it refuses
// null in place of a value, paths of unequal length, and a missing step.
func (e *Ensemble) UnmarshalJSON(data []byte) error {
	var w struct {
		Start  time.Time    `json:"start"`
		StepNS int64        `json:"step_ns"`
		Paths  [][]*float64 `json:"paths"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decoding ensemble: %w", err)
	}
	out := Ensemble{Start: w.Start.UTC(), Step: time.Duration(w.StepNS), Paths: make([][]float64, len(w.Paths))}
	for i, p := range w.Paths {
		out.Paths[i] = make([]float64, len(p))
		for k, v := range p {
			out.Paths[i][k] = math.NaN() // null: Validate names it
			if v != nil {
				out.Paths[i][k] = *v
			}
		}
	}
	if err := out.Validate(); err != nil {
		return fmt.Errorf("decoding ensemble: %w", err)
	}
	*e = out
	return nil
}

// seriesJSON is the stable wire form of Series. A pointer is how encoding/json spells a value that may be null.
type seriesJSON struct {
	Start    time.Time  `json:"start"`
	StepNS   int64      `json:"step_ns"`
	Values   []*float64 `json:"values"`
	AtLeast  []int      `json:"at_least,omitempty"`
	Location string     `json:"location,omitempty"`
}

// MarshalJSON writes {"start","step_ns","values","at_least","location"}: start as RFC 3339 in UTC, null for a missing
// value, at_least as the indexes of the lower bounds, location as an IANA name. A Series that does not Validate is an
// error, and so is the location time.Local, whose name means something else on another machine.
func (s Series) MarshalJSON() ([]byte, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("encoding series: %w", err)
	}
	w := seriesJSON{Start: s.Start.UTC(), StepNS: int64(s.Step), Values: make([]*float64, len(s.Values))}
	for i := range s.Values {
		if !math.IsNaN(s.Values[i]) {
			w.Values[i] = &s.Values[i]
		}
		if s.lowerBound(i) {
			w.AtLeast = append(w.AtLeast, i)
		}
	}
	if s.Location != nil {
		if w.Location = s.Location.String(); w.Location == "Local" {
			return nil, errors.New("encoding series: location is Local, must be an IANA name such as Europe/Berlin")
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON writes; writing it again gives the same bytes. The location name is resolved in
// the time zone database of the machine.
func (s *Series) UnmarshalJSON(data []byte) error {
	var w seriesJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decoding series: %w", err)
	}
	out := Series{Start: w.Start.UTC(), Step: time.Duration(w.StepNS), Values: make([]float64, len(w.Values))}
	for i, v := range w.Values {
		out.Values[i] = math.NaN()
		if v != nil {
			out.Values[i] = *v
		}
	}
	if len(w.AtLeast) > 0 {
		out.AtLeast = make([]bool, len(out.Values))
	}
	for _, i := range w.AtLeast {
		if i < 0 || i >= len(out.Values) {
			return fmt.Errorf("decoding series: at_least names value %d of %d", i, len(out.Values))
		}
		out.AtLeast[i] = true
	}
	if w.Location != "" {
		loc, err := time.LoadLocation(w.Location)
		if err != nil || w.Location == "Local" {
			return fmt.Errorf("decoding series: location %q is not an IANA name such as Europe/Berlin", w.Location)
		}
		out.Location = loc
	}
	if err := out.Validate(); err != nil {
		return fmt.Errorf("decoding series: %w", err)
	}
	*s = out
	return nil
}
