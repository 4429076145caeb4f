package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"forewarm/forecast"
)

// backtestFlags are the flags of the backtest verb beyond those of every series file.
type backtestFlags struct {
	seriesFlags
	test        spanValue
	stride      spanValue
	origins     string
	models      []string
	predictions string
	format      string
}

// newBacktestCmd returns the verb that forecasts the end of a series file as if it had not happened yet.
func newBacktestCmd() *cobra.Command {
	f := backtestFlags{test: spanValue(3 * 24 * time.Hour)}
	cmd := &cobra.Command{
		Use:   "backtest --series FILE",
		Short: "Forecast the end of a series as if it had not happened yet, and score it",
		Long: `Backtest fits each model once on what comes before the test span, walks through the span, and scores a forecast at
every origin, made from the values up to it alone: pinball loss, WQL, MASE, coverage of the quantiles of steps and of the
peak, skill against last value and seasonal naive.`,
		Example:      "  forewarm backtest --series demand.csv --horizon 10m --test 3d --predictions out.csv",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd.Flags())
	cmd.Flags().Var(&f.test, "test", "span at the end of the series that is forecast")
	cmd.Flags().Var(&f.stride, "stride", "distance between origins (default: the horizon, so that windows do not overlap)")
	cmd.Flags().StringVar(&f.origins, "origins", "", "file with one origin time per line, instead of --stride")
	cmd.Flags().StringSliceVar(&f.models, "models", forecast.Names(), "models to compare")
	cmd.Flags().StringVar(&f.predictions, "predictions", "", "CSV file to write every prediction to")
	cmd.Flags().StringVar(&f.format, "format", "table", "table or json")
	cmd.MarkFlagsMutuallyExclusive("stride", "origins")
	return cmd
}

func (f *backtestFlags) run(cmd *cobra.Command) (err error) {
	if err := checkFormat(f.format, "table", "json"); err != nil {
		return err
	}
	in, err := f.load(cmd.Flags().Changed("horizon"))
	if err != nil {
		return err
	}
	cfg, err := f.config(in)
	if err != nil {
		return err
	}
	models, err := f.newModels(in)
	if err != nil {
		return err
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends even a run that hangs in a write

	sink, err := newPredictionSink(f.predictions, f.file, in, f.quantiles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	bar := newBar(cmd.ErrOrStderr(), f.expectedRows(in, cfg, len(models)))
	cfg.Each = func(p forecast.Prediction) error {
		if ctx.Err() != nil {
			return errInterrupted
		}
		if err := bar.Add(1); err != nil {
			return fmt.Errorf("drawing progress: %w", err)
		}
		return sink.add(p)
	}
	began := time.Now()
	report, err := forecast.Backtest(in.series, models, cfg)
	seconds := time.Since(began).Seconds()
	_ = bar.Exit() // only leaves the line of the bar; there is nothing to do about a terminal that is gone
	if errors.Is(err, errInterrupted) && sink.file != nil {
		return fmt.Errorf("%s: %w; the rows done are in %s", f.file, err, f.predictions)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	return f.write(cmd.OutOrStdout(), in, report, seconds)
}

// errInterrupted stops a backtest from its callback.
var errInterrupted = errors.New("interrupted")

// config turns the flags into steps.
func (f *backtestFlags) config(in seriesInput) (forecast.BacktestConfig, error) {
	step := in.series.Step
	cfg := forecast.BacktestConfig{
		Horizon: in.horizon, Test: time.Duration(f.test), Quantiles: f.quantiles, Paths: f.paths, Seed: f.seed,
	}
	if stride := time.Duration(f.stride); stride > 0 {
		if stride%step != 0 {
			return cfg, fmt.Errorf("--stride is %s, must be a multiple of the step of %s, which is %s",
				formatSpan(stride), f.file, formatSpan(step))
		}
		cfg.Stride = int(stride / step)
	}
	if f.origins != "" {
		origins, err := readOrigins(f.origins, in)
		if err != nil {
			return cfg, err
		}
		cfg.Origins = origins
	}
	return cfg, nil
}

// readOrigins reads one time per line, written as in the series file. Empty lines and lines that start with # are
// skipped; every bad line is reported.
func readOrigins(path string, in seriesInput) ([]time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading origins: %w", err)
	}
	defer file.Close()
	var out []time.Time
	var errs []error
	scanner := bufio.NewScanner(file)
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		t, err := forecast.ParseTime(text, in.asSeconds, in.loc)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: line %d: %w", path, line, err))
			continue
		}
		out = append(out, t)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading origins %s: %w", path, err)
	}
	if len(out) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("%s: no origins, must hold one time per line", path)
	}
	return out, errors.Join(errs...)
}

func (f *backtestFlags) newModels(in seriesInput) ([]forecast.Forecaster, error) {
	var models []forecast.Forecaster
	var errs []error
	seen := map[string]bool{}
	for _, name := range f.models {
		m, err := forecast.New(strings.TrimSpace(name), forecast.Options{Horizon: in.horizon, Seed: f.seed})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--models: %w", err))
		case seen[m.Name()]:
			errs = append(errs, fmt.Errorf("--models: %q is named twice", m.Name()))
		default:
			seen[m.Name()] = true
			models = append(models, m)
		}
	}
	if len(f.models) == 0 {
		errs = append(errs, errors.New("--models is empty, must name at least one"))
	}
	return models, errors.Join(errs...)
}

// expectedRows is the length of the progress bar.
func (f *backtestFlags) expectedRows(in seriesInput, cfg forecast.BacktestConfig, models int) int {
	origins := len(cfg.Origins)
	if origins == 0 {
		stride := max(1, cfg.Stride)
		if cfg.Stride == 0 {
			stride = cfg.Horizon
		}
		test := int(cfg.Test / in.series.Step)
		origins = max(0, test-cfg.Horizon)/stride + 1
	}
	return origins * models * (cfg.Horizon + 1)
}

// newBar returns a progress bar that shows only on a terminal.
func newBar(w io.Writer, total int) *progressbar.ProgressBar {
	visible := false
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		visible = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetDescription("backtest"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// predictionSink writes predictions as they come, so that an interrupted run keeps what it has done. The file is opened
// with the first row: a run that cannot start leaves an older file as it is.
type predictionSink struct {
	in        seriesInput
	path      string // empty when no file is wanted
	quantiles []float64
	file      *os.File // nil until the first row
	csv       *csv.Writer
}

// newPredictionSink refuses to write over the series itself.
func newPredictionSink(path, series string, in seriesInput, ps []float64) (*predictionSink, error) {
	s := &predictionSink{in: in, path: path, quantiles: ps}
	if path == "" {
		return s, nil
	}
	out, errOut := os.Stat(path)
	source, errIn := os.Stat(series)
	if errOut == nil && errIn == nil && os.SameFile(out, source) {
		return nil, fmt.Errorf("--predictions is %s, which is the series: another file is needed", path)
	}
	return s, nil
}

// open makes the file. It is not opened for reading: a pipe whose reader has gone must fail, not fill up.
func (s *predictionSink) open() (err error) {
	if s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666); err != nil {
		return fmt.Errorf("--predictions: %w", err)
	}
	s.csv = csv.NewWriter(s.file)
	header := []string{"origin", "time", "step", "actual", "model"}
	for _, p := range s.quantiles {
		header = append(header, quantileName(p))
	}
	return s.csv.Write(header)
}

// add writes one row, and after the last one of a model at an origin hands all to the file.
func (s *predictionSink) add(p forecast.Prediction) error {
	if s.path == "" {
		return nil
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	step := strconv.Itoa(p.Step)
	if p.Step == 0 {
		step = "peak"
	}
	row := []string{s.in.formatTime(p.Origin), s.in.formatTime(p.Time), step, formatValue(p.Actual), p.Model}
	for _, q := range p.Quantiles {
		row = append(row, formatValue(q))
	}
	if err := s.csv.Write(row); err != nil {
		return fmt.Errorf("writing %s: %w", s.path, err)
	}
	if p.Step == 0 {
		s.csv.Flush()
		if err := s.csv.Error(); err != nil {
			return fmt.Errorf("writing %s: %w", s.path, err)
		}
	}
	return nil
}

func (s *predictionSink) close() error {
	if s.file == nil {
		return nil
	}
	s.csv.Flush()
	if err := errors.Join(s.csv.Error(), s.file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", s.path, err)
	}
	return nil
}

func (f *backtestFlags) write(w io.Writer, in seriesInput, r forecast.BacktestReport, seconds float64) error {
	if f.format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Series  string  `json:"series"`
			Seconds float64 `json:"seconds"`
			forecast.BacktestReport
		}{f.file, seconds, r})
	}
	step := in.series.Step
	fmt.Fprintf(w, "%s: fitted on %s (%d steps of %s, %d missing), %d origins, horizon %s, %.2f s\n", f.file,
		formatSpan(time.Duration(r.FitSteps)*step), r.FitSteps, formatSpan(step), r.FitMissing, r.Origins,
		formatSpan(time.Duration(r.Horizon)*step), seconds)
	fmt.Fprintf(w, "scored per model: %d steps (%d skipped: missing), %d peaks (%d skipped); MASE season %s\n",
		r.StepsScored, r.StepsSkipped, r.PeaksScored, r.PeaksSkipped, formatSpan(r.MASESeasonNS))
	if r.ShortOfSeason {
		fmt.Fprintln(w, "less than a day of history before the test span: no daily season could be learned")
	}
	return writeScores(w, r, f.quantiles)
}

// writeScores prints one line per model, then the coverage of every quantile.
func writeScores(w io.Writer, r forecast.BacktestReport, ps []float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tWQL\tpeak WQL\tMASE\tskill vs last\tskill vs snaive\t")
	for _, m := range r.Models {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t\n", m.Model, shortScore(m.WQL), shortScore(m.PeakWQL), shortScore(m.MASE),
			shortScore(m.SkillLast), shortScore(m.SkillSeasonal))
	}
	fmt.Fprint(t, "\t\ncoverage\t")
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

// shortScore writes a score for reading; one that could not be computed is a dash.
func shortScore(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 4, 64)
}
