package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"forewarm/scaler"
	"forewarm/scaler/prom"
)

// runLive runs the daemon on a real Prometheus until ctx ends.
func runLive(ctx context.Context, cfg *config, out io.Writer, log *slog.Logger) error {
	d, err := newLive(cfg, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "forewarmd: KEDA endpoint on %s, plan and metrics on http://%s\n", d.kedaListener.Addr(), d.httpListener.Addr())
	return d.run(ctx)
}

func newLive(cfg *config, log *slog.Logger) (*daemon, error) {
	source, err := prom.New(cfg.Prometheus, cfg.promModels())
	if err != nil {
		return nil, err
	}
	ledger, err := cfg.ledger()
	if err != nil {
		return nil, err
	}
	return newDaemon(parts{
		clock:    scaler.WallClock().In(cfg.location),
		source:   source,
		tracker:  cfg.trackerConfig(ledger),
		policy:   cfg.policy(),
		models:   cfg.modelNames(),
		history:  cfg.Forecast.History,
		workers:  cfg.Prometheus.Concurrency,
		keda:     cfg.KEDA,
		httpAddr: cfg.HTTP.Listen,
		dataDir:  cfg.DataDir,
	}, log)
}
