package trace

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"forewarm/sim"
)

// Reader yields the requests of one trace in order.
type Reader struct {
	rows    rows
	model   string
	last    time.Time
	lastAt  int // line of last
	skipped int
}

// rows reads one form: the next row with its line, or io.EOF.
type rows interface {
	next() (row, error)
}

// row is one request as it is written.
type row struct {
	line               int
	at                 time.Time
	model              string
	prompt, completion int64
}

// tokensMax is the longest request that is believed.
const tokensMax = 10_000_000

// problemsMax is how many problems are reported at once.
const problemsMax = 20

// errRow marks a problem of one row, after which the next can be read.
type errRow struct{ error }

// NewReader reads the trace in r. model, unless empty, leaves out the requests to others where the trace names models.
func NewReader(r io.Reader, model string) (*Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(head) == 0:
		return nil, errors.New("line 1: empty file, a header or a line of JSON is needed")
	case strings.ContainsRune(string(head), 0):
		return nil, errors.New("line 1: NUL bytes, the file is not UTF-8 text (UTF-16 perhaps)")
	case len(head) > 3 && head[0] == 0xEF && head[1] == 0xBB && head[2] == 0xBF:
		if _, err := buffered.Discard(3); err != nil {
			return nil, err
		}
		head = head[3:]
	}
	line, _, _ := strings.Cut(string(head), "\n")
	if !utf8.ValidString(line) {
		return nil, errors.New("line 1: not UTF-8 text")
	}
	if strings.HasPrefix(strings.TrimSpace(line), "{") {
		return &Reader{rows: &jsonRows{scan: bufio.NewScanner(buffered)}, model: model}, nil
	}
	table, err := newTable(buffered)
	if err != nil {
		return nil, err
	}
	return &Reader{rows: table, model: model}, nil
}

// Skipped is how many rows had no tokens.
func (r *Reader) Skipped() int { return r.skipped }

// Next is the next request, or io.EOF. Any other error is about the trace, and final.
func (r *Reader) Next() (sim.Request, error) {
	for {
		x, err := r.rows.next()
		if err == nil {
			err = r.check(x)
		}
		var bad errRow
		switch {
		case errors.As(err, &bad):
			return sim.Request{}, r.rest(bad)
		case err != nil:
			return sim.Request{}, err
		case x.prompt == 0 || x.completion == 0:
			r.skipped++
			continue
		case r.model != "" && x.model != "" && x.model != r.model:
			continue
		}
		return sim.Request{At: x.at, Prompt: int(x.prompt), Completion: int(x.completion), Client: sim.Everyone}, nil
	}
}

// rest collects further problems behind the first.
func (r *Reader) rest(first errRow) error {
	errs := []error{first.error}
	for len(errs) < problemsMax {
		x, err := r.rows.next()
		if err == nil {
			err = r.check(x)
		}
		var bad errRow
		if errors.As(err, &bad) {
			errs = append(errs, bad.error)
		} else if err != nil {
			break
		}
	}
	if len(errs) == problemsMax {
		errs = append(errs, errors.New("and perhaps more"))
	}
	return errors.Join(errs...)
}

func (r *Reader) check(x row) error {
	for _, tokens := range []int64{x.prompt, x.completion} {
		if tokens < 0 || tokens > tokensMax {
			return errRow{fmt.Errorf("line %d: %d tokens: 0 to %d are allowed", x.line, tokens, tokensMax)}
		}
	}
	if x.at.Before(r.last) {
		return errRow{fmt.Errorf("line %d: the time %s is before that of line %d, %s: rows in order of time are allowed", x.line,
			x.at.Format(time.RFC3339Nano), r.lastAt, r.last.Format(time.RFC3339Nano))}
	}
	r.last, r.lastAt = x.at, x.line
	return nil
}

// table reads the CSV forms.
type table struct {
	csv                            *csv.Reader
	time, model, prompt, completed int // columns; model -1 when there is none
	seconds                        bool
}

// columns names, in lower case, what a column holds; the empty kind is known and not needed.
var columns = map[string]string{
	"timestamp": "time", "time": "time", "t_s": "seconds",
	"contexttokens": "prompt", "request tokens": "prompt", "prompt_tokens": "prompt",
	"generatedtokens": "completion", "response tokens": "completion", "completion_tokens": "completion",
	"model": "model", "total tokens": "", "log type": "", "session id": "", "elapsed time": "",
}

func newTable(r io.Reader) (*table, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	t := &table{csv: c, time: -1, model: -1, prompt: -1, completed: -1}
	var errs []error
	for i, name := range header {
		kind, known := columns[strings.ToLower(strings.TrimSpace(name))]
		if !known {
			errs = append(errs, fmt.Errorf("line 1: unknown column %q: those of the azure, burstgpt and plain forms are allowed", name))
		}
		switch kind {
		case "time":
			t.time = i
			t.seconds = name == "Timestamp" // of BurstGPT; Azure writes capitals
		case "seconds":
			t.time, t.seconds = i, true
		case "prompt":
			t.prompt = i
		case "completion":
			t.completed = i
		case "model":
			t.model = i
		}
	}
	if t.time < 0 || t.prompt < 0 || t.completed < 0 {
		errs = append(errs, fmt.Errorf("line 1: the columns are %s: a time, prompt tokens and completion tokens are needed",
			strings.Join(header, ", ")))
	}
	return t, errors.Join(errs...)
}

func (t *table) next() (row, error) {
	record, err := t.csv.Read()
	var form *csv.ParseError
	if errors.As(err, &form) {
		return row{}, errRow{fmt.Errorf("line %d: %w", form.Line, form.Err)}
	}
	if err != nil {
		return row{}, err
	}
	line, _ := t.csv.FieldPos(0)
	x := row{line: line}
	if t.model >= 0 {
		x.model = strings.Clone(record[t.model])
	}
	if x.at, err = t.instant(record[t.time]); err == nil {
		if x.prompt, err = tokens(record[t.prompt]); err == nil {
			x.completion, err = tokens(record[t.completed])
		}
	}
	if err != nil {
		return row{}, errRow{fmt.Errorf("line %d: %w", line, err)}
	}
	return x, nil
}

func (t *table) instant(text string) (time.Time, error) {
	if t.seconds {
		s, err := strconv.ParseFloat(text, 64)
		if err != nil || !(s >= 0 && s < 1e10) {
			return time.Time{}, fmt.Errorf("the time is %q: seconds from 0 are allowed", text)
		}
		return secondsAfterEpoch(s), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("the time is %q: 2006-01-02 15:04:05 with or without a fraction and a zone is allowed", text)
}

// secondsAfterEpoch is the instant of a trace that counts from its own start.
func secondsAfterEpoch(s float64) time.Time {
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(part*1e9)).UTC()
}

func tokens(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, ".0"), 10, 64) // pandas writes counts so
	if err != nil {
		return 0, fmt.Errorf("the tokens are %q: a whole number is allowed", text)
	}
	return n, nil
}

// jsonRows reads lines of JSON.
type jsonRows struct {
	scan *bufio.Scanner
	line int
}

func (j *jsonRows) next() (row, error) {
	for {
		if !j.scan.Scan() {
			if err := j.scan.Err(); err != nil {
				return row{}, fmt.Errorf("line %d: %w", j.line+1, err)
			}
			return row{}, io.EOF
		}
		j.line++
		if len(strings.TrimSpace(j.scan.Text())) == 0 {
			continue
		}
		var x struct {
			Timestamp *float64 `json:"timestamp"`
			Input     *int64   `json:"input_length"`
			Output    *int64   `json:"output_length"`
		}
		if err := json.Unmarshal(j.scan.Bytes(), &x); err != nil {
			return row{}, errRow{fmt.Errorf("line %d: %w", j.line, err)}
		}
		if x.Timestamp == nil || x.Input == nil || x.Output == nil || !(*x.Timestamp >= 0 && *x.Timestamp < 1e13) {
			return row{}, errRow{fmt.Errorf("line %d: timestamp (ms, from 0), input_length and output_length are needed", j.line)}
		}
		return row{line: j.line, at: secondsAfterEpoch(*x.Timestamp / 1000), prompt: *x.Input, completion: *x.Output}, nil
	}
}
