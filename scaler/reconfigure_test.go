package scaler

import (
	"errors"
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

// What was wrong with the snapshots of a model that a new configuration no longer has does not fail for ever.
func TestLoopForgetsTheSnapshotsOfTheRemoved(t *testing.T) {
	broken := &shelf{data: map[string][]byte{"chat": []byte("no snapshot")}, saveErr: errors.New("disk full")}
	l := newLoop(t, &world{ready: 2, load: 1000}, func(c *Config) { broken.use(c) })
	next := ticks(l, monday, 1)
	for _, name := range []string{"save_snapshot", "restore_snapshot"} {
		if part(l, name).Error == "" {
			t.Fatalf("%s does not fail: %+v", name, l.Status())
		}
	}
	cfg := l.cfg
	cfg.Tracker, cfg.Models, cfg.Snapshots = newTracker(t), []string{}, nil
	l.Reconfigure(cfg)
	ticks(l, next, 1)
	for _, name := range []string{"save_snapshot", "restore_snapshot"} {
		if s := part(l, name); s.Error != "" {
			t.Errorf("%s fails for a model that is gone: %s", name, s.Error)
		}
	}
}
