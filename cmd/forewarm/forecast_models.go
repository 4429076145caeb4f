package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"forewarm/forecast"
)

// errInterrupted is what work that Ctrl-C has stopped ends with.
var errInterrupted = errors.New("interrupted")

// allModels stands for every model that there is.
const allModels = "all"

// modelNames checks a list of models; all stands for every one, the default first.
func modelNames(flag string, given []string) ([]string, error) {
	if slices.Equal(given, []string{allModels}) {
		return forecast.Names(), nil
	}
	var out []string
	var errs []error
	for _, name := range given {
		name = strings.TrimSpace(name)
		switch {
		case slices.Contains(out, name):
			errs = append(errs, fmt.Errorf("%s: %q is named twice", flag, name))
		case !slices.Contains(forecast.Names(), name):
			hint := ""
			if near := forecast.Nearest(name, forecast.Names()); near != "" {
				hint = fmt.Sprintf(" (did you mean %q?)", near)
			}
			errs = append(errs, fmt.Errorf("%s: unknown forecaster %q%s, must be one of %s, or %s", flag, name, hint,
				strings.Join(forecast.Names(), ", "), allModels))
		default:
			out = append(out, name)
		}
	}
	if len(given) == 0 {
		errs = append(errs, fmt.Errorf("%s is empty, must name at least one", flag))
	}
	return out, errors.Join(errs...)
}

// timedModel measures a forecaster, and does not begin a fit when the work has been stopped.
type timedModel struct {
	forecast.Forecaster
	ctx     context.Context
	fitting func(name string)
	cost    modelCost
	updates int
	samples int
}

// modelCost is what a model costs.
type modelCost struct {
	Model         string  `json:"model"`
	FitSeconds    float64 `json:"fit_seconds"`
	UpdateSeconds float64 `json:"update_seconds"` // mean of one update
	SampleSeconds float64 `json:"sample_seconds"` // mean of one forecast
}

// Fit implements forecast.Forecaster.
func (m *timedModel) Fit(s forecast.Series) error {
	if m.ctx.Err() != nil {
		return errInterrupted
	}
	m.fitting(m.Name())
	began := time.Now()
	err := m.Forecaster.Fit(s)
	m.cost.FitSeconds = time.Since(began).Seconds()
	return err
}

// Update implements forecast.Forecaster.
func (m *timedModel) Update(v float64, atLeast bool) {
	began := time.Now()
	m.Forecaster.Update(v, atLeast)
	m.updates++
	m.cost.UpdateSeconds += (time.Since(began).Seconds() - m.cost.UpdateSeconds) / float64(m.updates)
}

// Sample implements forecast.Forecaster.
func (m *timedModel) Sample(horizon int, b forecast.Blocks) forecast.Ensemble {
	began := time.Now()
	e := m.Forecaster.Sample(horizon, b)
	m.samples++
	m.cost.SampleSeconds += (time.Since(began).Seconds() - m.cost.SampleSeconds) / float64(m.samples)
	return e
}

// weights are the shares of a mixture's parts, by name; nil when the model is none or was never fitted.
func (m *timedModel) weights() map[string]float64 {
	if mixture, ok := bare(m.Forecaster).(interface{ Weights() map[string]float64 }); ok && m.samples > 0 {
		return mixture.Weights()
	}
	return nil
}

// bare is the forecaster without the calendar around it.
func bare(f forecast.Forecaster) forecast.Forecaster {
	if wrapped, ok := f.(*forecast.Eventful); ok {
		return wrapped.Unwrap()
	}
	return f
}

// weightsText lists shares, the largest first; those that round to nothing are left out.
func weightsText(weights map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(weights), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if share := 100 * weights[name]; share >= 0.5 {
			parts = append(parts, fmt.Sprintf("%s %.0f%%", name, share))
		}
	}
	return strings.Join(parts, " ")
}
