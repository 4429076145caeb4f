package sim

import (
	"context"
	"math"
	"time"
)

// oracle follows a staircase that it worked out from the demand to come: it orders each replica so far ahead that a start
// of a usual length is in time. What it does not know is how long each start will take.
type oracle struct {
	start time.Time
	plans map[string][]int // replicas per minute
	lead  map[string]time.Duration
}

// oracleHeadrooms is how many steps there are between no headroom and twice the work.
const oracleHeadrooms = 16

// replayOracle is the cheapest feasible replay that attains the goal, found by bisecting the headroom above the cheapest
// staircase for each of two lead times. When none attains it, it is the one that attains most.
func replayOracle(ctx context.Context, s Scenario, spec PolicySpec) (Score, error) {
	search := newSearch(spec.goal())
	for _, image := range []bool{false, true} {
		err := search.bisect(oracleHeadrooms, func(i int) (Score, error) {
			return replayOnce(ctx, s, spec, func(c *Cluster) (policy, error) {
				return newOracle(s, c, float64(i)/oracleHeadrooms, image)
			})
		})
		if err != nil {
			return Score{}, err
		}
	}
	return search.best, nil
}

// search keeps the cheapest replay that attains a goal.
type search struct {
	goal float64
	best Score
}

func newSearch(goal float64) *search { return &search{goal: goal} }

// bisect looks for the least i in 0..n whose replay attains the goal, as far as more of i attains more.
func (f *search) bisect(n int, try func(i int) (Score, error)) error {
	lo, hi := -1, n+1 // lo fails, hi is beyond what is tried or attains
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		x, err := try(mid)
		if err != nil {
			return err
		}
		f.take(x)
		if x.attained() >= f.goal {
			hi = mid
		} else {
			lo = mid
		}
	}
	return nil
}

func (f *search) take(x Score) {
	a, b := min(x.attained(), f.goal), min(f.best.attained(), f.goal)
	if f.best.Policy == "" || a > b || a == b && x.GPUHours.held() < f.best.GPUHours.held() {
		f.best = x
	}
}

func (s *Score) attained() float64 {
	if s.AttainedShare == nil {
		return 0
	}
	return *s.AttainedShare
}

// held are the GPU-hours that replicas held, whatever they did.
func (g GPUHours) held() float64 { return g.Serving + g.Warm + g.Starting + g.Draining }

// newOracle plans for all the work to come and a share more of it. image says whether starts pull image and weights.
func newOracle(s Scenario, c *Cluster, headroom float64, image bool) (*oracle, error) {
	o := &oracle{start: s.World.Start.Truncate(time.Minute), plans: map[string][]int{}, lead: map[string]time.Duration{}}
	for _, m := range c.models {
		problem, err := s.workOf(m, m.truth)
		if err != nil {
			return nil, err
		}
		for i := range problem.work {
			problem.work[i] = min(problem.work[i]*(1+headroom), float64(m.cfg.ReplicasMax))
		}
		o.plans[m.cfg.Name] = problem.cover()
		u := m.cfg.Startup
		phases := []Lognormal{u.Schedule, u.CachedWeights, u.CachedInit, u.FirstToken}
		if image {
			phases = []Lognormal{u.Schedule, u.ImagePull, u.Weights, u.EngineInit, u.FirstToken}
		}
		for _, l := range phases {
			o.lead[m.cfg.Name] += time.Duration(float64(l.Median) * math.Exp(l.Sigma))
		}
	}
	return o, nil
}

func (o *oracle) tick(_ context.Context, c *Cluster, _ sight) error {
	for _, m := range c.models {
		plan := o.plans[m.cfg.Name]
		from := int(c.Now().Sub(o.start) / time.Minute)
		// A minute more: requests that arrive in one are partly served in the next, and vice versa.
		upTo := int(c.Now().Add(o.lead[m.cfg.Name]).Sub(o.start)/time.Minute) + 1
		most := m.cfg.ReplicasMin
		for i := max(0, from-1); i <= upTo && i < len(plan); i++ {
			most = max(most, plan[i])
		}
		m.triggers = []metric{{value: float64(most), target: 1}}
	}
	return nil
}
