package benchmark

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Candidate is one method with one kind of interval, scored on one case and horizon.
type Candidate struct {
	Method, Interval string
	Steps, Peaks     []Loss // by origin of the comparison
}

// Score returns how p does at the origins of the comparison of a horizon.
func (c Case) Score(method, interval string, p Predictions, horizon int) Candidate {
	s := Candidate{Method: method, Interval: interval}
	for _, o := range c.CompareOrigins(horizon) {
		s.Steps = append(s.Steps, c.StepLoss(p[o], o, horizon))
		s.Peaks = append(s.Peaks, c.PeakLoss(p[o], o, horizon, 0))
	}
	return s
}

// CompareOrigins returns the origins that are compared on a horizon, Short or Long.
func (c Case) CompareOrigins(horizon int) []int {
	if horizon == c.Long {
		return c.CompareLong
	}
	return c.CompareShort
}

// Candidates scores a method with each kind of interval that it gave.
func (c Case) Candidates(method string, r Result, horizon int) []Candidate {
	var out []Candidate
	for _, interval := range slices.Sorted(maps.Keys(r.Intervals)) {
		out = append(out, c.Score(method, interval, r.Intervals[interval], horizon))
	}
	return out
}

// Best returns the candidate with the least loss by steps, or by peaks, and whether there is any. The choice is made with
// the outcome known, as a favour to the peers.
func Best(candidates []Candidate, losses func(Candidate) []Loss) (Candidate, bool) {
	var best Candidate
	least := math.Inf(1)
	for _, c := range candidates {
		if l := Sum(losses(c)).Pinball; l < least {
			best, least = c, l
		}
	}
	return best, !math.IsInf(least, 1)
}

// StepsOf and PeaksOf choose what Best compares.
func StepsOf(c Candidate) []Loss { return c.Steps }

// PeaksOf returns the losses of peaks.
func PeaksOf(c Candidate) []Loss { return c.Peaks }

// Match is ours against the best of a suite on one case and horizon.
type Match struct {
	Case    Case
	Horizon int
	Best    Candidate
	Pair    Pair // of step losses, or of peak losses
	Ratio   float64
	Interval
}

// originsMin is the number of windows below which a horizon of a series is not compared: the best of many methods on two
// windows is luck.
const originsMin = 10

// NewMatch pits ours against the best of candidates. ok is false when there is none, there are too few origins, or nothing
// could be scored.
func NewMatch(c Case, horizon int, ours Candidate, candidates []Candidate, losses func(Candidate) []Loss,
	rng *rand.Rand) (Match, bool) {
	best, ok := Best(candidates, losses)
	if !ok || len(losses(ours)) < originsMin {
		return Match{}, false
	}
	m := Match{Case: c, Horizon: horizon, Best: best, Pair: Pair{losses(ours), losses(best)}}
	m.Ratio = Ratio(m.Pair.Ours, m.Pair.Theirs)
	m.Interval = m.Pair.RatioInterval(rng)
	return m, !math.IsNaN(m.Ratio)
}

const (
	// The bars on accuracy: the geometric mean of the ratios, the share of series at or below 1, the largest ratio.
	ratioMeanMax  = 0.97
	shareMin      = 0.70
	ratioEachMax  = 1.05
	ratioNotWorse = 1.00
)

// Verdict sums up matches.
type Verdict struct {
	Mean float64
	Interval
	NotWorse float64 // share of ratios up to 1
	Worst    float64
	WorstAt  string
}

// Judge sums up matches, of which there must be one at least.
func Judge(matches []Match, rng *rand.Rand) Verdict {
	var v Verdict
	var ratios []float64
	var pairs []Pair
	for _, m := range matches {
		ratios, pairs = append(ratios, m.Ratio), append(pairs, m.Pair)
		if m.Ratio <= ratioNotWorse {
			v.NotWorse += 1 / float64(len(matches))
		}
		if m.Ratio > v.Worst {
			v.Worst, v.WorstAt = m.Ratio, m.Case.Name
		}
	}
	v.Mean = GeometricMean(ratios)
	v.Interval = GeometricInterval(pairs, rng)
	return v
}

// Holds reports whether the bars on accuracy hold.
func (v Verdict) Holds() bool {
	return v.Mean <= ratioMeanMax && v.NotWorse >= shareMin && v.Worst <= ratioEachMax
}
