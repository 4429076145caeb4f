package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler"
	"forewarm/scaler/journal"
	"forewarm/scaler/keda"
	"forewarm/scaler/kube"
)

// daemon is the wired program: the loop, the KEDA endpoint, the HTTP side and the journal. Live and demo differ only in
// the parts they are made of.
type daemon struct {
	parts    parts
	log      *slog.Logger
	keda     *keda.Server
	loop     *scaler.Loop
	tracker  *planner.Tracker // the loop's at the start
	http     *http.Server
	journal  *journal.Journal   // nil when there is none
	setAside float64            // journal files set aside at the start
	standing []planner.Gap      // what is missing for as long as the process runs
	kept     *journal.Snapshots // nil when there is no journal
	registry *prometheus.Registry
	// The listeners know their ports, also when 0 was asked for.
	kedaListener, httpListener net.Listener
	serving                    atomic.Bool
	closing                    sync.Once
}

// parts are what the daemon is made of.
type parts struct {
	clock  scaler.Clock
	source scaler.Source
	// cluster is what the source asks about the cluster, nil when none is observed.
	cluster *kube.Observer
	follow  func(context.Context) error // keeps the source's facts up to date until ctx ends; nil when it needs none
	reload  func(context.Context) error // follows the configuration file until ctx ends; nil without one
	apply   func(context.Context, planner.Decision) error
	// pastStarts reads a model's starts back from metrics; nil when there are none.
	pastStarts func(ctx context.Context, model string, from, to time.Time) ([]coldstart.Sample, error)
	tracker    planner.TrackerConfig
	policy     planner.Policy
	models     []string
	history    time.Duration
	workers    int // that read histories beside the ticks
	keda       keda.Config
	httpAddr   string
	dataDir    string
	// bases say what each model's forecasters learn under; a snapshot of another basis is not restored.
	bases map[string]string
}

// newDaemon listens and wires, but does not run. Whatever it opened is closed again when it fails.
func newDaemon(p parts, log *slog.Logger) (_ *daemon, err error) {
	d := &daemon{parts: p, log: log, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			d.close(context.Background())
		}
	}()
	if d.kedaListener, err = listen(p.keda.Listen, "--listen or keda.listen"); err != nil {
		return nil, err
	}
	if d.httpListener, err = listen(p.httpAddr, "--http-listen or http.listen"); err != nil {
		return nil, err
	}
	if d.keda, err = keda.NewServer(p.keda, p.models, p.clock.Now, log); err != nil {
		return nil, fmt.Errorf("keda: %w", err)
	}
	memory, err := d.openJournal()
	if err != nil {
		return nil, err
	}
	tracker, err := planner.NewTracker(p.tracker)
	if err != nil {
		return nil, err
	}
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(), kedaCollector{d.keda})
	d.registerJournal()
	d.tracker = tracker
	d.loop = scaler.NewLoop(d.loopConfig(tracker, memory))
	d.http = d.newHTTP()
	return d, nil
}

// registerJournal exports whether there is a journal: one that cannot be used must be seen by an alert, not only in the
// log of the start.
func (d *daemon) registerJournal() {
	gauge := func(name, help string, v float64) {
		d.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "forewarm", Name: name, Help: help},
			func() float64 { return v }))
	}
	open := 0.0
	if d.journal != nil {
		open = 1
	}
	gauge("journal_open", "1 while decisions are recorded, 0 without a usable data_dir.", open)
	gauge("journal_set_aside", "Files that could not be used and were set aside at the start.", d.setAside)
}

func listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; another address can be given with %s", err, flag)
	}
	return l, nil
}

// openJournal opens the data directory, takes the starts and the memory of an earlier process out of it and serves that
// process's last plan until the first tick. A directory that cannot be used is loud but not fatal: the plan is still
// safe, since without a memory nothing shrinks until a scale-down window has been watched.
func (d *daemon) openJournal() (planner.Memory, error) {
	if d.parts.dataDir == "" {
		d.log.Warn("no data_dir: plans, states and starts are not kept, and a restart holds for a scale-down window")
		return planner.Memory{}, nil
	}
	j, report, err := journal.Open(d.parts.dataDir, journal.Options{}, time.Now(), d.log)
	if errors.Is(err, journal.ErrUnavailable) {
		d.log.Error("the journal cannot be used: running without it", "error", err)
		d.lacks("not usable, so that plans, states and starts are not kept: " + err.Error())
		return planner.Memory{}, nil
	}
	if err != nil {
		return planner.Memory{}, err
	}
	d.journal = j
	if report.Aside != "" {
		d.setAside = 1
		d.log.Error("the journal was set aside and a fresh one started", "aside", report.Aside, "why", report.Why)
		d.lacks(fmt.Sprintf("set aside as %s, because it %s: the starts in it count for no lead time", report.Aside, report.Why))
	}
	if d.kept, err = journal.OpenSnapshots(d.parts.dataDir, time.Now()); err != nil {
		d.log.Error("forecasters cannot be kept: a restart reads the whole history", "error", err)
	}
	return d.recall(), nil
}

// lacks makes every plan of this process say what is wrong with the journal: a log line of the start is soon forgotten.
func (d *daemon) lacks(detail string) {
	d.standing = append(d.standing, planner.Gap{Fact: "journal", Since: d.parts.clock.Now(), Detail: detail})
}

// recall takes over what the journal knows. What it cannot give back is loud but not fatal, for the reason of
// openJournal: a daemon that does not start answers nobody.
func (d *daemon) recall() planner.Memory {
	ctx := context.Background()
	starts, err := d.recallStarts(ctx, d.parts.tracker)
	if err != nil {
		d.log.Error("the recorded starts cannot be read: running without them", "error", err)
	}
	last, ok, err := d.journal.Last(ctx)
	if err != nil {
		d.log.Error("the last plan cannot be read: nothing shrinks until a scale-down window has been watched", "error", err)
	}
	if err != nil || !ok {
		return planner.Memory{}
	}
	d.keda.Publish(&last)
	d.log.Info("taken over from the journal", "plan", last.At, "starts", starts)
	memory := last.Memory
	memory.Unbroken = time.Time{} // nobody watched while the process was down, however short that was
	return memory
}

// recallStarts adds the recorded starts to a tracker's ledger and returns how many there are; without a journal there are
// none. One that was recorded without a shape gets its model's.
func (d *daemon) recallStarts(ctx context.Context, to planner.TrackerConfig) (int, error) {
	if d.journal == nil {
		return 0, nil
	}
	starts, err := d.journal.Starts(ctx)
	if err != nil {
		return 0, err
	}
	shapes := map[string]string{}
	for _, m := range to.Models {
		shapes[m.Name] = m.Shape.String()
	}
	for _, s := range starts {
		if s.Key.Shape == "" {
			s.Key.Shape = shapes[s.Key.Model]
		}
		if err := to.Ledger.Add(s); err != nil {
			d.log.Warn("a recorded start was refused", "error", err)
		}
	}
	return len(starts), nil
}

func (d *daemon) loopConfig(tracker *planner.Tracker, memory planner.Memory) scaler.Config {
	cfg := d.parts.observing(tracker)
	cfg.Standing = d.standing
	cfg.Snapshots = d.snapshots(d.parts.bases)
	cfg.PastStarts = d.parts.tracker.Ledger.Samples()
	cfg.Clock, cfg.Memory, cfg.Apply, cfg.Log = d.parts.clock, memory, d.parts.apply, d.log
	cfg.Publish = func(p scaler.Plan) { d.keda.Publish(p.Decision) }
	cfg.Metrics = scaler.NewMetrics(d.registry, d.planAge)
	if d.journal != nil {
		cfg.Record = d.journal.AppendDecision
		cfg.RecordState = d.journal.AppendState
		cfg.RecordStarts = d.journal.AddStarts
	}
	return cfg
}

// observing is the part of the loop's configuration that a reload replaces.
func (p parts) observing(tracker *planner.Tracker) scaler.Config {
	return scaler.Config{Source: p.source, Tracker: tracker, Policy: p.policy, Models: p.models, Interval: p.tracker.Interval,
		Step: p.tracker.Step, History: p.history, HistoryWorkers: p.workers}
}

func (d *daemon) planAge() float64 {
	if d.loop == nil || d.loop.Plan() == nil {
		return math.NaN()
	}
	return d.parts.clock.Now().Sub(d.loop.Plan().Decision.At).Seconds()
}

func (d *daemon) newHTTP() *http.Server {
	mux := http.NewServeMux()
	api := &scaler.API{Loop: d.loop, Now: d.parts.clock.Now, Ready: d.serving.Load, StaleAfter: d.parts.keda.StaleAfter}
	api.Register(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelError)}))
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
}

// run serves and ticks until ctx ends or a part fails, then stops in order: no more ticks, NOT_SERVING and drained
// calls, HTTP, journal.
func (d *daemon) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 5)
	var wg sync.WaitGroup
	start := func(what string, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				failed <- fmt.Errorf("%s: %w", what, err)
				cancel()
			}
		})
	}
	start("keda endpoint", func() error { return d.keda.Serve(d.kedaListener) })
	start("http", func() error {
		if err := d.http.Serve(d.httpListener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if d.parts.reload != nil {
		start("configuration", func() error { return d.parts.reload(ctx) })
	} else if d.parts.follow != nil {
		start("cluster", func() error { return d.parts.follow(ctx) })
	}
	d.serving.Store(true)
	loopDone := make(chan struct{})
	start("loop", func() error {
		defer close(loopDone)
		return d.loop.Run(ctx)
	})
	<-ctx.Done()
	<-loopDone
	err := d.close(context.Background())
	wg.Wait()
	select {
	case first := <-failed:
		return first
	default:
		return err
	}
}

// close stops what was started and closes what was opened; it may be called more than once.
func (d *daemon) close(ctx context.Context) (err error) {
	d.closing.Do(func() {
		d.serving.Store(false)
		var errs []error
		if d.keda != nil {
			errs = append(errs, d.keda.Stop(ctx))
		}
		if d.http != nil {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := d.http.Shutdown(ctx); err != nil {
				errs = append(errs, fmt.Errorf("stopping http: %w", errors.Join(err, d.http.Close())))
			}
		}
		for _, l := range []net.Listener{d.kedaListener, d.httpListener} {
			if l != nil {
				_ = l.Close() // closed already by its server, if that ran
			}
		}
		if d.journal != nil {
			errs = append(errs, d.journal.Close())
		}
		err = errors.Join(errs...)
	})
	return err
}
