package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/coldstart"
	"forewarm/configs"
	"forewarm/planner"
)

// reloadEvery is how often the configuration is read again. It is a file of a few kilobytes, and a mounted ConfigMap is
// up to a minute old anyway.
const reloadEvery = 5 * time.Second

// reloader takes over a changed configuration while the daemon runs: a changed policy at the next tick, anything else by
// new readers and forecasters, whose histories are read anew. A configuration that is invalid, or that needs a restart,
// changes nothing: the one in force stays.
type reloader struct {
	d     *daemon
	cfg   *config
	read  func() (*config, error)
	every time.Duration

	refused string // why the file as it is was refused, so that it is logged once
	parts   parts
	tracker *planner.Tracker
	stop    context.CancelFunc // ends the following of the cluster
	running sync.WaitGroup

	reloads *prometheus.CounterVec
	inForce prometheus.Gauge
}

func newReloader(d *daemon, cfg *config, read func() (*config, error)) *reloader {
	r := &reloader{d: d, cfg: cfg, read: read, every: reloadEvery, parts: d.parts, tracker: d.tracker, stop: func() {},
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forewarm", Name: "config_reloads_total",
			Help: "Changed configurations, by result: applied or refused."}, []string{"result"}),
		inForce: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "forewarm", Name: "config_in_force",
			Help: "1 while the configuration file is what the daemon runs by, 0 while it is refused."})}
	r.inForce.Set(1)
	d.registry.MustRegister(r.reloads, r.inForce)
	return r
}

// run follows the configuration, and the cluster of the one in force, until ctx ends.
func (r *reloader) run(ctx context.Context) error {
	defer r.running.Wait()
	defer func() { r.stop() }()
	r.stop = r.follow(ctx, r.parts)
	ticker := time.NewTicker(r.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			r.look(ctx)
		}
	}
}

// follow keeps the facts of some parts up to date until the returned function is called.
func (r *reloader) follow(ctx context.Context, p parts) context.CancelFunc {
	ctx, cancel := context.WithCancel(ctx)
	if p.follow != nil {
		r.running.Go(func() {
			if err := p.follow(ctx); err != nil {
				r.d.log.Error("the cluster is not followed", "error", err)
			}
		})
	}
	return cancel
}

// look reads the configuration and takes it over when it has changed.
func (r *reloader) look(ctx context.Context) {
	next, err := r.read()
	if err == nil && bytes.Equal(next.raw, r.cfg.raw) && bytes.Equal(next.rawEvents, r.cfg.rawEvents) {
		r.refused = ""
		r.inForce.Set(1)
		return
	}
	if err == nil {
		err = r.takeOver(ctx, next)
	}
	if err != nil {
		r.inForce.Set(0)
		if why := err.Error(); why != r.refused {
			r.refused = why
			r.reloads.WithLabelValues("refused").Inc()
			r.d.log.Error("the changed configuration is refused, the one before stays in force", "error", err)
		}
		return
	}
	r.cfg, r.refused = next, ""
	r.inForce.Set(1)
	r.reloads.WithLabelValues("applied").Inc()
	r.d.log.Info("the changed configuration is in force from the next tick on")
}

// needsRestart names the keys that cannot change while the daemon runs.
func needsRestart(old, next *config) error {
	var keys []string
	for _, k := range []struct {
		name      string
		old, next any
	}{{"keda", old.KEDA, next.KEDA}, {"http", old.HTTP, next.HTTP}, {"data_dir", old.DataDir, next.DataDir}} {
		if !reflect.DeepEqual(k.old, k.next) {
			keys = append(keys, k.name)
		}
	}
	if keys != nil {
		return fmt.Errorf("%s cannot change while the daemon runs: restart it", strings.Join(keys, ", "))
	}
	return nil
}

// samePlant reports whether two configurations, with their events, differ at most in what only Decide reads: policies,
// apart from the seed that the forecasters draw by. It compares what was written: readers fill in their settings as they use them.
func samePlant(old, next *config) bool {
	a, errA := plant(old.raw)
	b, errB := plant(next.raw)
	return errA == nil && errB == nil && bytes.Equal(old.rawEvents, next.rawEvents) && old.Policy.Seed == next.Policy.Seed && reflect.DeepEqual(a, b)
}

// plant is a configuration as it was written, without its policies.
func plant(raw []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := configs.Decode("configuration", raw, &tree); err != nil {
		return nil, err
	}
	delete(tree, "policy")
	models, _ := tree["models"].([]any)
	for _, m := range models {
		if model, ok := m.(map[string]any); ok {
			delete(model, "policy")
		}
	}
	return tree, nil
}

// clusterReady bounds how long a new cluster may take before it is taken over all the same.
const clusterReady = 30 * time.Second

func (r *reloader) takeOver(ctx context.Context, next *config) error {
	if err := needsRestart(r.cfg, next); err != nil {
		return err
	}
	if samePlant(r.cfg, next) {
		r.parts.policy = next.policy()
		observing := r.parts.observing(r.tracker)
		observing.Snapshots = r.d.snapshots(r.parts.bases)
		r.d.loop.Reconfigure(observing)
		return nil
	}
	p, err := liveParts(next, r.d.log)
	if err != nil {
		return err
	}
	if _, err := r.d.recallStarts(ctx, p.tracker); err != nil {
		return err
	}
	tracker, err := planner.NewTracker(p.tracker)
	if err != nil {
		return err
	}
	if p.cluster != nil && r.parts.cluster != nil {
		p.cluster.TakeOver(r.parts.cluster) // the loop asks the new one only after it has last asked the old one
	}
	stop := r.follow(ctx, p)
	if p.cluster != nil {
		// Its facts should be there when it is asked first; one that is slow is unknown for a while, as at a start.
		bounded, cancel := context.WithTimeout(ctx, clusterReady)
		if err := p.cluster.Wait(bounded); err != nil && !errors.Is(err, context.Canceled) {
			r.d.log.Warn("the cluster is not read yet", "error", err)
		}
		cancel()
	}
	r.stop()
	r.stop, r.parts, r.tracker = stop, p, tracker
	r.d.keda.SetModels(p.models)
	observing := p.observing(tracker)
	observing.Snapshots = r.d.snapshots(p.bases)
	observing.Inherits = func(s coldstart.Sample) bool { return !fromFile(s) } // what the files say was read anew
	r.d.loop.Reconfigure(observing)
	return nil
}
