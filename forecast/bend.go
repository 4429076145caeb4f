package forecast

import (
	"cmp"
	"slices"
)

func sortByPeak(order []uint16, peaks []float64) {
	slices.SortStableFunc(order, func(a, b uint16) int { return cmp.Compare(peaks[a], peaks[b]) })
}

// bend moves the peak of a path to target. Values move by the fourth power of their place between the lowest and the
// peak, and none ends above target.
func bend(path []float64, peak, target float64) {
	low := slices.Min(path)
	if peak == low {
		for k := range path {
			path[k] = target
		}
		return
	}
	for k, v := range path {
		w := (v - low) / (peak - low)
		w *= w
		path[k] = min(target, v+(target-peak)*w*w)
	}
}
