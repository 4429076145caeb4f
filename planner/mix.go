package planner

import (
	"errors"
	"fmt"
	"math"
)

// Ratio is a number without a unit.
type Ratio float64

// RequestMix is what a model's requests are like: mean prompt and completion tokens and how widely both spread. It stands
// for the distribution whose moments the sizing formulas need, because a mean of squares is not the square of a mean: at
// equal means, requests that spread more cost more.
//
// A coefficient of variation is standard deviation ÷ mean; 0 are requests of one size. Correlation is that of prompt and
// completion within a request. Higher moments are those of lognormal distributions with these means and spreads.
type RequestMix struct {
	Prompt       Tokens `json:"prompt_tokens" yaml:"prompt_tokens"`
	Completion   Tokens `json:"completion_tokens" yaml:"completion_tokens"`
	PromptCV     Ratio  `json:"prompt_cv,omitempty" yaml:"prompt_cv,omitempty"`
	CompletionCV Ratio  `json:"completion_cv,omitempty" yaml:"completion_cv,omitempty"`
	Correlation  Ratio  `json:"correlation,omitempty" yaml:"correlation,omitempty"`
}

// Validate reports every field out of range.
func (m RequestMix) Validate() error {
	var errs []error
	check := func(key string, v, lo, hi float64) {
		if !(v >= lo && v <= hi) {
			errs = append(errs, fmt.Errorf("requests.%s is %v: %g to %g are allowed", key, v, lo, hi))
		}
	}
	check("prompt_tokens", float64(m.Prompt), 1, 1e8)
	check("completion_tokens", float64(m.Completion), 1, 1e8)
	check("prompt_cv", float64(m.PromptCV), 0, 20)
	check("completion_cv", float64(m.CompletionCV), 0, 20)
	check("correlation", float64(m.Correlation), -1, 1)
	return errors.Join(errs...)
}

// String prints the means.
func (m RequestMix) String() string {
	return fmt.Sprintf("%.0f prompt + %.0f completion tokens a request", float64(m.Prompt), float64(m.Completion))
}

// observed lays the means and spreads that were observed over the mix; nil and 0 are unknown.
func (m RequestMix) observed(o *RequestMix) RequestMix {
	if o == nil {
		return m
	}
	m.Prompt, m.Completion = max(o.Prompt, 1), max(o.Completion, 1)
	if o.PromptCV > 0 {
		m.PromptCV = o.PromptCV
	}
	if o.CompletionCV > 0 {
		m.CompletionCV = o.CompletionCV
	}
	if o.Correlation != 0 {
		m.Correlation = o.Correlation
	}
	return m
}

// mixMoved is how far a mean may move until requests count as of another shape: facts of a profile that were learned
// before are then learned anew.
const mixMoved = 0.2

// moved reports whether a mean of the mix is more than 20 % away from that of the other.
func (m RequestMix) moved(from RequestMix) bool {
	far := func(a, b Tokens) bool { return math.Abs(float64(a-b)) > mixMoved*float64(b) }
	return far(m.Prompt, from.Prompt) || far(m.Completion, from.Completion)
}

// Surge is why a load rose.
type Surge string

// The surges. A rise in requests is more of the same and takes more replicas of the same kind; longer prompts or
// completions move the constraint that binds, most often to KV tokens, and another shape may be the better answer.
const (
	SurgeNone        Surge = "none"
	SurgeRequests    Surge = "more requests"
	SurgePrompts     Surge = "longer prompts"
	SurgeCompletions Surge = "longer completions"
)

// SurgeCause tells a burst of long contexts from a rise in requests. It splits the growth of the work between two mean
// loads (work = prompt/rates.Prompt + completion/rates.Completion) into what the requests, the tokens of a prompt and
// those of a completion each contribute: factors multiply, so their logarithms add. It returns the largest part, or
// SurgeNone when the work grew by less than a fifth or the requests of either load are unknown (0).
func SurgeCause(before, after Load, rates Profile) Surge {
	if before.Requests <= 0 || after.Requests <= 0 || !before.finite() || !after.finite() {
		return SurgeNone
	}
	workBefore := rates.utilisation(float64(before.Prompt), float64(before.Completion))
	workAfter := rates.utilisation(float64(after.Prompt), float64(after.Completion))
	if !(workAfter > (1+mixMoved)*workBefore) || workBefore <= 0 {
		return SurgeNone
	}
	// One part at a time, requests first: the product of the three is the whole growth.
	growth := float64(after.Requests / before.Requests)
	scaled := growth * workBefore
	longer := growth * rates.utilisation(float64(after.Prompt)/growth, float64(before.Completion))
	cause, most := SurgeRequests, growth
	if f := longer / scaled; f > most {
		cause, most = SurgePrompts, f
	}
	if f := workAfter / longer; f > most {
		cause = SurgeCompletions
	}
	return cause
}

// moment is the k-th moment of a lognormal variable with this mean and coefficient of variation.
func moment(mean, cv float64, k int) float64 {
	return math.Pow(mean, float64(k)) * math.Pow(1+cv*cv, float64(k*(k-1))/2)
}

// lognormal returns such a variable as a function of the standard deviations of its logarithm.
func lognormal(mean, cv float64) func(z float64) float64 {
	variance := math.Log1p(cv * cv)
	sigma := math.Sqrt(variance)
	return func(z float64) float64 { return mean * math.Exp(sigma*z-variance/2) }
}

// cell is a slice of the standard normal distribution: its middle, lower end and weight.
type cell struct{ z, low, weight float64 }

// cells cut it from -3 to 6 standard deviations. A sum over them is a mean that sees the tail as far as the fourth
// moments need it; the completions, of which only the bulk counts, make do with a third of them.
var (
	promptCells     = cellsOf(72)
	completionCells = cellsOf(24)
)

func cellsOf(n int) []cell {
	const from, to = -3, 6
	width := (to - from) / float64(n)
	out := make([]cell, n)
	below := 0.0
	for i := range out {
		out[i].low = from + width*float64(i)
		out[i].z = out[i].low + width/2
		above := normal(out[i].low + width)
		out[i].weight = above - below
		below = above
	}
	return out
}

// normal is the standard normal distribution function.
func normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
