package coldstart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	samplesBytesMax  = 64 << 20 // a samples file is typed or exported once, not streamed
	samplesErrorsMax = 50       // after so many problems the rest is only counted
)

// sampleFields are the fields of a record in a samples file.
var sampleFields = []string{"id", "model", "shape", "path", "started", "total_seconds", "outcome", "phases"}

// ReadSamples reads a samples file: starts that somebody timed before forewarm measured any. It is one JSON object per
// line (empty lines are skipped), or one JSON array of such objects:
//
//	{"id":"chat-7f9c","model":"chat-70b","shape":"4x1/H200","path":"warm_node","started":"2026-03-02T09:15:00Z",
//	 "total_seconds":214.5,"outcome":"served","phases":{"image_pull":93.5,"weight_load":61}}
//
// (one line in the file). All durations are in seconds. Needed are model, started (RFC 3339) and total_seconds. Outcome
// defaults to served, an absent path is PathUnknown, an absent id becomes "record-N", N counting records from 1. An
// unknown field, a null and a repeated id are problems, not ignored: a misspelt "phase" would lose data silently.
//
// The samples come back in file order. All problems are reported at once (the first 50 written out), each with its line
// (of an array element, the line where it begins); then no sample is returned. After a syntax error inside an array the
// rest of it cannot be read. No record at all is an error, as is more than 64 MiB.
func ReadSamples(r io.Reader) ([]Sample, error) {
	data, err := io.ReadAll(io.LimitReader(r, samplesBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}
	if len(data) > samplesBytesMax {
		return nil, fmt.Errorf("samples: more than %d MiB", samplesBytesMax>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var f samplesFile
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		f.readArray(data)
	} else {
		f.readLines(data)
	}
	if f.records == 0 && len(f.errs) == 0 {
		f.errs = append(f.errs, errors.New("no record: want one JSON object per line, or an array of them"))
	}
	if f.unlisted > 0 {
		f.errs = append(f.errs, fmt.Errorf("and %d more problems", f.unlisted))
	}
	if len(f.errs) > 0 {
		return nil, fmt.Errorf("samples: %w", errors.Join(f.errs...))
	}
	return f.samples, nil
}

// samplesFile collects what is read.
type samplesFile struct {
	samples  []Sample
	records  int
	lineOf   map[string]int // by ID
	errs     []error
	unlisted int
}

func (f *samplesFile) problem(line int, err error) {
	if len(f.errs) == samplesErrorsMax {
		f.unlisted++
		return
	}
	f.errs = append(f.errs, fmt.Errorf("line %d: %w", line, err))
}

func (f *samplesFile) readLines(data []byte) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if text = bytes.TrimSpace(text); len(text) > 0 {
			f.record(line, text)
		}
	}
}

func (f *samplesFile) readArray(data []byte) {
	d := json.NewDecoder(bytes.NewReader(data))
	line, counted := 1, 0
	lineAt := func(offset int) int { // offsets only grow, so the newlines are counted once
		line += bytes.Count(data[counted:offset], []byte("\n"))
		counted = offset
		return line
	}
	here := func() int {
		offset := int(d.InputOffset())
		rest := data[offset:]
		return lineAt(offset + len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,")))
	}
	if _, err := d.Token(); err != nil {
		f.problem(here(), err)
		return
	}
	for d.More() {
		at := here()
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			f.problem(at, fmt.Errorf("not JSON, the rest of the array is not read: %w", err))
			return
		}
		f.record(at, raw)
	}
	if _, err := d.Token(); err != nil {
		f.problem(here(), fmt.Errorf("the array does not end: %w", err))
		return
	}
	if rest := bytes.TrimSpace(data[d.InputOffset():]); len(rest) > 0 {
		f.problem(here(), fmt.Errorf("%.20q after the array: want nothing", rest))
	}
}

// record reads one object field by field, so that one bad field does not hide the next.
func (f *samplesFile) record(line int, text []byte) {
	f.records++
	if !utf8.Valid(text) {
		f.problem(line, errors.New("not valid UTF-8"))
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		f.problem(line, fmt.Errorf("%.40q: want a JSON object: %w", text, err))
		return
	}
	if fields == nil {
		f.problem(line, errors.New("null: want a JSON object"))
		return
	}
	r := recordReader{fields: fields}
	s := Sample{ID: fmt.Sprintf("record-%d", f.records), Outcome: Served}
	r.unknown()
	r.read("id", &s.ID, false, "a string")
	r.read("model", &s.Key.Model, true, "a string")
	r.read("shape", &s.Key.Shape, false, "a string")
	r.read("path", &s.Key.Path, false, "a string")
	r.read("started", &s.Started, true, "an RFC 3339 time such as 2026-03-02T09:15:00Z")
	r.read("outcome", &s.Outcome, false, "a string")
	s.Total = r.seconds("total_seconds")
	s.Phases = r.phases()
	r.errs = append(r.errs, r.invalid(s)...)
	if before, ok := f.lineOf[s.ID]; ok {
		r.problem("id %q: given before on line %d, want each once", s.ID, before)
	}
	for _, err := range r.errs {
		f.problem(line, err)
	}
	if f.lineOf == nil {
		f.lineOf = map[string]int{}
	}
	f.lineOf[s.ID] = line
	f.samples = append(f.samples, s)
}

// recordReader takes typed values out of one object and collects what is wrong.
type recordReader struct {
	fields map[string]json.RawMessage
	bad    []string // fields that could not be read, already reported
	errs   []error
}

// invalid reports what Sample.Validate would, except what follows from a field that could not be read.
func (r *recordReader) invalid(s Sample) []error {
	errs := s.Key.problems()
	if !slices.Contains(r.bad, "id") {
		errs = append(errs, s.idProblems()...)
	}
	if !slices.Contains(r.bad, "model") {
		errs = append(errs, s.modelProblems()...)
	}
	if !slices.Contains(r.bad, "started") {
		errs = append(errs, s.startedProblems()...)
	}
	if !slices.Contains(r.bad, "total_seconds") {
		errs = append(errs, s.totalProblems()...)
		errs = append(errs, s.phaseProblems()...)
	}
	return errs
}

func (r *recordReader) problem(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

func (r *recordReader) unknown() {
	var names []string
	for name := range r.fields {
		if !slices.Contains(sampleFields, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		r.problem("field %q: want one of %s", name, strings.Join(sampleFields, ", "))
	}
}

// read unmarshals a field into v and leaves v alone when the field is absent.
func (r *recordReader) read(name string, v any, needed bool, want string) {
	raw, ok := r.fields[name]
	if !ok {
		if needed {
			r.bad = append(r.bad, name)
			r.problem("%s is missing: want %s", name, want)
		}
		return
	}
	if string(raw) == "null" || json.Unmarshal(raw, v) != nil {
		r.bad = append(r.bad, name)
		r.problem("%s %.40s: want %s", name, raw, want)
	}
}

func (r *recordReader) seconds(name string) time.Duration {
	var x float64
	r.read(name, &x, true, "a number of seconds")
	if slices.Contains(r.bad, name) {
		return 0
	}
	return r.duration(name, x)
}

// duration converts seconds to the nearest nanosecond.
func (r *recordReader) duration(name string, seconds float64) time.Duration {
	if !(seconds >= 0 && seconds <= totalMax.Seconds()) {
		r.bad = append(r.bad, name)
		r.problem("%s %v: want 0 to %.0f seconds", name, seconds, totalMax.Seconds())
		return 0
	}
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

func (r *recordReader) phases() map[Phase]time.Duration {
	var of map[Phase]*float64
	r.read("phases", &of, false, `an object of seconds such as {"image_pull": 93.5}`)
	if len(of) == 0 {
		return nil
	}
	out := map[Phase]time.Duration{}
	for _, p := range slices.Sorted(maps.Keys(of)) {
		if of[p] == nil {
			r.problem("phases %s null: want a number of seconds", p)
			continue
		}
		out[p] = r.duration("phases "+string(p), *of[p])
	}
	return out
}
