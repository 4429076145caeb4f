package scaler

import "time"

// Clock is the time the loop lives in: the wall clock, or a simulated one that starts elsewhere and runs faster.
type Clock struct {
	origin  time.Time // wall time at which the clock showed base
	base    time.Time
	speed   float64
	virtual bool
	zone    *time.Location // nil leaves the zone as it is
}

// WallClock is the ordinary clock.
func WallClock() Clock { return Clock{speed: 1} }

// VirtualClock shows start now and runs speed times as fast as the wall clock. It panics when speed is not positive.
func VirtualClock(start time.Time, speed float64) Clock {
	if speed <= 0 {
		panic("scaler: a clock's speed must be positive")
	}
	return Clock{origin: time.Now(), base: start, speed: speed, virtual: true}
}

// In returns the same clock showing the time of a zone: what a plan says happens at 09:15 is read by people there, not by
// the machine.
func (c Clock) In(zone *time.Location) Clock {
	c.zone = zone
	return c
}

// Now is the time on this clock.
func (c Clock) Now() time.Time {
	now := time.Now()
	if c.virtual {
		now = c.base.Add(time.Duration(float64(time.Since(c.origin)) * c.speed))
	}
	if c.zone != nil {
		return now.In(c.zone)
	}
	return now
}

// Wall is how long d on this clock takes on the wall clock.
func (c Clock) Wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.speed)
}
