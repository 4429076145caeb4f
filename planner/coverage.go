package planner

import (
	"fmt"
	"math"

	"forewarm/forecast"
)

// ForecastCoverage is how often the quantiles that a forecaster gave in advance held on this model's own past, for each
// token kind. Decide reads that of the peak over the forecast's horizon.
//
// A forecast whose service level held less often than stated, by more than chance explains, is read at a higher one.
// That never lowers a plan: coverage above the stated level changes nothing. A nil ForecastCoverage, or one of few
// forecasts, is unknown and changes nothing either.
type ForecastCoverage struct {
	Prompt     forecast.Coverage `json:"prompt"`
	Completion forecast.Coverage `json:"completion"`
}

// PeakCoverage is the measured coverage that a Decision has looked at.
type PeakCoverage struct {
	// Stated is the service level τ; Prompt and Completion are the shares of peaks at or below its quantile. A share of
	// no forecasts at all is nil.
	Stated     float64  `json:"stated"`
	Prompt     *float64 `json:"prompt,omitempty"`
	Completion *float64 `json:"completion,omitempty"`
	// Forecasts is how many peaks the smaller of both shares was measured on.
	Forecasts int `json:"forecasts"`
	// Noise is how far below Stated a share may be by chance (two standard errors).
	Noise float64 `json:"noise"`
}

const (
	// coverageMemory is how many forecasts a Coverage remembers: that of an exponential mean with a weight of 1/1000.
	coverageMemory = 2000
	// coverageErrors is how many standard errors below the stated level a share must be to count as low.
	coverageErrors = 2
)

// readLevel is the level at which a forecast is read for a stated service level: that, or a higher one when it has
// held too rarely; with what was looked at, nil when the coverage is unknown.
func (f *Forecast) readLevel(stated float64) (float64, *PeakCoverage) {
	if f.Coverage == nil {
		return stated, nil
	}
	level, seen := stated, &PeakCoverage{Stated: stated}
	for _, kind := range []struct {
		measured forecast.Coverage
		share    **float64
	}{{f.Coverage.Prompt, &seen.Prompt}, {f.Coverage.Completion, &seen.Completion}} {
		points, n := kind.measured.Peak, kind.measured.Forecasts
		if len(points) == 0 || n == 0 {
			continue
		}
		share, noise := roundDigits(shareAt(points, stated)), coverageNoise(stated, n, f.Prompt.Steps())
		*kind.share = &share
		if seen.Forecasts == 0 || n < seen.Forecasts {
			seen.Forecasts, seen.Noise = n, roundDigits(noise)
		}
		level = max(level, roundDigits(levelFor(points, stated, stated-noise)))
	}
	if seen.Forecasts == 0 {
		return stated, nil
	}
	return level, seen
}

// coverageNoise is how far the share of n peaks may fall below the stated level by chance. Peaks over a horizon
// overlap, so that only every horizon-th counts as a trial of its own.
func coverageNoise(stated float64, n, horizon int) float64 {
	trials := float64(min(n, coverageMemory)) / float64(max(1, horizon))
	return coverageErrors * math.Sqrt(stated*(1-stated)/trials)
}

// shareAt is the measured share at a level, linear between the measured levels and up to all of them at 1.
func shareAt(points []forecast.Covered, level float64) float64 {
	before := forecast.Covered{}
	for _, at := range coveredToOne(points) {
		if level <= at.P {
			return before.Share + (at.Share-before.Share)*(level-before.P)/(at.P-before.P)
		}
		before = at
	}
	return 1
}

// levelFor is the lowest level from stated on whose measured share reaches want; 1, the worst path, when no other does.
func levelFor(points []forecast.Covered, stated, want float64) float64 {
	before := forecast.Covered{P: stated, Share: shareAt(points, stated)}
	if before.Share >= want {
		return stated
	}
	for _, at := range coveredToOne(points) {
		if at.P <= stated {
			continue
		}
		if at.Share >= want {
			return before.P + (at.P-before.P)*(want-before.Share)/(at.Share-before.Share)
		}
		before = at
	}
	return 1
}

// coveredToOne appends what needs no measurement: nothing lies above the whole distribution.
func coveredToOne(points []forecast.Covered) []forecast.Covered {
	return append(points[:len(points):len(points)], forecast.Covered{P: 1, Share: 1})
}

// coverageText says how often the service level held.
func (c *course) coverageText() string {
	v := c.coverage
	if v == nil {
		return ""
	}
	return fmt.Sprintf("; p%s of the peak held for %s of %d forecasts", percent(v.Stated), v.Shares(), v.Forecasts)
}

// levelText names the level that is read, and why it is another one than asked for.
func (c *course) levelText() string {
	if c.level <= c.policy.ServiceLevel {
		return "p" + percent(c.level)
	}
	// percent of a level that was raised has many digits; people need three.
	return fmt.Sprintf("p%.4g (raised from p%s, which has held too rarely)", 100*c.level, percent(c.policy.ServiceLevel))
}

// Shares prints both shares, or the only one there is; it must have one.
func (v *PeakCoverage) Shares() string {
	text := func(kind string, share *float64) string { return fmt.Sprintf("%.3g%% (%s)", 100**share, kind) }
	switch {
	case v.Prompt == nil:
		return text("completion", v.Completion)
	case v.Completion == nil:
		return text("prompt", v.Prompt)
	}
	return text("prompt", v.Prompt) + " and " + text("completion", v.Completion)
}

// problem reports a coverage that no forecaster measures.
func (v *ForecastCoverage) problem() error {
	if v == nil {
		return nil
	}
	for _, kind := range []struct {
		name string
		c    forecast.Coverage
	}{{"prompt", v.Prompt}, {"completion", v.Completion}} {
		if kind.c.Forecasts < 0 {
			return fmt.Errorf("forecast.coverage.%s.forecasts is %d: at least 0 is allowed", kind.name, kind.c.Forecasts)
		}
		for _, list := range [][]forecast.Covered{kind.c.Steps, kind.c.Peak} {
			last := 0.0
			for _, at := range list {
				if !(at.P > last && at.P < 1 && at.Share >= 0 && at.Share <= 1) {
					return fmt.Errorf("forecast.coverage.%s has a share of %v at p %v after %v: shares from 0 to 1 at ascending "+
						"levels between 0 and 1 are allowed", kind.name, at.Share, at.P, last)
				}
				last = at.P
			}
		}
	}
	return nil
}
