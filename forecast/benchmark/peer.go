package benchmark

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Method is a peer's forecasting method, run by one of the drivers.
type Method struct {
	Suite string // SuiteR or SuitePython
	Name  string
	Refit time.Duration // how often its parameters are fitted anew
	Slow  bool          // left out on the later columns of wide tables
}

// The suites of peers.
const (
	SuiteR      = "R"
	SuitePython = "statsmodels"
)

// Suites lists them in the order of the tables.
func Suites() []string { return []string{SuiteR, SuitePython} }

// slowRefit is how often methods are refitted whose fit takes many seconds; the others are every day.
const slowRefit = 4 * day

// slowFits is how often such a method is fitted at most: over a long test part, every third of it.
const slowFits = 3

// Methods lists all peers.
func Methods() []Method {
	return []Method{
		{Suite: SuiteR, Name: "naive", Refit: day},
		{Suite: SuiteR, Name: "snaive", Refit: day},
		{Suite: SuiteR, Name: "snaive7", Refit: day},
		{Suite: SuiteR, Name: "ets", Refit: day},
		{Suite: SuiteR, Name: "stlm_ets", Refit: day},
		{Suite: SuiteR, Name: "stlm_arima", Refit: slowRefit},
		{Suite: SuiteR, Name: "arima", Refit: slowRefit, Slow: true},
		{Suite: SuiteR, Name: "tbats", Refit: slowRefit, Slow: true},
		{Suite: SuiteR, Name: "dshw", Refit: slowRefit, Slow: true},
		{Suite: SuitePython, Name: "ETSModel", Refit: day, Slow: true},
		{Suite: SuitePython, Name: "STLForecast", Refit: slowRefit, Slow: true},
		{Suite: SuitePython, Name: "UnobservedComponents", Refit: slowRefit, Slow: true},
	}
}

// Job is a case for one suite: what is written for a driver to read.
type Job struct {
	Case  Case
	Paths int
	Seed  uint64
	Limit time.Duration // processor time of one fit
}

// peerWindow is the most history that a peer sees.
const peerWindow = 28 * day

// Settings returns the arguments of a driver as key=value, but for the refit distances.
func (j Job) Settings() []string {
	season := func(d time.Duration) int {
		if d%j.Case.Series.Step != 0 {
			return 0
		}
		return int(d / j.Case.Series.Step)
	}
	var ps []string
	for _, p := range Quantiles() {
		ps = append(ps, strconv.FormatFloat(p, 'g', -1, 64))
	}
	return []string{
		"quantiles=" + strings.Join(ps, ","),
		fmt.Sprintf("short=%d", j.Case.Short), fmt.Sprintf("long=%d", j.Case.Long),
		fmt.Sprintf("day=%d", season(day)), fmt.Sprintf("week=%d", season(7*day)),
		fmt.Sprintf("window=%d", int(peerWindow/j.Case.Series.Step)),
		fmt.Sprintf("paths=%d", j.Paths), fmt.Sprintf("seed=%d", j.Seed),
		fmt.Sprintf("limit=%d", int(j.Limit/time.Second)),
	}
}

// RefitSetting returns the argument that says how many steps apart m is fitted.
func (j Job) RefitSetting(m Method) string {
	steps := max(1, int(m.Refit/j.Case.Series.Step))
	if m.Refit == slowRefit {
		steps = max(steps, (j.Case.Series.Len()-j.Case.Split)/slowFits)
	}
	return fmt.Sprintf("refit.%s=%d", m.Name, steps)
}

// WriteSeries writes the values, one a line, an empty line where one is missing or only a lower bound.
func (j Job) WriteSeries(w io.Writer) error {
	b := bufio.NewWriter(w)
	for i := range j.Case.Series.Values {
		if v := j.Case.Actual(i); !math.IsNaN(v) {
			b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		}
		b.WriteByte('\n')
	}
	return b.Flush()
}

// WriteOrigins writes the origins of both comparisons, ascending, with the horizon that is wanted from each.
func (j Job) WriteOrigins(w io.Writer) error {
	horizons := map[int]int{}
	for _, o := range j.Case.CompareShort {
		horizons[o] = j.Case.Short
	}
	for _, o := range j.Case.CompareLong {
		horizons[o] = j.Case.Long
	}
	b := bufio.NewWriter(w)
	b.WriteString("origin,horizon\n")
	for _, o := range slices.Sorted(maps.Keys(horizons)) {
		fmt.Fprintf(b, "%d,%d\n", o, horizons[o])
	}
	return b.Flush()
}

// Key returns what a cached result of m on this job depends on, as a hash: the values, the origins, the settings, and the
// text of the driver.
func (j Job) Key(m Method, driver []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%v\n%s\n%s\n%d\n", j.Settings(), j.RefitSetting(m), m.Name, len(driver))
	h.Write(driver)
	if err := j.WriteSeries(h); err != nil {
		panic("benchmark: a hash refused a write: " + err.Error())
	}
	if err := j.WriteOrigins(h); err != nil {
		panic("benchmark: a hash refused a write: " + err.Error())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Result is what a driver wrote for one method on one case.
type Result struct {
	Status       string // "ok", or why there are no forecasts
	Notes        []string
	Fits         int
	Applied      int
	FitSeconds   float64
	ApplySeconds float64

	// Intervals holds the forecasts by kind of interval: "own" from the method's prediction intervals and simulated
	// paths, "residual" from its errors at earlier origins.
	Intervals map[string]Predictions
}

// stepMax is the longest horizon that is read.
const stepMax = 10000

// OK reports whether there are forecasts.
func (r Result) OK() bool { return r.Status == "ok" }

// ReadResult reads what a driver wrote.
func ReadResult(r io.Reader) (Result, error) {
	out := Result{Intervals: map[string]Predictions{}}
	scan := bufio.NewScanner(r)
	var header bool
	for line := 1; scan.Scan(); line++ {
		text := scan.Text()
		var err error
		switch {
		case strings.HasPrefix(text, "#"):
			err = out.fact(text[1:])
		case !header:
			header = true
		default:
			err = out.row(text)
		}
		if err != nil {
			return Result{}, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if err := scan.Err(); err != nil {
		return Result{}, err
	}
	if out.Status == "" {
		return Result{}, fmt.Errorf("no line #status: the driver did not finish")
	}
	return out, nil
}

// fact reads a line "key: value" of how a run went.
func (r *Result) fact(text string) (err error) {
	key, value, _ := strings.Cut(text, ": ")
	switch key {
	case "status":
		r.Status = value
	case "note":
		r.Notes = append(r.Notes, value)
	case "fits":
		r.Fits, err = strconv.Atoi(value)
	case "applied":
		r.Applied, err = strconv.Atoi(value)
	case "fit_seconds":
		r.FitSeconds, err = strconv.ParseFloat(value, 64)
	case "apply_seconds":
		r.ApplySeconds, err = strconv.ParseFloat(value, 64)
	default:
		err = fmt.Errorf("unknown fact %q", key)
	}
	return err
}

// row reads the quantiles of one step or peak. A cell that is no number is a missing quantile.
func (r *Result) row(text string) error {
	cells, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return err
	}
	if want := 4 + len(Quantiles()); len(cells) != want {
		return fmt.Errorf("%d cells, must be %d", len(cells), want)
	}
	origin, err := strconv.Atoi(cells[0])
	if err != nil {
		return fmt.Errorf("origin: %w", err)
	}
	step, err := strconv.Atoi(cells[3])
	if err != nil || step < 1 || step > stepMax {
		return fmt.Errorf("step is %q, must be a number from 1 to %d", cells[3], stepMax)
	}
	qs := make([]float64, len(Quantiles()))
	for i, cell := range cells[4:] {
		if qs[i], err = strconv.ParseFloat(cell, 64); err != nil {
			qs[i] = math.NaN()
		}
	}
	if r.Intervals[cells[1]] == nil {
		r.Intervals[cells[1]] = Predictions{}
	}
	p := r.Intervals[cells[1]][origin]
	switch cells[2] {
	case "peak":
		if p.Peaks == nil {
			p.Peaks = map[int][]float64{}
		}
		p.Peaks[step] = qs
	case "step":
		for len(p.Steps) < step {
			p.Steps = append(p.Steps, nil)
		}
		p.Steps[step-1] = qs
	default:
		return fmt.Errorf("kind is %q, must be step or peak", cells[2])
	}
	r.Intervals[cells[1]][origin] = p
	return nil
}
