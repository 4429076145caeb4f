package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"forewarm/coldstart"
	"forewarm/scaler"
	"forewarm/scaler/kube"
	"forewarm/scaler/prom"
)

// runLive runs the daemon on a real Prometheus and, where there is one, a real cluster until ctx ends. read reads the
// configuration anew; it is asked again and again, and what has changed is taken over.
func runLive(ctx context.Context, cfg *config, read func() (*config, error), out io.Writer, log *slog.Logger) error {
	d, err := newLive(cfg, log)
	if err != nil {
		return err
	}
	d.relearn(ctx)
	d.parts.reload = newReloader(d, cfg, read).run
	fmt.Fprintf(out, "forewarmd: KEDA endpoint on %s, plan and metrics on http://%s\n", d.kedaListener.Addr(), d.httpListener.Addr())
	running, stop := context.WithCancel(ctx)
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		logFindings(running, cfg, log)
	}()
	err = d.run(ctx)
	stop()
	<-logged
	return err
}

func newLive(cfg *config, log *slog.Logger) (*daemon, error) {
	p, err := liveParts(cfg, log)
	if err != nil {
		return nil, err
	}
	return newDaemon(p, log)
}

// liveParts makes what a configuration describes.
func liveParts(cfg *config, log *slog.Logger) (parts, error) {
	metrics, err := prom.New(cfg.Prometheus, cfg.promModels())
	if err != nil {
		return parts{}, err
	}
	ledger, err := cfg.ledger()
	if err != nil {
		return parts{}, err
	}
	p := parts{
		clock:    scaler.WallClock().In(cfg.location),
		source:   kinSource{metrics, cfg.kin(), cfg.Forecast.History},
		tracker:  cfg.trackerConfig(ledger),
		policy:   cfg.policy(),
		models:   cfg.modelNames(),
		history:  cfg.Forecast.History,
		workers:  cfg.Prometheus.Concurrency,
		keda:     cfg.KEDA,
		httpAddr: cfg.HTTP.Listen,
		dataDir:  cfg.DataDir,
		bases:    cfg.bases(),
	}
	p.pastStarts = metrics.Starts
	cluster, err := newCluster(cfg, log)
	switch {
	case errors.Is(err, kube.ErrNoCluster):
		log.Warn("no cluster is observed: replicas come from kube-state-metrics, hardware and autoscaler settings are unknown", "why", err)
		return p, nil
	case err != nil:
		return parts{}, err
	}
	cluster.AskForAnswers(metrics.FirstAnswer)
	p.source, p.follow, p.cluster = liveSource{p.source, cluster}, cluster.Run, cluster
	return p, nil
}

const (
	// relearnSpan is how far back starts are read from the metrics, relearnTimeout how long that may take in all: a plan with
	// stated lead times is better than one that comes late.
	relearnSpan    = 30 * 24 * time.Hour
	relearnTimeout = 10 * time.Second
)

// relearn reads back what an earlier forewarmd has exported about the starts of models of which nothing is known here: a
// fresh replica, or one that lost its data directory. It is not fatal when that cannot be read. What was read is kept in the
// journal, so that it is asked for once.
func (d *daemon) relearn(ctx context.Context) {
	if d.parts.pastStarts == nil {
		return
	}
	known := map[string]bool{}
	for _, s := range d.parts.tracker.Ledger.Samples() {
		known[s.Key.Model] = true
	}
	asking, cancel := context.WithTimeout(ctx, relearnTimeout)
	defer cancel()
	now := d.parts.clock.Now()
	var learned []coldstart.Sample
	for _, m := range d.parts.tracker.Models {
		if known[m.Name] {
			continue
		}
		starts, err := d.parts.pastStarts(asking, m.Name, now.Add(-relearnSpan), now)
		if err != nil {
			d.log.Warn("earlier starts cannot be read from the metrics: stated lead times serve until some were watched", "error", err)
			break
		}
		for _, s := range starts {
			s.Key.Shape = m.Shape.String()
			if err := d.parts.tracker.Ledger.Add(s); err != nil {
				d.log.Warn("an earlier start was refused", "error", err)
				continue
			}
			learned = append(learned, s)
		}
	}
	if len(learned) == 0 {
		return
	}
	d.log.Info("starts read back from the metrics", "starts", len(learned))
	if d.journal != nil {
		if err := d.journal.AddStarts(ctx, learned); err != nil {
			d.log.Error("starts read back cannot be recorded", "error", err)
		}
	}
}

// newCluster connects to the configured cluster; it returns kube.ErrNoCluster, wrapped, when there is none.
func newCluster(cfg *config, log *slog.Logger) (*kube.Observer, error) {
	clients, err := kube.Connect(cfg.Kubernetes)
	if err != nil {
		return nil, err
	}
	return kube.New(clients, cfg.Kubernetes, cfg.kubeModels(), log)
}
