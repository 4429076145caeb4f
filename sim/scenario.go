package sim

import (
	"fmt"
	"time"

	"forewarm/planner"
)

// Scenario is a World with a stretch of its time, and what the policies that are tried in it may know.
type Scenario struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	World       World  `yaml:"world"`
	// Duration is how long the world runs from World.Start; History is how much of the time before it is in the metrics
	// store. Forecasters need at least an hour of it.
	Duration time.Duration `yaml:"duration"`
	History  time.Duration `yaml:"history"`
	// Interval is the time between two ticks of a policy (KEDA polling and the planner's loop alike), and that between two
	// scrapes. A policy sees the gauges and loads as they were ScrapeLag ago, rounded up to whole intervals.
	Interval  time.Duration `yaml:"interval"`
	ScrapeLag time.Duration `yaml:"scrape_lag"`
	// PastStarts is how many starts of each path were watched before; policies learn start times from those only.
	PastStarts int `yaml:"past_starts"`
	// ProfileError is the relative error, up or down by the seed, of the profile that the policies are told.
	ProfileError float64 `yaml:"profile_error"`
	// Target is the share of a minute's requests that must meet the SLO, or the minute counts as below it.
	Target float64 `yaml:"slo_target"`
	// Prices are in dollars per GPU-hour by product. A product without one has unknown cost.
	Prices map[string]float64 `yaml:"usd_per_gpu_hour"`
	// Schedule is what the policy cron follows.
	Schedule []Minimum `yaml:"schedule"`
	Faults   []Fault   `yaml:"faults"`
	// Policies are compared in this order, see ParsePolicy.
	Policies []string `yaml:"policies"`
	Seed     uint64   `yaml:"seed"`
}

// Minimum is a stretch of the local wall clock on working days in which cron wants at least Replicas of a model.
type Minimum struct {
	Model    string        `yaml:"model"`
	From     time.Duration `yaml:"from"` // since local midnight
	To       time.Duration `yaml:"to"`
	Replicas int           `yaml:"replicas"`
}

// DefaultScenario holds what a scenario file need not say.
func DefaultScenario() Scenario {
	return Scenario{
		World:    World{Autoscaler: DefaultAutoscaler()},
		Duration: time.Hour, History: 28 * 24 * time.Hour, Interval: 15 * time.Second, ScrapeLag: 15 * time.Second,
		PastStarts: 20, Target: 0.95, ProfileError: 0.2, Policies: []string{"forewarm", "keda-queue"}, Seed: 1,
	}
}

// durationMax is what the clock of an engine holds, with some room.
const durationMax = 50 * 24 * time.Hour

// Validate reports every value out of range, all at once, and every policy that does not exist.
func (s Scenario) Validate() error {
	var p problems
	if s.Name == "" {
		p.add("name is empty: a name is needed")
	}
	p.nest("world", s.World.Validate())
	p.duration("duration", s.Duration, time.Minute, durationMax)
	p.duration("history", s.History, time.Hour, 366*24*time.Hour)
	p.duration("interval", s.Interval, time.Second, 10*time.Minute)
	p.duration("scrape_lag", s.ScrapeLag, 0, time.Hour)
	p.count("past_starts", s.PastStarts, 0, 10_000)
	p.within("profile_error", s.ProfileError, 0, 0.9)
	p.within("slo_target", s.Target, 0.01, 1)
	for _, product := range sortedKeys(s.Prices) {
		p.within(fmt.Sprintf("usd_per_gpu_hour[%s]", product), s.Prices[product], 0, 10_000)
	}
	for i, m := range s.Schedule {
		key := fmt.Sprintf("schedule[%d]", i)
		if s.model(m.Model) == nil {
			p.add("%s.model is %q: a model of this world is allowed", key, m.Model)
		}
		p.duration(key+".from", m.From, 0, 24*time.Hour)
		p.duration(key+".to", m.To, m.From, 24*time.Hour)
		p.count(key+".replicas", m.Replicas, 0, replicasLimit)
	}
	for i, f := range s.Faults {
		p.nest(fmt.Sprintf("faults[%d]", i), s.checkFault(f))
	}
	s.checkShapes(&p)
	if len(s.Policies) == 0 {
		p.add("policies is empty: at least one of %s is needed", PolicyNames)
	}
	for i, name := range s.Policies {
		if _, err := ParsePolicy(name); err != nil {
			p.add("policies[%d]: %w", i, err)
		}
	}
	return p.err()
}

// checkShapes finds models whose replica fits on no node there is or can be: they would never start.
func (s Scenario) checkShapes(p *problems) {
	for i, m := range s.World.Models {
		most := 0
		for _, pool := range s.World.Pools {
			if m.Shape.Product != "" && m.Shape.Product != pool.Product {
				continue
			}
			if pool.NodesMax > len(pool.Nodes) {
				most = max(most, pool.GPUsPerNode)
			}
			for _, n := range pool.Nodes {
				most = max(most, n.GPUs-n.Others)
			}
		}
		if m.Shape.GPUs > most {
			p.add("world.models[%d].shape.gpus is %d: a node of product %q has at most %d", i, m.Shape.GPUs, m.Shape.Product, most)
		}
	}
}

func (s Scenario) model(name string) *Model {
	for i := range s.World.Models {
		if s.World.Models[i].Name == name {
			return &s.World.Models[i]
		}
	}
	return nil
}

// toldProfile is the profile that policies get of a model: the stated one, wrong by ProfileError up or down. The sign is
// drawn by the seed and the model's name, so that it is the same for every policy.
func (s Scenario) toldProfile(m Model) planner.Profile {
	told := m.Profile
	factor := 1 + s.ProfileError
	if newStream(s.Seed, purposeProfile, nameSeed(m.Name)).Float64() < 0.5 {
		factor = 1 - s.ProfileError
	}
	if physics := told.Physics; physics != nil || m.Engine != nil && told.Stated() && told.Prompt == 0 {
		if physics == nil {
			physics, told.Source = m.Engine, fmt.Sprintf("the replica's own, wrong by up to %.0f %%", 100*s.ProfileError)
		}
		wrong := *physics
		for _, cost := range []*planner.Milliseconds{&wrong.Iteration, &wrong.Prefill, &wrong.Decode, &wrong.Attention,
			&wrong.PrefillAttention} {
			*cost = planner.Milliseconds(float64(*cost) / factor)
		}
		told.Physics = &wrong
		return told
	}
	told.Prompt *= planner.TokenRate(factor)
	told.Completion *= planner.TokenRate(factor)
	return told
}
