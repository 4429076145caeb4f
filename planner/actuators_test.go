package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
)

// poolWorld is one pool with a provisioner: pods that find no node, and buffers, make it launch nodes, as few as hold
// them; empty ones that no buffer needs go. Replicas start on a node only.
type poolWorld struct {
	rng     *rand.Rand
	k       int // GPUs per replica
	nodes   []worldNode
	pods    []worldPod
	ordered int
}

type worldNode struct {
	name    string
	arrives time.Time
}

type worldPod struct {
	StartingReplica
	node  string // empty while it waits
	ready time.Time
}

const worldGPUs = 8

func (w *poolWorld) free(n worldNode) int {
	free := worldGPUs
	for _, p := range w.pods {
		if p.node == n.name {
			free -= w.k
		}
	}
	return free
}

// pass lets nodes arrive and binds the pods that wait, each to the fullest node that holds it.
func (w *poolWorld) pass(now time.Time) {
	for i := range w.pods {
		p := &w.pods[i]
		if p.node != "" {
			continue
		}
		best := -1
		for k, n := range w.nodes {
			if f := w.free(n); !n.arrives.After(now) && f >= w.k && (best < 0 || f < w.free(w.nodes[best])) {
				best = k
			}
		}
		if best >= 0 {
			p.node, p.Pending = w.nodes[best].name, false
			p.ready = now.Add(time.Duration(float64(3*time.Minute) * (0.3 + w.rng.Float64())))
		}
	}
}

// obey makes pods as planned, and the provisioner's nodes for those that wait and for the buffer.
func (w *poolWorld) obey(plan, buffer int, now time.Time) {
	for len(w.pods) < plan {
		w.ordered++
		id := fmt.Sprint("pod-", w.ordered)
		w.pods = append(w.pods, worldPod{StartingReplica: StartingReplica{ID: id, Since: now, Path: coldstart.ColdNode, Pending: true}})
	}
	w.pods = w.pods[:min(len(w.pods), plan)]
	want := buffer
	for _, p := range w.pods {
		if p.node == "" {
			want++
		}
	}
	slots := 0
	w.nodes = slices.DeleteFunc(w.nodes, func(n worldNode) bool {
		f := w.free(n)
		if f == worldGPUs && !n.arrives.After(now) && slots >= want {
			return true
		}
		slots += f / w.k
		return false
	})
	for slots < want {
		w.ordered++
		w.nodes = append(w.nodes, worldNode{name: fmt.Sprint("node-", w.ordered),
			arrives: now.Add(time.Duration(float64(6*time.Minute) * (0.3 + 2*w.rng.Float64())))})
		slots += worldGPUs / w.k
	}
}

// facts are what is seen of the world.
func (w *poolWorld) facts(now time.Time) (*Replicas, *Inventory) {
	r, p := &Replicas{}, Pool{Name: "p", GPUsPerNode: worldGPUs}
	for _, pod := range w.pods {
		if pod.node != "" && !pod.ready.After(now) {
			r.Ready++
		} else {
			r.Starting = append(r.Starting, pod.StartingReplica)
		}
	}
	for _, n := range w.nodes {
		if n.arrives.After(now) {
			p.Launching++
		} else {
			p.Nodes = append(p.Nodes, Node{Name: n.name, GPUs: worldGPUs, FreeGPUs: w.free(n), Usable: true})
		}
	}
	return r, &Inventory{Pools: []Pool{p}}
}

// TestOneNeedThreeActuators: with constant demand and any delays of nodes and starts, what is ready, starting and buffered
// never exceeds the need by more than one replica, nor the nodes by more than one, however many actuators could bring
// them; and nothing changes once the world has come to rest.
func TestOneNeedThreeActuators(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need := rapid.IntRange(1, 9).Draw(t, "need")
		w := &poolWorld{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), k: rapid.SampledFrom([]int{1, 2, 3, 4, 5, 8}).Draw(t, "gpus")}
		p := Policy{Defaults: DefaultModelPolicy()}
		p.Defaults.Authority = Act
		p.Defaults.ScaleDownWindow = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "window")
		fail := rapid.SampledFrom([]float64{0, 0.02, 0.3}).Draw(t, "fail")
		now, memory := genTime(t), Memory{}
		perNode, rest := worldGPUs/w.k, 0
		for range 200 { // 50 min: a node takes up to 14, a start 4, then the window
			w.pass(now)
			replicas, inventory := w.facts(now)
			m := constantModel(now, 9_999*float64(need), replicas)
			m.Shape.GPUs, m.LeadTimes[0].FailureProb = w.k, fail
			m.LeadTimes = append(m.LeadTimes, measured(coldstart.ColdNode, 5*time.Minute, 9*time.Minute))
			d := mustDecide(t, State{Now: now, Interval: 15 * time.Second, Memory: memory, Inventory: inventory, Models: []ModelState{m}}, p)
			memory = d.Memory
			buffer := 0
			for _, b := range d.Buffers {
				buffer += b.Replicas
			}
			plan := *d.Models[0].Replicas
			if plan < need || plan+buffer > need+1 {
				t.Fatalf("%v: plan %d and room for %d, need %d", now, plan, buffer, need)
			}
			target := len(w.nodes)
			for _, x := range d.Pools {
				target = x.Nodes
			}
			before := len(w.nodes)
			w.obey(plan, buffer, now)
			if most := (need+perNode-1)/perNode + 1; len(w.nodes) > most || target > max(most, before) {
				t.Fatalf("%v: %d nodes, target %d; %d replicas at %d a node need %d", now, len(w.nodes), target, need, perNode, most-1)
			}
			if len(d.Order) == 0 && replicas.Ready == need && len(replicas.Starting) == 0 {
				rest++
			} else if rest > 2+int(p.Defaults.ScaleDownWindow/(15*time.Second)) {
				t.Fatalf("%v: %+v after it had come to rest", now, d.Order)
			}
			now = now.Add(15 * time.Second)
		}
		if rest == 0 {
			t.Fatalf("never came to rest: %d pods on %d nodes, need %d", len(w.pods), len(w.nodes), need)
		}
	})
}

// TestPoolLimits: however much is wanted, no pool grows beyond what its limits, its group's, its reservations and the
// provider's stock allow, a static one only where its nodes may be set; quotas of the cohort keep their sum.
func TestPoolLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		d := mustDecide(t, s, p)
		shared, sharedMost := 0, -1
		for _, target := range d.Pools {
			var pool *Pool
			for i := range s.Inventory.Pools {
				if s.Inventory.Pools[i].Name == target.Pool {
					pool = &s.Inventory.Pools[i]
				}
			}
			grown := target.Nodes - len(pool.Nodes) - pool.Launching
			if grown < -1 || grown < 0 && !pool.Static || grown > 0 && (pool.NoStock || pool.Static && p.Pools != Act) {
				t.Fatalf("%+v grows by %d", pool, grown)
			}
			if l := pool.Launchable; l != nil && !pool.Static && grown > *l {
				t.Fatalf("%+v grows by %d, %d are allowed", pool, grown, *l)
			}
			if pool.Static && pool.NodesMax != nil && grown > 0 && target.Nodes >= *pool.NodesMax {
				t.Fatalf("%+v is to have %d nodes", pool, target.Nodes)
			}
			if r := pool.Reservations; len(r) > 0 && grown > r[0].Nodes-r[0].Used {
				t.Fatalf("%+v grows by %d beyond its reservation", pool, grown)
			}
			if l := pool.Launchable; l != nil && pool.Group != "" && !pool.Static {
				shared, sharedMost = shared+max(0, grown), max(sharedMost, *l)
			}
		}
		if sharedMost >= 0 && shared > sharedMost {
			t.Fatalf("pools of one group grow by %d, %d are allowed", shared, sharedMost)
		}
		before, after := 0, 0
		for i, q := range d.Quotas {
			before, after = before+s.Quotas[i].Nominal, after+q.Nominal
		}
		if before != after {
			t.Fatalf("%d GPUs of quota become %d", before, after)
		}
	})
}
