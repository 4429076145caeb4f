package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forewarm/configs"
	"forewarm/planner"
)

// writeRuns is a file of runs that 10 ms + 0.02 ms a token + 2e-5 ms a KV token explain exactly, at two degrees of tp, and
// one run by itself.
func writeRuns(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("model_path,system,backend,backend_version,precision,tp_size,isl,osl,concurrency,ttft_ms,tpot_ms,measured\n")
	c := planner.Coefficients{Iteration: 10, Prefill: 0.02, Decode: 0.02, Attention: 2e-5}
	row := func(tp int, n float64, prompt, completion planner.Tokens) {
		m := planner.Measurement{Concurrency: n, Prompt: prompt, Completion: completion}
		fmt.Fprintf(&b, "org/Llama-3.1-8B-Instruct,h100_sxm,vllm,0.11,fp8,%d.0,%v,%v,%v,1,%v,2026-01-02\n", tp, prompt, completion, n,
			float64(c.TPOT(&m)))
	}
	for _, tp := range []int{1, 2} {
		for _, n := range []float64{4, 16, 64} {
			for _, prompt := range []planner.Tokens{500, 2000, 8000} {
				row(tp, n, prompt, 200)
			}
		}
	}
	row(4, 4, 500, 200)
	path := filepath.Join(t.TempDir(), "runs.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProfileFitTable(t *testing.T) {
	text, err := execute(newProfileCmd(), "fit", "--data", writeRuns(t), "--runs")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"org/Llama-3.1-8B-Instruct h100_sxm vllm 0.11 fp8 tp2", "10.00", "20.0", "too few measurements",
		"line 2: 500/200 tokens, 4 at a time, TPOT", "+0.0 %", "not predicted", "runs that do not mostly wait", "the same by α+bN"} {
		if !strings.Contains(text, want) {
			t.Errorf("output does not say %q:\n%s", want, text)
		}
	}
}

func TestProfileFitJSON(t *testing.T) {
	text, err := execute(newProfileCmd(), "fit", "--data", writeRuns(t), "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var r planner.FitReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Groups) != 3 || r.Pooled.Runs != 18 || *r.Pooled.Median > 1e-9 || r.Groups[2].Coefficients != nil || r.Groups[2].Why == "" {
		t.Errorf("%s", text)
	}
}

// What the command writes is a catalogue that reads back.
func TestProfileFitProfiles(t *testing.T) {
	text, err := execute(newProfileCmd(), "fit", "--data", writeRuns(t), "--format", "profiles", "--source", "load test 7", "--date", "2026-03-02")
	if err != nil {
		t.Fatal(err)
	}
	c, err := configs.ReadCatalogue("out", []byte(text))
	if err != nil || len(c.Profiles) != 2 {
		t.Fatalf("%v\n%s", err, text)
	}
	p, err := c.Find("llama-3.1-8b/fp8/h100_sxm/tp2/vllm-0.11")
	if err != nil {
		t.Fatal(err)
	}
	if k := p.Coefficients; k.Iteration != 10 || k.Decode != 0.02 || k.Date != "2026-03-02" || !strings.Contains(k.Source, "2026-01-02; load test 7") {
		t.Errorf("%+v", k)
	}
}

func TestProfileFitRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("model_path,isl,osl,concurrency,ttft_ms,tpot_ms\na,1,1,1,1,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := writeRuns(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--data", bad}, `bad.csv: line 2: osl is "1"`},
		{[]string{"--data", bad}, `line 2: tpot_ms is "x"`},
		{[]string{"--data", "/nowhere"}, "--data: open /nowhere"},
		{[]string{"--data", good, "--format", "yaml"}, `--format is "yaml"`},
		{[]string{"--data", good, "--format", "profiles"}, "--source is empty"},
		{[]string{"--data", good, "--format", "profiles", "--source", "x", "--date", "today"}, `--date is "today"`},
		{[]string{"--data", good, "--format", "profiles", "--source", "x", "--cards", bad}, "bad.csv:"},
		{nil, `required flag(s) "data" not set`},
	} {
		if _, err := execute(newProfileCmd(), append([]string{"fit"}, tt.args...)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: the error does not say %q: %v", tt.args, tt.want, err)
		}
	}
}
