package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rule names a rule of Diagnose.
type Rule string

// The rules. R11 is there to say that kills elsewhere mean nothing.
const (
	RuleThrottling  Rule = "R1"  // the containers' own CPU limit
	RuleCPUPressure Rule = "R2"  // a noisy neighbour or a request that is too small
	RulePreemption  Rule = "R3"  // KV cache too small for what is let in
	RuleAPIServer   Rule = "R4"  // the API server is slow
	RuleImbalance   Rule = "R5"  // requests go to some of the replicas
	RuleNoStock     Rule = "R6"  // the provider has no nodes
	RuleInFlight    Rule = "R7"  // enough is starting
	RuleBefore      Rule = "R8"  // the time is lost before the engine
	RuleProbes      Rule = "R9"  // exec probes fail while the API server is slow
	RuleRollout     Rule = "R10" // a rollout is in progress
	RuleOOM         Rule = "R11" // killed for memory
	RuleTransfer    Rule = "R12" // KV transfers fail between prefill and decode
	RuleLongContext Rule = "R13" // requests grew, not their number
)

// Verdict is what a rule found.
type Verdict string

// The verdicts: a veto holds growth (see course.veto), a hint is for people, unknown lacks data, clear found nothing.
const (
	Veto    Verdict = "veto"
	Hint    Verdict = "hint"
	Unknown Verdict = "unknown"
	Clear   Verdict = "clear"
)

// Owner is who can remedy a finding.
type Owner string

// The owners.
const (
	OwnerPlatform    Owner = "platform"
	OwnerApplication Owner = "application"
)

// Finding is what one rule found.
type Finding struct {
	Rule    Rule    `json:"rule"`
	Verdict Verdict `json:"verdict"`
	// Owner is empty unless the verdict is a veto or a hint.
	Owner Owner `json:"owner,omitempty"`
	// Why is one sentence, Remedy the cheaper fix.
	Why      string     `json:"why,omitempty"`
	Evidence []Measured `json:"evidence,omitempty"`
	Remedy   string     `json:"remedy,omitempty"`
	// Missing is what the rule would have looked at and did not see.
	Missing []string `json:"missing,omitempty"`
}

// Measured is one value that a finding rests on, and the threshold that it passed.
type Measured struct {
	What      string  `json:"what"`
	Subject   string  `json:"subject,omitempty"` // a pod or pool
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
}

// Thresholds are those of the rules; 0 stands for the default. Shares are of 1.
type Thresholds struct {
	// Window is how long a rule must hold, Lapse how old its evidence may be.
	Window time.Duration `json:"window_ns,omitempty" yaml:"window"`
	Lapse  time.Duration `json:"lapse_ns,omitempty" yaml:"lapse"`

	ThrottledHint float64 `json:"throttled_hint,omitempty" yaml:"throttled_hint"` // R1
	ThrottledVeto float64 `json:"throttled_veto,omitempty" yaml:"throttled_veto"` // R1
	GPUIdle       float64 `json:"gpu_idle,omitempty" yaml:"gpu_idle"`             // R1, R2: active less than this
	CPUPressure   float64 `json:"cpu_pressure,omitempty" yaml:"cpu_pressure"`     // R2
	Preempted     float64 `json:"preempted,omitempty" yaml:"preempted"`           // R3, per finished request
	KVUsage       float64 `json:"kv_usage,omitempty" yaml:"kv_usage"`             // R3
	Waiting       float64 `json:"waiting,omitempty" yaml:"waiting"`               // R3, R8: below this nobody waits
	APIListSecond float64 `json:"api_list_seconds,omitempty" yaml:"api_list_seconds"`
	Imbalance     float64 `json:"imbalance,omitempty" yaml:"imbalance"`             // R5: fullest pod ÷ mean
	BeforeEngine  float64 `json:"before_engine,omitempty" yaml:"before_engine"`     // R8, of TTFT
	LongerRequest float64 `json:"longer_requests,omitempty" yaml:"longer_requests"` // R13: tokens ÷ usual
	MoreRequests  float64 `json:"more_requests,omitempty" yaml:"more_requests"`     // R13: requests ÷ usual, at most
	StartQuantile float64 `json:"start_quantile,omitempty" yaml:"start_quantile"`   // R7: of the lead time
}

// DefaultThresholds are the published ones of the rules' sources.
func DefaultThresholds() Thresholds {
	return Thresholds{Window: 10 * time.Minute, Lapse: 15 * time.Minute, ThrottledHint: .10, ThrottledVeto: .25, GPUIdle: .5,
		CPUPressure: .2, Preempted: .1, KVUsage: .9, Waiting: 1, APIListSecond: 5, Imbalance: 2, BeforeEngine: .5,
		LongerRequest: 1.5, MoreRequests: 1.1, StartQuantile: .95}
}

// filled replaces what is 0 by its default.
func (t *Thresholds) filled() Thresholds {
	d := DefaultThresholds()
	if t == nil {
		return d
	}
	f := *t
	f.Window, f.Lapse = cmp.Or(f.Window, d.Window), cmp.Or(f.Lapse, d.Lapse)
	for _, p := range []struct {
		v *float64
		d float64
	}{{&f.ThrottledHint, d.ThrottledHint}, {&f.ThrottledVeto, d.ThrottledVeto}, {&f.GPUIdle, d.GPUIdle},
		{&f.CPUPressure, d.CPUPressure}, {&f.Preempted, d.Preempted}, {&f.KVUsage, d.KVUsage}, {&f.Waiting, d.Waiting},
		{&f.APIListSecond, d.APIListSecond}, {&f.Imbalance, d.Imbalance}, {&f.BeforeEngine, d.BeforeEngine},
		{&f.LongerRequest, d.LongerRequest}, {&f.MoreRequests, d.MoreRequests}, {&f.StartQuantile, d.StartQuantile}} {
		*p.v = cmp.Or(*p.v, p.d)
	}
	return f
}

func (t *Thresholds) problems() []error {
	if t == nil {
		return nil
	}
	f := t.filled()
	var errs []error
	for _, p := range []struct {
		key       string
		v         float64
		low, high float64
	}{{"throttled_hint", f.ThrottledHint, 0, 1}, {"throttled_veto", f.ThrottledVeto, f.ThrottledHint, 1}, {"gpu_idle", f.GPUIdle, 0, 1},
		{"cpu_pressure", f.CPUPressure, 0, 1}, {"preempted", f.Preempted, 0, 100}, {"kv_usage", f.KVUsage, 0, 1},
		{"waiting", f.Waiting, 0, 1e6}, {"api_list_seconds", f.APIListSecond, 0, 60}, {"imbalance", f.Imbalance, 1, 1000},
		{"before_engine", f.BeforeEngine, 0, 1}, {"longer_requests", f.LongerRequest, 1, 1000},
		{"more_requests", f.MoreRequests, 1, 1000}, {"start_quantile", f.StartQuantile, .5, .9999}} {
		if !(p.v >= p.low && p.v <= p.high) {
			errs = append(errs, fmt.Errorf("diagnose.%s is %v: %v to %v are allowed, or 0 for the default", p.key, p.v, p.low, p.high))
		}
	}
	for _, p := range []struct {
		key string
		v   time.Duration
	}{{"window", f.Window}, {"lapse", f.Lapse}} {
		if p.v < time.Minute || p.v > time.Hour {
			errs = append(errs, fmt.Errorf("diagnose.%s is %v: 1m to 1h are allowed, or 0 for the default", p.key, p.v))
		}
	}
	return errs
}

// Case is one model to Diagnose.
type Case struct {
	Now time.Time
	// Model is looked at, never changed.
	Model *ModelState
	// Inventory and Cluster are nil when unknown.
	Inventory *Inventory
	Cluster   *ClusterEvidence
	// NeedNow is how many replicas the load of this moment needs; nil is unknown.
	NeedNow *int
	// TTFT is the bound that the users were promised; 0 is none.
	TTFT time.Duration
	// Thresholds are the policy's; nil stands for the defaults.
	Thresholds *Thresholds
}

// Diagnose asks of one model whether more replicas would be the remedy at all. It returns one Finding per rule, in the
// order R1 to R13. Each rule is pure and looks only at what it names; what it needs and does not find makes it Unknown
// and is listed, and so does evidence that is shorter than Thresholds.Window or older than Thresholds.Lapse.
func Diagnose(c Case) []Finding {
	x := examination{Case: c, t: c.Thresholds.filled()}
	x.evidence, x.problem = freshEvidence(c.Model.Evidence, c.Now, x.t)
	x.settle()
	out := []Finding{x.throttling(), x.cpuPressure(), x.preemption(), x.apiServer(), x.imbalance(), x.noStock(), x.inFlight(),
		x.before(), x.probes(), x.rollout(), x.oom(), x.transfer(), x.longContext()}
	if out[0].Verdict == Veto && out[1].Verdict == Veto {
		out[1] = Finding{Rule: RuleCPUPressure, Verdict: Clear, Why: "the pods wait for their own CPU limit, see R1"}
	}
	return out
}

// examination is one model under Diagnose.
type examination struct {
	Case
	t Thresholds

	evidence *Evidence     // empty when there is none that counts
	problem  string        // why there is none
	settled  []PodEvidence // live pods that have been ready through the window: a warm-up looks like many faults
	live     []PodEvidence // all that do not terminate
	noAge    []string
}

func freshEvidence(e *Evidence, now time.Time, t Thresholds) (*Evidence, string) {
	if e == nil {
		return &Evidence{}, "evidence of the model"
	}
	if why := windowMissing(e.From, e.To, now, t); why != "" {
		return &Evidence{}, why
	}
	return e, ""
}

// windowMissing says why a window proves nothing about now; empty when it does.
func windowMissing(from, to, now time.Time, t Thresholds) string {
	switch age := now.Sub(to); {
	case age > t.Lapse:
		return fmt.Sprintf("evidence newer than %s: the newest is %s old", shortDuration(t.Lapse), shortDuration(age))
	case age < -t.Window:
		return fmt.Sprintf("evidence of now: it is dated %s ahead", shortDuration(-age))
	case to.Sub(from) < t.Window:
		return fmt.Sprintf("evidence over %s: there is %s of it", shortDuration(t.Window), shortDuration(to.Sub(from)))
	}
	return ""
}

func (x *examination) settle() {
	for _, p := range x.evidence.Pods {
		if p.Terminating {
			continue
		}
		x.live = append(x.live, p)
		switch {
		case !p.Ready:
		case p.Created == nil:
			x.noAge = append(x.noAge, "age of "+p.Pod)
		case x.Now.Sub(*p.Created) > x.t.Window:
			x.settled = append(x.settled, p)
		}
	}
}

// unknown is a finding of a rule that lacks data.
func unknown(rule Rule, missing ...string) Finding {
	return Finding{Rule: rule, Verdict: Unknown, Missing: missing}
}

// lacks is what keeps every rule about settled pods from being decided; empty when nothing does.
func (x *examination) lacks() []string {
	switch {
	case x.problem != "":
		return []string{x.problem}
	case len(x.settled) == 0:
		return append([]string{fmt.Sprintf("a replica that has been ready for %s", shortDuration(x.t.Window))}, x.noAge...)
	}
	return nil
}

// most is whether a part of the settled pods speaks for a replica to come: at least half of them.
func (x *examination) most(n int) bool { return 2*n >= len(x.settled) && n > 0 }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
