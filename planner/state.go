package planner

import (
	"slices"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// State is every fact Decide looks at, at one moment. It holds no wishes (those are in Policy), no clients and no
// secrets. A State that was recorded replays to the same Decision.
//
// Invariants: Models are sorted by Name without repeats; every number is finite.
type State struct {
	Now time.Time `json:"now"`
	// Interval is the time between two ticks (Δ).
	Interval time.Duration `json:"interval_ns"`
	Models   []ModelState  `json:"models"`
	// Inventory is nil when the hardware is unknown.
	Inventory *Inventory `json:"inventory,omitempty"`
	Quotas    []Quota    `json:"quotas,omitempty"`
	Cohorts   []Cohort   `json:"cohorts,omitempty"` // sorted by name
	// Evidence is what Diagnose looks at of the whole cluster; nil is unknown.
	Evidence *ClusterEvidence `json:"evidence,omitempty"`
	// Memory is what the previous Decision asked to be remembered; the zero Memory is a first start.
	Memory Memory `json:"memory"`
	// Gaps are the facts that should be here and are not.
	Gaps []Gap `json:"gaps,omitempty"`
}

// ModelState is what is known about one model. Pointers are facts that may be missing: nil is unknown, never zero.
type ModelState struct {
	Name     string        `json:"name"`
	Load     *ObservedLoad `json:"load,omitempty"`
	Forecast *Forecast     `json:"forecast,omitempty"`
	Replicas *Replicas     `json:"replicas,omitempty"`
	Signals  Signals       `json:"signals"`
	// LeadTimes holds at most one distribution per start path; a path without one is unknown.
	LeadTimes []coldstart.LeadTime `json:"lead_times,omitempty"`
	// WeightsOn names, sorted, the nodes of the inventory that hold image and weights of the model as far as its starts
	// tell. A node that is not named is unknown and counts as without them.
	WeightsOn []string `json:"weights_on,omitempty"`
	Shape     Shape    `json:"shape"`
	Profile   *Profile `json:"profile,omitempty"`
	// Requests are the present mean sizes of a request; a spread of 0 in it is unknown.
	Requests *RequestMix `json:"requests,omitempty"`
	Actuator *Actuator   `json:"actuator,omitempty"`
	// Serves names another model of the State whose load this one carries a part of, as another variant of it (GPU product,
	// shape, spot) or as one of its pools; empty when it has a load of its own. Its own Load, Forecast, Requests and Signals
	// are then not looked at.
	Serves string `json:"serves,omitempty"`
	// Role is the part of the work that its replicas do; empty is all of it.
	Role Role `json:"role,omitempty"`
	// Price is what one replica costs per hour; nil is unknown, and then GPUs stand in for the prices of all variants.
	Price *Price `json:"price_per_hour,omitempty"`
	// Alternatives are other ways to serve the model, sorted by name; none is none that is known.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Evidence is what Diagnose looks at; nil leaves the model undiagnosed.
	Evidence *Evidence `json:"evidence,omitempty"`
}

// Alternative is another shape or setting that the model could be served with and is not: what it would cost is said beside
// more of the same when KV tokens bind.
type Alternative struct {
	Name string `json:"name"`
	// GPUs are those of one replica.
	GPUs    int     `json:"gpus"`
	Profile Profile `json:"profile"`
	// Price is what one replica costs per hour; nil is unknown, and then GPUs are compared.
	Price *Price `json:"price_per_hour,omitempty"`
}

// Price is an amount of money; all prices of a State are in one currency.
type Price float64

// Forecast is the model's future load as joint sample paths: path i of Prompt and path i of Completion are one future.
//
// Invariants: both Ensembles share Start, Step, number of paths and length.
type Forecast struct {
	Prompt     forecast.Ensemble `json:"prompt"`
	Completion forecast.Ensemble `json:"completion"`
	// Method names the forecaster, for people.
	Method string `json:"method"`
	// Borrowed says what of the history behind it is another model's; empty when all is its own.
	Borrowed string `json:"borrowed,omitempty"`
	// MayShrink is the forecast's authority to release replicas below recent need: it beats the naive forecasts on
	// this model's own past. Authority says why or why not.
	MayShrink bool   `json:"may_shrink"`
	Authority string `json:"authority"`
	// Coverage is how often the forecaster's quantiles held on this model's past; nil is unknown, which changes nothing. A
	// low one raises the level at which Decide reads the paths; none lowers it.
	Coverage *ForecastCoverage `json:"coverage,omitempty"`
	// Events are those of the calendar whose effects the paths hold.
	Events []EventEffect `json:"events,omitempty"`
}

// Replicas is the supply of one model. Terminating pods are in none of the counts but Leaving.
type Replicas struct {
	// Ready replicas serve now. Invariant: ≥ 0.
	Ready int `json:"ready"`
	// Starting replicas do not serve yet. Those beyond Desired are the surge of a rolling update and no supply.
	Starting []StartingReplica `json:"starting,omitempty"`
	// Leaving replicas are terminating: still holding GPUs, no longer counted as supply.
	Leaving int `json:"leaving,omitempty"`
	// Desired is what the workload's scale asks for; nil is unknown.
	Desired *int `json:"desired,omitempty"`
	// MaxSurge is how many replicas beyond Desired a rollout that is under way may run; nil while there is none.
	MaxSurge *int `json:"max_surge,omitempty"`
}

// StartingReplica is one replica on its way up.
type StartingReplica struct {
	// ID is stable over the start, such as the pod's UID.
	ID    string         `json:"id"`
	Since time.Time      `json:"since"`
	Path  coldstart.Path `json:"path,omitempty"`
	// Pending is set while it has no node yet and holds no GPUs: room is kept for it. One of which that is not known counts
	// as on a node.
	Pending bool `json:"pending,omitempty"`
}

// surgeLeft is how many more replicas a rollout under way may add beyond the workload's scale; 0 while that, or whether
// there is a rollout, is unknown.
func (r Replicas) surgeLeft() int {
	if r.MaxSurge == nil || r.Desired == nil {
		return 0
	}
	return max(0, *r.MaxSurge-max(0, r.Ready+len(r.Starting)-*r.Desired))
}

// ordered are the starting replicas that were ordered, the longest under way first. What starts beyond the workload's
// scale is the surge of a rolling update: it takes the place of a replica that serves now and adds none, so it neither
// serves the future nor shows that more was wanted.
func (r Replicas) ordered() []StartingReplica {
	if r.Desired == nil || r.Ready+len(r.Starting) <= *r.Desired {
		return r.Starting
	}
	kept := slices.Clone(r.Starting)
	slices.SortStableFunc(kept, func(a, b StartingReplica) int { return a.Since.Compare(b.Since) })
	return kept[:max(0, *r.Desired-r.Ready)]
}

// supply is what runs or was ordered.
func (r Replicas) supply() int { return r.Ready + len(r.ordered()) }

// Signals are the engine's own gauges, summed over the model's replicas (or read at its gateway).
type Signals struct {
	// Waiting is the number of requests queued, nil when unknown.
	Waiting *float64 `json:"waiting_requests,omitempty"`
	// Running is the number of requests in a batch, nil when unknown.
	Running *float64 `json:"running_requests,omitempty"`
	// Backlog is the work in the queue, nil when unknown.
	Backlog *Backlog `json:"backlog,omitempty"`
}

// Backlog is the work of the waiting requests.
type Backlog struct {
	Prompt     Tokens `json:"prompt_tokens"`
	Completion Tokens `json:"completion_tokens"`
}

// Actuator is how the workload's autoscaler is set up.
type Actuator struct {
	// ScaleUpTolerance is the HPA's relative dead-band upwards (0.1 unless the ScaledObject says otherwise).
	ScaleUpTolerance float64 `json:"scale_up_tolerance"`
	// ScaleDownTolerance is the dead-band downwards; nil is the HPA's default of 0.1.
	ScaleDownTolerance *float64 `json:"scale_down_tolerance,omitempty"`
	// ScaleUp is how fast the HPA may grow; nil is the HPA's default.
	ScaleUp *ScalingRules `json:"scale_up,omitempty"`
	// HPADesired is what the HPA last asked for, over all its triggers; nil is unknown.
	HPADesired *int `json:"hpa_desired_replicas,omitempty"`
	// Paused is set while the ScaledObject is paused: its HPA is gone and nothing acts on the answer.
	Paused bool `json:"paused,omitempty"`
	// PausedAt is the number of replicas that the pause keeps; nil is whatever there was.
	PausedAt *int `json:"paused_at_replicas,omitempty"`
	// ScaleInPaused and ScaleOutPaused are set while the autoscaler may not go that way.
	ScaleInPaused  bool `json:"scale_in_paused,omitempty"`
	ScaleOutPaused bool `json:"scale_out_paused,omitempty"`
	// ReplicasMin and ReplicasMax are the autoscaler's own limits; nil is unknown.
	ReplicasMin *int `json:"replicas_min,omitempty"`
	ReplicasMax *int `json:"replicas_max,omitempty"`
	// Fallback is what KEDA does when it gets no answer; nil is nothing.
	Fallback *Fallback `json:"fallback,omitempty"`
}

// Fallback is a ScaledObject's fallback: after more than FailureThreshold failures in a row KEDA takes Replicas, in the
// way that Behavior says (static, currentReplicas, currentReplicasIfHigher, …).
type Fallback struct {
	Behavior         string `json:"behavior"`
	Replicas         int    `json:"replicas"`
	FailureThreshold int    `json:"failure_threshold"`
}

// Gap is a fact that is missing, since when, and what is done about it.
type Gap struct {
	// Model is empty for facts of the whole cluster.
	Model string `json:"model,omitempty"`
	// Fact is a short stable name: "load", "replicas", "waiting", "forecast", "profile", "lead_time",
	// "start", "inventory", "quotas", "cohorts", "journal" (what was recorded is not known). A "waiting" gap makes the model blind; for the others the missing fact
	// itself does.
	Fact   string    `json:"fact"`
	Since  time.Time `json:"since"`
	Detail string    `json:"detail,omitempty"`
	// Invalid is set when the fact was there and broke an invariant, so that it was left out. It makes its model blind.
	Invalid bool `json:"invalid,omitempty"`
}
