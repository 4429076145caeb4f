package coldstart

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// An observation is one start as the product-limit estimate sees it: it served at `at`, or is known to need longer.
type observation struct {
	at     time.Duration
	weight float64
	served bool
}

// A curve is a distribution as LeadTime holds it.
type curve struct {
	support []time.Duration
	cdf     []float64
	tail    time.Duration
}

// productLimit returns the weighted Kaplan-Meier estimate. With d(t) the weight that served at t and Y(t) the weight
// still starting just before t, survival is Π_{t_i ≤ t} (1 − d(t_i)/Y(t_i)); a start censored at t counts as still starting
// at t. When the longest observation is censored the curve ends there, flat, and goes on as the exponential through
// (0,1) and that point: mean −t/ln S(t) (Brown, Hollander and Korwar 1974).
//
// Adding a censored observation never lowers a quantile: Y can only grow, so survival and, with it, the end point and the
// tail's mean can only grow. One that is shorter than every served start changes nothing.
//
// obs must hold at least one served observation with weight above 0. O(n log n); obs is sorted in place.
func productLimit(obs []observation) curve {
	slices.SortFunc(obs, func(a, b observation) int { return cmp.Compare(a.at, b.at) })
	type step struct{ served, censored, starting float64 }
	var at []time.Duration
	var steps []step
	for _, o := range obs {
		if n := len(at); n == 0 || at[n-1] != o.at {
			at, steps = append(at, o.at), append(steps, step{})
		}
		s := &steps[len(steps)-1]
		if o.served {
			s.served += o.weight
		} else {
			s.censored += o.weight
		}
	}
	// Summed from the longest down: where the last ones serve, Y equals d exactly and survival becomes exactly zero.
	starting := 0.0
	for i := len(steps) - 1; i >= 0; i-- {
		starting += steps[i].censored
		starting += steps[i].served
		steps[i].starting = starting
	}
	var c curve
	survival := 1.0
	for i, s := range steps {
		if s.served > 0 {
			survival *= 1 - s.served/s.starting
			c.support, c.cdf = append(c.support, at[i]), append(c.cdf, 1-survival)
		}
	}
	if survival > 0 {
		end := at[len(at)-1]
		if end > c.support[len(c.support)-1] {
			c.support, c.cdf = append(c.support, end), append(c.cdf, 1-survival)
		}
		c.tail = max(scale(end, -1/math.Log(survival)), 1)
	}
	return c
}

// topUp returns the product-limit estimate of obs and of `starts` further starts distributed as prior.
//
// The prior's tail is held as weight that is still starting at the end of its support (or at the longest served start of
// obs, if that is later), and keeps its own mean. Only a start censored beyond that point is news about the tail: then
// the larger of the two means counts.
func topUp(obs []observation, prior LeadTime, starts float64) curve {
	all := slices.Clone(obs)
	past := 0.0
	for i, d := range prior.Support {
		if w := prior.CDF[i] - past; w > 0 {
			all = append(all, observation{at: d, weight: starts * w, served: true})
		}
		past = prior.CDF[i]
	}
	end := prior.Support[len(prior.Support)-1]
	news := false
	for _, o := range obs {
		if o.served {
			end = max(end, o.at)
		}
	}
	for _, o := range obs {
		news = news || !o.served && o.at > end
	}
	if past < 1 {
		all = append(all, observation{at: end, weight: starts * (1 - past)})
	}
	c := productLimit(all)
	if past < 1 && !news {
		c.tail = prior.Tail
	} else {
		c.tail = max(c.tail, prior.Tail)
	}
	return c
}

const (
	supportMax  = 256 // a curve with more steps is thinned, so that a State stays small
	supportThin = 200 // to this many, half a percent apart
)

// thinned returns the curve with its steps at multiples of 1/supportThin when it has more than supportMax. Quantiles
// round up to the next multiple, never down; the end point and the tail stay.
func (c curve) thinned() curve {
	if len(c.support) <= supportMax {
		return c
	}
	last := len(c.support) - 1
	out := curve{tail: c.tail}
	keep := func(i int, p float64) {
		if n := len(out.support); n > 0 && out.support[n-1] == c.support[i] {
			out.cdf[n-1] = p
			return
		}
		out.support, out.cdf = append(out.support, c.support[i]), append(out.cdf, p)
	}
	for k := 1; k <= supportThin; k++ {
		p := float64(k) / supportThin
		i := sort.SearchFloat64s(c.cdf, p-probSlack)
		if i > last {
			break
		}
		keep(i, min(p, c.cdf[last]))
	}
	keep(last, c.cdf[last])
	return out
}
