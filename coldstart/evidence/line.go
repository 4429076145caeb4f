package evidence

import (
	"bytes"
	"time"
)

// A line is one line of a log, taken apart. Slices point into the line.
type line struct {
	message []byte
	rfc     []byte // RFC 3339 time: of kubectl --timestamps, a CRI log file, or the engine itself
	clock   []byte // the engine's own clock without a zone: "12-01 18:21:50", "2025-08-13 14:27:06"
	elapsed []byte // time since the process began, as llama.cpp prints it: "0.07.611.221"
	rank    []byte // who of several processes wrote it
	pod     []byte // of kubectl --prefix: "pod/name/container"
}

// split takes the prefixes off a line: ANSI colours, markdown quoting and list marks, "[pod/name/container]" and the time of
// kubectl, CRI's "stdout F", "name |" of compose, a syslog header, "(EngineCore_DP0 pid=12)", level, the engine's clock,
// and "[file.py:12]" or "file.py:12]". What is left is the message. It looks at no byte twice and allocates nothing.
func split(b []byte) line {
	var l line
	for len(b) > 0 {
		n := 0
		switch c := b[0]; {
		case c == ' ', c == '\t', c == '>', c == '|', c == '`', c == '*', c == '\r':
			n = 1
		case c == 0x1b:
			n = escapeLen(b)
		case c == '(':
			n = l.parenthesis(b)
		case c == '[':
			n = l.bracket(b)
		case c == '{' && l.message == nil:
			if inner := l.json(b); inner != nil {
				b = inner
				continue
			}
		case c >= '0' && c <= '9':
			n = l.stamp(b)
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '_':
			n = l.word(b)
		case c == '-' && len(b) > 1 && b[1] == ' ':
			n = 2
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	l.message = bytes.TrimRight(b, " \t\r\n`")
	return l
}

// escapeLen is the length of the ANSI sequence that b begins with.
func escapeLen(b []byte) int {
	if len(b) < 2 || b[1] != '[' {
		return 1
	}
	for i := 2; i < len(b) && i < 32; i++ {
		if b[i] >= '@' && b[i] <= '~' {
			return i + 1
		}
	}
	return 1
}

// prefixMax bounds every single prefix, so that a message in brackets is not read to its end to find that it is none.
const prefixMax = 256

// parenthesis takes "(VllmWorker rank=1 pid=9)", "(EngineCore_DP0 pid=12)", "(RayWorkerWrapper pid=7, ip=10.0.0.2)".
func (l *line) parenthesis(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), prefixMax)], ')')
	if end < 0 {
		return 0
	}
	l.rank = b[1:end]
	return end + 1
}

// bracket takes "[pod/name/container]", "[2025-08-13 14:27:06 TP0]", "[gpu_id=0]", "[core.py:58]".
func (l *line) bracket(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), prefixMax)], ']')
	if end < 0 {
		return 0
	}
	inside := b[1:end]
	switch {
	case bytes.HasPrefix(inside, []byte("pod/")):
		l.pod = inside
	case bytes.HasPrefix(inside, []byte("gpu_id=")):
		l.rank = inside
	case len(inside) > 0 && inside[0] >= '0' && inside[0] <= '9':
		if n := l.stamp(inside); n > 0 {
			if rest := bytes.TrimSpace(inside[n:]); len(rest) > 0 {
				l.rank = rest
			}
		}
	}
	return end + 1
}

// stamp takes a time of one of the forms that line lists.
func (l *line) stamp(b []byte) int {
	digit := func(i int) bool { return i < len(b) && b[i] >= '0' && b[i] <= '9' }
	fraction := func(i int) int {
		if i < len(b) && (b[i] == '.' || b[i] == ',') && digit(i+1) {
			for i++; digit(i); i++ {
			}
		}
		return i
	}
	switch {
	case len(b) >= 20 && b[4] == '-' && b[7] == '-' && b[10] == 'T' && b[13] == ':':
		end := bytes.IndexByte(b[:min(len(b), 40)], ' ')
		if end < 0 {
			end = min(len(b), 40)
		}
		if l.rfc == nil { // the outermost: of whoever collected the log, whose clock is the cluster's
			l.rfc = b[:end]
		}
		return end
	case len(b) >= 19 && b[4] == '-' && b[7] == '-' && b[10] == ' ' && b[13] == ':' && b[16] == ':':
		end := fraction(19)
		l.clock = b[:end]
		return end
	case len(b) >= 14 && b[2] == '-' && b[5] == ' ' && b[8] == ':' && b[11] == ':':
		end := fraction(14)
		l.clock = b[:end]
		return end
	}
	dots, i := 0, 0
	for ; i < len(b) && i < 20 && (digit(i) || b[i] == '.'); i++ {
		if b[i] == '.' {
			dots++
		}
	}
	if dots == 3 && i < len(b) && b[i] == ' ' {
		l.elapsed = b[:i]
		return i
	}
	return 0
}

// word takes a level, a source ("model_runner.py:1060]", "text_generation_router:"), CRI's stream and tag, a syslog
// header, the name that compose puts before a bar, and llama.cpp's "srv".
func (l *line) word(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), prefixMax)], ' ')
	if end <= 0 {
		return 0
	}
	switch w := b[:end]; {
	case w[end-1] == ':', w[end-1] == ']' && bytes.IndexByte(w, ':') > 0:
		return end
	case isLevel(w), string(w) == "srv", string(w) == "cmn":
		return end
	case end == 1 && l.elapsed != nil: // llama.cpp's level
		return end
	case string(w) == "stdout", string(w) == "stderr":
		if len(b) > end+2 && (b[end+1] == 'F' || b[end+1] == 'P') && b[end+2] == ' ' {
			return end + 2
		}
		return end
	case end == 3 && isSyslog(b):
		return syslogLen(b)
	}
	after := bytes.TrimLeft(b[end:], " ")
	if len(after) > 1 && after[0] == '|' && after[1] == ' ' {
		return len(b) - len(after) + 1
	}
	return 0
}

func isLevel(w []byte) bool {
	switch string(w) {
	case "INFO", "WARN", "WARNING", "ERROR", "DEBUG", "CRITICAL", "FATAL", "TRACE":
		return true
	}
	return false
}

// isSyslog tells "Feb 22 06:35:18 host vllm[2827]: " by its shape. Its time has neither year nor zone and the engine's own
// follows, so it is not kept.
func isSyslog(b []byte) bool {
	return len(b) > 16 && b[6] == ' ' && b[9] == ':' && b[12] == ':' && b[15] == ' ' && b[4] <= '9'
}

func syslogLen(b []byte) int {
	if end := bytes.Index(b[:min(len(b), prefixMax)], []byte(": ")); end > 0 {
		return end + 1
	}
	return 15
}

// json takes a line that a collector wrapped: {"log":"…","time":"…"} of the Docker driver, or the engine's own
// {"timestamp":"…","level":"INFO","message":"…"}. It returns the message, or nil. Escapes other than of quotes are left
// as they are: no message that is looked for has any.
func (l *line) json(b []byte) []byte {
	message := jsonText(b, `"message":"`)
	if message == nil {
		message = jsonText(b, `"log":"`)
	}
	if message == nil {
		return nil
	}
	for _, name := range []string{`"timestamp":"`, `"time":"`} {
		if t := jsonText(b, name); len(t) > 0 && t[0] >= '0' && t[0] <= '9' {
			l.stamp(t)
			break
		}
	}
	l.message = message // so that a message in braces is not unwrapped again
	return bytes.TrimSuffix(message, []byte(`\n`))
}

func jsonText(b []byte, name string) []byte {
	_, rest, found := bytes.Cut(b, []byte(name))
	if !found {
		return nil
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[:i]
		}
	}
	return nil
}

// clockKind says what a time that was read is worth.
type clockKind uint8

const (
	noClock  clockKind = iota
	absolute           // date, time and zone
	zoneless           // no zone; UTC was assumed
	yearless           // neither year nor zone; year 2000 was assumed, which has a 29 February
	relative           // since the process began; from the zero of Unix time
)

// time is when the line was written, from the best of its clocks.
func (l *line) time() (time.Time, clockKind) {
	if l.rfc != nil {
		if t, err := time.Parse(time.RFC3339Nano, string(l.rfc)); err == nil && t.Year() > 0 {
			return t.UTC(), absolute
		}
	}
	if l.clock != nil {
		text := string(bytes.Replace(l.clock, []byte(","), []byte("."), 1))
		if len(text) >= 19 && text[4] == '-' {
			if t, err := time.Parse("2006-01-02 15:04:05", text); err == nil && t.Year() > 0 {
				return t, zoneless
			}
		} else if t, err := time.Parse("2006-01-02 15:04:05", "2000-"+text); err == nil {
			return t, yearless
		}
	}
	if l.elapsed != nil {
		if d, ok := elapsedTime(l.elapsed); ok {
			return time.Unix(0, 0).UTC().Add(d), relative
		}
	}
	return time.Time{}, noClock
}

// elapsedTime reads minutes.seconds.milliseconds.microseconds.
func elapsedTime(b []byte) (time.Duration, bool) {
	var d time.Duration
	units := []time.Duration{time.Minute, time.Second, time.Millisecond, time.Microsecond}
	parts := bytes.Split(b, []byte("."))
	if len(parts) != len(units) {
		return 0, false
	}
	for i, p := range parts {
		n := 0
		for _, c := range p {
			n = n*10 + int(c-'0')
			if c < '0' || c > '9' || n > 1e6 {
				return 0, false
			}
		}
		d += time.Duration(n) * units[i]
	}
	return d, true
}
