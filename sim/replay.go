package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Score is how one policy did in a Scenario, over all its models.
//
// Missing values: AttainedShare and the quantiles are those of requests that ended; a Score without any has a nil share.
// CostUSD is nil when a product that was used has no price.
type Score struct {
	Policy        string
	Requests      int64 // that arrived
	AttainedShare *float64
	TTFT, ITL     Quantiles
	Rejected      int64
	TimedOut      int64
	Lost          int64
	// Served tokens.
	PromptTokens, CompletionTokens int64
	// GPUHours are the allocatable GPU-hours by cause; CostUSD is what the held ones cost (serving to draining).
	GPUHours ClusterGPUHours
	CostUSD  *float64
	// LowerBound is the least number of GPU-hours with which anybody attains, model by model, what this policy attained.
	LowerBound float64
	Starts     int64 // replicas ordered after the start
	// Churn is the trend-discounted total variation of the replica count, see churn.
	Churn float64
	// MinutesBelowSLO counts, per model, the minutes with less than the target share of requests within the SLO.
	MinutesBelowSLO int
	Models          []Stats
	Timeline        []Moment
}

// Moment is one minute of a replay: sums over the models.
type Moment struct {
	At time.Time
	// Need is what the minute's load keeps busy.
	Need, Ready, Starting, Pending int // replicas
	Waiting                        int // requests
}

// ErrUnsound marks a replay whose own books do not balance: a mistake of the simulator, never of a scenario.
var ErrUnsound = errors.New("sim: the replay contradicts itself")

// Replay runs a scenario under one policy and scores it. The same scenario, policy and seed give the same Score on every
// machine of one architecture. The scenario must be valid. It returns ctx's error between two ticks.
func Replay(ctx context.Context, s Scenario, spec PolicySpec) (Score, error) {
	switch spec.Name {
	case "oracle":
		return replayOracle(ctx, s, spec)
	case "tuned":
		return replayTuned(ctx, s, spec)
	}
	return replayOnce(ctx, s, spec, func(c *Cluster) (policy, error) { return newPolicy(ctx, spec, s, c) })
}

// replayOnce replays a scenario under the policy that is built for the cluster at its start.
func replayOnce(ctx context.Context, s Scenario, spec PolicySpec, build func(*Cluster) (policy, error)) (Score, error) {
	w := s.World
	w.Models = append([]Model(nil), w.Models...)
	for i := range w.Models {
		m := &w.Models[i]
		if spec.Name == "fixed" { // it has always been so
			m.Replicas, m.orderRest = min(max(spec.N, m.ReplicasMin), m.ReplicasMax), true
		}
	}
	c, err := NewCluster(w, s.Seed)
	if err != nil {
		return Score{}, err
	}
	c.prices = s.Prices
	p, err := build(c)
	if err != nil {
		return Score{}, err
	}
	s.Faults = slices.Clone(s.Faults)
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.After, b.After) })
	r := replay{s: s, c: c, policy: p, scraper: scraper{lag: s.ScrapeLag}}
	if err := errors.Join(r.run(ctx), c.close()); err != nil {
		return Score{}, fmt.Errorf("policy %s: %w", spec, err)
	}
	x := r.score(spec.String())
	if x.LowerBound, err = s.lowerBound(c); err != nil {
		return Score{}, err
	}
	return x, nil
}

// replay is a scenario under way.
type replay struct {
	s       Scenario
	c       *Cluster
	policy  policy
	scraper scraper
	moments []Moment
	counts  [][]float64 // desired replicas per model and tick, for churn
	faults  int         // handled so far
}

func (r *replay) run(ctx context.Context) error {
	start := r.s.World.Start
	end := start.Add(r.s.Duration)
	r.counts = make([][]float64, len(r.c.models))
	next := start
	for now := start; !now.After(end); now = now.Add(r.s.Interval) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.advance(now); err != nil {
			return err
		}
		// While what answers KEDA is away nobody decides; it goes on with the next tick.
		if seen, ok := r.scraper.scrape(r.c); ok && r.c.now >= r.c.troubles.scalerOut {
			if err := r.policy.tick(ctx, r.c, seen); err != nil {
				return err
			}
		}
		for i, m := range r.c.models {
			r.counts[i] = append(r.counts[i], float64(m.desired))
		}
		if !now.Before(next) {
			r.note()
			next = next.Add(time.Minute)
		}
	}
	if err := r.advance(end); err != nil {
		return err
	}
	return r.c.balance()
}

// advance moves the cluster to an instant through the faults that come before it.
func (r *replay) advance(to time.Time) error {
	for ; r.faults < len(r.s.Faults); r.faults++ {
		f := r.s.Faults[r.faults]
		at := r.s.World.Start.Add(f.After)
		if at.After(to) {
			break
		}
		if err := r.c.Advance(at); err != nil {
			return err
		}
		if err := r.c.strike(f); err != nil {
			return err
		}
	}
	return r.c.Advance(to)
}

func (r *replay) note() {
	m := Moment{At: r.c.Now()}
	for _, x := range r.c.models {
		m.Need += x.need
		waiting, _ := x.signals()
		m.Waiting += waiting
		for _, p := range x.replicas {
			switch p.state {
			case ready:
				m.Ready++
			case starting:
				m.Starting++
			case pending:
				m.Pending++
			}
		}
	}
	r.moments = append(r.moments, m)
}

// balance checks conservation (every request is served, rejected, timed out, lost or inside) and Little's law: the
// integral of the requests inside over time is the sum of the times that they spent there.
func (c *Cluster) balance() error {
	for _, m := range c.models {
		t := &m.tally
		waiting, running := m.signals()
		inside := int64(waiting + running)
		if ended := t.completed + t.rejected + t.timedOut + t.lost; ended+inside != t.arrived {
			return fmt.Errorf("%w: model %q: %d requests arrived, %d ended and %d are inside", ErrUnsound, m.cfg.Name, t.arrived,
				ended, inside)
		}
		m.enter(c.now, 0)
		spent := t.left + float64(inside)*float64(c.now-t.start) - t.entered
		// An event comes up to a nanosecond after the iteration that it stands for, and float64 rounds each sum.
		if tolerance := 1e-6*m.area + 1e3*float64(t.arrived+1); math.Abs(spent-m.area) > tolerance {
			return fmt.Errorf("%w: model %q: by Little's law the requests spent %.6g s inside, by their own times %.6g s", ErrUnsound,
				m.cfg.Name, m.area/1e9, spent/1e9)
		}
	}
	return nil
}

func (r *replay) score(policy string) Score {
	s := Score{Policy: policy, Models: r.c.Stats(), GPUHours: r.c.GPUHours(), Timeline: r.moments}
	var ttft, itl histogram
	var ended, attained int64
	for i, m := range r.c.models {
		t := &m.tally
		s.Requests += t.arrived
		s.Rejected += t.rejected
		s.TimedOut += t.timedOut
		s.Lost += t.lost
		s.PromptTokens += t.promptTokens
		s.CompletionTokens += t.completionTokens
		s.Starts += t.ordered
		ended += t.completed + t.rejected + t.timedOut + t.lost
		attained += t.attained
		ttft.merge(&t.ttft)
		itl.merge(&t.itl)
		s.Churn += churn(r.counts[i])
		s.MinutesBelowSLO += t.minutesBelow(r.s.Target)
	}
	if ended > 0 {
		share := float64(attained) / float64(ended)
		s.AttainedShare = &share
	}
	s.TTFT, s.ITL = ttft.quantiles(), itl.quantiles()
	if !r.c.account.unpriced {
		cost := r.c.account.cost
		s.CostUSD = &cost
	}
	return s
}

// minutesBelow counts the minutes in which less than the target share of the requests that arrived met the SLO. A minute
// without requests lost nothing.
func (t *tally) minutesBelow(target float64) int {
	n := 0
	for _, m := range t.minutes {
		if m.ended > 0 && float64(m.attained) < target*float64(m.ended) {
			n++
		}
	}
	return n
}

// churn is how much a count moved back and forth: its total variation less the absolute difference of its ends, halved.
// Properties: 0 for a count that only grows or only shrinks; an excursion by k and back counts k; adding a constant
// changes nothing; it is never negative. After CockroachDB's asim/history, which discounts the trend in the same way.
func churn(counts []float64) float64 {
	if len(counts) == 0 {
		return 0
	}
	variation := 0.0
	for i := 1; i < len(counts); i++ {
		variation += math.Abs(counts[i] - counts[i-1])
	}
	return (variation - math.Abs(counts[len(counts)-1]-counts[0])) / 2
}
