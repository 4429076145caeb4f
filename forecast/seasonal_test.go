package forecast

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestReferenceRunsAgainstPlainWallClock checks the shortcut of lagRun: every point forecast across midnights, gaps and
// changes of the clock equals the mean found by asking SameTime for each step and day.
func TestReferenceRunsAgainstPlainWallClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := rapid.SampledFrom(changes).Draw(rt, "change")
		step := rapid.SampledFrom([]time.Duration{10 * time.Minute, 7 * time.Minute, time.Hour}).Draw(rt, "step")
		s := Series{Start: c.at.Add(-8 * day), Step: step, Location: mustLocation(t, c.zone)}
		s.Values = make([]float64, int(14*day/step))
		hole := rapid.IntRange(2, 20).Draw(rt, "hole")
		for i := range s.Values {
			s.Values[i] = float64(i)
			if i > 0 && i%hole == 0 {
				s.Values[i] = nan
			}
		}
		h, err := newHistory(s, DefaultHistory)
		if err != nil {
			rt.Fatal(err)
		}
		rule := rapid.SampledFrom([]seasonRule{seasonDay, seasonWeekday, seasonWeek}).Draw(rt, "rule")
		days := rapid.SampledFrom(seasonDayCounts).Draw(rt, "days")
		m := newSeasonalNaive(h, rule, adjustNone, days)
		origin := rapid.IntRange(0, h.last()).Draw(rt, "origin")
		dst := make([]float64, rapid.IntRange(1, int(36*time.Hour/step)).Draw(rt, "horizon"))
		m.points(h, origin, dst)
		for k, got := range dst {
			sum, n := 0.0, 0
			today := s.TimeAt(origin + 1 + k).In(s.Location).Weekday()
			for _, back := range seasonLags(rule, today) {
				if r := s.SameTime(origin+1+k, back); n < days && r >= 0 && r <= origin && !math.IsNaN(s.Values[r]) {
					sum, n = sum+s.Values[r], n+1
				}
			}
			want := h.carried[origin]
			if n > 0 {
				want = sum / float64(n)
			}
			if got != want {
				rt.Fatalf("origin %d step %d: %v, want %v", origin, k+1, got, want)
			}
		}
	})
}

func TestSeasonLags(t *testing.T) {
	for _, c := range []struct {
		rule  seasonRule
		today time.Weekday
		want  []int
	}{
		{seasonDay, time.Monday, []int{1, 3, 4, 5, 6, 7}}, // Sunday, then Friday to Monday
		{seasonWeekday, time.Monday, []int{3, 4, 5, 6, 7}},
		{seasonWeekday, time.Saturday, []int{6, 7, 13, 14}},
		{seasonWeek, time.Wednesday, []int{7, 14, 21, 28, 1, 2, 5}},
	} {
		got := seasonLags(c.rule, c.today)
		seen := map[int]bool{}
		for _, back := range got {
			seen[back] = true
		}
		if len(got) != seasonDaysMax || len(seen) != seasonDaysMax {
			t.Errorf("rule %d on %v: %v does not name every day once", c.rule, c.today, got)
		}
		for j, back := range c.want {
			if got[j] != back {
				t.Errorf("rule %d on %v: %v, want it to begin %v", c.rule, c.today, got, c.want)
				break
			}
		}
	}
}
