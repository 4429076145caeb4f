package forecast

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustLocation(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// changes are instants shortly before daylight-saving changes of 2024.
var changes = []struct {
	zone string
	at   time.Time
}{
	{"Europe/Berlin", time.Date(2024, 3, 31, 1, 0, 0, 0, time.UTC)},
	{"Europe/Berlin", time.Date(2024, 10, 27, 1, 0, 0, 0, time.UTC)},
	{"America/New_York", time.Date(2024, 3, 10, 7, 0, 0, 0, time.UTC)},
	{"America/New_York", time.Date(2024, 11, 3, 6, 0, 0, 0, time.UTC)},
}

// TestSameTimeReadsTheSameOnTheWall compares SameTime with a search over all steps for the wall-clock reading.
func TestSameTimeReadsTheSameOnTheWall(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(changes).Draw(rt, "change")
		loc := mustLocation(t, c.zone)
		step := rapid.SampledFrom([]time.Duration{10 * time.Minute, 15 * time.Minute, time.Hour}).Draw(rt, "step")
		s := Series{Start: c.at.Add(-9 * day), Step: step, Location: loc}
		i := rapid.IntRange(int(8*day/step), int(12*day/step)).Draw(rt, "i")
		days := rapid.IntRange(1, 5).Draw(rt, "days")

		y, m, d := s.TimeAt(i).In(loc).Date()
		hh, mm, _ := s.TimeAt(i).In(loc).Clock()
		var matches []int
		for j := -int(2 * day / step); j < i; j++ {
			at := s.TimeAt(j).In(loc)
			ay, am, ad := at.Date()
			wy, wm, wd := time.Date(y, m, d-days, 12, 0, 0, 0, time.UTC).Date()
			if h, n, _ := at.Clock(); ay == wy && am == wm && ad == wd && h == hh && n == mm {
				matches = append(matches, j)
			}
		}
		got := s.SameTime(i, days)
		if len(matches) == 0 { // jumped over: one hour later on the wall
			if h, n, _ := s.TimeAt(got).In(loc).Clock(); h != hh+1 || n != mm {
				rt.Fatalf("%v, %d days back: jumped to %v", s.TimeAt(i).In(loc), days, s.TimeAt(got).In(loc))
			}
			return
		}
		for _, j := range matches {
			if j == got {
				return
			}
		}
		rt.Fatalf("%v, %d days back: %v", s.TimeAt(i).In(loc), days, s.TimeAt(got).In(loc))
	})
}

func TestSameTimeAmbiguousTakesOwnOffset(t *testing.T) {
	loc := mustLocation(t, "Europe/Berlin")
	s := Series{Start: time.Date(2024, 10, 26, 0, 0, 0, 0, time.UTC), Step: 30 * time.Minute, Location: loc}
	i := int(time.Date(2024, 10, 28, 1, 30, 0, 0, time.UTC).Sub(s.Start) / s.Step) // Monday 02:30 +01:00
	if got, want := s.TimeAt(s.SameTime(i, 1)), time.Date(2024, 10, 27, 1, 30, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("02:30 happened twice: got %v, want the second, %v", got, want)
	}
}

func TestSameTimeWithoutZoneAndOddSteps(t *testing.T) {
	s := Series{Start: monday, Step: 7 * time.Minute}
	if got, want := s.SameTime(1000, 1), 1000-206; got != want { // 24 h are 205.7 steps
		t.Errorf("got %d, want %d, the step that contains the instant", got, want)
	}
	s.Step = time.Minute
	if got := s.SameTime(10, 1); got != 10-1440 {
		t.Errorf("got %d before the series began", got)
	}
}

func TestWeekdayIsLocal(t *testing.T) {
	c := newWallClock(monday, time.Hour, mustLocation(t, "America/New_York"))
	if d := c.weekday(0); d != time.Sunday {
		t.Errorf("midnight UTC on Monday is %v in New York", d)
	}
	if d := c.weekday(5); d != time.Monday {
		t.Errorf("05:00 UTC on Monday is %v in New York", d)
	}
}
