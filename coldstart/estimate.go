package coldstart

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// PriorFailureProb is the share of starts presumed to fail where nobody has counted. It is a choice, not a
	// measurement: rare, but not never.
	PriorFailureProb = 0.02

	// failurePriorStarts is how many starts that presumption is worth: one failure of one start reads 35 %, not 100 %.
	failurePriorStarts = 2

	// poolPerKey is how many samples, the newest, one key lends to a pool, so that a busy model does not drown the
	// others; poolMax is how many a pool holds.
	poolPerKey = 32
	poolMax    = 512

	// halvingsMax bounds how far rank and age can each shrink a weight (to 1/1024), so that no sample vanishes in
	// rounding.
	halvingsMax = 10
)

// Estimate returns the lead time of key as of now, which must not be before the last sample's time by more than clock
// skew (a sample from the future counts as new). Empty fields of key are pooled over. The result's Path is key.Path.
//
// Where the samples come from, first that has any wins:
//
//  1. the key itself; Basis Measured (Pooled if its model, shape or path is empty and its samples' is not); then, where
//     the key says so much, without the state of the compile cache, of image and weights, of the engine; Pooled
//  2. same model and path, any shape; Pooled, as the three below
//  3. same size class (SetWeights) and path, any model
//  4. same shape and path, any model
//  5. same path, any model
//  6. a lead time stated for the key, or for it without shape, without model, without both, in that order; then the same
//     without a path; Stated
//  7. published figures scaled by the bytes of the model's weights, where they are known; Prior
//  8. none: Known reports false. The same if starts are pending or failed but none ever served anywhere above and
//     nothing is stated: a five-second-old pod says nothing about when the first one will serve.
//
// It never borrows from another path: a cold node is not a slow kind of warm node.
//
// The distribution is the product-limit estimate over Served and Pending samples, weighted by recency (Options), with an
// exponential tail when the longest is pending. Pending samples count from the moment they outlast what was seen: with
// starts of 150, 160, 170, 180 and 190 s (equal weights) p90 is 190 s; with a sixth pending at 600 s the CDF is 0.83 at
// 190 s, flat to 600 s, the tail's mean 600/ln 6 = 335 s and p90 600 + 335·ln(0.167/0.1) = 771 s; with a sixth pending at
// 5 s p90 is still 190 s. Add must hear of a pending start again as it ages: its Total is not extrapolated to now, because
// a start that nobody watches any more may have served.
//
// Small samples. With n served starts of equal weight, the quantiles above 1−1/n are the longest. With fewer than
// ServedMin (5) served, the estimate is topped up to five starts by pseudo-starts distributed as the next source in the
// order above (estimated without the samples already used), or, when there is none, as a log-normal around the median
// served start with DefaultSpread (Assumed). So one own start and a pool make 1 + 4, and from the fifth own start on
// nothing is borrowed. Own pending samples enter at full weight even when no own start served yet; Basis and From then
// are the lender's. Borrowed, BorrowedBasis and BorrowedFrom tell.
//
// A shift. When the newest served starts differ from those before them by more than chance explains, those before count
// less (LeadTime.Shift): a registry that is slow today raises the quantiles within three starts, and an engine that got
// faster lowers them after a dozen. See shiftOf.
//
// How well it does, by simulation with the defaults and a stated lead time three times too long (TestKnownDistributions,
// TestShift): with 20 starts of p95/p50 1.24 the error of p90 is 4 % on average and below 9 % in nine experiments of ten;
// of p95/p50 1.63 it is 10 % and 20 %, which is what 20 samples of such a spread can tell. A third of the starts cut off at
// random moves p90 by less than 1 %. When starts become twice as long, p90 has widened after the third in 87 to 100 % of
// the experiments and is within 6 to 12 % of its new value after twenty; an alarm without a cause is there in 1 to 3 % of
// the estimates.
//
// FailureProb is the recency-weighted share of failed among finished starts, with two pseudo-starts at the lender's share
// (at PriorFailureProb if nothing was borrowed). Failed starts do not enter the distribution: neither as if they had served
// nor as censored, since it is the distribution of starts that serve. Pending ones do, though some will fail; that errs
// on the slow side.
//
// O(n log n) in the samples read: at most SamplesMax for a key with five served starts (about 0.1 ms), else up to 32 per
// key of the pool (3 ms for 100 keys): call it when something was added or a minute has passed, not per replica.
func (l *Ledger) Estimate(key Key, now time.Time) LeadTime {
	lt := l.estimate(key, l.levels(key), 0, now)
	lt.Path = key.Path
	return lt
}

// levels lists the patterns of key and its parents, nearest first, without repetition.
func (l *Ledger) levels(k Key) []Key {
	anyCompile, anyCache, anyEngine := k, k, k.coarse()
	anyCompile.Compile = ""
	anyCache.Image, anyCache.Weights, anyCache.Compile = "", "", ""
	all := []Key{k, anyCompile, anyCache, anyEngine, {Model: k.Model, Path: k.Path}}
	if size := cmp.Or(k.Size, l.sizeOf(k.Model)); size != "" {
		all = append(all, Key{Path: k.Path, Size: size})
	}
	all = append(all, Key{Shape: k.Shape, Path: k.Path}, Key{Path: k.Path})
	var out []Key
	for _, p := range all {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// coarse is the key as a plan knows it before a replica is placed.
func (k Key) coarse() Key { return Key{Model: k.Model, Shape: k.Shape, Path: k.Path} }

// matches reports whether the pattern covers k; an empty field covers all.
func (l *Ledger) matches(pattern, k Key) bool {
	return (pattern.Model == "" || pattern.Model == k.Model) &&
		(pattern.Shape == "" || pattern.Shape == k.Shape) &&
		(pattern.Path == "" || pattern.Path == k.Path) &&
		(pattern.Engine == "" || pattern.Engine == k.Engine) &&
		(pattern.Image == "" || pattern.Image == k.Image) &&
		(pattern.Weights == "" || pattern.Weights == k.Weights) &&
		(pattern.Compile == "" || pattern.Compile == k.Compile) &&
		(pattern.Size == "" || pattern.Size == cmp.Or(k.Size, l.sizeOf(k.Model)))
}

// estimate answers from levels[i], topped up from the levels after it where it is thin.
func (l *Ledger) estimate(key Key, levels []Key, i int, now time.Time) LeadTime {
	if i == len(levels) {
		return l.statedFor(key)
	}
	opts := l.opts.withDefaults()
	own := opts.count(l.pool(levels[i], levels[:i]), now)
	if own.served >= opts.ServedMin {
		lt := own.label(levels[i], i)
		lt.FailureProb = own.failureProb(PriorFailureProb)
		return lt.withCurve(productLimit(own.observations))
	}
	lender := l.estimate(key, levels, i+1, now)
	if own.total() == 0 {
		return lender
	}
	lt := lender // keeps Basis and From of the lender unless a start of this level served
	lt.Samples, lt.Censored = own.total()+lender.Samples, own.censored+lender.Censored
	if own.served > 0 {
		lt = own.label(levels[i], i)
	}
	lt.FailureProb = own.failureProb(lender.FailureProb)
	lt.FailedAfter = cmp.Or(own.failedAfter(), lender.FailedAfter)
	if !lender.Known() && own.served == 0 {
		return lt
	}
	if !lender.Known() {
		lender = logNormal(own.medianServed(), DefaultSpread(key.Path))
		lender.Basis = Assumed
	}
	starts := float64(opts.ServedMin - own.served)
	if own.served > 0 {
		lt.Borrowed = starts / (starts + own.servedWeight)
		lt.BorrowedBasis, lt.BorrowedFrom = lender.Basis, lender.From
	}
	if len(own.observations) == 0 {
		return lt
	}
	return lt.withCurve(topUp(own.observations, lender, starts))
}

func (lt LeadTime) withCurve(c curve) LeadTime {
	c = c.thinned()
	lt.Support, lt.CDF, lt.Tail = c.support, c.cdf, c.tail
	return lt
}

// statedFor returns the lead time stated for key or its nearest parent, or an unknown one.
func (l *Ledger) statedFor(key Key) LeadTime {
	withoutPath := Key{Model: key.Model, Shape: key.Shape}
	for _, k := range append(l.levels(key.coarse()), l.levels(withoutPath)...) {
		if lt, ok := l.stated[k]; ok {
			lt.From = k
			lt.Support, lt.CDF = slices.Clone(lt.Support), slices.Clone(lt.CDF)
			return lt
		}
	}
	if bytes := l.weights[key.Model]; bytes > 0 {
		return PriorByWeights(key.Path, bytes)
	}
	return LeadTime{FailureProb: PriorFailureProb}
}

// pool returns the samples that pattern matches and none of the patterns before it did, newest first.
func (l *Ledger) pool(pattern Key, before []Key) []Sample {
	var all []Sample
	take := func(k Key, of []Sample) {
		if k.coarse() != pattern.coarse() {
			of = of[max(0, len(of)-poolPerKey):]
		}
		all = append(all, of...)
	}
	consider := func(k Key) {
		taken := slices.ContainsFunc(before, func(b Key) bool { return l.matches(b, k) })
		if l.matches(pattern, k) && !taken {
			take(k, l.samples[k])
		}
	}
	if pattern.Model != "" && pattern.Shape != "" && pattern.Path != "" {
		for _, k := range l.details[pattern.coarse()] {
			consider(k)
		}
	} else {
		for k := range l.samples {
			consider(k)
		}
	}
	slices.SortFunc(all, func(a, b Sample) int { return compareAge(b, a) })
	if most := max(poolMax, l.opts.withDefaults().SamplesMax); len(all) > most {
		all = all[:most]
	}
	return all
}

// A tally is what one pool of samples says.
type tally struct {
	observations             []observation // served and pending
	served, censored, failed int
	servedWeight             float64
	failedWeight             float64
	failedTime               float64 // weighted, in nanoseconds
	key                      Key     // coarse
	oneKey                   bool    // every sample has key
	shift                    Shift
}

// count weighs samples, given newest first. Only finished starts make others older: a start that has just begun must not
// shift weight between those that have an answer.
func (o Options) count(newestFirst []Sample, now time.Time) tally {
	var t tally
	if len(newestFirst) > 0 {
		t.key, t.oneKey = newestFirst[0].Key.coarse(), true
	}
	t.shift = shiftOf(newestFirst)
	for _, s := range newestFirst {
		newer := float64(t.served+t.failed) / o.HalfLifeStarts
		age := max(0, now.Sub(s.Started).Hours()/o.HalfLife.Hours())
		w := math.Exp2(-min(newer, halvingsMax) - min(age, halvingsMax))
		t.oneKey = t.oneKey && s.Key.coarse() == t.key
		switch s.Outcome {
		case Served:
			t.served++
			t.servedWeight += w
			t.observations = append(t.observations, observation{at: s.Total, weight: w, served: true})
		case Failed:
			t.failed++
			t.failedWeight += w
			t.failedTime += w * float64(s.Total)
		case Pending:
			t.censored++
			t.observations = append(t.observations, observation{at: s.Total, weight: w})
		}
	}
	t.discountOld()
	return t
}

func (t tally) total() int { return t.served + t.censored + t.failed }

// label is a LeadTime with everything but the curve and the failures.
func (t tally) label(from Key, level int) LeadTime {
	lt := LeadTime{Basis: Pooled, From: from, Samples: t.total(), Censored: t.censored, FailedAfter: t.failedAfter(), Shift: t.shift}
	if level == 0 && t.oneKey && t.key == from.coarse() {
		lt.Basis = Measured
	}
	return lt
}

func (t tally) failureProb(prior float64) float64 {
	return (t.failedWeight + failurePriorStarts*prior) / (t.failedWeight + t.servedWeight + failurePriorStarts)
}

// failedAfter is the mean time until a start failed, 0 when none did.
func (t tally) failedAfter() time.Duration {
	if t.failedWeight == 0 {
		return 0
	}
	return time.Duration(t.failedTime / t.failedWeight)
}

// medianServed is the middle served start, the upper one of two. Pending starts do not move it: they move the curve.
func (t tally) medianServed() time.Duration {
	var at []time.Duration
	for _, o := range t.observations {
		if o.served {
			at = append(at, o.at)
		}
	}
	slices.SortFunc(at, func(a, b time.Duration) int { return cmp.Compare(a, b) })
	return at[len(at)/2]
}
