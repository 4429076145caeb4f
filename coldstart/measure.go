package coldstart

import (
	"cmp"
	"slices"
	"time"
)

// Measure returns what the samples say by themselves, all of equal weight and nothing borrowed: the product-limit estimate
// over those that served and those that are pending (see Ledger.Estimate for what a plan should be made on), and the share
// of failed ones among the finished. Its Basis is Measured, From the samples' key with what they do not share left empty.
// It is unknown, with Samples and Censored counted, when none of them served. O(n log n).
func Measure(samples []Sample) LeadTime {
	var lt LeadTime
	var obs []observation
	served, failed := 0, 0
	for i, s := range samples {
		if i == 0 {
			lt.From = s.Key
		}
		lt.From = common(lt.From, s.Key)
		lt.Samples++
		switch s.Outcome {
		case Served:
			served++
			obs = append(obs, observation{at: s.Total, weight: 1, served: true})
		case Failed:
			failed++
		case Pending:
			lt.Censored++
			obs = append(obs, observation{at: s.Total, weight: 1})
		}
	}
	lt.Path = lt.From.Path
	if served == 0 {
		return lt
	}
	lt.Basis, lt.FailureProb = Measured, float64(failed)/float64(served+failed)
	return lt.withCurve(productLimit(obs))
}

// common keeps the fields in which two keys agree.
func common(a, b Key) Key {
	same := func(x, y string) string {
		if x == y {
			return x
		}
		return ""
	}
	return Key{
		Model: same(a.Model, b.Model), Shape: same(a.Shape, b.Shape), Path: Path(same(string(a.Path), string(b.Path))),
		Engine: same(a.Engine, b.Engine), Image: Cache(same(string(a.Image), string(b.Image))),
		Weights: Cache(same(string(a.Weights), string(b.Weights))), Compile: Cache(same(string(a.Compile), string(b.Compile))),
		Size: same(a.Size, b.Size),
	}
}

// MedianPhases returns the median of each phase over the samples that served, of those that have it, in the order of a
// start: what a start on this path consists of. Medians do not sum to the median start.
func MedianPhases(samples []Sample) []PhaseMedian {
	took := map[Phase][]time.Duration{}
	for _, s := range samples {
		if s.Outcome == Served {
			for p, d := range s.Explained() {
				took[p] = append(took[p], d)
			}
		}
	}
	var out []PhaseMedian
	for _, p := range phases {
		if of := took[p]; len(of) > 0 {
			slices.SortFunc(of, func(a, b time.Duration) int { return cmp.Compare(a, b) })
			out = append(out, PhaseMedian{Phase: p, Samples: len(of), Median: of[len(of)/2]})
		}
	}
	return out
}

// PhaseMedian is one phase over several starts.
type PhaseMedian struct {
	Phase   Phase         `json:"phase"`
	Samples int           `json:"samples"`
	Median  time.Duration `json:"median_ns"`
}
