package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
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
peak, skill against last value and seasonal naive, the weights of the mixture, and what fitting and updating cost. With
--events every model knows the calendar.

Ctrl-C ends it with the scores of the origins done until then, and exit code 1.`,
		Example:      "  forewarm backtest --series demand.csv --horizon 10m --test 3d --predictions out.csv",
		Args:         noArguments,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd.Flags())
	cmd.Flags().Var(&f.test, "test", "span at the end of the series that is forecast")
	cmd.Flags().Var(&f.stride, "stride", "distance between origins (default: the horizon, so that windows do not overlap)")
	cmd.Flags().StringVar(&f.origins, "origins", "", "file with one origin time per line, instead of --stride")
	cmd.Flags().StringSliceVar(&f.models, "models", []string{allModels},
		"models to compare: of "+strings.Join(forecast.Names(), ", ")+", or all")
	cmd.Flags().StringVar(&f.predictions, "predictions", "", "CSV file to write every prediction to")
	cmd.Flags().StringVar(&f.format, "format", "table", "table or json")
	cmd.MarkFlagsMutuallyExclusive("stride", "origins")
	return cmd
}

func (f *backtestFlags) run(cmd *cobra.Command) (err error) {
	names, badNames := modelNames("--models", f.models)
	in, badInput := f.load(cmd.Flags().Changed("horizon"))
	var cfg forecast.BacktestConfig
	if badInput == nil { // the rest is measured in its steps
		cfg, badInput = f.config(in)
	}
	if err := errors.Join(checkFormat(f.format, "table", "json"), badNames, badInput); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	sink, err := newPredictionSink(f.predictions, f.file, in, f.quantiles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	bar := newBar(cmd.ErrOrStderr(), f.expectedRows(in, cfg, len(names)))
	models, err := f.newModels(ctx, in, names, bar)
	if err != nil {
		return err
	}
	cfg.Each = func(p forecast.Prediction) error {
		if p.Step == 1 && p.Model == names[0] {
			bar.Describe("backtest")
		}
		if err := errors.Join(bar.Add(1), sink.add(p)); err != nil {
			return err
		}
		if p.Step == 0 && p.Model == names[len(names)-1] && ctx.Err() != nil {
			return errInterrupted // all models have been scored at this origin
		}
		return nil
	}
	began := time.Now()
	report, err := forecast.Backtest(in.series, forecasters(models), cfg)
	seconds := time.Since(began).Seconds()
	_ = bar.Exit() // only leaves the line of the bar; there is nothing to do about a terminal that is gone
	stopped := errors.Is(err, errInterrupted)
	if err != nil && !(stopped && report.Origins > 0) {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	if err := f.write(cmd.OutOrStdout(), in, backtestResult{report, models, seconds, stopped}); err != nil {
		return err
	}
	if !stopped {
		return nil
	}
	kept := ""
	if sink.file != nil {
		kept = ", their predictions are in " + f.predictions
	}
	return fmt.Errorf("%s: %w; the scores are of the origins done%s", f.file, err, kept)
}

// interruptible returns the context of a command, which Ctrl-C ends too when the command was not started by main.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, stop := signal.NotifyContext(parent, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends even what hangs
	return ctx, stop
}

// backtestResult is what the verb prints.
type backtestResult struct {
	report  forecast.BacktestReport
	models  []*timedModel
	seconds float64
	stopped bool
}

// costs returns what was measured of every model.
func (r backtestResult) costs() []modelCost {
	out := make([]modelCost, len(r.models))
	for i, m := range r.models {
		out[i] = m.cost
		out[i].Model = m.Name()
	}
	return out
}

// config turns the flags into steps.
func (f *backtestFlags) config(in seriesInput) (forecast.BacktestConfig, error) {
	var errs []error
	step := in.series.Step
	cfg := forecast.BacktestConfig{
		Horizon: in.horizon, Test: time.Duration(f.test), Quantiles: f.quantiles, Paths: f.paths, Seed: f.seed,
	}
	if stride := time.Duration(f.stride); stride > 0 {
		if stride%step != 0 {
			errs = append(errs, fmt.Errorf("--stride is %s, must be a multiple of the step of %s, which is %s",
				formatSpan(stride), f.file, formatSpan(step)))
		}
		cfg.Stride = int(stride / step)
	}
	if f.origins != "" {
		var err error
		cfg.Origins, err = readOrigins(f.origins, in)
		errs = append(errs, err)
	}
	return cfg, errors.Join(errs...)
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

// newModels makes the models that are compared, each with the calendar and a clock around it.
func (f *backtestFlags) newModels(ctx context.Context, in seriesInput, names []string,
	bar *progressbar.ProgressBar) ([]*timedModel, error) {
	fitting := func(name string) { bar.Describe("fitting " + name) }
	models := make([]*timedModel, len(names))
	for i, name := range names {
		m, err := forecast.New(name, forecast.Options{Horizon: in.horizon, Seed: f.seed})
		if err != nil {
			return nil, fmt.Errorf("--models: %w", err)
		}
		models[i] = &timedModel{Forecaster: in.withEvents(m), ctx: ctx, fitting: fitting}
	}
	return models, nil
}

func forecasters(models []*timedModel) []forecast.Forecaster {
	out := make([]forecast.Forecaster, len(models))
	for i, m := range models {
		out[i] = m
	}
	return out
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
