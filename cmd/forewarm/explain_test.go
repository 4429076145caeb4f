package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
	"forewarm/scaler/journal"
)

// burstJournal is twenty minutes of a model whose plan nobody carried out: it may only observe, and its load doubles
// after ten. The journal keeps the States at the target's changes and a checkpoint in between.
func burstJournal(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j, _, err := journal.Open(dir, journal.Options{}, monday, nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := planner.Policy{Defaults: planner.DefaultModelPolicy()}
	s := burstState(t)
	for i := range 20 {
		s.Now = monday.Add(time.Duration(i) * time.Minute)
		load := planner.Load{Prompt: 9000, Completion: 900, Requests: 9}
		if i >= 10 {
			load = planner.Load{Prompt: 18000, Completion: 1800, Requests: 18}
		}
		s.Models[0].Load = &planner.ObservedLoad{Load: load, At: s.Now}
		d, err := planner.Decide(s, policy)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(context.Background(), s, policy, d); err != nil {
			t.Fatal(err)
		}
		s.Memory = d.Memory
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExplainNamesTheChange(t *testing.T) {
	dir := burstJournal(t)
	code, out, errs := forewarm("explain", "--journal", dir, "--model", "chat")
	for _, want := range []string{"chat: 2 replicas (2 serving + 0 warm)", "short of 1 replica from 09:15:00 to 09:15:00",
		"what would have prevented it: authority act: under observe KEDA was told 1", "earlier start", "prevents it",
		"short: cold start (platform): with 1 ready replica 10000 prompt + 1000 completion tok/s can be served, 56 %"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, the explanation lacks %q:\n%s%s", code, want, out, errs)
		}
	}
	_, out, _ = forewarm("explain", "--journal", dir, "--model", "chat", "--at", "2026-03-02T09:14:30+01:00")
	if !strings.Contains(out, "decision of 2026-03-02T09:05:00+01:00") || !strings.Contains(out, "no shortage") {
		t.Errorf("before the burst:\n%s", out)
	}
	_, out, _ = forewarm("explain", "--journal", dir, "--model", "chat", "--format", "json")
	var e explained
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Remedy == nil || e.Remedy.Kind != planner.RemedyAuthority ||
		e.Plan.Model.Name != "chat" || e.Model != "chat" || e.Short != 1 {
		t.Errorf("JSON (%v):\n%s", err, out)
	}
}

func TestExplainRefuses(t *testing.T) {
	dir := burstJournal(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"--journal is missing", "--model is missing"}},
		{[]string{"--journal", dir, "--model", "other"}, []string{`--model is "other"`, "[chat]"}},
		{[]string{"--journal", dir, "--model", "chat", "--at", "noon", "--window", "1s", "--format", "xml"},
			[]string{`--at is "noon"`, "--window is 1s: 1m to 48h", `--format is "xml"`}},
		{[]string{"--journal", t.TempDir(), "--model", "chat"}, []string{"journal"}},
		{[]string{"--journal", dir, "--model", "chat", "--at", "2020-01-01T00:00:00Z"}, []string{"2020"}},
	} {
		code, _, errs := forewarm(append([]string{"explain"}, c.args...)...)
		for _, want := range c.want {
			if code != 2 || !strings.Contains(errs, want) {
				t.Errorf("%v: exit code %d, the error lacks %q:\n%s", c.args, code, want, errs)
			}
		}
	}
}
