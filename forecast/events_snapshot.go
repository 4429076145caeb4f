package forecast

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"errors"
	"fmt"
	"time"
)

// eventfulState is the form of an Eventful's snapshot. What the calendar knows is not in it: both sides have it.
type eventfulState struct {
	Inner       []byte
	Next, Until time.Time
	Past        map[string][]float64
	Occasions   []occasionState
	Usual       usualState
}

// occasionState is what was seen of an occurrence, which Name, Start and Done find in the calendar. A size that
// settled is not in it: that is one of a past occurrence.
type occasionState struct {
	Name         string
	Start, Done  time.Time
	Recent, All  []float64
	Stride, Seen int
}

type usualState struct {
	Start              time.Time
	Bins               []float64
	Sum, Total         float64
	Known, Filled, All int
}

// MarshalBinary returns the whole state, as Auto's does. It must follow a successful Fit, else it is an error, and so
// is a forecaster inside that has no snapshot.
func (f *Eventful) MarshalBinary() ([]byte, error) {
	inner, ok := f.inner.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("encoding a forecaster: %q has no snapshot: %w", f.Name(), errors.ErrUnsupported)
	}
	if f.effects == nil {
		return nil, errors.New("encoding a forecaster: it was not fitted")
	}
	data, err := inner.MarshalBinary()
	if err != nil {
		return nil, err
	}
	e, u := f.effects, f.effects.usual
	s := eventfulState{Inner: data, Next: e.next, Until: e.until, Past: e.past, Usual: usualState{
		Start: u.bins.Start, Bins: u.bins.Values, Sum: u.sum, Total: u.total, Known: u.known, Filled: u.filled,
		All: u.totalKnown}}
	for _, o := range e.occ {
		s.Occasions = append(s.Occasions, occasionState{o.Name, o.Start, o.Done, o.recent, o.all, o.stride, o.seen})
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(s); err != nil {
		return nil, fmt.Errorf("encoding the effects of events: %w", err)
	}
	return out.Bytes(), nil
}

// UnmarshalBinary replaces all state with what MarshalBinary returned, which must have been made with the same
// Calendar, model and Options. Anything else is an error and leaves the Eventful as it was, but not the forecaster
// inside.
func (f *Eventful) UnmarshalBinary(data []byte) error {
	inner, ok := f.inner.(interface {
		encoding.BinaryUnmarshaler
		clock() (start time.Time, step time.Duration, loc *time.Location)
	})
	if !ok {
		return fmt.Errorf("decoding a forecaster: %q has no snapshot: %w", f.Name(), errors.ErrUnsupported)
	}
	var s eventfulState
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return fmt.Errorf("decoding the effects of events: %w", err)
	}
	if err := inner.UnmarshalBinary(s.Inner); err != nil {
		return err
	}
	start, step, loc := inner.clock()
	e := newEffects(Series{Start: start, Step: step, Location: loc}, f.calendar, f.model)
	e.next, e.until, e.came = s.Next, s.Until, nil
	if s.Past != nil {
		e.past = s.Past
	}
	u, kept := e.usual, &s.Usual
	u.bins.Start, u.bins.Values = kept.Start, kept.Bins
	u.sum, u.known, u.filled, u.total, u.totalKnown = kept.Sum, kept.Known, kept.Filled, kept.Total, kept.All
	for _, kept := range s.Occasions {
		o, ok := f.calendar.occurrence(f.model, kept)
		if !ok {
			return fmt.Errorf("decoding the effects of events: the calendar has no event %q at %s", kept.Name,
				kept.Start.Format(time.RFC3339))
		}
		if kept.Stride < 1 || kept.Seen < 0 || len(kept.All) >= effectSeenMax {
			return fmt.Errorf("decoding the effects of events: event %q has %d sizes of every %d-th of %d steps", kept.Name,
				len(kept.All), kept.Stride, kept.Seen)
		}
		e.occ = append(e.occ, &occasion{Occurrence: o, recent: kept.Recent, all: kept.All, stride: kept.Stride,
			seen: kept.Seen})
	}
	f.effects = e
	return nil
}

// occurrence finds the occurrence that a state is about.
func (c *Calendar) occurrence(model string, s occasionState) (Occurrence, bool) {
	for _, o := range c.Occurrences(model, s.Start, s.Done) {
		if o.Name == s.Name && o.Start.Equal(s.Start) && o.Done.Equal(s.Done) {
			return o, true
		}
	}
	return Occurrence{}, false
}

// clock is the grid that a restored forecaster goes on with.
func (a *Auto) clock() (start time.Time, step time.Duration, loc *time.Location) {
	c := &a.m.past.clock
	return c.start, c.step, c.loc
}
