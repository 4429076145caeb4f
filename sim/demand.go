package sim

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"forewarm/planner"
)

// demand is where a model's requests come from: a Generator or a Trace.
type demand interface {
	// appendMinute appends the requests of a minute since the epoch; minutes are asked for in order.
	appendMinute(out []Request, index int64) []Request
	History(from, to time.Time, step time.Duration) (planner.LoadHistory, error)
	mix() planner.RequestMix
	// err is what went wrong while requests were read, and close ends the reading.
	err() error
	close()
}

func newDemand(w Workload, seed uint64) (demand, error) {
	if w.Trace == nil {
		return NewGenerator(w, seed)
	}
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	if w.Trace.Trace == nil {
		return nil, fmt.Errorf("workload: trace %s is not loaded", w.Trace.File)
	}
	loc, err := time.LoadLocation(w.Timezone)
	if err != nil {
		return nil, fmt.Errorf("workload timezone %q: %w", w.Timezone, err)
	}
	c := w.Trace.Trace.cursor()
	c.loc = loc
	return c, c.failed
}

func (g *Generator) err() error { return nil }
func (g *Generator) close()     {}

// Requests reads requests in order of their arrival; io.EOF ends them.
type Requests interface {
	Next() (Request, error)
}

// TraceSpec says which requests a Trace has, and when in the world.
type TraceSpec struct {
	// File is a trace in one of the published forms (see package trace). Whoever loads the scenario opens it.
	File string `yaml:"file"`
	// Model leaves out the requests to others, where the trace names models.
	Model string `yaml:"model"`
	// Begin is when the first request happens in the world; without it, at its own time.
	Begin time.Time `yaml:"begin"`
	// Scale is how many requests each one stands for: a fraction keeps each with that probability, what is above 1 adds
	// copies that come up to a minute later. 0 is 1.
	Scale float64 `yaml:"scale"`

	Trace *Trace `yaml:"-"`
}

func (t TraceSpec) validate() error {
	var p problems
	if t.File == "" {
		p.add("file is empty: a trace is needed")
	}
	p.within("scale", t.Scale, 0, 10_000)
	return p.err()
}

// Trace is recorded requests. It holds a few numbers for every minute and reads the requests anew for each replay, so
// that its memory does not grow with them.
type Trace struct {
	open    func() (Requests, io.Closer, error)
	spec    TraceSpec
	shift   time.Duration
	first   int64 // minute of minutes[0]
	minutes []minute
	seed    uint64
	sizes   sizeMoments
}

// sizeMoments are the sums over all requests that their mix is made of.
type sizeMoments struct{ n, prompt, completion, prompt2, completion2, product float64 }

// NewTrace reads the requests once, to know their minutes. open starts them from the beginning; it is called again for
// each replay and must give the same. The error is that of the reader, or that there are none.
func NewTrace(spec TraceSpec, seed uint64, open func() (Requests, io.Closer, error)) (*Trace, error) {
	if spec.Scale == 0 {
		spec.Scale = 1
	}
	t := &Trace{open: open, spec: spec, seed: seed}
	r, closer, err := open()
	if err != nil {
		return nil, err
	}
	first, err := r.Next()
	closer.Close()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("there are no requests")
	}
	if err != nil {
		return nil, err
	}
	if !spec.Begin.IsZero() {
		t.shift = spec.Begin.Sub(first.At)
	}
	c := t.cursor()
	defer c.close()
	for {
		q, ok := c.pull()
		if !ok {
			break
		}
		t.note(q)
	}
	if c.failed != nil {
		return nil, c.failed
	}
	if len(t.minutes) == 0 {
		return nil, fmt.Errorf("a scale of %v leaves no requests", spec.Scale)
	}
	return t, nil
}

// traceMinutesMax bounds a trace to a bit over a year.
const traceMinutesMax = 400 * 24 * 60

func (t *Trace) note(q Request) {
	index := floorDiv(q.At.Unix(), 60)
	if len(t.minutes) == 0 {
		t.first = index
	}
	i := min(index-t.first, traceMinutesMax-1)
	for int64(len(t.minutes)) <= i {
		t.minutes = append(t.minutes, minute{index: t.first + int64(len(t.minutes))})
	}
	m := &t.minutes[i]
	m.count++
	m.prompt += int64(q.Prompt)
	m.completion += int64(q.Completion)
	p, g := float64(q.Prompt), float64(q.Completion)
	s := &t.sizes
	s.n++
	s.prompt += p
	s.completion += g
	s.prompt2 += p * p
	s.completion2 += g * g
	s.product += p * g
}

// mix is the mean, spread and correlation of the requests' lengths.
func (t *Trace) mix() planner.RequestMix {
	s := t.sizes
	p, g := s.prompt/s.n, s.completion/s.n
	sp, sg := math.Sqrt(max(0, s.prompt2/s.n-p*p)), math.Sqrt(max(0, s.completion2/s.n-g*g))
	m := planner.RequestMix{Prompt: planner.Tokens(p), Completion: planner.Tokens(g), PromptCV: planner.Ratio(sp / p),
		CompletionCV: planner.Ratio(sg / g)}
	if sp > 0 && sg > 0 {
		m.Correlation = planner.Ratio((s.product/s.n - p*g) / sp / sg)
	}
	return m
}

// history returns the load of [from, to) per step of whole minutes. Before the first request and after the last nothing
// is known: those steps are missing.
func (t *Trace) history(from, to time.Time, step time.Duration, loc *time.Location) (planner.LoadHistory, error) {
	if step < time.Minute || step%time.Minute != 0 || from.UnixNano()%int64(time.Minute) != 0 {
		return planner.LoadHistory{}, fmt.Errorf("history of a trace from %s in steps of %v: whole minutes are allowed",
			from.Format(time.RFC3339Nano), step)
	}
	n, per := max(0, int(to.Sub(from)/step)), int(step/time.Minute)
	h := newHistory(from, step, n, loc)
	for i := range n * per {
		at := from.Unix()/60 + int64(i) - t.first
		if at < 0 || at >= int64(len(t.minutes)) {
			h.Prompt.Values[i/per], h.Completion.Values[i/per], h.Requests.Values[i/per] = math.NaN(), math.NaN(), math.NaN()
			continue
		}
		m := t.minutes[at]
		h.Prompt.Values[i/per] += float64(m.prompt) / step.Seconds()
		h.Completion.Values[i/per] += float64(m.completion) / step.Seconds()
		h.Requests.Values[i/per] += float64(m.count) / step.Seconds()
	}
	return h, nil
}

// cursor reads a trace from its beginning on.
func (t *Trace) cursor() *traceCursor {
	c := &traceCursor{t: t, random: newStream(t.seed, purposeTrace)}
	c.requests, c.closer, c.failed = t.open()
	return c
}

// traceCursor is one reading of a Trace.
type traceCursor struct {
	t        *Trace
	loc      *time.Location
	requests Requests
	closer   io.Closer
	random   *stream
	ahead    Request   // read and not yet handed out
	has      bool      // ahead is one
	ended    bool      // the file is
	copies   []Request // made by the scale, in order of arrival
	held     Request   // of pull
	holds    bool
	failed   error
}

func (c *traceCursor) mix() planner.RequestMix { return c.t.mix() }
func (c *traceCursor) err() error              { return c.failed }

func (c *traceCursor) History(from, to time.Time, step time.Duration) (planner.LoadHistory, error) {
	return c.t.history(from, to, step, c.loc)
}

func (c *traceCursor) close() {
	if c.closer != nil {
		c.closer.Close()
	}
}

func (c *traceCursor) appendMinute(out []Request, index int64) []Request {
	for {
		if !c.holds {
			if c.held, c.holds = c.pull(); !c.holds {
				return out
			}
		}
		switch at := floorDiv(c.held.At.Unix(), 60); {
		case at > index:
			return out
		case at == index:
			out = append(out, c.held)
		}
		c.holds = false
	}
}

// pull is the next request of the scaled trace; ok is false at its end and after an error.
func (c *traceCursor) pull() (Request, bool) {
	for {
		if !c.has && !c.ended && c.failed == nil {
			c.read()
		}
		if len(c.copies) > 0 && (!c.has || !c.ahead.At.Before(c.copies[0].At)) {
			q := c.copies[0]
			c.copies = c.copies[1:]
			return q, true
		}
		if !c.has {
			return Request{}, false
		}
		q := c.ahead
		c.has = false
		n := int(c.t.spec.Scale)
		if rest := c.t.spec.Scale - float64(n); rest > 0 && c.random.Float64() < rest {
			n++
		}
		for range n - 1 {
			x := q
			x.At = x.At.Add(time.Duration(c.random.Float64() * float64(time.Minute)))
			at, _ := slices.BinarySearchFunc(c.copies, x, func(a, b Request) int { return a.At.Compare(b.At) })
			c.copies = slices.Insert(c.copies, at, x)
		}
		if n > 0 {
			return q, true
		}
	}
}

func (c *traceCursor) read() {
	q, err := c.requests.Next()
	switch {
	case errors.Is(err, io.EOF):
		c.ended = true
	case err != nil:
		c.failed = err
	default:
		q.At = q.At.Add(c.t.shift)
		c.ahead, c.has = q, true
	}
}
