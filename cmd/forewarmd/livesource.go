package main

import (
	"context"
	"errors"
	"time"

	"forewarm/planner"
	"forewarm/scaler"
)

// observer is what looks at the world at each tick.
type observer interface {
	Observe(ctx context.Context, now time.Time) (planner.Observation, error)
}

// liveSource joins the metrics (load, queues, and replicas as kube-state-metrics reports them) with the cluster
// (replicas, starts, hardware, quotas and autoscaler settings). What the cluster knows counts; where it does not know a
// model's replicas, those of the metrics do, and the plan's gaps say so.
type liveSource struct {
	metrics scaler.Source
	cluster observer
}

// History is the metrics'.
func (s liveSource) History(ctx context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	return s.metrics.History(ctx, model, from, to)
}

// Observe returns an error only when neither knows anything.
func (s liveSource) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	measured, metricsErr := s.metrics.Observe(ctx, now)
	seen, clusterErr := s.cluster.Observe(ctx, now)
	switch {
	case metricsErr != nil && clusterErr != nil:
		return planner.Observation{}, errors.Join(metricsErr, clusterErr)
	case metricsErr != nil:
		// A queue that cannot be seen makes the models blind, so that nothing shrinks on replicas alone.
		seen.Gaps = append(seen.Gaps, planner.Gap{Fact: "observation", Since: now, Detail: metricsErr.Error()})
		for _, m := range seen.Models {
			seen.Gaps = append(seen.Gaps, planner.Gap{Model: m.Name, Fact: "waiting", Since: now, Detail: "the metrics cannot be read"})
		}
		return seen, nil
	case clusterErr != nil:
		measured.Gaps = append(measured.Gaps, planner.Gap{Fact: "inventory", Since: now, Detail: clusterErr.Error()})
		return measured, nil
	}
	return merge(measured, seen), nil
}

// merge lays what was seen in the cluster over what was measured.
func merge(measured, seen planner.Observation) planner.Observation {
	known := map[string]bool{} // models whose replicas the cluster knows
	byName := make(map[string]*planner.ModelObservation, len(seen.Models))
	for i := range seen.Models {
		byName[seen.Models[i].Name] = &seen.Models[i]
	}
	out := measured
	out.Inventory, out.Quotas, out.Cohorts = seen.Inventory, seen.Quotas, seen.Cohorts
	out.Models = make([]planner.ModelObservation, len(measured.Models))
	for i, m := range measured.Models {
		if c := byName[m.Name]; c != nil {
			if c.Replicas != nil {
				m.Replicas, known[m.Name] = c.Replicas, true
			}
			m.Starts = append(m.Starts, c.Starts...)
			m.Actuator = c.Actuator
		}
		out.Models[i] = m
	}
	out.Gaps = nil
	for _, g := range measured.Gaps {
		if g.Fact != "replicas" || !known[g.Model] {
			out.Gaps = append(out.Gaps, g)
		}
	}
	for _, g := range seen.Gaps {
		if g.Fact == "replicas" && !known[g.Model] {
			g.Detail = "not from the cluster: " + g.Detail
		}
		out.Gaps = append(out.Gaps, g)
	}
	return out
}
