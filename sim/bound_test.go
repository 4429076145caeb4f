package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// bruteForce is the least cost over every staircase of up to most replicas that serves the share a of the work.
func (s staircase) bruteForce(a float64, most int) float64 {
	total := 0.0
	for _, w := range s.work {
		total += w
	}
	best := math.Inf(1)
	counts := make([]int, len(s.work))
	var try func(i, before int, cost, served float64)
	try = func(i, before int, cost, served float64) {
		if i == len(counts) {
			if served >= a*total-1e-9 {
				best = min(best, cost)
			}
			return
		}
		for n := s.least; n <= most; n++ {
			try(i+1, n, cost+float64(n)+s.start*float64(max(0, n-before)), served+min(float64(n), s.work[i]))
		}
	}
	try(0, s.initial, 0, 0)
	return best
}

func drawStaircase(t *rapid.T) staircase {
	s := staircase{start: float64(rapid.IntRange(0, 12).Draw(t, "start")) / 4,
		initial: rapid.IntRange(0, 2).Draw(t, "initial"), least: rapid.IntRange(0, 1).Draw(t, "least")}
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		s.work = append(s.work, float64(rapid.IntRange(0, 30).Draw(t, "work"))/10)
	}
	s.initial = max(s.initial, s.least)
	return s
}

// The dual value never exceeds the optimum that trying everything finds, whatever the share; it is that optimum where
// everything must be served, and it is not a trivial bound: dropping at most what may be dropped, whole layers at a time,
// never costs less than a step and a start a layer beyond it.
func TestLowerBoundIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStaircase(t)
		a := float64(rapid.IntRange(0, 20).Draw(t, "share")) / 20
		bound, best := s.lowerBound(a), s.bruteForce(a, 3)
		if bound > best+1e-6 {
			t.Fatalf("%+v share %v: bound %v, trying everything finds %v", s, a, bound, best)
		}
		if all, best := s.lowerBound(1), s.bruteForce(1, 3); math.Abs(all-best) > 1e-6 {
			t.Fatalf("%+v: all served: bound %v, trying everything finds %v", s, all, best)
		}
		if gap := best - bound; gap > 3*(1+s.start) {
			t.Fatalf("%+v share %v: bound %v, trying everything finds %v: a duality gap above one change a layer", s, a, bound, best)
		}
	})
}

// Dropping less never costs less.
func TestLowerBoundGrowsWithTheShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, before := drawStaircase(t), 0.0
		for share := 0; share <= 10; share++ {
			bound := s.lowerBound(float64(share) / 10)
			if bound < before-1e-6 {
				t.Fatalf("%+v: share %d/10: bound %v, less of it: %v", s, share, bound, before)
			}
			before = bound
		}
	})
}

// The staircase of the feasible oracle covers all work, at the cost of the optimum.
func TestCoverIsTheCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawStaircase(t)
		cost, before := 0.0, s.initial
		for i, n := range s.cover() {
			if float64(n) < s.work[i] || n < s.least {
				t.Fatalf("%+v: step %d has %d replicas", s, i, n)
			}
			cost += float64(n) + s.start*float64(max(0, n-before))
			before = n
		}
		if best := s.bruteForce(1, 3); math.Abs(cost-best) > 1e-6 {
			t.Fatalf("%+v: covers at %v with %v, trying everything finds %v", s, cost, s.cover(), best)
		}
	})
}
