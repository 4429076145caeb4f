package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Effects knows, for one series, what the events of a calendar do to it: what each occurrence of the past did, what
// the one under way is doing, and what the next will do. It follows the series value by value and looks only
// backwards. It is not safe for concurrent use.
//
// # Size
//
// The size θ of an effect is the logarithm of its multiplier; with Like it is how far the day is as the other day,
// from 0 (as its own) to 1: the power that the ratio of the two days is raised to. Before anything was seen of an
// occurrence it is the stated one. For a learned event it is the median of the θ of past occurrences of its name,
// times n/(n+1) for n of them: one occurrence is believed by half, four by four fifths, and none makes no effect.
// Sample paths of a learned event take the sizes of different past occurrences, so that an event of changing size
// gives a wide forecast; one further from the median than three times the median distance counts as no further, so
// that a freak does not set the scale.
//
// While an occurrence is under way, each known value at a quarter of its weight or more is compared with what would be
// usual: the median of the same time on earlier days, moved to the level before the event began. What was seen replaces
// what was expected, more and more with the demand seen, and wholly after the event's WithdrawAfter: an event that was
// announced and does not happen has lost its effect by then, one that is larger or smaller than expected has been
// corrected. Missing values prove nothing, and neither does anything before an earlier day has been seen: the expected
// effect stays. A lower bound proves only that the effect is at least so large.
//
// # Overlap
//
// The effects of events with different names multiply. Of one name only the occurrence with the largest weight counts.
type Effects struct {
	calendar *Calendar
	model    string
	usual    *usual
	next     time.Time // start of the step that comes next
	past     map[string][]float64
	occ      []*occasion             // not over at next, and all that start before known
	until    time.Time               // occasions that start before are in occ
	came     map[occasionKey]float64 // sizes of past occasions while a history is read; nil afterwards
}

// occasion is an occurrence and what was seen of it.
type occasion struct {
	Occurrence
	recent  []float64 // θ of the newest known steps, over at most WithdrawAfter and effectRecentMax
	all     []float64 // θ of every stride-th known step
	stride  int
	seen    int      // known steps
	weight  float64  // over the step under consideration
	settled *float64 // the size that the first reading of a history found
}

// occasionKey tells occurrences apart.
type occasionKey struct {
	name  string
	start int64
}

const (
	// effectWeightMin is the weight from which on a value says something about the size.
	effectWeightMin = 0.25
	// effectRatioMin is how far the ratio of two days must be from 1 to say something about the power, as a logarithm.
	effectRatioMin = 0.25
	// effectLevelSpan is how long the level before an event may stand in for earlier days that nobody has seen.
	effectLevelSpan = 6 * time.Hour
	// effectPastMax is how many past occurrences of a name are remembered, effectSeenMax how many values of one, and
	// effectRecentMax how many of the newest say what it is now.
	effectPastMax   = 20
	effectSeenMax   = 512
	effectRecentMax = 100
	// effectOutlier bounds a past size, in median distances from the median; effectOutlierMin is the least distance.
	effectOutlier    = 3.0
	effectOutlierMin = 0.05
	// effectDoubtMin is how many past occurrences, by how much different (as a logarithm), put a stated size in doubt.
	effectDoubtMin = 3
	effectDoubt    = 0.4
	// effectAhead is how far ahead occurrences are looked up at a time.
	effectAhead = 8 * day
)

// Learn reads a history and returns what the events did in it, and the history without them: what demand would have
// been had nothing happened, so that a launch does not become a season. Missing values stay missing, lower bounds
// lower bounds, and values outside of all occurrences are those of s.
//
// The history is read twice: the second time the size of every past occurrence is known from its beginning.
func Learn(s Series, c *Calendar, model string) (*Effects, Series) {
	first := newEffects(s, c, model)
	for i, v := range s.Values {
		first.Update(v, s.lowerBound(i))
	}
	e := newEffects(s, c, model)
	e.came = first.came
	clean := s
	clean.Values = make([]float64, s.Len())
	for i, v := range s.Values {
		clean.Values[i] = e.Update(v, s.lowerBound(i))
	}
	e.came = nil
	return e, clean
}

func newEffects(s Series, c *Calendar, model string) *Effects {
	return &Effects{
		calendar: c, model: model, usual: newUsual(s.Start, s.Step, s.Location), next: s.Start, until: s.Start,
		past: map[string][]float64{}, came: map[occasionKey]float64{},
	}
}

// Update takes in the value of the next step and returns it without the effect of events: v itself when there is none,
// NaN when v is missing.
func (e *Effects) Update(v float64, atLeast bool) float64 {
	from := e.next
	to := from.Add(e.usual.step)
	clean := v
	if active := e.active(from, to); len(active) > 0 {
		clean = e.remove(v, atLeast, active, from)
	}
	e.usual.add(clean)
	e.next = to
	e.finish()
	return clean
}

// lookUp makes sure that the occurrences that start before t are known.
func (e *Effects) lookUp(t time.Time) {
	if !t.After(e.until) {
		return
	}
	from := e.until
	first := from.Equal(e.next) && e.occ == nil
	e.until = t.Add(effectAhead)
	for _, o := range e.calendar.Occurrences(e.model, from, e.until) {
		if o.Start.Before(from) && !first {
			continue // known already
		}
		n := &occasion{Occurrence: o, stride: 1}
		if theta, ok := e.came[n.key()]; ok {
			n.settled = &theta
		}
		e.occ = append(e.occ, n)
	}
}

func (o *occasion) key() occasionKey { return occasionKey{o.Name, o.Start.UnixNano()} }

// active returns the occasions with some weight over [from, to), of one name only that with the largest.
func (e *Effects) active(from, to time.Time) []*occasion {
	e.lookUp(to)
	var out []*occasion
	for _, o := range e.occ {
		if !o.Start.Before(to) || !o.Done.After(from) {
			continue
		}
		if o.weight = o.Weight(from, to); o.weight == 0 {
			continue
		}
		same := slices.IndexFunc(out, func(p *occasion) bool { return p.Name == o.Name })
		switch {
		case same < 0:
			out = append(out, o)
		case out[same].weight < o.weight:
			out[same] = o
		}
	}
	return out
}

// remove notes what the value at from says about the active occasions and returns it without their effects.
func (e *Effects) remove(v float64, atLeast bool, active []*occasion, from time.Time) float64 {
	if math.IsNaN(v) {
		return v
	}
	since := active[0].Start
	for _, o := range active {
		if o.Start.Before(since) {
			since = o.Start
		}
	}
	usual := e.usual.demand(from.Add(e.usual.step/2), since)
	factors := make([]float64, len(active))
	all, sure := 1.0, true
	for i, o := range active {
		factors[i] = e.factor(o, e.size(o), o.weight, from)
		all *= factors[i]
	}
	for i, o := range active {
		e.note(o, v, atLeast, usual*all/factors[i], from)
	}
	all = 1
	for _, o := range active {
		all *= e.factor(o, e.size(o), o.weight, from)
		sure = sure && e.trust(o) == 1
	}
	if math.IsNaN(usual) && from.Sub(since) < effectLevelSpan {
		usual = e.usual.level(since) // good enough to tell whether anything follows, not by how much
	}
	if !sure && !atLeast && usual > 0 {
		// Until an effect is confirmed, what is missing of it is put down to the event, not to a fall of demand.
		all = min(max(v/usual, min(all, 1)), max(all, 1))
	}
	return v / all
}

// note learns from one value of an occasion; without is what would be usual with all other events.
func (e *Effects) note(o *occasion, v float64, atLeast bool, without float64, from time.Time) {
	if !(without > 0) {
		return
	}
	theta, ok := e.measure(o, v/without, from)
	if !ok || atLeast && !e.raises(o, theta, from) {
		return
	}
	keep := min(effectRecentMax, max(1, int(o.event.WithdrawAfter/e.usual.step)))
	if o.recent = append(o.recent, theta); len(o.recent) > keep {
		o.recent = o.recent[1:]
	}
	if o.seen%o.stride == 0 {
		o.all = append(o.all, theta)
	}
	o.seen++
	if len(o.all) == effectSeenMax {
		for i := range effectSeenMax / 2 {
			o.all[i] = o.all[2*i]
		}
		o.all = o.all[:effectSeenMax/2]
		o.stride *= 2
	}
}

// measure returns the size that explains a ratio of demand to the usual, and whether it can be told.
func (e *Effects) measure(o *occasion, ratio float64, from time.Time) (float64, bool) {
	if o.weight < effectWeightMin {
		return 0, false
	}
	if like := o.event.Like; like != nil {
		days := math.Log(e.usual.dayRatio(from.Add(e.usual.step/2), *like))
		if math.Abs(days) < effectRatioMin {
			return 0, false
		}
		theta := math.Log(max(ratio, eventMultiplierMin)) / days
		return min(1, max(0, theta)), true
	}
	m := 1 + (ratio-1)/o.weight
	return math.Log(min(eventMultiplierMax, max(eventMultiplierMin, m))), true
}

// raises reports whether a size means more demand than the one that is believed.
func (e *Effects) raises(o *occasion, theta float64, from time.Time) bool {
	return e.factor(o, theta, o.weight, from) > e.factor(o, e.size(o), o.weight, from)
}

// factor is what an occasion of a size multiplies the demand of the step at from by.
func (e *Effects) factor(o *occasion, theta, weight float64, from time.Time) float64 {
	if like := o.event.Like; like != nil {
		return math.Pow(e.usual.dayRatio(from.Add(e.usual.step/2), *like), theta*weight)
	}
	multiplier := math.Exp(theta)
	if theta == math.Log(o.event.Multiplier) {
		multiplier = o.event.Multiplier // as it was stated, to the last digit
	}
	return 1 + (multiplier-1)*weight
}

// trust is how far what was seen of an occasion replaces what was expected, from 0 to 1. The first minutes say the
// most: it grows with the root of the demand seen.
func (e *Effects) trust(o *occasion) float64 {
	return math.Sqrt(min(1, float64(o.seen)*float64(e.usual.step)/float64(o.event.WithdrawAfter)))
}

// size is the believed size of an occasion.
func (e *Effects) size(o *occasion) float64 { return e.blend(o, e.expected(o)) }

// blend moves an expected size to what was seen.
func (e *Effects) blend(o *occasion, expected float64) float64 {
	if o.seen == 0 {
		return expected
	}
	w := e.trust(o)
	return (1-w)*expected + w*medianOf(slices.Clone(o.recent))
}

// expected is the size of an occasion before anything was seen of it.
func (e *Effects) expected(o *occasion) float64 {
	switch past := e.past[o.Name]; {
	case o.settled != nil:
		return *o.settled
	case o.event.Like != nil:
		return 1
	case !o.event.Learn:
		return math.Log(o.event.Multiplier)
	case len(past) == 0:
		return 0
	default:
		return shrink(len(past)) * medianOf(slices.Clone(past))
	}
}

// shrink is how far the median of n past sizes is believed.
func shrink(n int) float64 { return float64(n) / float64(n+1) }

// sizes returns the sizes that sample paths of an occasion take in turn, ascending.
func (e *Effects) sizes(o *occasion) []float64 {
	past := e.past[o.Name]
	if o.settled != nil || !o.event.Learn || len(past) == 0 {
		return []float64{e.size(o)}
	}
	out := slices.Clone(past)
	middle := medianOf(out)
	apart := make([]float64, len(out))
	for i, theta := range out {
		apart[i] = math.Abs(theta - middle)
	}
	most := effectOutlier * max(effectOutlierMin, medianOf(apart))
	for i, theta := range out {
		out[i] = e.blend(o, shrink(len(past))*min(middle+most, max(middle-most, theta)))
	}
	return out
}

// finish files the occasions that are over.
func (e *Effects) finish() {
	e.occ = slices.DeleteFunc(e.occ, func(o *occasion) bool {
		if o.Done.After(e.next) {
			return false
		}
		span := min(o.event.WithdrawAfter, o.End.Sub(o.Start)/2)
		if o.seen > 0 && time.Duration(o.seen)*e.usual.step >= span {
			theta := medianOf(o.all)
			if e.came != nil {
				e.came[o.key()] = theta
			}
			past := append(e.past[o.Name], theta)
			e.past[o.Name] = past[max(0, len(past)-effectPastMax):]
		}
		return true
	})
}

// Apply returns the ensemble with the effects of the events ahead: every path multiplied over the steps of the event,
// those of a learned event by sizes that past occurrences had. The ensemble is of demand without events, as what is
// made from Learn's and Update's values is, and starts at or after the step that comes next.
func (e *Effects) Apply(ens Ensemble) Ensemble {
	out := ens
	out.Paths = make([][]float64, len(ens.Paths))
	for i, p := range ens.Paths {
		out.Paths[i] = slices.Clone(p)
	}
	for k := range ens.Steps() {
		from := ens.Start.Add(time.Duration(k) * ens.Step)
		for _, o := range e.active(from, from.Add(ens.Step)) {
			factors := e.sizes(o)
			for j, theta := range factors {
				factors[j] = e.factor(o, theta, o.weight, from)
			}
			for i := range out.Paths {
				out.Paths[i][k] *= factors[int(halton3(i+1)*float64(len(factors)))]
			}
		}
	}
	return out
}

// halton3 is the i-th element of the base-3 low-discrepancy sequence, in [0,1): spread independently of how other parts
// share out paths.
func halton3(i int) float64 {
	u, digit := 0.0, 1.0/3
	for ; i > 0; i /= 3 {
		u += digit * float64(i%3)
		digit /= 3
	}
	return u
}

// Effect is what one occurrence is believed to do.
type Effect struct {
	Occurrence
	// Multiplier is the largest factor on demand inside the time asked about, the smallest where demand falls.
	Multiplier float64
	// Why says in words where the multiplier comes from.
	Why string
}

// Ahead returns the effects of occurrences with some weight inside [from, to), by start. from is not before the step
// that comes next.
func (e *Effects) Ahead(from, to time.Time) []Effect {
	var out []Effect
	e.lookUp(to)
	for _, o := range e.occ {
		if !o.Start.Before(to) || !o.Done.After(from) {
			continue
		}
		extreme := 1.0
		for t := from; t.Before(to); t = t.Add(e.usual.step) {
			weight := o.Weight(t, t.Add(e.usual.step))
			if weight == 0 {
				continue
			}
			if f := e.factor(o, e.size(o), weight, t); math.Abs(math.Log(f)) > math.Abs(math.Log(extreme)) {
				extreme = f
			}
		}
		out = append(out, Effect{Occurrence: o.Occurrence, Multiplier: extreme, Why: e.why(o)})
	}
	return out
}

// why says where the size of an occasion comes from.
func (e *Effects) why(o *occasion) string {
	past := e.past[o.Name]
	var expected string
	switch n := len(past); {
	case o.event.Like != nil:
		expected = "like " + o.event.Like.String()
	case !o.event.Learn:
		expected = fmt.Sprintf("stated ×%.3g", o.event.Multiplier)
		if n >= effectDoubtMin {
			// The owner's word counts, but one that was wrong again and again should be heard of.
			if m := math.Exp(medianOf(slices.Clone(past))); math.Abs(math.Log(m/o.event.Multiplier)) > effectDoubt {
				expected += fmt.Sprintf(" but ×%.3g in the last %d", m, n)
			}
		}
	case n == 0:
		expected = "to be learned, not seen before"
	case n == 1:
		expected = "learned from 1 occurrence"
	default:
		expected = fmt.Sprintf("learned from %d occurrences", n)
	}
	if o.seen == 0 {
		return expected
	}
	seen := medianOf(slices.Clone(o.recent))
	if o.event.Like != nil {
		return fmt.Sprintf("%s, %.0f%% of it seen", expected, 100*seen)
	}
	return fmt.Sprintf("%s, ×%.3g seen", expected, math.Exp(seen))
}
