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

// matches pits ours against the best of a suite on both horizons of each case that take chooses.
func (r Report) matches(suite string, take func(Case) bool, losses func(Candidate) []Loss, rng *rand.Rand) []Match {
	var out []Match
	for _, e := range r.Entries {
		if !take(e.Case) {
			continue
		}
		for _, horizon := range []int{e.Case.Short, e.Case.Long} {
			if m, ok := NewMatch(e.Case, horizon, e.ours(horizon), e.candidates(suite, horizon), losses, rng); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

// Write writes, per suite, the table of every main case and horizon, the verdicts, what was not available, and what the
// methods cost.
func (r Report) Write(w io.Writer, seed uint64) {
	for _, suite := range []string{SuiteR, SuitePython} {
		rng := rand.New(rand.NewPCG(seed, 2))
		main := func(c Case) bool { return c.Main }
		later := func(c Case) bool { return !c.Main }
		steps, peaks := r.matches(suite, main, StepsOf, rng), r.matches(suite, main, PeaksOf, rng)
		if len(steps) > 0 {
			writeMatches(w, suite, steps, peaks)
			writeVerdicts(w, "WQL of steps", suite, steps, rng)
			writeVerdicts(w, "WQL of peaks", suite, peaks, rng)
		} else {
			fmt.Fprintf(w, "%s: no results\n", suite)
		}
		if rest := r.matches(suite, later, StepsOf, rng); len(rest) > 0 {
			writeVerdicts(w, "WQL of steps, later columns of wide tables (no slow methods)", suite, rest, rng)
		}
		fmt.Fprintln(w)
		r.writeMethods(w, suite)
	}
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

func writeMatches(w io.Writer, suite string, steps, peaks []Match) {
	t := table{header: []string{"series", "ahead", "origins", "ours", "best of " + suite, "its", "ratio", "95 %",
		"peak: ours", "best", "its", "ratio"}}
	byCase := map[string]Match{}
	key := func(m Match) string { return fmt.Sprint(m.Case.Name, m.Horizon) }
	for _, m := range peaks {
		byCase[key(m)] = m
	}
	for _, m := range steps {
		cells := []string{m.Case.Name, ahead(m), fmt.Sprint(len(m.Pair.Ours)), wql(m.Pair.Ours), named(m.Best),
			wql(m.Pair.Theirs), number(m.Ratio), m.Interval.String()}
		if p, ok := byCase[key(m)]; ok {
			cells = append(cells, wql(p.Pair.Ours), named(p.Best), wql(p.Pair.Theirs), number(p.Ratio))
		} else {
			cells = append(cells, "–", "–", "–", "–")
		}
		t.add(cells...)
	}
	t.write(w)
	fmt.Fprintln(w)
}

// ahead writes the horizon of a match as a time.
func ahead(m Match) string {
	d := time.Duration(m.Horizon) * m.Case.Series.Step
	if d < time.Hour {
		return fmt.Sprintf("%g min", math.Round(d.Minutes()*10)/10)
	}
	return fmt.Sprintf("%g h", d.Hours())
}

func wql(losses []Loss) string { return fmt.Sprintf("%.4f", Sum(losses).WQL()) }

func named(c Candidate) string { return c.Method + "/" + c.Interval }

// writeVerdicts writes how matches of short and long horizons do together and apart.
func writeVerdicts(w io.Writer, what, suite string, matches []Match, rng *rand.Rand) {
	for _, part := range []struct {
		name string
		take func(Match) bool
	}{
		{"all", func(Match) bool { return true }},
		{"short", func(m Match) bool { return m.Horizon == m.Case.Short }},
		{"long", func(m Match) bool { return m.Horizon == m.Case.Long }},
	} {
		taken := slices.DeleteFunc(slices.Clone(matches), func(m Match) bool { return !part.take(m) })
		if len(taken) == 0 {
			continue
		}
		v := Judge(taken, rng)
		fmt.Fprintf(w, "%s, %s horizons: %d rows; ours ÷ best of %s: geometric mean %.3f (%v, bar %.2f), at most 1.00 on %.0f %%"+
			" (bar %.0f %%), worst %.3f on %s (bar %.2f): %s\n", what, part.name, v.Series, suite, v.Mean, v.Interval,
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
