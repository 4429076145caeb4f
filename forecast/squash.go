package forecast

import "math"

// squash is the scale that a mixture works on: nearly linear below unit, logarithmic above it,
//
//	z = sign(y)·log(1 + |y|/unit)
//
// Errors of demand grow with its level, though not from nothing: on this scale they are of one size, a season that is a
// percentage is additive, and a burst of a hundred times the usual level does not rule a regression. Quantiles pass
// through unchanged because the map is monotone. With unit in proportion to the series nothing depends on the caller's
// unit.
type squash struct{ unit float64 }

const (
	// squashShare is unit as a share of the mean absolute value.
	squashShare = 0.5
	// squashDrift is how many times the mean may grow or shrink before the unit is chosen anew.
	squashDrift = 8.0
	// squashMax keeps the way back finite, and sums of several.
	squashMax = 600
)

// newSquash returns the scale for a series of the given mean absolute value; one that was only zero yet gets unit 1.
func newSquash(mean float64) squash {
	if mean == 0 {
		return squash{unit: 1}
	}
	return squash{unit: max(squashShare*mean, math.SmallestNonzeroFloat64)}
}

// stale reports whether a series whose mean absolute value has become mean should be measured anew.
func (q squash) stale(mean float64) bool {
	usual := q.unit / squashShare
	return mean > usual*squashDrift || mean > 0 && mean < usual/squashDrift
}

func (q squash) in(y float64) float64 {
	if y < 0 {
		return -min(squashMax, math.Log1p(-y/q.unit))
	}
	return min(squashMax, math.Log1p(y/q.unit))
}

func (q squash) out(z float64) float64 {
	if z < 0 {
		return -q.unit * math.Expm1(-z)
	}
	return q.unit * math.Expm1(z)
}
