package forecast

import (
	"math"
	"time"
)

// seasons takes a series apart, one value at a time, into a level and shapes of the day and the week in local time:
//
//	z(t) = level(t) + shape(t) + remainder(t)
//
// in the manner of STL (Cleveland et al. 1990) but forward only, so that nothing is learned from the future. The level
// moves slowly, and fast when the remainder stays on one side (Trigg and Leach 1967), which is how a new level is told
// from a busy hour. A remainder teaches the shapes only up to seasonClip times its usual size: an outage or a burst
// does not become a season.
type seasons struct {
	day   profile // at the step of the series, at most one bin a minute; a working day, then a day of the weekend
	broad profile // the day again in bins of ten minutes: less noise, less detail
	week  profile

	level   float64
	lean    float64 // smoothed remainder: far from zero when the level has moved
	size    float64 // mean absolute remainder
	learned int

	slow, fast, leanShare, sizeShare float64 // smoothing
	half                             float64 // half a step, in seconds
	dayFine, fine                    bool    // steps are finer than the bins of the day, of the other shapes

	// misfit is the mean squared distance of the values from the level plus no shape, day, broad, week. The shape in
	// use is their blend, the better ones weighing more; where no shape helps it is flat.
	misfit [4]float64
	blend  [4]float64
}

const (
	seasonClip   = 4.0
	dayGain      = 0.12 // what a day teaches, once several are known
	weekGain     = 0.3
	blendPower   = 6
	minutesADay  = 1440
	broadBins    = 144
	weekBins     = 7 * broadBins
	secondsADay  = int(day / time.Second)
	levelSlow    = 12 * time.Hour
	levelFast    = 8 * time.Minute
	leanOver     = 10 * time.Minute
	leanStepsMin = 3.0
)

// profile is a shape over a period, in bins.
type profile struct {
	shape []float32
	count []uint8
	gain  float64
}

func newProfile(bins int, gain float64) profile {
	return profile{shape: make([]float32, bins), count: make([]uint8, bins), gain: gain}
}

// spot is a place on a profile: between the centre of a bin and that of the next.
type spot struct {
	bin, next int32
	share     float32 // of the way to the next
}

// spot returns the place of a share of the period. A step as long as a bin, or longer, lies in the middle of one.
func (p *profile) spot(turn float64, fine bool) spot {
	n := len(p.shape)
	if fine {
		turn -= 0.5 / float64(n)
	}
	at := math.Floor(turn * float64(n))
	s := spot{bin: int32((int(at) + n) % n), next: int32((int(at) + 1 + n) % n)}
	if fine {
		s.share = float32(turn*float64(n) - at)
	}
	return s
}

func (p *profile) at(s spot) float64 {
	a := p.shape[s.bin]
	return float64(a + s.share*(p.shape[s.next]-a))
}

func (p *profile) learn(s spot, remainder float64) {
	bin := s.bin
	if s.share > 0.5 {
		bin = s.next
	}
	if n := p.count[bin]; n < math.MaxUint8 {
		p.count[bin]++
	}
	p.shape[bin] += float32(max(p.gain, 1/float64(p.count[bin])) * remainder)
}

func newSeasons(step time.Duration) *seasons {
	bins := func(span time.Duration, most int) int {
		return max(1, min(most, int(span/step)))
	}
	s := &seasons{
		day: newProfile(2*bins(day, minutesADay), dayGain), broad: newProfile(bins(day, broadBins), dayGain),
		week: newProfile(bins(7*day, weekBins), weekGain),
	}
	share := func(over time.Duration, least float64) float64 { return 1 / max(least, float64(over)/float64(step)) }
	s.slow, s.fast = share(levelSlow, 12), share(levelFast, 2)
	s.leanShare, s.sizeShare = share(leanOver, leanStepsMin), share(day, 50)
	s.blend[0] = 1
	s.half = min(step, day).Seconds() / 2
	s.dayFine, s.fine = step < 2*day/time.Duration(len(s.day.shape)), step < day/time.Duration(len(s.broad.shape))
	return s
}

// place is where a step lies in the three shapes, and in the hour.
type place struct {
	day, broad, week spot
	hour             int // seconds into it
}

func (s *seasons) place(c *wallClock, i int) place {
	weekday, seconds := c.local(i)
	turn := (float64(seconds) + s.half) / float64(secondsADay)
	class := 0.0
	if weekend(time.Weekday(weekday)) {
		class = 1
	}
	return place{day: s.day.spot((class+turn)/2, s.dayFine), broad: s.broad.spot(turn, s.fine),
		week: s.week.spot((float64(weekday)+turn)/7, s.fine), hour: seconds % 3600}
}

// clockBin returns which of n parts of the local day a place lies in.
func (s *seasons) clockBin(at place, n int) int { return int(at.broad.bin) * n / len(s.broad.shape) }

// shape returns the blended shape at a place.
func (s *seasons) shape(at place) float64 {
	return s.blend[1]*s.day.at(at.day) + s.blend[2]*s.broad.at(at.broad) + s.blend[3]*s.week.at(at.week)
}

// learn takes in the value of the step at a place.
func (s *seasons) learn(at place, z float64) {
	if s.learned == 0 {
		s.level = z
	}
	s.learned++
	share := max(s.sizeShare, 1/float64(s.learned))
	r := z - s.level - s.shape(at)
	s.size += share * (math.Abs(r) - s.size)
	s.lean += max(s.leanShare, 1/float64(s.learned)) * (r - s.lean)

	limit := seasonClip * s.size
	bare := z - s.level
	rests := [4]float64{bare, bare - s.day.at(at.day), bare - s.broad.at(at.broad), bare - s.week.at(at.week)}
	for i, rest := range rests {
		s.misfit[i] += share * (min(rest*rest, limit*limit) - s.misfit[i])
	}
	s.day.learn(at.day, clamp(rests[1], limit))
	s.broad.learn(at.broad, clamp(rests[2], limit))
	s.week.learn(at.week, clamp(rests[3], limit))

	gain := max(s.slow, 1/float64(s.learned+1))
	if s.size > 0 {
		gain = max(gain, s.fast*min(1, max(0, math.Abs(s.lean)/s.size-1.5)))
	}
	s.level += gain * r
	if s.learned%16 == 0 {
		s.reblend()
	}
}

// reblend weighs the shapes by their misfit.
func (s *seasons) reblend() {
	least := math.Inf(1)
	for _, m := range s.misfit {
		least = min(least, m)
	}
	if least <= 0 {
		least = math.SmallestNonzeroFloat64
	}
	sum := 0.0
	for i, m := range s.misfit {
		s.blend[i] = math.Pow(least/max(m, least), blendPower/2)
		sum += s.blend[i]
	}
	for i := range s.blend {
		s.blend[i] /= sum
	}
}

func clamp(x, limit float64) float64 { return max(-limit, min(limit, x)) }
