package forecast

import (
	"math"
	"time"
)

// SameTime returns the index of the step that has the wall-clock time of step i in s.Location, days days earlier. The
// result may lie outside the series (it is negative when the series began later), and days may be negative.
//
// Over a daylight-saving change the result is not i minus a whole number of days: the day of the change has 23 or 25
// hours. A wall-clock time that happened twice on the earlier day resolves to the occurrence with step i's own offset
// from UTC, else to the second one; one that never happened resolves to the instant as far after the jump (02:30
// becomes 03:30). When Step does not divide the day, the result is the step that contains that instant.
func (s Series) SameTime(i, days int) int {
	c := newWallClock(s.Start, s.Step, s.Location)
	return c.sameTime(i, days)
}

// wallClock maps step indexes to local time and back. It remembers the zone last used, because time.Time arithmetic per
// step of each path would cost more than the whole rest of a forecast.
type wallClock struct {
	start time.Time
	step  time.Duration
	loc   *time.Location

	zone   zone
	perDay int // steps per day when offset and grid allow plain subtraction everywhere, else 0
}

// zone is a stretch [from, to), in Unix seconds, with one offset from UTC.
type zone struct {
	from, to int64
	offset   time.Duration
}

const day = 24 * time.Hour

func newWallClock(start time.Time, step time.Duration, loc *time.Location) wallClock {
	if loc == nil {
		loc = time.UTC
	}
	c := wallClock{start: start, step: step, loc: loc}
	c.zone = c.zoneAt(start.Unix())
	if c.zone.from == math.MinInt64 && c.zone.to == math.MaxInt64 && day%step == 0 {
		c.perDay = int(day / step)
	}
	return c
}

// zoneAt looks up the zone in force at a Unix time.
func (c *wallClock) zoneAt(unix int64) zone {
	t := time.Unix(unix, 0).In(c.loc)
	from, to := t.ZoneBounds()
	z := zone{from: math.MinInt64, to: math.MaxInt64}
	if !from.IsZero() {
		z.from = from.Unix()
	}
	if !to.IsZero() {
		z.to = to.Unix()
	}
	_, seconds := t.Zone()
	z.offset = time.Duration(seconds) * time.Second
	return z
}

// offset returns the offset from UTC at an instant given as the time since c.start.
func (c *wallClock) offset(since time.Duration) time.Duration {
	unix := c.start.Unix() + int64(floorDiv(int64(since)+int64(c.start.Nanosecond()), int64(time.Second)))
	if unix < c.zone.from || unix >= c.zone.to {
		c.zone = c.zoneAt(unix)
	}
	return c.zone.offset
}

// sameTime implements Series.SameTime.
func (c *wallClock) sameTime(i, days int) int {
	if c.perDay > 0 {
		return i - days*c.perDay
	}
	at := time.Duration(i) * c.step
	own := c.offset(at)
	target := at + own - time.Duration(days)*day // the wanted reading of the wall clock, on the scale of c.start
	first := target - own
	other := c.offset(first)
	if other == own {
		return int(floorDiv(int64(first), int64(c.step)))
	}
	second := target - other
	if c.offset(second) != other {
		second = max(first, second) // the reading was jumped over
	}
	return int(floorDiv(int64(second), int64(c.step)))
}

// localDay returns the local day of the week at the start of step i, and how many steps, from i on, start before the day
// ends; at least 1.
func (c *wallClock) localDay(i int) (weekday time.Weekday, steps int) {
	at := time.Duration(i) * c.step
	own := c.offset(at)
	local := c.start.Unix() + floorDiv(int64(at+own), int64(time.Second))
	const secondsPerDay = int64(day / time.Second)
	days := floorDiv(local, secondsPerDay)
	left := time.Duration((days+1)*secondsPerDay-local) * time.Second
	left = max(1, left+own-c.offset(at+left-1)) // a day on which the clock is changed has 23 or 25 hours
	const thursday = 4                          // the first day of Unix time
	return time.Weekday((((days + thursday) % 7) + 7) % 7), int((left + c.step - 1) / c.step)
}

// weekday returns the local day of the week at the start of step i.
func (c *wallClock) weekday(i int) time.Weekday {
	d, _ := c.localDay(i)
	return d
}

// weekend reports whether two days are of one class when both are, or both are not, weekend.
func weekend(d time.Weekday) bool { return d == time.Saturday || d == time.Sunday }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// local returns the local day of the week at the start of step i and the seconds since local midnight.
func (c *wallClock) local(i int) (weekday, seconds int) {
	at := time.Duration(i) * c.step
	local := c.start.Unix() + floorDiv(int64(at+c.offset(at)), int64(time.Second))
	const secondsPerDay = int64(day / time.Second)
	days := floorDiv(local, secondsPerDay)
	const thursday = 4 // the first day of Unix time
	return int(((days+thursday)%7 + 7) % 7), int(local - days*secondsPerDay)
}
