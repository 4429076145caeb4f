package coldstart

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// statedProbs are the probabilities at which a stated log-normal is cut into steps: 5 % apart, finer at the top, where
// plans are made. A quantile between two of them reads the upper one. What lies beyond the last is an exponential tail.
var statedProbs = []float64{
	0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60,
	0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.975, 0.99, 0.995,
}

// spreadMax bounds p95/p50: a lead time that is more uncertain than a hundredfold is not a statement.
const spreadMax = 100

// DefaultSpread returns the p95/p50 ratio for a lead time that somebody typed in as one number: 1.63 when a node may have
// to be launched (ColdNode, PathUnknown), 1.24 otherwise.
//
// Published ranges are read as p5 to p95 of a log-normal, whose p95/p50 is the root of high ÷ low. Node launch by a
// cluster autoscaler on GKE takes 3 to 8 minutes, √(8/3) = 1.63, and is the largest part of a cold start. Pod start with
// the node there, Qwen3-32B on H100, takes 91 to 139 s, √(139/91) = 1.24; pulls of 15-20 GB images, 4 to 6 minutes, give
// √(6/4) = 1.22. (Autoscaler: easecloud; pod start: the llm-d workload-variant-autoscaler's benchmark document; pulls: AWS
// SOCI articles.) It is the spread of one installation over its starts, not of guesses over installations.
func DefaultSpread(p Path) float64 {
	switch p {
	case WarmNode, CachedWeights:
		return 1.24
	default:
		return 1.63
	}
}

// StatedDuration returns the distribution that stands for one typed-in lead time d: log-normal with median d and the given
// p95/p50 ratio (see DefaultSpread), because a point mass would be false certainty. Nobody measured the share of failed
// starts either, so FailureProb is PriorFailureProb; a caller who knows better sets it.
//
// d must be above 0 and at most 365 days, spread above 1 and at most 100, path one of the start paths; all that is wrong
// is reported at once. Example: 5 min on a cold node is p50 5 min, p95 8 min 9 s, p99 9 min 59 s.
func StatedDuration(path Path, d time.Duration, spread float64) (LeadTime, error) {
	errs := Key{Path: path}.problems()
	if d <= 0 || d > totalMax {
		errs = append(errs, fmt.Errorf("lead time %v: want above 0, at most %v", d, totalMax))
	}
	if !(spread > 1 && spread <= spreadMax) {
		errs = append(errs, fmt.Errorf("spread (p95/p50) %v: want above 1, at most %d", spread, spreadMax))
	}
	if len(errs) > 0 {
		return LeadTime{}, errors.Join(errs...)
	}
	lt := logNormal(d, spread)
	lt.Path, lt.Basis, lt.FailureProb = path, Stated, PriorFailureProb
	return lt, nil
}

// StatedQuantiles is StatedDuration for somebody who knows two numbers, the median and the 95th percentile, which the
// result reproduces to the nanosecond's rounding. p95 must be above p50 and at most 100 times it.
func StatedQuantiles(path Path, p50, p95 time.Duration) (LeadTime, error) {
	if p50 > 0 && (p95 <= p50 || p95/spreadMax > p50) {
		return LeadTime{}, errors.Join(append(Key{Path: path}.problems(),
			fmt.Errorf("p95 %v: want above p50 (%v), at most %d times it", p95, p50, spreadMax))...)
	}
	return StatedDuration(path, p50, float64(p95)/float64(max(p50, 1)))
}

// logNormal cuts a log-normal with the given median and p95/p50 into steps at statedProbs. The tail's mean is the mean
// excess of the log-normal over its last step, E[X−q | X>q] = e^{μ+σ²/2}·Φ(σ−z)/(1−Φ(z)) − q, so that the mean is kept.
func logNormal(median time.Duration, spread float64) LeadTime {
	sigma := math.Log(spread) / distuv.UnitNormal.Quantile(0.95)
	var lt LeadTime
	for _, p := range statedProbs {
		at := time.Duration(math.Round(float64(median) * math.Exp(sigma*distuv.UnitNormal.Quantile(p))))
		if n := len(lt.Support); n > 0 && at <= lt.Support[n-1] { // durations of nanoseconds: two steps share one tick
			lt.CDF[n-1] = p
			continue
		}
		lt.Support, lt.CDF = append(lt.Support, max(at, 1)), append(lt.CDF, p)
	}
	p := statedProbs[len(statedProbs)-1]
	z := distuv.UnitNormal.Quantile(p)
	above := float64(median) * math.Exp(sigma*sigma/2) * distuv.UnitNormal.CDF(sigma-z) / (1 - p)
	lt.Tail = max(scale(1, above-float64(median)*math.Exp(sigma*z)), 1)
	return lt
}
