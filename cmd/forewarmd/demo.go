package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler"
	"forewarm/scaler/keda"
	"forewarm/sim"
)

// runDemo runs the same daemon over a simulated cluster until ctx ends.
func runDemo(ctx context.Context, f *flags, out io.Writer, log *slog.Logger) error {
	if !(f.speed >= 1 && f.speed <= 600) {
		return fmt.Errorf("--speed is %v: 1 to 600 are allowed", f.speed)
	}
	dir, kept := f.dataDir, f.dataDir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "forewarm-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		kept = dir + " (removed at the end; --data-dir keeps one)"
	}
	d, err := newDemo(f, dir, log)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		greet(running, d, f.speed, kept, out)
	}()
	err = d.run(ctx)
	stop() // a daemon that failed before its first plan greets nobody
	<-greeted
	return err
}

// demoHistory is how much of the world's past the forecasters learn from.
const demoHistory = sim.DemoHistory

// demoPastStarts is how many starts of each path were watched in that time.
const demoPastStarts = 20

func newDemo(f *flags, dir string, log *slog.Logger) (*daemon, error) {
	world := sim.DemoWorld()
	cluster, err := sim.NewCluster(world, f.seed)
	if err != nil {
		return nil, err
	}
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		return nil, err
	}
	for _, s := range cluster.PastStarts(demoPastStarts, demoHistory) {
		if err := ledger.Add(s); err != nil {
			return nil, err
		}
	}
	zone, err := time.LoadLocation(sim.DemoTimezone)
	if err != nil {
		return nil, err
	}
	endpoint := keda.DefaultConfig()
	if f.listen != "" {
		endpoint.Listen = f.listen
	}
	p := parts{
		clock:    scaler.VirtualClock(world.Start.In(zone), f.speed),
		source:   cluster,
		apply:    cluster.Apply,
		policy:   planner.Policy{Seed: f.seed, Defaults: planner.DefaultModelPolicy(), Models: map[string]planner.ModelPolicy{}},
		history:  demoHistory,
		keda:     endpoint,
		httpAddr: "127.0.0.1:8080",
		dataDir:  dir,
		tracker: planner.TrackerConfig{
			Step: sim.LoadStep, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 200, Method: "auto",
			Seed: f.seed, Location: zone, Ledger: ledger,
		},
	}
	if f.httpListen != "" {
		p.httpAddr = f.httpListen
	}
	for _, m := range world.Models {
		policy := planner.DefaultModelPolicy()
		policy.Authority, policy.ReplicasMin, policy.ReplicasMax = planner.Act, m.ReplicasMin, m.ReplicasMax
		p.policy.Models[m.Name] = policy
		p.models = append(p.models, m.Name)
		profile := m.Profile
		p.tracker.Models = append(p.tracker.Models, planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: &profile})
	}
	return newDaemon(p, log)
}

// greet prints the first answer as soon as there is one, and what to try next.
func greet(ctx context.Context, d *daemon, speed float64, dir string, out io.Writer) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for d.loop.Plan() == nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	plan := d.loop.Plan()
	fmt.Fprintf(out, "forewarmd: a simulated cluster, %g times as fast as the clock; it is %s there\n",
		speed, plan.Decision.At.Format("Monday 15:04"))
	for i := range plan.Decision.Models {
		m := &plan.Decision.Models[i]
		if m.Replicas != nil {
			fmt.Fprintf(out, "  %-10s %d replicas: %d serving + %d warm\n", m.Name, *m.Replicas, m.Serving, m.Warm)
		}
	}
	fmt.Fprintf(out, "KEDA endpoint on %s, plan and metrics on http://%s\njournal in %s\n",
		d.kedaListener.Addr(), d.httpListener.Addr(), dir)
	ask := fmt.Sprintf("go run ./cmd/forewarm ask %s --model %s%s", localhost(d.kedaListener.Addr().String()), plan.Decision.Models[0].Name, httpHint(d))
	fmt.Fprintf(out, "Ask it why, and how long starts take, from another terminal:\n\n  %s\n  %s --starts\n\n", ask, ask)
}

// localhost spells a loopback address as people do.
func localhost(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "127.0.0.1" {
		return address
	}
	return "localhost:" + port
}

// httpHint is the flag that `forewarm ask` needs when the plan is not on its default port.
func httpHint(d *daemon) string {
	address := d.httpListener.Addr().String()
	if _, port, err := net.SplitHostPort(address); err == nil && port == "8080" {
		return ""
	}
	return " --http " + address
}
