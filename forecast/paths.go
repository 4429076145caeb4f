package forecast

import "math"

// method is a way to make a point forecast at any origin of a history, using only what was known there. That it can be
// asked about the past is what makes residual trajectories cheap: they are computed when a path needs them.
type method interface {
	name() string
	// fit chooses parameters and builds per-step state for all of h.
	fit(h *history)
	// update follows one append to h that dropped the given number of oldest values.
	update(h *history, dropped int)
	// points fills dst[k] with the forecast made at origin for step origin+1+k. It is finite whenever h.carried[origin]
	// is known, and respects h.floor.
	points(h *history, origin int, dst []float64)
}

const (
	// errorScaleShare is the share of the series' usual size that is added to both levels when an error moves from one
	// level to another: errors grow with the level, but not from nothing, and an error next to zero is not multiplied
	// without bound.
	errorScaleShare = 0.5
	// errorScaleMax bounds the growth of a replayed error.
	errorScaleMax = 8.0
)

// sampler draws the paths of methods from one history. It owns the scratch space.
type sampler struct {
	now, then, errs []float64
	unknown         []int
}

// newPaths allocates n paths of the given length in one array.
func newPaths(n, horizon int) [][]float64 {
	flat := make([]float64, n*horizon)
	paths := make([][]float64, n)
	for i := range paths {
		paths[i] = flat[i*horizon : (i+1)*horizon : (i+1)*horizon]
	}
	return paths
}

// sample fills paths[i], for the i in pick, with m's forecast at origin plus the errors that m made from the origin
// ages[i] steps earlier. Nothing after origin is used, so it serves past origins too. A block with no known error takes
// the path of the next in pick that has one; when none has, all are the point forecast, because nothing is known about
// the errors. O(len(pick)·horizon).
func (s *sampler) sample(h *history, m method, origin int, ages, pick []int, paths [][]float64) {
	if len(pick) == 0 {
		return
	}
	horizon := len(paths[pick[0]])
	s.now, s.then, s.errs = grow(s.now, horizon), grow(s.then, horizon), grow(s.errs, horizon)
	m.points(h, origin, s.now)
	s.unknown = s.unknown[:0]
	for at, i := range pick {
		if s.trajectory(h, m, origin-ages[i], origin) {
			s.replay(h, paths[i])
		} else {
			s.unknown = append(s.unknown, at)
		}
	}
	s.substitute(pick, paths)
}

// trajectory fills s.then with the forecast made at a past origin and s.errs with its errors, as known at step last. It
// reports whether any error is known. An unknown error carries the last known one, so that a run-up that breaks off in a
// gap stays up; errors before the first known one are as that one. At a lower bound the error is at least the one before
// it, and at least the one seen: a clipped sample proves no fall.
func (s *sampler) trajectory(h *history, m method, past, last int) bool {
	if past < 0 || past >= last || math.IsNaN(h.carried[past]) {
		return false
	}
	m.points(h, past, s.then)
	err, found := 0.0, false
	for k := range s.errs {
		if i := past + 1 + k; i <= last && !math.IsNaN(h.vals[i]) {
			seen := h.vals[i] - s.then[k]
			if h.lowerBound(i) {
				seen = max(seen, err)
			}
			if !found {
				for j := range k {
					s.errs[j] = seen
				}
			}
			err, found = seen, true
		}
		s.errs[k] = err
	}
	return found
}

// replay adds the errors in s.errs, moved from the level of s.then to that of s.now, to the forecast in s.now.
//
// An error grows from the higher of the level that was forecast and the level that came: when demand has jumped from 1 to
// 10 and stays, the jump is replayed as the +9 that it was, not as another tenfold.
func (s *sampler) replay(h *history, path []float64) {
	base := errorScaleShare * h.scale
	for k := range path {
		ratio := 1.0
		from, now := math.Abs(s.then[k])+base, math.Abs(s.now[k])+base
		if from > 0 {
			ratio = now / from
		}
		if came := math.Abs(s.then[k]+s.errs[k]) + base; ratio > 1 && came > from {
			ratio = max(1, now/came)
		}
		ratio = min(errorScaleMax, max(1/errorScaleMax, ratio))
		path[k] = h.floor(s.now[k] + ratio*s.errs[k])
	}
}

// substitute fills the paths whose block is unknown.
func (s *sampler) substitute(pick []int, paths [][]float64) {
	if len(s.unknown) == len(pick) {
		for _, i := range pick {
			copy(paths[i], s.now)
		}
		return
	}
	// Walking backwards, the path after an unknown one is filled already; the last ones wrap around to the first known.
	missing := make(map[int]bool, len(s.unknown))
	for _, at := range s.unknown {
		missing[at] = true
	}
	next := 0
	for missing[next] {
		next++
	}
	for at := len(pick) - 1; at >= 0; at-- {
		if missing[at] {
			copy(paths[pick[at]], paths[pick[next]])
		} else {
			next = at
		}
	}
}

// grow returns xs with length n, reusing its array when it is large enough. Contents are undefined.
func grow(xs []float64, n int) []float64 {
	if cap(xs) < n {
		return make([]float64, n)
	}
	return xs[:n]
}

// everyPath returns 0 … n−1.
func everyPath(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
