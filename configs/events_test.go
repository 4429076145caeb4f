package configs

import (
	"strings"
	"testing"
	"time"
)

func TestReadEvents(t *testing.T) {
	data, err := Example("events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadEvents("events.yaml", data, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := func(month time.Month, d int) time.Time { return time.Date(2026, month, d, 0, 0, 0, 0, berlin) }
	for _, tt := range []struct {
		model    string
		from, to time.Time
		want     string
	}{
		{"chat-70b", day(1, 5), day(1, 13), "all-hands 01-05T09:00 10:10, launch 01-08T14:00 19:00, all-hands 01-12T09:00 10:10"},
		{"code-7b", day(2, 5), day(2, 6), ""},
		{"chat-70b", day(2, 5), day(2, 6), "launch 02-05T15:00 20:00"},
		{"code-7b", day(3, 30), day(4, 7), "all-hands 03-30T09:00 10:10"}, // 9 o'clock in summer too, and not on 6 April
		{"code-7b", time.Date(2027, 5, 1, 0, 0, 0, 0, berlin), time.Date(2027, 5, 2, 0, 0, 0, 0, berlin), "Labour Day 05-01T00:00 00:00"},
		{"code-7b", time.Date(2027, 1, 1, 3, 0, 0, 0, berlin), time.Date(2027, 1, 1, 4, 0, 0, 0, berlin), ""},
		{"code-7b", day(12, 31), day(12, 31).Add(time.Hour), "year-end 12-24T00:00 00:00"},
	} {
		var got []string
		for _, o := range c.Occurrences(tt.model, tt.from, tt.to) {
			got = append(got, o.Name+" "+o.Start.Format("01-02T15:04")+" "+o.Done.Format("15:04"))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s from %s: %q, want %q", tt.model, tt.from.Format(time.DateOnly), strings.Join(got, ", "), tt.want)
		}
	}
	gap, err := ReadEvents("gap", []byte("holidays: [{name: x, date: 2018-11-04, timezone: America/Sao_Paulo, learn: true}]"), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range gap.Occurrences("", day(-120, 1), day(1, 1)) {
		got = append(got, o.Start.Format(time.RFC3339), o.End.Format(time.RFC3339))
	}
	if strings.Join(got, " ") != "2018-11-04T01:00:00-02:00 2018-11-05T00:00:00-02:00" {
		t.Errorf("a day without midnight is %q", got)
	}
	local, err := ReadEvents("local", []byte("events: [{name: x, start: 2026-07-01 09:00, duration: 1h, learn: true}]"), berlin)
	if err != nil {
		t.Fatal(err)
	}
	nine := time.Date(2026, 7, 1, 7, 0, 0, 0, time.UTC)
	if o := local.Occurrences("", nine, nine.Add(time.Minute)); len(o) != 1 || !o[0].Start.Equal(nine) {
		t.Errorf("a file without a zone takes that of its reader; it has %v", o)
	}
	if got := strings.Join(c.Models(), ","); got != "chat-70b" {
		t.Errorf("models %s", got)
	}
	if c, err := ReadEvents("empty", nil, time.UTC); err != nil || c.Concerns("x") {
		t.Errorf("an empty file gives %v, %v", c, err)
	}
}

func TestReadEventsSaysEveryProblem(t *testing.T) {
	_, err := ReadEvents("e.yaml", []byte(`timezone: Mars/Olympus
events:
  - {name: a, start: soon, duration: 1h, multiplier: 2}
  - name: b
    start: 2026-01-05 09:00
    rrule: FREQ=WEEKLY;BYDAY=TU
    duration: 0s
    multiplier: 300
  - {name: c, start: 2026-01-05 09:00, duration: 60, learn: true}
  - {name: d, start: 2026-03-29 02:30, timezone: Europe/Berlin, duration: 1h, learn: true}
  - {name: e, start: 2026-03-29, duration: 1h, lern: true, multiplier: 0}
  - {start: 2026-03-29, rrule: FREQ=HOURLY, duration: 1h, learn: true, multiplier: 2}
holidays:
  - {name: f, date: 2026-05-01, like: funday}
  - {name: g, date: 2026-05-01, days: 0, like: sunday, timezone: Venus}
  - {name: h, date: 2026-05-01 08:00, like: sunday}
  - {name: a, date: 2026-05-01, multiplier: 0.5, days: 40}
`), time.UTC)
	if err == nil {
		t.Fatal("accepted")
	}
	want := `e.yaml:9: "60" is not a duration: a number with a unit is allowed, such as 30s, 5m or 1h30m
e.yaml:11: unknown key "lern" (did you mean "learn"?)
e.yaml: timezone is "Mars/Olympus": an IANA name is allowed, such as Europe/Berlin
e.yaml:3: events[0] "a": start is "soon": a time is allowed, such as 2026-03-02 09:00, 2026-03-02 or 2026-03-02T09:00:00+01:00
e.yaml:10: events[3] "d": start is "2026-03-29 02:30", which the clock in Europe/Berlin jumps over
e.yaml:11: events[4] "e": multiplier is 0: a number from 0.01 to 100 is allowed
e.yaml:14: holidays[0] "f": like is "funday": a day of the week is allowed, such as sunday
e.yaml:15: holidays[1] "g": timezone is "Venus": an IANA name is allowed, such as Europe/Berlin
e.yaml:15: holidays[1] "g": days is 0: 1 to 31 are allowed
e.yaml:4: events[1] "b": duration is 0s, must be from 1s to 744h0m0s
e.yaml:4: events[1] "b": multiplier is 300, must be from 0.01 to 100
e.yaml:4: events[1] "b": rrule is "FREQ=WEEKLY;BYDAY=TU": the start must be one of the times that it makes; it is Mon 2026-01-05 09:00:00, the first is Tue 2026-01-06 09:00:00
e.yaml:9: events[2] "c": duration is 0s, must be from 1s to 744h0m0s
e.yaml:12: events[5]: name is "", must be one line of 1 to 200 bytes
e.yaml:12: events[5]: 2 of multiplier, learn and like are given, must be exactly one
e.yaml:12: events[5]: rrule is "FREQ=HOURLY": FREQ=HOURLY is too often for an event, must be DAILY, WEEKLY, MONTHLY or YEARLY
e.yaml:16: holidays[2] "h": start is 2026-05-01 08:00:00, must be midnight for an event of days
e.yaml:17: holidays[3] "a": days is 40, must be from 1 to 31
e.yaml:17: holidays[3] "a": the effect is ×0.5, must be ×2 as in the earlier event of that name`
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzReadEvents(f *testing.F) {
	if data, err := Example("events.yaml"); err == nil {
		f.Add(data)
	}
	f.Add([]byte("events: [{name: a, start: 2026-01-05 09:00, rrule: 'FREQ=MONTHLY;BYDAY=-1FR;BYSETPOS=-1', duration: 1h, learn: true}]"))
	f.Add([]byte("events: [{name: a, start: 1970-01-01, rrule: 'FREQ=DAILY;UNTIL=20301231', rdates: [2026-01-01 10:00], exdates: [2026-01-01], duration: 744h, ramp_up: 1h, ramp_down: 744h, multiplier: 0.01}]"))
	f.Add([]byte("holidays: [{name: x, date: 2024-02-29, rrule: FREQ=YEARLY, like: Monday, days: 31, timezone: America/New_York}]"))
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadEvents("f", data, time.UTC)
		if err != nil {
			return
		}
		last := time.Time{}
		for _, o := range c.Occurrences("m", from, from.AddDate(0, 1, 0)) {
			if o.Start.Before(last) || o.End.Before(o.Start) || o.Done.Before(o.End) || !o.Done.After(from) {
				t.Fatalf("occurrence %+v after %v", o, last)
			}
			last = o.Start
			if w := o.Weight(o.Start, o.Done); !(w >= 0 && w <= 1) {
				t.Fatalf("weight %v of %+v", w, o)
			}
		}
	})
}
