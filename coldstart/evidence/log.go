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
	// marksMax bounds what is kept of one file. A start leaves about 30 lines per rank.
	marksMax = 30_000
	// logsMax bounds the pods of one log with the prefixes of kubectl.
	logsMax = 10_000
	// doneMax is how many answers are kept per attempt: the first in time among those that were written first.
	doneMax = 16
	// ranksMax bounds the processes of one log.
	ranksMax = 10_000
)

// A Log is what one engine's log says about its starts: a few lines of it. Several files of one engine are one log (Join).
type Log struct {
	Name string // of the file
	// Pod is "name" when the lines carry kubectl's prefix, else "".
	Pod     string
	marks   []mark
	Dropped int // lines of evidence that were not kept, of the oldest attempts first

	kept    *int               // marks of all logs of the file
	ranks   map[string]*string // each once
	endless bool               // no attempt begins in the newer half of the marks
	// The state of the attempt that is being read.
	up      bool
	dones   int
	engine  string
	stamped bool
	last    line // with copies of the newest time, for lines that have none
	stamps  [2][40]byte
}

// A mark is one line that is evidence. It is small, because there may be many.
type mark struct {
	*pattern // what it says of phase, engine and caches; shared
	at       time.Time
	took     time.Duration
	rank     *string // shared; nil is ""
	detail   *detail // nil when it says nothing more
	clock    clockKind
	exact    bool // at is of the line itself, not of one before it
}

// detail is what only a few lines say.
type detail struct {
	inside  time.Duration // of took, what the line itself says was compilation
	server  bool          // a start that the server itself logs, once; the others every engine process of it logs
	version string
	model   string
	tokens  int
}

// more is the detail of a mark, zero when it has none.
func (m *mark) more() detail {
	if m.detail == nil {
		return detail{}
	}
	return *m.detail
}

// Patterns of lines that are recognised otherwise.
var (
	firstLine    = &pattern{kind: first}
	answerLine   = &pattern{kind: done}
	sglangWarmUp = &pattern{kind: begin, phase: coldstart.WarmUp, engine: sglang}
)

// ReadLog reads an engine's log of any length as a stream: one Log, or one per pod when the lines carry kubectl's
// prefix. Lines that are no evidence are skipped. Name is what errors and notes call it. It allocates for evidence only,
// and reads with a buffer of 256 KiB.
func ReadLog(r io.Reader, name string) ([]*Log, error) {
	logs, kept := map[string]*Log{}, 0
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
					current = &Log{Name: name, Pod: string(pod), kept: &kept, ranks: map[string]*string{}}
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
		l.add(ln, mark{pattern: answerLine})
		return
	case !l.stamped && (ln.rfc != nil || ln.clock != nil || ln.elapsed != nil):
		l.add(ln, mark{pattern: firstLine})
		return
	}
	l.remember(ln)
	if p == nil {
		return
	}
	if p.kind == up && p.engine == "" && l.engine == sglang { // its warm-up request comes now
		p = sglangWarmUp
	}
	if l.up && p.kind != start && p.kind != begin && p.kind != part && p.kind != total && p.kind != end {
		return
	}
	m := mark{pattern: p}
	if !m.fill(ln.message) {
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
	if p.also != nil {
		l.add(ln, mark{pattern: p.also})
	}
}

// fill reads what the message of a pattern says; ok is false when it is cut off before its number.
func (m *mark) fill(message []byte) (ok bool) {
	p := m.pattern
	if p.kind == part || p.kind == total {
		if m.took, ok = p.took(message); !ok {
			return false
		}
	}
	var d detail
	switch p.starts {
	case "init engine (":
		d.inside, _ = seconds([]byte(between(message, "(compilation: ", ")")))
		d.inside = min(d.inside, m.took)
	case "vLLM API server version":
		d.server = true
		d.version = strings.TrimSpace(string(message[len(p.starts):min(len(message), len(p.starts)+prefixMax)]))
	case "Initializing a":
		d.version = between(message, "LLM engine (v", ")")
		d.model = between(message, "model='", "'")
	case "server_args=ServerArgs(", "Args {":
		d.server = true
		d.model = between(message, "model_path='", "'")
	case "# GPU blocks:", "# cuda blocks:", "GPU KV cache size:":
		d.tokens = tokens(message[len(p.starts):])
	}
	if d != (detail{}) {
		m.detail = &d
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
	if *l.kept >= marksMax && !l.forget(m.more().server) {
		l.Dropped++
		return
	}
	*l.kept++
	m.at, m.clock = ln.time()
	m.exact = m.clock != noClock
	if !m.exact && m.kind == up {
		m.at, m.clock = l.last.time()
	}
	l.stamped = l.stamped || m.exact
	m.rank = l.rank(rankOf(ln))
	l.marks = append(l.marks, m)
}

// forget makes room: it drops attempts, the oldest first, at least half of the log. What is kept begins where a server does,
// so that no attempt loses its beginning. ok is false when there is no such place, unless next is one.
func (l *Log) forget(next bool) (ok bool) {
	at := len(l.marks)
	if !l.endless {
		for i := max(1, at/2); i < at; i++ {
			if l.marks[i].more().server {
				at = i
			}
		}
	}
	if l.endless = at == len(l.marks) && !next; l.endless || at == 0 {
		return false
	}
	l.Dropped += at
	*l.kept -= at
	l.marks = l.marks[:copy(l.marks, l.marks[at:])]
	return true
}

// rank is one copy of a name.
func (l *Log) rank(name []byte) *string {
	if len(name) == 0 {
		return nil
	}
	if known := l.ranks[string(name)]; known != nil {
		return known
	}
	if len(l.ranks) == ranksMax { // of a log that is none
		return nil
	}
	s := string(name)
	l.ranks[s] = &s
	return &s
}

// rankOf is who wrote a line, as far as it says: TGI at its end, the others in front.
func rankOf(ln *line) []byte {
	if i := bytes.LastIndex(ln.message, []byte(" rank=")); i >= 0 && len(ln.message)-i < 16 {
		return ln.message[i+1:]
	}
	return ln.rank
}

// Join makes one log per pod of several files: parts of a log that was rotated, in whatever order they are given. It
// keeps those without a pod apart only if apart is set.
func Join(logs []*Log, name func(*Log) string) []*Log {
	var out []*Log
	for _, l := range logs {
		i := slices.IndexFunc(out, func(o *Log) bool { return name(o) == name(l) })
		if i < 0 {
			c := *l
			c.marks = slices.Clip(l.marks)
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
