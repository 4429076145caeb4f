package forecast

import "time"

// The short stable names of the forecasters.
const (
	nameAuto     = "auto"
	nameLast     = "last"
	nameSeasonal = "snaive"
	nameDrift    = "drift"

	nameDayLevel           = "daylevel"
	nameWeekLevel          = "weeklevel"
	nameProfile            = "profile"
	nameHoltWinters        = "dshw"
	nameAutoregression     = "stlar"
	nameHarmonic           = "harmonic"
	namePeakRatio          = "peakratio"
	nameReplay             = "replay"
	nameQuantileRegression = "quantreg"
)

// single is a Forecaster of one method: the history, the method's state, and the paths from both.
type single struct {
	method  method
	keep    time.Duration
	h       *history
	sampler sampler
}

// Name returns the short stable name.
func (f *single) Name() string { return f.method.name() }

// Fit implements Forecaster.
func (f *single) Fit(s Series) error {
	h, err := newHistory(s, f.keep)
	if err != nil {
		return err
	}
	f.h = h
	f.method.fit(h)
	return nil
}

// Update implements Forecaster. O(1), amortised, but for one trial of other parameters now and then (see tuner), whose
// cost is bounded.
func (f *single) Update(v float64, atLeast bool) {
	f.h.mustBeFitted()
	f.method.update(f.h, f.h.append(v, atLeast))
}

// Sample implements Forecaster. O(paths·horizon).
func (f *single) Sample(horizon int, b Blocks) Ensemble {
	f.h.mustBeFitted()
	e := f.h.newEnsemble(horizon, b)
	f.sampler.sample(f.h, f.method, f.h.last(), b.Ages, everyPath(len(b.Ages)), e.Paths)
	return e
}

// mustBeFitted panics when Fit has not succeeded, which is the caller's bug.
func (h *history) mustBeFitted() {
	if h == nil {
		panic("forecast: forecaster used before a successful Fit")
	}
}

// newEnsemble allocates the answer to Sample.
func (h *history) newEnsemble(horizon int, b Blocks) Ensemble {
	b.mustBeUsable(horizon)
	return Ensemble{Start: h.timeAt(len(h.vals)), Step: h.clock.step, Paths: newPaths(len(b.Ages), horizon)}
}

// mustBeUsable panics when a Sample is asked for that cannot be made, which is the caller's bug.
func (b Blocks) mustBeUsable(horizon int) {
	if horizon < 1 || len(b.Ages) == 0 {
		panic("forecast: sample needs a horizon and blocks of at least 1")
	}
	for _, age := range b.Ages {
		if age < 0 {
			panic("forecast: negative block age")
		}
	}
}

// LastValue forecasts that the level stays what it is; in a gap that is the last known level.
type LastValue struct{ single }

// NewLastValue returns an unfitted LastValue.
func NewLastValue(opts Options) *LastValue {
	return &LastValue{single{method: lastValue{}, keep: opts.history()}}
}

// SeasonalNaive forecasts that each wall-clock time does what it did on earlier days, moved to the level of now. Fit
// chooses which days come first (yesterday, the last day of the same class, the same day last week), over how many days
// the mean is taken (one, three or five), and the move (none, additive, ratio), by their error on the history it is
// given; Update tries the other choices again, each about once a day. A missing reference is passed over for the next
// earlier day of the same class, then of any; without any the forecast is the last known level.
type SeasonalNaive struct{ single }

// NewSeasonalNaive returns an unfitted SeasonalNaive.
func NewSeasonalNaive(opts Options) *SeasonalNaive {
	return &SeasonalNaive{single{method: &seasonalNaive{}, keep: opts.history()}}
}

// DampedDrift forecasts that the present trend goes on and dies away. Fit chooses the smoothing by its error on the
// history it is given; Update tries the other choices again, each about once a day.
type DampedDrift struct{ single }

// NewDampedDrift returns an unfitted DampedDrift.
func NewDampedDrift(opts Options) *DampedDrift {
	return &DampedDrift{single{method: &dampedDrift{}, keep: opts.history()}}
}
