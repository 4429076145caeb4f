package planner

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
)

func TestReadStateErrors(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"not JSON":     {`{"now":`, "state: at byte"},
		"unknown key":  {`{"nwo": 3}`, `unknown field "nwo"`},
		"two values":   {`{"now":"2026-03-02T09:00:00Z","interval_ns":15000000000,"models":[]} {}`, "one JSON value is allowed, more follows"},
		"out of range": {`{"interval_ns":-1}`, "now is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadState(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// FuzzReadState: reading never panics; what it accepts is decided without panic or error, encodes, and reads back to the
// same bytes and the same Decision.
func FuzzReadState(f *testing.F) {
	pod := StartingReplica{ID: "pod-0", Since: monday, Path: coldstart.WarmNode}
	m := constantModel(monday, 5000, &Replicas{Ready: 1, Starting: []StartingReplica{pod}})
	m.Forecast.Prompt.Paths[0], m.Forecast.Completion.Paths[0] = []float64{5000, 25000}, []float64{400, 0}
	m.Forecast.Events = []EventEffect{{Name: "all-hands", From: monday, To: monday.Add(time.Hour), Prompt: 2.4, Completion: 3, Why: "stated"}}
	waiting := 7.0
	m.Signals = Signals{Waiting: &waiting, Backlog: &Backlog{Prompt: 10, Completion: 1}}
	full := State{
		Now: monday.In(time.FixedZone("", 3600)), Interval: 15 * time.Second, Models: []ModelState{m}, Inventory: inventoryOf([]int{2, 8}),
		Quotas: []Quota{{Queue: "q", Flavor: "f", Nominal: 3, Used: 4}}, Gaps: []Gap{{Model: "chat", Fact: "waiting", Since: monday}},
		Memory: Memory{At: monday, Unbroken: monday, Models: []ModelMemory{{Name: "chat", Replicas: 3, Wanted: []Count{{monday, 3}}}}},
	}
	empty := State{Now: monday, Interval: time.Second}
	for _, s := range []State{full, empty} {
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"models":[{"shape":{"gpus":1e3}}]}`))
	p := Policy{Defaults: DefaultModelPolicy()}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadState(bytes.NewReader(data))
		if err != nil {
			return
		}
		first := mustJSON(t, mustDecide(t, s, p))
		encoded := mustJSON(t, s)
		again, err := ReadState(bytes.NewReader(encoded))
		if err != nil {
			t.Fatalf("what was written is not read back: %v", err)
		}
		if twice := mustJSON(t, again); !bytes.Equal(encoded, twice) {
			t.Fatalf("encoding is not stable:\n%s\n%s", encoded, twice)
		}
		if replayed := mustJSON(t, mustDecide(t, again, p)); !bytes.Equal(first, replayed) {
			t.Fatalf("the Decision is not reproduced:\n%s\n%s", first, replayed)
		}
	})
}

// TestStateRefusesAbsurdEvents: an effect that could not have come from a calendar is refused before anybody plans by it.
func TestStateRefusesAbsurdEvents(t *testing.T) {
	for want, e := range map[string]EventEffect{
		`event "x" multiplies by 0`:              {Name: "x", From: monday, To: monday, Completion: 1},
		`event "x" is from 0001-01-01T00:00:00Z`: {Name: "x", To: monday, Prompt: 1, Completion: 1},
	} {
		m := constantModel(monday, 5000, &Replicas{Ready: 1})
		m.Forecast.Events = []EventEffect{e}
		err := State{Now: monday, Interval: time.Second, Models: []ModelState{m}}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestAbsurdLoad: a unit mistake costs neither time nor memory and leaves a number that can be remembered.
func TestAbsurdLoad(t *testing.T) {
	m := constantModel(monday, 1e300, &Replicas{Ready: 1})
	s := State{Now: monday, Interval: 15 * time.Second, Models: []ModelState{m}, Inventory: inventoryOf([]int{8, 8})}
	d := mustDecide(t, s, Policy{Defaults: DefaultModelPolicy()})
	if n := *d.Models[0].Replicas; n != replicasLimit {
		t.Errorf("plan %d, want the limit %d", n, replicasLimit)
	}
	if len(d.Shortfalls) != 1 || d.Pools[0].Nodes != 2+launchMax {
		t.Errorf("shortfalls %+v, pools %+v", d.Shortfalls, d.Pools)
	}
	s.Memory = d.Memory
	mustDecide(t, s, Policy{Defaults: DefaultModelPolicy()})
}

func TestView(t *testing.T) {
	d := Decision{At: monday, Models: []ModelDecision{{Name: "chat"}, {Name: "code"}},
		Gaps:       []Gap{{Model: "chat", Fact: "load"}, {Model: "code", Fact: "load"}, {Fact: "inventory"}},
		Shortfalls: []Shortfall{{Model: "code", Cause: NoStock}}}
	v, ok := d.View("code")
	if !ok || v.Model.Name != "code" || len(v.Gaps) != 2 || len(v.Shortfalls) != 1 || !v.At.Equal(monday) {
		t.Errorf("view %+v, %v", v, ok)
	}
	if _, ok := d.View("embed"); ok {
		t.Error("a view of a model that is not in the Decision")
	}
}

// TestQuotaTargets: a quota stays as it is, but never below what is in use.
func TestQuotaTargets(t *testing.T) {
	got, _ := newQuotaBook(&State{Quotas: []Quota{{Queue: "a", Flavor: "f", Nominal: 8, Used: 3},
		{Queue: "b", Flavor: "f", Nominal: 8, Used: 12}}}, Policy{}).targets()
	if got[0].Nominal != 8 || got[1].Nominal != 12 || got[1].Why != "12 GPUs are in use" {
		t.Errorf("%+v", got)
	}
}
