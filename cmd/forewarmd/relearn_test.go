package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler"
	"forewarm/scaler/journal"
)

// A fresh replica learns what an earlier one exported, once, of the models of which it knows nothing; a server that does
// not answer leaves the stated lead times.
func TestRelearn(t *testing.T) {
	shape := planner.Shape{GPUs: 4, Pods: 1, Product: "H100"}
	start := func(model, id string) coldstart.Sample {
		return coldstart.Sample{ID: id, Key: coldstart.Key{Model: model, Path: coldstart.WarmNode}, Started: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
			Total: 3 * time.Minute, Outcome: coldstart.Served}
	}
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Add(start("known", "k")); err != nil {
		t.Fatal(err)
	}
	j, _, err := journal.Open(t.TempDir(), journal.Options{}, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var asked []string
	var fault error
	d := &daemon{log: slog.New(slog.DiscardHandler), journal: j, parts: parts{clock: scaler.WallClock(),
		tracker: planner.TrackerConfig{Ledger: ledger, Models: []planner.TrackedModel{{Name: "known", Shape: shape}, {Name: "fresh", Shape: shape}}},
		pastStarts: func(_ context.Context, model string, from, to time.Time) ([]coldstart.Sample, error) {
			asked = append(asked, model)
			if to.Sub(from) != relearnSpan {
				t.Errorf("asked for %v", to.Sub(from))
			}
			return []coldstart.Sample{start(model, "a"), start(model, "b"), {ID: "broken"}}, fault
		}}}
	fault = errors.New("the server is down")
	d.relearn(t.Context())
	if len(ledger.Samples()) != 1 {
		t.Errorf("%d starts after a failure: want the one that was there", len(ledger.Samples()))
	}
	fault = nil
	d.relearn(t.Context())
	d.relearn(t.Context())
	if !slices.Equal(asked, []string{"fresh", "fresh"}) {
		t.Errorf("asked for %v: want the model of which nothing is known, until it answered", asked)
	}
	lt := ledger.Estimate(coldstart.Key{Model: "fresh", Shape: shape.String(), Path: coldstart.WarmNode}, time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	if lt.Basis != coldstart.Measured || lt.Samples != 2 {
		t.Errorf("the estimate is %s of %d starts", lt.Basis, lt.Samples)
	}
	if kept, err := j.Starts(t.Context()); err != nil || len(kept) != 2 {
		t.Errorf("%d starts are recorded, %v", len(kept), err)
	}
	(&daemon{}).relearn(t.Context()) // a demo has no metrics to ask
}
