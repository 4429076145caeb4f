package forecast

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CSVOptions says how to read a series out of a table.
type CSVOptions struct {
	// Column is the name of the value column. Empty takes the only numeric column, or else the one named "value".
	Column string

	// Location is where times without a zone are, and where the series has its seasons. Nil means UTC.
	Location *time.Location

	// MissingWhere, as "column=value", makes a row missing where that column holds that value: production files mark
	// windows that were not collected so. Numbers are compared as numbers.
	MissingWhere string
}

const (
	csvStepsMax = 5_000_000 // a longer series comes from a typing error in a time, and would not fit in memory
	timeColumn  = "time"
	clockColumn = "t_s"
)

// ReadCSV reads a series from a table with a header. The first column holds the start of each step: either "time" (or a
// name that starts with it, as in "time_utc"), as RFC 3339 or 2006-01-02 15:04:05 with optional fractions, or "t_s", as
// seconds, which are taken to count from the Unix epoch. The other columns are values. An empty cell is a missing value,
// and so is an absent row.
//
// The step is the most frequent distance between consecutive rows (the smaller one on a tie); every row must lie on the
// grid that the first row and the step make. Rows must ascend. A time without a zone in the hour that an autumn change
// repeats can only mean one of the two (the hour of the other is missing then); write the zone to tell them apart.
//
// Values must be finite and not negative, and text such as NaN is an error: missing is an empty cell, so that a broken
// export is not taken for a gap.
//
// Every problem is reported at once with its line, up to twenty.
func ReadCSV(r io.Reader, opts CSVOptions) (Series, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return Series{}, fmt.Errorf("reading csv: %w", err)
	}
	t := &csvTable{opts: opts}
	if t.opts.Location == nil {
		t.opts.Location = time.UTC
	}
	if err := t.read(bytes.TrimPrefix(data, []byte("\ufeff"))); err != nil {
		return Series{}, err
	}
	column, err := t.column()
	if err != nil {
		return Series{}, err
	}
	missing, err := t.missingRule()
	if err != nil {
		return Series{}, err
	}
	times := t.times()
	values := t.values(column, missing)
	if len(t.problems) > 0 {
		return Series{}, t.err()
	}
	return t.grid(times, values)
}

// csvTable is a table being read.
type csvTable struct {
	opts     CSVOptions
	header   []string
	rows     [][]string
	lines    []int
	problems []error
	more     int
}

// problem notes one more problem of a line.
func (t *csvTable) problem(line int, format string, args ...any) {
	if len(t.problems) >= problemsMax {
		t.more++
		return
	}
	t.problems = append(t.problems, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...))
}

func (t *csvTable) err() error {
	if t.more > 0 {
		return errors.Join(append(t.problems, fmt.Errorf("and %d more problems", t.more))...)
	}
	return errors.Join(t.problems...)
}

// read splits the table. Text that is not UTF-8 is refused before anything else looks at it.
func (t *csvTable) read(data []byte) error {
	if !utf8.Valid(data) {
		for i, line := range bytes.Split(data, []byte("\n")) {
			if !utf8.Valid(line) {
				t.problem(i+1, "not UTF-8 text")
			}
		}
		return t.err()
	}
	c := csv.NewReader(bytes.NewReader(data))
	c.FieldsPerRecord = -1
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("line 1: empty file, must start with a header such as time,value")
	}
	if err != nil {
		return fmt.Errorf("reading csv: %w", err)
	}
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	t.header = header
	if first := header[0]; first != clockColumn && !strings.HasPrefix(first, timeColumn) {
		return fmt.Errorf("line 1: first column is %q, must be %s (or start with it) or %s", first, timeColumn, clockColumn)
	}
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading csv: %w", err)
		}
		line, _ := c.FieldPos(0)
		if len(row) != len(header) {
			t.problem(line, "%d cells, must be %d as in the header", len(row), len(header))
			continue
		}
		t.rows, t.lines = append(t.rows, row), append(t.lines, line)
	}
	if len(t.problems) > 0 {
		return t.err()
	}
	if len(t.rows) == 0 {
		return errors.New("line 1: a header and no rows")
	}
	return nil
}

// column finds the value column.
func (t *csvTable) column() (int, error) {
	names := t.header[1:]
	if t.opts.Column != "" {
		return t.named(t.opts.Column)
	}
	ruleColumn, _, _ := strings.Cut(t.opts.MissingWhere, "=")
	var numeric []int
	for i := range names {
		if names[i] != strings.TrimSpace(ruleColumn) && t.numeric(i+1) {
			numeric = append(numeric, i+1)
		}
	}
	switch {
	case len(numeric) == 1:
		return numeric[0], nil
	case len(names) == 1:
		return 1, nil // its cells say what is wrong with it
	case slices.Contains(names, "value"):
		return t.named("value")
	}
	return 0, fmt.Errorf("line 1: %d numeric columns, name one of %s", len(numeric), strings.Join(names, ", "))
}

// named finds a column by its name, or says which is near.
func (t *csvTable) named(name string) (int, error) {
	names := t.header[1:]
	if i := slices.Index(names, name); i >= 0 {
		if slices.Contains(names[i+1:], name) {
			return 0, fmt.Errorf("line 1: column %q appears twice", name)
		}
		return i + 1, nil
	}
	hint := ""
	if near := Nearest(name, names); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return 0, fmt.Errorf("line 1: no column %q%s, must be one of %s", name, hint, strings.Join(names, ", "))
}

// numeric reports whether every filled cell of a column is a number.
func (t *csvTable) numeric(column int) bool {
	for _, row := range t.rows {
		if cell := strings.TrimSpace(row[column]); cell != "" {
			if _, err := strconv.ParseFloat(cell, 64); err != nil {
				return false
			}
		}
	}
	return true
}

// missingRule parses MissingWhere into a test of a row.
func (t *csvTable) missingRule() (func(row []string) bool, error) {
	if t.opts.MissingWhere == "" {
		return func([]string) bool { return false }, nil
	}
	name, want, ok := strings.Cut(t.opts.MissingWhere, "=")
	if !ok {
		return nil, fmt.Errorf("missing-where is %q, must be column=value", t.opts.MissingWhere)
	}
	column, err := t.named(strings.TrimSpace(name))
	if err != nil {
		return nil, fmt.Errorf("missing-where: %w", err)
	}
	want = strings.TrimSpace(want)
	number, err := strconv.ParseFloat(want, 64)
	isNumber := err == nil
	return func(row []string) bool {
		cell := strings.TrimSpace(row[column])
		if isNumber {
			if v, err := strconv.ParseFloat(cell, 64); err == nil {
				return v == number
			}
		}
		return cell == want
	}, nil
}

// times parses the first column and checks that it ascends.
func (t *csvTable) times() []time.Time {
	out := make([]time.Time, len(t.rows))
	previous := -1
	for i, row := range t.rows {
		at, err := ParseTime(strings.TrimSpace(row[0]), t.header[0] == clockColumn, t.opts.Location)
		if err != nil {
			t.problem(t.lines[i], "%s: %w", t.header[0], err)
			continue
		}
		out[i] = at
		if previous >= 0 {
			switch before := out[previous]; {
			case at.Equal(before):
				t.problem(t.lines[i], "time %s appears again, first in line %d", row[0], t.lines[previous])
			case at.Before(before):
				t.problem(t.lines[i], "time %s is before that of line %d, rows must ascend", row[0], t.lines[previous])
			}
		}
		previous = i
	}
	return out
}

// ParseTime reads a time as series files hold it: seconds since the Unix epoch when asSeconds, else RFC 3339 or
// 2006-01-02 15:04:05, both with optional fractions of a second; without a zone it is in loc.
func ParseTime(text string, asSeconds bool, loc *time.Location) (time.Time, error) {
	if asSeconds {
		v, err := strconv.ParseFloat(text, 64)
		const secondsMax = 1e11 // some three thousand years; beyond, nanoseconds do not fit
		if err != nil || !(math.Abs(v) <= secondsMax) {
			return time.Time{}, fmt.Errorf("%q is not a number of seconds", text)
		}
		whole := math.Floor(v)
		return time.Unix(int64(whole), int64(math.Round((v-whole)*1e6))*1000).In(loc), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime} { // both accept fractions when parsing
		if at, err := time.ParseInLocation(layout, text, loc); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time, must be RFC 3339 or 2006-01-02 15:04:05", text)
}

// values parses the value column; NaN is missing.
func (t *csvTable) values(column int, missing func([]string) bool) []float64 {
	out := make([]float64, len(t.rows))
	for i, row := range t.rows {
		out[i] = math.NaN()
		cell := strings.TrimSpace(row[column])
		if cell == "" || missing(row) {
			continue
		}
		v, err := strconv.ParseFloat(cell, 64)
		switch name := t.header[column]; {
		case err != nil || math.IsNaN(v):
			t.problem(t.lines[i], "%s is %q, must be a number, or empty when missing", name, cell)
		case math.IsInf(v, 0):
			t.problem(t.lines[i], "%s is %q, must be finite", name, cell)
		case v < 0:
			t.problem(t.lines[i], "%s is %s, demand must not be negative", name, cell)
		default:
			out[i] = v
		}
	}
	return out
}

// grid places values on a regular grid.
func (t *csvTable) grid(times []time.Time, values []float64) (Series, error) {
	if len(times) < 2 {
		return Series{}, fmt.Errorf("line %d: one row only, at least two are needed to know the step", t.lines[0])
	}
	step := commonStep(times)
	for i, at := range times {
		if off := at.Sub(times[0]) % step; off != 0 {
			t.problem(t.lines[i], "time %s is %v off the grid of the step %v that most rows keep", t.rows[i][0], off, step)
		}
	}
	if len(t.problems) > 0 {
		return Series{}, t.err()
	}
	last := times[len(times)-1]
	n := int64(last.Sub(times[0])/step) + 1
	if n > csvStepsMax {
		return Series{}, fmt.Errorf("line %d: %s is %d steps of %v after the first row, must be fewer than %d",
			t.lines[len(times)-1], t.rows[len(times)-1][0], n, step, csvStepsMax)
	}
	s := Series{Start: times[0], Step: step, Values: make([]float64, n), Location: t.opts.Location}
	for i := range s.Values {
		s.Values[i] = math.NaN()
	}
	for i, at := range times {
		s.Values[at.Sub(times[0])/step] = values[i]
	}
	return s, nil
}

// commonStep returns the most frequent distance between consecutive times, the smaller one on a tie.
func commonStep(times []time.Time) time.Duration {
	counts := map[time.Duration]int{}
	for i := 1; i < len(times); i++ {
		counts[times[i].Sub(times[i-1])]++
	}
	var best time.Duration
	for d, n := range counts {
		if m := counts[best]; n > m || n == m && d < best {
			best = d
		}
	}
	return best
}
