package forecast

import "fmt"

// Skill is how the mixture of an Auto has done against the two naive methods on forecasts that have matured: the mean
// loss per scored origin, recent ones weighing more, in the unit of the series. A loss is the pinball loss of step
// quantiles plus that of quantiles of the peak. All are zero while Origins is zero.
type Skill struct {
	Origins      int     `json:"origins"` // scored, those on the tail of the history that Fit was given included
	Loss         float64 `json:"loss"`
	LastLoss     float64 `json:"last_loss"`
	SeasonalLoss float64 `json:"seasonal_loss"`
}

const (
	// skillOriginsMin is how many scored origins make evidence.
	skillOriginsMin = 50
	// skillTolerance is how much of a naive loss the mixture may be above it: with some forty paths a loss is not known
	// more exactly, and a mixture that has settled on a naive method must not be refused for that.
	skillTolerance = 0.02
)

// MayShrink reports whether the forecast has earned the authority to shrink a plan, with the reason in words. It has not
// while there is too little evidence: unknown skill is no skill.
func (s Skill) MayShrink() (bool, string) {
	if s.Origins < skillOriginsMin {
		return false, fmt.Sprintf("only %d forecasts have been scored, %d are needed", s.Origins, skillOriginsMin)
	}
	for _, naive := range []struct {
		name string
		loss float64
	}{{"last value", s.LastLoss}, {"seasonal naive", s.SeasonalLoss}} {
		// Written so that a NaN loss, which cannot happen, would refuse.
		if !(s.Loss <= naive.loss*(1+skillTolerance)) {
			return false, fmt.Sprintf("loss %.4g is above %.4g of %s over %d scored forecasts",
				s.Loss, naive.loss, naive.name, s.Origins)
		}
	}
	return true, fmt.Sprintf("loss %.4g against %.4g of last value and %.4g of seasonal naive over %d scored forecasts",
		s.Loss, s.LastLoss, s.SeasonalLoss, s.Origins)
}
