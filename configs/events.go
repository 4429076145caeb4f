package configs

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"forewarm/forecast"
)

// eventsFile is the YAML form of a forecast.Calendar.
type eventsFile struct {
	Timezone string         `yaml:"timezone"` // of entries without their own
	Events   []eventEntry   `yaml:"events"`
	Holidays []holidayEntry `yaml:"holidays"`
}

// entry is what events and holidays have in common.
type entry struct {
	Name          string        `yaml:"name"`
	Models        []string      `yaml:"models"`
	Timezone      string        `yaml:"timezone"`
	RRule         string        `yaml:"rrule"`
	RDates        []string      `yaml:"rdates"`
	ExDates       []string      `yaml:"exdates"`
	Multiplier    *float64      `yaml:"multiplier"`
	Learn         bool          `yaml:"learn"`
	WithdrawAfter time.Duration `yaml:"withdraw_after"`
}

type eventEntry struct {
	entry    `yaml:",inline"`
	Start    string        `yaml:"start"`
	Duration time.Duration `yaml:"duration"`
	RampUp   time.Duration `yaml:"ramp_up"`
	RampDown time.Duration `yaml:"ramp_down"`
}

type holidayEntry struct {
	entry `yaml:",inline"`
	Date  string `yaml:"date"`
	Days  *int   `yaml:"days"` // 1 when left out
	Like  string `yaml:"like"`
}

// ReadEvents reads a calendar of events and holidays; loc is the zone of a file that names none. Every problem is reported
// at once, with the file, the line of the entry, the key, the value and what is allowed.
func ReadEvents(name string, data []byte, loc *time.Location) (*forecast.Calendar, error) {
	var f eventsFile
	form := Decode(name, data, &f)
	if form != nil && !errors.Is(form, ErrForm) {
		return nil, form
	}
	r := eventsReader{name: name, lines: entryLines(data), errs: []error{form}}
	if f.Timezone != "" {
		named, err := time.LoadLocation(f.Timezone)
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: timezone is %q: %s", name, f.Timezone, zoneAllowed))
			named = loc
		}
		loc = named
	}
	for i, e := range f.Events {
		r.begin("events", i)
		out := r.event(e.entry, e.Start, "start", loc)
		out.Duration, out.RampUp, out.RampDown = e.Duration, e.RampUp, e.RampDown
		r.events = append(r.events, out)
	}
	for i, h := range f.Holidays {
		r.begin("holidays", i)
		out := r.event(h.entry, h.Date, "date", loc)
		if out.Days = 1; h.Days != nil {
			out.Days = *h.Days
			if out.Days < 1 {
				r.problem("days is %d: 1 to 31 are allowed", out.Days)
				out.Days = 1
			}
		}
		out.Like = r.weekday(h.Like)
		r.events = append(r.events, out)
	}
	return r.calendar()
}

const zoneAllowed = "an IANA name is allowed, such as Europe/Berlin"

// eventsReader gathers events and problems.
type eventsReader struct {
	name   string
	lines  map[string][]int
	at     string   // prefix of problems of the entry being read
	ats    []string // of each of events
	bad    []bool   // whether the entry had a problem that hides what the calendar would say of it
	events []forecast.Event
	errs   []error
}

// begin starts an entry of a list.
func (r *eventsReader) begin(list string, i int) {
	r.at = fmt.Sprintf("%s: %s[%d]", r.name, list, i)
	if lines := r.lines[list]; i < len(lines) {
		r.at = fmt.Sprintf("%s:%d: %s[%d]", r.name, lines[i], list, i)
	}
	r.ats, r.bad = append(r.ats, r.at), append(r.bad, false)
}

func (r *eventsReader) problem(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(r.at+": "+format, args...))
	r.bad[len(r.bad)-1] = true
}

// event translates what all entries have.
func (r *eventsReader) event(e entry, start, startKey string, loc *time.Location) forecast.Event {
	if e.Name != "" {
		r.at += fmt.Sprintf(" %q", e.Name)
		r.ats[len(r.ats)-1] = r.at
	}
	if e.Timezone != "" {
		own, err := time.LoadLocation(e.Timezone)
		if err != nil {
			r.problem("timezone is %q: %s", e.Timezone, zoneAllowed)
			own = loc
		}
		loc = own
	}
	out := forecast.Event{
		Name: e.Name, Models: e.Models, Start: r.time(startKey, start, loc), Recurrence: e.RRule, Learn: e.Learn,
		WithdrawAfter: e.WithdrawAfter,
	}
	for _, text := range e.RDates {
		out.Also = append(out.Also, r.time("rdates", text, loc))
	}
	for _, text := range e.ExDates {
		out.Except = append(out.Except, r.time("exdates", text, loc))
	}
	if e.Multiplier != nil {
		if out.Multiplier = *e.Multiplier; out.Multiplier == 0 {
			r.problem("multiplier is 0: a number from 0.01 to 100 is allowed")
		}
	}
	return out
}

// eventLayouts are how times without an offset may be written; with one they are RFC 3339.
var eventLayouts = []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly}

// time reads a time of an entry. One that the clock jumps over is refused: nobody can say what it means.
func (r *eventsReader) time(key, text string, loc *time.Location) time.Time {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.In(loc)
	}
	for _, layout := range eventLayouts {
		t, err := time.ParseInLocation(layout, text, loc)
		if err != nil {
			continue
		}
		if layout == time.DateOnly {
			if t.Format(layout) != text { // no midnight on that day
				_, t = t.ZoneBounds()
			}
			return t
		}
		if t.Format(layout) != text {
			r.problem("%s is %q, which the clock in %s jumps over", key, text, loc)
		}
		return t
	}
	r.problem("%s is %q: a time is allowed, such as 2026-03-02 09:00, 2026-03-02 or 2026-03-02T09:00:00+01:00", key, text)
	return time.Date(2000, 1, 1, 0, 0, 0, 0, loc)
}

// weekday reads the day that a holiday is like; nil when none is given.
func (r *eventsReader) weekday(text string) *time.Weekday {
	if text == "" {
		return nil
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(text, d.String()) {
			return &d
		}
	}
	r.problem("like is %q: a day of the week is allowed, such as sunday", text)
	return nil
}

// calendar checks the events and reports everything that was found. What an entry's own problems hide is not reported
// twice.
func (r *eventsReader) calendar() (*forecast.Calendar, error) {
	c, err := forecast.NewCalendar(r.events)
	var all interface{ Unwrap() []error }
	switch {
	case err == nil:
	case !errors.As(err, &all):
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.name, err))
	default:
		for _, e := range all.Unwrap() {
			var event *forecast.EventError
			if !errors.As(e, &event) || r.bad[event.Index] {
				continue
			}
			for _, line := range strings.Split(event.Err.Error(), "\n") {
				r.errs = append(r.errs, fmt.Errorf("%s: %s", r.ats[event.Index], line))
			}
		}
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// entryLines returns the line of each entry of the lists at the top of a document.
func entryLines(data []byte) map[string][]int {
	var document yaml.Node
	out := map[string][]int{}
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return out
	}
	top := document.Content[0]
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Kind != yaml.MappingNode || top.Content[i+1].Kind != yaml.SequenceNode {
			continue
		}
		for _, e := range top.Content[i+1].Content {
			out[top.Content[i].Value] = append(out[top.Content[i].Value], e.Line)
		}
	}
	return out
}
