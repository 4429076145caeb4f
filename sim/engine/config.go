package engine

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Time is an instant or a span in picoseconds. An instant counts from wherever the caller begins.
type Time int64

const (
	// Never is an instant that does not come.
	Never Time = math.MaxInt64
	// Nanosecond makes Times of Durations.
	Nanosecond Time = 1000
	// clockEnd is the last instant that an engine may be told: 53 days, so that no sum of an instant and a run overflows.
	clockEnd Time = 1 << 62
	// runSpanMax bounds one run; a longer one is cut in two, which changes nothing.
	runSpanMax = 1 << 61
)

// Of is a Duration as a Time.
func Of(d time.Duration) Time { return Time(d) * Nanosecond }

// Duration is t as a Duration, cut to whole nanoseconds.
func (t Time) Duration() time.Duration { return time.Duration(t / Nanosecond) }

// Seconds is t in seconds.
func (t Time) Seconds() float64 { return float64(t) / 1e12 }

// Config is what one replica is: the cost of its iterations and its limits.
type Config struct {
	Alpha        Time // α, per iteration
	BetaPrefill  Time // β_p, per prompt token prefilled
	BetaDecode   Time // β_d, per sequence decoding
	Gamma        Time // γ, per KV token that decoding attends to
	Delta        Time // δ, per query-key pair of prefill
	Block        int  // tokens of a KV block
	Blocks       int  // KV blocks of the replica
	MaxSequences int  // admitted at a time
	// MaxBatchedTokens is how many tokens one iteration may compute. At least MaxSequences.
	MaxBatchedTokens int
	// Chunk is how many of them may be of prompts; 0 is no further limit.
	Chunk int
	// PrefixHalf is how many prompt tokens the replica must have prefilled until half of the Shared tokens of a prompt are
	// found in its prefix cache: the share is served/(served + PrefixHalf). 0 finds them all from the start.
	PrefixHalf int64
}

// kvTokensMax keeps every context, and what is added to one, within 32 bits.
const kvTokensMax = 1 << 30

// iterationMax is the longest that an iteration of a full batch may take: anything above is a mistake of units.
const iterationMax = time.Hour

// Validate reports every field out of range.
func (c Config) Validate() error {
	var errs []error
	within := func(key string, v, lo, hi int64) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("engine: %s is %d: %d to %d are allowed", key, v, lo, hi))
		}
	}
	second := int64(Of(time.Second))
	within("alpha (ps)", int64(c.Alpha), 1, second)
	within("beta_prefill (ps)", int64(c.BetaPrefill), 0, second)
	within("beta_decode (ps)", int64(c.BetaDecode), 0, second)
	within("gamma (ps)", int64(c.Gamma), 0, second)
	within("delta (ps)", int64(c.Delta), 0, second)
	within("block (tokens)", int64(c.Block), 1, 1024)
	within("blocks", int64(c.Blocks), 1, 1<<28)
	within("max_sequences", int64(c.MaxSequences), 1, 1<<16)
	within("max_batched_tokens", int64(c.MaxBatchedTokens), int64(max(1, c.MaxSequences)), 1<<20)
	within("chunk (tokens)", int64(c.Chunk), 0, 1<<20)
	within("prefix_half (tokens)", c.PrefixHalf, 0, 1<<40)
	if tokens := int64(c.Block) * int64(c.Blocks); tokens > kvTokensMax {
		errs = append(errs, fmt.Errorf("engine: %d blocks of %d tokens are %d: up to %d KV tokens are allowed", c.Blocks, c.Block, tokens,
			int64(kvTokensMax)))
	}
	if errs == nil {
		kv := float64(c.Block) * float64(c.Blocks)
		most := float64(c.Alpha) + float64(c.BetaPrefill)*float64(c.MaxBatchedTokens) +
			float64(c.BetaDecode)*float64(c.MaxSequences) + float64(c.Gamma)*kv + float64(c.Delta)*float64(c.MaxBatchedTokens)*kv
		if most > float64(Of(iterationMax)) {
			errs = append(errs, fmt.Errorf("engine: an iteration of a full batch takes %.3g s: up to %v are allowed", most/1e12, iterationMax))
		}
	}
	return errors.Join(errs...)
}

// chunk is the most prompt tokens that an iteration with n sequences decoding may compute. It is 0 only after a change of
// limits, while more sequences decode than are allowed now.
func (c *Config) chunk(n int) int {
	tokens := max(0, c.MaxBatchedTokens-n)
	if c.Chunk > 0 {
		tokens = min(tokens, c.Chunk)
	}
	return tokens
}

// Request is what a client asks of the replica.
//
// Invariants: Prompt ≥ 1, Completion ≥ 1, 0 ≤ Shared ≤ Prompt; prompt and completion together fit into the KV blocks of
// an empty replica.
type Request struct {
	ID      uint64 // the caller's own
	Arrived Time   // the caller's own, for its TTFT; the engine does not read it
	Prompt  int32  // tokens of context
	Shared  int32  // leading tokens of Prompt that a warm prefix cache holds
	// Completion is how many tokens are generated.
	Completion int32
}

// Outcome is a request that left the replica.
type Outcome struct {
	Request
	First       Time  // instant of its first token; 0 when it had none
	Done        Time  // instant at which it left
	Generated   int32 // tokens handed out
	Preemptions int32
	Cancelled   bool
}

// ITL is the mean time between tokens; 0 for a request of fewer than two.
func (o Outcome) ITL() Time {
	if o.Generated < 2 {
		return 0
	}
	return (o.Done - o.First) / Time(o.Generated-1)
}

// ErrTooLarge is returned for a request that would not fit into the KV blocks of an empty replica.
var ErrTooLarge = errors.New("engine: the request exceeds the KV tokens of the replica")

func (c *Config) check(r Request) error {
	if r.Prompt < 1 || r.Completion < 1 || r.Shared < 0 || r.Shared > r.Prompt {
		return fmt.Errorf("engine: request %d has %d prompt tokens, %d of them shared, and %d completion tokens: at least 1 prompt "+
			"and 1 completion token and 0 to prompt shared ones are allowed", r.ID, r.Prompt, r.Shared, r.Completion)
	}
	if need, have := int64(r.Prompt)+int64(r.Completion), int64(c.Block)*int64(c.Blocks); need > have {
		return fmt.Errorf("%w: request %d needs %d, there are %d", ErrTooLarge, r.ID, need, have)
	}
	return nil
}

// cached is how many leading tokens of a context are found in the prefix cache after served prompt tokens: whole blocks,
// and never the last token, whose computation makes the next one.
func (c *Config) cached(r Request, context int32, served int64) int32 {
	shared := int64(min(r.Shared, context-1))
	if c.PrefixHalf > 0 {
		served = min(served, 1<<36) // shared has 31 bits at most, and by then the share has long been 1
		shared = int64(float64(shared) * (float64(served) / float64(served+c.PrefixHalf)))
	}
	return int32(shared - shared%int64(c.Block))
}

// run is a stretch of m iterations with the same composition.
type run struct {
	first Time // b: the first iteration
	slope Time // c: what each takes longer than the one before
}

// span is S(m), the time of the first m iterations.
func (r run) span(m int64) Time {
	return Time(m)*r.first + r.slope*Time(m*(m-1)/2)
}

// boundary is the smallest m with S(m) ≥ t.
func (r run) boundary(t Time) int64 {
	if t <= 0 {
		return 0
	}
	var m int64
	if r.slope == 0 {
		m = int64((t + r.first - 1) / r.first)
	} else {
		b, c := float64(r.first)-float64(r.slope)/2, float64(r.slope)
		m = int64(math.Ceil((math.Sqrt(b*b+2*c*float64(t)) - b) / c))
	}
	for m > 0 && r.span(m-1) >= t { // the root is right up to rounding
		m--
	}
	for r.span(m) < t {
		m++
	}
	return m
}

// within is the largest m up to limit whose span no arithmetic overflows.
func (r run) within(limit int64) int64 {
	for m := float64(limit); m*float64(r.first)+float64(r.slope)*m*m/2 > runSpanMax; m = float64(limit) {
		limit /= 2
	}
	return max(1, limit)
}
