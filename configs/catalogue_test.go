package configs

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"forewarm/planner"
)

func TestBuiltinCatalogue(t *testing.T) {
	c, err := BuiltinCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Profiles) < 10 {
		t.Errorf("the catalogue has %d profiles", len(c.Profiles))
	}
	slo := planner.SLO{TTFT: 2e9, ITL: 50e6, Percentile: 0.95}
	for _, p := range c.Profiles {
		profile := p.Profile()
		if capacity := profile.Physics.Capacity(profile.Physics.Requests, slo, 1); len(capacity.Unmet) > 0 || !(capacity.Requests > 0.1) {
			t.Errorf("%s carries %.2f requests/s and misses %v", p.Name, float64(capacity.Requests), capacity.Unmet)
		}
		if !strings.Contains(profile.Source, p.Name) || !strings.Contains(profile.Source, "aiconfigurator") {
			t.Errorf("the source of %s is %q", p.Name, profile.Source)
		}
	}
	if _, err := c.Find(c.Profiles[0].Name); err != nil {
		t.Error(err)
	}
	if _, err := c.Find("qwen3-32b/fp8/none"); err == nil || !strings.Contains(err.Error(), "qwen3-32b/fp8/h100_sxm/tp2") {
		t.Errorf("the error does not name what there is: %v", err)
	}
	if _, err := c.Find("other/fp8"); err == nil || !strings.Contains(err.Error(), "none of that model") {
		t.Errorf("%v", err)
	}
}

// The file is what the fit makes of the measurements, where they are at hand.
func TestCatalogueIsTheFit(t *testing.T) {
	file, err := os.Open("../../shared/data/profiles/silicon_dense_subset.csv")
	if err != nil {
		t.Skipf("no measurements at hand: %v", err)
	}
	defer file.Close()
	runs, err := planner.ReadMeasurements(file)
	if err != nil {
		t.Fatal(err)
	}
	cards, err := BuiltinCards()
	if err != nil {
		t.Fatal(err)
	}
	have, err := BuiltinCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	got := CatalogueOf(planner.FitProfiles(runs), cards, Origin{Source: "the source", Date: "2026-01-02"})
	if len(got.Profiles) != len(have.Profiles) {
		t.Fatalf("the fit gives %d profiles, the file has %d", len(got.Profiles), len(have.Profiles))
	}
	for i, p := range got.Profiles {
		want := have.Profiles[i]
		want.Coefficients.Origin, want.Limits.Date = p.Coefficients.Origin, p.Limits.Date
		if !reflect.DeepEqual(p, want) {
			t.Errorf("%s: the fit gives %+v, the file has %+v", p.Name, p, want)
		}
	}
}

func TestCatalogueReadsBack(t *testing.T) {
	want, err := BuiltinCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WriteCatalogue(&text, want); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadCatalogue("f", text.Bytes()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, and it is %v that it is the same", err, reflect.DeepEqual(got, want))
	}
	_, err = ReadCatalogue("f.yaml", []byte("profiles:\n- name: a\n  limits: {kv_tokens: 1}\n- name: a\n  limits: {kv_token: 1}\n"))
	if err == nil || !strings.Contains(err.Error(), `f.yaml:5: unknown key "kv_token"`) {
		t.Errorf("%v", err)
	}
	_, err = ReadCatalogue("f.yaml", []byte("profiles:\n- name: a\n- name: a\n"))
	for _, want := range []string{`name is "a": a name that is not empty and not repeated`, "a: coefficients has no source or date",
		"iteration_ms is 0", "requests.prompt_tokens is 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestCards(t *testing.T) {
	cards, err := BuiltinCards()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"meta-llama/Llama-3.1-70B", "llama-3.1-70b-instruct"} {
		if m, ok := cards.Model(path); !ok || m.Name != "Llama-3.1-70B" {
			t.Errorf("%q finds %+v", path, m)
		}
	}
	if _, ok := cards.Model("Llama-3.1-7"); ok {
		t.Error("Llama-3.1-7 finds a card")
	}
	p, err := cards.Prior("meta-llama/Llama-3.1-70B", "h200_sxm", "fp8", 4, planner.RequestMix{Prompt: 1000, Completion: 200})
	if err != nil || p.Validate() != nil || !strings.HasPrefix(p.Source, "PRIOR, not measured") {
		t.Errorf("%v, %+v", err, p)
	}
	// The measured coefficients of that very replica, fitted elsewhere in this package's catalogue, are within a factor of two.
	c, err := BuiltinCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"llama-3.1-70b/fp8/h200_sxm/tp4/vllm", "llama-3.1-70b/fp8/h200_sxm/tp4/trtllm"} {
		measured, err := c.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for key, ratio := range map[string]planner.Milliseconds{
			"iteration": p.Physics.Iteration / measured.Coefficients.Iteration, "prefill": p.Physics.Prefill / measured.Coefficients.Prefill,
			"attention": p.Physics.Attention / measured.Coefficients.Attention} {
			if ratio < 0.5 || ratio > 2 {
				t.Errorf("%s: the prior's %s is %.2f of the measured one", name, key, float64(ratio))
			}
		}
	}
	_, err = cards.Prior("x", "y", "int3", 1, planner.RequestMix{})
	for _, want := range []string{`model "x"`, `GPU "y"`, `precision is "int3"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	_, err = ReadCards("f.yaml", []byte("models: [{name: a, parameters: -1}]\ngpus: [{name: b}]\n"))
	for _, want := range []string{`card "a": parameters is -1`, `card "a": name and source`, `card "b": memory_bytes is 0`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func FuzzReadCatalogue(f *testing.F) {
	f.Add([]byte("profiles:\n- name: a\n  limits: {kv_tokens: 1}\n"))
	f.Add([]byte("profiles: [{name: a, coefficients: {iteration_ms: .inf}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadCatalogue("f", data)
		if err != nil {
			return
		}
		for _, p := range c.Profiles {
			if err := p.Profile().Validate(); err != nil {
				t.Errorf("an invalid profile was accepted: %v", err)
			}
		}
	})
}

func FuzzReadCards(f *testing.F) {
	f.Add([]byte("models: [{name: a, parameters: 1e9, layers: 2, kv_heads: 2, head_size: 64, source: s}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cards, err := ReadCards("f", data)
		if err != nil {
			return
		}
		for _, m := range cards.Models {
			for _, g := range cards.GPUs {
				p, err := cards.Prior(m.Name, g.Name, "fp8", 8, planner.RequestMix{Prompt: 1, Completion: 1})
				if err == nil && p.Validate() != nil {
					t.Errorf("an invalid prior: %+v", p)
				}
			}
		}
	})
}
