package configs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"forewarm/planner"
)

// ModelPolicy is the YAML form of a planner.ModelPolicy: every key may be left out and then keeps the value beneath it
// (the model's defaults, or the built-in ones).
type ModelPolicy struct {
	Authority       *planner.Authority `yaml:"authority"`
	ReplicasMin     *int               `yaml:"replicas_min"`
	ReplicasMax     *int               `yaml:"replicas_max"`
	Priority        *int               `yaml:"priority"`
	Mode            *planner.Mode      `yaml:"mode"`
	ShortageCost    *float64           `yaml:"shortage_cost"`
	IdleCost        *float64           `yaml:"idle_cost"`
	Survive         *planner.Survival  `yaml:"survive"`
	Standby         *planner.Standby   `yaml:"standby"`
	ServiceLevel    *float64           `yaml:"service_level"`
	ScaleDownWindow *time.Duration     `yaml:"scale_down_window"`
	DrainTime       *time.Duration     `yaml:"drain_time"`
	DrainWithin     *time.Duration     `yaml:"drain_within"`
	QueueThreshold  *float64           `yaml:"queue_threshold"`
	LoadMaxAge      *time.Duration     `yaml:"load_max_age"`
	TTFT            *time.Duration     `yaml:"ttft"`
	ITL             *time.Duration     `yaml:"itl"`
	SLOPercentile   *float64           `yaml:"slo_percentile"`
}

// Over lays what is set over base.
func (m ModelPolicy) Over(base planner.ModelPolicy) planner.ModelPolicy {
	set(&base.Authority, m.Authority)
	set(&base.ReplicasMin, m.ReplicasMin)
	set(&base.ReplicasMax, m.ReplicasMax)
	set(&base.Priority, m.Priority)
	set(&base.Mode, m.Mode)
	set(&base.ShortageCost, m.ShortageCost)
	set(&base.IdleCost, m.IdleCost)
	set(&base.Survive, m.Survive)
	if m.Standby != nil {
		base.Standby = m.Standby
	}
	set(&base.ServiceLevel, m.ServiceLevel)
	set(&base.ScaleDownWindow, m.ScaleDownWindow)
	set(&base.DrainTime, m.DrainTime)
	set(&base.DrainWithin, m.DrainWithin)
	set(&base.QueueThreshold, m.QueueThreshold)
	set(&base.LoadMaxAge, m.LoadMaxAge)
	set(&base.TTFT, m.TTFT)
	set(&base.ITL, m.ITL)
	set(&base.SLOPercentile, m.SLOPercentile)
	return base
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Policy is the YAML form of a planner.Policy.
type Policy struct {
	Seed     uint64                 `yaml:"seed"`
	Defaults ModelPolicy            `yaml:"defaults"`
	Models   map[string]ModelPolicy `yaml:"models"`
	Diagnose *planner.Thresholds    `yaml:"diagnose,omitempty"`
	Pools    planner.Authority      `yaml:"pools,omitempty"`
	Quota    *QuotaPolicy           `yaml:"quota,omitempty"`
}

// QuotaPolicy is the YAML form of a planner.QuotaPolicy; a key that is left out keeps the built-in default.
type QuotaPolicy struct {
	Authority *planner.Authority `yaml:"authority"`
	DrainTime *time.Duration     `yaml:"drain_time"`
	Donors    map[string]int     `yaml:"donors,omitempty"`
}

// over lays q over the defaults; nil stays nil, which the planner takes for them.
func (q *QuotaPolicy) over() *planner.QuotaPolicy {
	if q == nil {
		return nil
	}
	out := planner.DefaultQuotaPolicy()
	set(&out.Authority, q.Authority)
	set(&out.DrainTime, q.DrainTime)
	out.Donors = q.Donors
	return &out
}

// Planner lays the policy over the built-in defaults.
func (p Policy) Planner() planner.Policy {
	out := planner.Policy{Seed: p.Seed, Defaults: p.Defaults.Over(planner.DefaultModelPolicy()), Diagnose: p.Diagnose,
		Pools: p.Pools, Quota: p.Quota.over()}
	if len(p.Models) > 0 {
		out.Models = make(map[string]planner.ModelPolicy, len(p.Models))
	}
	for name, m := range p.Models {
		out.Models[name] = m.Over(out.Defaults)
	}
	return out
}

// WritePolicy writes p as the YAML that ReadPolicy reads back as the same policy. Every key is written out.
func WritePolicy(w io.Writer, p planner.Policy) error {
	out := Policy{Seed: p.Seed, Defaults: everyKey(p.Defaults), Diagnose: p.Diagnose, Pools: p.Pools}
	if q := p.Quota; q != nil {
		out.Quota = &QuotaPolicy{Authority: &q.Authority, DrainTime: &q.DrainTime, Donors: q.Donors}
	}
	if len(p.Models) > 0 {
		out.Models = make(map[string]ModelPolicy, len(p.Models))
	}
	for name, m := range p.Models {
		out.Models[name] = everyKey(m)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(out), enc.Close())
}

func everyKey(m planner.ModelPolicy) ModelPolicy {
	return ModelPolicy{
		Authority: &m.Authority, ReplicasMin: &m.ReplicasMin, ReplicasMax: &m.ReplicasMax, Priority: &m.Priority,
		Mode: &m.Mode, ShortageCost: &m.ShortageCost, IdleCost: &m.IdleCost,
		Survive: &m.Survive, Standby: m.Standby, ServiceLevel: &m.ServiceLevel,
		ScaleDownWindow: &m.ScaleDownWindow, DrainTime: &m.DrainTime, DrainWithin: &m.DrainWithin,
		QueueThreshold: &m.QueueThreshold, LoadMaxAge: &m.LoadMaxAge,
		TTFT: &m.TTFT, ITL: &m.ITL, SLOPercentile: &m.SLOPercentile,
	}
}

// ReadPolicy reads a policy file. Every problem is reported at once, with the file's name.
func ReadPolicy(name string, data []byte) (planner.Policy, error) {
	var p Policy
	if err := Decode(name, data, &p); err != nil {
		return planner.Policy{}, err
	}
	out := p.Planner()
	if err := out.Validate(); err != nil {
		return planner.Policy{}, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
