package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Blocks says which stretch of past forecast errors each path of an Ensemble replays. Ages[i] is the age, in steps, of
// the origin whose error trajectory path i takes: the errors at origin+1 … origin+horizon, so an age below the horizon
// is only partly known. Series sampled with equal Blocks take their errors from the same moments and so stay joint
// (prompt and completion tokens rise together). Drawn by DrawBlocks; the choice depends on the clock and the seed only,
// never on a series' values.
type Blocks struct {
	Ages []int
}

// BlockClock is all that DrawBlocks may know about a series: the clock and how far back it reaches.
type BlockClock struct {
	Last     time.Time      // start of the last step seen, known or missing
	Step     time.Duration  // positive
	Steps    int            // length of the history in steps, the last one included
	Location *time.Location // where days and weekends are; nil means UTC
}

// BlockClock returns the clock of a forecast made at the end of s. It reaches back at most DefaultHistory: forecasters
// forget what is older, and a block that nobody remembers is no path of its own.
func (s Series) BlockClock() BlockClock {
	steps := min(s.Len(), max(1, int(DefaultHistory/s.Step)))
	return BlockClock{Last: s.TimeAt(s.Len() - 1), Step: s.Step, Steps: steps, Location: s.Location}
}

const (
	// clockShare is the share of paths that replay errors from this time of day; the others replay recent ones.
	clockShare = 0.4
	// clockSpread and recentSpan are how far around this time of day, and how far back, origins are taken, at least;
	// both grow with the horizon.
	clockSpread = 20 * time.Minute
	recentSpan  = 4 * time.Hour
	// otherClassWeight is the weight of an earlier day of the other class (weekend against weekday).
	otherClassWeight = 0.15
	// dayWeightDecay is the weight of a day relative to the day after it.
	dayWeightDecay = 0.95
	// golden is the fractional part of the golden ratio: its multiples, modulo one, stay evenly spread for every count.
	golden = 0.6180339887498949
)

// DrawBlocks draws n ages for forecasts of the given horizon, in steps.
//
// A share of clockShare takes origins near this time of day on earlier days, so that the errors before and through a
// 09:00 burst are replayed before the next 09:00; days of the same class (weekday or weekend) and later days are
// preferred, a spread around the time of day makes many origins out of few days. The others take origins from the last
// hours, which know the present error size. Ages are at least the horizon, so that the whole trajectory is known, unless
// the history is too short for any such origin; then ages are as large as the history allows.
//
// The draw is stratified: path i of n takes the i-th slice of both distributions, placed in it by one random rotation.
// The same rng state and clock give the same blocks, and a clock that moves by one step moves every origin by one step,
// so a plan does not flicker because other numbers were drawn. It panics when n or horizon is below 1, or the clock's
// Step or Steps is not positive. O(n + days).
func DrawBlocks(rng *rand.Rand, clock BlockClock, n, horizon int) Blocks {
	if n < 1 || horizon < 1 || clock.Step <= 0 || clock.Steps < 1 {
		panic(fmt.Sprintf("forecast: blocks for %d paths, horizon %d, step %v, %d steps: all must be positive",
			n, horizon, clock.Step, clock.Steps))
	}
	days := clock.earlierDays(horizon)
	turnClass, turn, turnSpread := rng.Float64(), rng.Float64(), rng.Float64()
	ages := make([]int, n)
	inClock, inRecent := 0, 0
	for i := range ages {
		// A golden-ratio sequence interleaves the two kinds, so that any stretch of paths holds both.
		if len(days) > 0 && frac(turnClass+float64(i)*golden) < clockShare {
			u := frac(turn + float64(inClock)*golden)
			v := frac(turnSpread + float64(inClock)*math.Sqrt2)
			ages[i] = clock.sameClockAge(days, u, v, horizon)
			inClock++
		} else {
			u := frac(turn + float64(inRecent)*golden)
			ages[i] = clock.recentAge(u, horizon)
			inRecent++
		}
	}
	return Blocks{Ages: ages}
}

// clockDay is an earlier day that origins may be taken from.
type clockDay struct {
	age        int     // of this time of day on that day
	cumulative float64 // weight of this and all later days
}

// earlierDays lists the days whose origin at this time of day is old enough to be known and young enough to be kept,
// latest first, with cumulative weights.
func (c BlockClock) earlierDays(horizon int) []clockDay {
	wall := newWallClock(c.Last, c.Step, c.Location)
	today := weekend(wall.weekday(1)) // the class of the first forecast step
	var days []clockDay
	total, weight := 0.0, 1.0
	for d := 1; ; d++ {
		age := -wall.sameTime(0, d)
		if age >= c.Steps {
			return days
		}
		weight *= dayWeightDecay
		if age < max(horizon, 1) {
			continue
		}
		w := weight
		if weekend(wall.weekday(1-age)) != today {
			w *= otherClassWeight
		}
		total += w
		days = append(days, clockDay{age: age, cumulative: total})
	}
}

// sameClockAge maps u to a day and v to a place around the time of day.
func (c BlockClock) sameClockAge(days []clockDay, u, v float64, horizon int) int {
	target := u * days[len(days)-1].cumulative
	at, _ := slices.BinarySearchFunc(days, target, func(d clockDay, t float64) int {
		if d.cumulative <= t {
			return -1
		}
		return 1
	})
	at = min(at, len(days)-1)
	spread := max(int(clockSpread/c.Step), (horizon+1)/2)
	age := days[at].age + int(math.Round((2*v-1)*float64(spread)))
	return c.clamp(age, horizon)
}

// recentAge maps u to an age between the horizon and recentSpan before that.
func (c BlockClock) recentAge(u float64, horizon int) int {
	span := max(int(recentSpan/c.Step), 4*horizon)
	span = max(1, min(span, c.Steps-horizon))
	return c.clamp(horizon+int(u*float64(span)), horizon)
}

// clamp keeps an age within the history, and at or above the horizon when the history is long enough.
func (c BlockClock) clamp(age, horizon int) int {
	return max(0, min(max(age, horizon), c.Steps-1))
}

func frac(x float64) float64 { return x - math.Floor(x) }
