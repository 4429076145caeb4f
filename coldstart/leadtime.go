package coldstart

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// Basis says where a LeadTime comes from, weakest last.
type Basis string

// The bases of an estimate.
const (
	Measured Basis = "measured" // samples of the exact key
	Pooled   Basis = "pooled"   // samples of a parent key (other shape, other model)
	Stated   Basis = "stated"   // typed in by a person; not measured
	Prior    Basis = "prior"    // from published figures by the bytes of the weights; not measured here (PriorByWeights)
	// Assumed is a spread of this package's own around one to four samples that have no parent and no stated lead time
	// to lean on. It is only ever the BorrowedBasis, never the Basis.
	Assumed Basis = "assumed"
)

// LeadTime is the distribution of the time from ordering a replica to its first token, on one start path.
//
// Invariants: Support is sorted ascending and positive; CDF has the same length, is non-decreasing, at most 1 and in the
// end above 0: P(lead ≤ Support[i]) = CDF[i]. When the last CDF value is below 1 (the longest observation was censored)
// the tail is exponential beyond the last support point with mean Tail. FailureProb in [0,1) is the share of starts that
// never served. The zero LeadTime knows nothing: Known reports false.
//
// The distribution is that of starts that serve: P(serving by t) = (1−FailureProb)·P(lead ≤ t). It is for one attempt.
// When a start fails, whoever replaces it orders again and the clock of the new attempt begins at its own order, so a
// caller that samples arrival times draws a failure with FailureProb, then adds a further draw (to the time of the failure
// if it is known, else to the drawn lead time). A container restarting inside one pod is not a new attempt.
//
// Borrowed, BorrowedBasis and BorrowedFrom say how much of the weight behind a thin estimate (see Ledger.Estimate) is
// not from samples of From, and where it comes from. Treat a LeadTime as a value: nothing here changes its slices.
type LeadTime struct {
	Path        Path            `json:"path,omitempty"`
	Basis       Basis           `json:"basis"`
	From        Key             `json:"from"`    // the key whose samples were used
	Samples     int             `json:"samples"` // finished and censored, 0 for Stated alone
	Censored    int             `json:"censored,omitempty"`
	FailureProb float64         `json:"failure_prob,omitempty"`
	FailedAfter time.Duration   `json:"failed_after_ns,omitempty"` // mean time until a failed start gave up, 0 when none did
	Support     []time.Duration `json:"support_ns"`
	CDF         []float64       `json:"cdf"`
	Tail        time.Duration   `json:"tail_ns,omitempty"`

	Borrowed      float64 `json:"borrowed,omitempty"`       // share of the weight, 0 when the samples stand alone
	BorrowedBasis Basis   `json:"borrowed_basis,omitempty"` // Pooled, Stated, Prior or Assumed
	BorrowedFrom  Key     `json:"borrowed_from,omitzero"`

	// Shift says that the newest starts differ from those before them, which therefore count less.
	Shift Shift `json:"shift,omitzero"`
}

// Shift is a change in the level of the starts: the newest Starts of them took Factor times as long as those before.
type Shift struct {
	Starts int     `json:"starts"`
	Factor float64 `json:"factor"`
}

const (
	// probSlack absorbs the rounding of products of float64 when a probability is compared with a CDF value, so that
	// the 0.95 quantile of twenty equal weights is the nineteenth value and not the twentieth.
	probSlack = 1e-9
	// leadMax clamps extrapolated durations: a hundred years reads as "do not wait for it" and cannot overflow in sums.
	leadMax = 100 * 365 * 24 * time.Hour
)

// Known reports whether the lead time says anything at all. The methods that return a duration panic when it does not:
// an unknown lead time is never zero, so the caller must branch.
func (lt LeadTime) Known() bool { return len(lt.Support) > 0 }

// Quantile returns the p-quantile: the smallest support point whose CDF reaches p, and beyond the last CDF value the
// exponential tail, last support + Tail·ln((1−CDF_last)/(1−p)). Without a tail (nothing censored at the end) every p
// above 1−1/n is the longest start seen; the next start exceeds it with probability 1/(n+1) (exchangeability), so a p
// beyond n/(n+1) asks more of n samples than they know.
//
// It panics if p is not inside (0,1) or the lead time is unknown. O(log n).
func (lt LeadTime) Quantile(p float64) time.Duration {
	return lt.Remaining(0, p)
}

// Remaining returns the p-quantile of (total − age) given total > age: how much longer a replica needs that has been
// starting for age. It is always positive, and Remaining(0, p) = Quantile(p).
//
// Beyond the last support point the tail is memoryless: the p-quantile is Tail·ln(1/(1−p)) whatever the age. Without a
// tail such a start is longer than all n samples. It is then treated as the ledger would treat it on hearing of it, as a
// sample censored at age: survival 1/(n+1) there, hence an exponential rest with mean age/ln(n+1). The rest grows with
// the age, so an overdue start is never promised "any second now". (n = 20, age 10 min: mean 3 min 17 s, p95 9 min 50 s.)
//
// It panics if p is not inside (0,1), age is negative or the lead time is unknown. O(log n).
func (lt LeadTime) Remaining(age time.Duration, p float64) time.Duration {
	if !(p > 0 && p < 1) {
		panic(fmt.Sprintf("coldstart: quantile of p = %v, want a value inside (0,1)", p))
	}
	if age < 0 {
		panic(fmt.Sprintf("coldstart: negative age %v", age))
	}
	if !lt.Known() {
		panic("coldstart: quantile of an unknown lead time")
	}
	k := sort.Search(len(lt.Support), func(i int) bool { return lt.Support[i] > age })
	past := 0.0
	if k > 0 {
		past = lt.CDF[k-1]
	}
	if k == len(lt.Support) || past >= 1 {
		return exponentialQuantile(lt.overdueMean(age), 1, p)
	}
	u := past + p*(1-past)
	i := k + sort.SearchFloat64s(lt.CDF[k:], u-probSlack)
	if i < len(lt.Support) {
		return lt.Support[i] - age
	}
	last := len(lt.Support) - 1
	beyond := (1 - lt.CDF[last]) / (1 - past) // of those past age, the share that outlives the support
	return min(lt.Support[last]-age+exponentialQuantile(lt.Tail, beyond, p), leadMax)
}

// overdueMean is the mean rest of a start older than every support point; see Remaining.
func (lt LeadTime) overdueMean(age time.Duration) time.Duration {
	if lt.Tail > 0 && lt.CDF[len(lt.CDF)-1] < 1 {
		return lt.Tail
	}
	n := max(lt.Samples, 1)
	return scale(age, 1/math.Log(float64(n)+1))
}

// exponentialQuantile returns x with surviving·exp(−x/mean) = 1−p, at least a nanosecond and at most leadMax.
func exponentialQuantile(mean time.Duration, surviving, p float64) time.Duration {
	return max(scale(mean, math.Log(surviving/(1-p))), 1)
}

// scale multiplies without overflow.
func scale(d time.Duration, by float64) time.Duration {
	x := float64(d) * by
	if x >= float64(leadMax) {
		return leadMax
	}
	return time.Duration(x)
}

// Scaled returns the lead time with every duration multiplied by a factor above 0. It panics when the factor is not.
func (lt LeadTime) Scaled(by float64) LeadTime {
	if !(by > 0) {
		panic(fmt.Sprintf("coldstart: scaling by %v, want a factor above 0", by))
	}
	support := make([]time.Duration, len(lt.Support))
	for i, d := range lt.Support {
		support[i] = max(scale(d, by), 1)
		if i > 0 {
			support[i] = max(support[i], support[i-1]+1) // distinct durations stay distinct
		}
	}
	lt.Support, lt.Tail, lt.FailedAfter = support, scale(lt.Tail, by), scale(lt.FailedAfter, by)
	if n := len(lt.CDF); n > 0 && lt.CDF[n-1] < 1 {
		lt.Tail = max(lt.Tail, 1)
	}
	return lt
}

// Sample draws a lead time by inversion: u uniform in [0,1), the caller's own randomness. Equal u give equal draws, so
// common random numbers stay common. It panics as Quantile does, except that u = 0 is allowed.
func (lt LeadTime) Sample(u float64) time.Duration { return lt.SampleRemaining(0, u) }

// SampleRemaining draws how much longer a replica needs that has been starting for age; see Remaining and Sample.
func (lt LeadTime) SampleRemaining(age time.Duration, u float64) time.Duration {
	if u == 0 {
		u = math.SmallestNonzeroFloat64
	}
	return lt.Remaining(age, u)
}

// Mean returns the mean lead time of a start that serves, tail included. It panics if the lead time is unknown. O(n).
func (lt LeadTime) Mean() time.Duration {
	if !lt.Known() {
		panic("coldstart: mean of an unknown lead time")
	}
	mean, past := 0.0, 0.0
	for i, d := range lt.Support {
		mean += float64(d) * (lt.CDF[i] - past)
		past = lt.CDF[i]
	}
	last := lt.Support[len(lt.Support)-1]
	mean += (1 - past) * (float64(last) + float64(lt.Tail))
	return scale(1, mean)
}

// Validate reports everything that breaks the invariants of LeadTime, joined, each with the JSON field, the value and
// what is allowed. The unknown lead time (no support) is valid.
func (lt LeadTime) Validate() error {
	errs := append(Key{Path: lt.Path}.problems(), lt.labelProblems()...)
	if len(lt.CDF) != len(lt.Support) {
		errs = append(errs, fmt.Errorf("cdf has %d values, support_ns %d: want as many", len(lt.CDF), len(lt.Support)))
	}
	for i, d := range lt.Support {
		if d <= 0 || d > leadMax {
			errs = append(errs, fmt.Errorf("support_ns[%d] %v: want above 0, at most %v", i, d, leadMax))
		}
		if i > 0 && d <= lt.Support[i-1] {
			errs = append(errs, fmt.Errorf("support_ns[%d] %v: want above the one before, %v", i, d, lt.Support[i-1]))
		}
	}
	for i, p := range lt.CDF {
		if !(p >= 0 && p <= 1) {
			errs = append(errs, fmt.Errorf("cdf[%d] %v: want 0 to 1", i, p))
		}
		if i > 0 && p < lt.CDF[i-1] {
			errs = append(errs, fmt.Errorf("cdf[%d] %v: want at least the one before, %v", i, p, lt.CDF[i-1]))
		}
	}
	if lt.Tail < 0 || lt.Tail > leadMax {
		errs = append(errs, fmt.Errorf("tail_ns %v: want 0 to %v", lt.Tail, leadMax))
	}
	if n := len(lt.CDF); n > 0 && lt.CDF[n-1] == 0 {
		errs = append(errs, fmt.Errorf("cdf[%d] 0: want the last value above 0, or the support says nothing", n-1))
	}
	if n := len(lt.CDF); n > 0 && lt.CDF[n-1] < 1 && lt.Tail <= 0 {
		errs = append(errs, fmt.Errorf("tail_ns %v: want above 0 because the last cdf value, %v, is below 1", lt.Tail, lt.CDF[n-1]))
	}
	return errors.Join(errs...)
}

// labelProblems checks everything but the curve.
func (lt LeadTime) labelProblems() []error {
	var errs []error
	if bases := []Basis{Measured, Pooled, Stated, Prior}; !slices.Contains(bases, lt.Basis) && (lt.Known() || lt.Basis != "") {
		errs = append(errs, fmt.Errorf("basis %q: want one of %q", lt.Basis, bases))
	}
	if lt.FailedAfter < 0 || lt.FailedAfter > leadMax {
		errs = append(errs, fmt.Errorf("failed_after_ns %v: want 0 to %v", lt.FailedAfter, leadMax))
	}
	if lt.Shift.Starts < 0 || lt.Shift.Starts > 0 && !(lt.Shift.Factor > 0) {
		errs = append(errs, fmt.Errorf("shift of %d starts by %v: want a positive factor", lt.Shift.Starts, lt.Shift.Factor))
	}
	for _, p := range lt.From.problems() {
		errs = append(errs, fmt.Errorf("from: %w", p))
	}
	if lt.Samples < 0 || lt.Censored < 0 || lt.Censored > lt.Samples {
		errs = append(errs, fmt.Errorf("samples %d, censored %d: want 0 ≤ censored ≤ samples", lt.Samples, lt.Censored))
	}
	if !(lt.FailureProb >= 0 && lt.FailureProb < 1) {
		errs = append(errs, fmt.Errorf("failure_prob %v: want 0 to below 1", lt.FailureProb))
	}
	if !(lt.Borrowed >= 0 && lt.Borrowed <= 1) {
		errs = append(errs, fmt.Errorf("borrowed %v: want 0 to 1", lt.Borrowed))
	}
	if bases := []Basis{"", Pooled, Stated, Prior, Assumed}; !slices.Contains(bases, lt.BorrowedBasis) {
		errs = append(errs, fmt.Errorf("borrowed_basis %q: want one of %q", lt.BorrowedBasis, bases[1:]))
	}
	for _, p := range lt.BorrowedFrom.problems() {
		errs = append(errs, fmt.Errorf("borrowed_from: %w", p))
	}
	return errs
}
