package scaler

import (
	"testing"
	"time"

	"forewarm/planner"
)

// What Reconfigure is given counts from the next tick on, the memory and the plan's version go on, and a new Tracker's
// histories are read before it is asked.
func TestLoopReconfigure(t *testing.T) {
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	first := &world{ready: 2, load: 1000}
	l := newLoop(t, first, nil)
	next := ticks(l, start, 2)
	before := planned(t, l)

	policy := l.cfg.Policy
	policy.Defaults.ReplicasMin = before + 3
	cfg := l.cfg
	cfg.Policy = policy
	l.Reconfigure(cfg)
	if got := planned(t, l); got != before {
		t.Errorf("the plan is %d before the next tick, want %d as it was", got, before)
	}
	next = ticks(l, next, 1)
	if got := planned(t, l); got != before+3 {
		t.Errorf("the plan is %d, want the new minimum, %d", got, before+3)
	}

	second := &world{ready: 2, load: 1000}
	cfg.Source, cfg.Tracker = second, newTracker(t)
	cfg.Policy = planner.Policy{Defaults: l.cfg.Policy.Defaults}
	cfg.Policy.Defaults.ReplicasMin = 1
	l.Reconfigure(cfg)
	ticks(l, next, 1)
	if got := planned(t, l); got != before+3 {
		t.Errorf("the plan is %d: the memory of the last one, %d, is lost", got, before+3)
	}
	if l.Plan().Version != 4 {
		t.Errorf("the version is %d after 4 ticks", l.Plan().Version)
	}
	if m := l.Plan().Decision.Model("chat"); m == nil || len(l.reading.unread) != 0 {
		t.Errorf("the new tracker's history was not read: %v are missing", l.reading.unread)
	}
}
