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

// replayOracle is the cheapest feasible replay that attains percent/100 (0 stands for 99.9 %), found by bisecting the
// headroom above the cheapest staircase for each of two lead times. When none attains it, it is the one that attains most.
func replayOracle(ctx context.Context, s Scenario, spec PolicySpec) (Score, error) {
	goal := 0.999
	if spec.N > 0 {
		goal = float64(spec.N) / 100
	}
	var best Score
	better := func(x Score) bool {
		a, b := x.attained(), best.attained()
		if min(a, goal) != min(b, goal) {
			return a > b
		}
		return best.Policy == "" || x.GPUHours.held() < best.GPUHours.held()
	}
	for _, image := range []bool{false, true} {
		lo, hi := -1, oracleHeadrooms // the headroom of lo fails, of hi is tried last
		for hi-lo > 1 || lo < 0 {
			mid := (lo + hi) / 2
			if lo < 0 && hi == oracleHeadrooms {
				mid = oracleHeadrooms / 4
			}
			x, err := replayOnce(ctx, s, spec, func(c *Cluster) (policy, error) {
				return newOracle(s, c, float64(mid)/oracleHeadrooms, image)
			})
			if err != nil {
				return Score{}, err
			}
			if better(x) {
				best = x
			}
			if x.attained() >= goal {
				hi = mid
			} else {
				lo = mid
			}
			if hi == 0 {
				break
			}
		}
	}
	return best, nil
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
