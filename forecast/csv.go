package forecast

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
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
	csvValueMax = 1e100     // squares and sums of what is larger overflow
	timeColumn  = "time"
	clockColumn = "t_s"
)

// ReadCSV reads a series from a table with a header. The first column holds the start of each step: either "time" (or
// a name that starts with it, as in "time_utc"), as RFC 3339 or 2006-01-02 15:04:05 with optional fractions, or
// "t_s", as seconds, which are taken to count from the Unix epoch. The other columns are values. An empty cell is a
// missing value, and so is an absent row.
//
// The step is the most frequent distance between consecutive rows (the smaller one on a tie); every row must lie on the
// grid that the first row and the step make. Rows must ascend. A time without a zone in the hour that an autumn change
// repeats can only mean one of the two (the hour of the other is missing then); write the zone to tell them apart.
//
// Values must be finite, not negative and at most 1e100, and text such as NaN is an error: missing is an empty cell, so
// that a broken export is not taken for a gap.
//
// Every problem is reported at once with its line, up to twenty. The table is read row by row: it takes 16 bytes a row
// and numeric column (of one column when opts names it), never the text of all rows.
func ReadCSV(r io.Reader, opts CSVOptions) (Series, error) {
	if opts.Location == nil {
		opts.Location = time.UTC
	}
	text := newUTF8Reader(r)
	t := &csvTable{opts: opts}
	err := t.read(text)
	if bad := text.err(); bad != nil {
		return Series{}, bad // nothing else that is wrong with such text says anything
	}
	if err != nil {
		return Series{}, err
	}
	c, err := t.choose()
	if err != nil {
		return Series{}, err
	}
	t.problems.add(c.problems)
	if err := t.problems.err(); err != nil {
		return Series{}, err
	}
	return t.grid(c.values)
}

// csvTable is a table being read.
type csvTable struct {
	opts     CSVOptions
	header   []string
	columns  []*csvColumn
	missing  func(row []string) bool
	times    []int64 // of the rows that have one, in nanoseconds since the Unix epoch
	lines    []csvLine
	problems csvProblems
}

// csvLine says in which line of the file a row is. The rows that follow it are in the lines that follow, up to the
// next.
type csvLine struct{ row, line int }

// csvColumn is one column that may be the value column.
type csvColumn struct {
	index    int
	name     string
	wanted   bool      // also when it is not numeric, so that its cells say what is wrong with it
	numeric  bool      // every filled cell is a number
	values   []float64 // NaN is missing
	problems csvProblems
}

// csvProblems are problems by line, of which the first few are kept.
type csvProblems struct {
	list []csvProblem
	more int
}

type csvProblem struct {
	line int
	err  error
}

func (p *csvProblems) note(line int, format string, args ...any) {
	if len(p.list) >= problemsMax {
		p.more++
		return
	}
	p.list = append(p.list, csvProblem{line, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...)})
}

// add takes in the problems of a part, in the order of lines.
func (p *csvProblems) add(o csvProblems) {
	p.list = append(p.list, o.list...)
	slices.SortStableFunc(p.list, func(a, b csvProblem) int { return cmp.Compare(a.line, b.line) })
	p.more += o.more
	if n := len(p.list); n > problemsMax {
		p.list, p.more = p.list[:problemsMax], p.more+n-problemsMax
	}
}

func (p *csvProblems) err() error {
	var errs []error
	for _, q := range p.list {
		errs = append(errs, q.err)
	}
	if p.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more problems", p.more))
	}
	return errors.Join(errs...)
}

// read takes in the whole table. The error is about the table as such; problems of rows are noted.
func (t *csvTable) read(text io.Reader) error {
	c := csv.NewReader(text)
	c.FieldsPerRecord = -1
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("line 1: empty file, must start with a header such as time,value")
	}
	if err != nil {
		return fmt.Errorf("reading csv: %w", err)
	}
	if len(header) < 2 {
		return errors.New("line 1: one column, must be a time and at least one value")
	}
	if err := t.begin(header); err != nil {
		return err
	}
	c.ReuseRecord = true
	rows := 0
	for ; ; rows++ {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(t.problems.err(), fmt.Errorf("reading csv: %w", err))
		}
		line, _ := c.FieldPos(0)
		t.row(row, line)
	}
	if rows == 0 {
		return errors.New("line 1: a header and no rows")
	}
	return nil
}

// begin looks at the header and decides which columns to read.
func (t *csvTable) begin(header []string) error {
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	t.header = slices.Clone(header)
	if first := header[0]; first != clockColumn && !strings.HasPrefix(first, timeColumn) {
		return fmt.Errorf("line 1: first column is %q, must be %s (or start with it) or %s", first, timeColumn, clockColumn)
	}
	var err error
	if t.missing, err = t.missingRule(); err != nil {
		return err
	}
	if t.opts.Column != "" {
		i, err := t.named(t.opts.Column)
		if err != nil {
			return err
		}
		t.columns = []*csvColumn{{index: i, name: t.header[i], wanted: true, numeric: true}}
		return nil
	}
	rule, _, _ := strings.Cut(t.opts.MissingWhere, "=")
	names := t.header[1:]
	for i, name := range names {
		if name != strings.TrimSpace(rule) || len(names) == 1 {
			wanted := len(names) == 1 || name == "value"
			t.columns = append(t.columns, &csvColumn{index: i + 1, name: name, numeric: true, wanted: wanted})
		}
	}
	return nil
}

// row takes in one row.
func (t *csvTable) row(row []string, line int) {
	if len(row) != len(t.header) {
		t.problems.note(line, "%d cells, must be %d as in the header", len(row), len(t.header))
		return
	}
	at, err := ParseTime(strings.TrimSpace(row[0]), t.header[0] == clockColumn, t.opts.Location)
	if err != nil {
		t.problems.note(line, "%s: %w", t.header[0], err)
	} else {
		t.addTime(at.UnixNano(), row[0], line)
	}
	missing := t.missing(row)
	for _, c := range t.columns {
		c.add(row[c.index], missing, line, err == nil)
	}
}

// addTime notes the time of the next row and checks that it ascends.
func (t *csvTable) addTime(at int64, text string, line int) {
	n := len(t.times)
	if n > 0 {
		switch before := t.times[n-1]; {
		case at == before:
			t.problems.note(line, "time %s appears again, first in line %d", text, t.lineOf(n-1))
		case at < before:
			t.problems.note(line, "time %s is before that of line %d, rows must ascend", text, t.lineOf(n-1))
		}
	}
	if n == 0 || t.lineOf(n) != line {
		t.lines = append(t.lines, csvLine{n, line})
	}
	t.times = append(t.times, at)
}

// lineOf returns the line of a row with a time.
func (t *csvTable) lineOf(row int) int {
	if len(t.lines) == 0 {
		return 0
	}
	at := t.lines[sort.Search(len(t.lines), func(i int) bool { return t.lines[i].row > row })-1]
	return at.line + row - at.row
}

// add takes in one cell. Cells of rows without a time are looked at and not kept.
func (c *csvColumn) add(cell string, missing bool, line int, keep bool) {
	if !c.numeric && !c.wanted {
		return
	}
	v := math.NaN()
	if cell = strings.TrimSpace(cell); cell != "" {
		parsed, err := strconv.ParseFloat(cell, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			if c.numeric = false; !c.wanted {
				c.values, c.problems = nil, csvProblems{}
				return
			}
		}
		if !missing {
			v = c.check(cell, parsed, err, line)
		}
	}
	if keep {
		c.values = append(c.values, v)
	}
}

// check returns a value, or notes what is wrong with it.
func (c *csvColumn) check(cell string, v float64, err error, line int) float64 {
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && !math.IsInf(v, 0) && v > csvValueMax:
		c.problems.note(line, "%s is %s, must be at most %v", c.name, cell, csvValueMax)
	case err != nil || math.IsNaN(v):
		c.problems.note(line, "%s is %q, must be a number, or empty when missing", c.name, cell)
	case math.IsInf(v, 0):
		c.problems.note(line, "%s is %q, must be finite", c.name, cell)
	case v < 0:
		c.problems.note(line, "%s is %s, demand must not be negative", c.name, cell)
	default:
		return v
	}
	return math.NaN()
}

// choose finds the value column among those that were read.
func (t *csvTable) choose() (*csvColumn, error) {
	if t.opts.Column != "" || len(t.header) == 2 {
		return t.columns[0], nil
	}
	var numeric []*csvColumn
	var named *csvColumn
	for _, c := range t.columns {
		if c.numeric {
			numeric = append(numeric, c)
		}
		if c.name == "value" {
			named = c
		}
	}
	switch {
	case len(numeric) == 1:
		return numeric[0], nil
	case named != nil:
		_, err := t.named("value")
		return named, err
	}
	return nil, fmt.Errorf("line 1: %d numeric columns, name one of %s", len(numeric), strings.Join(t.header[1:], ", "))
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

const (
	yearMin, yearMax = 1700, 2250
	secondsMax       = 8.5e9 // about the year 2239, and as far before 1970
)

// ParseTime reads a time as series files hold it: seconds since the Unix epoch when asSeconds, else RFC 3339 or
// 2006-01-02 15:04:05, both with optional fractions of a second; without a zone it is in loc. Years from 1700 to 2250
// are allowed, whose nanoseconds fit into 64 bits.
func ParseTime(text string, asSeconds bool, loc *time.Location) (time.Time, error) {
	if asSeconds {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(v) {
			return time.Time{}, fmt.Errorf("%q is not a number of seconds", text)
		}
		if math.Abs(v) > secondsMax {
			return time.Time{}, fmt.Errorf("%q is out of range, must be from %.0f to %.0f seconds", text, -secondsMax,
				secondsMax)
		}
		whole := math.Floor(v)
		return time.Unix(int64(whole), int64(math.Round((v-whole)*1e6))*1000).In(loc), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime} { // both accept fractions when parsing
		at, err := time.ParseInLocation(layout, text, loc)
		if err != nil {
			continue
		}
		if y := at.Year(); y < yearMin || y > yearMax {
			return time.Time{}, fmt.Errorf("%q is out of range, must be from the year %d to %d", text, yearMin, yearMax)
		}
		return at, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time, must be RFC 3339 or 2006-01-02 15:04:05", text)
}

// grid places values on a regular grid.
func (t *csvTable) grid(values []float64) (Series, error) {
	if len(t.times) < 2 {
		return Series{}, fmt.Errorf("line %d: one row only, at least two are needed to know the step", t.lineOf(0))
	}
	first, last := t.times[0], t.times[len(t.times)-1]
	step := commonStep(t.times)
	for i, at := range t.times {
		if off := time.Duration((at - first) % int64(step)); off != 0 {
			t.problems.note(t.lineOf(i), "time %s is %v off the grid of the step %v that most rows keep: "+
				"rows must keep one step, absent ones are missing", t.text(at), off, step)
		}
	}
	if err := t.problems.err(); err != nil {
		return Series{}, err
	}
	n := (last-first)/int64(step) + 1
	if n > csvStepsMax {
		return Series{}, fmt.Errorf("line %d: %s is %d steps of %v after the first row, must be fewer than %d",
			t.lineOf(len(t.times)-1), t.text(last), n, step, csvStepsMax)
	}
	s := Series{Start: time.Unix(0, first).In(t.opts.Location), Step: step, Location: t.opts.Location, Values: values}
	if int(n) == len(values) {
		return s, nil // no row is absent
	}
	s.Values = make([]float64, n)
	for i := range s.Values {
		s.Values[i] = math.NaN()
	}
	for i, at := range t.times {
		s.Values[(at-first)/int64(step)] = values[i]
	}
	return s, nil
}

// text writes a time as the table does.
func (t *csvTable) text(nanos int64) string {
	at := time.Unix(0, nanos).In(t.opts.Location)
	if t.header[0] == clockColumn {
		return strconv.FormatFloat(float64(nanos)/1e9, 'f', -1, 64)
	}
	return at.Format(time.DateTime + ".999999999 -07:00")
}

// commonStep returns the most frequent distance between consecutive times, the smaller one on a tie.
func commonStep(times []int64) time.Duration {
	counts := map[int64]int{}
	for i := 1; i < len(times); i++ {
		counts[times[i]-times[i-1]]++
	}
	var best int64
	for d, n := range counts {
		if m := counts[best]; n > m || n == m && d < best {
			best = d
		}
	}
	return time.Duration(best)
}
