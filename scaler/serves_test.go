package scaler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// withPool adds to a world a pool of decode replicas, which is seen but has no series of arrivals.
type withPool struct{ *world }

func (w withPool) History(ctx context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	h, err := w.world.History(ctx, model, from, to)
	if model == "decode" {
		return planner.LoadHistory{}, errors.New("no series of arrivals")
	}
	return h, err
}

func (w withPool) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	obs, err := w.world.Observe(ctx, now)
	if err == nil {
		pool := obs.Models[0]
		pool.Name = "decode"
		obs.Models = append(obs.Models, pool)
	}
	return obs, err
}

// A model that serves another is not forecast: no history of it is read, at the start or after, no snapshot of it is kept,
// and what it lacks makes no part of the tick fail.
func TestNoHistoryOfWhatServesAnother(t *testing.T) {
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shape, profile := planner.Shape{GPUs: 1, Pods: 1}, &planner.Profile{Prompt: 20000, Completion: 2000}
	tracker, err := planner.NewTracker(planner.TrackerConfig{
		Step: time.Minute, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 20, Method: "auto", Seed: 1, Ledger: ledger,
		Models: []planner.TrackedModel{{Name: "chat", Shape: shape, Profile: profile},
			{Name: "decode", Serves: "chat", Shape: shape, Profile: profile}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, kept := &world{ready: 2, load: 1000}, &shelf{data: map[string][]byte{}}
	l := newLoop(t, nil, func(c *Config) {
		c.Source, c.Tracker, c.Models = withPool{w}, tracker, []string{"chat", "decode"}
		kept.use(c)
	})
	next := ticks(l, monday, 4*20)
	l.saveAll(next)
	for _, call := range w.historyCalls {
		if !strings.HasPrefix(call, "chat ") {
			t.Fatalf("a history was read that nothing is forecast from: %s", call)
		}
	}
	if kept.data["chat"] == nil || kept.data["decode"] != nil {
		t.Errorf("kept are snapshots of %d models, decode's of %d bytes", len(kept.data), len(kept.data["decode"]))
	}
	for _, s := range l.Status() {
		if s.Error != "" {
			t.Errorf("%s fails: %s", s.Part, s.Error)
		}
	}
}
