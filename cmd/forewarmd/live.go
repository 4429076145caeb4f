package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"forewarm/scaler"
	"forewarm/scaler/kube"
	"forewarm/scaler/prom"
)

// runLive runs the daemon on a real Prometheus and, where there is one, a real cluster until ctx ends.
func runLive(ctx context.Context, cfg *config, out io.Writer, log *slog.Logger) error {
	d, err := newLive(cfg, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "forewarmd: KEDA endpoint on %s, plan and metrics on http://%s\n", d.kedaListener.Addr(), d.httpListener.Addr())
	return d.run(ctx)
}

func newLive(cfg *config, log *slog.Logger) (*daemon, error) {
	metrics, err := prom.New(cfg.Prometheus, cfg.promModels())
	if err != nil {
		return nil, err
	}
	ledger, err := cfg.ledger()
	if err != nil {
		return nil, err
	}
	p := parts{
		clock:    scaler.WallClock(),
		source:   metrics,
		tracker:  cfg.trackerConfig(ledger),
		policy:   cfg.policy(),
		models:   cfg.modelNames(),
		history:  cfg.Forecast.History,
		workers:  cfg.Prometheus.Concurrency,
		keda:     cfg.KEDA,
		httpAddr: cfg.HTTP.Listen,
		dataDir:  cfg.DataDir,
	}
	cluster, err := newCluster(cfg, log)
	switch {
	case errors.Is(err, kube.ErrNoCluster):
		log.Warn("no cluster is observed: replicas come from kube-state-metrics, hardware and autoscaler settings are unknown", "why", err)
	case err != nil:
		return nil, err
	default:
		p.source, p.follow = liveSource{metrics, cluster}, cluster.Run
	}
	return newDaemon(p, log)
}

// newCluster connects to the configured cluster; it returns kube.ErrNoCluster, wrapped, when there is none.
func newCluster(cfg *config, log *slog.Logger) (*kube.Observer, error) {
	clients, err := kube.Connect(cfg.Kubernetes)
	if err != nil {
		return nil, err
	}
	return kube.New(clients, cfg.Kubernetes, cfg.kubeModels(), log)
}
