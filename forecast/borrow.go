package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Borrowed states what part of a history is not a series' own, so that a plan can say so.
type Borrowed struct {
	// Steps is how many steps before the series' own were taken over; 0 is nothing.
	Steps int
	// Since is the start of the first of them; zero when there is none.
	Since time.Time
	// Inherited is set when the users of the other series are this one's now; else only its shape was borrowed.
	Inherited bool
	// Ratio is what the other series was multiplied with; 1 for an inheritance.
	Ratio float64
	// Shared is how many steps of the series' own time were added up from both (Inherit) or compared (BorrowShape).
	Shared int
}

// String says it in words.
func (b Borrowed) String() string {
	if b.Steps == 0 {
		return "own history only"
	}
	if b.Inherited {
		return fmt.Sprintf("%d steps inherited, since %s", b.Steps, b.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("%d steps borrowed, since %s, at %.3g of the sibling's size over %d shared steps",
		b.Steps, b.Since.Format(time.RFC3339), b.Ratio, b.Shared)
}

// Inherit returns s with the history of the model it replaces in front: users who were served by the old model will
// be served by this one. Where both are known their values add up, because during the swap each serves a part; where
// only one is, it stands for both. Steps between the end of old and the start of s are missing. The result ends where
// s ends: what the old model still served after that is not known yet.
//
// The two must have one step and one grid; the Location is that of s. An invalid series is an error. O(n).
func (s Series) Inherit(old Series) (Series, Borrowed, error) {
	lead, err := s.leadOf(old)
	if err != nil {
		return Series{}, Borrowed{}, fmt.Errorf("inheriting a history: %w", err)
	}
	out, b := s.behind(lead), Borrowed{Steps: lead, Inherited: true, Ratio: 1}
	for i := range out.Values {
		own := i - lead // the index in s; that in old is i when old is earlier
		from := i
		if lead == 0 {
			from = i + int(s.Start.Sub(old.Start)/s.Step)
		}
		if from < 0 || from >= old.Len() || math.IsNaN(old.Values[from]) {
			continue
		}
		v, low := old.Values[from], old.lowerBound(from)
		if own >= 0 && !math.IsNaN(out.Values[i]) {
			v, low = v+out.Values[i], low || out.lowerBound(i)
			b.Shared++
		}
		out.set(i, v, low)
	}
	if lead > 0 {
		b.Since = out.Start
	}
	return out, b, nil
}

// borrowEnough is the own history from which on no shape is borrowed: it has seen each time of day twice.
const borrowEnough = 2 * day

// BorrowShape returns s with the history of a similar model in front, moved to the size of s: when s is shorter than
// two days of known values its own day is not known yet, and a sibling's is a better guess than none. The size is the
// median ratio over the steps that both know; at least an hour of them, and 10 steps, is needed, else nothing is
// borrowed, and so it is when s is long enough. Own values are never changed.
//
// The two must have one step and one grid; the Location is that of s. An invalid series is an error. O(n·log n).
func (s Series) BorrowShape(sibling Series) (Series, Borrowed, error) {
	lead, err := s.leadOf(sibling)
	if err != nil {
		return Series{}, Borrowed{}, fmt.Errorf("borrowing a shape: %w", err)
	}
	none := Borrowed{Ratio: 1}
	if lead == 0 || s.span(s.Known()) >= borrowEnough {
		return s, none, nil
	}
	var ratios []float64
	for i, v := range s.Values {
		at := i + lead
		if at >= sibling.Len() || s.lowerBound(i) || sibling.lowerBound(at) {
			continue
		}
		if sibling.Values[at] > 0 && !math.IsNaN(v) {
			ratios = append(ratios, v/sibling.Values[at])
		}
	}
	if len(ratios) < max(10, int(time.Hour/s.Step)) {
		return s, none, nil
	}
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	if !(ratio > 0) || math.IsInf(ratio, 0) {
		return s, none, nil
	}
	out := s.behind(lead)
	for i := range lead {
		if i < sibling.Len() && !math.IsNaN(sibling.Values[i]) {
			out.set(i, ratio*sibling.Values[i], sibling.lowerBound(i))
		}
	}
	return out, Borrowed{Steps: lead, Since: out.Start, Ratio: ratio, Shared: len(ratios)}, nil
}

// leadOf returns how many steps other starts before s, at least 0, and whether both are valid and on one grid.
func (s Series) leadOf(other Series) (int, error) {
	if err := s.Validate(); err != nil {
		return 0, err
	}
	if err := other.Validate(); err != nil {
		return 0, fmt.Errorf("the other series: %w", err)
	}
	if s.Step != other.Step {
		return 0, fmt.Errorf("steps are %v and %v, must be the same", s.Step, other.Step)
	}
	ahead := s.Start.Sub(other.Start)
	if ahead%s.Step != 0 {
		return 0, fmt.Errorf("starts %s and %s are not a whole number of steps of %v apart",
			s.Start.Format(time.RFC3339Nano), other.Start.Format(time.RFC3339Nano), s.Step)
	}
	return max(0, int(ahead/s.Step)), nil
}

// behind returns a copy of s with lead missing steps in front.
func (s Series) behind(lead int) Series {
	out := s
	out.Start = s.TimeAt(-lead)
	out.Values = make([]float64, lead+s.Len())
	for i := range lead {
		out.Values[i] = math.NaN()
	}
	copy(out.Values[lead:], s.Values)
	if s.AtLeast != nil {
		out.AtLeast = make([]bool, len(out.Values))
		copy(out.AtLeast[lead:], s.AtLeast)
	}
	return out
}

// set replaces a value and its mark.
func (s *Series) set(i int, v float64, atLeast bool) {
	s.Values[i] = v
	if s.AtLeast == nil && atLeast {
		s.AtLeast = make([]bool, len(s.Values))
	}
	if s.AtLeast != nil {
		s.AtLeast[i] = atLeast
	}
}
