package forecast

import (
	"math"
	"time"
)

// seasonalNaive forecasts that the time of day does what it did on earlier days, moved to the level of now. A single
// earlier day carries its own noise into the forecast, and makes the peak over a window too high; the mean of a few does
// so less, but follows a change of shape later. Which is better differs by series, so fit chooses, and updates try the
// other choices again.
type seasonalNaive struct {
	days   int // how many earlier days are averaged
	adjust levelAdjust
	lags   [7][]int // per weekday of the forecast step: days back to look, in order of preference
	reach  int      // steps of the level window
	run    lagRun
	tuner  tuner
}

// seasonRule says which earlier day comes first. The others follow as fallbacks, so that one missing window does not
// silence the method.
type seasonRule int

const (
	seasonDay     seasonRule = iota // yesterday
	seasonWeekday                   // the last day of the same class: Friday for Monday, last Sunday for Saturday
	seasonWeek                      // the same day last week
)

// levelAdjust says how the reference is moved to the level of now.
type levelAdjust int

const (
	adjustNone  levelAdjust = iota // plain
	adjustAdd                      // add the difference of the levels
	adjustRatio                    // multiply by the ratio of the levels
)

const (
	// seasonDaysMax is how many days back a reference may lie.
	seasonDaysMax = 28
	// levelWindow is how much of the recent past makes the level, in time and at least in steps.
	levelWindow   = 2 * time.Minute
	levelRatioMax = 8.0
)

func (s *seasonalNaive) name() string { return nameSeasonal }

// seasonDayCounts are the numbers of days that are chosen among.
var seasonDayCounts = []int{1, 3, 5}

func seasonChoices() int { return int(seasonWeek+1) * int(adjustRatio+1) * len(seasonDayCounts) }

// seasonChoice returns the i-th choice of the season, the adjustment and the number of days.
func seasonChoice(h *history, i int) *seasonalNaive {
	n, m := len(seasonDayCounts), int(adjustRatio+1)
	return newSeasonalNaive(h, seasonRule(i/(n*m)), levelAdjust(i/n%m), seasonDayCounts[i%n])
}

// fit makes the choice with the smallest mean absolute error over the tail of h, a few steps ahead.
func (s *seasonalNaive) fit(h *history) {
	best := math.Inf(1)
	chosen := newSeasonalNaive(h, seasonWeekday, adjustNone, 1) // when nothing can be scored
	for i := range seasonChoices() {
		c := seasonChoice(h, i)
		if loss := c.trial(h); loss < best {
			best, chosen = loss, c
		}
	}
	*s = *chosen
	s.tuner = newTuner(h, seasonChoices())
}

func (s *seasonalNaive) update(h *history, _ int) {
	i, ok := s.tuner.due()
	if !ok {
		return
	}
	if c := seasonChoice(h, i); better(c.trial(h), s.trial(h)) {
		c.tuner = s.tuner
		*s = *c
	}
}

func newSeasonalNaive(h *history, rule seasonRule, adjust levelAdjust, days int) *seasonalNaive {
	s := &seasonalNaive{days: days, adjust: adjust}
	s.reach = max(1, int(levelWindow/h.clock.step))
	for d := range s.lags {
		s.lags[d] = seasonLags(rule, time.Weekday(d))
	}
	return s
}

// seasonLags lists every number of days back, up to seasonDaysMax, in the order of the rule.
func seasonLags(rule seasonRule, today time.Weekday) []int {
	var first, second, rest []int
	for back := 1; back <= seasonDaysMax; back++ {
		then := time.Weekday(((int(today)-back)%7 + 7) % 7)
		switch {
		case rule == seasonDay && back == 1, rule == seasonWeek && back%7 == 0:
			first = append(first, back)
		case weekend(then) == weekend(today):
			second = append(second, back)
		default:
			rest = append(rest, back)
		}
	}
	return append(append(first, second...), rest...)
}

const (
	seasonTrialSpan    = 7 * day
	seasonTrialOrigins = 400
)

// trial returns the mean absolute error over origins spread over the tail of h, +Inf when no step can be scored; missing
// and clipped ones cannot.
func (s *seasonalNaive) trial(h *history) float64 {
	const lead = 10
	from := max(h.last()/2, h.last()-int(seasonTrialSpan/h.clock.step))
	stride := max(1, (h.last()-from)/seasonTrialOrigins)
	var f [lead]float64
	sum, n := 0.0, 0
	for origin := from; origin < h.last(); origin += stride {
		if math.IsNaN(h.carried[origin]) {
			continue
		}
		s.points(h, origin, f[:min(lead, h.last()-origin)])
		for k := 0; k < lead && origin+1+k <= h.last(); k += lead - 1 {
			if v, ok := h.scorable(origin + 1 + k); ok {
				sum += math.Abs(v - f[k])
				n++
			}
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}

// lagRun is a run of steps of one local day, for which days back and steps back are the same thing unless a
// daylight-saving change lies between. It saves working out the wall clock for every step of every path.
type lagRun struct {
	first, last int
	order       []int
	steps       [seasonDaysMax + 1]int // steps back per days back; 0 is not worked out yet
}

// begin starts a run at step i that ends with the local day or at step limit.
func (s *seasonalNaive) begin(h *history, i, limit int) {
	weekday, left := h.clock.localDay(i)
	s.run = lagRun{first: i, last: min(limit, i+left-1), order: s.lags[weekday]}
}

// earlier returns the step at the time of step i, which lies in the run, some days back.
func (s *seasonalNaive) earlier(h *history, i, back int) int {
	if n := s.run.steps[back]; n > 0 {
		return i - n
	}
	// Equal at both ends means equal in between: two changes of the clock do not happen in one day.
	if n := s.run.first - h.clock.sameTime(s.run.first, back); n == s.run.last-h.clock.sameTime(s.run.last, back) {
		s.run.steps[back] = n
	}
	return h.clock.sameTime(i, back)
}

// reference returns the mean of the first s.days values at the time of step i that are known at origin, in the order of
// preference, and whether there is any. Missing ones are passed over. A lower bound counts as the carried level, which
// is at least the bound. limit is the last step that will be asked about in this run.
func (s *seasonalNaive) reference(h *history, i, origin, limit int) (float64, bool) {
	if i < s.run.first || i > s.run.last {
		s.begin(h, i, limit)
	}
	span := int(time.Duration(i)*h.clock.step/day) + 1 // days before i that the history may reach
	sum, n := 0.0, 0
	for _, back := range s.run.order {
		if back > span {
			continue
		}
		if r := s.earlier(h, i, back); r >= 0 && r <= origin && !math.IsNaN(h.vals[r]) {
			sum += h.carried[r]
			if n++; n == s.days {
				break
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}

func (s *seasonalNaive) points(h *history, origin int, dst []float64) {
	s.run = lagRun{first: 1} // an empty run: the history may have moved since the last one
	level := h.carried[origin]
	limit := origin + len(dst)
	shift, ratio := s.levels(h, origin, limit)
	for k := range dst {
		ref, ok := s.reference(h, origin+1+k, origin, limit)
		switch {
		case !ok:
			dst[k] = h.floor(level)
		case s.adjust == adjustRatio:
			dst[k] = ref * ratio
		default:
			dst[k] = h.floor(ref + shift)
		}
	}
}

// levels returns what to add to, or to multiply with, references made at origin.
func (s *seasonalNaive) levels(h *history, origin, limit int) (shift, ratio float64) {
	if s.adjust == adjustNone {
		return 0, 1
	}
	now, then, n := 0.0, 0.0, 0
	for i := max(0, origin-s.reach+1); i <= origin; i++ {
		ref, ok := s.reference(h, i, origin, limit)
		if !ok || math.IsNaN(h.carried[i]) {
			continue
		}
		now, then, n = now+h.carried[i], then+ref, n+1
	}
	if n == 0 {
		return 0, 1
	}
	now, then = now/float64(n), then/float64(n)
	if s.adjust == adjustAdd {
		return now - then, 1
	}
	base := errorScaleShare * h.scale
	if from := math.Abs(then) + base; from > 0 {
		ratio = min(levelRatioMax, (math.Abs(now)+base)/from)
	} else {
		ratio = 1
	}
	return 0, ratio
}
