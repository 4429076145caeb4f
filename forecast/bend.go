package forecast

import (
	"cmp"
	"math"
	"slices"
)

func sortByPeak(order []uint16, peaks []float64) {
	slices.SortStableFunc(order, func(a, b uint16) int { return cmp.Compare(peaks[a], peaks[b]) })
}

// bend moves the peak of a path to target. Values above a lower target come down to it. Towards a higher one, values rise
// by the fourth power of their place between the lowest and the peak, times give, which says how unsure each step is,
// until the first of them is there: what is all but certain does not move for the sake of a later peak.
func bend(path []float64, peak, target float64, give []float64) {
	if target <= peak {
		for k, v := range path {
			path[k] = min(v, target)
		}
		return
	}
	low := slices.Min(path)
	rise := math.Inf(1)
	weight := func(k int) float64 {
		w := 1.0
		if peak > low {
			w = (path[k] - low) / (peak - low)
			w *= w
		}
		return w * w * give[k]
	}
	for k, v := range path {
		if w := weight(k); w > 0 {
			rise = min(rise, (target-v)/w)
		}
	}
	if math.IsInf(rise, 1) {
		return
	}
	moved := make([]float64, len(path))
	for k := range path {
		moved[k] = rise * weight(k)
	}
	for k := range path {
		path[k] = min(target, path[k]+moved[k])
	}
}
