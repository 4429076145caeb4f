package planner

import (
	"fmt"
	"strings"
	"time"
)

// demand settles what is known about the load and the future of the model. Any missing fact makes the model blind: its
// plan may grow but not shrink.
func (c *course) demand() {
	var missing []string
	if problem := c.loadProblem(); problem != "" {
		missing = append(missing, problem)
	} else {
		c.loadKnown = true
	}
	c.forecastOK = c.state.Forecast != nil && c.forecastCovers()
	if !c.forecastOK {
		missing = append(missing, "there is no forecast")
	}
	if c.state.Profile == nil {
		missing = append(missing, "there is no replica profile")
	}
	if c.state.Replicas == nil {
		missing = append(missing, "the replica count is unknown")
	} else {
		c.supply, c.supplyOK = c.state.Replicas.supply(), true
	}
	if c.missingGauge != "" {
		missing = append(missing, c.missingGauge)
	}
	if c.invalid != "" {
		missing = append(missing, c.invalid)
	}
	c.blind = strings.Join(missing, ", ")
	c.level = c.policy.ServiceLevel
	if c.forecastOK {
		c.level, c.coverage = c.state.Forecast.readLevel(c.level)
	}
	c.step(StageDemand, nil, c.demandText())
}

// loadProblem says why the load says nothing about this moment, or nothing. A load from further ahead than it may be old
// was dated by a clock that has been set back since: what is asked for now is not known.
func (c *course) loadProblem() string {
	l := c.state.Load
	if l == nil {
		return "the load is unknown"
	}
	switch age := c.now.Sub(l.At); {
	case age > c.policy.LoadMaxAge:
		return fmt.Sprintf("the newest load is %s old, %s is allowed", shortDuration(age), shortDuration(c.policy.LoadMaxAge))
	case age < -c.policy.LoadMaxAge:
		return fmt.Sprintf("the newest load is dated %s ahead of now", shortDuration(-age))
	}
	return ""
}

func (c *course) demandText() string {
	var b strings.Builder
	if l := c.state.Load; l == nil {
		b.WriteString("offered load unknown")
	} else {
		bound := ""
		if l.LowerBound {
			bound = "at least "
		}
		fmt.Fprintf(&b, "offered load %s%s", bound, l.Load)
		if l.Source != "" {
			fmt.Fprintf(&b, " (%s)", l.Source)
		}
		if age := c.now.Sub(l.At); age >= 0 {
			fmt.Fprintf(&b, ", %s old", shortDuration(age))
			if age > c.policy.LoadMaxAge {
				fmt.Fprintf(&b, ", which is too old to shrink on (load_max_age %s)", shortDuration(c.policy.LoadMaxAge))
			}
		} else {
			fmt.Fprintf(&b, ", dated %s ahead", shortDuration(-age))
		}
	}
	if c.forecastOK {
		f := c.state.Forecast
		fmt.Fprintf(&b, "; %d joint paths by %s to %s", len(f.Prompt.Paths), f.Method, c.clock(c.forecastEnd()))
		if f.Borrowed != "" {
			b.WriteString(" on a history " + f.Borrowed)
		}
		b.WriteString(c.coverageText())
		b.WriteString(c.eventsText())
	} else {
		b.WriteString("; no forecast")
	}
	return b.String()
}

// forecastEnd is the end of the last forecast step.
func (c *course) forecastEnd() time.Time {
	e := c.state.Forecast.Prompt
	return e.Start.Add(time.Duration(e.Steps()) * e.Step)
}

// forecastCovers reports whether any part of the forecast still lies ahead. A forecast made long ago and never renewed
// says nothing about the future.
func (c *course) forecastCovers() bool {
	return c.forecastEnd().After(c.now)
}

// window maps [from, to] onto step indices [first, last] of the ensemble; a step counts when any part of it lies in the
// window. beyond is set when the window reaches past the forecast; the indices are then clipped to what exists.
func (c *course) window(from, to time.Time) (first, last int, beyond bool) {
	e := c.state.Forecast.Prompt
	index := func(t time.Time) int {
		d := t.Sub(e.Start)
		if d < 0 {
			return 0
		}
		return int(d / e.Step)
	}
	first, last = index(from), index(to)
	steps := e.Steps()
	if !to.Before(c.forecastEnd()) {
		beyond = true
	}
	return min(first, steps-1), min(last, steps-1), beyond
}

// clock prints a time of day for Steps, in the zone of now; the Decision carries the exact times.
func (c *course) clock(t time.Time) string { return t.In(c.now.Location()).Format("15:04:05") }
