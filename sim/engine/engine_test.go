package engine

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func genConfig(t *rapid.T) Config {
	time := func(label string, most int64) Time { return Time(rapid.Int64Range(0, most).Draw(t, label)) }
	c := Config{
		Alpha: 1 + time("alpha", 60), BetaPrefill: time("betaPrefill", 5), BetaDecode: time("betaDecode", 5),
		Gamma: time("gamma", 3), Delta: time("delta", 2),
		Block: rapid.IntRange(1, 5).Draw(t, "block"), Blocks: rapid.IntRange(4, 40).Draw(t, "blocks"),
		MaxSequences: rapid.IntRange(1, 6).Draw(t, "sequences"),
		Chunk:        rapid.SampledFrom([]int{0, 1, 3, 8}).Draw(t, "chunk"),
		PrefixHalf:   rapid.SampledFrom([]int64{0, 10, 100}).Draw(t, "prefixHalf"),
	}
	c.MaxBatchedTokens = c.MaxSequences + rapid.IntRange(0, 20).Draw(t, "tokens")
	return c
}

// genEvents draws arrivals, cancellations and changes of limits in order of time, many of them at the same instants.
func genEvents(t *rapid.T, cfg Config) []event {
	var events []event
	n := rapid.IntRange(1, 14).Draw(t, "requests")
	at := Time(0)
	for i := range n {
		if rapid.Bool().Draw(t, "later") {
			at += Time(rapid.Int64Range(0, 400).Draw(t, "gap"))
		}
		prompt := int32(rapid.IntRange(1, 40).Draw(t, "prompt"))
		events = append(events, event{at: at, add: &Request{ID: uint64(i), Prompt: prompt,
			Shared:     int32(rapid.IntRange(0, int(prompt)).Draw(t, "shared")),
			Completion: int32(rapid.IntRange(1, 30).Draw(t, "completion"))}})
		if rapid.IntRange(0, 3).Draw(t, "gives up") == 0 {
			events = append(events, event{at: at + Time(rapid.Int64Range(0, 800).Draw(t, "patience")), cancel: i})
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		limits := genConfig(t)
		limits.Block = cfg.Block
		events = append(events, event{at: Time(rapid.Int64Range(0, 2000).Draw(t, "changed")), limits: &limits})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

// fast lets the engine do the same as the slow one. With stops it is also advanced to every instant that it asks for, as
// an event loop does, and its totals are looked at there and at the events.
type fast struct {
	e        *Engine
	handles  []Handle
	outcomes []Outcome
	looks    []Snapshot
}

func (f *fast) run(events []event, stops bool) {
	for i, ev := range events {
		if stops && (i == 0 || events[i-1].at < ev.at) {
			f.runTo(ev.at)
		}
		f.outcomes = f.e.Advance(ev.at, f.outcomes)
		f.looks = append(f.looks, f.e.Look())
		if ev.limits != nil {
			_ = f.e.Reconfigure(*ev.limits) // refused by both engines or by neither
			continue
		}
		if ev.add == nil {
			if f.handles[ev.cancel] != (Handle{}) {
				f.e.Cancel(f.handles[ev.cancel])
			}
			continue
		}
		h, err := f.e.Add(*ev.add)
		if err != nil {
			h = Handle{}
		}
		f.handles = append(f.handles, h)
	}
	if stops {
		f.runTo(Never)
		return
	}
	f.outcomes = f.e.Advance(1<<40, f.outcomes)
	f.looks = append(f.looks, f.e.Look())
}

// runTo advances from stop to stop until the next lies at or after the instant.
func (f *fast) runTo(end Time) {
	for next := f.e.Next(); next < end; next = f.e.Next() {
		f.outcomes = f.e.Advance(next, f.outcomes)
		f.looks = append(f.looks, f.e.Look())
	}
}

func byDone(a, b Outcome) int {
	return cmp.Or(cmp.Compare(a.Done, b.Done), cmp.Compare(a.ID, b.ID))
}

func TestEqualsTheSlowEngine(t *testing.T) {
	var preemptions, cancellations, collapsed int64
	rapid.Check(t, func(rt *rapid.T) {
		cfg := genConfig(rt)
		events := genEvents(rt, cfg)
		want := runDumb(cfg, events)
		slices.SortFunc(want.outcomes, byDone)
		for _, stops := range []bool{false, true} {
			e, err := New(cfg)
			if err != nil {
				rt.Fatal(err)
			}
			e.checkEvery = 1
			e.slots = append(e.slots, sequence{}) // slot 0 stays empty, so that no handle is the zero Handle
			f := fast{e: e}
			f.run(events, stops)
			if !slices.IsSortedFunc(f.outcomes, func(a, b Outcome) int { return cmp.Compare(a.Done, b.Done) }) {
				rt.Fatalf("outcomes come out of order: %+v", f.outcomes)
			}
			slices.SortFunc(f.outcomes, byDone)
			if !slices.Equal(f.outcomes, want.outcomes) {
				rt.Fatalf("stops %v: outcomes differ\n got %+v\nwant %+v", stops, f.outcomes, want.outcomes)
			}
			checkLooks(rt, f.looks, want.log)
			if got := e.Load(); got != 0 {
				rt.Fatalf("%d requests stay inside", got)
			}
			preemptions += e.counts.Preemptions
			collapsed += e.counts.Iterations - e.counts.Runs
		}
		for _, o := range want.outcomes {
			if o.Cancelled {
				cancellations++
			}
		}
	})
	if preemptions == 0 || cancellations == 0 || collapsed == 0 {
		t.Errorf("the drawn cases have %d preemptions, %d cancellations and %d iterations saved: each must occur", preemptions,
			cancellations, collapsed)
	}
	t.Logf("%d preemptions, %d cancellations, %d iterations saved", preemptions, cancellations, collapsed)
}

// checkLooks compares totals taken at any instant with those of the slow engine at the last boundary before it.
func checkLooks(t *rapid.T, looks []Snapshot, log []moment) {
	for _, l := range looks {
		var want Counts
		i, _ := slices.BinarySearchFunc(log, l.At+1, func(m moment, at Time) int { return cmp.Compare(m.at, at) })
		if i > 0 {
			want = log[i-1].Counts
		}
		got := l.Counts
		got.Runs, got.CacheHits, got.Preemptions = 0, 0, 0 // of the iteration under way already
		want.CacheHits, want.Preemptions = 0, 0
		if got != want {
			t.Fatalf("at %d ps the totals are %+v, want %+v", l.At, got, want)
		}
	}
}

// S and its inverse: boundary(t) is the first m at which S(m) is at least t.
func TestRunBoundary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := run{first: Time(rapid.Int64Range(1, 1e11).Draw(rt, "first")), slope: Time(rapid.Int64Range(0, 1e9).Draw(rt, "slope"))}
		m := rapid.Int64Range(0, 100_000).Draw(rt, "m")
		at := r.span(m) + Time(rapid.Int64Range(-1, 1).Draw(rt, "dust"))
		got := r.boundary(at)
		if r.span(got) < at || got > 0 && r.span(got-1) >= at {
			rt.Fatalf("boundary(%d) of %+v is %d: S there is %d, one before %d", at, r, got, r.span(got), r.span(got-1))
		}
	})
}

// The number of iterations that fit into the blocks, against counting.
func TestBlocksLast(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBlocks(rapid.IntRange(1, 8).Draw(rt, "size"))
		var bases []int64
		for range rapid.IntRange(0, 6).Draw(rt, "sequences") {
			base := rapid.Int64Range(-50, 50).Draw(rt, "base")
			bases = append(bases, base)
			b.add(base)
		}
		i, limit := rapid.Int64Range(50, 200).Draw(rt, "iteration"), rapid.Int64Range(1, 100).Draw(rt, "limit")
		held := func(i int64) (sum int64) {
			for _, x := range bases {
				sum += (x + i + b.size - 1) / b.size
			}
			return sum
		}
		if b.held(i) != held(i) {
			rt.Fatalf("%v hold %d blocks at %d, want %d", bases, b.held(i), i, held(i))
		}
		free := rapid.Int64Range(0, 40).Draw(rt, "free")
		want := int64(1)
		for want < limit && held(i+want)-held(i) <= free {
			want++
		}
		if got := b.last(i, free, limit); got != want {
			rt.Fatalf("with %d free, %d iterations fit, want %d", free, got, want)
		}
	})
}

// One request alone: every number by hand. Prompt 5 in chunks of 4, 3 completion tokens.
func TestOneRequestByHand(t *testing.T) {
	cfg := Config{Alpha: 1000, BetaPrefill: 100, BetaDecode: 10, Gamma: 1, Delta: 7, Block: 4, Blocks: 4, MaxSequences: 2, MaxBatchedTokens: 4}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Add(Request{ID: 9, Prompt: 5, Completion: 3}); err != nil {
		t.Fatal(err)
	}
	out := e.Advance(1_000_000, nil)
	first := Time(1000 + 400 + 7*(1+2+3+4) + 1000 + 100 + 7*5) // two chunks: 4 tokens, then 1 that sees 5
	done := first + (1000 + 10 + 6) + (1000 + 10 + 7)          // contexts 6 and 7
	if len(out) != 1 || out[0].First != first || out[0].Done != done || out[0].Generated != 3 {
		t.Errorf("got %+v, want the first token at %d and the end at %d", out, first, done)
	}
	if itl := out[0].ITL(); itl != 1016 {
		t.Errorf("ITL is %d, want 1016 (the mean of 1016 and 1017, rounded down)", itl)
	}
}

func TestRefusesWhatNeverFits(t *testing.T) {
	e, err := New(Config{Alpha: 1, Block: 4, Blocks: 4, MaxSequences: 2, MaxBatchedTokens: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Add(Request{Prompt: 12, Completion: 5}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("17 tokens in 16: %v", err)
	}
	if _, err := e.Add(Request{Prompt: 0, Completion: 5}); err == nil {
		t.Error("an empty prompt is taken")
	}
	_, err = New(Config{Block: -1, MaxSequences: 9, MaxBatchedTokens: 8})
	for _, want := range []string{"alpha (ps) is 0", "block (tokens) is -1", "blocks is 0", "max_batched_tokens is 8: 9 to"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// Two hundred thousand requests on a replica short of KV blocks: the running sums are recomputed every 10,000 runs, and
// every request that went in comes out with all its tokens.
func TestSumsHoldOverManyRuns(t *testing.T) {
	cfg := benchConfig()
	cfg.Blocks = 2500
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.checkEvery = 10_000
	const requests = 200_000
	g := traffic{random: rand.New(rand.NewPCG(3, 4)), gap: 1e12 / 22, prompt: 1000, completion: 200}
	var out []Outcome
	refused, ended, tokens := 0, 0, int64(0)
	take := func() {
		ended += len(out)
		for _, o := range out {
			tokens += int64(o.Generated)
			if o.Generated != o.Completion || o.First < o.Arrived || o.Done < o.First {
				t.Fatalf("an outcome is %+v", o)
			}
		}
	}
	for range requests {
		r := g.next()
		out = e.Advance(r.Arrived, out[:0])
		take()
		if _, err := e.Add(r); err != nil {
			refused++
		}
	}
	out = e.Advance(clockEnd, out[:0])
	take()
	if ended+refused != requests || e.Load() != 0 {
		t.Errorf("%d requests went in, %d were refused, %d came out, %d are inside", requests, refused, ended, e.Load())
	}
	if e.counts.Generated != tokens || e.counts.Preemptions == 0 || e.counts.Runs < 10*e.checkEvery {
		t.Errorf("%d tokens came out; the totals are %+v", tokens, e.counts)
	}
	if e.counts.Busy > e.now {
		t.Errorf("busy %v of %v", e.counts.Busy, e.now)
	}
}

func TestReconfigureRefusesWhatHasNoRoom(t *testing.T) {
	cfg := benchConfig()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Add(Request{ID: 7, Prompt: 1000, Completion: 200}); err != nil {
		t.Fatal(err)
	}
	small, other, bad := cfg, cfg, cfg
	small.Blocks, other.Block, bad.Alpha = 70, 32, 0
	if err := e.Reconfigure(small); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1200 tokens in 1120: %v", err)
	}
	for _, c := range []Config{other, bad} {
		if e.Reconfigure(c) == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	slow := cfg
	slow.Alpha *= 2
	if err := e.Reconfigure(slow); err != nil {
		t.Fatal(err)
	}
	if out := e.Advance(clockEnd, nil); len(out) != 1 || out[0].Done < 200*slow.Alpha {
		t.Errorf("%+v", out)
	}
}
