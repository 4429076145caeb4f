package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Authority is how far a plan may reach.
type Authority string

// The authorities: observe and advise answer the configured minimum (a sibling trigger decides alone) while the plan is
// published in full; act answers the plan.
const (
	Observe Authority = "observe"
	Advise  Authority = "advise"
	Act     Authority = "act"
)

// Policy is what the owner wishes. It holds no facts, no clients and no secrets.
type Policy struct {
	// Seed drives every random draw; the same seed gives the same Decision.
	Seed uint64 `json:"seed" yaml:"seed"`
	// Defaults applies to a model that Models does not name.
	Defaults ModelPolicy            `json:"defaults" yaml:"defaults"`
	Models   map[string]ModelPolicy `json:"models,omitempty" yaml:"models"`
	// Pools is the authority over the nodes of static pools; empty is observe. Other pools grow by the pods that wait.
	Pools Authority `json:"pools,omitempty" yaml:"pools,omitempty"`
	// Quota is about the quotas; nil stands for DefaultQuotaPolicy.
	Quota *QuotaPolicy `json:"quota,omitempty" yaml:"quota,omitempty"`
	// Diagnose are the thresholds of the rules that hold growth; nil stands for DefaultThresholds.
	Diagnose *Thresholds `json:"diagnose,omitempty" yaml:"diagnose"`
}

// ModelPolicy is the policy of one model.
type ModelPolicy struct {
	// Authority over replicas; observe by default.
	Authority Authority `json:"authority" yaml:"authority"`
	// ReplicasMin and ReplicasMax bound the plan. ReplicasMax 0 means no limit was stated.
	ReplicasMin int `json:"replicas_min" yaml:"replicas_min"`
	ReplicasMax int `json:"replicas_max" yaml:"replicas_max"`
	// Priority is the tier of the model: when GPUs are short those of a higher one are placed first, and models of a lower
	// one yield replicas above their ReplicasMin.
	Priority int `json:"priority,omitempty" yaml:"priority"`
	// Mode is what is weighed: service_level or cost. In the mode cost, ShortageCost and IdleCost are those of a replica-minute
	// short and of one idle, in any unit; the plan has the least expected sum of both.
	Mode         Mode    `json:"mode,omitempty" yaml:"mode"`
	ShortageCost float64 `json:"shortage_cost,omitempty" yaml:"shortage_cost"`
	IdleCost     float64 `json:"idle_cost,omitempty" yaml:"idle_cost"`
	// Survive is the loss that the plan must survive: the demand at ServiceLevel must still fit without the node, zone or
	// spot pool that holds most of the replicas. Empty is none.
	Survive Survival `json:"survive,omitempty" yaml:"survive"`
	// Standby is the demand of elsewhere that the plan has room for; nil is none.
	Standby *Standby `json:"standby,omitempty" yaml:"standby"`
	// ServiceLevel τ is the share of futures on which capacity must be enough, between 0.5 and 0.9999.
	ServiceLevel float64 `json:"service_level" yaml:"service_level"`
	// ScaleDownWindow: the plan never shrinks below what was wanted at any time in this window.
	ScaleDownWindow time.Duration `json:"scale_down_window_ns" yaml:"scale_down_window"`
	// DrainTime is how long a replica takes to finish its requests when it is released.
	DrainTime time.Duration `json:"drain_time_ns" yaml:"drain_time"`
	// DrainWithin is how fast a queue must be worked off (the reactive floor).
	DrainWithin time.Duration `json:"drain_within_ns" yaml:"drain_within"`
	// QueueThreshold is how many waiting requests one replica may have (the reactive floor).
	QueueThreshold float64 `json:"queue_threshold" yaml:"queue_threshold"`
	// LoadMaxAge is how old the newest load may be; beyond it the model is flown blind: hold and grow only.
	LoadMaxAge time.Duration `json:"load_max_age_ns" yaml:"load_max_age"`
	// TTFT and ITL bound what requests may take until their first token and, as a mean, between tokens; 0 is no bound.
	// SLOPercentile of the requests must be within; 0 is 95 %. Profiles of stated rates have their SLO in them already.
	TTFT          time.Duration `json:"ttft_ns,omitempty" yaml:"ttft"`
	ITL           time.Duration `json:"itl_ns,omitempty" yaml:"itl"`
	SLOPercentile float64       `json:"slo_percentile,omitempty" yaml:"slo_percentile"`

	// unvetoed lets vetoes be found and said without holding anything. Only a replay of Explain sets it.
	unvetoed bool
}

// slo is what replicas with known physics are sized for.
func (m ModelPolicy) slo() SLO {
	s := SLO{TTFT: m.TTFT, ITL: m.ITL, Percentile: m.SLOPercentile}
	if s.Percentile == 0 {
		s.Percentile = 0.95
	}
	return s
}

// priorityMax bounds tiers.
const priorityMax = 1000

// DefaultModelPolicy is the policy of a model about which nothing was said.
func DefaultModelPolicy() ModelPolicy {
	return ModelPolicy{
		Authority:       Observe,
		ReplicasMin:     1,
		ServiceLevel:    0.95,
		ScaleDownWindow: 5 * time.Minute,
		DrainTime:       time.Minute,
		DrainWithin:     time.Minute,
		QueueThreshold:  5,
		LoadMaxAge:      3 * time.Minute,
		TTFT:            2 * time.Second,
		ITL:             50 * time.Millisecond,
		SLOPercentile:   0.95,
	}
}

// For returns the policy of a model.
func (p Policy) For(model string) ModelPolicy {
	if m, ok := p.Models[model]; ok {
		return m
	}
	return p.Defaults
}

// Validate reports every value out of range, all at once, each with its key, the value and what is allowed.
func (p Policy) Validate() error {
	var errs []error
	if !slices.Contains([]Authority{"", Observe, Advise, Act}, p.Pools) {
		errs = append(errs, fmt.Errorf("pools is %q: observe, advise or act are allowed", p.Pools))
	}
	errs = append(errs, p.Quota.problems())
	errs = append(errs, p.Diagnose.problems()...)
	errs = append(errs, p.Defaults.validate("defaults")...)
	names := make([]string, 0, len(p.Models))
	for name := range p.Models {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		errs = append(errs, p.Models[name].validate("models."+name)...)
	}
	return errors.Join(errs...)
}

func (m ModelPolicy) validate(prefix string) []error {
	var errs []error
	bad := func(key string, value any, allowed string) {
		errs = append(errs, fmt.Errorf("%s.%s is %v: %s", prefix, key, value, allowed))
	}
	if !slices.Contains([]Authority{Observe, Advise, Act}, m.Authority) {
		bad("authority", fmt.Sprintf("%q", m.Authority), "observe, advise or act are allowed")
	}
	if m.ReplicasMin < 0 || m.ReplicasMin > replicasLimit {
		bad("replicas_min", m.ReplicasMin, fmt.Sprintf("0 to %d are allowed", replicasLimit))
	}
	if m.ReplicasMax < 0 || m.ReplicasMax > replicasLimit {
		bad("replicas_max", m.ReplicasMax, fmt.Sprintf("0 (no limit) to %d are allowed", replicasLimit))
	}
	if m.ReplicasMax > 0 && m.ReplicasMin > m.ReplicasMax {
		bad("replicas_min", m.ReplicasMin, fmt.Sprintf("at most replicas_max, %d, is allowed", m.ReplicasMax))
	}
	if m.Priority < -priorityMax || m.Priority > priorityMax {
		bad("priority", m.Priority, fmt.Sprintf("%d to %d are allowed", -priorityMax, priorityMax))
	}
	m.costProblems(bad)
	if !slices.Contains([]Survival{"", SurviveNode, SurviveZone, SurviveSpotPool}, m.Survive) {
		bad("survive", fmt.Sprintf("%q", m.Survive), "node, zone, spot-pool or none are allowed")
	}
	if s := m.Standby; s != nil && s.For == "" {
		bad("standby.for", `""`, "the name of another model is allowed")
	}
	if s := m.Standby; s != nil && !(s.Share > 0 && s.Share <= 1) {
		bad("standby.share", s.Share, "above 0 to 1 is allowed")
	}
	if !(m.ServiceLevel >= 0.5 && m.ServiceLevel <= 0.9999) {
		bad("service_level", m.ServiceLevel, "0.5 to 0.9999 are allowed")
	}
	if !(m.QueueThreshold > 0 && m.QueueThreshold <= 1e6) {
		bad("queue_threshold", m.QueueThreshold, "above 0 and at most 1000000 waiting requests per replica are allowed")
	}
	if m.SLOPercentile != 0 && !(m.SLOPercentile >= 0.5 && m.SLOPercentile <= 0.9999) {
		bad("slo_percentile", m.SLOPercentile, "0.5 to 0.9999 are allowed, or 0 for 0.95")
	}
	for _, d := range []struct {
		key      string
		v        time.Duration
		min, max time.Duration
	}{
		{"ttft", m.TTFT, 0, time.Hour},
		{"itl", m.ITL, 0, time.Minute},
		{"scale_down_window", m.ScaleDownWindow, 0, 24 * time.Hour},
		{"drain_time", m.DrainTime, 0, 24 * time.Hour},
		{"drain_within", m.DrainWithin, time.Second, time.Hour},
		{"load_max_age", m.LoadMaxAge, time.Second, time.Hour},
	} {
		if d.v < d.min || d.v > d.max {
			bad(d.key, d.v, fmt.Sprintf("%s to %s are allowed", shortDuration(d.min), shortDuration(d.max)))
		}
	}
	return errs
}

// shortDuration prints a duration to the second, one of less than a second to the millisecond, and without trailing zero
// units: 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	s := d.Round(time.Second).String()
	switch a := d.Abs(); {
	case a >= time.Second || a == 0:
	case a >= time.Millisecond:
		s = d.Round(time.Millisecond).String()
	default:
		s = d.String()
	}
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
