package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

const (
	// lineMax is how much of a line is looked at; what is looked for stands at its beginning.
	lineMax = 256 << 10
	// marksMax bounds what is kept of one log. A start leaves about 30 lines per rank.
	marksMax = 100_000
	// logsMax bounds the pods of one log with the prefixes of kubectl.
	logsMax = 10_000
	// doneMax is how many answers are kept per attempt: the first in time among those that were written first.
	doneMax = 16
)

// A Log is what one engine's log says about its starts: a few lines of it. Several files of one engine are one log (Join).
type Log struct {
	Name string // of the file
	// Pod is "name" when the lines carry kubectl's prefix, else "".
	Pod     string
	marks   []mark
	Dropped int // lines of evidence beyond what is kept

	// The state of the attempt that is being read.
	up      bool
	dones   int
	engine  string
	stamped bool
	last    line // with copies of the newest time, for lines that have none
	stamps  [2][40]byte
}

// A mark is one line that is evidence.
type mark struct {
	kind     kind
	phase    coldstart.Phase
	rank     string
	at       time.Time
	clock    clockKind
	exact    bool // at is of the line itself, not of one before it
	took     time.Duration
	inside   time.Duration // of took, what the line itself says was compilation
	server   bool          // a start that the server itself logs, once; the others every engine process of it logs
	engine   string
	version  string
	model    string
	compiled coldstart.Cache
	weights  coldstart.Cache
	tokens   int
}

// ReadLog reads an engine's log of any length as a stream: one Log, or one per pod when the lines carry kubectl's
// prefix. Lines that are no evidence are skipped. Name is what errors and notes call it. It allocates for evidence only,
// and reads with a buffer of 256 KiB.
func ReadLog(r io.Reader, name string) ([]*Log, error) {
	logs := map[string]*Log{}
	var order []string
	b := bufio.NewReaderSize(r, lineMax)
	var current *Log
	for {
		text, err := b.ReadSlice('\n')
		if len(text) > 0 {
			l := split(text)
			pod := podName(l.pod)
			if current == nil || current.Pod != string(pod) {
				if current = logs[string(pod)]; current == nil {
					if len(logs) == logsMax {
						return nil, fmt.Errorf("%s: more than %d pods", name, logsMax)
					}
					current = &Log{Name: name, Pod: string(pod)}
					logs[current.Pod] = current
					order = append(order, current.Pod)
				}
			}
			current.take(&l)
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is too long
			_, err = b.ReadSlice('\n')
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	out := make([]*Log, len(order))
	for i, pod := range order {
		out[i] = logs[pod]
	}
	return out, nil
}

// podName is the pod of "pod/name/container".
func podName(b []byte) []byte {
	b = bytes.TrimPrefix(b, []byte("pod/"))
	if i := bytes.IndexByte(b, '/'); i >= 0 {
		b = b[:i]
	}
	return b
}

// take looks at one line.
func (l *Log) take(ln *line) {
	p := match(ln.message)
	switch {
	case p != nil:
	case l.up && l.dones < doneMax && isAnswer(ln.message):
		l.dones++
		l.add(ln, mark{kind: done})
		return
	case !l.stamped && (ln.rfc != nil || ln.clock != nil || ln.elapsed != nil):
		l.add(ln, mark{kind: first})
		return
	}
	l.remember(ln)
	if p == nil {
		return
	}
	if p.kind == up && p.engine == "" && l.engine == sglang { // its warm-up request comes now
		p = &pattern{kind: begin, phase: coldstart.WarmUp, engine: sglang}
	}
	if l.up && p.kind != start && p.kind != begin && p.kind != part && p.kind != total && p.kind != end {
		return
	}
	m := mark{kind: p.kind, phase: p.phase, engine: p.engine, compiled: p.compiled, weights: p.weights}
	if !m.fill(p, ln.message) {
		return
	}
	if p.kind == start {
		l.up, l.dones, l.engine = false, 0, p.engine
	}
	if l.engine == "" {
		l.engine = p.engine
	}
	l.up = l.up || p.kind == up
	l.add(ln, m)
	if p.ends != "" {
		l.add(ln, mark{kind: end, phase: p.ends, engine: p.engine})
	}
}

// fill reads what the message of a pattern says; ok is false when it is cut off before its number.
func (m *mark) fill(p *pattern, message []byte) (ok bool) {
	if p.kind == part || p.kind == total {
		if m.took, ok = p.took(message); !ok {
			return false
		}
	}
	switch p.starts {
	case "init engine (":
		m.inside, _ = seconds([]byte(between(message, "(compilation: ", ")")))
		m.inside = min(m.inside, m.took)
	case "vLLM API server version":
		m.server = true
		m.version = strings.TrimSpace(string(message[len(p.starts):]))
	case "Initializing a":
		m.version = between(message, "LLM engine (v", ")")
		m.model = between(message, "model='", "'")
	case "server_args=ServerArgs(", "Args {":
		m.server = true
		m.model = between(message, "model_path='", "'")
	case "# GPU blocks:", "# cuda blocks:", "GPU KV cache size:":
		m.tokens = tokens(message[len(p.starts):])
	}
	return true
}

// isAnswer tells the access line of an inference request that was answered.
func isAnswer(message []byte) bool {
	i := bytes.Index(message, []byte("POST /"))
	if i < 0 || !bytes.Contains(message[i:], []byte(" 200")) {
		return false
	}
	for _, of := range []string{"completion", "generate", "responses", "embeddings", "messages"} {
		if bytes.Contains(message[i:], []byte(of)) {
			return true
		}
	}
	return false
}

// remember keeps the newest time, for a line without one.
func (l *Log) remember(ln *line) {
	if l.up {
		return
	}
	if ln.rfc != nil && len(ln.rfc) <= len(l.stamps[0]) {
		l.last.rfc = l.stamps[0][:copy(l.stamps[0][:], ln.rfc)]
	}
	if ln.clock != nil && len(ln.clock) <= len(l.stamps[1]) {
		l.last.clock = l.stamps[1][:copy(l.stamps[1][:], ln.clock)]
	}
}

func (l *Log) add(ln *line, m mark) {
	if len(l.marks) >= marksMax {
		l.Dropped++
		return
	}
	m.at, m.clock = ln.time()
	m.exact = m.clock != noClock
	if !m.exact && m.kind == up {
		m.at, m.clock = l.last.time()
	}
	l.stamped = l.stamped || m.exact
	m.rank = rankOf(ln)
	l.marks = append(l.marks, m)
}

// rankOf is who wrote a line, as far as it says: TGI at its end, the others in front.
func rankOf(ln *line) string {
	if i := bytes.LastIndex(ln.message, []byte(" rank=")); i >= 0 && len(ln.message)-i < 16 {
		return string(ln.message[i+1:])
	}
	return string(ln.rank)
}

// Join makes one log per pod of several files: parts of a log that was rotated, in whatever order they are given. It
// keeps those without a pod apart only if apart is set.
func Join(logs []*Log, name func(*Log) string) []*Log {
	var out []*Log
	for _, l := range logs {
		i := slices.IndexFunc(out, func(o *Log) bool { return name(o) == name(l) })
		if i < 0 {
			c := *l
			c.marks = slices.Clone(l.marks)
			out = append(out, &c)
			continue
		}
		o := out[i]
		o.Dropped += l.Dropped
		if before(l.marks, o.marks) {
			o.Name, o.marks = l.Name+", "+o.Name, slices.Concat(l.marks, o.marks)
		} else {
			o.Name, o.marks = o.Name+", "+l.Name, slices.Concat(o.marks, l.marks)
		}
	}
	return out
}

// before reports whether the marks of a were written before those of b, by their first times of one kind of clock.
func before(a, b []mark) bool {
	for _, x := range a {
		for _, y := range b {
			if x.exact && y.exact && x.clock == y.clock {
				return x.at.Before(y.at)
			}
		}
	}
	return false
}
