package forecast

import (
	"math"
	"slices"
)

// report sums up the origins done so far.
func (r *backtest) report() BacktestReport {
	fit := r.s.slice(0, r.split)
	scale, season := fit.seasonalError()
	out := BacktestReport{
		Horizon: r.cfg.Horizon, StepNS: r.s.Step, FitSteps: fit.Len(), FitMissing: fit.Len() - fit.Known(),
		Origins: r.done, StepsSkipped: r.skipped[0], PeaksSkipped: r.skipped[1],
		StepsScored: r.done*r.cfg.Horizon - r.skipped[0], PeaksScored: r.done - r.skipped[1],
		MASESeasonNS: r.s.span(season), ShortOfSeason: r.s.span(fit.Len()) < day,
	}
	for x, m := range r.models {
		score := ModelScore{
			Model: m.Name(), Steps: r.steps[x].scores(r.cfg.Quantiles), Peaks: r.peaks[x].scores(r.cfg.Quantiles),
			WQL: r.steps[x].wql(), PeakWQL: r.peaks[x].wql(),
			SkillLast: r.skill(x, nameLast), SkillSeasonal: r.skill(x, nameSeasonal),
		}
		if slices.Contains(r.cfg.Quantiles, 0.5) {
			score.MASE = ratio(r.absErrors[x]/float64(r.steps[x].n), scale)
		}
		out.Models = append(out.Models, score)
	}
	return out
}

// scores returns the means, nothing when no actual was known.
func (t *tally) scores(ps []float64) []QuantileScore {
	if t.n == 0 {
		return []QuantileScore{}
	}
	out := make([]QuantileScore, len(ps))
	for j, p := range ps {
		out[j] = QuantileScore{P: p, Pinball: t.pinball[j] / float64(t.n), Coverage: t.covered[j] / float64(t.n)}
	}
	return out
}

func (t *tally) total() float64 {
	sum := 0.0
	for _, l := range t.pinball {
		sum += l
	}
	return sum
}

func (t *tally) wql() *float64 { return ratio(2*t.total()/float64(len(t.pinball)), t.sumAbs) }

// skill returns 1 − loss of model x ÷ loss of the named one, nil when that was not run.
func (r *backtest) skill(x int, against string) *float64 {
	for y, m := range r.models {
		if m.Name() == against {
			if q := ratio(r.steps[x].total(), r.steps[y].total()); q != nil {
				skill := 1 - *q
				return &skill
			}
		}
	}
	return nil
}

// ratio returns a ÷ b, nil when that is not a number.
func ratio(a, b float64) *float64 {
	if q := a / b; b > 0 && !math.IsNaN(q) && !math.IsInf(q, 0) {
		return &q
	}
	return nil
}

// seasonalError returns the mean absolute difference between values one season apart, and the season in steps: a day
// when s holds two, else one step. NaN when no pair is known.
func (s Series) seasonalError() (scale float64, season int) {
	season = 1
	if perDay := int(day / s.Step); perDay >= 1 && s.Len() >= 2*perDay {
		season = perDay
	}
	sum, n := 0.0, 0
	for i := season; i < s.Len(); i++ {
		if d := math.Abs(s.Values[i] - s.Values[i-season]); !math.IsNaN(d) {
			sum += d
			n++
		}
	}
	return sum / float64(n), season
}
