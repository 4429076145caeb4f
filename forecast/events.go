package forecast

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Event is one entry of a Calendar: something that happens at known times and changes demand while it lasts, such as a
// launch, an all-hands or a holiday.
//
// An occurrence starts at a time that the recurrence makes. Its weight rises from 0 to 1 over RampUp from the start on,
// stays at 1 until Duration (or Days) after the start, and falls back to 0 over RampDown from there on. Demand is
// multiplied by 1 + (multiplier − 1)·weight; with Like by the ratio of two days of the week instead.
//
//	start 09:00, duration 1h, ramp up 10m, ramp down 20m, multiplier 3
//	08:55 ×1   09:05 ×2   09:10 ×3   09:59 ×3   10:10 ×2   10:20 ×1
//
// Exactly one of Multiplier, Learn and Like says how large the effect is, exactly one of Duration and Days how long it
// lasts.
type Event struct {
	// Name is what the occurrences have in common. Several entries may share it: they are learned from together, and
	// where two of one name overlap, only the one with the larger weight counts. They must agree in the effect.
	Name string

	// Models are the models concerned; empty means all.
	Models []string

	// Start is the first occurrence (RFC 5545 DTSTART, in whole seconds). Its Location is the wall clock that the
	// recurrence keeps: a 9 o'clock event stays at 9 across a daylight-saving change.
	Start time.Time

	// Recurrence is an RFC 5545 RRULE such as FREQ=WEEKLY;BYDAY=MO, without DTSTART; empty means once. Frequencies from
	// DAILY on are allowed, and Start must be one of the times that the rule makes.
	Recurrence string

	// Also and Except add and remove occurrences (RDATE, EXDATE) by their start. One of Except at local midnight removes
	// every occurrence that starts on its day.
	Also, Except []time.Time

	// Duration is how long an occurrence lasts; Days counts local days instead, of 23 to 25 hours, from midnight on.
	Duration time.Duration
	Days     int

	RampUp, RampDown time.Duration

	// Multiplier is stated, above 0: 2.4 for demand of two and a half times the usual, 0.3 for a third of it.
	Multiplier float64

	// Learn takes the multiplier from past occurrences of the same name (see Effects).
	Learn bool

	// Like makes the days behave as another day of the week usually does; it needs Days.
	Like *time.Weekday

	// WithdrawAfter is how much known demand since the start it takes until what was seen replaces what was expected: an
	// event that does not happen has no effect any more when that time has passed. Zero is DefaultWithdrawAfter.
	WithdrawAfter time.Duration
}

const (
	// DefaultWithdrawAfter is how long an announced event is believed against what is seen.
	DefaultWithdrawAfter = 15 * time.Minute

	// The limits of an Event. A longer event is a new normal, which forecasters learn by themselves.
	eventSpanMax       = 31 * day
	eventMultiplierMin = 0.01
	eventMultiplierMax = 100
	eventNameMax       = 200 // bytes
	eventTimesMax      = 1000
	eventsMax          = 1000
	withdrawAfterMin   = time.Minute
	eventYearMin       = 1970
	eventYearMax       = 2200
)

// Calendar is a checked set of events. It does not change and may be shared.
type Calendar struct{ events []*calendarEvent }

// calendarEvent is an event with its parsed recurrence.
type calendarEvent struct {
	Event
	rule *recurrence // nil means once
}

// EventError is all that is wrong with one event, by its index in what NewCalendar was given.
type EventError struct {
	Index int
	Name  string
	Err   error
}

// Error gives each problem a line that begins with the event.
func (e *EventError) Error() string {
	lines := strings.Split(e.Err.Error(), "\n")
	for i := range lines {
		lines[i] = fmt.Sprintf("event %d %q: %s", e.Index+1, e.Name, lines[i])
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems, joined.
func (e *EventError) Unwrap() error { return e.Err }

// NewCalendar checks events. It reports every problem at once, as joined EventErrors, with the field, its value and
// what is allowed. No events make a calendar without effect.
func NewCalendar(events []Event) (*Calendar, error) {
	c := &Calendar{}
	var errs []error
	if len(events) > eventsMax {
		return nil, fmt.Errorf("%d events, at most %d are allowed", len(events), eventsMax)
	}
	byName := map[string]Event{}
	for i, e := range events {
		e.WithdrawAfter = cmp.Or(e.WithdrawAfter, DefaultWithdrawAfter)
		problems := e.validate()
		rule, err := newRecurrence(e.Start, e.Recurrence)
		if err != nil {
			problems = append(problems, fmt.Errorf("rrule is %q: %w", e.Recurrence, err))
		}
		if first, ok := byName[e.Name]; !ok {
			byName[e.Name] = e
		} else if !first.sameEffect(e) {
			problems = append(problems, fmt.Errorf("the effect is %s, must be %s as in the earlier event of that name",
				e.effectText(), first.effectText()))
		}
		if err := errors.Join(problems...); err != nil {
			errs = append(errs, &EventError{Index: i, Name: e.Name, Err: err})
		}
		c.events = append(c.events, &calendarEvent{Event: e, rule: rule})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// validate reports every problem but those of the recurrence.
func (e *Event) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if e.Name == "" || len(e.Name) > eventNameMax || strings.ContainsAny(e.Name, "\n\r\t") {
		bad("name is %q, must be one line of 1 to %d bytes", e.Name, eventNameMax)
	}
	if slices.Contains(e.Models, "") {
		bad("models has an empty name")
	}
	if y := e.Start.Year(); y < eventYearMin || y > eventYearMax {
		bad("start is %s, must be from the year %d to %d", e.Start.Format(time.DateTime), eventYearMin, eventYearMax)
	}
	if n := len(e.Also) + len(e.Except); n > eventTimesMax {
		bad("%d added and removed occurrences, at most %d are allowed", n, eventTimesMax)
	}
	errs = append(errs, e.validateSpan()...)
	switch n := e.effects(); {
	case n != 1:
		bad("%d of multiplier, learn and like are given, must be exactly one", n)
	case e.Like != nil && e.Days == 0:
		bad("like %s needs days", *e.Like)
	case e.Like != nil && (*e.Like < time.Sunday || *e.Like > time.Saturday):
		bad("like is %d, must be a day of the week", *e.Like)
	case e.Multiplier != 0 && !(e.Multiplier >= eventMultiplierMin && e.Multiplier <= eventMultiplierMax):
		bad("multiplier is %v, must be from %v to %v", e.Multiplier, eventMultiplierMin, eventMultiplierMax)
	}
	if e.WithdrawAfter < withdrawAfterMin || e.WithdrawAfter > day {
		bad("withdraw_after is %v, must be from %v to %v", e.WithdrawAfter, withdrawAfterMin, day)
	}
	return errs
}

func (e *Event) validateSpan() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	longest := int(eventSpanMax / day)
	switch {
	case e.Duration != 0 && e.Days != 0:
		bad("duration %v and days %d, must be one of the two", e.Duration, e.Days)
	case e.Days < 0 || e.Days > longest:
		bad("days is %d, must be from 1 to %d", e.Days, longest)
	case e.Days == 0 && (e.Duration < time.Second || e.Duration > eventSpanMax):
		bad("duration is %v, must be from 1s to %v", e.Duration, eventSpanMax)
	}
	if e.Days != 0 {
		for _, t := range append([]time.Time{e.Start}, e.Also...) {
			if t = t.In(e.Start.Location()); !t.Equal(midnight(t)) {
				bad("start is %s, must be midnight for an event of days", t.Format(time.DateTime))
			}
		}
	}
	span := e.Start.Add(e.Duration).AddDate(0, 0, e.Days).Sub(e.Start)
	if e.RampUp < 0 || e.RampUp > span {
		bad("ramp_up is %v, must be from 0s to the length of the event", e.RampUp)
	}
	if e.RampDown < 0 || e.RampDown > eventSpanMax {
		bad("ramp_down is %v, must be from 0s to %v", e.RampDown, eventSpanMax)
	}
	return errs
}

// midnight is the first moment of the local day of t, which is not 00:00 where the clock jumps over it.
func midnight(t time.Time) time.Time {
	y, m, d := t.Date()
	first := time.Date(y, m, d, 0, 0, 0, 0, t.Location())
	if first.Day() != d {
		_, first = first.ZoneBounds()
	}
	return first
}

func (e *Event) effects() (n int) {
	for _, given := range []bool{e.Multiplier != 0, e.Learn, e.Like != nil} {
		if given {
			n++
		}
	}
	return n
}

func (e *Event) sameEffect(o Event) bool {
	return e.Multiplier == o.Multiplier && e.Learn == o.Learn && (e.Like == nil) == (o.Like == nil) &&
		(e.Like == nil || *e.Like == *o.Like)
}

// effectText says how large the effect is, as far as the calendar knows.
func (e *Event) effectText() string {
	switch {
	case e.Like != nil:
		return "like " + e.Like.String()
	case e.Learn:
		return "learned"
	}
	return fmt.Sprintf("×%v", e.Multiplier)
}

// concerns reports whether the event is about a model; a series without a model's name is concerned by those about all.
func (e *Event) concerns(model string) bool {
	return len(e.Models) == 0 || slices.Contains(e.Models, model)
}

// Models are the names that events of the calendar mention, sorted, without repeats.
func (c *Calendar) Models() []string {
	var out []string
	for _, e := range c.events {
		out = append(out, e.Models...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Concerns reports whether any event is about a model.
func (c *Calendar) Concerns(model string) bool {
	return slices.ContainsFunc(c.events, func(e *calendarEvent) bool { return e.concerns(model) })
}

// Unlearned lists the events about a model whose size is to be learned and that have no occurrence within [from, to),
// by name: a history of that stretch says nothing about them.
func (c *Calendar) Unlearned(model string, from, to time.Time) []string {
	seen := map[string]bool{}
	for _, o := range c.Occurrences(model, from, to) {
		seen[o.Name] = true
	}
	var out []string
	for _, e := range c.events {
		if e.Learn && e.concerns(model) && !seen[e.Name] {
			out = append(out, e.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Occurrence is one happening of an Event, from Start until Done, when the last of its ramp is over.
type Occurrence struct {
	Name             string
	Start, End, Done time.Time
	rampUp           time.Duration
	event            *calendarEvent
}

// Occurrences returns what concerns a model and has some weight inside [from, to), by start and then in the order of
// the events. The cost grows with the number of occurrences since each event's first.
func (c *Calendar) Occurrences(model string, from, to time.Time) []Occurrence {
	var out []Occurrence
	for _, e := range c.events {
		if !e.concerns(model) {
			continue
		}
		// The ramp is measured on the local day at both ends, which a change of the clock moves by an hour or two.
		reach := e.Duration + time.Duration(e.Days)*day + e.RampDown + 3*time.Hour
		for _, start := range e.starts(from.Add(-reach), to) {
			if o := e.occurrence(start); o.Done.After(from) && o.Start.Before(to) {
				out = append(out, o)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Occurrence) int { return a.Start.Compare(b.Start) })
	return out
}

func (e *calendarEvent) occurrence(start time.Time) Occurrence {
	end := start.Add(e.Duration)
	if e.Days > 0 {
		noon := start.Add(12 * time.Hour) // which no clock jumps over
		start, end = midnight(noon), midnight(noon.AddDate(0, 0, e.Days))
	}
	return Occurrence{
		Name: e.Name, Start: start, End: end, Done: end.Add(e.RampDown), rampUp: min(e.RampUp, end.Sub(start)), event: e,
	}
}

// starts returns the starts of occurrences inside [from, to], ascending.
func (e *calendarEvent) starts(from, to time.Time) []time.Time {
	var out []time.Time
	if e.rule != nil {
		out = e.rule.between(from, to)
	} else if !e.Start.Before(from) && !e.Start.After(to) {
		out = []time.Time{e.Start}
	}
	for _, t := range e.Also {
		if !t.Before(from) && !t.After(to) {
			out = append(out, t.In(e.Start.Location()))
		}
	}
	out = slices.DeleteFunc(out, e.excepted)
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}

func (e *calendarEvent) excepted(start time.Time) bool {
	for _, x := range e.Except {
		x = x.In(e.Start.Location())
		if x.Equal(start) || x.Equal(midnight(x)) && midnight(x).Equal(midnight(start)) {
			return true
		}
	}
	return false
}

// Weight returns the mean weight of the occurrence over [from, to), between 0 and 1.
func (o Occurrence) Weight(from, to time.Time) float64 {
	if !to.After(from) {
		return 0
	}
	w := (o.weightUntil(to) - o.weightUntil(from)) / to.Sub(from).Seconds()
	return math.Max(0, math.Min(1, w)) // rounding
}

// weightUntil is the integral of the weight up to t, in seconds.
func (o Occurrence) weightUntil(t time.Time) float64 {
	since := t.Sub(o.Start)
	if since <= 0 {
		return 0
	}
	sum := 0.0
	if up := min(since, o.rampUp); up > 0 {
		sum += up.Seconds() / 2 * (float64(up) / float64(o.rampUp))
	}
	if full := min(t.Sub(o.Start), o.End.Sub(o.Start)) - o.rampUp; full > 0 {
		sum += full.Seconds()
	}
	if ramp := o.Done.Sub(o.End); ramp > 0 {
		if down := min(t.Sub(o.End), ramp); down > 0 {
			sum += down.Seconds() * (1 - float64(down)/float64(ramp)/2)
		}
	}
	return sum
}
