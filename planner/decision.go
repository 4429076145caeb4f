package planner

import (
	"time"

	"forewarm/coldstart"
)

// Decision is everything to do and why. It is pure data.
//
// Invariants: Models are sorted by Name and are those of the State.
type Decision struct {
	At      time.Time       `json:"at"`
	Models  []ModelDecision `json:"models"`
	Pools   []PoolTarget    `json:"pools,omitempty"`
	Buffers []BufferTarget  `json:"buffers,omitempty"`
	Quotas  []QuotaTarget   `json:"quotas,omitempty"`
	// Order is everything that changes, in the order in which it is to be carried out.
	Order      []Change    `json:"order,omitempty"`
	Shortfalls []Shortfall `json:"shortfalls,omitempty"`
	// Slots is what the free GPUs are worth to each model, per pool that can hold it; empty while the hardware is unknown.
	Slots  []ModelSlots `json:"slots,omitempty"`
	Gaps   []Gap        `json:"gaps,omitempty"`
	Memory Memory       `json:"memory"`
}

// Model returns the decision of one model, or nil.
func (d *Decision) Model(name string) *ModelDecision {
	for i := range d.Models {
		if d.Models[i].Name == name {
			return &d.Models[i]
		}
	}
	return nil
}

// ModelDecision is the plan of one model.
type ModelDecision struct {
	Name string `json:"name"`
	// Replicas is the plan: serving + warm. nil means that no trustworthy number exists (nothing was ever known).
	Replicas *int `json:"replicas"`
	// Serving replicas are needed by the load of this moment, Warm ones are planned beyond it.
	Serving int `json:"serving"`
	Warm    int `json:"warm"`
	// Answer is what KEDA is told under the model's authority: the number that makes the HPA arrive at Replicas when it
	// may act (more than Replicas where the HPA's dead-band would swallow the growth), the configured minimum when it only
	// observes or advises; nil when there is no number.
	Answer    *int      `json:"answer"`
	Authority Authority `json:"authority"`
	// Lead is the lead time the plan was read at; nil when unknown.
	Lead *Lead `json:"lead,omitempty"`
	// Peak is the forecast the plan was sized for; nil without a forecast.
	Peak *Peak `json:"peak,omitempty"`
	// Held says why the plan was kept although less was wanted, or nothing could be known; empty when it was not.
	Held string `json:"held,omitempty"`
	// Admission is what may be let in while the ready replicas carry less than is asked for; nil while they carry it, or
	// nobody knows.
	Admission *Admission `json:"admission,omitempty"`
	// Findings are the vetoes, hints and unknowns of Diagnose; empty when the model is not diagnosed.
	Findings []Finding `json:"findings,omitempty"`
	// Insurance is what the policy's survival and standby add to the plan, each with its price.
	Insurance []Insurance `json:"insurance,omitempty"`
	// Steps explain every number, in the order of the flow.
	Steps []Step `json:"steps"`
}

// Lead is the lead time of the slot that the model's next replica would get.
type Lead struct {
	Path     coldstart.Path  `json:"path,omitempty"`
	Quantile float64         `json:"quantile"`
	Time     time.Duration   `json:"time_ns"`
	Basis    coldstart.Basis `json:"basis"`
	Samples  int             `json:"samples"`
	// Borrowed names what few samples were topped up with; empty when they stand alone.
	Borrowed coldstart.Basis `json:"borrowed,omitempty"`
	// Shift says that the newest starts differ from those before them, such as by a registry that is slow today.
	Shift coldstart.Shift `json:"shift,omitzero"`
}

// Peak is the load the plan is sized for: quantile p over sample paths of the maximum within [From, To]. Prompt and
// Completion are marginal quantiles, for reading; the replica count comes from the joint paths. p is the service level,
// or above it when that has held too rarely.
type Peak struct {
	Quantile float64   `json:"quantile"`
	Load     Load      `json:"load"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	// Coverage is how often the service level's quantile has held; nil is unknown.
	Coverage *PeakCoverage `json:"coverage,omitempty"`
}

// Stage names a stage of the flow.
type Stage string

// The stages, in the order in which they run.
const (
	StageMix      Stage = "mix"
	StageDemand   Stage = "demand"
	StageSize     Stage = "size"
	StageProbe    Stage = "probe"
	StageWarm     Stage = "warm"
	StageDiagnose Stage = "diagnose"
	StageGuard    Stage = "guard"
	StagePlace    Stage = "place"
	StagePools    Stage = "pools"
	StageQuota    Stage = "quota"
	StageAnswer   Stage = "answer"
)

// Step explains one number.
type Step struct {
	Stage Stage `json:"stage"`
	// Replicas is the count after this step, nil when the step has none.
	Replicas *int `json:"replicas,omitempty"`
	// Why is a sentence with the numbers it rests on.
	Why string `json:"why"`
	// BoundBy names the limit that decided, empty when none did.
	BoundBy string `json:"bound_by,omitempty"`
	// Rejected is the alternative that was not taken, and why.
	Rejected string `json:"rejected,omitempty"`
}

// Cause says why a part of the plan cannot be held.
type Cause string

// The causes of a shortfall.
const (
	Fragmented            Cause = "Fragmented"
	QuotaCapped           Cause = "QuotaCapped"
	PoolLimit             Cause = "PoolLimit"
	NoStock               Cause = "NoStock"
	LeadTimeBeyondHorizon Cause = "LeadTimeBeyondHorizon"
)

// Shortfall is a part of the plan that cannot be had. Replicas is how many; 0 where the cause is not about a count.
type Shortfall struct {
	Model    string `json:"model"`
	Cause    Cause  `json:"cause"`
	Replicas int    `json:"replicas,omitempty"`
	Why      string `json:"why"`
	// Owner is who can remedy it.
	Owner Owner `json:"owner,omitempty"`
}

// PoolTarget is how many nodes a pool should have, those under way included.
type PoolTarget struct {
	Pool  string `json:"pool"`
	Nodes int    `json:"nodes"`
	// Now is how many there are, those under way included.
	Now int    `json:"nodes_now"`
	Why string `json:"why"`
	// By says who brings the change about: the pods that wait (PodsWait), the buffers (BufferChunks), or the pool's own
	// count of nodes (NodeCount).
	By PoolActuator `json:"by"`
}

// PoolActuator is what makes a pool grow or shrink.
type PoolActuator string

// The actuators of pools.
const (
	PodsWait     PoolActuator = "waiting pods"
	BufferChunks PoolActuator = "buffer"
	NodeCount    PoolActuator = "node count"
)

// BufferTarget is room that is to be kept free in a pool for replicas of a model: what will be needed at the lead time of
// a node beyond what KEDA is told and what runs. Buffers that are not named are to be 0.
type BufferTarget struct {
	Model    string `json:"model"`
	Pool     string `json:"pool"`
	Replicas int    `json:"replicas"`
	Why      string `json:"why"`
}

// QuotaTarget is how many GPUs a queue's flavor should be allowed.
type QuotaTarget struct {
	Queue    string `json:"queue"`
	Flavor   string `json:"flavor"`
	Resource string `json:"resource,omitempty"` // as in Quota
	Nominal  int    `json:"nominal_gpus"`
	// Now is what it is.
	Now int    `json:"nominal_now_gpus"`
	Why string `json:"why"`
}
