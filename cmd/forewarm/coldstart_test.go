package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
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

var rewriteColdstart = flag.Bool("rewrite-coldstart", false, "write the golden files of forewarm coldstart")

// coldstartFiles are three starts: one on a new node, one on a warm node with everything cached, one whose engine failed
// twice; the last log is compressed, and events and NodeClaims follow the pods without a flag of their own.
var coldstartFiles = []string{
	"--kube", "testdata/coldstart/pods.json", "testdata/coldstart/events.json", "testdata/coldstart/nodeclaims.json",
	"--log", "testdata/coldstart/chat-70b-a.log", "testdata/coldstart/chat-8b-b.log", "testdata/coldstart/chat-8b-e.log.1.gz",
}

func runColdstart(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"coldstart"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func TestColdstartGolden(t *testing.T) {
	for _, format := range []string{"table", "json", "svg"} {
		out, errs, code := runColdstart(t, append(coldstartFiles, "--format", format)...)
		if code != 0 || errs != "" {
			t.Fatalf("%s: exit %d: %s", format, code, errs)
		}
		golden := filepath.Join("testdata", "coldstart", "golden."+format)
		if *rewriteColdstart {
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if out != string(want) {
			t.Errorf("%s differs from %s (read the difference, then run with -rewrite-coldstart):\n%s", format, golden, out)
		}
	}
}

// TestColdstartContract: the JSON form of design §9, and phases that sum to the total.
func TestColdstartContract(t *testing.T) {
	out, _, _ := runColdstart(t, append(coldstartFiles, "--format", "json")...)
	var doc struct {
		Starts []struct {
			Pod, Model, Path string
			Total            float64 `json:"total_seconds"`
			Phases           []struct {
				Phase, Source string
				Seconds       float64
			}
		}
		Paths []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Starts) != 3 || len(doc.Paths) != 3 {
		t.Fatalf("%d starts on %d paths: want 3 and 3", len(doc.Starts), len(doc.Paths))
	}
	for _, s := range doc.Starts {
		sum := 0.0
		for _, p := range s.Phases {
			sum += p.Seconds
			if p.Source == "" {
				t.Errorf("%s: phase %s has no source", s.Pod, p.Phase)
			}
		}
		if sum < s.Total-1e-6 || sum > s.Total+1e-6 {
			t.Errorf("%s: phases sum to %v: want %v", s.Pod, sum, s.Total)
		}
	}
}

func TestColdstartSVGIsXML(t *testing.T) {
	out, _, _ := runColdstart(t, append(coldstartFiles, "--format", "svg")...)
	d := xml.NewDecoder(strings.NewReader(out))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestColdstartUsage(t *testing.T) {
	bad := writeFile(t, "bad.json", `{"kind": "List", "items": [{"kind": "Pod", "metadata": {"creationTimestamp": "soon"}}]}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no file"},
		{[]string{"--kube", "testdata/coldstart/pods.json", "--format", "pdf"}, "table"},
		{[]string{"--log", "none.log", "--kube", bad}, "none.log"},
		{[]string{"--log", "none.log", "--kube", bad}, "items[0]"},
		{[]string{"--at", "noon", bad}, "RFC 3339"},
	} {
		if _, errs, code := runColdstart(t, c.args...); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, %q: want 2 and %q", c.args, code, errs, c.want)
		}
	}
}

// TestColdstartJournal: what a daemon has recorded is drawn, counted and asked what it would be worth to shorten.
func TestColdstartJournal(t *testing.T) {
	dir := t.TempDir()
	j, _, err := journal.Open(dir, journal.Options{}, monday, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := burstState(t)
	for _, e := range []forecast.Ensemble{state.Models[0].Forecast.Prompt, state.Models[0].Forecast.Completion} {
		for _, path := range e.Paths { // the burst comes in the fourth minute: within a start, and not within a drain
			path[0] *= 0.8
			path[1], path[2] = path[0], path[0]
		}
	}
	d, err := planner.Decide(state, planner.Policy{Defaults: planner.DefaultModelPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(t.Context(), state, planner.Policy{Defaults: planner.DefaultModelPolicy()}, d); err != nil {
		t.Fatal(err)
	}
	for i := range startsShown + 3 {
		s := coldstart.Sample{ID: fmt.Sprint("start-", i), Key: coldstart.Key{Model: "chat", Path: coldstart.WarmNode}, Started: monday.Add(time.Duration(i) * time.Minute),
			Total: 200 * time.Second, Outcome: coldstart.Served, Phases: map[coldstart.Phase]time.Duration{coldstart.ImagePull: 170 * time.Second}}
		if err := j.AddStarts(t.Context(), []coldstart.Sample{s}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	out, errs, code := runColdstart(t, "--journal", dir, "--usd-per-replica-hour", "10")
	for _, want := range []string{"start-22 ", "3 starts before these are not drawn", "chat   -      warm_node  23  23",
		"What to make shorter for chat", "image_pull on warm node starts: 2m50s → 0s saves 1 warm replicas, $1680/week"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d without %q:\n%s%s", code, want, out, errs)
		}
	}
	if strings.Contains(out, "start-2 ") {
		t.Error("a start that is not among the newest is drawn")
	}
	if _, errs, code := runColdstart(t, "--journal", t.TempDir()); code != 2 || !strings.Contains(errs, "journal") {
		t.Errorf("an empty directory: exit %d, %s", code, errs)
	}
}

// TestColdstartEmpty: nothing found is said, and is no error.
func TestColdstartEmpty(t *testing.T) {
	empty := writeFile(t, "engine.log", "hello\n")
	out, errs, code := runColdstart(t, "--log", empty)
	if code != 0 || !strings.Contains(out, "no start found") || !strings.Contains(out, "no line that is evidence") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// Where no recorded state tells what a shorter phase would save, the report says so: that is not the same as nothing.
func TestSavingsThatCannotBeTold(t *testing.T) {
	price := 2.0
	savings, used := planner.WhatNext(nil, planner.DefaultModelPolicy(),
		[]planner.Removal{{Path: coldstart.WarmNode, Phase: coldstart.ImagePull, From: time.Minute}}, &price)
	r := &startReport{whatNext: []modelSavings{{"chat", used, savings}}}
	var b strings.Builder
	r.writeWhatNext(&b)
	if text := b.String(); !strings.Contains(text, "cannot be told") || strings.Contains(text, "nothing:") {
		t.Errorf("says %q", text)
	}
	data, err := json.Marshal(r.savingsJSON())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"warm_replicas_saved":null`, `"warm_replicas_per_second":null`, `"usd_per_week":null`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s: want %s", data, want)
		}
	}
}
