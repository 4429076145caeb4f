package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// benchState is a cluster of 8-GPU nodes, half of them with free GPUs, under models of all shapes with 200 paths of 30
// steps, some of them with starting replicas.
func benchState(models, nodes int) State {
	rng := rand.New(rand.NewPCG(1, 2))
	s := State{Now: monday, Interval: 15 * time.Second, Inventory: &Inventory{}}
	limit := 100
	for p := range 4 {
		pool := Pool{Name: fmt.Sprint("pool-", p), Product: "H200", GPUsPerNode: 8, Launchable: &limit}
		for n := range nodes / 4 {
			pool.Nodes = append(pool.Nodes, Node{Name: fmt.Sprintf("node-%04d", n), Domain: fmt.Sprint("domain-", n/8),
				GPUs: 8, FreeGPUs: max(0, rng.IntN(16)-7), Usable: true})
		}
		s.Inventory.Pools = append(s.Inventory.Pools, pool)
	}
	shapes := []Shape{{GPUs: 1, Pods: 1}, {GPUs: 2, Pods: 1}, {GPUs: 4, Pods: 1}, {GPUs: 8, Pods: 1},
		{GPUs: 8, Pods: 2, Topology: "nvlink-domain"}}
	for i := range models {
		level := 5_000 + 40_000*rng.Float64()
		m := constantModel(monday, level, &Replicas{Ready: rng.IntN(6)})
		m.Name, m.Shape = fmt.Sprintf("model-%04d", i), shapes[i%len(shapes)]
		m.Forecast = &Forecast{Prompt: benchEnsemble(rng, level), Completion: benchEnsemble(rng, level/10), MayShrink: true}
		m.LeadTimes = append(m.LeadTimes, measured(coldstart.ColdNode, 8*time.Minute, 9*time.Minute))
		if i%4 == 0 {
			m.Replicas.Starting = []StartingReplica{{ID: fmt.Sprint("pod-", i), Since: monday.Add(-time.Minute)}}
		}
		s.Models = append(s.Models, m)
	}
	return s
}

func benchEnsemble(rng *rand.Rand, level float64) forecast.Ensemble {
	e := forecast.Ensemble{Start: monday, Step: time.Minute}
	for range 200 {
		path := make([]float64, 30)
		for k := range path {
			path[k] = level * (0.7 + 0.6*rng.Float64())
		}
		e.Paths = append(e.Paths, path)
	}
	return e
}

// benchPhysics is a replica whose capacity is computed at every Decision, with all its spreads.
func benchPhysics() *Physics {
	return &Physics{Iteration: 6, Prefill: 0.02, Decode: 0.02, Attention: 4e-5, PrefillAttention: 1.6e-6, KVTokens: 400_000,
		MaxSequences: 256, MaxBatchedTokens: 2048, PrefixHit: &PrefixHit{Rate: 0.5},
		Requests: RequestMix{Prompt: 1000, Completion: 200, PromptCV: 1, CompletionCV: 1}}
}

func BenchmarkCapacity(b *testing.B) {
	p := benchPhysics()
	for b.Loop() {
		p.Capacity(p.Requests, DefaultModelPolicy().slo(), 3)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, size := range []struct {
		models, nodes int
		physics       bool
	}{{50, 500, false}, {1000, 2000, false}, {1000, 2000, true}} {
		b.Run(fmt.Sprintf("models=%d,nodes=%d,physics=%v", size.models, size.nodes, size.physics), func(b *testing.B) {
			s, p := benchState(size.models, size.nodes), Policy{Defaults: DefaultModelPolicy()}
			for i := range s.Models {
				if size.physics {
					s.Models[i].Profile = &Profile{Physics: benchPhysics()}
				}
			}
			d, err := Decide(s, p)
			if err != nil {
				b.Fatal(err)
			}
			s.Memory = d.Memory
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decide(s, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTrackerState: one tick of one model, with a new minute of load in each (forecasters updated, 200 paths drawn)
// and without (three of four ticks).
func BenchmarkTrackerState(b *testing.B) {
	for _, newStep := range []bool{true, false} {
		b.Run(fmt.Sprintf("step=%v", newStep), func(b *testing.B) {
			cfg := trackerConfig("auto")
			cfg.Paths = 200
			tr, err := NewTracker(cfg)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			load := func() float64 { return 1000 + 100*rng.Float64() }
			var history []float64
			for range 28 * 24 * 60 {
				history = append(history, load())
			}
			now := monday
			if err := tr.Fit("chat", steps(now.Add(-28*24*time.Hour), history...)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				m := ModelObservation{Name: "chat"}
				if newStep {
					m.Load = steps(now, load())
					now = now.Add(time.Minute)
				}
				lookAt(tr, now, m)
			}
		})
	}
}
