package planner

import (
	"errors"
	"fmt"
	"math"
)

// Shape is what one replica of a model occupies.
//
// Invariants: GPUs ≥ 1 per pod, Pods ≥ 1 per replica. Product is the GPU product or MIG profile; empty means any.
// Topology names the level that must hold all pods of one replica ("node", "nvlink-domain"); empty means node when
// Pods is 1 and no constraint otherwise.
type Shape struct {
	GPUs     int    `json:"gpus" yaml:"gpus"`
	Pods     int    `json:"pods" yaml:"pods"`
	Product  string `json:"product,omitempty" yaml:"product"`
	Topology string `json:"topology,omitempty" yaml:"topology"`
}

// String is the shape's stable name, such as "4x1/H200": GPUs per pod x pods, product. It keys lead times.
func (s Shape) String() string {
	name := fmt.Sprintf("%dx%d", s.GPUs, s.Pods)
	if s.Product != "" {
		name += "/" + s.Product
	}
	return name
}

// Validate reports every field out of range.
func (s Shape) Validate() error {
	var errs []error
	if s.GPUs < 1 || s.GPUs > 1024 {
		errs = append(errs, fmt.Errorf("shape.gpus is %d: 1 to 1024 GPUs per pod are allowed", s.GPUs))
	}
	if s.Pods < 1 || s.Pods > 1024 {
		errs = append(errs, fmt.Errorf("shape.pods is %d: 1 to 1024 pods per replica are allowed", s.Pods))
	}
	return errors.Join(errs...)
}

// Profile is the measured physics of one replica within its SLO, as a two-resource server: Prompt is the rate of prompt
// tokens it can prefill when it does nothing else, Completion the rate of completion tokens it can decode when it does
// nothing else. Prefill and decode share the same iterations, so the utilisations of both add up (not the tokens):
// a load fits while Prompt/Profile.Prompt + Completion/Profile.Completion ≤ 1. This is the linear token form of the
// continuous-batching iteration cost T = α + β·prefill + β·decode + γ·KV with the mean request shape inserted.
//
// Source says who measured it, when and with which request shape; it is repeated in the Steps.
type Profile struct {
	Prompt     TokenRate `json:"prompt_tokens_per_s" yaml:"prompt_tokens_per_s"`
	Completion TokenRate `json:"completion_tokens_per_s" yaml:"completion_tokens_per_s"`
	Source     string    `json:"source,omitempty" yaml:"source"`
}

// Validate reports every field out of range. Rates must be positive and finite.
func (p Profile) Validate() error {
	var errs []error
	check := func(key string, v TokenRate) {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
			errs = append(errs, fmt.Errorf("profile.%s is %v: a positive, finite number of tokens/s of one replica is allowed", key, f))
		}
	}
	check("prompt_tokens_per_s", p.Prompt)
	check("completion_tokens_per_s", p.Completion)
	return errors.Join(errs...)
}

// utilisation is the share of one replica that the load takes; above 1 it needs more than one.
func (p Profile) utilisation(prompt, completion float64) float64 {
	return prompt/float64(p.Prompt) + completion/float64(p.Completion)
}

// replicasFor is the smallest number of replicas whose shared capacity holds the load. Rates that exceed a whole number
// of replicas by less than one part in 10⁹ (floating-point dust) do not ask for another one.
func (p Profile) replicasFor(prompt, completion float64) int {
	return ceilCount(p.utilisation(prompt, completion))
}

// replicasLimit bounds every count, so that an absurd rate (a unit mistake) cannot overflow an int.
const replicasLimit = 1_000_000

func ceilCount(x float64) int {
	switch n := math.Ceil(x - 1e-9); {
	case n <= 0:
		return 0
	case n >= replicasLimit:
		return replicasLimit
	default:
		return int(n)
	}
}
