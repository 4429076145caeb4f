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

// The phases of a start, from the decision to order a replica to its first completed request. A source that cannot tell
// some of them apart reports the coarser one: WeightLoad with the download in it, EngineInit for what Compile,
// GraphCapture and WarmUp would split.
const (
	NodeLaunch      Phase = "node_launch"      // order to instance launched; to registered where nothing tells the two apart
	NodeRegister    Phase = "node_register"    // instance launched to node registered
	NodeReady       Phase = "node_ready"       // node registered to initialised, its GPUs allocatable
	Schedule        Phase = "schedule"         // pod created to bound, including gates and quota waits
	ImagePull       Phase = "image_pull"       // back-off after failed pulls included
	ContainerStart  Phase = "container_start"  // bound to container running, less the pull: volumes, sandbox, init containers
	EngineBootstrap Phase = "engine_bootstrap" // process begins to first weight touched: imports, communicators
	WeightDownload  Phase = "weight_download"
	WeightLoad      Phase = "weight_load"   // storage to GPU memory
	EngineInit      Phase = "engine_init"   // compile, graph capture and warm-up, not told apart
	Compile         Phase = "compile"       // or the load of what was compiled before
	GraphCapture    Phase = "graph_capture" // CUDA graphs
	WarmUp          Phase = "warm_up"       // memory profiling, KV cache, warm-up runs
	PodReady        Phase = "ready"         // engine serves to pod Ready: probe periods
	FirstToken      Phase = "first_token"   // ready to first completed request
	// Retry is attempts of the container that failed, and the back-off after them. The phases of the attempt that served
	// are its own.
	Retry Phase = "retry"
	// Unattributed is what no source explains.
	Unattributed Phase = "unattributed"
)

// phases lists every phase in the order of a start; validation accepts these and no others, so that a typing error in a
// samples file is found.
var phases = []Phase{NodeLaunch, NodeRegister, NodeReady, Schedule, ImagePull, ContainerStart, Retry, EngineBootstrap,
	WeightDownload, WeightLoad, EngineInit, Compile, GraphCapture, WarmUp, PodReady, FirstToken, Unattributed}

// Phases returns every phase in the order of a start, Unattributed last.
func Phases() []Phase { return slices.Clone(phases) }

// Source says what a phase was read from. Several are joined by "+", as in "events+logs".
type Source string

// The sources of a phase.
const (
	FromEvents  Source = "events"  // Kubernetes objects, their conditions and their events
	FromLogs    Source = "logs"    // the engine's log
	FromMetrics Source = "metrics" // the engine's metrics
	FromNothing Source = "unattributed"
)

// sources lists every source in the order in which they are joined.
var sources = []Source{FromEvents, FromLogs, FromMetrics, FromNothing}

// Path is the way a replica comes up; it decides which phases it must go through.
type Path string

// The start paths, slowest first. PathUnknown is a start whose path nobody observed.
const (
	ColdNode      Path = "cold_node"      // a node must be launched first
	ReclaimedNode Path = "reclaimed_node" // batch work on the node must be evicted first, and gets its grace period
	WarmNode      Path = "warm_node"      // the node is there, the weights are not
	CachedWeights Path = "cached_weights" // node, image and weights are there
	PathUnknown   Path = ""
)

// paths lists every start path, PathUnknown last.
var paths = []Path{ColdNode, ReclaimedNode, WarmNode, CachedWeights, PathUnknown}

// Paths returns every start path that can be observed, slowest first.
func Paths() []Path { return slices.Clone(paths[:len(paths)-1]) }

// Cache says whether something that a start needs was there already.
type Cache string

// The states of a cache.
const (
	Cached       Cache = "cached"
	NotCached    Cache = "not_cached"
	CacheUnknown Cache = ""
)

// Key is what a lead time is estimated for. Shape is the caller's stable name of the replica's shape with the GPU product
// (such as "4x1/H200"), Engine the engine and its version ("vllm 0.11.0"); Image, Weights and Compile say what the node
// had of the container image, the weights and the engine's compile cache. An empty field matches nothing but itself when
// samples are added, and is pooled over when estimating. Size is a class of models by the bytes of their weights
// (Ledger.SetWeights); only keys of pools have one.
type Key struct {
	Model   string `json:"model"`
	Shape   string `json:"shape,omitempty"`
	Path    Path   `json:"path,omitempty"`
	Engine  string `json:"engine,omitempty"`
	Image   Cache  `json:"image,omitempty"`
	Weights Cache  `json:"weights,omitempty"`
	Compile Cache  `json:"compile_cache,omitempty"`
	Size    string `json:"size,omitempty"`
}

// String is the key as errors and explanations show it, such as "model=chat-70b shape=4x1/H200 path=cold_node". Empty
// fields are left out; the zero Key is "any start".
func (k Key) String() string {
	var b strings.Builder
	for _, f := range [][2]string{{"model", k.Model}, {"shape", k.Shape}, {"path", string(k.Path)}, {"engine", k.Engine},
		{"image", string(k.Image)}, {"weights", string(k.Weights)}, {"compile_cache", string(k.Compile)}, {"size", k.Size}} {
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

// Compare orders keys by their fields in order.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Model, o.Model), cmp.Compare(k.Shape, o.Shape), cmp.Compare(k.Path, o.Path),
		cmp.Compare(k.Engine, o.Engine), cmp.Compare(k.Image, o.Image), cmp.Compare(k.Weights, o.Weights),
		cmp.Compare(k.Compile, o.Compile), cmp.Compare(k.Size, o.Size))
}

// problems lists what is wrong with a key's own fields; an empty field is not wrong.
func (k Key) problems() []error {
	var errs []error
	for _, f := range [][2]string{{"model", k.Model}, {"shape", k.Shape}, {"engine", k.Engine}, {"size", k.Size}} {
		if !utf8.ValidString(f[1]) {
			errs = append(errs, fmt.Errorf("%s %q: not valid UTF-8", f[0], f[1]))
		}
	}
	if !slices.Contains(paths, k.Path) {
		errs = append(errs, fmt.Errorf("path %q: want one of %q, or empty when nobody observed it", k.Path, Paths()))
	}
	for _, f := range []struct {
		name  string
		state Cache
	}{{"image", k.Image}, {"weights", k.Weights}, {"compile_cache", k.Compile}} {
		if !slices.Contains([]Cache{Cached, NotCached, CacheUnknown}, f.state) {
			errs = append(errs, fmt.Errorf("%s %q: want %q, %q, or empty when nobody observed it", f.name, f.state, Cached, NotCached))
		}
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
// Invariants: Total ≥ 0 and, when Phases is not empty and the start Served, the phases sum to at most Total, and to
// exactly Total when Unattributed is among them (see Explained). Sources names only phases that are in Phases. ID is
// stable for one start (such as the pod's UID), so that a Pending sample is replaced by its later observation.
type Sample struct {
	ID      string                  `json:"id"`
	Key     Key                     `json:"key"`
	Started time.Time               `json:"started"`
	Total   time.Duration           `json:"total_ns"`
	Outcome Outcome                 `json:"outcome"`
	Phases  map[Phase]time.Duration `json:"phases_ns,omitempty"`
	Sources map[Phase]Source        `json:"sources,omitempty"`
	// Node is the node of a replica of one pod; empty when nobody told, or the replica has several.
	Node string `json:"node,omitempty"`
}

// Explained returns the phases of s with what they leave of Total as Unattributed, so that they sum to Total exactly; s
// itself is left alone. It is for a start whose phases fit (Validate).
func (s Sample) Explained() map[Phase]time.Duration {
	out := maps.Clone(s.Phases)
	if out == nil {
		out = map[Phase]time.Duration{}
	}
	rest := s.Total
	for p, d := range out {
		if p != Unattributed {
			rest -= d
		}
	}
	delete(out, Unattributed)
	if rest > 0 {
		out[Unattributed] = rest
	}
	return out
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
	_, whole := s.Phases[Unattributed]
	switch {
	case s.Outcome != Served || s.Total < 0:
	case sum > s.Total:
		errs = append(errs, fmt.Errorf("phases sum to %v, more than the total of %v", sum, s.Total))
	case whole && sum < s.Total:
		errs = append(errs, fmt.Errorf("phases sum to %v with %s among them: want the total of %v", sum, Unattributed, s.Total))
	}
	return append(errs, s.sourceProblems()...)
}

func (s Sample) sourceProblems() []error {
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(s.Sources)) {
		if _, ok := s.Phases[p]; !ok {
			errs = append(errs, fmt.Errorf("source of %q: want a phase that the start has", p))
		}
		for part := range strings.SplitSeq(string(s.Sources[p]), "+") {
			if !slices.Contains(sources, Source(part)) {
				errs = append(errs, fmt.Errorf("source of %s %q: want one of %q, or several joined by +", p, s.Sources[p], sources))
			}
		}
	}
	return errs
}
