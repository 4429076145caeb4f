package forecast

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

const (
	recurrenceTextMax   = 500 // bytes
	recurrenceStepMax   = 1000
	recurrenceClocksMax = 24 // times a day
)

// recurrence is a parsed RFC 5545 rule with its start. The library computes on the reading of the wall clock, held as
// if it were UTC, because it misplaces days whose midnight a zone jumps over; the zone is put back afterwards.
type recurrence struct {
	rule *rrule.RRule
	loc  *time.Location
}

// reading is what the wall clock in loc shows at t, as if it were UTC.
func reading(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// instant is the first moment at which the wall clock in loc shows a reading, or as far after the jump for one that it
// jumps over.
func instant(reading time.Time, loc *time.Location) time.Time {
	y, m, d := reading.Date()
	t := time.Date(y, m, d, reading.Hour(), reading.Minute(), reading.Second(), 0, loc)
	if shown := t.Hour()*3600 + t.Minute()*60 + t.Second(); shown == reading.Hour()*3600+reading.Minute()*60+reading.Second() {
		return t
	}
	_, jump := t.ZoneBounds()
	_, before := t.Zone()
	if _, after := jump.Zone(); !jump.IsZero() && after > before && jump.Sub(t) <= time.Duration(after-before)*time.Second {
		return t.Add(time.Duration(after-before) * time.Second) // Go went back from the jump instead of on
	}
	return t
}

// newRecurrence parses a rule; an empty one is nil. What would take the library for ever, or make an event of every
// minute, is refused.
func newRecurrence(start time.Time, text string) (*recurrence, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > recurrenceTextMax {
		return nil, fmt.Errorf("%d bytes, at most %d are allowed", len(text), recurrenceTextMax)
	}
	if strings.Contains(strings.ToUpper(text), "DTSTART") || strings.Contains(text, "\n") {
		return nil, errors.New("must be one RRULE without DTSTART, which is the start")
	}
	opts, err := rrule.StrToROptionInLocation(strings.ToUpper(text), start.Location())
	if err != nil {
		return nil, fmt.Errorf("must be an RFC 5545 rule such as FREQ=WEEKLY;BYDAY=MO: %w", err)
	}
	clocks := max(1, len(opts.Byhour)) * max(1, len(opts.Byminute)) * max(1, len(opts.Bysecond))
	switch {
	case opts.Freq > rrule.DAILY:
		return nil, fmt.Errorf("FREQ=%s is too often for an event, must be DAILY, WEEKLY, MONTHLY or YEARLY", opts.Freq)
	case opts.Interval < 0 || opts.Interval > recurrenceStepMax:
		return nil, fmt.Errorf("INTERVAL is %d, must be from 1 to %d", opts.Interval, recurrenceStepMax)
	case opts.Count < 0:
		return nil, fmt.Errorf("COUNT is %d, must not be negative", opts.Count)
	case opts.Count > 0 && !opts.Until.IsZero():
		return nil, errors.New("COUNT and UNTIL, must be at most one of the two")
	case clocks > recurrenceClocksMax:
		return nil, fmt.Errorf("%d times a day, at most %d are allowed", clocks, recurrenceClocksMax)
	}
	opts.Dtstart = reading(start, start.Location())
	if !opts.Until.IsZero() {
		opts.Until = reading(opts.Until, start.Location())
	}
	if dateUntil.MatchString(strings.ToUpper(text)) {
		// A date means all of that day; the library takes its first moment.
		opts.Until = opts.Until.AddDate(0, 0, 1).Add(-time.Second)
	}
	rule, err := rrule.NewRRule(*opts)
	if err != nil {
		return nil, err
	}
	return startsRight(rule, opts, start)
}

var dateUntil = regexp.MustCompile(`UNTIL=\d{8}(;|$)`)

// startsRight refuses a rule that does not make its own start: RFC 5545 leaves open what that means.
func startsRight(rule *rrule.RRule, opts *rrule.ROption, start time.Time) (*recurrence, error) {
	if y := start.Year(); y < eventYearMin || y > eventYearMax {
		return nil, errors.New("the start is out of range")
	}
	const layout = "Mon 2006-01-02 15:04:05"
	if !opts.Until.IsZero() && opts.Until.Before(opts.Dtstart) {
		return nil, fmt.Errorf("UNTIL is %s, before the start", opts.Until.Format(layout))
	}
	switch first, ok := rule.Iterator()(); {
	case !ok:
		return nil, errors.New("it makes no time at all")
	case !first.Equal(opts.Dtstart):
		return nil, fmt.Errorf("the start must be one of the times that it makes; it is %s, the first is %s",
			opts.Dtstart.Format(layout), first.Format(layout))
	}
	return &recurrence{rule, start.Location()}, nil
}

// between returns the times that the rule makes inside [from, to], ascending. O(occurrences since the start).
func (r *recurrence) between(from, to time.Time) []time.Time {
	var out []time.Time
	rule := *r.rule // the library notes in it how far it came
	for _, t := range rule.Between(reading(from, r.loc).Add(-day), reading(to, r.loc).Add(day), true) {
		if at := instant(t, r.loc); !at.Before(from) && !at.After(to) {
			out = append(out, at)
		}
	}
	return out
}
