package planner

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Milliseconds is a time in the unit that profiles are written in.
type Milliseconds float64

// Physics is how one replica works. An iteration of its continuous batching that computes p prompt tokens with q
// query-key pairs among them, and one token for each of n sequences that attend to K KV tokens together, takes
//
//	T = α + β_p·p + β_d·n + γ·K + δ·q
//
// and runs under the limits below. sim/engine runs these iterations one by one; Capacity is the closed form.
//
// Sources: Yu et al., Orca, OSDI 2022; Agrawal et al., Sarathi-Serve, OSDI 2024 (chunked prefill) and Vidur, MLSys 2024.
type Physics struct {
	// Iteration is α: reading the weights, launching, all-reduce.
	Iteration Milliseconds `json:"iteration_ms" yaml:"iteration_ms"`
	// Prefill and Decode are β_p and β_d, per token computed.
	Prefill Milliseconds `json:"prefill_ms_per_token" yaml:"prefill_ms_per_token"`
	Decode  Milliseconds `json:"decode_ms_per_sequence" yaml:"decode_ms_per_sequence"`
	// Attention is γ, per KV token that decoding reads; PrefillAttention is δ, per query-key pair of prefill.
	Attention        Milliseconds `json:"attention_ms_per_kv_token" yaml:"attention_ms_per_kv_token"`
	PrefillAttention Milliseconds `json:"prefill_attention_ms_per_pair" yaml:"prefill_attention_ms_per_pair"`
	// KVTokens is how many tokens of context fit into the KV cache.
	KVTokens Tokens `json:"kv_tokens" yaml:"kv_tokens"`
	// MaxSequences is how many requests run at a time (max_num_seqs), MaxBatchedTokens how many tokens an iteration
	// computes (max_num_batched_tokens), Chunk how many of them may be of prompts; 0 is no further limit.
	MaxSequences     int `json:"max_sequences" yaml:"max_sequences"`
	MaxBatchedTokens int `json:"max_batched_tokens" yaml:"max_batched_tokens"`
	Chunk            int `json:"chunk_tokens,omitempty" yaml:"chunk_tokens,omitempty"`
	// PrefixHit is what the prefix cache saves; nil is nothing.
	PrefixHit *PrefixHit `json:"prefix_hit,omitempty" yaml:"prefix_hit,omitempty"`
	// Requests is the mix that is sized for where the real one is not known, and whose spread stands in for an unknown one.
	Requests RequestMix `json:"requests" yaml:"requests"`
}

// Validate reports every field out of range.
func (p *Physics) Validate() error {
	var errs []error
	check := func(key string, v, lo, hi float64) {
		if !(v >= lo && v <= hi) {
			errs = append(errs, fmt.Errorf("profile.physics.%s is %v: %g to %g are allowed", key, v, lo, hi))
		}
	}
	check("iteration_ms", float64(p.Iteration), 0.01, 10_000)
	check("prefill_ms_per_token", float64(p.Prefill), 0, 100)
	check("decode_ms_per_sequence", float64(p.Decode), 0, 100)
	check("attention_ms_per_kv_token", float64(p.Attention), 0, 1)
	check("prefill_attention_ms_per_pair", float64(p.PrefillAttention), 0, 1)
	check("kv_tokens", float64(p.KVTokens), 16, 1e12)
	check("max_sequences", float64(p.MaxSequences), 1, 1e6)
	check("max_batched_tokens", float64(p.MaxBatchedTokens), float64(max(1, p.MaxSequences)), 1e8)
	check("chunk_tokens", float64(p.Chunk), 0, 1e8)
	if p.Prefill == 0 && p.Decode == 0 && p.Attention == 0 {
		errs = append(errs, errors.New("profile.physics has no cost per token: a replica without one would carry any load"))
	}
	if h := p.PrefixHit; h != nil {
		check("prefix_hit.rate", float64(h.Rate), 0, 0.999)
		check("prefix_hit.warm_tokens", float64(h.WarmTokens), 0, 1e15)
	}
	if err := p.Requests.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("profile.physics: %w", err))
	}
	return errors.Join(errs...)
}

// PrefixHit is the share of prompt tokens found in the prefix cache, as a function.
type PrefixHit struct {
	// Rate is the share on one warm replica that serves all the traffic.
	Rate Ratio `json:"rate" yaml:"rate"`
	// WarmTokens is how many prompt tokens a fresh replica serves until it reaches half of that; 0 is at once.
	WarmTokens Tokens `json:"warm_tokens,omitempty" yaml:"warm_tokens,omitempty"`
	// Affine is set when the router sends requests with the same prefix to the same replica.
	Affine bool `json:"affine,omitempty" yaml:"affine,omitempty"`
}

// At is the share of prompt tokens found after a replica has served a number of prompt tokens, when the traffic is spread
// over some replicas. A nil PrefixHit finds none.
//
// A prefix that is asked for k times before it is evicted is computed once on a single replica, so that Rate = 1 − 1/k.
// Spread at random over R replicas it is computed once on each that sees it, which are R(1 − (1 − 1/R)^k) of them.
func (h *PrefixHit) At(served Tokens, replicas int) Ratio {
	if h == nil || h.Rate <= 0 {
		return 0
	}
	rate := float64(h.Rate)
	if r := float64(replicas); replicas > 1 && !h.Affine {
		k := 1 / (1 - rate)
		rate = max(0, 1-r*(1-math.Pow(1-1/r, k))/k)
	}
	if h.WarmTokens > 0 {
		rate *= float64(served / (served + h.WarmTokens))
	}
	return Ratio(rate)
}

// SLO is what requests must meet: Percentile of them within TTFT and, as the mean between their tokens, within ITL. A
// zero TTFT or ITL is no bound.
type SLO struct {
	TTFT       time.Duration
	ITL        time.Duration
	Percentile float64
}

// Accelerator is what one GPU can do, as its data sheet says.
type Accelerator struct {
	Name      string
	Bandwidth float64 // bytes/s of memory
	FLOPs     float64 // of dense matrix products per second at the weights' precision
	Memory    float64 // bytes
}

// ModelSize is what a model weighs, as its card says.
type ModelSize struct {
	Parameters      float64 // active per token
	WeightBytes     float64 // all of them
	KVBytesPerToken float64 // 2 · layers · KV heads · head size · bytes
}

// PriorPhysics is a guess at the physics of a model that nobody has measured, on so many GPUs of one kind (tensor
// parallel). It is a starting point for learning and good to a factor, no more: whoever uses it says so.
//
// The fixed part of an iteration is 3 ms and the time to read the weights; a token costs its FLOPs at four fifths of the
// peak, falling with the square root of the GPUs (all-reduce eats the rest); KV tokens cost their bytes over the
// bandwidth, a query-key pair of prefill a 25th of that (grouped queries share the read). The coefficients of an 8B model
// on one H100 come out at 7.8 ms, 0.020 ms and 3.9e-5 ms, where measured ones are about 6, 0.02 and 4e-5.
func PriorPhysics(m ModelSize, a Accelerator, gpus int, requests RequestMix) (Physics, error) {
	for _, v := range []struct {
		key   string
		value float64
	}{{"parameters", m.Parameters}, {"weight bytes", m.WeightBytes}, {"KV bytes per token", m.KVBytesPerToken},
		{"bandwidth", a.Bandwidth}, {"FLOPs", a.FLOPs}, {"memory", a.Memory}, {"GPUs", float64(gpus)}} {
		if !(v.value > 0) || math.IsInf(v.value, 0) {
			return Physics{}, fmt.Errorf("planner: prior physics: %s is %v: a positive, finite number is allowed", v.key, v.value)
		}
	}
	n := float64(gpus)
	const overheadMS, efficiency, usable, runtimeBytes = 3, 0.8, 0.9, 2e9
	free := usable*a.Memory*n - m.WeightBytes - runtimeBytes*n
	if free < 16*m.KVBytesPerToken {
		return Physics{}, fmt.Errorf("planner: prior physics: %.0f GB of weights leave no room for KV tokens on %d GPUs of %.0f GB",
			m.WeightBytes/1e9, gpus, a.Memory/1e9)
	}
	token := Milliseconds(2 * m.Parameters / (efficiency * a.FLOPs) / math.Sqrt(n) * 1e3)
	attention := Milliseconds(m.KVBytesPerToken / (a.Bandwidth * n) * 1e3)
	p := Physics{
		Iteration: overheadMS + Milliseconds(m.WeightBytes/(a.Bandwidth*n)*1e3),
		Prefill:   token, Decode: token, Attention: attention, PrefillAttention: attention / pairsPerKVToken,
		KVTokens:     Tokens(math.Floor(free / m.KVBytesPerToken)),
		MaxSequences: 256, MaxBatchedTokens: 8192, Requests: requests,
	}
	return p, p.Validate()
}

// pairsPerKVToken is γ/δ where nothing better is known: prefill attention is bound by compute, decode attention by memory.
const pairsPerKVToken = 25
