package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"forewarm/planner"
)

// World is everything a Cluster is made of: models with their clients, hardware, start times, and the autoscaler between
// an answer and the replicas. It is a description; the seed of NewCluster picks one realisation.
type World struct {
	// Start is when the world begins; replicas named by Model.Replicas are ready then.
	Start  time.Time `yaml:"start"`
	Models []Model   `yaml:"models"`
	Pools  []Pool    `yaml:"pools"`
	// Packing is which node with room the scheduler takes, see packings; empty is most-allocated.
	Packing string `yaml:"packing"`
	// Autoscaler applies to every model.
	Autoscaler Autoscaler `yaml:"autoscaler"`
}

// Model is one model served in the world.
type Model struct {
	Name  string        `yaml:"name"`
	Shape planner.Shape `yaml:"shape"`
	// Physics is how a replica really behaves. Planners must not read it: they get Profile.
	Physics Physics `yaml:"physics"`
	// Engine is how a replica really behaves where its iterations are run one by one (package engine), in place of Physics.
	// Planners must not read it.
	Engine *planner.Physics `yaml:"engine"`
	// Profile is what a planner is told about a replica. With an Engine it may be left out: a Scenario tells the engine's
	// own, wrong by its profile error.
	Profile  planner.Profile `yaml:"profile"`
	Workload Workload        `yaml:"workload"`
	Startup  Startup         `yaml:"startup"`
	// Replicas are ready at the start of the world. ReplicasMin and ReplicasMax are the ScaledObject's bounds.
	Replicas    int `yaml:"replicas"`
	ReplicasMin int `yaml:"replicas_min"`
	ReplicasMax int `yaml:"replicas_max"`
	// QueueMax is how many requests may wait in front of the replicas; more are rejected.
	QueueMax int `yaml:"queue_max"`
	// Router is how requests are spread over the replicas, see routers; empty is least-outstanding.
	Router string `yaml:"router"`
	// Outstanding is how many requests the router lets into a replica with an Engine; more wait in front. 0 is no limit, as
	// a Service has none: then a request stays with the replica it was given to.
	Outstanding int `yaml:"outstanding_max"`
	// Patience is how long a client waits for its first token before it gives up.
	Patience time.Duration `yaml:"patience"`
	// DrainMax is how long a replica that leaves may finish its requests; what is left then is lost.
	DrainMax time.Duration `yaml:"drain_max"`
	SLO      SLO           `yaml:"slo"`

	// orderRest lets initial replicas without room be ordered like any others.
	orderRest bool
}

// SLO is what a request must meet to count as attained.
type SLO struct {
	// TTFT bounds the time from arrival to the first token, ITL the mean time between a request's tokens.
	TTFT time.Duration `yaml:"ttft"`
	ITL  time.Duration `yaml:"itl"`
}

// Startup is how long the phases of a replica's start take. A phase is skipped when its result is on the node already.
type Startup struct {
	Schedule  Lognormal `yaml:"schedule"`
	ImagePull Lognormal `yaml:"image_pull"`
	// Weights are fetched and loaded, CachedWeights only loaded; likewise EngineInit and CachedInit (compile cache).
	Weights       Lognormal `yaml:"weight_load"`
	CachedWeights Lognormal `yaml:"weight_load_cached"`
	EngineInit    Lognormal `yaml:"engine_init"`
	CachedInit    Lognormal `yaml:"engine_init_cached"`
	FirstToken    Lognormal `yaml:"first_token"`
	// FailureProb is the share of starts that fail at some instant of their course.
	FailureProb float64 `yaml:"failure_prob"`
}

// Pool is a set of nodes with one GPU product.
type Pool struct {
	Name        string `yaml:"name"`
	Product     string `yaml:"product"`
	GPUsPerNode int    `yaml:"gpus_per_node"`
	// NodesMax bounds the pool, nodes under way included.
	NodesMax int    `yaml:"nodes_max"`
	Nodes    []Node `yaml:"nodes"`
	// Launch is the time from asking for a node to its instance running, Ready from there to allocatable GPUs.
	Launch Lognormal `yaml:"node_launch"`
	Ready  Lognormal `yaml:"node_ready"`
	// IdleAfter is how long a launched node may stand empty before it is given back (consolidation); 0 keeps it.
	IdleAfter time.Duration `yaml:"idle_after"`
}

// Node is one machine that is there at the start. Others holds the GPUs of pods that are not ours; they stay.
type Node struct {
	Name   string `yaml:"name"`
	GPUs   int    `yaml:"gpus"`
	Others int    `yaml:"others_gpus"`
	// Cached names the models whose image and weights are on the node's disk.
	Cached []string `yaml:"cached"`
}

// Limits of a World.
const (
	modelsMax     = 10_000
	replicasLimit = 100_000
	nodesLimit    = 100_000
)

// Validate reports every field out of range, all at once, each with its key, the value and what is allowed.
func (w World) Validate() error {
	var p problems
	if w.Start.IsZero() {
		p.add("start is missing: a time is needed")
	}
	if n := len(w.Models); n < 1 || n > modelsMax {
		p.add("models has %d entries: 1 to %d are allowed", n, modelsMax)
	}
	models := map[string]bool{}
	for i, m := range w.Models {
		key := fmt.Sprintf("models[%d]", i)
		if m.Name == "" || models[m.Name] {
			p.add("%s.name is %q: a name that is not empty and not repeated is allowed", key, m.Name)
		}
		models[m.Name] = true
		p.nest(key, m.validate())
	}
	pools, nodes := map[string]bool{}, map[string]bool{}
	for i, pool := range w.Pools {
		key := fmt.Sprintf("pools[%d]", i)
		if pool.Name == "" || pools[pool.Name] {
			p.add("%s.name is %q: a name that is not empty and not repeated is allowed", key, pool.Name)
		}
		pools[pool.Name] = true
		p.nest(key, pool.validate(models, nodes))
	}
	if !slices.Contains(packings, w.Packing) {
		p.add("packing is %q: %s are allowed", w.Packing, strings.Join(packings[1:], ", "))
	}
	p.nest("autoscaler", w.Autoscaler.Validate())
	return p.err()
}

func (m Model) validate() error {
	var p problems
	if err := m.Shape.Validate(); err != nil {
		p.errs = append(p.errs, err)
	}
	if m.Shape.Pods > 1 {
		p.add("shape.pods is %d: a simulated replica is one pod, 1 is allowed", m.Shape.Pods)
	}
	m.validateReplica(&p)
	p.nest("workload", m.Workload.Validate())
	p.nest("startup", m.Startup.validate())
	// KEDA's way from and to zero (IsActive) is not emulated.
	p.count("replicas_min", m.ReplicasMin, 1, replicasLimit)
	p.count("replicas_max", m.ReplicasMax, max(1, m.ReplicasMin), replicasLimit)
	p.count("replicas", m.Replicas, 0, max(0, m.ReplicasMax))
	p.count("queue_max", m.QueueMax, 0, 10_000_000)
	p.duration("patience", m.Patience, time.Second, time.Hour)
	p.duration("drain_max", m.DrainMax, 0, 24*time.Hour)
	p.duration("slo.ttft", m.SLO.TTFT, time.Millisecond, time.Hour)
	p.duration("slo.itl", m.SLO.ITL, time.Millisecond, time.Minute)
	return p.err()
}

// validateReplica checks how a replica behaves and what is told of it.
func (m Model) validateReplica(p *problems) {
	p.count("outstanding_max", m.Outstanding, 0, 1_000_000)
	if !slices.Contains(routers, m.Router) {
		p.add("router is %q: %s are allowed", m.Router, strings.Join(routers[1:], ", "))
	}
	if m.Engine != nil {
		if m.Physics != (Physics{}) {
			p.add("physics and engine are both there: one of them is allowed")
		}
		if err := m.Engine.Validate(); err != nil {
			p.nest("engine", err)
		} else if err := engineConfig(*m.Engine).Validate(); err != nil {
			p.nest("engine", err)
		}
		if !reflect.DeepEqual(m.Profile, planner.Profile{}) {
			p.nest("profile", m.Profile.Validate())
		}
		return
	}
	p.nest("physics", m.Physics.Validate())
	if err := m.Profile.Validate(); err != nil {
		p.errs = append(p.errs, err)
	} else if !m.Profile.Stated() {
		p.add("profile has physics or a table: the two stated rates are allowed, which a simulated minute's need is counted by")
	}
}

func (s Startup) validate() error {
	var p problems
	for _, phase := range []struct {
		key string
		l   Lognormal
	}{
		{"schedule", s.Schedule}, {"image_pull", s.ImagePull}, {"weight_load", s.Weights},
		{"weight_load_cached", s.CachedWeights}, {"engine_init", s.EngineInit},
		{"engine_init_cached", s.CachedInit}, {"first_token", s.FirstToken},
	} {
		phase.l.validate(&p, phase.key)
	}
	p.within("failure_prob", s.FailureProb, 0, 0.9)
	return p.err()
}

func (l Lognormal) validate(p *problems, key string) {
	p.duration(key+".median", l.Median, 0, 24*time.Hour)
	p.within(key+".sigma", l.Sigma, 0, 2)
}

func (pool Pool) validate(models, nodes map[string]bool) error {
	var p problems
	p.count("gpus_per_node", pool.GPUsPerNode, 0, 1024)
	p.count("nodes_max", pool.NodesMax, len(pool.Nodes), nodesLimit)
	if pool.NodesMax > len(pool.Nodes) && pool.GPUsPerNode == 0 {
		p.add("gpus_per_node is 0: nodes that may be launched (nodes_max %d) need at least 1", pool.NodesMax)
	}
	pool.Launch.validate(&p, "node_launch")
	pool.Ready.validate(&p, "node_ready")
	p.duration("idle_after", pool.IdleAfter, 0, 8760*time.Hour)
	for i, n := range pool.Nodes {
		key := fmt.Sprintf("nodes[%d]", i)
		if n.Name == "" || nodes[n.Name] {
			p.add("%s.name is %q: a name that is not empty and not repeated in any pool is allowed", key, n.Name)
		}
		nodes[n.Name] = true
		p.count(key+".gpus", n.GPUs, 0, 1024)
		p.count(key+".others_gpus", n.Others, 0, max(0, n.GPUs))
		for _, c := range n.Cached {
			if !models[c] {
				p.add("%s.cached names %q: a model of this world is allowed", key, c)
			}
		}
	}
	return p.err()
}
