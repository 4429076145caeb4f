package engine

import "slices"

// event is something that happens to a replica: an arrival, a change of limits, or the cancellation of request cancel (its
// position among the arrivals).
type event struct {
	at     Time
	add    *Request
	limits *Config
	cancel int
}

// moment is the totals after an iteration.
type moment struct {
	at Time
	Counts
}

// dumb is the deliberately slow engine: it takes one iteration after the other and adds everything up anew each time.
// It is written from the package comment, not from Engine.
type dumb struct {
	cfg      Config
	next     *Config
	now      Time
	queue    []*dumbSequence
	running  []*dumbSequence // in order of admission
	arrivals []*dumbSequence
	events   []event
	outcomes []Outcome
	counts   Counts
	log      []moment
}

type dumbSequence struct {
	Outcome
	computed int32 // tokens of its context whose KV is there
	prefill  bool
	done     bool
	leaving  bool
}

func (s *dumbSequence) context() int32 { return s.Prompt + s.Generated }

func (d *dumb) blocksOf(tokens int32) int { return (int(tokens) + d.cfg.Block - 1) / d.cfg.Block }

// runDumb lets all events happen and everything end.
func runDumb(cfg Config, events []event) *dumb {
	d := &dumb{cfg: cfg, events: events}
	for {
		d.apply(func(at Time) bool { return at <= d.now })
		d.drop()
		if d.next != nil {
			d.cfg, d.next = *d.next, nil
		}
		if len(d.queue)+len(d.running) == 0 {
			if len(d.events) == 0 {
				return d
			}
			d.now = d.events[0].at
			continue
		}
		d.step()
	}
}

// apply takes the events that are due.
func (d *dumb) apply(due func(Time) bool) {
	for len(d.events) > 0 && due(d.events[0].at) {
		e := d.events[0]
		d.events = d.events[1:]
		if e.limits != nil {
			d.reconfigure(*e.limits)
			continue
		}
		if e.add == nil {
			if s := d.arrivals[e.cancel]; s != nil && !s.done {
				s.leaving = true
			}
			continue
		}
		limits := d.cfg
		if d.next != nil {
			limits = *d.next
		}
		if int(e.add.Prompt)+int(e.add.Completion) > limits.Block*limits.Blocks {
			d.arrivals = append(d.arrivals, nil) // refused
			continue
		}
		s := &dumbSequence{Outcome: Outcome{Request: *e.add}}
		d.arrivals = append(d.arrivals, s)
		d.queue = append(d.queue, s)
	}
}

// reconfigure takes new limits unless a request inside would have no room.
func (d *dumb) reconfigure(limits Config) {
	for _, s := range append(slices.Clone(d.queue), d.running...) {
		if int(s.Prompt)+int(s.Completion) > limits.Block*limits.Blocks {
			return
		}
	}
	d.next = &limits
}

func (d *dumb) end(s *dumbSequence) {
	s.done, s.Done, s.Cancelled = true, d.now, s.leaving
	d.outcomes = append(d.outcomes, s.Outcome)
}

func (d *dumb) drop() {
	gone := func(s *dumbSequence) bool {
		if s.leaving {
			d.end(s)
		}
		return s.leaving
	}
	d.queue = slices.DeleteFunc(d.queue, gone)
	d.running = slices.DeleteFunc(d.running, gone)
}

// held is how many blocks the running sequences need for the coming iteration.
func (d *dumb) held() (sum int) {
	for _, s := range d.running {
		sum += d.blocksOf(s.context())
	}
	return sum
}

func (d *dumb) step() {
	for d.held() > d.cfg.Blocks {
		last := d.running[len(d.running)-1]
		d.running = d.running[:len(d.running)-1]
		last.Preemptions++
		last.computed = 0
		d.queue = slices.Insert(d.queue, 0, last)
		d.counts.Preemptions++
	}
	n, kv := 0, 0
	for _, s := range d.running {
		if !s.prefill {
			n++
			kv += int(s.context())
		}
	}
	budget := max(0, d.cfg.MaxBatchedTokens-n)
	if d.cfg.Chunk > 0 {
		budget = min(budget, d.cfg.Chunk)
	}
	t := d.cfg.Alpha + d.cfg.BetaDecode*Time(n) + d.cfg.Gamma*Time(kv)
	compute := func(s *dumbSequence) {
		for budget > 0 && s.computed < s.context() {
			s.computed++
			budget--
			d.counts.Prefilled++
			t += d.cfg.BetaPrefill + d.cfg.Delta*Time(s.computed) // the token sees itself and all before it
		}
	}
	for _, s := range d.running {
		if s.prefill {
			compute(s)
		}
	}
	served := d.servedBefore()
	for budget > 0 && len(d.queue) > 0 && len(d.running) < d.cfg.MaxSequences {
		s := d.queue[0]
		if d.held()+d.blocksOf(s.context()) > d.cfg.Blocks {
			break
		}
		d.queue = d.queue[1:]
		d.running = append(d.running, s)
		s.prefill = true
		s.computed = d.hit(s, served)
		d.counts.CacheHits += int64(s.computed)
		compute(s)
	}
	d.now += t
	d.counts.Busy += t
	d.counts.Iterations++
	d.handOut()
}

// servedBefore is the prompt tokens prefilled up to the last boundary.
func (d *dumb) servedBefore() int64 {
	if len(d.log) == 0 {
		return 0
	}
	return d.log[len(d.log)-1].Prefilled
}

// hit is the tokens of the context that are in the prefix cache.
func (d *dumb) hit(s *dumbSequence, served int64) int32 {
	shared := min(s.Shared, s.context()-1)
	if d.cfg.PrefixHalf > 0 {
		shared = int32(float64(shared) * (float64(served) / float64(served+d.cfg.PrefixHalf)))
	}
	return shared / int32(d.cfg.Block) * int32(d.cfg.Block)
}

// handOut gives every sequence what the iteration made. Who cancelled during the iteration leaves without.
func (d *dumb) handOut() {
	for _, s := range d.running {
		if !s.prefill {
			s.Generated++
			d.counts.Generated++
		}
	}
	d.apply(func(at Time) bool { return at < d.now })
	d.drop()
	d.running = slices.DeleteFunc(d.running, func(s *dumbSequence) bool {
		if s.prefill {
			if s.computed < s.context() {
				return false
			}
			s.prefill = false
			s.Generated++
			d.counts.Generated++
			if s.First == 0 {
				s.First = d.now
			}
		}
		if s.Generated < s.Completion {
			return false
		}
		d.end(s)
		return true
	})
	d.log = append(d.log, moment{d.now, d.counts})
}
