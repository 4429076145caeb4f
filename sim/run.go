package sim

import (
	"context"
	"fmt"
	"time"

	"forewarm/planner"
)

// Run is the live loop in virtual time: every interval from from to until, both included, it observes the cluster,
// assembles the State, decides and applies, handing each Decision's Memory to the next tick. The tracker should have
// been fitted on the cluster's History up to from. each, which may be nil, sees every tick before it is applied.
//
// It returns the first error of a part, or ctx's error between two ticks; the cluster stays where it is.
func Run(ctx context.Context, c *Cluster, tracker *planner.Tracker, policy planner.Policy, from, until time.Time,
	interval time.Duration, each func(planner.State, planner.Decision)) error {
	if interval <= 0 {
		return fmt.Errorf("sim: running with an interval of %v: a positive duration is allowed", interval)
	}
	var memory planner.Memory
	for now := from; !now.After(until); now = now.Add(interval) {
		obs, err := c.Observe(ctx, now)
		if err != nil {
			return err
		}
		state := tracker.State(obs, memory)
		decision, err := planner.Decide(state, policy)
		if err != nil {
			return fmt.Errorf("sim: deciding at %s: %w", now.Format(time.RFC3339), err)
		}
		if each != nil {
			each(state, decision)
		}
		if err := c.Apply(ctx, decision); err != nil {
			return err
		}
		memory = decision.Memory
	}
	return nil
}
