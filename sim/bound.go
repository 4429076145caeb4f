package sim

import (
	"fmt"
	"math"
	"time"

	"forewarm/planner"
)

// staircase is the problem that the oracles solve for one model: work over time, in replicas kept busy, and what holding
// and starting replicas costs. Costs are in steps of one replica.
type staircase struct {
	work    []float64 // of each step: the number of replicas that it keeps busy, at least 0
	start   float64   // cost of starting one replica
	initial int       // replicas there at the start, free to keep or to release
	least   int       // replicas that are always held
}

// lowerBound is a lower bound on the cost of any staircase of replicas that serves the share a of the work, a within 0..1.
//
// Work is fluid and served in the step it arrives in; what arrives may be dropped at will up to the share 1 − a. Holding a
// replica for a step costs 1, starting one costs start, releasing one nothing. Replica k (a layer) can serve
// min(1, max(0, work − k)) of a step, so that layers part and each is a dynamic programme over two states. Served work is
// priced by a Lagrange multiplier; the value returned is that of the dual, which bounds the primal from below for any
// multiplier. For a = 1 it is the optimum. O(steps · layers) for each of 64 multipliers.
//
// It is a bound as far as work is not put off beyond its step: requests that arrive at the end of a minute are partly
// served in the next.
func (s staircase) lowerBound(a float64) float64 {
	total := 0.0
	for _, w := range s.work {
		total += w
	}
	// The dual is concave in the multiplier. Beyond the price at which every layer serves all it can, it is linear; with
	// a = 1 it is flat there, so the largest price is as good as any.
	dual := func(price float64) float64 {
		value := price * a * total
		for k := range s.layers() {
			value += s.layerCost(k, price)
		}
		return value
	}
	lo, hi := 0.0, s.dearest()
	for range 64 { // ternary search; the best of all that was seen is a bound too
		third := (hi - lo) / 3
		if dual(lo+third) < dual(hi-third) {
			lo += third
		} else {
			hi -= third
		}
	}
	return max(dual(0), dual(s.dearest()), dual(lo), dual(hi))
}

// layers is how many replicas can have anything to do, or are there anyway.
func (s staircase) layers() int {
	n := float64(s.least)
	for _, w := range s.work {
		n = max(n, math.Ceil(w))
	}
	return int(n)
}

// dearest is a price of served work above which no layer leaves any out: serving the least share there is, alone, costs a
// start and a step.
func (s staircase) dearest() float64 {
	least := 1.0
	for _, w := range s.work {
		if share := w - math.Floor(w); share > 0 {
			least = min(least, share)
		}
	}
	return 2 * (s.start + 1) / max(least, 1e-6)
}

// layerCost is the least cost of layer k less the price of the work it serves.
func (s staircase) layerCost(k int, price float64) float64 {
	on, off := 0.0, 0.0
	if k >= s.initial {
		on = s.start
	}
	for i, w := range s.work {
		held := 1 - price*min(1, max(0, w-float64(k)))
		if i == 0 {
			on += held
		} else {
			on, off = min(on, off+s.start)+held, min(on, off)
		}
		if k < s.least {
			off = math.Inf(1)
		}
	}
	return min(on, off)
}

// cover is the cheapest staircase that holds at least the work in every step: each layer keeps running over a gap that is
// shorter than its start is dear.
func (s staircase) cover() []int {
	out := make([]int, len(s.work))
	for k := range s.layers() {
		const none = -2
		last := none // newest step with this layer on; -1 is just before the start
		if k < s.initial {
			last = -1
		}
		for i, w := range s.work {
			if k >= s.least && w <= float64(k) {
				continue
			}
			if last != none && float64(i-last-1) < s.start {
				for g := last + 1; g < i; g++ {
					out[g] = max(out[g], k+1)
				}
			}
			out[i] = max(out[i], k+1)
			last = i
		}
	}
	return out
}

// workOf is a model's problem over a scenario. rates are what one replica carries; the work of a minute is the share of
// replicas that it keeps busy by them.
func (s Scenario) workOf(m *model, rates planner.Profile) (staircase, error) {
	h, err := m.gen.History(s.World.Start.Truncate(time.Minute), s.World.Start.Add(s.Duration), time.Minute)
	if err != nil {
		return staircase{}, fmt.Errorf("sim: model %q: %w", m.cfg.Name, err)
	}
	out := staircase{start: m.cfg.Startup.shortest().Minutes(), initial: m.cfg.Replicas, least: m.cfg.ReplicasMin}
	for i := range h.Prompt.Values {
		work := h.Prompt.Values[i]/float64(rates.Prompt) + h.Completion.Values[i]/float64(rates.Completion)
		if math.IsNaN(work) { // outside of a trace: nobody asks for anything in the world then
			work = 0
		}
		out.work = append(out.work, work)
	}
	return out, nil
}

// shortest is a start with everything on the node that is quicker than all but one of a thousand in each phase.
func (s Startup) shortest() time.Duration {
	sum := time.Duration(0)
	for _, l := range []Lognormal{s.Schedule, s.CachedWeights, s.CachedInit, s.FirstToken} {
		sum += time.Duration(float64(l.Median) * math.Exp(-3.09*l.Sigma))
	}
	return sum
}

// saturated are the rates of a replica at which it holds its ITL, whatever the time to first token: the most that anybody
// gets out of it within the SLO.
func (m *model) saturated() planner.Profile {
	if m.cfg.Engine == nil {
		return planner.Profile{Prompt: m.cfg.Physics.Prompt, Completion: m.cfg.Physics.Completion}
	}
	return m.cfg.Engine.Capacity(m.gen.mix(), planner.SLO{ITL: m.cfg.SLO.ITL, Percentile: 0.5}, 1).Rates
}

// lowerBound is the least number of GPU-hours with which anybody attains what the models attained: the sum of the bounds
// of each, which ignores that they share nodes.
func (s Scenario) lowerBound(c *Cluster) (float64, error) {
	sum := 0.0
	for _, m := range c.models {
		problem, err := s.workOf(m, m.saturated())
		if err != nil {
			return 0, err
		}
		if share := m.tally.share(); share != nil {
			sum += problem.lowerBound(*share) / 60 * float64(m.cfg.Shape.GPUs)
		}
	}
	return sum, nil
}
