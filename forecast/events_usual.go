package forecast

import (
	"math"
	"slices"
	"time"
)

// usual remembers demand without events on a coarse grid, and says from it what would be usual at some time: the
// yardstick that the effect of an event is measured with. It looks only backwards.
type usual struct {
	step   time.Duration // of the values that come in
	per    int           // of them in a bin
	bins   Series        // mean of each whole bin; NaN where fewer than half of its values are known
	sum    float64       // of the bin that fills
	known  int
	filled int

	total      float64 // of all known bins
	totalKnown int
	demands    map[[2]int]float64 // demand's answers by bin of at and since, until a bin is added
	ratios     map[[2]int]float64 // dayRatio's answers by bin and day of the week, until a bin is added
}

const (
	// usualBin is the least width of a bin: fine enough for the shape of a morning, coarse enough for the noise.
	usualBin = 15 * time.Minute
	// usualDays is how far back usual remembers: four weeks and the two hours before.
	usualDays = 29
	// usualReferences is how many days the median is taken over.
	usualReferences = 4
	// usualLevelSpan is how long before a time the level of the day is measured.
	usualLevelSpan = time.Hour
	// usualLevelShare is the share of the mean demand below which a level says nothing about the day, as at night.
	usualLevelShare = 0.1
	// usualRatioShare is the share below which two days cannot be compared.
	usualRatioShare = 0.01
)

func newUsual(start time.Time, step time.Duration, loc *time.Location) *usual {
	per := max(1, int((usualBin+step-1)/step))
	return &usual{step: step, per: per, bins: Series{Start: start, Step: time.Duration(per) * step, Location: loc}}
}

// add appends the next value; NaN is missing.
func (u *usual) add(v float64) {
	if !math.IsNaN(v) {
		u.sum += v
		u.known++
	}
	if u.filled++; u.filled < u.per {
		return
	}
	mean := math.NaN()
	if 2*u.known >= u.per {
		mean = u.sum / float64(u.known)
	}
	u.append(mean)
	u.sum, u.known, u.filled = 0, 0, 0
}

// append adds a whole bin and forgets the oldest ones, many at once.
func (u *usual) append(mean float64) {
	u.bins.Values = append(u.bins.Values, mean)
	keep := int(usualDays * day / u.bins.Step)
	if n := u.bins.Len(); n > keep+keep/8+1 {
		u.bins.Start = u.bins.TimeAt(n - keep)
		u.bins.Values = slices.Clone(u.bins.Values[n-keep:])
		u.total, u.totalKnown = 0, 0
		for _, v := range u.bins.Values {
			u.count(v)
		}
	} else {
		u.count(mean)
	}
	u.demands, u.ratios = nil, nil
}

func (u *usual) count(v float64) {
	if !math.IsNaN(v) {
		u.total += v
		u.totalKnown++
	}
}

// small is a share of the mean demand, below which values say little; NaN when nothing is known.
func (u *usual) small(share float64) float64 { return share * u.total / float64(u.totalKnown) }

func (u *usual) location() *time.Location {
	if u.bins.Location == nil {
		return time.UTC
	}
	return u.bins.Location
}

// bin is the index of the bin that holds t, which may lie outside of what is known.
func (u *usual) bin(t time.Time) int {
	return int(floorDiv(int64(t.Sub(u.bins.Start)), int64(u.bins.Step)))
}

// at returns bin i, NaN when it is not known.
func (u *usual) at(i int) float64 {
	if i < 0 || i >= u.bins.Len() {
		return math.NaN()
	}
	return u.bins.Values[i]
}

// mean returns the mean of the known bins in [from, to), NaN when fewer than half are known.
func (u *usual) mean(from, to int) float64 {
	sum, n := 0.0, 0
	for i := from; i < to; i++ {
		if v := u.at(i); !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 || 2*n < to-from {
		return math.NaN()
	}
	return sum / float64(n)
}

// demand returns what would be usual at a time without the event that began at since, at or before it; NaN when no
// earlier day is known. It is the median, over the same time on earlier days, of what was then, moved from the level
// before since on that day to the level before since now.
func (u *usual) demand(at, since time.Time) float64 {
	i, s := u.bin(at), u.bin(since)
	v, ok := u.demands[[2]int{i, s}]
	if !ok {
		v = u.demandOf(at, i, s)
		if u.demands == nil {
			u.demands = map[[2]int]float64{}
		}
		u.demands[[2]int{i, s}] = v
	}
	return v
}

func (u *usual) demandOf(at time.Time, i, s int) float64 {
	level, small := u.levelBefore(s), u.small(usualLevelShare)
	var found []float64
	for _, days := range u.referenceDays(at) {
		if len(found) == usualReferences {
			break
		}
		ref := u.at(u.bins.SameTime(i, days))
		if math.IsNaN(ref) {
			continue
		}
		if level > small {
			before := u.levelBefore(u.bins.SameTime(s, days))
			if !(before > small) {
				continue // that day was another world, or its level is not known
			}
			ref *= level / before
		}
		found = append(found, ref)
	}
	if len(found) == 0 {
		return math.NaN()
	}
	return medianOf(found)
}

// level is the mean demand of the time before t, NaN when it is not known.
func (u *usual) level(t time.Time) float64 { return u.levelBefore(u.bin(t)) }

func (u *usual) levelBefore(bin int) float64 {
	return u.mean(bin-max(1, int(usualLevelSpan/u.bins.Step)), bin)
}

// referenceDays lists how many days back to look for a time like this: the same day of the last two weeks, the last
// days of the same class, which know a level that grows, and the same day of earlier weeks.
func (u *usual) referenceDays(at time.Time) []int {
	out := []int{7, 14}
	local := at.In(u.location())
	for d := 1; d < 14; d++ {
		if d != 7 && weekend(local.AddDate(0, 0, -d).Weekday()) == weekend(local.Weekday()) {
			out = append(out, d)
		}
	}
	return append(out, 21, 28)
}

// dayRatio returns how demand at this time of the day on another day of the week compares with that on the day that t
// is on, from the last four weeks: 1 when one of them is not known or too small to tell.
func (u *usual) dayRatio(t time.Time, like time.Weekday) float64 {
	key := [2]int{u.bin(t), int(like)}
	v, ok := u.ratios[key]
	if !ok {
		v = u.dayRatioOf(t, key[0], like)
		if u.ratios == nil {
			u.ratios = map[[2]int]float64{}
		}
		u.ratios[key] = v
	}
	return v
}

func (u *usual) dayRatioOf(t time.Time, i int, like time.Weekday) float64 {
	local := t.In(u.location())
	back := (int(local.Weekday()) - int(like) + 7) % 7
	if back == 0 {
		return 1
	}
	// The half hours around it smooth the ratio, but not over midnight, where another kind of day begins.
	around := int(time.Hour / u.bins.Step / 2)
	before := min(around, i-u.bin(midnight(local)))
	after := min(around, u.bin(midnight(local.AddDate(0, 0, 1)).Add(-1))-i)
	other, own := u.dayMedian(i, back, before, after), u.dayMedian(i, 0, before, after)
	if small := u.small(usualRatioShare); !(other > small && own > small) {
		return 1
	}
	return min(eventMultiplierMax, max(eventMultiplierMin, other/own))
}

// dayMedian is the median over the weeks before bin i of the mean of some bins around it, offset days earlier; NaN when
// unknown.
func (u *usual) dayMedian(i, offset, before, after int) float64 {
	var found []float64
	for days := offset; days <= usualDays; days += 7 {
		if days == 0 {
			continue // the time itself lies ahead, or is part of the event
		}
		j := u.bins.SameTime(i, days)
		if v := u.mean(j-before, j+after+1); !math.IsNaN(v) {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return math.NaN()
	}
	return medianOf(found)
}

// medianOf returns the median of xs, which it sorts; xs is not empty.
func medianOf(xs []float64) float64 {
	slices.Sort(xs)
	n := len(xs)
	return (xs[(n-1)/2] + xs[n/2]) / 2
}
