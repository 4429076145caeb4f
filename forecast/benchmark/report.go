package benchmark

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is what everybody said about one case. Results is by suite and method.
type Entry struct {
	Case        Case
	Short, Long Predictions // ours, by horizon
	Results     map[string]map[string]Result
}

// Report is the comparison over all cases.
type Report struct {
	Entries []Entry
}

// ours scores our forecasts on one horizon.
func (e Entry) ours(horizon int) Candidate {
	p := e.Short
	if horizon == e.Case.Long {
		p = e.Long
	}
	return e.Case.Score("forewarm", "paths", p, horizon)
}

// candidates scores every method of a suite that has forecasts.
func (e Entry) candidates(suite string, horizon int) []Candidate {
	var out []Candidate
	for _, method := range slices.Sorted(maps.Keys(e.Results[suite])) {
		if r := e.Results[suite][method]; r.OK() {
			out = append(out, e.Case.Candidates(method, r, horizon)...)
		}
	}
	return out
}

// line is one case and horizon: ours, and the matches against the best of each suite.
type line struct {
	Case         Case
	Horizon      int
	Ours         Candidate
	Steps, Peaks map[string]Match // by suite
}

// lines pits ours against the best of every suite on both horizons of each case that take chooses.
func (r Report) lines(take func(Case) bool, rng *rand.Rand) []line {
	var out []line
	for _, e := range r.Entries {
		if !take(e.Case) {
			continue
		}
		for _, horizon := range []int{e.Case.Short, e.Case.Long} {
			l := line{e.Case, horizon, e.ours(horizon), map[string]Match{}, map[string]Match{}}
			for _, suite := range Suites() {
				candidates := e.candidates(suite, horizon)
				if m, ok := NewMatch(e.Case, horizon, l.Ours, candidates, StepsOf, rng); ok {
					l.Steps[suite] = m
				}
				if m, ok := NewMatch(e.Case, horizon, l.Ours, candidates, PeaksOf, rng); ok {
					l.Peaks[suite] = m
				}
			}
			if len(l.Steps) > 0 {
				out = append(out, l)
			}
		}
	}
	return out
}

// Write writes the table of every main case and horizon, the verdicts per suite, what was not available, and what the
// methods cost.
func (r Report) Write(w io.Writer, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	main := r.lines(func(c Case) bool { return c.Main }, rng)
	later := r.lines(func(c Case) bool { return !c.Main }, rng)
	if len(main) > 0 {
		writeLines(w, main)
	}
	for _, suite := range Suites() {
		writeVerdicts(w, "WQL of steps", suite, main, func(l line) map[string]Match { return l.Steps }, rng)
		writeVerdicts(w, "WQL of peaks", suite, main, func(l line) map[string]Match { return l.Peaks }, rng)
		writeVerdicts(w, "WQL of steps, later columns of wide tables (no slow methods)", suite, later,
			func(l line) map[string]Match { return l.Steps }, rng)
		fmt.Fprintln(w)
	}
	for _, suite := range Suites() {
		r.writeMethods(w, suite)
	}
}

func writeLines(w io.Writer, lines []line) {
	t := table{header: []string{"series", "ahead", "origins", "ours"}}
	for _, suite := range Suites() {
		t.header = append(t.header, "best of "+suite, "its", "ours ÷ it", "95 %", "peak")
	}
	for _, l := range lines {
		cells := []string{l.Case.Name, ahead(l), fmt.Sprint(len(l.Ours.Steps)), wql(l.Ours.Steps)}
		for _, suite := range Suites() {
			m, ok := l.Steps[suite]
			if !ok {
				cells = append(cells, "–", "–", "–", "–", "–")
				continue
			}
			peak := math.NaN()
			if p, ok := l.Peaks[suite]; ok {
				peak = p.Ratio
			}
			cells = append(cells, m.Best.Method+"/"+m.Best.Interval, wql(m.Pair.Theirs), number(m.Ratio), m.Interval.String(),
				number(peak))
		}
		t.add(cells...)
	}
	t.write(w)
	fmt.Fprintln(w)
}

// writeMethods writes what each method of a suite cost, and where and why it has no forecasts.
func (r Report) writeMethods(w io.Writer, suite string) {
	t := table{header: []string{"method of " + suite, "ran on", "fits", "seconds a fit", "seconds a re-application",
		"not available on"}}
	for _, m := range Methods() {
		if m.Suite != suite {
			continue
		}
		var ran, fits, applied int
		var fitting, applying float64
		absent := map[string]int{}
		for _, e := range r.Entries {
			result, ok := e.Results[suite][m.Name]
			switch {
			case !ok:
				absent["not run"] += one(e.Case.Main)
			case !result.OK():
				absent[result.Status]++
			default:
				ran, fits, applied = ran+1, fits+result.Fits, applied+result.Applied
				fitting, applying = fitting+result.FitSeconds, applying+result.ApplySeconds
			}
		}
		var why []string
		for _, status := range slices.Sorted(maps.Keys(absent)) {
			if absent[status] > 0 {
				why = append(why, fmt.Sprintf("%d: %s", absent[status], status))
			}
		}
		t.add(m.Name, fmt.Sprint(ran), fmt.Sprint(fits), number(fitting/float64(fits)), number(applying/float64(applied)),
			strings.Join(why, "; "))
	}
	t.write(w)
	fmt.Fprintln(w)
}

// ahead writes the horizon of a line as a time.
func ahead(l line) string {
	d := time.Duration(l.Horizon) * l.Case.Series.Step
	if d < time.Hour {
		return fmt.Sprintf("%g min", math.Round(d.Minutes()*10)/10)
	}
	return fmt.Sprintf("%g h", d.Hours())
}

func wql(losses []Loss) string { return fmt.Sprintf("%.4f", Sum(losses).WQL()) }

// writeVerdicts writes how ours does on lines of short and long horizons, together and apart. It writes nothing where
// there are no matches.
func writeVerdicts(w io.Writer, what, suite string, lines []line, of func(line) map[string]Match, rng *rand.Rand) {
	for _, part := range []struct {
		name        string
		short, long bool
	}{{"all", true, true}, {"short", true, false}, {"long", false, true}} {
		var matches []Match
		for _, l := range lines {
			long := l.Horizon == l.Case.Long
			if m, ok := of(l)[suite]; ok && (long && part.long || !long && part.short) {
				matches = append(matches, m)
			}
		}
		if len(matches) == 0 {
			continue
		}
		v := Judge(matches, rng)
		fmt.Fprintf(w, "- %s, %s horizons: %d rows; ours ÷ best of %s: geometric mean %.3f (%v, bar %.2f), at most 1.00 on %.0f %%"+
			" (bar %.0f %%), worst %.3f on %s (bar %.2f): %s\n", what, part.name, len(matches), suite, v.Mean, v.Interval,
			ratioMeanMax, 100*v.NotWorse, 100*shareMin, v.Worst, v.WorstAt, ratioEachMax, verdict(v.Holds()))
	}
}

// WriteSummary writes the scores of every method, interval, case and horizon as CSV, ours included.
func (r Report) WriteSummary(w io.Writer) {
	fmt.Fprintln(w, "series,main,suite,method,interval,horizon_steps,step_seconds,origins,wql,peak_wql,failed,status,fits,"+
		"fit_seconds,applied,apply_seconds")
	for _, e := range r.Entries {
		for _, h := range []int{e.Case.Short, e.Case.Long} {
			e.summary(w, "forewarm", e.ours(h), h, Result{Status: "ok"})
			for _, suite := range slices.Sorted(maps.Keys(e.Results)) {
				for _, method := range slices.Sorted(maps.Keys(e.Results[suite])) {
					result := e.Results[suite][method]
					if !result.OK() {
						e.summary(w, suite, Candidate{Method: method}, h, result)
					}
					for _, c := range e.Case.Candidates(method, result, h) {
						e.summary(w, suite, c, h, result)
					}
				}
			}
		}
	}
}

func (e Entry) summary(w io.Writer, suite string, c Candidate, horizon int, r Result) {
	steps, peaks := Sum(c.Steps), Sum(c.Peaks)
	fmt.Fprintf(w, "%s,%v,%s,%s,%s,%d,%g,%d,%.6g,%.6g,%d,%s,%d,%.3f,%d,%.3f\n", e.Case.Name, e.Case.Main, suite, c.Method,
		c.Interval, horizon, e.Case.Series.Step.Seconds(), len(c.Steps), steps.WQL(), peaks.WQL(), steps.Failed+peaks.Failed,
		strconv.Quote(r.Status), r.Fits, r.FitSeconds, r.Applied, r.ApplySeconds)
}
