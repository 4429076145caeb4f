package planner

import (
	"fmt"
	"math"
	"strings"
	"time"

	"forewarm/forecast"
)

// EventEffect is what an event of the calendar does to the forecast, whose paths hold it already.
type EventEffect struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Prompt and Completion are the largest factors on the two token kinds within the forecast (the smallest where demand
	// falls). Invariant: above 0.
	Prompt     float64 `json:"prompt_multiplier"`
	Completion float64 `json:"completion_multiplier"`
	// Why says where the factors come from.
	Why string `json:"why"`
}

// eventsAhead are the effects that the ensembles of a model hold, by start; none without a calendar.
func (m *trackedModel) eventsAhead(from, to time.Time) []EventEffect {
	prompt, ok := m.prompt.(*forecast.Eventful)
	if !ok {
		return nil
	}
	var out []EventEffect
	completion := m.completion.(*forecast.Eventful).Ahead(from, to) // of the same calendar, so of the same occurrences
	for i, e := range prompt.Ahead(from, to) {
		out = append(out, EventEffect{
			Name: e.Name, From: e.Start.UTC(), To: e.Done.UTC(), Prompt: roundDigits(e.Multiplier),
			Completion: roundDigits(completion[i].Multiplier), Why: e.Why,
		})
	}
	return out
}

// bare is a forecaster without the calendar around it.
func bare(f forecast.Forecaster) forecast.Forecaster {
	if e, ok := f.(*forecast.Eventful); ok {
		return e.Unwrap()
	}
	return f
}

func (e EventEffect) problem() error {
	for _, f := range []float64{e.Prompt, e.Completion} {
		if !(f > 0) || math.IsInf(f, 0) {
			return fmt.Errorf("forecast: event %q multiplies by %v: a number above 0 is allowed", e.Name, f)
		}
	}
	if !plausible(e.From) || !plausible(e.To) {
		return fmt.Errorf("forecast: event %q is from %s to %s: the years %d to %d are allowed", e.Name,
			e.From.Format(time.RFC3339), e.To.Format(time.RFC3339), yearMin, yearMax)
	}
	return nil
}

// eventsText names the events that the forecast holds.
func (c *course) eventsText() string {
	var b strings.Builder
	for _, e := range c.state.Forecast.Events {
		size := fmt.Sprintf("×%.3g", e.Prompt)
		if other := fmt.Sprintf("×%.3g", e.Completion); other != size {
			size = fmt.Sprintf("%s prompt, %s completion", size, other)
		}
		fmt.Fprintf(&b, "; event %s %s from %s to %s (%s)", e.Name, size, c.dayClock(e.From), c.dayClock(e.To), e.Why)
	}
	return b.String()
}

// dayClock prints a time of day, and the day when it is not that of now.
func (c *course) dayClock(t time.Time) string {
	t = t.In(c.now.Location())
	if t.YearDay() != c.now.YearDay() || t.Year() != c.now.Year() {
		return t.Format("Mon 15:04")
	}
	return t.Format("15:04")
}
