package forecast

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrShortHistory is returned (wrapped, with what was given and what is needed) when a forecaster cannot be fitted.
// The caller holds its plan; it never treats the missing forecast as zero.
var ErrShortHistory = errors.New("forecast: history too short")

// Forecaster is a state machine over one Series: Fit once, Update with each next value, Sample at any time. It is
// deterministic: the same calls give the same paths. It is not safe for concurrent use.
//
// Paths are the point forecast plus replayed errors. An error moves between levels in proportion to them, within bounds;
// an unknown one is as the one before it in the trajectory, never zero; at a lower bound it is at least the one before
// it. A quantity that was never negative stays so.
type Forecaster interface {
	// Name is the short stable name used in tables and configuration, such as "last" or "snaive".
	Name() string

	// Fit replaces all state with what s teaches. It keeps no reference to s.Values. It returns ErrShortHistory,
	// wrapped, when s has too few known values for the method.
	Fit(s Series) error

	// Update appends the value of the next step, in the unit of the fitted Series; NaN is a missing step. atLeast marks
	// v as a lower bound. It must follow a successful Fit, else it panics; so it does when v is infinite or beyond 1e100 in size.
	Update(v float64, atLeast bool)

	// Sample returns len(b.Ages) paths over the horizon steps that follow the last value seen (Fit and Updates). Path i
	// replays the forecast errors that followed the origin b.Ages[i] steps before now. It must follow a successful Fit
	// and panics when horizon < 1, or b is empty or holds a negative age.
	Sample(horizon int, b Blocks) Ensemble
}

// Options configures a Forecaster. The zero value is the default.
type Options struct {
	// History bounds how much of the past is kept, and with it memory: about 16 to 32 bytes a step. Zero is
	// DefaultHistory. Seasons and errors older than this are forgotten.
	History time.Duration

	// Horizon is the number of steps ahead that Auto scores its experts on: the lead time that the plan reads. Zero is
	// DefaultHorizon. Samples may be longer; the others ignore it.
	Horizon int

	// Seed draws the past errors that Auto's replay looks at. It changes nothing else.
	Seed uint64
}

const (
	// DefaultHistory is four weeks: enough for weekly seasons with a spare.
	DefaultHistory = 28 * day
	// DefaultHorizon is a usual replica lead time at a step of one minute.
	DefaultHorizon = 10
)

func (o Options) history() time.Duration {
	if o.History <= 0 {
		return DefaultHistory
	}
	return o.History
}

func (o Options) horizon() int {
	if o.Horizon <= 0 {
		return DefaultHorizon
	}
	return o.Horizon
}

// Names lists what New accepts, the default first: the mixture, the naive methods, and each expert of the mixture alone,
// with its own offsets and conformal correction.
func Names() []string {
	return append([]string{nameAuto, nameLast, nameSeasonal, nameDrift}, expertNames...)
}

// New returns an unfitted Forecaster by its name; the error of an unknown one lists Names.
func New(name string, opts Options) (Forecaster, error) {
	switch name {
	case nameAuto:
		return NewAuto(opts), nil
	case nameLast:
		return NewLastValue(opts), nil
	case nameSeasonal:
		return NewSeasonalNaive(opts), nil
	case nameDrift:
		return NewDampedDrift(opts), nil
	}
	if slices.Contains(expertNames, name) {
		return &Auto{opts: opts, only: name}, nil
	}
	return nil, fmt.Errorf("unknown forecaster %q, must be one of %s", name, strings.Join(Names(), ", "))
}
