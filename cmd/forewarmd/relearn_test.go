package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
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

// A start that was recorded without its shape counts for the model's own key when it is read back.
func TestRecallFillsTheShape(t *testing.T) {
	shape := planner.Shape{GPUs: 4, Pods: 1, Product: "H100"}
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := journal.Open(t.TempDir(), journal.Options{}, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.AddStarts(t.Context(), []coldstart.Sample{{ID: "a", Key: coldstart.Key{Model: "m", Path: coldstart.WarmNode}, Started: at,
		Total: 3 * time.Minute, Outcome: coldstart.Served}}); err != nil {
		t.Fatal(err)
	}
	d := &daemon{log: slog.New(slog.DiscardHandler), journal: j}
	n, err := d.recallStarts(t.Context(), planner.TrackerConfig{Ledger: ledger, Models: []planner.TrackedModel{{Name: "m", Shape: shape}}})
	if err != nil || n != 1 {
		t.Fatalf("%d starts, %v", n, err)
	}
	lt := ledger.Estimate(coldstart.Key{Model: "m", Shape: shape.String(), Path: coldstart.WarmNode}, at.Add(time.Hour))
	if lt.Basis != coldstart.Measured || lt.Samples != 1 {
		t.Errorf("the estimate is %s of %d starts: want it measured", lt.Basis, lt.Samples)
	}
}

// What was read back before the server ran out of time is recorded: the time is that for asking.
func TestRelearnRecordsWhatCameInTime(t *testing.T) {
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := journal.Open(t.TempDir(), journal.Options{}, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{log: slog.New(slog.DiscardHandler), journal: j, parts: parts{clock: scaler.WallClock(),
			tracker: planner.TrackerConfig{Ledger: ledger, Models: []planner.TrackedModel{{Name: "quick"}, {Name: "slow"}}},
			pastStarts: func(ctx context.Context, model string, _, to time.Time) ([]coldstart.Sample, error) {
				if model == "slow" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return []coldstart.Sample{{ID: "a", Key: coldstart.Key{Model: model, Path: coldstart.WarmNode}, Started: to.Add(-time.Hour),
					Total: 3 * time.Minute, Outcome: coldstart.Served}}, nil
			}}}
		d.relearn(t.Context())
	})
	if kept, err := j.Starts(t.Context()); err != nil || len(kept) != 1 {
		t.Errorf("%d starts are recorded, %v: want the one that came in time", len(kept), err)
	}
}
