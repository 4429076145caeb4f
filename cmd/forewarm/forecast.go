package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"forewarm/forecast"
)

// newForecastCmd returns the verb that forecasts the end of a series file.
func newForecastCmd() *cobra.Command {
	var flags seriesFlags
	var model, format string
	cmd := &cobra.Command{
		Use:   "forecast --series FILE",
		Short: "Forecast what comes after a series, step by step and at the peak",
		Long: `Forecast fits a model on a series file and prints quantiles of every step of the horizon, and of the peak over it.
The peak is not the largest of the step quantiles: it is the quantile of the maximum over sample paths, which is what a
plan must be sized on.`,
		Example:      "  forewarm forecast --series demand.csv --horizon 30m --quantiles 0.5,0.9,0.99 --timezone Europe/Berlin",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format, "table", "json", "csv", "svg"); err != nil {
				return err
			}
			r, err := runForecast(&flags, model, cmd.Flags().Changed("horizon"))
			if err != nil {
				return err
			}
			return r.write(cmd.OutOrStdout(), format)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&model, "model", forecast.Names()[0], "one of "+strings.Join(forecast.Names(), ", "))
	cmd.Flags().StringVar(&format, "format", "table", "table, json, csv or svg (a fan chart)")
	return cmd
}

// forecastResult is what the verb prints.
type forecastResult struct {
	in       seriesInput
	file     string
	model    forecast.Forecaster
	ensemble forecast.Ensemble
	ps       []float64
	seed     uint64
}

func runForecast(flags *seriesFlags, name string, horizonSet bool) (*forecastResult, error) {
	in, err := flags.load(horizonSet)
	if err != nil {
		return nil, err
	}
	m, err := forecast.New(name, forecast.Options{Horizon: in.horizon, Seed: flags.seed})
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	if err := m.Fit(in.series); err != nil {
		return nil, fmt.Errorf("%s: %w", flags.file, err)
	}
	rng := rand.New(rand.NewPCG(flags.seed, 0))
	blocks := forecast.DrawBlocks(rng, in.series.BlockClock(), flags.paths, in.horizon)
	return &forecastResult{
		in: in, file: flags.file, model: m, ensemble: m.Sample(in.horizon, blocks), ps: flags.quantiles, seed: flags.seed,
	}, nil
}

func (r *forecastResult) write(w io.Writer, format string) error {
	switch format {
	case "json":
		return r.writeJSON(w)
	case "csv":
		return r.writeCSV(w)
	case "svg":
		return r.writeSVG(w)
	}
	return r.writeTable(w)
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

func (r *forecastResult) writeTable(w io.Writer) error {
	s := r.in.series
	fmt.Fprintf(w, "%s: %d steps of %s up to %s, %d missing\n", r.file, s.Len(), formatSpan(s.Step),
		r.in.formatTime(s.TimeAt(s.Len()-1)), s.Len()-s.Known())
	if a, ok := r.model.(*forecast.Auto); ok {
		weights := a.Weights()
		fmt.Fprintf(w, "auto:")
		for _, name := range forecast.Names() {
			if share, ok := weights[name]; ok {
				fmt.Fprintf(w, " %s %.0f%%", name, 100*share)
			}
		}
		may, why := a.Skill().MayShrink()
		fmt.Fprintf(w, "\nmay shrink a plan: %s (%s)\n", map[bool]string{true: "yes", false: "no"}[may], why)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "step\ttime\t%s\t\n", strings.Join(r.names(), "\t"))
	for k := range r.ensemble.Steps() {
		fmt.Fprintf(t, "%d\t%s\t%s\t\n", k+1, r.time(k), joinShort(r.step(k)))
	}
	fmt.Fprintf(t, "peak\t\t%s\t\n", joinShort(r.peak()))
	return t.Flush()
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

func (r *forecastResult) writeCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	row := func(time, step string, qs []float64) error {
		cells := []string{time, step}
		for _, q := range qs {
			cells = append(cells, formatValue(q))
		}
		return c.Write(cells)
	}
	if err := c.Write(append([]string{"time", "step"}, r.names()...)); err != nil {
		return err
	}
	last := r.ensemble.Steps() - 1
	for k := range r.ensemble.Steps() {
		if err := row(r.time(k), strconv.Itoa(k+1), r.step(k)); err != nil {
			return err
		}
	}
	if err := row(r.time(last), "peak", r.peak()); err != nil {
		return err
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
	Auto      *forecastAutoJSON  `json:"auto,omitempty"`
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
}

func (r *forecastResult) writeJSON(w io.Writer) error {
	s := r.in.series
	out := forecastJSON{
		Series: r.file, Model: r.model.Name(), Seed: r.seed, Origin: r.in.formatTime(s.TimeAt(s.Len() - 1)),
		StepNS: int64(s.Step), Known: s.Known(), Missing: s.Len() - s.Known(), Quantiles: r.ps, Peak: r.peak(),
	}
	for k := range r.ensemble.Steps() {
		out.Steps = append(out.Steps, forecastStepJSON{Step: k + 1, Time: r.time(k), Values: r.step(k)})
	}
	if a, ok := r.model.(*forecast.Auto); ok {
		auto := &forecastAutoJSON{Weights: a.Weights(), Skill: a.Skill()}
		auto.MayShrink, auto.Reason = auto.Skill.MayShrink()
		out.Auto = auto
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
