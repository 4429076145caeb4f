package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"forewarm/planner"
)

// LoadStep is the step of the load in Observe and History.
const LoadStep = time.Minute

// loadStepsSeen is how many complete steps one Observe hands over: enough to bridge a few missed looks.
const loadStepsSeen = 10

// loadSource tells people where the rates come from.
const loadSource = "arrivals at the gateway"

// History returns a model's load as the metrics store has it: means per LoadStep, from the first full step at or after
// from to the last complete one by to; steps in a metrics gap are missing. It reaches back before the start of the world
// as far as wanted. It returns an error for an unknown model and for a to that has not come yet.
func (c *Cluster) History(ctx context.Context, name string, from, to time.Time) (planner.LoadHistory, error) {
	if err := ctx.Err(); err != nil {
		return planner.LoadHistory{}, fmt.Errorf("sim: history of %q: %w", name, err)
	}
	m := c.model(name)
	if m == nil {
		return planner.LoadHistory{}, fmt.Errorf("sim: history of %q: there is no such model", name)
	}
	if to.UnixNano() > c.now {
		return planner.LoadHistory{}, fmt.Errorf("sim: history of %q to %s: the world is at %s, and what comes is not known",
			name, to.Format(time.RFC3339), c.Now().Format(time.RFC3339))
	}
	return c.loadHistory(m, from, to)
}

func (c *Cluster) loadHistory(m *model, from, to time.Time) (planner.LoadHistory, error) {
	grid := int64(LoadStep)
	first := -floorDiv(-from.UnixNano(), grid) * grid
	h, err := m.gen.History(time.Unix(0, first).UTC(), to, LoadStep)
	if err != nil {
		return planner.LoadHistory{}, fmt.Errorf("sim: history of %q: %w", m.cfg.Name, err)
	}
	for i := range h.Prompt.Values {
		start := first + int64(i)*grid
		if c.gapTouches(start, start+grid) {
			h.Prompt.Values[i], h.Completion.Values[i], h.Requests.Values[i] = math.NaN(), math.NaN(), math.NaN()
		}
	}
	return h, nil
}

func (c *Cluster) model(name string) *model {
	for _, m := range c.models {
		if m.cfg.Name == name {
			return m
		}
	}
	return nil
}

// Observe advances the world to now, if it is behind, and returns what a planner can see of it: per model the last
// complete steps of load, the queue, the replicas and the starts that ended since the last Observe; and the inventory.
// What a metrics gap hides is nil, with a Gap that says so. It returns an error when now lies in the past.
func (c *Cluster) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	if err := ctx.Err(); err != nil {
		return planner.Observation{}, fmt.Errorf("sim: observing: %w", err)
	}
	if err := c.Advance(now); err != nil {
		return planner.Observation{}, err
	}
	o := planner.Observation{At: now, Inventory: c.inventory()}
	blind := c.blind(c.now)
	for _, m := range c.models {
		mo, err := c.observeModel(m, now, blind)
		if err != nil {
			return planner.Observation{}, err
		}
		o.Models = append(o.Models, mo)
		if blind {
			for _, fact := range []string{"load", "waiting"} {
				o.Gaps = append(o.Gaps, planner.Gap{Model: m.cfg.Name, Fact: fact, Since: c.blindSince(),
					Detail: "the metrics store does not answer"})
			}
		}
	}
	return o, nil
}

// blindSince is the start of the gap that the present lies in; the earliest of several.
func (c *Cluster) blindSince() time.Time {
	since := c.now
	for _, g := range c.gaps {
		if g.from <= c.now && c.now < g.to {
			since = min(since, g.from)
		}
	}
	return time.Unix(0, since).UTC()
}

func (c *Cluster) observeModel(m *model, now time.Time, blind bool) (planner.ModelObservation, error) {
	from := now.Truncate(LoadStep).Add(-loadStepsSeen * LoadStep)
	to := now
	if blind {
		to = from // an empty history on the right grid
	}
	load, err := c.loadHistory(m, from, to)
	if err != nil {
		return planner.ModelObservation{}, err
	}
	o := planner.ModelObservation{
		Name: m.cfg.Name, Load: load, LoadSource: loadSource, Replicas: m.supply(), Starts: m.starts,
		Actuator: &planner.Actuator{ScaleUpTolerance: c.world.Autoscaler.ScaleUpTolerance},
	}
	m.starts = nil
	if !blind {
		waiting, running := m.signals()
		w, r := float64(waiting), float64(running)
		o.Waiting, o.Running = &w, &r
	}
	return o, nil
}

// supply counts the replicas as the API server shows them. One without a node is starting on a path not known yet.
func (m *model) supply() *planner.Replicas {
	desired := m.desired
	out := &planner.Replicas{Desired: &desired}
	for _, r := range m.replicas {
		switch r.state {
		case ready:
			out.Ready++
		case leaving:
			out.Leaving++
		default:
			out.Starting = append(out.Starting, planner.StartingReplica{
				ID: r.id, Since: time.Unix(0, r.since).UTC(), Path: r.path, Pending: r.node == nil})
		}
	}
	return out
}

// inventory is the hardware now. Nodes under way hold the GPUs of replicas bound to them and are not usable yet.
func (c *Cluster) inventory() *planner.Inventory {
	inv := &planner.Inventory{}
	for _, p := range c.pools {
		launchable := p.cfg.NodesMax - len(p.nodes)
		out := planner.Pool{Name: p.cfg.Name, Product: p.cfg.Product, GPUsPerNode: p.cfg.GPUsPerNode, Launchable: &launchable}
		for _, n := range p.nodes {
			out.Nodes = append(out.Nodes, planner.Node{Name: n.name, GPUs: n.gpus, FreeGPUs: n.free(),
				Usable: n.ready <= c.now && !n.cordoned, Launching: n.ready > c.now})
		}
		inv.Pools = append(inv.Pools, out)
	}
	return inv
}

// Apply records a Decision's answers, which the autoscalers read at their next sync. A model that the Decision leaves
// out keeps its last answer, which grows old; a nil answer is an error of the trigger from now on. Pool and quota
// targets are not acted upon. Wrong entries are all reported, and the others recorded.
func (c *Cluster) Apply(ctx context.Context, d planner.Decision) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sim: applying: %w", err)
	}
	var errs []error
	for _, md := range d.Models {
		m := c.model(md.Name)
		switch {
		case m == nil:
			errs = append(errs, fmt.Errorf("sim: applying: there is no model %q", md.Name))
		case md.Answer != nil && *md.Answer < 0:
			errs = append(errs, fmt.Errorf("sim: applying: the answer for %q is %d: a count from 0 is allowed",
				md.Name, *md.Answer))
		case md.Answer == nil:
			m.answer = nil
		default:
			answer := *md.Answer
			m.answer, m.answerAt = &answer, d.At.UnixNano()
		}
	}
	return errors.Join(errs...)
}
