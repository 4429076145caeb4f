package scaler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forewarm/forecast"
	"forewarm/planner"
)

// historyRetry is how long to wait before a history that could not be read is tried again.
const historyRetry = time.Minute

// reading keeps track of the histories that have not been read yet.
type reading struct {
	unread map[string]time.Time // model → when it was last tried, zero for never
	slots  chan struct{}        // one token for each worker
	done   chan pastLoad        // what workers have read, taken in by the next tick
}

// pastLoad is what came of reading one history.
type pastLoad struct {
	model string
	load  planner.LoadHistory
	err   error
}

func newReading(cfg Config) *reading {
	r := &reading{
		unread: make(map[string]time.Time, len(cfg.Models)),
		slots:  make(chan struct{}, max(1, cfg.HistoryWorkers)),
		done:   make(chan pastLoad, len(cfg.Models)),
	}
	for _, m := range cfg.Models {
		r.unread[m] = time.Time{}
	}
	return r
}

// readHistories reads the histories that are due, in the tick or beside it, and takes in those that have come.
func (l *Loop) readHistories(ctx context.Context, now time.Time) {
	// A worker may outlast a Reconfigure, so that it takes along what it was started for.
	to, past, source, from := now.Truncate(l.cfg.Step), l.cfg.History, l.cfg.Source, l.reading
	read := func(model string) pastLoad {
		h, err := source.History(ctx, model, to.Add(-past), to)
		return pastLoad{model, h, err}
	}
	for _, model := range l.cfg.Models {
		tried, unread := l.reading.unread[model]
		if !unread || !tried.IsZero() && now.Sub(tried) < historyRetry {
			continue
		}
		l.reading.unread[model] = now
		if l.cfg.HistoryWorkers == 0 {
			l.takeIn(now, read(model))
			continue
		}
		// Under way until its result is taken in: far beyond any retry.
		l.reading.unread[model] = now.Add(24 * time.Hour)
		l.workers.Go(func() {
			select {
			case from.slots <- struct{}{}:
				defer func() { <-from.slots }()
				from.done <- read(model)
			case <-ctx.Done():
			}
		})
	}
	for {
		select {
		case p := <-l.reading.done:
			l.reading.unread[p.model] = now
			l.takeIn(now, p)
		default:
			return
		}
	}
}

// takeIn fits the forecasters on a history that was read. What is too short is kept and completed by the ticks; steps
// that a partial answer lacks are missing, as the status says.
func (l *Loop) takeIn(now time.Time, p pastLoad) {
	err := p.err
	if err == nil || errors.Is(err, planner.ErrPartial) {
		fitted := l.cfg.Tracker.Fit(p.model, p.load)
		if fitted == nil || errors.Is(fitted, forecast.ErrShortHistory) {
			delete(l.reading.unread, p.model)
		}
		err = errors.Join(err, fitted)
	}
	if err != nil {
		err = fmt.Errorf("history of %s: %w", p.model, err)
	}
	l.outcome("history", now, err)
}
