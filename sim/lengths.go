package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Lengths is a distribution of token counts: a mixture of lognormals, rounded to whole tokens and held within [1, Max].
// Real prompt lengths are lumpy (templates, context windows), which one lognormal cannot show.
//
// Invariants: at least one component; weights positive and summing to 1; Max ≥ 1.
type Lengths struct {
	Components []Component `yaml:"components"`
	// Max is the longest count, such as the context window.
	Max int `yaml:"max_tokens"`
}

// Component is one lognormal of a mixture: Weight is its share of the requests, Median its median in tokens, Sigma the
// standard deviation of the logarithm.
type Component struct {
	Weight float64 `yaml:"weight"`
	Median float64 `yaml:"median_tokens"`
	Sigma  float64 `yaml:"sigma"`
}

// weightTolerance is how far from 1 the weights may add up: they are typed in with three digits.
const weightTolerance = 0.005

// Validate reports every field out of range.
func (l Lengths) Validate() error {
	var errs []error
	if len(l.Components) == 0 {
		errs = append(errs, errors.New("components is empty: at least one lognormal is needed"))
	}
	if l.Max < 1 || l.Max > 10_000_000 {
		errs = append(errs, fmt.Errorf("max_tokens is %d: 1 to 10000000 are allowed", l.Max))
	}
	sum := 0.0
	for i, c := range l.Components {
		sum += c.Weight
		if !(c.Weight > 0 && c.Weight <= 1) {
			errs = append(errs, fmt.Errorf("components[%d].weight is %v: above 0 and at most 1 is allowed", i, c.Weight))
		}
		if !(c.Median >= 1 && c.Median <= 1e7) {
			errs = append(errs, fmt.Errorf("components[%d].median_tokens is %v: 1 to 10000000 are allowed", i, c.Median))
		}
		if !(c.Sigma >= 0 && c.Sigma <= 3) {
			errs = append(errs, fmt.Errorf("components[%d].sigma is %v: 0 to 3 are allowed", i, c.Sigma))
		}
	}
	if len(l.Components) > 0 && !(math.Abs(sum-1) <= weightTolerance) {
		errs = append(errs, fmt.Errorf("components: the weights add up to %v: 1 is allowed, give or take %v",
			sum, weightTolerance))
	}
	return errors.Join(errs...)
}

// Moments returns the mean and standard deviation in tokens, with the mass above Max gathered at Max. Rounding to whole
// tokens and the floor of 1 are neglected: they move the mean by less than half a token.
//
// For a lognormal with μ = ln median: E[min(X, M)^k] = exp(kμ+k²σ²/2)·Φ((ln M−μ−kσ²)/σ) + M^k·Φ((μ−ln M)/σ).
func (l Lengths) Moments() (mean, sd float64) {
	var first, second, weights float64
	for _, c := range l.Components {
		first += c.Weight * c.cappedMoment(1, float64(l.Max))
		second += c.Weight * c.cappedMoment(2, float64(l.Max))
		weights += c.Weight
	}
	mean = first / weights
	return mean, math.Sqrt(max(0, second/weights-mean*mean))
}

func (c Component) cappedMoment(k, limit float64) float64 {
	if c.Sigma == 0 {
		return math.Pow(min(c.Median, limit), k)
	}
	mu := math.Log(c.Median)
	z := (math.Log(limit) - mu) / c.Sigma
	return math.Exp(k*mu+k*k*c.Sigma*c.Sigma/2)*normalCDF(z-k*c.Sigma) + math.Pow(limit, k)*normalCDF(-z)
}

func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// sampler draws from a Lengths quickly: logarithms and cumulative weights are worked out once.
type sampler struct {
	upTo, mu, sigma []float64
	max             float64
	mean, sd        float64
}

func newSampler(l Lengths) *sampler {
	s := &sampler{max: float64(l.Max)}
	s.mean, s.sd = l.Moments()
	sum := 0.0
	for _, c := range l.Components {
		sum += c.Weight
		s.upTo = append(s.upTo, sum)
		s.mu = append(s.mu, math.Log(c.Median))
		s.sigma = append(s.sigma, c.Sigma)
	}
	for i := range s.upTo {
		s.upTo[i] /= sum
	}
	return s
}

// draw returns one length, unrounded and within [1, max].
func (s *sampler) draw(r *rand.Rand) float64 {
	u, i := r.Float64(), 0
	for i < len(s.upTo)-1 && u >= s.upTo[i] {
		i++
	}
	return min(s.max, max(1, math.Exp(s.mu[i]+s.sigma[i]*r.NormFloat64())))
}
