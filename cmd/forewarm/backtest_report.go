package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"forewarm/forecast"
)

// backtestJSON is the stable JSON of the verb.
type backtestJSON struct {
	Series      string  `json:"series"`
	Seconds     float64 `json:"seconds"`
	Interrupted bool    `json:"interrupted,omitempty"`
	Events      string  `json:"events,omitempty"`
	forecast.BacktestReport
	// Weights are the shares of each mixture's parts at the end.
	Weights map[string]map[string]float64 `json:"weights,omitempty"`
	Costs   []modelCost                   `json:"costs"`
}

func (f *backtestFlags) write(w io.Writer, in seriesInput, r backtestResult) error {
	if f.format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		weights := map[string]map[string]float64{}
		for _, m := range r.models {
			if w := m.weights(); w != nil {
				weights[m.Name()] = w
			}
		}
		return e.Encode(backtestJSON{f.file, r.seconds, r.stopped, f.events, r.report, weights, r.costs()})
	}
	step, report := in.series.Step, r.report
	fmt.Fprintf(w, "%s: fitted on %s (%d steps of %s, %d missing), %d origins, horizon %s, %.2f s\n", f.file,
		formatSpan(time.Duration(report.FitSteps)*step), report.FitSteps, formatSpan(step), report.FitMissing, report.Origins,
		formatSpan(time.Duration(report.Horizon)*step), r.seconds)
	if r.stopped {
		fmt.Fprintf(w, "interrupted: these are the %d origins done, not all\n", report.Origins)
	}
	fmt.Fprintf(w, "scored per model: %d steps (%d skipped: missing), %d peaks (%d skipped); MASE season %s\n",
		report.StepsScored, report.StepsSkipped, report.PeaksScored, report.PeaksSkipped, formatSpan(report.MASESeasonNS))
	if in.calendar != nil {
		n := len(in.calendar.Occurrences(in.eventsFor, in.series.Start, in.series.End()))
		fmt.Fprintf(w, "occurrences of events of %s, known to every model: %d\n", f.events, n)
	}
	if report.ShortOfSeason {
		fmt.Fprintln(w, "less than a day of history before the test span: no daily season could be learned")
	}
	if err := writeScores(w, report, r.costs()); err != nil {
		return err
	}
	for _, m := range r.models {
		if weights := m.weights(); weights != nil {
			fmt.Fprintf(w, "%s at the end: %s\n", m.Name(), weightsText(weights))
		}
	}
	return writeCoverage(w, report, f.quantiles)
}

// writeScores prints one line per model.
func writeScores(w io.Writer, r forecast.BacktestReport, costs []modelCost) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tpinball\tWQL\tpeak WQL\tMASE\tskill vs last\tskill vs snaive\tfit\tupdate\tforecast\t")
	for i, m := range r.Models {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", m.Model, meanPinball(m.Steps), shortScore(m.WQL),
			shortScore(m.PeakWQL), shortScore(m.MASE), shortScore(m.SkillLast), shortScore(m.SkillSeasonal),
			shortSeconds(costs[i].FitSeconds), shortSeconds(costs[i].UpdateSeconds), shortSeconds(costs[i].SampleSeconds))
	}
	return t.Flush()
}

// writeCoverage prints the share of actual values at or below each quantile, for steps and for peaks.
func writeCoverage(w io.Writer, r forecast.BacktestReport, ps []float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\ncoverage\t")
	for _, p := range ps {
		fmt.Fprintf(t, "%s\t", quantileName(p))
	}
	for _, m := range r.Models {
		for _, part := range []struct {
			what   string
			scores []forecast.QuantileScore
		}{{"steps", m.Steps}, {"peak", m.Peaks}} {
			fmt.Fprintf(t, "\n%s %s\t", m.Model, part.what)
			for _, q := range part.scores {
				fmt.Fprintf(t, "%.3f\t", q.Coverage)
			}
		}
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// meanPinball is the loss of steps over all quantiles, in the unit of the series.
func meanPinball(scores []forecast.QuantileScore) string {
	if len(scores) == 0 {
		return "-"
	}
	sum := 0.0
	for _, q := range scores {
		sum += q.Pinball
	}
	return strconv.FormatFloat(sum/float64(len(scores)), 'g', 4, 64)
}

// shortScore writes a score for reading; one that could not be computed is a dash.
func shortScore(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 4, 64)
}

// shortSeconds writes a duration for reading.
func shortSeconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}
