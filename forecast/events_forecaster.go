package forecast

import "time"

// Eventful is a Forecaster that knows a Calendar: the one inside sees demand without events, and its paths are
// multiplied by the effects of those ahead.
type Eventful struct {
	inner    Forecaster
	calendar *Calendar
	model    string
	effects  *Effects
}

// WithEvents wraps a Forecaster with the events that concern a model; without any it returns f itself.
func WithEvents(f Forecaster, c *Calendar, model string) Forecaster {
	if c == nil || !c.Concerns(model) {
		return f
	}
	return &Eventful{inner: f, calendar: c, model: model}
}

// Name returns the name of the forecaster inside.
func (f *Eventful) Name() string { return f.inner.Name() }

// Unwrap returns the forecaster inside, whose skill and weights are about demand without events.
func (f *Eventful) Unwrap() Forecaster { return f.inner }

// Fit implements Forecaster: Learn, then the forecaster inside on what is left.
func (f *Eventful) Fit(s Series) error {
	effects, clean := Learn(s, f.calendar, f.model)
	if err := f.inner.Fit(clean); err != nil {
		return err
	}
	f.effects = effects
	return nil
}

// Update implements Forecaster.
func (f *Eventful) Update(v float64, atLeast bool) {
	f.mustBeFitted()
	f.inner.Update(f.effects.Update(v, atLeast), atLeast)
}

// Sample implements Forecaster.
func (f *Eventful) Sample(horizon int, b Blocks) Ensemble {
	f.mustBeFitted()
	return f.effects.Apply(f.inner.Sample(horizon, b))
}

// Ahead returns the effects that Sample's paths carry inside [from, to); see Effects.Ahead.
func (f *Eventful) Ahead(from, to time.Time) []Effect {
	f.mustBeFitted()
	return f.effects.Ahead(from, to)
}

func (f *Eventful) mustBeFitted() {
	if f.effects == nil {
		panic("forecast: forecaster used before a successful Fit")
	}
}
