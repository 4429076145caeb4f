package journal

import (
	"context"
	"errors"
	"testing"
	"time"

	"forewarm/planner"
)

// A State taken out of the journal by another process, decided again, gives the Decision that was recorded, byte for
// byte, and both are what went in.
func TestReplay(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	j, _ := mustOpen(t, dir, Options{CheckpointEvery: time.Minute})
	f := newFleet(3, 20, 15)
	made := map[int64]planner.Decision{}
	for range 40 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		made[d.At.UnixNano()] = d
	}
	r, err := OpenReadOnly(dir) // the writer is still there
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	infos, err := r.States(ctx, monday, monday.Add(time.Hour))
	if err != nil || len(infos) < 10 {
		t.Fatalf("%d states, error %v: 10 minutes have at least 10 checkpoints", len(infos), err)
	}
	for _, info := range infos {
		s, p, d, err := r.StateAt(ctx, info.At)
		if err != nil {
			t.Fatal(err)
		}
		again, err := planner.Decide(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if asJSON(t, again) != asJSON(t, d) {
			t.Fatalf("decided again:\n%s\nrecorded:\n%s", asJSON(t, again), asJSON(t, d))
		}
		if want := made[info.At.UnixNano()]; asJSON(t, d) != asJSON(t, want) {
			t.Fatalf("recorded:\n%s\nmade:\n%s", asJSON(t, d), asJSON(t, want))
		}
	}
	if _, _, _, err := r.StateAt(ctx, monday); !errors.Is(err, ErrNoState) {
		t.Errorf("before the first state: error is %v, must be ErrNoState", err)
	}
	between := infos[3].At.Add(time.Second)
	if s, _, _, err := r.StateAt(ctx, between); err != nil || !s.Now.Equal(infos[3].At) {
		t.Errorf("state at %s is of %s, error %v; the newest one before is of %s", between, s.Now, err, infos[3].At)
	}
}
