package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // --timezone must work on a machine without a time zone database

	"github.com/spf13/pflag"

	"forewarm/configs"
	"forewarm/forecast"
)

// seriesFlags are the flags of the verbs that read a series file.
type seriesFlags struct {
	file         string
	column       string
	timezone     string
	missingWhere string
	events       string
	eventsFor    string
	horizon      spanValue
	quantiles    quantilesValue
	seed         uint64
	paths        int
}

func (f *seriesFlags) register(flags *pflag.FlagSet) {
	f.horizon = spanValue(10 * time.Minute)
	f.quantiles = forecast.DefaultQuantiles()
	flags.StringVar(&f.file, "series", "", "series CSV: header; time or t_s first; numeric columns (required)")
	flags.StringVar(&f.column, "column", "", "value column (default: the only numeric one, or the one named value)")
	flags.StringVar(&f.timezone, "timezone", "UTC", "IANA zone of times without one, and of daily seasons")
	flags.StringVar(&f.missingWhere, "missing-where", "", "column=value: rows that were not collected, such as gap=1")
	flags.StringVar(&f.events, "events", "", "YAML file of events and holidays that change demand")
	flags.StringVar(&f.eventsFor, "events-for", "", "the model that the series is of: events about it count too")
	flags.Var(&f.horizon, "horizon",
		"how far ahead, at least one step, rounded up to whole steps (default also: one step)")
	flags.Var(&f.quantiles, "quantiles", "ascending, inside (0,1)")
	flags.Uint64Var(&f.seed, "seed", 1, "places the blocks of past errors that paths replay")
	flags.IntVar(&f.paths, "paths", forecast.DefaultPaths, "sample paths per forecast")
}

// seriesInput is a series file as read.
type seriesInput struct {
	series    forecast.Series
	asSeconds bool // the file counts seconds, and so does what is written about it
	loc       *time.Location
	horizon   int                // steps
	calendar  *forecast.Calendar // nil without --events
	eventsFor string
}

// withEvents lets a forecaster know the calendar.
func (in seriesInput) withEvents(m forecast.Forecaster) forecast.Forecaster {
	return forecast.WithEvents(m, in.calendar, in.eventsFor)
}

// load reads the series and turns the horizon into steps. horizonSet says whether the user chose the horizon: a
// chosen one that is shorter than a step is an error, the default one then is a step. What is wrong with the flags,
// the series and the events is reported at once.
func (f *seriesFlags) load(horizonSet bool) (seriesInput, error) {
	var errs []error
	if f.paths < 1 || f.paths > pathsMax {
		errs = append(errs, fmt.Errorf("--paths is %d, must be from 1 to %d", f.paths, pathsMax))
	}
	loc, err := time.LoadLocation(f.timezone)
	if err != nil {
		errs = append(errs, fmt.Errorf("--timezone %q is not known, must be an IANA name such as Europe/Berlin", f.timezone))
		loc = time.UTC // so that the files can be looked at
	}
	in := seriesInput{loc: loc, eventsFor: f.eventsFor}
	if in.series, in.asSeconds, err = f.read(loc); err == nil {
		in.horizon, err = f.horizonSteps(in.series.Step, horizonSet)
	}
	errs = append(errs, err)
	in.calendar, err = f.readEvents(loc)
	if err := errors.Join(append(errs, err)...); err != nil {
		return seriesInput{}, err
	}
	return in, nil
}

// horizonSteps is the horizon in whole steps.
func (f *seriesFlags) horizonSteps(step time.Duration, chosen bool) (int, error) {
	horizon := time.Duration(f.horizon)
	if horizon < step {
		if chosen {
			return 0, fmt.Errorf("--horizon is %s, must be at least the step of %s, which is %s",
				formatSpan(horizon), f.file, formatSpan(step))
		}
		horizon = step
	}
	steps := int((horizon + step - 1) / step)
	if steps > horizonStepsMax {
		return 0, fmt.Errorf("--horizon is %s, %d steps of %s, must be at most %d steps",
			formatSpan(horizon), steps, formatSpan(step), horizonStepsMax)
	}
	return steps, nil
}

// readEvents reads the calendar. One that could not concern the series is refused: its events would be left out without
// a word.
func (f *seriesFlags) readEvents(loc *time.Location) (*forecast.Calendar, error) {
	if f.events == "" {
		if f.eventsFor != "" {
			return nil, fmt.Errorf("--events-for is %q without --events", f.eventsFor)
		}
		return nil, nil
	}
	data, err := os.ReadFile(f.events)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	c, err := configs.ReadEvents(f.events, data, loc)
	if err != nil {
		return nil, err
	}
	models := c.Models()
	switch {
	case f.eventsFor != "" && len(models) > 0 && !slices.Contains(models, f.eventsFor):
		return nil, fmt.Errorf("--events-for is %q, %s has events about %s", f.eventsFor, f.events,
			strings.Join(models, ", "))
	case f.eventsFor == "" && len(models) > 0 && !c.Concerns(""):
		return nil, fmt.Errorf("all events of %s are about a model: name one with --events-for: %s", f.events,
			strings.Join(models, ", "))
	}
	return c, nil
}

// read reads the file row by row and reports whether it counts seconds.
func (f *seriesFlags) read(loc *time.Location) (forecast.Series, bool, error) {
	if f.file == "" {
		return forecast.Series{}, false, errors.New("--series is missing, must name a CSV file")
	}
	file, err := os.Open(f.file)
	if err != nil {
		return forecast.Series{}, false, fmt.Errorf("reading series: %w", err)
	}
	defer file.Close()
	text := bufio.NewReader(file)
	head, _ := text.Peek(64) // a shorter file is read all the same
	asSeconds := countsSeconds(head)
	s, err := forecast.ReadCSV(text, forecast.CSVOptions{Column: f.column, Location: loc, MissingWhere: f.missingWhere})
	if err != nil {
		return forecast.Series{}, false, inFile(f.file, err)
	}
	return s, asSeconds, nil
}

// inFile puts the name of a file before every problem in it.
func inFile(file string, err error) error {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return fmt.Errorf("%s: %w", file, err)
	}
	errs := slices.Clone(all.Unwrap())
	for i := range errs {
		errs[i] = fmt.Errorf("%s: %w", file, errs[i])
	}
	return errors.Join(errs...)
}

const (
	// pathsMax and horizonStepsMax keep a typing error from filling the memory; two weeks at a minute are 20,160 steps.
	pathsMax        = 10_000
	horizonStepsMax = 25_000
)

// countsSeconds reports whether the first column of a series file is t_s, from its first bytes.
func countsSeconds(head []byte) bool {
	first, _, _ := strings.Cut(string(bytes.TrimPrefix(head, []byte("\ufeff"))), ",")
	return strings.Trim(strings.TrimSpace(first), `"`) == "t_s"
}

// formatTime writes a time as the series file does: seconds, or RFC 3339 in --timezone.
func (in seriesInput) formatTime(t time.Time) string {
	if in.asSeconds {
		return strconv.FormatFloat(float64(t.Unix())+float64(t.Nanosecond())/1e9, 'f', -1, 64)
	}
	return t.In(in.loc).Format(time.RFC3339Nano)
}

// formatValue writes a number so that it reads back exactly; a missing one is an empty cell.
func formatValue(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// quantileName is the column name of a quantile, such as q0.05.
func quantileName(p float64) string { return "q" + strconv.FormatFloat(p, 'g', -1, 64) }

// spanValue is a duration flag that knows days and weeks.
type spanValue time.Duration

// Set implements pflag.Value.
func (v *spanValue) Set(text string) error {
	d, err := parseSpan(text)
	if err != nil {
		return err
	}
	*v = spanValue(d)
	return nil
}

func (v *spanValue) String() string {
	if *v == 0 {
		return "" // not given, so that no default is shown
	}
	return formatSpan(time.Duration(*v))
}

// Type implements pflag.Value.
func (v *spanValue) Type() string { return "duration" }

// parseSpan reads a positive duration: Go's units, and before them whole or fractional weeks (w) and days (d), each of
// 24 hours, as in 2w, 1d12h or 90m.
func parseSpan(text string) (time.Duration, error) {
	bad := func() error {
		return fmt.Errorf("%q is not a duration, must be positive and written like 90s, 10m, 3d, 1d12h or 2w", text)
	}
	total, rest := 0.0, text
	for _, unit := range []struct {
		letter string
		span   time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, ok := strings.Cut(rest, unit.letter)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0) || strings.ContainsAny(number, "+eExXpPn") {
			return 0, bad()
		}
		total += n * float64(unit.span)
		rest = after
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, bad()
		}
		total += float64(d)
	}
	if !(total >= 1) || total > float64(math.MaxInt64/2) {
		return 0, bad()
	}
	return time.Duration(total), nil
}

// formatSpan writes a duration with whole days apart: 3d, 1d12h, 10m.
func formatSpan(d time.Duration) string {
	days, rest := d/(24*time.Hour), d%(24*time.Hour)
	text := rest.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	switch {
	case days == 0:
		return text
	case rest == 0:
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, text)
}

// quantilesValue is a comma-separated list of quantiles.
type quantilesValue []float64

// Set implements pflag.Value.
func (v *quantilesValue) Set(text string) error {
	var out []float64
	for _, field := range strings.Split(text, ",") {
		p, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return fmt.Errorf("%q is not a number, must be a list such as 0.5,0.9,0.99", field)
		}
		out = append(out, p)
	}
	if err := forecast.ValidateQuantiles(out); err != nil {
		return err
	}
	*v = out
	return nil
}

func (v *quantilesValue) String() string {
	fields := make([]string, len(*v))
	for i, p := range *v {
		fields[i] = strconv.FormatFloat(p, 'g', -1, 64)
	}
	return strings.Join(fields, ",")
}

// Type implements pflag.Value.
func (v *quantilesValue) Type() string { return "list" }

// checkFormat refuses an unknown --format before any work is done.
func checkFormat(format string, allowed ...string) error {
	for _, a := range allowed {
		if format == a {
			return nil
		}
	}
	return fmt.Errorf("--format is %q, must be one of %s", format, strings.Join(allowed, ", "))
}
