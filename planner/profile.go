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
	// CPU and Memory are what one pod asks for beside its GPUs; 0 is nothing that could bind.
	CPU    MilliCPU `json:"milli_cpu,omitempty" yaml:"milli_cpu,omitempty"`
	Memory Bytes    `json:"memory_bytes,omitempty" yaml:"memory_bytes,omitempty"`
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
	if s.CPU < 0 || s.Memory < 0 {
		errs = append(errs, fmt.Errorf("shape.milli_cpu is %d and shape.memory_bytes %d: at least 0 are allowed", s.CPU, s.Memory))
	}
	return errors.Join(errs...)
}

// Profile is what one replica carries within its SLO, in one of three forms.
//
// Stated rates: Prompt is the rate of prompt tokens it can prefill when it does nothing else, Completion the rate of
// completion tokens it can decode when it does nothing else. Prefill and decode share the same iterations, so the
// utilisations of both add up (not the tokens): a load fits while Prompt/Profile.Prompt + Completion/Profile.Completion
// ≤ 1. Physics: the cost of its iterations and its limits, from which the rates for the present mix of requests and the
// SLO of the policy are computed at every Decision. Table: measured requests per second by size of request.
//
// Source says who measured it, when and with which requests; it is repeated in the Steps.
type Profile struct {
	Prompt     TokenRate  `json:"prompt_tokens_per_s,omitempty" yaml:"prompt_tokens_per_s,omitempty"`
	Completion TokenRate  `json:"completion_tokens_per_s,omitempty" yaml:"completion_tokens_per_s,omitempty"`
	Physics    *Physics   `json:"physics,omitempty" yaml:"physics,omitempty"`
	Table      *RateTable `json:"table,omitempty" yaml:"table,omitempty"`
	Source     string     `json:"source,omitempty" yaml:"source,omitempty"`
}

// Stated reports whether the profile is in the form of stated rates.
func (p Profile) Stated() bool { return p.Physics == nil && p.Table == nil }

// Validate reports every field out of range, and a profile in more than one form. Rates must be positive and finite.
func (p Profile) Validate() error {
	forms := 0
	var errs []error
	if p.Physics != nil {
		forms++
		errs = append(errs, p.Physics.Validate())
	}
	if p.Table != nil {
		forms++
		errs = append(errs, p.Table.Validate())
	}
	if p.Prompt != 0 || p.Completion != 0 || forms == 0 {
		forms++
		check := func(key string, v TokenRate) {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
				errs = append(errs, fmt.Errorf("profile.%s is %v: a positive, finite number of tokens/s of one replica is allowed", key, f))
			}
		}
		check("prompt_tokens_per_s", p.Prompt)
		check("completion_tokens_per_s", p.Completion)
	}
	if forms > 1 {
		errs = append(errs, errors.New("profile has several of the two rates, physics and table: one form is allowed"))
	}
	return errors.Join(errs...)
}

// sized is a profile for one mix of requests: the rates, and for physics and tables what they rest on.
type sized struct {
	Profile              // stated rates
	mix      *RequestMix // nil for stated rates
	capacity *Capacity   // nil unless from physics
	usual    *RequestMix // what was usual, where the mix is that of a burst of other requests
	surge    Surge       // what makes that burst
}

// sizedFor turns a profile into the rates of one mix, SLO and number of replicas. The mix is what was observed, nil when
// unknown; a spread of 0 in it is unknown too and that of the profile stands in.
func (p Profile) sizedFor(observed *RequestMix, slo SLO, replicas int) sized {
	switch {
	case p.Physics != nil:
		mix := p.Physics.Requests.observed(observed)
		c := p.Physics.Capacity(mix, slo, replicas)
		c.Rates.Source = p.Source
		return sized{Profile: c.Rates, mix: &mix, capacity: &c, surge: SurgeNone}
	case p.Table != nil:
		mix := p.Table.Requests.observed(observed)
		rates := p.Table.rates(mix)
		rates.Source = p.Source
		return sized{Profile: rates, mix: &mix}
	}
	return sized{Profile: p}
}

// dilutes reports whether a replica carries less the more of them there are.
func (p Profile) dilutes() bool {
	return p.Physics != nil && p.Physics.PrefixHit != nil && !p.Physics.PrefixHit.Affine && p.Physics.PrefixHit.Rate > 0
}

// utilisation is the share of one replica that the load takes; above 1 it needs more than one. The profile has rates.
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
