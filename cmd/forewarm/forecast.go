package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"forewarm/forecast"
)

// newForecastCmd returns the verb that forecasts the end of a series file.
func newForecastCmd() *cobra.Command {
	var flags seriesFlags
	var models []string
	var format string
	cmd := &cobra.Command{
		Use:   "forecast --series FILE",
		Short: "Forecast what comes after a series, step by step and at the peak",
		Long: `Forecast fits a model on a series file and prints quantiles of every step of the horizon, and of the peak over it.
The peak is not the largest of the step quantiles: it is the quantile of the maximum over sample paths, which is what a
plan must be sized on. With --models all, or a list, every one of them has its rows.`,
		Example: `  forewarm forecast --series demand.csv --horizon 30m --quantiles 0.5,0.9,0.99 --timezone Europe/Berlin
  forewarm forecast --series demand.csv --events events.yaml --horizon 12h --format svg > fan.svg`,
		Args:         noArguments,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flag := "--models"
			if cmd.Flags().Changed("model") {
				flag = "--model"
			}
			names, badNames := modelNames(flag, models)
			badFormat := checkFormat(format, "table", "json", "csv", "svg")
			if format == "svg" && len(names) > 1 {
				badFormat = fmt.Errorf("--format svg draws one model, --models names %d", len(names))
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			bar := newBar(cmd.ErrOrStderr(), len(names))
			results, err := interruptibly(ctx, func() ([]*forecastResult, error) {
				in, badInput := flags.load(cmd.Flags().Changed("horizon"))
				if err := errors.Join(badFormat, badNames, badInput); err != nil {
					return nil, err
				}
				return forecasts(&flags, in, names, bar)
			})
			_ = bar.Exit() // only leaves the line of the bar; there is nothing to do about a terminal that is gone
			if err != nil {
				return err
			}
			return writeForecasts(cmd.OutOrStdout(), results, format)
		},
	}
	flags.register(cmd.Flags())
	names := strings.Join(forecast.Names(), ", ")
	cmd.Flags().StringSliceVar(&models, "models", forecast.Names()[:1], "of "+names+", or all")
	cmd.Flags().StringSliceVar(&models, "model", forecast.Names()[:1], "the same as --models")
	cmd.MarkFlagsMutuallyExclusive("model", "models")
	cmd.Flags().StringVar(&format, "format", "table", "table, json, csv or svg (a fan chart)")
	return cmd
}

// forecastResult is what the verb prints of one model.
type forecastResult struct {
	in       seriesInput
	file     string
	column   string              // as the user named it
	model    forecast.Forecaster // with the calendar around it, if there is one
	ensemble forecast.Ensemble
	ps       []float64
	seed     uint64
}

// interruptibly does work that cannot be stopped half way, reading and fitting, so that Ctrl-C leaves it behind.
func interruptibly(ctx context.Context, work func() ([]*forecastResult, error)) ([]*forecastResult, error) {
	type outcome struct {
		results []*forecastResult
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		results, err := work()
		done <- outcome{results, err}
	}()
	select {
	case o := <-done:
		return o.results, o.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

// forecasts fits each model and samples what follows.
func forecasts(flags *seriesFlags, in seriesInput, names []string,
	bar *progressbar.ProgressBar) ([]*forecastResult, error) {
	blocks := forecast.DrawBlocks(rand.New(rand.NewPCG(flags.seed, 0)), in.series.BlockClock(), flags.paths, in.horizon)
	var out []*forecastResult
	for _, name := range names {
		m, err := forecast.New(name, forecast.Options{Horizon: in.horizon, Seed: flags.seed})
		if err != nil {
			return nil, err
		}
		bar.Describe("fitting " + name)
		m = in.withEvents(m)
		if err := m.Fit(in.series); err != nil {
			return nil, fmt.Errorf("%s: %w", flags.file, err)
		}
		out = append(out, &forecastResult{
			in: in, file: flags.file, column: flags.column, model: m, ensemble: m.Sample(in.horizon, blocks),
			ps: flags.quantiles, seed: flags.seed,
		})
		if err := bar.Add(1); err != nil {
			return nil, fmt.Errorf("drawing the progress bar: %w", err)
		}
	}
	return out, nil
}

// writeForecasts writes the forecasts of one or several models of one series.
func writeForecasts(w io.Writer, rs []*forecastResult, format string) error {
	switch format {
	case "json":
		return writeJSON(w, rs)
	case "csv":
		return writeCSV(w, rs)
	case "svg":
		return rs[0].writeSVG(w)
	}
	return writeTable(w, rs)
}

// effects are what the events of the calendar do over the horizon.
func (r *forecastResult) effects() []forecast.Effect {
	e, ok := r.model.(*forecast.Eventful)
	if !ok {
		return nil
	}
	return e.Ahead(r.ensemble.Start, r.ensemble.Start.Add(time.Duration(r.ensemble.Steps())*r.ensemble.Step))
}

// step returns the quantiles of step k, 0-based.
func (r *forecastResult) step(k int) []float64 {
	qs := make([]float64, len(r.ps))
	for j, p := range r.ps {
		qs[j] = r.ensemble.Quantile(p, k)
	}
	return qs
}

// peak returns the quantiles of the maximum over the horizon.
func (r *forecastResult) peak() []float64 {
	qs := make([]float64, len(r.ps))
	for j, p := range r.ps {
		qs[j] = r.ensemble.PeakQuantile(p, 0, r.ensemble.Steps())
	}
	return qs
}

// time returns the start of step k, 0-based, as the series file writes times.
func (r *forecastResult) time(k int) string {
	return r.in.formatTime(r.in.series.TimeAt(r.in.series.Len() + k))
}

func writeTable(w io.Writer, rs []*forecastResult) error {
	first := rs[0]
	s := first.in.series
	fmt.Fprintf(w, "%s: %d steps of %s up to %s, %d missing\n", first.file, s.Len(), formatSpan(s.Step),
		first.in.formatTime(s.TimeAt(s.Len()-1)), s.Len()-s.Known())
	for _, r := range rs {
		r.writeMixture(w)
	}
	for _, e := range first.effects() {
		fmt.Fprintf(w, "event %s: ×%.3g from %s to %s (%s)\n", e.Name, e.Multiplier, first.in.formatTime(e.Start),
			first.in.formatTime(e.End), e.Why)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	model := func(text string) string {
		if len(rs) == 1 {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(t, "step\ttime\t%s%s\t\n", model("model"), strings.Join(first.names(), "\t"))
	for k := range first.ensemble.Steps() {
		for _, r := range rs {
			fmt.Fprintf(t, "%d\t%s\t%s%s\t\n", k+1, r.time(k), model(r.model.Name()), joinShort(r.step(k)))
		}
	}
	for _, r := range rs {
		fmt.Fprintf(t, "peak\t\t%s%s\t\n", model(r.model.Name()), joinShort(r.peak()))
	}
	return t.Flush()
}

// writeMixture prints what a mixture is made of, and whether it has earned to shrink a plan.
func (r *forecastResult) writeMixture(w io.Writer) {
	if mixture, ok := bare(r.model).(interface{ Weights() map[string]float64 }); ok {
		fmt.Fprintf(w, "%s: %s\n", r.model.Name(), weightsText(mixture.Weights()))
	}
	if m, ok := bare(r.model).(interface{ Skill() forecast.Skill }); ok {
		may, why := m.Skill().MayShrink()
		fmt.Fprintf(w, "may shrink a plan: %s (%s)\n", map[bool]string{true: "yes", false: "no"}[may], why)
	}
	if m, ok := bare(r.model).(interface{ Coverage() forecast.Coverage }); ok {
		if c := m.Coverage(); c.Forecasts > 0 {
			fmt.Fprintf(w, "the peak's quantiles have held: %s (%d forecasts of the past)\n", coveredText(c.Peak), c.Forecasts)
		}
	}
}

// coveredText lists what share of the values came at or below the quantiles that plans are made with.
func coveredText(points []forecast.Covered) string {
	var parts []string
	for _, at := range points {
		if at.P >= 0.5 {
			parts = append(parts, fmt.Sprintf("p%g %.1f%%", 100*at.P, 100*at.Share))
		}
	}
	return strings.Join(parts, " ")
}

func (r *forecastResult) names() []string {
	names := make([]string, len(r.ps))
	for j, p := range r.ps {
		names[j] = quantileName(p)
	}
	return names
}

// joinShort writes numbers for reading, tab-separated.
func joinShort(qs []float64) string {
	cells := make([]string, len(qs))
	for j, q := range qs {
		cells[j] = strconv.FormatFloat(q, 'g', 5, 64)
	}
	return strings.Join(cells, "\t")
}

func writeCSV(w io.Writer, rs []*forecastResult) error {
	c := csv.NewWriter(w)
	row := func(r *forecastResult, time, step string, qs []float64) error {
		cells := []string{time, step}
		if len(rs) > 1 {
			cells = append(cells, r.model.Name())
		}
		for _, q := range qs {
			cells = append(cells, formatValue(q))
		}
		return c.Write(cells)
	}
	header := []string{"time", "step"}
	if len(rs) > 1 {
		header = append(header, "model")
	}
	if err := c.Write(append(header, rs[0].names()...)); err != nil {
		return err
	}
	for _, r := range rs {
		last := r.ensemble.Steps() - 1
		for k := range r.ensemble.Steps() {
			if err := row(r, r.time(k), strconv.Itoa(k+1), r.step(k)); err != nil {
				return err
			}
		}
		if err := row(r, r.time(last), "peak", r.peak()); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// forecastJSON is the stable JSON of the verb.
type forecastJSON struct {
	Series    string             `json:"series"`
	Model     string             `json:"model"`
	Seed      uint64             `json:"seed"`
	Origin    string             `json:"origin"`
	StepNS    int64              `json:"step_ns"`
	Known     int                `json:"known"`
	Missing   int                `json:"missing"`
	Quantiles []float64          `json:"quantiles"`
	Steps     []forecastStepJSON `json:"steps"`
	Peak      []float64          `json:"peak"`
	Events    []forecastEvent    `json:"events,omitempty"`
	Auto      *forecastAutoJSON  `json:"auto,omitempty"`
}

type forecastEvent struct {
	Name       string  `json:"name"`
	From       string  `json:"from"`
	To         string  `json:"to"`
	Multiplier float64 `json:"multiplier"`
	Why        string  `json:"why"`
}

type forecastStepJSON struct {
	Step   int       `json:"step"`
	Time   string    `json:"time"`
	Values []float64 `json:"values"`
}

type forecastAutoJSON struct {
	Weights   map[string]float64 `json:"weights"`
	Skill     forecast.Skill     `json:"skill"`
	MayShrink bool               `json:"may_shrink"`
	Reason    string             `json:"reason"`
	Coverage  forecast.Coverage  `json:"coverage"`
}

// writeJSON writes one object for one model, and {"forecasts":[…]} for several.
func writeJSON(w io.Writer, rs []*forecastResult) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if len(rs) == 1 {
		return e.Encode(rs[0].json())
	}
	var out struct {
		Forecasts []forecastJSON `json:"forecasts"`
	}
	for _, r := range rs {
		out.Forecasts = append(out.Forecasts, r.json())
	}
	return e.Encode(out)
}

func (r *forecastResult) json() forecastJSON {
	s := r.in.series
	out := forecastJSON{
		Series: r.file, Model: r.model.Name(), Seed: r.seed, Origin: r.in.formatTime(s.TimeAt(s.Len() - 1)),
		StepNS: int64(s.Step), Known: s.Known(), Missing: s.Len() - s.Known(), Quantiles: r.ps, Peak: r.peak(),
	}
	for k := range r.ensemble.Steps() {
		out.Steps = append(out.Steps, forecastStepJSON{Step: k + 1, Time: r.time(k), Values: r.step(k)})
	}
	for _, e := range r.effects() {
		out.Events = append(out.Events,
			forecastEvent{e.Name, r.in.formatTime(e.Start), r.in.formatTime(e.End), e.Multiplier, e.Why})
	}
	if a, ok := bare(r.model).(*forecast.Auto); ok {
		auto := &forecastAutoJSON{Weights: a.Weights(), Skill: a.Skill(), Coverage: a.Coverage()}
		auto.MayShrink, auto.Reason = auto.Skill.MayShrink()
		out.Auto = auto
	}
	return out
}
