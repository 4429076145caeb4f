package engine

// state is where a sequence is.
type state uint8

const (
	gone state = iota
	waiting
	prefilling
	decoding
)

// sequence is an admitted or waiting request. Sequences live in slots that are used again.
type sequence struct {
	req   Request
	first Time
	// end is, while decoding, the number of the iteration after which it is complete.
	end int64
	// base is, while decoding, its context less the number of iterations: the context at iteration i is base + i.
	base        int64
	generated   int32 // not kept up to date while decoding
	left        int32 // tokens that its prefill still has to compute
	blocks      int32 // reserved while prefilling
	preemptions int32
	life        uint32 // of the slot, so that a stale ref is told from a live one
	state       state
	cancelled   bool
}

// context is the number of tokens of a sequence that is not decoding.
func (s *sequence) context() int32 { return s.req.Prompt + s.generated }

// ref names one life of a slot.
type ref struct {
	slot int32
	life uint32
}

// completion is a sequence and the number of the iteration after which it is complete.
type completion struct {
	end int64
	ref
}

// completions is a binary heap with the earliest end first. Entries of sequences that left otherwise stay until they
// come up.
type completions []completion

func (h *completions) push(c completion) {
	a := append(*h, c)
	i := len(a) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if a[parent].end <= c.end {
			break
		}
		a[i] = a[parent]
		i = parent
	}
	a[i] = c
	*h = a
}

func (h *completions) pop() completion {
	a := *h
	top, last := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a[child+1].end < a[child].end {
			child++
		}
		if last.end <= a[child].end {
			break
		}
		a[i] = a[child]
		i = child
	}
	a[i] = last
	return top
}

// line is a queue of sequences that also takes some at its front. Refs of cancelled ones stay until they come up.
type line struct {
	refs []ref
	head int
}

func (l *line) push(r ref) {
	if l.head > 64 && l.head > len(l.refs)/2 {
		l.refs = l.refs[:copy(l.refs, l.refs[l.head:])]
		l.head = 0
	}
	l.refs = append(l.refs, r)
}

func (l *line) pushFront(r ref) {
	if l.head == 0 {
		const room = 16
		l.refs = append(make([]ref, room, room+len(l.refs)+1), l.refs...)
		l.head = room
	}
	l.head--
	l.refs[l.head] = r
}

func (l *line) pop() { l.head++ }

// blocks counts the KV blocks of sequences that all grow by one token an iteration. A sequence of base x holds
// ceil((x + i)/size) blocks at iteration i; the counts of bases by their remainder make the sum of all of them one
// expression.
type blocks struct {
	size      int64
	n         int64
	whole     int64   // Σ floor(base/size)
	remainder []int64 // how many bases have each remainder
}

func newBlocks(size int) blocks { return blocks{size: int64(size), remainder: make([]int64, size)} }

// split is floor(x/size) and the remainder, which is not negative.
func (b *blocks) split(x int64) (q, r int64) {
	q, r = x/b.size, x%b.size
	if r < 0 {
		q, r = q-1, r+b.size
	}
	return q, r
}

func (b *blocks) add(base int64) {
	q, r := b.split(base)
	b.n++
	b.whole += q
	b.remainder[r]++
}

func (b *blocks) remove(base int64) {
	q, r := b.split(base)
	b.n--
	b.whole -= q
	b.remainder[r]--
}

// held is how many blocks the sequences hold at iteration i.
func (b *blocks) held(i int64) int64 {
	if b.n == 0 {
		return 0
	}
	q, r := b.split(i + b.size - 1)
	sum := b.whole + b.n*q
	for _, count := range b.remainder[b.size-r:] {
		sum += count
	}
	return sum
}

// last is how many iterations, from i on and up to limit, can start when free blocks are left at iteration i.
func (b *blocks) last(i, free, limit int64) int64 {
	if b.n == 0 || free >= b.n*((limit+b.size-1)/b.size) {
		return limit
	}
	// size iterations in a row take exactly one block for each sequence.
	m := free / b.n * b.size
	free %= b.n
	for {
		// The sequences that begin a block at iteration i+m+1 are those whose context there is one above a multiple.
		_, r := b.split(-(i + m))
		free -= b.remainder[r]
		m++
		if free < 0 || m >= limit {
			return min(m, limit)
		}
	}
}
