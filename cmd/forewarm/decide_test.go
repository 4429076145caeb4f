package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
	"forewarm/scaler/journal"
)

var monday = time.Date(2026, 3, 2, 9, 5, 0, 0, time.FixedZone("", 3600))

// burstState is a model with one busy replica, whose forecast doubles within the lead time.
func burstState(t *testing.T) planner.State {
	t.Helper()
	lead, err := coldstart.StatedDuration(coldstart.WarmNode, 3*time.Minute, coldstart.DefaultSpread(coldstart.WarmNode))
	if err != nil {
		t.Fatal(err)
	}
	ensemble := func(scale float64) forecast.Ensemble {
		e := forecast.Ensemble{Start: monday, Step: time.Minute}
		for i := range 20 {
			path := make([]float64, 30)
			for k := range path {
				path[k] = scale * (1 + min(1, float64(k)/3) + 0.01*float64(i))
			}
			e.Paths = append(e.Paths, path)
		}
		return e
	}
	return planner.State{Now: monday, Interval: 15 * time.Second, Models: []planner.ModelState{{
		Name: "chat", Shape: planner.Shape{GPUs: 4, Pods: 1}, Profile: &planner.Profile{Prompt: 20000, Completion: 2000},
		Load:      &planner.ObservedLoad{Load: planner.Load{Prompt: 9000, Completion: 900}, At: monday},
		Forecast:  &planner.Forecast{Prompt: ensemble(9000), Completion: ensemble(900), Method: "auto", MayShrink: true},
		Replicas:  &planner.Replicas{Ready: 1},
		LeadTimes: []coldstart.LeadTime{lead},
	}}}
}

func writeState(t *testing.T, s planner.State) string {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "state.json", string(data))
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// forewarm runs one command line.
func forewarm(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestDecideExplainsAState(t *testing.T) {
	path := writeState(t, burstState(t))
	code, out, errs := forewarm("decide", "--state", path)
	for _, want := range []string{"chat: 2 replicas (1 serving + 1 warm)", "warm", "order 1 more", "stated, not measured"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, the explanation lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	policy := writeFile(t, "policy.yaml", "defaults: {replicas_min: 5}\n")
	if _, out, _ := forewarm("decide", "--state", path, "--policy", policy); !strings.Contains(out, "chat: 5 replicas") {
		t.Errorf("another policy gives\n%s", out)
	}
	_, out, _ = forewarm("decide", "--state", path, "--format", "json")
	var d planner.Decision
	if err := json.Unmarshal([]byte(out), &d); err != nil || *d.Models[0].Replicas != 2 {
		t.Errorf("JSON is %v, %s", err, out)
	}
}

func TestDecideReplaysAJournal(t *testing.T) {
	dir := t.TempDir()
	j, _, err := journal.Open(dir, journal.Options{}, monday, nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := planner.Policy{Seed: 9, Defaults: planner.DefaultModelPolicy()}
	policy.Defaults.ReplicasMin = 3
	s := burstState(t)
	for range 2 {
		d, err := planner.Decide(s, policy)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(context.Background(), s, policy, d); err != nil {
			t.Fatal(err)
		}
		s.Memory, s.Now = d.Memory, s.Now.Add(time.Hour)
	}
	code, out, errs := forewarm("decide", "--journal", dir) // while the daemon writes it
	if code != 0 || !strings.Contains(out, "decision of 2026-03-02T10:05:00+01:00") || !strings.Contains(out, "the same Decision as recorded") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if _, out, _ := forewarm("decide", "--journal", dir, "--at", "2026-03-02T09:30:00+01:00"); !strings.Contains(out, "decision of 2026-03-02T09:05:00+01:00") ||
		!strings.Contains(out, "chat: 3 replicas") {
		t.Errorf("the State at an earlier time gives\n%s", out)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A State taken out replays from its file.
	_, state, _ := forewarm("decide", "--journal", dir, "--format", "state")
	_, exported, _ := forewarm("decide", "--journal", dir, "--format", "policy")
	_, want, _ := forewarm("decide", "--journal", dir, "--format", "json")
	code, got, errs := forewarm("decide", "--state", writeFile(t, "s.json", state), "--policy", writeFile(t, "p.yaml", exported), "--format", "json")
	if code != 0 || got != want {
		t.Errorf("State and policy taken out replay to (exit code %d)\n%s%s\nrecorded\n%s", code, got, errs, want)
	}
	if _, out, _ := forewarm("decide", "--state", writeFile(t, "s.json", state)); !strings.Contains(out, "built-in default policy") {
		t.Errorf("nothing says which policy was used:\n%s", out)
	}
}

// A replay that differs from what was recorded is a finding: exit code 1, not silence and not a usage error.
func TestDecideFindsADifferentReplay(t *testing.T) {
	dir := t.TempDir()
	j, _, err := journal.Open(dir, journal.Options{}, monday, nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := planner.Policy{Defaults: planner.DefaultModelPolicy()}
	s := burstState(t)
	d, err := planner.Decide(s, policy)
	if err != nil {
		t.Fatal(err)
	}
	d.Models[0].Serving++ // as another version might have decided
	if err := errors.Join(j.Append(context.Background(), s, policy, d), j.Close()); err != nil {
		t.Fatal(err)
	}
	code, out, errs := forewarm("decide", "--journal", dir)
	if code != 1 || !strings.Contains(out, "NOT the Decision that was recorded") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

func TestBadUsage(t *testing.T) {
	state := writeState(t, burstState(t))
	broken := burstState(t)
	broken.Interval, broken.Models[0].Shape.GPUs = 0, -1
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"decide"}, "[state journal]"},
		{[]string{"decide", "--state", state, "--format", "xml"}, "text, json, state or policy are allowed"},
		{[]string{"decide", "--state", state + ".missing"}, "no such file"},
		{[]string{"decide", "--state", writeFile(t, "x.json", `{"now": 5}`)}, "x.json: state: "},
		{[]string{"decide", "--state", writeFile(t, "x.json", `{"when": 5}`)}, `unknown field "when"`},
		{[]string{"decide", "--state", writeState(t, broken)}, "interval_ns is 0"},
		{[]string{"decide", "--state", writeState(t, broken)}, "shape.gpus is -1"},
		{[]string{"decide", "--state", state, "--policy", writeFile(t, "p.yaml", "defaults: {replicas_minimum: 1}")}, `p.yaml:1: unknown key "replicas_minimum"`},
		{[]string{"decide", "--state", state, "--at", "now"}, "--at belongs to --journal"},
		{[]string{"decide", "--journal", t.TempDir()}, "journal"},
		{[]string{"decide", "--journal", t.TempDir(), "--at", "9am"}, `--at is "9am"`},
		{[]string{"predict"}, `unknown command "predict"`},
	} {
		t.Run(strings.Join(tt.args[:min(2, len(tt.args))], " "), func(t *testing.T) {
			code, out, errs := forewarm(tt.args...)
			if code != 2 || !strings.Contains(errs, tt.want) || out != "" {
				t.Errorf("exit code %d, want 2 with %q:\n%s%s", code, tt.want, out, errs)
			}
		})
	}
}

// What the models share is explained too: nodes, the room kept in them, quotas, and the order of the changes.
func TestDecideShowsWhatModelsShare(t *testing.T) {
	s := burstState(t)
	s.Inventory = &planner.Inventory{Pools: []planner.Pool{{Name: "h200", GPUsPerNode: 8, Static: true,
		Failures: []planner.LaunchFailure{{Offer: planner.Offer{Type: "p5", Zone: "a"}, At: monday.Add(-time.Hour)}},
		Nodes:    []planner.Node{{Name: "a", GPUs: 8, Usable: true}}}}}
	s.Quotas = []planner.Quota{
		{Queue: "batch", Flavor: "h200", Nominal: 12, Cohort: "all"},
		{Queue: "serving", Flavor: "h200", Nominal: 4, Used: 4, Cohort: "all", Models: []string{"chat"}, Pools: []string{"h200"}},
	}
	policy := writeFile(t, "policy.yaml", "pools: act\nquota: {authority: act, donors: {batch: 0}}\ndefaults: {authority: act}\n")
	code, out, errs := forewarm("decide", "--state", writeState(t, s), "--policy", policy)
	for _, want := range []string{"pool h200: 2 nodes (1 more than now, for chat; by node count)",
		"quota serving, flavor h200: 8 GPUs, now 4 (8 GPUs will be needed for chat: 4 from batch)",
		"to be changed, in this order:\n  1. quota batch/h200: 12 -> 8\n  2. quota serving/h200: 4 -> 8\n  3. nodes h200: 1 -> 2\n  4. replicas chat: 1 -> 2\n"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, the explanation lacks %q:\n%s%s", code, want, out, errs)
		}
	}
}
