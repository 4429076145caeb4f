package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"forewarm/planner"
	"forewarm/scaler/kube"
	"forewarm/scaler/prom"
)

// clusterWait bounds how long a check waits for the first lists of a slow API server.
const clusterWait = 30 * time.Second

// checkCluster adds what is found in the cluster. Where the cluster knows a model's replicas, nobody needs
// kube-state-metrics to: findings about that are dropped.
func checkCluster(ctx context.Context, cfg *config, now time.Time, findings []prom.Finding, log *slog.Logger) ([]prom.Finding, error) {
	cluster, err := newCluster(cfg, log)
	if errors.Is(err, kube.ErrNoCluster) {
		return append(findings, prom.Finding{Severity: prom.Info, Subject: "cluster", Text: err.Error() +
			": replicas come from kube-state-metrics, hardware and autoscaler settings are unknown"}), nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- cluster.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	bounded, stop := context.WithTimeout(ctx, clusterWait)
	defer stop()
	found, err := cluster.Check(bounded, now, limits(cfg))
	if err != nil {
		return append(findings, prom.Finding{Severity: prom.Error, Subject: "cluster", Text: err.Error(),
			Remedy: "check kubernetes.kubeconfig and that the API server can be reached from here"}), nil
	}
	if obs, err := cluster.Observe(ctx, now); err == nil {
		findings = slices.DeleteFunc(findings, func(f prom.Finding) bool { return f.Subject == "replicas" && knows(obs, f.Model) })
	}
	for _, f := range found {
		findings = append(findings, prom.Finding{Severity: prom.Severity(f.Severity), Model: f.Model, Subject: f.Subject,
			Text: f.Text, Remedy: f.Remedy})
	}
	return findings, nil
}

// knows reports whether the replicas of a model, or with no model of all, were seen.
func knows(obs planner.Observation, model string) bool {
	for _, m := range obs.Models {
		if m.Replicas == nil && (model == "" || model == m.Name) {
			return false
		}
	}
	return true
}

// limits are what the policy asks of each model's autoscaler.
func limits(cfg *config) map[string]kube.Limits {
	policy, out := cfg.policy(), map[string]kube.Limits{}
	for _, name := range cfg.modelNames() {
		p := policy.For(name)
		out[name] = kube.Limits{ReplicasMax: p.ReplicasMax, NeedsSibling: p.Authority != planner.Act}
	}
	return out
}
