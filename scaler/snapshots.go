package scaler

import (
	"errors"
	"time"

	"forewarm/planner"
)

// Snapshots keep what the forecasters have learned over a restart: with one, only the load since it was made is read,
// not weeks of history, and the forecast is the one that there would have been without the restart.
type Snapshots struct {
	// Load returns what was saved last of a model, nil when there is nothing. With an error the history is read instead.
	// It may be called from any goroutine.
	Load func(model string) ([]byte, error)
	// Save replaces what is kept of a model.
	Save func(model string, now time.Time, data []byte) error
	// Refuse is told that what Load returned cannot be used, and returns what became of it.
	Refuse func(model string, why error) error
}

const (
	// snapshotEvery is how old a model's snapshot may get. After a crash the load since is read again, in one query.
	snapshotEvery = time.Hour
	// snapshotAge is how long a snapshot is good for after the newest step it has seen: the history says more than one
	// that is all hole for a day.
	snapshotAge = 24 * time.Hour
	// lastSaves bounds how long the end of the process waits for snapshots. A container gets 30 s to stop; what is not
	// saved by then is an hour old at most.
	lastSaves = 5 * time.Second
)

// recallPast reads what a model's history is needed for: the snapshot and the load since, else the whole history. An
// error about the snapshot comes beside the history.
func recallPast(model string, s *Snapshots, from, to time.Time,
	history func(from, to time.Time) (planner.LoadHistory, error)) pastLoad {
	p := pastLoad{model: model}
	if s != nil {
		p.snapshot, p.snapshotErr = s.recall(model, from, to)
	}
	if p.snapshot != nil {
		from = p.snapshot.End()
	}
	if from.Before(to) {
		p.load, p.err = history(from, to)
	}
	return p
}

// recall returns a model's snapshot when it can be continued up to a time; nil, and perhaps why, when it cannot.
func (s *Snapshots) recall(model string, from, to time.Time) (*planner.ModelSnapshot, error) {
	data, err := s.Load(model)
	if data == nil || err != nil {
		return nil, err
	}
	snapshot, err := planner.DecodeSnapshot(data)
	if err != nil {
		return nil, s.Refuse(model, err)
	}
	if end := snapshot.End(); !end.After(from) || to.Sub(end) > snapshotAge || end.After(to) {
		return nil, nil // too old, or from a clock that was ahead
	}
	return snapshot, nil
}

// saveSnapshots saves the models that are due, a few each tick: they take turns, so that a large fleet costs every
// tick the same.
func (l *Loop) saveSnapshots(now time.Time) {
	if l.cfg.Snapshots == nil {
		return
	}
	turn, tried := 1+int(int64(len(l.cfg.Models))*int64(l.cfg.Interval)/int64(snapshotEvery)), 0
	for _, model := range l.cfg.Models {
		if at, ok := l.saved[model]; ok && now.Sub(at) < snapshotEvery && !now.Before(at) || !l.worthKeeping(model) {
			continue
		}
		if tried++; tried > turn {
			break
		}
		l.save(model, now)
	}
}

// saveAll saves every model at the end of the process, as far as there is time.
func (l *Loop) saveAll(now time.Time) {
	if l.cfg.Snapshots == nil {
		return
	}
	until := time.Now().Add(lastSaves)
	for i, model := range l.cfg.Models {
		if time.Now().After(until) {
			l.cfg.Log.Warn("not all snapshots were saved at the end: the load since the last ones is read at the next start",
				"saved", i, "models", len(l.cfg.Models))
			return
		}
		if l.worthKeeping(model) {
			l.save(model, now)
		}
	}
}

// worthKeeping reports whether a model's history was read whole: one that was not is read again at the next start.
func (l *Loop) worthKeeping(model string) bool {
	_, unread := l.reading.unread[model]
	return !unread && l.reading.problems[model] == nil
}

// save writes one model's snapshot. A method without snapshots has none, which is no failure.
func (l *Loop) save(model string, now time.Time) {
	l.saved[model] = now
	data, err := l.cfg.Tracker.Snapshot(model)
	if errors.Is(err, planner.ErrNoSnapshot) {
		return
	}
	if err == nil {
		err = l.cfg.Snapshots.Save(model, now, data)
	}
	l.unsaved.set(model, err)
	if err == nil && l.unrestored[model] != nil {
		l.restored(now, model, nil) // what was set aside has a successor
	}
	l.outcome("save_snapshot", now, l.unsaved.err("snapshot"))
}

// takeInSnapshot restores a model from its snapshot and the load since. What cannot be restored is refused, and the
// whole history is read at the next tick.
func (l *Loop) takeInSnapshot(now time.Time, p pastLoad) {
	if err := l.cfg.Tracker.Restore(p.snapshot, p.load); err != nil {
		l.reading.refused[p.model] = true
		l.restored(now, p.model, l.cfg.Snapshots.Refuse(p.model, err))
		l.reading.unread[p.model] = time.Time{}
		return
	}
	l.restored(now, p.model, nil)
	delete(l.reading.unread, p.model)
}

// restored notes how the reading of a model's snapshot went.
func (l *Loop) restored(now time.Time, model string, err error) {
	l.unrestored.set(model, err)
	l.outcome("restore_snapshot", now, l.unrestored.err("snapshot"))
}

// forget drops what is wrong with a part of the tick. One that has no problem keeps its status.
func (l *Loop) forget(now time.Time, part string, p problems) {
	if len(p) > 0 {
		clear(p)
		l.outcome(part, now, nil)
	}
}

// set notes a model's problem, or that there is none any more.
func (p problems) set(model string, err error) {
	if err == nil {
		delete(p, model)
		return
	}
	p[model] = err
}
