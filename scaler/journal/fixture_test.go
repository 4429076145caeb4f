package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

// monday is when every test begins.
var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const tick = 15 * time.Second

// fleet is a small world that makes States as the loop does: loads that wander and jump, forecasts sampled around them,
// replicas that follow the plan. Everything comes from the seed.
type fleet struct {
	models, paths, steps int
	rng                  *rand.Rand
	now                  time.Time
	load                 []float64
	memory               planner.Memory
	ready                []int
	forecasts            []planner.Forecast // renewed once a minute, as the loop does
}

func newFleet(models, paths, steps int) *fleet {
	f := &fleet{models: models, paths: paths, steps: steps, rng: rand.New(rand.NewPCG(7, 11)), now: monday}
	for range models {
		f.load = append(f.load, 2000+8000*f.rng.Float64())
		f.ready = append(f.ready, 3)
	}
	f.forecasts = make([]planner.Forecast, models)
	return f
}

func (f *fleet) policy() planner.Policy {
	p := planner.Policy{Seed: 42, Defaults: planner.DefaultModelPolicy()}
	p.Defaults.Authority = planner.Act
	p.Defaults.ReplicasMax = 40
	return p
}

// state returns the facts of the next tick.
func (f *fleet) state() planner.State {
	f.now = f.now.Add(tick)
	s := planner.State{Now: f.now, Interval: tick, Memory: f.memory, Models: []planner.ModelState{}}
	newMinute := f.now.Second() < int(tick/time.Second)
	for i := range f.models {
		if newMinute || f.forecasts[i].Method == "" {
			f.load[i] = max(100, f.load[i]*(1+0.05*f.rng.NormFloat64()))
			f.forecasts[i] = f.forecast(f.load[i])
		}
		s.Models = append(s.Models, f.model(i))
	}
	return s
}

func (f *fleet) model(i int) planner.ModelState {
	waiting := float64(f.rng.IntN(4))
	desired := f.ready[i]
	fc := f.forecasts[i]
	return planner.ModelState{
		Name: fmt.Sprintf("chat-%03d", i),
		Load: &planner.ObservedLoad{
			Load: planner.Load{Prompt: planner.TokenRate(6 * f.load[i]), Completion: planner.TokenRate(f.load[i])},
			At:   f.now.Truncate(time.Minute), Source: "arrivals at the gateway",
		},
		Forecast: &fc,
		Replicas: &planner.Replicas{Ready: f.ready[i], Desired: &desired},
		Signals:  planner.Signals{Waiting: &waiting},
		LeadTimes: []coldstart.LeadTime{{Path: coldstart.WarmNode, Basis: coldstart.Measured, Samples: 3,
			From:    coldstart.Key{Model: fmt.Sprintf("chat-%03d", i), Path: coldstart.WarmNode},
			Support: []time.Duration{3 * time.Minute, 4 * time.Minute, 6 * time.Minute}, CDF: []float64{0.3, 0.8, 1}}},
		Shape:   planner.Shape{GPUs: 4, Pods: 1},
		Profile: &planner.Profile{Prompt: 40000, Completion: 3000, Source: "measured 2026-02-20"},
	}
}

func (f *fleet) forecast(load float64) planner.Forecast {
	draw := func(scale float64) forecast.Ensemble {
		e := forecast.Ensemble{Start: f.now.Truncate(time.Minute), Step: time.Minute, Paths: make([][]float64, f.paths)}
		for i := range e.Paths {
			v := load * scale
			for range f.steps {
				v = max(0, v*(1+0.03*f.rng.NormFloat64()))
				e.Paths[i] = append(e.Paths[i], v)
			}
		}
		return e
	}
	return planner.Forecast{Prompt: draw(6), Completion: draw(1), Method: "seasonal naive", MayShrink: true,
		Authority: "beats last value by 21 % over 7 days"}
}

// next decides one tick and lets the world follow the plan.
func (f *fleet) next(tb testing.TB) (planner.State, planner.Policy, planner.Decision) {
	tb.Helper()
	s, p := f.state(), f.policy()
	d, err := planner.Decide(s, p)
	if err != nil {
		tb.Fatal(err)
	}
	f.memory = d.Memory
	for i := range d.Models {
		if n := d.Models[i].Replicas; n != nil {
			f.ready[i] = *n
		}
	}
	return s, p, d
}

func mustOpen(tb testing.TB, dir string, opts Options) (*Journal, Report) {
	tb.Helper()
	j, report, err := Open(dir, opts, monday, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := j.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return j, report
}

// fewTicks is how many Decisions a group has in tests that need many groups.
const fewTicks = 10

func mustAppend(tb testing.TB, j *Journal, s planner.State, p planner.Policy, d planner.Decision) {
	tb.Helper()
	if err := j.Append(context.Background(), s, p, d); err != nil {
		tb.Fatal(err)
	}
}

func asJSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// mustLast returns the last Decision, which must be there.
func mustLast(tb testing.TB, r *Reader) planner.Decision {
	tb.Helper()
	d, ok, err := r.Last(context.Background())
	if err != nil || !ok {
		tb.Fatalf("last decision: ok %v, error %v", ok, err)
	}
	return d
}

// integrity runs SQLite's own full check.
func integrity(tb testing.TB, r *Reader) {
	tb.Helper()
	found, err := texts(context.Background(), r.db, "PRAGMA integrity_check")
	if err != nil || len(found) != 1 || found[0] != "ok" {
		tb.Fatalf("integrity check: %v, error %v", found, err)
	}
}
