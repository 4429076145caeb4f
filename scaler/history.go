package scaler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"forewarm/forecast"
	"forewarm/planner"
)

// historyRetry is how long to wait before a history that could not be read is tried again.
const historyRetry = time.Minute

// borrowRetry is how long to wait before a history is read again that may be completed with another model's by then.
const borrowRetry = 10 * time.Minute

// reading keeps track of the histories that have not been read yet.
type reading struct {
	unread map[string]time.Time // model → when it was last tried, zero for never
	slots  chan struct{}        // one token for each worker
	done   chan pastLoad        // what workers have read, taken in by the next tick
	// problems is why a model's history is not read, or in what it is partial.
	problems problems
	refused  map[string]bool // models whose snapshot could not be restored
}

// pastLoad is what came of reading one history.
type pastLoad struct {
	model string
	load  planner.LoadHistory // since the snapshot, when there is one
	err   error

	snapshot    *planner.ModelSnapshot
	snapshotErr error // why there is none
}

func newReading(cfg Config) *reading {
	r := &reading{
		unread:   make(map[string]time.Time, len(cfg.Models)),
		slots:    make(chan struct{}, max(1, cfg.HistoryWorkers)),
		done:     make(chan pastLoad, len(cfg.Models)),
		problems: problems{},
		refused:  map[string]bool{},
	}
	for _, m := range cfg.Models {
		if cfg.Tracker.Serves(m) == "" { // else nothing is forecast from its history
			r.unread[m] = time.Time{}
		}
	}
	return r
}

// problems are what is wrong with one part of the tick, by model: a part that works for one model must not hide that it
// fails for another.
type problems map[string]error

// err is nil when there are none. It spells out a few, in the order of names, and counts the rest; what is the part.
func (p problems) err(what string) error {
	const shownMax = 3
	var errs []error
	for _, model := range slices.Sorted(maps.Keys(p)) {
		if len(errs) == shownMax {
			errs = append(errs, fmt.Errorf("and %d more models", len(p)-shownMax))
			break
		}
		errs = append(errs, fmt.Errorf("%s of %s: %w", what, model, p[model]))
	}
	return errors.Join(errs...)
}

// readHistories reads the histories that are due, in the tick or beside it, and takes in those that have come.
func (l *Loop) readHistories(ctx context.Context, now time.Time) {
	// A worker may outlast a Reconfigure, so that it takes along what it was started for.
	to, past, source, from, kept := now.Truncate(l.cfg.Step), l.cfg.History, l.cfg.Source, l.reading, l.cfg.Snapshots
	read := func(model string, kept *Snapshots) pastLoad {
		return recallPast(model, kept, to.Add(-past), to, func(from, to time.Time) (planner.LoadHistory, error) {
			return source.History(ctx, model, from, to)
		})
	}
	for _, model := range l.cfg.Models {
		if l.cfg.Tracker.End(model).After(now.Add(l.cfg.Step)) {
			// The clock was ahead and went back: until it caught up, no step would be new. Start over from the past.
			if _, unread := l.reading.unread[model]; !unread {
				l.reading.unread[model] = time.Time{}
			}
		}
		tried, unread := l.reading.unread[model]
		if !unread || !tried.IsZero() && now.Sub(tried) < historyRetry {
			continue
		}
		l.reading.unread[model] = now
		use := kept
		if l.reading.refused[model] {
			use = nil
		}
		if l.cfg.HistoryWorkers == 0 {
			l.takeIn(ctx, now, read(model, use))
			continue
		}
		// Under way until its result is taken in: far beyond any retry.
		l.reading.unread[model] = now.Add(24 * time.Hour)
		l.workers.Go(func() {
			select {
			case from.slots <- struct{}{}:
				defer func() { <-from.slots }()
				from.done <- read(model, use)
			case <-ctx.Done():
			}
		})
	}
	l.takeInDone(ctx, now)
}

// takeInDone takes in the histories that workers have read. Fitting takes a part of a second for a model with weeks
// of history, so it stops after half an interval and leaves the rest to the next tick: a fleet that comes back at
// once must not make the plan stale.
func (l *Loop) takeInDone(ctx context.Context, now time.Time) {
	started, budget := time.Now(), l.cfg.Clock.Wall(l.cfg.Interval)/2
	for {
		select {
		case p := <-l.reading.done:
			l.reading.unread[p.model] = now
			l.takeIn(ctx, now, p)
		default:
			return
		}
		if time.Since(started) > budget {
			return
		}
	}
}

// takeIn fits the forecasters on a history that was read. What is too short is kept and completed by the ticks; steps
// that a partial answer lacks are missing, as the status says. A read that the end of ctx cut short says nothing.
func (l *Loop) takeIn(ctx context.Context, now time.Time, p pastLoad) {
	if ctx.Err() != nil {
		return
	}
	if p.snapshotErr != nil {
		l.restored(now, p.model, p.snapshotErr)
	}
	err := p.err
	usable := err == nil || errors.Is(err, planner.ErrPartial)
	switch {
	case usable && p.snapshot != nil:
		l.takeInSnapshot(now, p)
	case usable:
		fitted := l.cfg.Tracker.Fit(p.model, p.load)
		switch {
		case p.load.ReadAgain:
			l.reading.unread[p.model] = now.Add(borrowRetry - historyRetry)
		case fitted == nil || errors.Is(fitted, forecast.ErrShortHistory):
			delete(l.reading.unread, p.model)
		}
		err = errors.Join(err, fitted)
	}
	if err != nil {
		l.reading.problems[p.model] = err
	} else {
		delete(l.reading.problems, p.model)
	}
	l.outcome("history", now, l.reading.problems.err("history"))
}
