package sim

import (
	"math"
	"time"

	"forewarm/planner"
)

// Physics is how one replica really works: a fluid of continuous-batching iterations. With n sequences decoding and a
// prompt being prefilled, an iteration handles Chunk prompt tokens and one token of each sequence and takes
//
//	T = max(IterationFloor, Chunk/Prompt + n/Completion)
//
// (without a prompt the first term is missing). Prompts are prefilled one after another in order of arrival, sequences
// decode together. So the server is work-conserving with the work prompt/Prompt + completion/Completion per request, a
// request alone is bound by the floor (the weights are read once per iteration), and load raises ITL before it raises
// TTFT. This is the linear form of an iteration cost α + β·prefill + β·decode with α as a floor (a roof line); KV memory
// is not in it.
type Physics struct {
	// Prompt and Completion are the rates of prefill and of decode alone, in tokens/s.
	Prompt     planner.TokenRate `yaml:"prompt_tokens_per_s"`
	Completion planner.TokenRate `yaml:"completion_tokens_per_s"`
	// IterationFloor is the shortest iteration.
	IterationFloor time.Duration `yaml:"iteration_floor"`
	// Chunk is the number of prompt tokens in an iteration (max_num_batched_tokens).
	Chunk int `yaml:"chunk_tokens"`
	// Concurrent is how many requests a replica takes at a time (max_num_seqs).
	Concurrent int `yaml:"concurrent_requests"`
}

// Validate reports every field out of range.
func (ph Physics) Validate() error {
	var p problems
	p.within("prompt_tokens_per_s", float64(ph.Prompt), 1, 1e9)
	p.within("completion_tokens_per_s", float64(ph.Completion), 1, 1e9)
	p.duration("iteration_floor", ph.IterationFloor, 0, time.Minute)
	p.count("chunk_tokens", ph.Chunk, 1, 1_000_000)
	p.count("concurrent_requests", ph.Concurrent, 1, 100_000)
	return p.err()
}

// job is a request inside a replica or in front of it. Instants are Unix nanoseconds.
type job struct {
	arrived, firstToken, done  int64
	prompt, shared, completion int32
	client                     string
}

// server is the batch of one replica. Progress is in tokens: one clock counts the tokens that any sequence decoding
// since the clock's zero would have got, so that all sequences share one number and a completion is a point on it.
type server struct {
	physics  Physics
	at       int64   // the instant up to which progress is accounted for
	clock    float64 // tokens per sequence
	decoding sequences
	prefill  queue   // head is being prefilled
	headLeft float64 // prompt tokens that the head still needs
	seq      uint64
	busy     int64 // nanoseconds with requests inside
}

// never is an instant that does not come.
const never = math.MaxInt64

// tokenDust is the part of a token that counts as done. Events are rounded up to whole nanoseconds, so progress falls
// short of them only by rounding of float64, which is far smaller; without it an event could complete nothing and come
// again at the same instant for ever.
const tokenDust = 1e-5

// load is the number of requests in the replica.
func (s *server) load() int { return len(s.decoding) + s.prefill.len() }

// queued is the number of requests whose prefill has not begun.
func (s *server) queued() int { return max(0, s.prefill.len()-1) }

func (s *server) begin(now int64) { s.at = now }

func (s *server) usage() usage { return usage{busy: time.Duration(s.busy), kv: math.NaN()} }

func (s *server) full() bool { return s.load() >= s.physics.Concurrent }

// iteration is the present length of an iteration in seconds.
func (s *server) iteration() float64 {
	t := float64(len(s.decoding)) / float64(s.physics.Completion)
	if s.prefill.len() > 0 {
		t += float64(s.physics.Chunk) / float64(s.physics.Prompt)
	}
	return max(t, s.physics.IterationFloor.Seconds())
}

// prefillRate is the present speed of the head's prefill in tokens/s. A lone prompt shorter than a chunk does not wait
// for the floor: the fluid spreads a chunk over its iteration.
func (s *server) prefillRate() float64 {
	return float64(s.physics.Chunk) / s.iteration()
}

// add takes a request at the instant up to which the server was advanced.
func (s *server) add(j job) {
	s.prefill.push(j)
	if s.prefill.len() == 1 {
		s.headLeft = float64(j.prompt)
	}
}

// advance moves progress to now, which must not lie beyond next. Composition is constant in between.
func (s *server) advance(now int64) {
	dt := float64(now-s.at) / 1e9
	if dt > 0 && s.load() > 0 {
		s.busy += now - s.at
		if s.prefill.len() > 0 {
			s.headLeft -= dt * s.prefillRate()
		}
		if len(s.decoding) > 0 {
			s.clock += dt / s.iteration()
		}
	}
	s.at = now
}

// next is the instant of the next first token or completion at the present composition, or never.
func (s *server) next() int64 {
	wait := math.Inf(1)
	if s.prefill.len() > 0 {
		wait = max(0, s.headLeft) / s.prefillRate()
	}
	if len(s.decoding) > 0 {
		wait = min(wait, max(0, s.decoding[0].done-s.clock)*s.iteration())
	}
	if math.IsInf(wait, 1) {
		return never
	}
	return s.at + int64(math.Ceil(wait*1e9))
}

// settle handles what is due at the instant the server was advanced to: completions first, then at most one end of a
// prefill. It appends the completed requests to done. Prompts whose request arrived before arrivedMin are dropped when
// their turn comes, since their clients have gone; dropped counts them.
func (s *server) settle(done []job, arrivedMin int64) (_ []job, dropped int) {
	for len(s.decoding) > 0 && s.decoding[0].done <= s.clock+tokenDust {
		j := s.decoding.pop().job
		j.done = s.at
		done = append(done, j)
	}
	if s.prefill.len() > 0 && s.headLeft <= tokenDust {
		j := s.prefill.pop()
		j.firstToken = s.at
		if j.completion <= 1 {
			j.done = s.at
			done = append(done, j)
		} else {
			s.seq++
			s.decoding.push(sequence{done: s.clock + float64(j.completion-1), seq: s.seq, job: j})
		}
		for s.prefill.len() > 0 && s.prefill.head().arrived < arrivedMin {
			s.prefill.pop()
			dropped++
		}
		if s.prefill.len() > 0 {
			s.headLeft = float64(s.prefill.head().prompt)
		}
	}
	if len(s.decoding) == 0 {
		s.clock = 0 // keeps the clock small, and with it the dust exact
	}
	return done, dropped
}

// sequence is a request being decoded and the clock at which its last token comes.
type sequence struct {
	done float64
	seq  uint64
	job  job
}

// sequences is a heap with the next completion in front, ties by admission. container/heap would allocate for each of
// them.
type sequences []sequence

func (h sequences) before(i, j int) bool {
	return h[i].done < h[j].done || h[i].done == h[j].done && h[i].seq < h[j].seq
}

func (h *sequences) push(x sequence) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.before(i, parent) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *sequences) pop() sequence {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && s.before(child+1, child) {
			child++
		}
		if !s.before(child, i) {
			return top
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}

// queue is first in, first out, in a slice whose front is reused.
type queue struct {
	items []job
	from  int
}

func (q *queue) len() int  { return len(q.items) - q.from }
func (q *queue) head() job { return q.items[q.from] }

func (q *queue) push(j job) {
	if q.from > 64 && q.from*2 > len(q.items) {
		n := copy(q.items, q.items[q.from:])
		q.items, q.from = q.items[:n], 0
	}
	q.items = append(q.items, j)
}

func (q *queue) pop() job {
	j := q.items[q.from]
	q.from++
	return j
}
