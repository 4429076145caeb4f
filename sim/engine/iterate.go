package engine

import "fmt"

// plan begins the run that is due at the boundary e.now. It returns false when there is nothing to do. Cancelled requests
// are appended to out, which may be nil when there are none.
func (e *Engine) plan(out *[]Outcome) bool {
	if len(e.cancels) > 0 {
		*out = e.dropCancelled(*out)
	}
	if e.next != nil {
		e.cfg, e.next = *e.next, nil
	}
	if e.Load() == 0 {
		return false
	}
	held := e.makeRoom()
	budget := e.share(held)
	e.run = e.costs()
	e.steps = e.run.within(e.length(held, budget))
	e.end = e.now + e.run.span(e.steps)
	return true
}

// makeRoom preempts until the sequences decoding and the prompts begun fit into the KV blocks, and returns how many
// blocks the former hold.
func (e *Engine) makeRoom() int64 {
	held := e.kv.held(e.iteration)
	for held+e.reserved > int64(e.cfg.Blocks) {
		e.preempt()
		held = e.kv.held(e.iteration)
	}
	return held
}

// preempt sends the sequence admitted last back to the front of the queue.
func (e *Engine) preempt() {
	var last ref
	if k := len(e.prefills); k > 0 {
		last = e.prefills[k-1].ref
		e.prefills = e.prefills[:k-1]
		e.reserved -= int64(e.slots[last.slot].blocks)
	} else {
		for {
			last = e.order[len(e.order)-1]
			e.order = e.order[:len(e.order)-1]
			if e.live(last) != nil {
				break
			}
		}
		e.stopDecoding(last.slot)
	}
	s := &e.slots[last.slot]
	s.state = waiting
	s.preemptions++
	e.waiting.pushFront(last)
	e.queued++
	e.counts.Preemptions++
}

// share gives the prompt tokens of the iteration to the prompt begun and to those it admits, and returns how many there
// were to give.
func (e *Engine) share(held int64) int32 {
	budget := int32(e.cfg.chunk(e.n))
	left := budget
	for i := range e.prefills {
		p := &e.prefills[i]
		p.take = min(left, e.slots[p.slot].left)
		left -= p.take
	}
	for left > 0 && e.queued > 0 && e.n+len(e.prefills) < e.cfg.MaxSequences {
		next := e.waiting.refs[e.waiting.head]
		s := e.live(next)
		if s == nil {
			e.waiting.pop()
			continue
		}
		context := s.context()
		need := (int64(context) + e.kv.size - 1) / e.kv.size
		if need > int64(e.cfg.Blocks)-held-e.reserved {
			break
		}
		e.waiting.pop()
		e.queued--
		hit := e.cfg.cached(s.req, context, e.counts.Prefilled)
		e.counts.CacheHits += int64(hit)
		s.state, s.blocks, s.left = prefilling, int32(need), context-hit
		e.reserved += need
		take := min(left, s.left)
		left -= take
		e.prefills = append(e.prefills, prefill{next, take})
	}
	return budget
}

// costs is the time of the iterations of the run.
func (e *Engine) costs() run {
	n, c := int64(e.n), &e.cfg
	r := run{
		first: c.Alpha + c.BetaDecode*Time(n) + c.Gamma*Time(e.sum+n*e.iteration),
		slope: c.Gamma * Time(n),
	}
	for _, p := range e.prefills {
		s, take := &e.slots[p.slot], int64(p.take)
		before := int64(s.context() - s.left)
		r.first += c.BetaPrefill*Time(take) + c.Delta*Time(take*before+take*(take+1)/2)
		r.slope += c.Delta * Time(take*take)
	}
	return r
}

// length is how many iterations the run may have.
func (e *Engine) length(held int64, budget int32) int64 {
	limit := int64(1) << 40
	if len(e.prefills) > 0 {
		first := e.prefills[0]
		left := e.slots[first.slot].left
		switch {
		case budget == 0: // prompts wait until fewer sequences decode
		case len(e.prefills) > 1 || left <= budget:
			return 1
		default:
			limit = int64((left+budget-1)/budget) - 1
		}
	}
	if next, ok := e.nextEnd(); ok {
		limit = min(limit, next-e.iteration)
	}
	return e.kv.last(e.iteration, int64(e.cfg.Blocks)-held-e.reserved, limit)
}

// nextEnd is the number of the iteration with the earliest completion.
func (e *Engine) nextEnd() (int64, bool) {
	for len(e.ends) > 0 {
		top := e.ends[0]
		// One that was preempted and decodes again ends later than it would have.
		if s := e.live(top.ref); s != nil && s.state == decoding && s.end == top.end {
			return top.end, true
		}
		e.ends.pop()
	}
	return 0, false
}

// finish ends the run: it moves to its last boundary and hands out what was made.
func (e *Engine) finish(out []Outcome) []Outcome {
	if e.end < e.now || e.end > e.at {
		panic(fmt.Sprintf("engine: a run of %d iterations from %d ps ends at %d ps, the present is %d ps", e.steps, e.now, e.end, e.at))
	}
	c := &e.counts
	c.Busy += e.end - e.now
	c.Iterations += e.steps
	c.Runs++
	c.Generated += e.steps * int64(e.n)
	for _, p := range e.prefills {
		tokens := e.steps * int64(p.take)
		c.Prefilled += tokens
		e.slots[p.slot].left -= int32(tokens)
	}
	e.now = e.end
	e.iteration += e.steps
	e.planned = false
	if len(e.cancels) > 0 {
		out = e.dropCancelled(out)
	}
	for end, ok := e.nextEnd(); ok && end <= e.iteration; end, ok = e.nextEnd() {
		slot := e.ends.pop().slot
		e.stopDecoding(slot)
		out = e.leave(slot, e.now, out)
	}
	out = e.endPrefills(out)
	if e.checkEvery > 0 && c.Runs%e.checkEvery == 0 {
		e.mustAddUp()
	}
	return out
}

// endPrefills hands the first token to the prompts whose prefill is done. The others stay.
func (e *Engine) endPrefills(out []Outcome) []Outcome {
	begun := e.prefills[:0]
	for _, p := range e.prefills {
		s := &e.slots[p.slot]
		if s.left > 0 {
			begun = append(begun, p)
			continue
		}
		e.reserved -= int64(s.blocks)
		s.generated++
		e.counts.Generated++
		if s.first == 0 {
			s.first = e.now
		}
		if s.generated >= s.req.Completion {
			out = e.leave(p.slot, e.now, out)
			continue
		}
		e.startDecoding(p.ref)
	}
	e.prefills = begun
	return out
}

func (e *Engine) startDecoding(r ref) {
	s := &e.slots[r.slot]
	s.state = decoding
	s.base = int64(s.context()) - e.iteration
	s.end = e.iteration + int64(s.req.Completion-s.generated)
	e.n++
	e.sum += s.base
	e.kv.add(s.base)
	e.ends.push(completion{s.end, r})
	if len(e.order) > 2*e.n+64 {
		live := e.order[:0]
		for _, o := range e.order {
			if e.live(o) != nil {
				live = append(live, o)
			}
		}
		e.order = live
	}
	e.order = append(e.order, r)
}

// stopDecoding takes a sequence out of the batch and notes how far it came.
func (e *Engine) stopDecoding(slot int32) {
	s := &e.slots[slot]
	s.generated = int32(s.base + e.iteration - int64(s.req.Prompt))
	e.n--
	e.sum -= s.base
	e.kv.remove(s.base)
}

// dropCancelled takes the cancelled requests out at the boundary e.now.
func (e *Engine) dropCancelled(out []Outcome) []Outcome {
	for _, r := range e.cancels {
		switch s := &e.slots[r.slot]; s.state {
		case decoding:
			e.stopDecoding(r.slot)
		case prefilling:
			e.reserved -= int64(s.blocks)
			for i, p := range e.prefills {
				if p.ref == r {
					e.prefills = append(e.prefills[:i], e.prefills[i+1:]...)
					break
				}
			}
		}
		out = e.leave(r.slot, e.now, out)
	}
	e.cancels = e.cancels[:0]
	return out
}

// mustAddUp panics unless the running sums are what the sequences add up to.
func (e *Engine) mustAddUp() {
	n, sum, reserved, queued, begun := 0, int64(0), int64(0), 0, 0
	again := newBlocks(e.cfg.Block)
	for i := range e.slots {
		switch s := &e.slots[i]; s.state {
		case decoding:
			n++
			sum += s.base
			again.add(s.base)
		case prefilling:
			begun++
			reserved += int64(s.blocks)
		case waiting:
			queued++
		}
	}
	if n != e.n || sum != e.sum || reserved != e.reserved || queued != e.queued || begun != len(e.prefills) ||
		again.held(e.iteration) != e.kv.held(e.iteration) || again.held(e.iteration)+reserved > int64(e.cfg.Blocks)+int64(n) {
		panic(fmt.Sprintf("engine: after %d runs the sums are n %d, base %d, reserved %d, queued %d, prefills %d, held %d; "+
			"the sequences add up to %d, %d, %d, %d, %d, %d", e.counts.Runs, e.n, e.sum, e.reserved, e.queued, len(e.prefills),
			e.kv.held(e.iteration), n, sum, reserved, queued, begun, again.held(e.iteration)))
	}
}
