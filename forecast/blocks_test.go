package forecast

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBlocksAreKnownWhenTheHistoryAllows(t *testing.T) {
	zones := []*time.Location{nil, mustLocation(t, "Europe/Berlin"), mustLocation(t, "America/New_York")}
	rapid.Check(t, func(t *rapid.T) {
		c := BlockClock{
			Last:     monday.Add(time.Duration(rapid.IntRange(0, 400*24).Draw(t, "hours")) * time.Hour),
			Step:     rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 7 * time.Minute, time.Hour}).Draw(t, "step"),
			Steps:    rapid.IntRange(1, 30000).Draw(t, "steps"),
			Location: rapid.SampledFrom(zones).Draw(t, "zone"),
		}
		n, horizon := rapid.IntRange(1, 300).Draw(t, "n"), rapid.IntRange(1, 2000).Draw(t, "horizon")
		seed := rapid.Uint64().Draw(t, "seed")
		b := DrawBlocks(testRand(seed), c, n, horizon)
		if len(b.Ages) != n {
			t.Fatalf("%d ages", len(b.Ages))
		}
		for _, age := range b.Ages {
			if age < min(horizon, c.Steps-1) || age > c.Steps-1 {
				t.Fatalf("age %d, horizon %d, %d steps", age, horizon, c.Steps)
			}
		}
		if again := DrawBlocks(testRand(seed), c, n, horizon); !slices.Equal(b.Ages, again.Ages) {
			t.Fatal("the same seed gave other blocks")
		}
	})
}

func TestBlocksMixThisTimeOfDayWithTheLastHours(t *testing.T) {
	c := BlockClock{Last: monday.Add(21*day + 9*time.Hour), Step: time.Minute, Steps: 20*1440 + 500}
	ages := DrawBlocks(testRand(1), c, 400, 10).Ages
	near, recent, weekendDays := 0, 0, 0
	for _, age := range ages {
		offset := (age + 720) % 1440
		switch {
		case age <= 10+int(recentSpan/time.Minute):
			recent++
		case offset >= 720-20 && offset <= 720+20:
			near++
			if weekend(c.Last.Add(-time.Duration(age) * time.Minute).Weekday()) {
				weekendDays++
			}
		default:
			t.Errorf("age %d is neither near this time of day nor recent", age)
		}
	}
	if got := float64(near) / 400; got < clockShare-0.02 || got > clockShare+0.02 {
		t.Errorf("share of this time of day %v, want %v: the draw is stratified", got, clockShare)
	}
	if weekendDays == 0 || float64(weekendDays) > 0.2*float64(near) {
		t.Errorf("%d of %d origins are on weekends: few are wanted on a Monday, but some", weekendDays, near)
	}
}

// TestBlocksMoveWithTheClock: one step later every origin is one step later, so consecutive plans replay the same errors.
func TestBlocksMoveWithTheClock(t *testing.T) {
	c := BlockClock{Last: monday.Add(21*day + 9*time.Hour), Step: time.Minute, Steps: 20*1440 + 500}
	later := c
	later.Last, later.Steps = c.Last.Add(time.Minute), c.Steps+1
	a, b := DrawBlocks(testRand(5), c, 200, 10).Ages, DrawBlocks(testRand(5), later, 200, 10).Ages
	if !slices.Equal(a, b) {
		t.Errorf("ages changed with the clock:\n%v\n%v", a, b)
	}
}

func TestBlocksKeepTheWallClock(t *testing.T) {
	loc := mustLocation(t, "Europe/Berlin")
	// The Monday after the change in spring: yesterday at 09:00 was 24 hours ago, Saturday at 09:00 only 47.
	c := BlockClock{Last: time.Date(2024, 4, 1, 9, 0, 0, 0, loc), Step: time.Hour, Steps: 200, Location: loc}
	days := c.earlierDays(1)
	if days[0].age != 24 || days[1].age != 47 {
		t.Errorf("ages %d and %d, want 24 and 47", days[0].age, days[1].age)
	}
}

// TestBlockClockReachesNoFurtherThanMemory: forecasters forget what is older than DefaultHistory.
func TestBlockClockReachesNoFurtherThanMemory(t *testing.T) {
	for n, want := range map[int]int{100: 100, 28 * 24: 28 * 24, 365 * 24: 28 * 24} {
		s := Series{Start: monday, Step: time.Hour, Values: make([]float64, n)}
		if c := s.BlockClock(); c.Steps != want || !c.Last.Equal(s.TimeAt(n-1)) {
			t.Errorf("%d hours: clock %+v, want %d steps", n, c, want)
		}
	}
}
