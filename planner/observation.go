package planner

import (
	"errors"
	"time"

	"forewarm/coldstart"
)

// ErrPartial marks a history of which some ranges could not be read, because a part of the source did not answer: what
// came with the error is right and may be used, the missing steps are NaN.
var ErrPartial = errors.New("partial answer")

// Observation is what one look at the world brings, before any forecasting: the input of a Tracker. Sources (the live
// readers, the simulated cluster) fill it; what they could not learn is nil or a Gap, never zero.
type Observation struct {
	At     time.Time
	Models []ModelObservation
	// Inventory is nil when the hardware is unknown.
	Inventory *Inventory
	Quotas    []Quota
	Cohorts   []Cohort
	Gaps      []Gap
	// Evidence is what Diagnose looks at of the whole cluster; nil is unknown.
	Evidence *ClusterEvidence
}

// ModelObservation is one look at one model.
type ModelObservation struct {
	Name string
	// Load holds the complete steps that ended since the last look; steps seen before are ignored, steps left out are
	// missing. Its Step is the Tracker's.
	Load LoadHistory
	// LoadSource says where the rates come from, for people.
	LoadSource string
	Replicas   *Replicas
	Waiting    *float64
	Running    *float64
	// Starts are starts that ended (served or failed) since the last look, for the cold-start ledger. Starts still
	// under way are in Replicas.Starting.
	Starts   []coldstart.Sample
	Actuator *Actuator
	// Evidence is what Diagnose looks at; nil is unknown.
	Evidence *Evidence
	// Engine is what the engines said of themselves over the last step; nil is unknown.
	Engine *EngineLook
}
