package planner

import (
	"strings"
	"testing"
	"time"
)

// TestPolicyValidate: every key out of range is reported, all at once, with its key, the value and what is allowed.
func TestPolicyValidate(t *testing.T) {
	p := Policy{
		Defaults: ModelPolicy{Authority: "rule", ReplicasMin: -1, ReplicasMax: -2, ServiceLevel: 1.5, ScaleDownWindow: -time.Second,
			DrainTime: 25 * time.Hour, DrainWithin: 100 * time.Millisecond, QueueThreshold: 0, LoadMaxAge: 2 * time.Hour},
		Models: map[string]ModelPolicy{"b": DefaultModelPolicy(), "a": DefaultModelPolicy()},
	}
	a, b := p.Models["a"], p.Models["b"]
	a.ReplicasMin, a.ReplicasMax = 5, 3
	b.ReplicasMin, b.ReplicasMax, b.QueueThreshold, b.ServiceLevel = 1_000_001, 1_000_001, 2e6, nan
	c := DefaultModelPolicy()
	c.Priority, c.Mode, c.IdleCost, c.Survive, c.Standby = 1001, ModeCost, -1, "rack", &Standby{Share: 1.5}
	p.Models["a"], p.Models["b"], p.Models["c"] = a, b, c
	want := []string{
		`defaults.authority is "rule": observe, advise or act are allowed`,
		`defaults.replicas_min is -1: 0 to 1000000 are allowed`,
		`defaults.replicas_max is -2: 0 (no limit) to 1000000 are allowed`,
		`defaults.service_level is 1.5: 0.5 to 0.9999 are allowed`,
		`defaults.queue_threshold is 0: above 0 and at most 1000000 waiting requests per replica are allowed`,
		`defaults.scale_down_window is -1s: 0s to 24h are allowed`,
		`defaults.drain_time is 25h0m0s: 0s to 24h are allowed`,
		`defaults.drain_within is 100ms: 1s to 1h are allowed`,
		`defaults.load_max_age is 2h0m0s: 1s to 1h are allowed`,
		`models.a.replicas_min is 5: at most replicas_max, 3, is allowed`,
		`models.b.replicas_min is 1000001: 0 to 1000000 are allowed`,
		`models.b.replicas_max is 1000001: 0 (no limit) to 1000000 are allowed`,
		`models.b.service_level is NaN: 0.5 to 0.9999 are allowed`,
		`models.b.queue_threshold is 2e+06: above 0 and at most 1000000 waiting requests per replica are allowed`,
		`models.c.priority is 1001: -1000 to 1000 are allowed`,
		`models.c.shortage_cost is 0: a cost per replica-minute of at most 1000000000 is allowed, above 0 in the mode cost`,
		`models.c.idle_cost is -1: a cost per replica-minute of at most 1000000000 is allowed, above 0 in the mode cost`,
		`models.c.survive is "rack": node, zone, spot-pool or none are allowed`,
		`models.c.standby.for is "": the name of another model is allowed`,
		`models.c.standby.share is 1.5: above 0 to 1 is allowed`,
	}
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.Split(err.Error(), "\n")
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("unexpected: %s", got[i])
		case got[i] != want[i]:
			t.Errorf("line %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if _, err := Decide(State{Now: monday, Interval: time.Second}, p); err == nil || !strings.Contains(err.Error(), want[0]) {
		t.Errorf("Decide with a bad policy: %v", err)
	}
}

func TestPolicyDefaults(t *testing.T) {
	p := Policy{Defaults: DefaultModelPolicy(), Models: map[string]ModelPolicy{"chat": {Authority: Act}}}
	if err := (Policy{Defaults: DefaultModelPolicy()}).Validate(); err != nil {
		t.Errorf("the default policy is out of range: %v", err)
	}
	if p.For("chat").Authority != Act || p.For("code").Authority != Observe {
		t.Errorf("policies %+v and %+v", p.For("chat"), p.For("code"))
	}
}

// TestStateValidate: what breaks an invariant of State is reported by name, all at once.
func TestStateValidate(t *testing.T) {
	minus := -1
	now := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	good := constantModel(monday, 1000, &Replicas{Ready: 1})
	bad := good
	bad.Name = "a"
	bad.Shape = Shape{}
	bad.Load = &ObservedLoad{Load: Load{Prompt: TokenRate(nan)}}
	bad.Replicas = &Replicas{Ready: -1}
	bad.Actuator = &Actuator{ScaleUpTolerance: nan}
	bad.Signals = Signals{Waiting: &nan, Running: &nan, Backlog: &Backlog{Prompt: -1, Completion: Tokens(nan)}}
	f := *good.Forecast
	f.Completion.Paths = [][]float64{make([]float64, 30)}
	f.Completion.Paths[0][3] = -4
	bad.Forecast = &f
	s := State{
		Now: now, Models: []ModelState{good, bad},
		Inventory: &Inventory{Pools: []Pool{{Name: "p", GPUsPerNode: -1, Launchable: &minus,
			Nodes: []Node{{Name: "n", GPUs: 8, FreeGPUs: 9}}}}},
		Memory: Memory{Models: []ModelMemory{
			{Name: "x", Replicas: -1, Wanted: []Count{{Replicas: -2}}, Needed: []Count{{Replicas: -3}}}, {Name: "x"}}},
	}
	err := s.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`now is 2300-01-01T00:00:00Z: the years 1970 to 2200 are allowed`,
		`interval_ns is 0: above 0 to 1h is allowed`,
		`models[1] is "a" after "chat": names must ascend without repeats`,
		`model "a": shape.gpus is 0`,
		`model "a": load is NaN prompt + 0 completion tok/s: finite rates`,
		`model "a": actuator.scale_up_tolerance is NaN: 0 to 10 are allowed`,
		`signals.waiting_requests is NaN`, `signals.running_requests is NaN`, `signals.backlog.prompt_tokens is -1`,
		`signals.backlog.completion_tokens is NaN`,
		`replicas: -1 are ready, 0 starting and 0 leaving`,
		`forecast.completion: path 0 step 3 is -4: rates of at least 0 are allowed`,
		`pool "p": gpus_per_node is -1`, `pool "p": launchable is -1`, `pool "p", node "n": free_gpus is 9`,
		`memory of model "x": replicas is -1`, `memory of model "x": wanted is -2`, `memory of model "x": needed is -3`,
		`memory.models[1] is "x" after "x"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if (State{}).Validate() == nil {
		t.Error("an empty State is valid")
	}
}

func TestForecastMustBeJoint(t *testing.T) {
	for name, change := range map[string]func(*Forecast){
		"they must be joint": func(f *Forecast) { f.Completion.Step = time.Second },
		"steps of 2h0m0s":    func(f *Forecast) { f.Prompt.Step, f.Completion.Step = 2*time.Hour, 2*time.Hour },
		"it starts at 1900-01": func(f *Forecast) {
			f.Prompt.Start = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
			f.Completion.Start = f.Prompt.Start
		},
		"must have at least one": func(f *Forecast) { f.Prompt.Paths, f.Completion.Paths = nil, nil },
	} {
		m := constantModel(monday, 1000, nil)
		change(m.Forecast)
		err := State{Now: monday, Interval: time.Second, Models: []ModelState{m}}.Validate()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 250 * time.Millisecond: "250ms", 1499 * time.Millisecond: "1s", 5 * time.Minute: "5m",
		90 * time.Second: "1m30s", 2 * time.Hour: "2h", 2*time.Hour + time.Second: "2h0m1s", -3 * time.Minute: "-3m",
		610333260 * time.Nanosecond: "610ms", 5 * time.Microsecond: "5µs"} {
		if got := shortDuration(d); got != want {
			t.Errorf("%d ns is %q, want %q", d, got, want)
		}
	}
}

// TestQuantileCount: the smallest count that at least the share p stays at or below, floating-point dust aside.
func TestQuantileCount(t *testing.T) {
	counts := make([]int, 100)
	for i := range counts {
		counts[i] = 100 - i
	}
	for p, want := range map[float64]int{0.5: 50, 0.55: 55, 0.95: 95, 0.99: 99, 0.9999: 100, 0.001: 1} {
		if got := quantileCount(counts, p); got != want {
			t.Errorf("p%v is %d, want %d", 100*p, got, want)
		}
	}
	for p, want := range map[float64]string{0.95: "95", 0.975: "97.5", 0.99995: "99.995"} {
		if got := percent(p); got != want {
			t.Errorf("%v prints as %s, want %s", p, got, want)
		}
	}
}
