package kube

import (
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

// startWatch turns replicas seen over time into cold-start samples. A start counts when it was watched: the replica was
// seen starting, or came and became ready since the look before. What was ready at the first look is not counted, since
// the time of its Ready condition may be that of a later recovery.
type startWatch struct {
	previous time.Time            // the look before; zero before the first
	current  time.Time            //
	open     map[string]openStart // by replica
	ready    map[string]bool      // replicas that have been ready
	seen     map[string]bool      // replicas of this look
	unknown  map[string]bool      // models whose replicas were not known at this look
	past     map[string]time.Time // model → the latest look at which its replicas were known
}

type openStart struct {
	model string
	since time.Time
	path  coldstart.Path
	last  time.Time
}

func newStartWatch() *startWatch {
	return &startWatch{open: map[string]openStart{}, ready: map[string]bool{}, past: map[string]time.Time{}}
}

func (s *startWatch) wasReady(id string) bool { return s.ready[id] }

// begin starts a look at all models.
func (s *startWatch) begin(now time.Time) {
	s.previous, s.current = s.current, now
	s.seen, s.unknown = map[string]bool{}, map[string]bool{}
}

// look takes in one model's replicas and returns the starts that ended since its look before.
func (s *startWatch) look(model string, w *world, f found, now time.Time) []ended {
	if f.replicas == nil {
		s.unknown[model] = true
		return nil
	}
	before := s.past[model]
	s.past[model] = now
	var out []ended
	for i := range f.each {
		r := &f.each[i]
		s.seen[r.id] = true
		start, watched := s.open[r.id]
		failed := r.failed || r.stuck(now) || watched && r.crashed() // which was never ready, or it would not be watched
		switch {
		case r.ready:
			if watched || !before.IsZero() && r.since.After(before) && !s.ready[r.id] {
				if served, ok := w.served(model, r); ok {
					served.Key.Path = start.withReclaim(served.Key.Path)
					out = append(out, served)
				}
			}
			s.ready[r.id] = true
			delete(s.open, r.id)
		case watched && (r.leaving || failed):
			out = append(out, ended{Sample: start.ended(r.id, failed, now), complete: true})
			delete(s.open, r.id)
		case !r.leaving && !failed && !s.ready[r.id] && !r.lostReadiness():
			s.open[r.id] = openStart{model: model, since: r.since, path: start.withReclaim(w.path(*r)), last: now}
		}
	}
	for id, start := range s.open {
		if start.model == model && !s.seen[id] {
			out = append(out, ended{Sample: start.ended(id, false, start.last), complete: true}) // gone between two looks
			delete(s.open, id)
		}
	}
	slices.SortFunc(out, func(a, b ended) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// end forgets models that are looked at no more, and replicas that are gone, unless some model's could not be seen at this
// look.
func (s *startWatch) end() {
	for id, start := range s.open {
		if !s.unknown[start.model] && !s.past[start.model].Equal(s.current) {
			delete(s.open, id)
		}
	}
	if len(s.unknown) > 0 {
		return
	}
	for id := range s.ready {
		if !s.seen[id] {
			delete(s.ready, id)
		}
	}
}

// ended is the sample of a start that never served. A replica that was deleted while it started did not fail, it was
// not wanted any longer: what is known is that its start takes longer than it was given.
func (o openStart) ended(id string, failed bool, at time.Time) coldstart.Sample {
	outcome := coldstart.Pending
	if failed {
		outcome = coldstart.Failed
	}
	return coldstart.Sample{ID: id, Key: coldstart.Key{Model: o.model, Path: o.path}, Started: o.since,
		Total: max(0, at.Sub(o.since)), Outcome: outcome}
}

// withReclaim keeps that batch work had to go: Kueue's word of it is gone once that has quota again.
func (o openStart) withReclaim(now coldstart.Path) coldstart.Path {
	if o.path == coldstart.ReclaimedNode && (now == coldstart.WarmNode || now == coldstart.PathUnknown) {
		return coldstart.ReclaimedNode
	}
	return now
}

// resolution is that of the times in the API.
const resolution = time.Second
