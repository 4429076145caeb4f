package sim

import (
	"fmt"
	"math"
	"time"

	"forewarm/planner"
	"forewarm/sim/engine"
)

// batch is what a replica does with its requests: a fluid of iterations (server), or the iterations themselves
// (iterations).
type batch interface {
	// begin puts the idle batch at an instant.
	begin(now int64)
	// load is the number of requests inside, queued of those whose prefill has not begun.
	load() int
	queued() int
	full() bool
	add(j job)
	// advance moves to an instant up to next; what is due there is handled by settle.
	advance(now int64)
	// settle appends the requests that completed to done. Of those without a first token that arrived before arrivedMin
	// the clients have gone; dropped counts the ones that left for it.
	settle(done []job, arrivedMin int64) (_ []job, dropped int)
	// next is the instant at which the batch wants to be advanced next, or never.
	next() int64
	// usage is what a scrape sees at the instant advanced to.
	usage() usage
}

// usage is what a replica's metrics show beside its counts of requests.
type usage struct {
	busy time.Duration // spent in iterations since the start
	kv   float64       // share of the KV cache held; NaN when it is not modelled
}

// newBatch is the batch of a replica of m.
func (m *model) newBatch(now int64) batch {
	if m.cfg.Engine == nil {
		return &server{physics: m.cfg.Physics, at: now}
	}
	e, err := engine.New(m.engine)
	if err != nil {
		panic(fmt.Sprintf("sim: model %q: %v", m.cfg.Name, err)) // validated with the world
	}
	return &iterations{eng: e, origin: now, now: now, outstanding: m.cfg.Outstanding, patience: int64(m.cfg.Patience)}
}

// iterations is a replica as package engine runs it, on the world's clock.
type iterations struct {
	eng         *engine.Engine
	origin, now int64 // the engine's instant 0, and the present
	outstanding int   // requests that the router lets in; 0 is no limit
	inside      int   // requests given and not handed back: the engine stops counting cancelled ones before they leave
	patience    int64
	out         []engine.Outcome
	// waits are requests that may have no first token yet, in order of arrival, from waitsFrom on.
	waits     []waitingRequest
	waitsFrom int
}

type waitingRequest struct {
	arrived int64
	handle  engine.Handle
}

// blockTokens is the size of a KV block, vLLM's default.
const blockTokens = 16

// engineConfig is true physics in the engine's whole numbers.
func engineConfig(p planner.Physics) engine.Config {
	ps := func(ms planner.Milliseconds) engine.Time { return engine.Time(math.Round(float64(ms) * 1e9)) }
	cfg := engine.Config{
		Alpha: ps(p.Iteration), BetaPrefill: ps(p.Prefill), BetaDecode: ps(p.Decode), Gamma: ps(p.Attention),
		Delta: ps(p.PrefillAttention), Block: blockTokens, Blocks: int(p.KVTokens / blockTokens),
		MaxSequences: p.MaxSequences, MaxBatchedTokens: p.MaxBatchedTokens, Chunk: p.Chunk,
	}
	if p.PrefixHit != nil {
		cfg.PrefixHalf = int64(p.PrefixHit.WarmTokens)
	}
	return cfg
}

func (s *iterations) begin(now int64) { s.origin, s.now = now, now }
func (s *iterations) load() int       { return s.inside }
func (s *iterations) queued() int     { return s.eng.Waiting() }
func (s *iterations) full() bool      { return s.outstanding > 0 && s.inside >= s.outstanding }

func (s *iterations) add(j job) {
	h, err := s.eng.Add(engine.Request{Arrived: engine.Time(j.arrived - s.origin), Prompt: j.prompt, Shared: j.shared,
		Completion: j.completion})
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // arrive refuses what does not fit
	}
	s.inside++
	if s.waitsFrom > 64 && s.waitsFrom*2 > len(s.waits) {
		s.waits = s.waits[:copy(s.waits, s.waits[s.waitsFrom:])]
		s.waitsFrom = 0
	}
	s.waits = append(s.waits, waitingRequest{j.arrived, h})
}

func (s *iterations) advance(now int64) {
	s.now = now
	s.out = s.eng.Advance(engine.Time(now-s.origin)*engine.Nanosecond, s.out)
}

func (s *iterations) settle(done []job, arrivedMin int64) (_ []job, dropped int) {
	for ; s.waitsFrom < len(s.waits); s.waitsFrom++ {
		w := s.waits[s.waitsFrom]
		if !s.eng.Unanswered(w.handle) {
			continue
		}
		if w.arrived > arrivedMin {
			break
		}
		s.eng.Cancel(w.handle)
	}
	for i := range s.out {
		o := &s.out[i]
		if o.Cancelled {
			dropped++
			continue
		}
		done = append(done, job{arrived: s.origin + int64(o.Arrived), firstToken: s.instant(o.First), done: s.instant(o.Done),
			prompt: o.Prompt, completion: o.Completion})
	}
	s.inside -= len(s.out)
	s.out = s.out[:0]
	return done, dropped
}

// instant is an instant of the engine on the world's clock, rounded up.
func (s *iterations) instant(t engine.Time) int64 {
	return s.origin + int64((t+engine.Nanosecond-1)/engine.Nanosecond)
}

func (s *iterations) next() int64 {
	if len(s.out) > 0 {
		return s.now
	}
	next := int64(never)
	if t := s.eng.Next(); t != engine.Never {
		next = s.instant(t)
	}
	for ; s.waitsFrom < len(s.waits); s.waitsFrom++ {
		if w := s.waits[s.waitsFrom]; s.eng.Unanswered(w.handle) {
			return min(next, max(s.now, w.arrived+s.patience))
		}
	}
	return next
}

func (s *iterations) usage() usage {
	look := s.eng.Look()
	return usage{busy: look.Busy.Duration(), kv: float64(look.KVBlocks) / float64(s.eng.Blocks())}
}
