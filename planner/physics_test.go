package planner_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/planner"
)

func TestProfileForms(t *testing.T) {
	physics, table := chat8B(), planner.RateTable{Prompts: []planner.Tokens{100, 1000}, Completions: []planner.Tokens{10, 100},
		PerSecond: [][]planner.RequestRate{{100, 20}, {40, 15}}, Requests: planner.RequestMix{Prompt: 100, Completion: 10}}
	for _, p := range []planner.Profile{{Prompt: 1, Completion: 1}, {Physics: &physics}, {Table: &table}} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	bad := physics
	bad.Iteration, bad.KVTokens, bad.MaxBatchedTokens = 0, planner.Tokens(math.NaN()), 8
	wrong := table
	wrong.Prompts, wrong.PerSecond = []planner.Tokens{100, 100}, [][]planner.RequestRate{{1, 0}}
	for _, tt := range []struct {
		planner.Profile
		want []string
	}{
		{planner.Profile{}, []string{"profile.prompt_tokens_per_s is 0"}},
		{planner.Profile{Prompt: 1, Completion: 1, Physics: &physics}, []string{"one form is allowed"}},
		{planner.Profile{Physics: &physics, Table: &table}, []string{"one form is allowed"}},
		{planner.Profile{Physics: &bad}, []string{"iteration_ms is 0", "kv_tokens is NaN", "max_batched_tokens is 8: 256 to"}},
		{planner.Profile{Table: &wrong}, []string{"prompt_tokens[1] is 100: ascending", "requests_per_s has 1 rows", "requests_per_s[0][1] is 0"}},
	} {
		err := tt.Validate()
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	}
}

// A prefix seen k times is computed once on one replica; spread at random over many, once on each that sees it.
func TestPrefixHit(t *testing.T) {
	h := &planner.PrefixHit{Rate: 0.75, WarmTokens: 1000} // k = 4
	for _, tt := range []struct {
		served   planner.Tokens
		replicas int
		want     float64
	}{{0, 1, 0}, {1000, 1, 0.375}, {1e12, 1, 0.75}, {1e12, 2, 1 - 2*(1-1.0/16)/4}, {1e12, 1000, 0.0015}} {
		if got := float64(h.At(tt.served, tt.replicas)); math.Abs(got-tt.want) > 1e-3 {
			t.Errorf("after %v tokens on each of %d replicas %.4f are found, want %.4f", tt.served, tt.replicas, got, tt.want)
		}
	}
	h.Affine = true
	if got := h.At(1e12, 1000); math.Abs(float64(got)-0.75) > 1e-6 {
		t.Errorf("with affine routing %v are found, want 0.75", got)
	}
	if got := (*planner.PrefixHit)(nil).At(1e12, 1); got != 0 {
		t.Errorf("no prefix cache finds %v", got)
	}
}

// genPhysics draws replicas of a wide range, far beyond what real ones are.
func genPhysics(t *rapid.T) planner.Physics {
	in := func(label string, lo, hi float64) float64 {
		return math.Exp(rapid.Float64Range(math.Log(lo), math.Log(hi)).Draw(t, label))
	}
	p := planner.Physics{
		Iteration: planner.Milliseconds(in("alpha", 0.5, 50)), Prefill: planner.Milliseconds(in("betaPrefill", 1e-3, 0.5)),
		Decode: planner.Milliseconds(in("betaDecode", 1e-3, 0.5)), Attention: planner.Milliseconds(in("gamma", 1e-7, 1e-3)),
		PrefillAttention: planner.Milliseconds(in("delta", 1e-9, 1e-4)), KVTokens: planner.Tokens(in("kv", 1e3, 1e7)),
		MaxSequences: rapid.IntRange(1, 1000).Draw(t, "sequences"), Requests: planner.RequestMix{Prompt: 1, Completion: 1},
	}
	p.MaxBatchedTokens = p.MaxSequences + rapid.IntRange(0, 10_000).Draw(t, "tokens")
	return p
}

func genMix(t *rapid.T) planner.RequestMix {
	return planner.RequestMix{Prompt: planner.Tokens(rapid.Float64Range(1, 20_000).Draw(t, "prompt")),
		Completion:   planner.Tokens(rapid.Float64Range(1, 5000).Draw(t, "completion")),
		PromptCV:     planner.Ratio(rapid.SampledFrom([]float64{0, 0.5, 1, 3}).Draw(t, "promptCV")),
		CompletionCV: planner.Ratio(rapid.SampledFrom([]float64{0, 0.5, 1, 3}).Draw(t, "completionCV"))}
}

// Whatever the replica and the requests: the capacity is a positive number, its rates carry exactly that load of this
// mix, and neither a looser SLO nor more room lowers it (beyond the two parts in a thousand of the search, where the bound
// is kept in both).
func TestCapacityIsMonotone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, m := genPhysics(rt), genMix(rt)
		slo := planner.SLO{TTFT: time.Duration(rapid.Int64Range(1e7, 1e10).Draw(rt, "ttft")),
			ITL: time.Duration(rapid.Int64Range(1e6, 1e9).Draw(rt, "itl")), Percentile: rapid.SampledFrom([]float64{0.5, 0.9, 0.99}).Draw(rt, "p")}
		c := p.Capacity(m, slo, 1)
		if !(c.Requests > 0) || math.IsInf(float64(c.Requests), 0) || c.Rates.Validate() != nil || c.Bound == "" {
			rt.Fatalf("%+v of %+v: %+v", m, p, c)
		}
		fill := float64(c.Requests) * (float64(m.Prompt)/float64(c.Rates.Prompt) + max(1, float64(m.Completion))/float64(c.Rates.Completion))
		if math.Abs(fill-1) > 1e-6 {
			rt.Fatalf("the capacity fills %v of its own rates: %+v", fill, c)
		}
		if len(c.Unmet) > 0 {
			return
		}
		loose := slo
		loose.TTFT, loose.ITL = 2*slo.TTFT, 2*slo.ITL
		roomy, wide := p, p
		roomy.KVTokens *= 2
		wide.MaxSequences = min(2*wide.MaxSequences, wide.MaxBatchedTokens)
		for name, more := range map[string]planner.Capacity{"looser bounds": p.Capacity(m, loose, 1), "twice the KV": roomy.Capacity(m, slo, 1),
			"more sequences": wide.Capacity(m, slo, 1)} {
			if float64(more.Requests) < float64(c.Requests)*0.99 {
				rt.Fatalf("%s: %v requests/s, %s; before %v, %s", name, more.Requests, more.Bound, c.Requests, c.Bound)
			}
		}
	})
}

// A TTFT below one iteration is missed by every request, however many replicas there are.
func TestCapacityNamesWhatIsOutOfReach(t *testing.T) {
	p := chat8B()
	c := p.Capacity(p.Requests, planner.SLO{TTFT: time.Millisecond, ITL: time.Millisecond, Percentile: 0.95}, 1)
	if len(c.Unmet) != 2 || c.Unmet[0] != planner.BoundTTFT || c.Requests < 10 {
		t.Errorf("%+v", c)
	}
}

// A table gives back what was measured, and between sizes whose cost is a sum of their tokens exactly that cost.
func TestRateTable(t *testing.T) {
	work := func(prompt, completion float64) float64 { return prompt*1e-5 + completion*1e-3 }
	table := planner.RateTable{Prompts: []planner.Tokens{100, 1000, 5000}, Completions: []planner.Tokens{10, 100, 1000},
		Requests: planner.RequestMix{Prompt: 1000, Completion: 100}}
	for _, prompt := range table.Prompts {
		var row []planner.RequestRate
		for _, completion := range table.Completions {
			row = append(row, planner.RequestRate(1/work(float64(prompt), float64(completion))))
		}
		table.PerSecond = append(table.PerSecond, row)
	}
	for _, mix := range []planner.RequestMix{{Prompt: 1000, Completion: 100}, {Prompt: 600, Completion: 40}, {Prompt: 9000, Completion: 2000},
		{Prompt: 100, Completion: 1000}} {
		d := decideOn(t, planner.Profile{Table: &table}, mix, 10)
		want := int(math.Ceil(10 * work(float64(mix.Prompt), float64(mix.Completion))))
		if d.Serving != want {
			t.Errorf("10 requests/s of %v need %d, want %d: %s", mix, d.Serving, want, d.Steps[1].Why)
		}
	}
}

// decideOn decides for a load of so many requests/s of a mix, with enough replicas ready.
func decideOn(t *testing.T, p planner.Profile, mix planner.RequestMix, rate float64) planner.ModelDecision {
	t.Helper()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	load := planner.Load{Prompt: planner.TokenRate(rate * float64(mix.Prompt)), Completion: planner.TokenRate(rate * float64(mix.Completion)),
		Requests: planner.RequestRate(rate)}
	d, err := planner.Decide(planner.State{Now: now, Interval: 15 * time.Second, Models: []planner.ModelState{{
		Name: "m", Shape: planner.Shape{GPUs: 1, Pods: 1}, Profile: &p, Requests: &mix, Replicas: &planner.Replicas{Ready: 1000},
		Load: &planner.ObservedLoad{Load: load, At: now}}}}, planner.Policy{Defaults: planner.DefaultModelPolicy()})
	if err != nil {
		t.Fatal(err)
	}
	return d.Models[0]
}

// With a prefix cache that more replicas dilute, one Decision finds the number that is still enough when it runs.
func TestSizeKnowsThatReplicasDiluteThePrefixCache(t *testing.T) {
	p := chat8B()
	p.PrefixHit = &planner.PrefixHit{Rate: 0.8}
	mix := planner.RequestMix{Prompt: 4000, Completion: 100}
	need := func(ready int) int {
		now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
		d, err := planner.Decide(planner.State{Now: now, Interval: 15 * time.Second, Models: []planner.ModelState{{
			Name: "m", Shape: planner.Shape{GPUs: 1, Pods: 1}, Profile: &planner.Profile{Physics: &p}, Requests: &mix,
			Replicas: &planner.Replicas{Ready: ready},
			Load:     &planner.ObservedLoad{Load: planner.Load{Prompt: 400_000, Completion: 10_000}, At: now}}}},
			planner.Policy{Defaults: planner.DefaultModelPolicy()})
		if err != nil {
			t.Fatal(err)
		}
		return *d.Models[0].Steps[1].Replicas
	}
	from1, settled := need(1), need(need(1))
	slo := planner.SLO{TTFT: 2 * time.Second, ITL: 50 * time.Millisecond, Percentile: 0.95}
	naive := int(math.Ceil(100 / float64(p.Capacity(mix, slo, 1).Requests)))
	if from1 != settled || naive >= from1 {
		t.Errorf("from one replica %d are needed, with those running %d; without dilution %d", from1, settled, naive)
	}
}

func TestPriorPhysics(t *testing.T) {
	h100 := planner.Accelerator{Name: "H100", Bandwidth: 3.35e12, FLOPs: 989e12, Memory: 80e9}
	m8 := planner.ModelSize{Parameters: 8e9, WeightBytes: 16e9, KVBytesPerToken: 131072}
	mix := planner.RequestMix{Prompt: 1000, Completion: 200}
	p, err := planner.PriorPhysics(m8, h100, 1, mix)
	if err != nil {
		t.Fatal(err)
	}
	near := func(key string, got planner.Milliseconds, want float64) {
		if math.Abs(float64(got)/want-1) > 0.02 {
			t.Errorf("%s is %v, want about %v", key, got, want)
		}
	}
	near("iteration", p.Iteration, 7.78)
	near("prefill", p.Prefill, 0.0202)
	near("attention", p.Attention, 3.91e-5)
	two, err := planner.PriorPhysics(m8, h100, 4, mix)
	if err != nil || two.Iteration >= p.Iteration || two.Prefill >= p.Prefill || two.KVTokens <= 4*p.KVTokens {
		t.Errorf("on four GPUs: %v, %+v", err, two)
	}
	m70 := planner.ModelSize{Parameters: 70e9, WeightBytes: 140e9, KVBytesPerToken: 327680}
	if _, err := planner.PriorPhysics(m70, h100, 1, mix); err == nil || !strings.Contains(err.Error(), "140 GB of weights leave no room") {
		t.Errorf("140 GB on one GPU of 80: %v", err)
	}
	if _, err := planner.PriorPhysics(planner.ModelSize{}, h100, 1, mix); err == nil || !strings.Contains(err.Error(), "parameters is 0") {
		t.Errorf("a model without parameters: %v", err)
	}
}

// A burst of long contexts and a rise in requests can be the same in tokens per second; they are told apart.
func TestSurgeCause(t *testing.T) {
	rates := planner.Profile{Prompt: 20_000, Completion: 2000}
	before := planner.Load{Prompt: 10_000, Completion: 1000, Requests: 10}
	for _, tt := range []struct {
		after planner.Load
		want  planner.Surge
	}{
		{planner.Load{Prompt: 20_000, Completion: 2000, Requests: 20}, planner.SurgeRequests},
		{planner.Load{Prompt: 40_000, Completion: 1000, Requests: 10}, planner.SurgePrompts},
		{planner.Load{Prompt: 10_000, Completion: 4000, Requests: 10}, planner.SurgeCompletions},
		{planner.Load{Prompt: 48_000, Completion: 1200, Requests: 12}, planner.SurgePrompts}, // a few more, much longer
		{planner.Load{Prompt: 10_500, Completion: 1100, Requests: 11}, planner.SurgeNone},
		{planner.Load{Prompt: 5000, Completion: 500, Requests: 5}, planner.SurgeNone},
		{planner.Load{Prompt: 40_000, Completion: 4000}, planner.SurgeNone}, // requests unknown
	} {
		if got := planner.SurgeCause(before, tt.after, rates); got != tt.want {
			t.Errorf("%+v after %+v: %q, want %q", tt.after, before, got, tt.want)
		}
	}
}
