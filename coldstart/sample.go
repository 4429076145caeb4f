package coldstart

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Phase is one part of a start, in the order in which they happen.
type Phase string

// The phases of a start, from the decision to order a replica to its first token.
const (
	NodeLaunch Phase = "node_launch" // order to instance running
	NodeReady  Phase = "node_ready"  // instance running to node ready with its GPUs allocatable
	Schedule   Phase = "schedule"    // pod created to bound, including gates and quota waits
	ImagePull  Phase = "image_pull"
	WeightLoad Phase = "weight_load" // download and load of the weights
	EngineInit Phase = "engine_init" // compile, graph capture, warm-up
	FirstToken Phase = "first_token" // ready to first completed request
)

// phases lists every phase in the order of a start; validation accepts these and no others, so that a typing error in a
// samples file is found.
var phases = []Phase{NodeLaunch, NodeReady, Schedule, ImagePull, WeightLoad, EngineInit, FirstToken}

// Path is the way a replica comes up; it decides which phases it must go through.
type Path string

// The start paths, slowest first. PathUnknown is a start whose path nobody observed.
const (
	ColdNode      Path = "cold_node"      // a node must be launched first
	WarmNode      Path = "warm_node"      // the node is there, the weights are not
	CachedWeights Path = "cached_weights" // node, image and weights are there
	PathUnknown   Path = ""
)

// paths lists every start path, PathUnknown last.
var paths = []Path{ColdNode, WarmNode, CachedWeights, PathUnknown}

// Key is what a lead time is estimated for. Shape is the caller's stable name of the replica's shape (such as
// "4x1/H200"). An empty field matches nothing but itself when samples are added, and is pooled over when estimating.
type Key struct {
	Model string `json:"model"`
	Shape string `json:"shape,omitempty"`
	Path  Path   `json:"path,omitempty"`
}

// String is the key as errors and explanations show it, such as "model=chat-70b shape=4x1/H200 path=cold_node". Empty
// fields are left out; the zero Key is "any start".
func (k Key) String() string {
	var b strings.Builder
	for _, f := range [][2]string{{"model", k.Model}, {"shape", k.Shape}, {"path", string(k.Path)}} {
		if f[1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f[0] + "=" + f[1])
	}
	if b.Len() == 0 {
		return "any start"
	}
	return b.String()
}

// compare orders keys by model, shape, path.
func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Model, o.Model), cmp.Compare(k.Shape, o.Shape), cmp.Compare(k.Path, o.Path))
}

// problems lists what is wrong with a key's own fields; an empty field is not wrong.
func (k Key) problems() []error {
	var errs []error
	if !utf8.ValidString(k.Model) {
		errs = append(errs, fmt.Errorf("model %q: not valid UTF-8", k.Model))
	}
	if !utf8.ValidString(k.Shape) {
		errs = append(errs, fmt.Errorf("shape %q: not valid UTF-8", k.Shape))
	}
	if !slices.Contains(paths, k.Path) {
		errs = append(errs, fmt.Errorf("path %q: want one of %q, or empty when nobody observed it", k.Path, paths[:3]))
	}
	return errs
}

// Outcome says how a start ended, as far as it was watched.
type Outcome string

// The outcomes of a start. Pending is right-censored: Total is how long it has been starting, a lower bound.
const (
	Served  Outcome = "served"
	Failed  Outcome = "failed" // gave up (crash, deleted, no stock); Total is when
	Pending Outcome = "pending"
)

// Sample is one observed start.
//
// Invariants: Total ≥ 0 and, when Phases is not empty and the start Served, the phases sum to at most Total. ID is
// stable for one start (such as the pod's UID), so that a Pending sample is replaced by its later observation.
type Sample struct {
	ID      string                  `json:"id"`
	Key     Key                     `json:"key"`
	Started time.Time               `json:"started"`
	Total   time.Duration           `json:"total_ns"`
	Outcome Outcome                 `json:"outcome"`
	Phases  map[Phase]time.Duration `json:"phases_ns,omitempty"`
}

// totalMax bounds every duration that is read: a start longer than a year is a wrong unit or a wrong clock.
const totalMax = 365 * 24 * time.Hour

// Validate reports everything that is wrong with the sample, joined, each problem with its field, the value and what is
// allowed; nil when it can be added to a Ledger. Beyond the invariants of Sample: ID, Key.Model and Started are given, a
// start that served took longer than zero, and no duration exceeds 365 days.
func (s Sample) Validate() error {
	errs := slices.Concat(s.idProblems(), s.modelProblems(), s.Key.problems(), s.startedProblems(),
		s.totalProblems(), s.phaseProblems())
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("sample %q: %w", s.ID, errors.Join(errs...))
}

func (s Sample) idProblems() []error {
	switch {
	case s.ID == "":
		return []error{errors.New("id is empty: want a name that is stable for one start, such as the pod's UID")}
	case !utf8.ValidString(s.ID):
		return []error{fmt.Errorf("id %q: not valid UTF-8", s.ID)}
	}
	return nil
}

func (s Sample) modelProblems() []error {
	if s.Key.Model == "" {
		return []error{errors.New("model is empty")}
	}
	return nil
}

func (s Sample) startedProblems() []error {
	if y := s.Started.UTC().Year(); s.Started.IsZero() || y < 1 || y > 9999 {
		return []error{fmt.Errorf("started %v: want the time of the order, in the years 1 to 9999", s.Started)}
	}
	return nil
}

func (s Sample) totalProblems() []error {
	var errs []error
	switch s.Outcome {
	case Served, Failed, Pending:
	default:
		errs = append(errs, fmt.Errorf("outcome %q: want %q, %q or %q", s.Outcome, Served, Failed, Pending))
	}
	if s.Total < 0 || s.Total > totalMax {
		errs = append(errs, fmt.Errorf("total %v: want 0 to %v", s.Total, totalMax))
	}
	if s.Total == 0 && s.Outcome == Served {
		errs = append(errs, errors.New("total 0s: a start that served took longer than that"))
	}
	return errs
}

func (s Sample) phaseProblems() []error {
	var errs []error
	var sum time.Duration
	for _, p := range slices.Sorted(maps.Keys(s.Phases)) {
		d := s.Phases[p]
		if !slices.Contains(phases, p) {
			errs = append(errs, fmt.Errorf("phase %q: want one of %q", p, phases))
		}
		if d < 0 || d > totalMax {
			errs = append(errs, fmt.Errorf("phase %s %v: want 0 to %v", p, d, totalMax))
			continue
		}
		sum = min(sum+d, 2*totalMax) // bounded, so that the sum cannot overflow
	}
	if s.Outcome == Served && sum > s.Total && s.Total >= 0 {
		errs = append(errs, fmt.Errorf("phases sum to %v, more than the total of %v", sum, s.Total))
	}
	return errs
}
