package planner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/sim"
)

// recorded is one file of testdata/recorded: what Decide was given and what it made of it, one line each.
type recorded struct {
	Arch     string          `json:"arch"` // floating point differs between kinds of machine
	State    json.RawMessage `json:"state"`
	Policy   planner.Policy  `json:"policy"`
	Decision json.RawMessage `json:"decision"`
}

// recordings are moments of the demo's Monday morning, each the first tick for which take says so.
var recordings = []struct {
	name string
	take func(planner.State, planner.Decision) bool
}{
	{"ordered", func(_ planner.State, d planner.Decision) bool { return says(d, "order ") }},
	{"starting", func(s planner.State, _ planner.Decision) bool {
		r := s.Models[0].Replicas
		return r != nil && len(r.Starting) > 0 && s.Now.Sub(r.Starting[0].Since) > time.Minute
	}},
	{"held", func(_ planner.State, d planner.Decision) bool { return says(d, "were wanted within the last") }},
	{"blind", func(_ planner.State, d planner.Decision) bool { return says(d, "no forecast can be read") }},
}

func says(d planner.Decision, text string) bool {
	for _, m := range d.Models {
		for _, s := range m.Steps {
			if strings.Contains(s.Why, text) {
				return true
			}
		}
	}
	return false
}

// A recorded State replays to the same Decision byte for byte. With -rewrite the Decisions are written anew, from the
// States there are: commit only differences you can explain. A file that was deleted is then recorded again.
func TestRecordedStatesReplay(t *testing.T) {
	rewrite := flag.Lookup("rewrite").Value.String() == "true" // of datadriven
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			path := filepath.Join("testdata", "recorded", r.name+".json")
			if _, err := os.Stat(path); rewrite && errors.Is(err, fs.ErrNotExist) {
				write(t, path, record(t, r.take))
			}
			was := read(t, path)
			if was.Arch != runtime.GOARCH {
				t.Skipf("%s was recorded on %s and replays byte for byte only there; this is %s", path, was.Arch, runtime.GOARCH)
			}
			state, err := planner.ReadState(bytes.NewReader(was.State))
			if err != nil {
				t.Fatal(err)
			}
			d, err := planner.Decide(state, was.Policy)
			if err != nil {
				t.Fatal(err)
			}
			got := encode(t, d)
			if rewrite {
				was.Decision = got
				write(t, path, was)
			}
			if !bytes.Equal(got, was.Decision) {
				t.Errorf("%s replays to\n%s\nwas\n%s", path, got, was.Decision)
			}
			if again := encode(t, state); !bytes.Equal(again, was.State) {
				t.Errorf("%s: the State is written as\n%.300s\nwas\n%.300s", path, again, was.State)
			}
		})
	}
}

func read(t *testing.T, path string) recorded {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

func write(t *testing.T, path string, r recorded) {
	t.Helper()
	text := fmt.Sprintf("{\"arch\":%q,\n\"policy\":%s,\n\"decision\":%s,\n\"state\":%s}\n", r.Arch, encode(t, r.Policy), r.Decision, r.State)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// record runs the demo world, whose facts stop coming after half an hour, until take likes a tick.
func record(t *testing.T, take func(planner.State, planner.Decision) bool) recorded {
	t.Helper()
	const (
		seed     = 11
		past     = 7 * 24 * time.Hour
		interval = 15 * time.Second
	)
	ctx, world := context.Background(), sim.DemoWorld()
	cluster, err := sim.NewCluster(world, seed)
	must(t, err)
	cfg := planner.TrackerConfig{Step: sim.LoadStep, Horizon: 30 * time.Minute, Interval: interval, Paths: 20, Method: "auto",
		Seed: seed, Ledger: &coldstart.Ledger{}}
	for _, s := range cluster.PastStarts(10, past) {
		must(t, cfg.Ledger.Add(s))
	}
	policy := planner.Policy{Seed: seed, Defaults: planner.DefaultModelPolicy()}
	policy.Defaults.Authority = planner.Act
	for _, m := range world.Models {
		cfg.Models = append(cfg.Models, planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: &m.Profile})
	}
	tracker, err := planner.NewTracker(cfg)
	must(t, err)
	for _, m := range world.Models {
		h, err := cluster.History(ctx, m.Name, world.Start.Add(-past), world.Start)
		must(t, err)
		must(t, tracker.Fit(m.Name, h))
	}
	var memory planner.Memory
	for now := world.Start; now.Before(world.Start.Add(2 * time.Hour)); now = now.Add(interval) {
		obs, err := cluster.Observe(ctx, now)
		must(t, err)
		if now.Sub(world.Start) > 30*time.Minute {
			obs = planner.Observation{At: now, Gaps: []planner.Gap{{Fact: "observation", Since: now, Detail: "connection refused"}}}
		}
		state := tracker.State(obs, memory)
		d, err := planner.Decide(state, policy)
		must(t, err)
		if take(state, d) {
			return recorded{Arch: runtime.GOARCH, State: encode(t, state), Policy: policy, Decision: encode(t, d)}
		}
		must(t, cluster.Apply(ctx, d))
		memory = d.Memory
	}
	t.Fatal("no tick of the morning is one to record")
	return recorded{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
