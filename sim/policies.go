package sim

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"forewarm/forecast"
	"forewarm/planner"
)

// policy is what answers KEDA in a replay. A tick sees the cluster as the metrics of the moment show it and leaves the
// triggers that the autoscalers read at their next sync.
type policy interface {
	tick(ctx context.Context, c *Cluster, s sight) error
}

// PolicySpec is a policy by its name and argument.
type PolicySpec struct {
	Name string // as in PolicyNames, without argument
	// N is the argument: replicas of fixed, waiting requests a replica of keda-queue, requests in flight a replica of kpa,
	// percent of hpa-gpu. 0 is the default of the policy.
	N int
	// Goal is the share that oracle and tuned attain, in percent; 0 is 99.9.
	Goal float64
}

// goal is the share that is to be attained.
func (p PolicySpec) goal() float64 {
	if p.Goal == 0 {
		return 0.999
	}
	return p.Goal / 100
}

// PolicyNames are the policies that can be named, as messages show them.
const PolicyNames = "forewarm, fixed:N, keda-queue[:WAITING], hpa-gpu[:PERCENT], cron, kpa[:IN-FLIGHT], wva, dynamo, tuned[:PERCENT], oracle[:PERCENT]"

// ParsePolicy reads the name of a policy, see PolicyNames; an unknown one is an error that suggests the nearest.
func ParsePolicy(text string) (PolicySpec, error) {
	name, argument, has := strings.Cut(text, ":")
	takes := map[string]bool{"forewarm": false, "fixed": true, "keda-queue": true, "hpa-gpu": true, "cron": false, "kpa": true,
		"wva": false, "dynamo": false, "oracle": true, "tuned": true}
	allowed, known := takes[name]
	if !known {
		hint := ""
		if near := forecast.Nearest(name, sortedKeys(takes)); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		return PolicySpec{}, fmt.Errorf("unknown policy %q%s: %s are allowed", text, hint, PolicyNames)
	}
	spec := PolicySpec{Name: name}
	if has != (name == "fixed") && (has && !allowed || name == "fixed") {
		return PolicySpec{}, fmt.Errorf("policy %q: %s are allowed", text, PolicyNames)
	}
	if has && (name == "oracle" || name == "tuned") {
		goal, err := strconv.ParseFloat(argument, 64)
		if err != nil || !(goal > 0 && goal <= 100) {
			return PolicySpec{}, fmt.Errorf("policy %q: the percent behind the colon may be above 0 and up to 100", text)
		}
		spec.Goal = goal
		return spec, nil
	}
	if has {
		n, err := strconv.Atoi(argument)
		if err != nil || n < 1 || n > replicasLimit {
			return PolicySpec{}, fmt.Errorf("policy %q: the number behind the colon may be 1 to %d", text, replicasLimit)
		}
		spec.N = n
	}
	return spec, nil
}

// String is the policy as ParsePolicy reads it.
func (p PolicySpec) String() string {
	if p.Goal != 0 {
		return p.Name + ":" + strconv.FormatFloat(p.Goal, 'f', -1, 64)
	}
	if p.N == 0 {
		return p.Name
	}
	return fmt.Sprintf("%s:%d", p.Name, p.N)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// newPolicy builds a policy for a cluster at its start.
func newPolicy(ctx context.Context, spec PolicySpec, s Scenario, c *Cluster) (policy, error) {
	or := func(fallback int) float64 {
		if spec.N > 0 {
			return float64(spec.N)
		}
		return float64(fallback)
	}
	switch spec.Name {
	case "forewarm":
		return newForewarm(ctx, s, c)
	case "fixed":
		return fixed(spec.N), nil
	case "keda-queue":
		return kedaQueue(or(5)), nil // the usual ScaledObject on vllm:num_requests_waiting
	case "hpa-gpu":
		return hpaGPU(or(80) / 100), nil
	case "cron":
		return newCron(s)
	case "kpa":
		return newKPA(s, c, spec.N), nil
	case "wva":
		return newWVA(s), nil
	case "dynamo":
		return newDynamo(s, c), nil
	}
	panic("sim: policy " + spec.Name + " parses but is not built")
}

// fixed keeps a number of replicas.
type fixed int

func (f fixed) tick(_ context.Context, c *Cluster, _ sight) error {
	for _, m := range c.models {
		m.triggers = []metric{{value: float64(f), target: 1}}
	}
	return nil
}

// kedaQueue is the ScaledObject that most people write: so many waiting requests a replica.
type kedaQueue float64

func (k kedaQueue) tick(_ context.Context, c *Cluster, s sight) error {
	for i, m := range c.models {
		m.triggers = []metric{k.trigger(s.models[i])}
	}
	return nil
}

func (k kedaQueue) trigger(g gauges) metric {
	return metric{value: float64(g.waiting), target: float64(k), err: g.blind}
}

// hpaGPU is the HPA on the mean GPU utilisation of the replicas.
type hpaGPU float64

func (h hpaGPU) tick(_ context.Context, c *Cluster, s sight) error {
	for i, m := range c.models {
		g := s.models[i]
		m.triggers = []metric{{value: g.busy * float64(g.ready), target: float64(h), err: g.blind || math.IsNaN(g.busy)}}
	}
	return nil
}

// cron holds the schedule's minimums on working days, beside a trigger on the queue.
type cron struct {
	schedule []Minimum
	zones    map[string]*time.Location
}

func newCron(s Scenario) (*cron, error) {
	c := &cron{schedule: s.Schedule, zones: map[string]*time.Location{}}
	for _, m := range s.World.Models {
		zone, err := time.LoadLocation(m.Workload.Timezone)
		if err != nil {
			return nil, fmt.Errorf("sim: model %q: %w", m.Name, err)
		}
		c.zones[m.Name] = zone
	}
	return c, nil
}

func (p *cron) tick(_ context.Context, c *Cluster, s sight) error {
	for i, m := range c.models {
		m.triggers = []metric{{value: float64(p.least(m.cfg.Name, s.at)), target: 1}, kedaQueue(5).trigger(s.models[i])}
	}
	return nil
}

func (p *cron) least(model string, at time.Time) int {
	local := at.In(p.zones[model])
	if day := local.Weekday(); day == time.Saturday || day == time.Sunday {
		return 0
	}
	clock := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
	n := 0
	for _, m := range p.schedule {
		if m.Model == model && clock >= m.From && clock < m.To {
			n = max(n, m.Replicas)
		}
	}
	return n
}

// kpa is the pod autoscaler of AIBrix and Knative: the mean of the requests in flight over a stable window of 180 s and a
// panic window of 60 s, desired = ceil(mean ÷ target) within half and twice the ready replicas; in panic, which begins
// when the panic window wants more than twice what is ready, nothing shrinks.
type kpa struct {
	inFlight map[string]float64 // target a replica
	past     map[string][]sample
	panicked map[string]time.Time
}

// sample is a value at an instant.
type sample struct {
	at    time.Time
	value float64
}

const (
	kpaStable = 180 * time.Second
	kpaPanic  = 60 * time.Second
)

// newKPA aims at n requests in flight a replica. 0 is what a replica holds at the load that it carries within the SLO, by
// the profile told (70 % of its slots where that does not say), times Knative's default utilisation of 70 %.
func newKPA(s Scenario, c *Cluster, n int) *kpa {
	k := &kpa{inFlight: map[string]float64{}, past: map[string][]sample{}, panicked: map[string]time.Time{}}
	for _, cfg := range s.World.Models {
		target := float64(n)
		if told := s.toldProfile(cfg); n == 0 && told.Physics != nil {
			slo := planner.SLO{TTFT: cfg.SLO.TTFT, ITL: cfg.SLO.ITL, Percentile: needPercentile}
			target = 0.7 * max(1, float64(told.Physics.Capacity(c.model(cfg.Name).gen.mix(), slo, 1).Sequences))
		} else if n == 0 {
			target = 0.7 * float64(cfg.Physics.Concurrent)
		}
		k.inFlight[cfg.Name] = target
	}
	return k
}

func (k *kpa) tick(_ context.Context, c *Cluster, s sight) error {
	for i, m := range c.models {
		g := s.models[i]
		if g.blind {
			m.triggers = []metric{{err: true, target: 1}}
			continue
		}
		kept := slices.DeleteFunc(k.past[m.cfg.Name], func(p sample) bool { return s.at.Sub(p.at) >= kpaStable })
		k.past[m.cfg.Name] = append(kept, sample{s.at, float64(g.waiting + g.running)})
		m.triggers = []metric{{value: float64(k.desired(m, g, s.at)), target: 1}}
	}
	return nil
}

func (k *kpa) desired(m *model, g gauges, at time.Time) int {
	target := k.inFlight[m.cfg.Name]
	ready := max(1, g.ready)
	within := func(window time.Duration) int {
		sum, n := 0.0, 0
		for _, p := range k.past[m.cfg.Name] {
			if at.Sub(p.at) < window {
				sum, n = sum+p.value, n+1
			}
		}
		return min(max(int(math.Ceil(sum/float64(n)/target)), ready/2), 2*ready)
	}
	stable, panicking := within(kpaStable), within(kpaPanic)
	if panicking >= 2*ready {
		k.panicked[m.cfg.Name] = at
	}
	if since, ok := k.panicked[m.cfg.Name]; ok && at.Sub(since) < kpaStable {
		return max(stable, panicking, m.desired)
	}
	return stable
}
