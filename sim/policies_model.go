package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

// forewarm is the planner itself, through the same Observe, Tracker, Decide and Apply as the daemon. It learns from the
// history, the past starts and the profile it is told, never from the world's own distributions.
type forewarm struct {
	tracker *planner.Tracker
	policy  planner.Policy
	memory  planner.Memory
	lag     time.Duration
}

// forecastHorizon and forecastPaths are those of the daemon's example configuration.
const (
	forecastHorizon = 30 * time.Minute
	forecastPaths   = 200
)

func newForewarm(ctx context.Context, s Scenario, c *Cluster) (*forewarm, error) {
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	for _, start := range c.PastStarts(s.PastStarts, s.History) {
		if err := ledger.Add(start); err != nil {
			return nil, fmt.Errorf("sim: past starts: %w", err)
		}
	}
	zone, err := time.LoadLocation(s.World.Models[0].Workload.Timezone)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	cfg := planner.TrackerConfig{Step: LoadStep, Horizon: forecastHorizon, Interval: s.Interval, Paths: forecastPaths,
		Method: "auto", Seed: s.Seed, Location: zone, Ledger: ledger, History: s.History}
	f := &forewarm{lag: s.ScrapeLag, policy: planner.Policy{Seed: s.Seed, Defaults: planner.DefaultModelPolicy(),
		Models: map[string]planner.ModelPolicy{}}}
	for _, m := range s.World.Models {
		p := planner.DefaultModelPolicy()
		p.Authority, p.ReplicasMin, p.ReplicasMax = planner.Act, m.ReplicasMin, m.ReplicasMax
		p.DrainTime, p.TTFT, p.ITL = m.DrainMax, m.SLO.TTFT, m.SLO.ITL
		f.policy.Models[m.Name] = p
		told := s.toldProfile(m)
		cfg.Models = append(cfg.Models, planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: &told})
	}
	if f.tracker, err = planner.NewTracker(cfg); err != nil {
		return nil, err
	}
	for _, m := range s.World.Models {
		h, err := c.History(ctx, m.Name, c.Now().Add(-s.History), c.Now())
		if err != nil {
			return nil, err
		}
		// A trace may begin with the world: then the planner has only what it sees from now on.
		if err := f.tracker.Fit(m.Name, h); err != nil && !errors.Is(err, forecast.ErrShortHistory) {
			return nil, fmt.Errorf("sim: %w", err)
		}
	}
	return f, nil
}

func (f *forewarm) tick(ctx context.Context, c *Cluster, s sight) error {
	obs, err := c.Observe(ctx, c.Now())
	if err != nil {
		return err
	}
	for i := range obs.Models {
		o, g := &obs.Models[i], s.models[i]
		o.Load = until(o.Load, c.Now().Add(-f.lag))
		o.Waiting, o.Running = nil, nil
		if !g.blind {
			waiting, running := float64(g.waiting), float64(g.running)
			o.Waiting, o.Running = &waiting, &running
		}
	}
	state := f.tracker.State(obs, f.memory)
	d, err := planner.Decide(state, f.policy)
	if err != nil {
		return fmt.Errorf("sim: deciding at %s: %w", c.Now().Format(time.RFC3339), err)
	}
	f.memory = d.Memory
	return c.Apply(ctx, d)
}

// dynamo is the throughput planner of NVIDIA Dynamo as it is published, with one engine kind: every 180 s a Kalman filter
// with a local linear trend (q_level 1, q_trend 0.1, r 10, on raw request counts) predicts the requests of the next
// period; replicas = ceil(predicted rps ÷ rps of one engine that meets the SLA by its profile). The fast loop of ±1 is not
// modelled: its per-engine estimates are not published in enough detail.
type dynamo struct {
	told  map[string]planner.Profile // stated rates within the SLA
	state map[string]*trend
	next  time.Time
}

const dynamoPeriod = 180 * time.Second

func newDynamo(s Scenario, c *Cluster) *dynamo {
	d := &dynamo{told: map[string]planner.Profile{}, state: map[string]*trend{}}
	for i, m := range s.World.Models {
		d.told[m.Name] = c.model(m.Name).rates(s.toldProfile(s.World.Models[i]))
	}
	return d
}

// rates are the stated rates of a profile within the SLO, for the model's usual requests.
func (m *model) rates(told planner.Profile) planner.Profile {
	if told.Physics == nil {
		return told
	}
	slo := planner.SLO{TTFT: m.cfg.SLO.TTFT, ITL: m.cfg.SLO.ITL, Percentile: needPercentile}
	return told.Physics.Capacity(m.gen.mix(), slo, 1).Rates
}

// trend is a Kalman filter over (level, slope) with a unit step, and the counters at the last period.
type trend struct {
	seen                        bool
	level, slope                float64
	p00, p01, p11               float64
	arrived, prompt, completion int64
}

func (d *dynamo) tick(_ context.Context, c *Cluster, s sight) error {
	if s.at.Before(d.next) {
		return nil
	}
	for i, m := range c.models {
		g, name := s.models[i], m.cfg.Name
		if g.blind {
			m.triggers = []metric{{target: 1, err: true}}
			continue
		}
		t := d.state[name]
		if t == nil { // nothing is known of the rate before a period has passed
			d.state[name] = &trend{arrived: g.arrived, prompt: g.prompt, completion: g.completion}
			m.triggers = []metric{{value: float64(m.desired), target: 1}}
			continue
		}
		requests := float64(g.arrived - t.arrived)
		prompt, completion := float64(g.prompt-t.prompt), float64(g.completion-t.completion)
		t.arrived, t.prompt, t.completion = g.arrived, g.prompt, g.completion
		predicted := t.update(requests)
		want := 0.0
		if requests > 0 {
			work := (prompt/float64(d.told[name].Prompt) + completion/float64(d.told[name].Completion)) / requests
			want = math.Ceil(predicted / dynamoPeriod.Seconds() * work)
		}
		m.triggers = []metric{{value: max(1, want), target: 1}}
	}
	d.next = s.at.Add(dynamoPeriod)
	return nil
}

// update takes in one observation and returns the prediction of the next, never below zero.
func (t *trend) update(y float64) float64 {
	const qLevel, qTrend, r = 1, 0.1, 10
	if !t.seen {
		t.seen, t.level, t.p00, t.p11 = true, y, r, 1
		return y
	}
	level := t.level + t.slope
	p00 := t.p00 + 2*t.p01 + t.p11 + qLevel
	p01 := t.p01 + t.p11
	p11 := t.p11 + qTrend
	k0, k1 := p00/(p00+r), p01/(p00+r)
	e := y - level
	t.level, t.slope = level+k0*e, t.slope+k1*e
	t.p00, t.p01, t.p11 = (1-k0)*p00, (1-k0)*p01, p11-k1*p01
	return max(0, t.level+t.slope)
}
