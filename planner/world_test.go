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

// tinyWorld carries plans out: what is ordered arrives after a delay of its own, or fails and is ordered anew.
type tinyWorld struct {
	rng      *rand.Rand
	ready    int
	starting []pendingStart
	failures int // how many starts still fail
	orders   int
}

type pendingStart struct {
	StartingReplica
	ends  time.Time
	fails bool
}

// delay is the real time a start takes: within the measured three minutes, a little late, or ten times as long.
func (w *tinyWorld) delay() time.Duration {
	return time.Duration(float64(time.Minute) * (1 + 2*w.rng.Float64()) * []float64{1, 1, 2, 10}[w.rng.IntN(4)])
}

func (w *tinyWorld) pass(now time.Time) {
	w.starting = slices.DeleteFunc(w.starting, func(s pendingStart) bool {
		if now.Before(s.ends) {
			return false
		}
		if !s.fails {
			w.ready++
		}
		return true
	})
}

func (w *tinyWorld) obey(plan int, now time.Time) {
	for w.ready+len(w.starting) < plan {
		s := pendingStart{StartingReplica: StartingReplica{ID: fmt.Sprint("pod-", w.orders), Since: now, Path: coldstart.WarmNode}}
		s.ends, s.fails = now.Add(w.delay()), w.failures > 0 && w.rng.IntN(3) == 0
		if s.fails {
			w.failures--
		}
		w.orders++
		w.starting = append(w.starting, s)
	}
	for w.ready+len(w.starting) > plan && len(w.starting) > 0 {
		w.starting = w.starting[:len(w.starting)-1]
	}
	w.ready = min(w.ready, plan)
}

func (w *tinyWorld) replicas() *Replicas {
	r := &Replicas{Ready: w.ready}
	for _, s := range w.starting {
		r.Starting = append(r.Starting, s.StartingReplica)
	}
	return r
}

// TestHoldIsFixedPoint: with constant demand and any start delays, overdue and failing ones included, ready + starting
// never exceed the need by more than one replica (beyond what ran at the beginning), the plan is never below the need,
// and in the end it is the need and stays so.
func TestHoldIsFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need, began := rapid.IntRange(1, 6).Draw(t, "need"), rapid.IntRange(0, 8).Draw(t, "ready")
		w := &tinyWorld{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), ready: began,
			failures: rapid.IntRange(0, 3).Draw(t, "failures")}
		p := Policy{Seed: rapid.Uint64().Draw(t, "policySeed"), Defaults: DefaultModelPolicy()}
		p.Defaults.ScaleDownWindow = rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute}).Draw(t, "window")
		fail := rapid.SampledFrom([]float64{0, 0.02, 0.3}).Draw(t, "fail")
		now, memory := genTime(t), Memory{}
		var settled int
		for range 800 { // 3 h 20 min: four starts in a row that take 30 min, then the window
			w.pass(now)
			m := constantModel(now, 9_999*float64(need), w.replicas())
			m.LeadTimes[0].FailureProb = fail
			d := mustDecide(t, State{Now: now, Interval: 15 * time.Second, Memory: memory, Models: []ModelState{m}}, p)
			memory = d.Memory
			plan := *d.Models[0].Replicas
			if plan < need || plan > max(began, need+1) {
				t.Fatalf("%v: plan %d with %d ready and %d starting, need %d", now, plan, w.ready, len(w.starting), need)
			}
			w.obey(plan, now)
			if have := w.ready + len(w.starting); have > max(began, need+1) {
				t.Fatalf("%v: %d ready and starting, need %d", now, have, need)
			}
			if plan == need && w.ready == need && len(w.starting) == 0 {
				settled++
			} else {
				if settled > int(p.Defaults.ScaleDownWindow/(15*time.Second))+2 {
					t.Fatalf("%v: plan %d, %d ready after it had settled at %d", now, plan, w.ready, need)
				}
				settled = 0
			}
			now = now.Add(15 * time.Second)
		}
		if settled == 0 {
			t.Fatalf("never settled: %d ready, %d starting, need %d", w.ready, len(w.starting), need)
		}
	})
}
