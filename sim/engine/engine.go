package engine

import "fmt"

// Engine is one replica. It is not safe for concurrent use.
//
// Time is the caller's: Advance tells it, and what is done in between (Add, Cancel) happens at the instant advanced to.
// The same calls give the same outcomes.
type Engine struct {
	cfg       Config
	at        Time  // the caller's clock
	now       Time  // the last boundary: everything up to it is accounted for
	iteration int64 // iterations finished at now

	slots   []sequence
	free    []int32
	waiting line
	queued  int     // live sequences in waiting
	cancels []ref   // sequences that leave at the next boundary
	next    *Config // what holds from the next boundary on; nil is no change

	// Sequences decoding: how many, Σ base (so that KV tokens are sum + n·iteration), their blocks and completions, and
	// the order in which they were admitted (with refs of such as have left).
	n     int
	sum   int64
	kv    blocks
	ends  completions
	order []ref

	// prefills are the prompts of the present iteration in order of admission; at a boundary only one of them is begun.
	prefills []prefill
	reserved int64 // blocks held by them

	planned bool // an iteration is under way from now on
	run     run
	steps   int64 // iterations of the run
	end     Time  // now + S(steps)

	counts     Counts
	checkEvery int64 // runs between two recomputations of the sums; 0 is never. Tests set it.
}

// prefill is one prompt's part of an iteration.
type prefill struct {
	ref
	take int32 // tokens of each iteration of the run
}

// Counts are totals since the start.
type Counts struct {
	Iterations  int64
	Runs        int64 // stretches of iterations that were computed as one
	Prefilled   int64 // prompt tokens computed, recomputation included
	CacheHits   int64 // prompt tokens found in the prefix cache
	Generated   int64 // completion tokens, of cancelled requests too
	Preemptions int64
	Busy        Time // spent in iterations
}

// Snapshot is what a scrape sees. Tokens and blocks are those of the last boundary.
type Snapshot struct {
	At       Time
	Waiting  int // requests queued, preempted ones too
	Running  int // admitted
	KVBlocks int // held
	Counts
}

// Handle names a request inside an engine.
type Handle struct{ ref }

// New returns an idle replica at instant 0.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg, kv: newBlocks(cfg.Block)}, nil
}

// Load is the number of requests in the replica, waiting or running.
func (e *Engine) Load() int { return e.queued + e.n + len(e.prefills) }

// Waiting is the number of requests that are not admitted.
func (e *Engine) Waiting() int { return e.queued }

// Advance moves the replica to an instant and appends the requests that left up to and including it to out, in the order
// of leaving. It panics when the instant lies in the past or beyond 53 days.
func (e *Engine) Advance(to Time, out []Outcome) []Outcome {
	if to < e.at || to > clockEnd {
		panic(fmt.Sprintf("engine: advancing to %d ps from %d ps: time does not decrease and ends at %d ps", to, e.at, clockEnd))
	}
	e.at = to
	for {
		if !e.planned {
			if e.now >= to {
				return out
			}
			if e.planned = e.plan(&out); !e.planned {
				e.now = to // idle
				return out
			}
		}
		if e.end > to {
			return out
		}
		out = e.finish(out)
	}
}

// Next is the instant at which the replica wants to be advanced next, or Never when it is idle. It begins the iteration
// that is due at the present instant: requests added at that instant afterwards are still admitted to it, but what it
// preempted stays preempted.
func (e *Engine) Next() Time {
	if !e.planned {
		if len(e.cancels) > 0 {
			return e.at + 1 // they leave at the boundary, which is now
		}
		if e.planned = e.plan(nil); !e.planned {
			return Never
		}
	}
	return e.end
}

// Add takes a request at the present instant. It returns an error, and takes nothing, when the request breaks its
// invariants.
func (e *Engine) Add(r Request) (Handle, error) {
	cfg := &e.cfg
	if e.next != nil {
		cfg = e.next
	}
	if err := cfg.check(r); err != nil {
		return Handle{}, err
	}
	slot := e.slot()
	s := &e.slots[slot]
	*s = sequence{req: r, life: s.life, state: waiting}
	h := ref{slot, s.life}
	first := e.queued == 0
	e.waiting.push(h)
	e.queued++
	if first && e.n+len(e.prefills) < e.cfg.MaxSequences && !e.prefillGoesOn() {
		e.interrupt() // it may be admitted; behind others it only queues
	}
	return Handle{h}, nil
}

// prefillGoesOn reports whether one prompt takes all the prompt tokens of every iteration of this run, so that nobody can
// be admitted before the run ends.
func (e *Engine) prefillGoesOn() bool {
	return e.planned && len(e.prefills) == 1 && int(e.prefills[0].take) == e.cfg.chunk(e.n)
}

// Unanswered reports whether a request is inside and had no first token by the last boundary.
func (e *Engine) Unanswered(h Handle) bool {
	s := e.live(h.ref)
	return s != nil && s.first == 0 && !s.cancelled
}

// Blocks is the number of KV blocks of the replica.
func (e *Engine) Blocks() int { return e.cfg.Blocks }

// Cancel takes a request out at the first boundary at or after the present instant, where its Outcome comes from. It
// reports whether the request was there.
func (e *Engine) Cancel(h Handle) bool {
	s := e.live(h.ref)
	if s == nil || s.cancelled {
		return false
	}
	s.cancelled = true
	if s.state == waiting {
		e.queued--
	}
	e.cancels = append(e.cancels, h.ref)
	e.interrupt()
	return true
}

// Reconfigure changes costs and limits from the first boundary at or after the present instant on, as a restart with
// other settings or a throttled GPU would, but with everything inside staying. Lower limits admit nobody until they are
// met again; fewer KV blocks preempt. It returns an error, and changes nothing, when the configuration is invalid, has
// another block size, or has no room for a request inside.
func (e *Engine) Reconfigure(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cfg.Block != e.cfg.Block {
		return fmt.Errorf("engine: blocks of %d tokens cannot become blocks of %d", e.cfg.Block, cfg.Block)
	}
	for i := range e.slots {
		if s := &e.slots[i]; s.state != gone {
			if err := cfg.check(s.req); err != nil {
				return err
			}
		}
	}
	e.next = &cfg
	e.interrupt()
	return nil
}

// Look is what a scrape at the present instant sees.
func (e *Engine) Look() Snapshot {
	s := Snapshot{At: e.at, Waiting: e.queued, Running: e.n + len(e.prefills), Counts: e.counts}
	done := int64(0)
	if e.planned {
		if done = e.run.boundary(e.at - e.now); e.run.span(done) > e.at-e.now {
			done--
		}
	}
	s.Iterations += done
	s.Generated += done * int64(e.n)
	for _, p := range e.prefills {
		s.Prefilled += done * int64(p.take)
	}
	s.Busy += e.run.span(done)
	s.KVBlocks = int(e.kv.held(e.iteration+done) + e.reserved)
	return s
}

// interrupt ends the run at the first boundary at or after the present instant.
func (e *Engine) interrupt() {
	if !e.planned {
		return
	}
	if m := e.run.boundary(e.at - e.now); m < e.steps {
		e.steps, e.end = m, e.now+e.run.span(m)
		e.planned = m > 0
	}
}

func (e *Engine) slot() int32 {
	if len(e.free) == 0 {
		e.slots = append(e.slots, sequence{})
		return int32(len(e.slots) - 1)
	}
	slot := e.free[len(e.free)-1]
	e.free = e.free[:len(e.free)-1]
	return slot
}

// live is the sequence of a ref, or nil when it is gone.
func (e *Engine) live(r ref) *sequence {
	if s := &e.slots[r.slot]; s.life == r.life && s.state != gone {
		return s
	}
	return nil
}

// leave ends a sequence that holds nothing any more.
func (e *Engine) leave(slot int32, at Time, out []Outcome) []Outcome {
	s := &e.slots[slot]
	out = append(out, Outcome{Request: s.req, First: s.first, Done: at, Generated: s.generated, Preemptions: s.preemptions,
		Cancelled: s.cancelled})
	s.state = gone
	s.life++
	e.free = append(e.free, slot)
	return out
}
