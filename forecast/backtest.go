package forecast

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// BacktestConfig says how to run Backtest.
type BacktestConfig struct {
	// Horizon is the number of steps ahead of every forecast, at least 1.
	Horizon int

	// Test is the span at the end of the series that is forecast. Models are fitted once, on what comes before it.
	Test time.Duration

	// Stride is the number of steps between origins. Zero is Horizon: windows then do not overlap.
	Stride int

	// Origins, if not empty, replaces Stride: the start times of the last values used. Each must be the start of a step
	// of the series, not before the last step ahead of the test span, with the whole horizon inside the series.
	Origins []time.Time

	// Quantiles are strictly ascending and inside (0,1). MASE needs 0.5 among them.
	Quantiles []float64

	// Paths is the number of sample paths per forecast. Zero is DefaultPaths.
	Paths int

	// Seed places the blocks. All models replay the same ones.
	Seed uint64

	// Each, if not nil, receives every prediction as it is made: per origin and model the steps in order, then the peak.
	// The slice of quantiles is reused after it returns. An error stops the backtest and is returned, wrapped, beside
	// the report of the origins done until then.
	Each func(Prediction) error
}

// DefaultPaths is the number of sample paths that a plan is usually made with.
const DefaultPaths = 200

// DefaultQuantiles are the quantiles that reports show.
func DefaultQuantiles() []float64 { return []float64{0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99} }

// Prediction is one forecast value with what happened.
type Prediction struct {
	Origin    time.Time // start of the last step used
	Time      time.Time // start of the step forecast; for a peak, of the last step of the horizon
	Step      int       // 1 is the step after Origin; 0 is the peak over the whole horizon
	Actual    float64   // NaN when it is missing or only a lower bound
	Model     string
	Quantiles []float64 // as BacktestConfig.Quantiles
}

// QuantileScore is how one quantile did.
type QuantileScore struct {
	P        float64 `json:"p"`
	Pinball  float64 `json:"pinball"`  // mean, in the unit of the series
	Coverage float64 `json:"coverage"` // share of actual values at or below the quantile
}

// ModelScore is how one model did. A number that could not be computed is nil.
type ModelScore struct {
	Model string          `json:"model"`
	Steps []QuantileScore `json:"steps"` // over all steps of all origins
	Peaks []QuantileScore `json:"peaks"` // of the maximum over the horizon

	// WQL is 2·Σ pinball ÷ Σ|actual|, averaged over quantiles; PeakWQL the same of peaks. Nil when all actuals are zero.
	WQL     *float64 `json:"wql"`
	PeakWQL *float64 `json:"peak_wql"`

	// MASE is the mean absolute error of the median ÷ that of repeating the value one season before, over the fitted
	// history (Hyndman and Koehler, Another look at measures of forecast accuracy, 2006). Nil without the 0.5 quantile,
	// or when the season repeats exactly.
	MASE *float64 `json:"mase"`

	// SkillLast and SkillSeasonal are 1 − pinball ÷ pinball of last value and of seasonal naive, over all quantiles:
	// positive is better. Nil when that model was not run or made no error.
	SkillLast     *float64 `json:"skill_last"`
	SkillSeasonal *float64 `json:"skill_snaive"`
}

// BacktestReport is the result of Backtest.
type BacktestReport struct {
	Horizon       int           `json:"horizon_steps"`
	StepNS        time.Duration `json:"step_ns"`
	FitSteps      int           `json:"fit_steps"`    // steps before the test span
	FitMissing    int           `json:"fit_missing"`  // of those, missing
	Origins       int           `json:"origins"`      // forecasts made per model
	StepsScored   int           `json:"steps_scored"` // per model
	StepsSkipped  int           `json:"steps_skipped"`
	PeaksScored   int           `json:"peaks_scored"`
	PeaksSkipped  int           `json:"peaks_skipped"` // for a missing or clipped step in the window
	MASESeasonNS  time.Duration `json:"mase_season_ns"`
	Models        []ModelScore  `json:"models"`
	ShortOfSeason bool          `json:"short_of_season"` // less than a day to fit on: no daily season could be learned
}

// Backtest forecasts the end of s from rolling origins, as if it had not happened yet, and scores the result. Each model
// is fitted once before the test span, then updated value by value; a sample sees only values up to its origin. A
// missing or clipped actual is skipped and counted, never scored as zero.
//
// A series that is too short gives ErrShortHistory, wrapped, with what it has and what is needed; a bad configuration an
// error with every problem. O(steps + origins·paths·horizon) per model.
func Backtest(s Series, models []Forecaster, cfg BacktestConfig) (BacktestReport, error) {
	r, err := newBacktest(s, models, cfg)
	if err != nil {
		return BacktestReport{}, err
	}
	for _, m := range models {
		if err := m.Fit(s.slice(0, r.split)); err != nil {
			return BacktestReport{}, fmt.Errorf("fitting %s: %w", m.Name(), err)
		}
	}
	next := r.split
	for _, origin := range r.origins {
		for ; next <= origin; next++ {
			for _, m := range models {
				m.Update(s.Values[next], s.lowerBound(next))
			}
		}
		if err := r.forecast(origin); err != nil {
			return r.report(), fmt.Errorf("backtest stopped after %d of %d origins: %w", r.done, len(r.origins), err)
		}
	}
	return r.report(), nil
}

// backtest is a run in progress.
type backtest struct {
	s       Series
	models  []Forecaster
	cfg     BacktestConfig
	split   int   // first step of the test span
	origins []int // ascending
	done    int

	steps, peaks []tally // per model
	absErrors    []float64
	skipped      [2]int // steps, peaks
}

// tally sums the scores of one model.
type tally struct {
	pinball, covered []float64 // per quantile
	sumAbs           float64
	n                int
}

func (t *tally) add(ps, qs []float64, y float64) {
	for j, p := range ps {
		t.pinball[j] += Pinball(p, qs[j], y)
		if y <= qs[j] {
			t.covered[j]++
		}
	}
	t.sumAbs += math.Abs(y)
	t.n++
}

func newBacktest(s Series, models []Forecaster, cfg BacktestConfig) (*backtest, error) {
	if cfg.Stride == 0 {
		cfg.Stride = cfg.Horizon
	}
	if cfg.Paths == 0 {
		cfg.Paths = DefaultPaths
	}
	if err := errors.Join(s.Validate(), cfg.validate(len(models))); err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	test := int((cfg.Test + s.Step - 1) / s.Step)
	need := 2 * cfg.Horizon
	if s.Len()-test < need || test < cfg.Horizon {
		return nil, fmt.Errorf("%w: the series has %d steps of %v (%v); a test span of %v needs %v of its own (at least "+
			"one horizon) and at least %v of history before it, %v in all", ErrShortHistory, s.Len(), s.Step, s.span(s.Len()),
			cfg.Test, s.span(max(test, cfg.Horizon)), s.span(need), s.span(max(test, cfg.Horizon)+need))
	}
	r := &backtest{s: s, models: models, cfg: cfg, split: s.Len() - test, absErrors: make([]float64, len(models))}
	var err error
	if r.origins, err = r.placeOrigins(); err != nil {
		return nil, fmt.Errorf("backtest: %w", err)
	}
	for range models {
		r.steps = append(r.steps, newTally(len(cfg.Quantiles)))
		r.peaks = append(r.peaks, newTally(len(cfg.Quantiles)))
	}
	return r, nil
}

func newTally(quantiles int) tally {
	return tally{pinball: make([]float64, quantiles), covered: make([]float64, quantiles)}
}

// span returns the duration of n steps.
func (s Series) span(n int) time.Duration { return time.Duration(n) * s.Step }

func (c BacktestConfig) validate(models int) error {
	var errs []error
	for _, v := range []struct {
		what string
		n    int
	}{{"horizon", c.Horizon}, {"stride", c.Stride}, {"number of paths", c.Paths}, {"number of models", models}} {
		if v.n < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, must be at least 1", v.what, v.n))
		}
	}
	if c.Test <= 0 {
		errs = append(errs, fmt.Errorf("test span is %v, must be positive", c.Test))
	}
	return errors.Join(append(errs, ValidateQuantiles(c.Quantiles))...)
}

// ValidateQuantiles reports whether ps is a list that forecasts can be scored on: not empty, strictly ascending, inside
// (0,1).
func ValidateQuantiles(ps []float64) error {
	if len(ps) == 0 {
		return errors.New("no quantiles, must name at least one inside (0,1)")
	}
	for i, p := range ps {
		if !(p > 0 && p < 1) {
			return fmt.Errorf("quantile %v is outside (0,1)", p)
		}
		if i > 0 && p <= ps[i-1] {
			return fmt.Errorf("quantile %v follows %v, must be strictly ascending", p, ps[i-1])
		}
	}
	return nil
}

// placeOrigins returns the indexes of the origins, ascending.
func (r *backtest) placeOrigins() ([]int, error) {
	first, last := r.split-1, r.s.Len()-1-r.cfg.Horizon
	var out []int
	if len(r.cfg.Origins) == 0 {
		for o := first; o <= last; o += r.cfg.Stride {
			out = append(out, o)
		}
		return out, nil
	}
	var errs []error
	for _, t := range r.cfg.Origins {
		i := int(t.Sub(r.s.Start) / r.s.Step)
		switch {
		case !r.s.TimeAt(i).Equal(t):
			errs = append(errs, fmt.Errorf("origin %s is not the start of a step", t.Format(time.RFC3339)))
		case i < first || i > last:
			errs = append(errs, fmt.Errorf("origin %s is outside the test span, must be from %s to %s",
				t.Format(time.RFC3339), r.s.TimeAt(first).Format(time.RFC3339), r.s.TimeAt(last).Format(time.RFC3339)))
		default:
			out = append(out, i)
		}
	}
	if n := len(errs); n > problemsMax {
		errs = append(errs[:problemsMax], fmt.Errorf("and %d more bad origins", n-problemsMax))
	}
	slices.Sort(out)
	return slices.Compact(out), errors.Join(errs...)
}

// actuals returns the steps after origin, NaN where they cannot be scored, and their maximum, NaN unless all are known.
func (r *backtest) actuals(origin int) ([]float64, float64) {
	ys := slices.Clone(r.s.Values[origin+1 : origin+1+r.cfg.Horizon])
	peak := math.Inf(-1)
	for k := range ys {
		if r.s.lowerBound(origin + 1 + k) {
			ys[k] = math.NaN()
		}
		peak = max(peak, ys[k]) // NaN if any is NaN
	}
	return ys, peak
}

// forecast samples, scores and hands out every model's forecast at one origin.
func (r *backtest) forecast(origin int) error {
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 0x6261636b74657374)) // "backtest"; renewed, so that every origin draws alike
	clock := r.s.slice(0, origin+1).BlockClock()
	blocks := DrawBlocks(rng, clock, r.cfg.Paths, r.cfg.Horizon)
	ys, peak := r.actuals(origin)
	for _, y := range ys {
		if math.IsNaN(y) {
			r.skipped[0]++
		}
	}
	if math.IsNaN(peak) {
		r.skipped[1]++
	}
	r.done++
	for x, m := range r.models {
		if err := r.forecastModel(x, m.Sample(r.cfg.Horizon, blocks), origin, ys, peak); err != nil {
			return err
		}
	}
	return nil
}

func (r *backtest) forecastModel(x int, e Ensemble, origin int, ys []float64, peak float64) error {
	qs := make([]float64, len(r.cfg.Quantiles))
	median := slices.Index(r.cfg.Quantiles, 0.5)
	p := Prediction{Origin: r.s.TimeAt(origin), Model: r.models[x].Name(), Quantiles: qs}
	hand := func(step, index int, sorted []float64, y float64, t *tally) error {
		for j, q := range r.cfg.Quantiles {
			qs[j] = quantileSorted(q, sorted)
		}
		if !math.IsNaN(y) {
			t.add(r.cfg.Quantiles, qs, y)
		}
		if r.cfg.Each == nil {
			return nil
		}
		p.Step, p.Time, p.Actual = step, r.s.TimeAt(index), y
		return r.cfg.Each(p)
	}
	for k, y := range ys {
		if err := hand(k+1, origin+1+k, e.sortedStep(k), y, &r.steps[x]); err != nil {
			return err
		}
		if median >= 0 && !math.IsNaN(y) {
			r.absErrors[x] += math.Abs(y - qs[median])
		}
	}
	return hand(0, origin+len(ys), e.sortedPeaks(0, len(ys)), peak, &r.peaks[x])
}
