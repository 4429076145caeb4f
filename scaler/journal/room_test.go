package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// Far more is written than a small cap holds: the directory stays below it after every Append, States go before
// Decisions, and the last Decision, its State and every start are there in the end.
func TestSizeCap(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{SizeMax: 1 << 20, CheckpointEvery: time.Second})
	if err := j.AddStarts(ctx, []coldstart.Sample{numberedStart(1), numberedStart(2)}); err != nil {
		t.Fatal(err)
	}
	j.groupTicks = fewTicks
	f := newFleet(5, 20, 15)
	var last planner.Decision
	var written, peak int64
	for range 250 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		size, err := j.Size()
		if err != nil {
			t.Fatal(err)
		}
		if peak = max(peak, size); size > j.opts.SizeMax {
			t.Fatalf("%d bytes on disk at %s, the cap is %d", size, d.At, j.opts.SizeMax)
		}
		last = d
		written += int64(len(asJSON(t, d)))
		if j.recorded.at.Equal(d.At) {
			written += int64(len(asJSON(t, s)))
		}
	}
	if written < 10*j.opts.SizeMax {
		t.Fatalf("only %d bytes were written: that proves nothing about a cap of %d", written, j.opts.SizeMax)
	}
	t.Logf("%d MB of JSON written, at most %d of %d bytes on disk", written>>20, peak, j.opts.SizeMax)
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, last) {
		t.Error("the last decision is not what was appended")
	}
	if starts, err := j.Starts(ctx); err != nil || len(starts) != 2 {
		t.Errorf("%d starts, error %v, must be 2", len(starts), err)
	}
	oldest := oldestDecision(t, j, "chat-000")
	if infos, err := j.States(ctx, time.Time{}, time.Time{}); err != nil || len(infos) > 0 && infos[0].At.Before(oldest) {
		t.Errorf("states since %v (error %v), decisions since %s: states must go first", infos, err, oldest)
	}
	if kept := last.At.Sub(oldest); kept < 20*time.Minute {
		t.Errorf("decisions of %v are kept, a cap of 1 MiB holds more", kept)
	}
	integrity(t, j.Reader)
}

func oldestDecision(t *testing.T, j *Journal, model string) time.Time {
	t.Helper()
	for v, err := range j.Decisions(context.Background(), model, time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		return v.At
	}
	t.Fatalf("no decision of %s", model)
	return time.Time{}
}

// A cap that was lowered takes effect at the next Open, on the file itself.
func TestLoweredCap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{CheckpointEvery: time.Second})
	f := newFleet(5, 60, 30)
	var last planner.Decision
	for range 12 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		last = d
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := j.Size()
	if err != nil || before < 2<<20 {
		t.Fatalf("%d bytes, error %v: too little to prove anything", before, err)
	}
	j, _ = mustOpen(t, dir, Options{SizeMax: 1 << 20})
	after, err := j.Size()
	if err != nil || after > 1<<20 {
		t.Errorf("%d bytes (error %v) of %d are left, the cap is 1 MiB", after, err, before)
	}
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, last) {
		t.Error("the last decision is gone")
	}
	integrity(t, j.Reader)
}

// Starts are dropped, oldest first, only when nothing else is left to drop.
func TestStartsAloneOverTheCap(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{SizeMax: 1 << 20})
	s, p, d := newFleet(2, 3, 12).next(t)
	mustAppend(t, j, s, p, d)
	for batch := range 20 {
		var starts []coldstart.Sample
		for i := range 200 {
			at := monday.Add(time.Duration(200*batch+i) * time.Second)
			starts = append(starts, coldstart.Sample{ID: at.Format(time.RFC3339), Key: coldstart.Key{Model: "a"},
				Started: at, Total: time.Minute, Outcome: coldstart.Served})
		}
		if err := j.AddStarts(ctx, starts); err != nil {
			t.Fatal(err)
		}
		if size, err := j.Size(); err != nil || size > 1<<20 {
			t.Fatalf("%d bytes on disk, error %v, the cap is 1 MiB", size, err)
		}
	}
	starts, err := j.Starts(ctx)
	if err != nil || len(starts) < 1000 || len(starts) > 3900 {
		t.Fatalf("%d starts are left of 4000, error %v", len(starts), err)
	}
	if newest := starts[len(starts)-1].Started; !newest.Equal(monday.Add(3999 * time.Second)) {
		t.Errorf("the newest start is of %s: the oldest must go", newest)
	}
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
		t.Error("the last decision is gone")
	}
}

// When what may never be dropped alone is over the cap, it stays and the log says so.
func TestLastDecisionOverTheCap(t *testing.T) {
	var logged bytes.Buffer
	j, _, err := Open(t.TempDir(), Options{SizeMax: 1 << 20}, monday, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	rng := newFleet(1, 1, 1).rng
	d := planner.Decision{At: monday}
	for i := range 150 {
		why := make([]byte, 8000)
		for k := range why {
			why[k] = byte(' ' + rng.IntN(90))
		}
		d.Models = append(d.Models, planner.ModelDecision{Name: fmt.Sprintf("m%04d", i), Steps: []planner.Step{{Why: string(why)}}})
	}
	mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
		t.Error("the last decision is gone")
	}
	if !strings.Contains(logged.String(), "level=WARN") || !strings.Contains(logged.String(), "over its size cap") {
		t.Errorf("log is %q, must warn", logged.String())
	}
	d.Models, d.At = d.Models[:1], d.At.Add(tick)
	mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
	if v, ok, err := j.DecisionAt(context.Background(), "m0100", d.At); ok || err != nil {
		t.Errorf("the large decision of %s is still there, error %v: the next must replace it", v.At, err)
	}
}

// A State that does not fit its share of the cap is refused once per due time, not at every tick; Decisions go on.
func TestStateTooLarge(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{SizeMax: 1 << 20})
	f := newFleet(3, 60, 60)
	s, p, d := f.next(t)
	if err := j.Append(ctx, s, p, d); err == nil || !strings.Contains(err.Error(), "size_max") {
		t.Fatalf("error is %v, must name size_max", err)
	}
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
		t.Error("the decision was not recorded")
	}
	s.Now, d.At = s.Now.Add(tick), d.At.Add(tick)
	mustAppend(t, j, s, p, d)
}

func TestAge(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	opts := Options{KeepDecisions: 2 * time.Hour, KeepStates: time.Hour, KeepStarts: 90 * time.Minute, CheckpointEvery: time.Minute}
	j, _ := mustOpen(t, t.TempDir(), opts)
	var last planner.Decision
	j.groupTicks = fewTicks
	for n := range 120 { // four hours
		last = numbered(n)
		last.At = monday.Add(time.Duration(n) * 2 * time.Minute)
		start := numberedStart(n)
		start.Started = last.At
		if err := j.AddStarts(ctx, []coldstart.Sample{start}); err != nil {
			t.Fatal(err)
		}
		*last.Models[0].Replicas, *last.Models[0].Answer = n/8, n/8
		for i := range last.Models[1:] {
			last.Models[i+1].Replicas, last.Models[i+1].Answer = nil, nil
		}
		mustAppend(t, j, planner.State{Now: last.At, Interval: tick}, planner.Policy{}, last)
	}
	if kept := last.At.Sub(oldestDecision(t, j, "m1")); kept < 2*time.Hour || kept > 2*time.Hour+fewTicks*2*time.Minute {
		t.Errorf("decisions of %v are kept, must be 2h and at most a group more", kept)
	}
	infos, err := j.States(ctx, time.Time{}, time.Time{})
	if err != nil || len(infos) < 25 {
		t.Fatalf("%d states, error %v", len(infos), err)
	}
	if kept := last.At.Sub(infos[0].At); kept > time.Hour || kept < 55*time.Minute {
		t.Errorf("states of %v are kept, must be 1h", kept)
	}
	starts, err := j.Starts(ctx)
	if err != nil || len(starts) == 0 {
		t.Fatalf("%d starts, error %v", len(starts), err)
	}
	if kept := last.At.Sub(starts[0].Started); kept > 90*time.Minute || kept < 88*time.Minute {
		t.Errorf("starts of %v are kept, must be 90m", kept)
	}
	if orphans, err := number(ctx, j.Reader.db, "SELECT count(*) FROM state_models WHERE seq NOT IN (SELECT seq FROM states)"); err != nil || orphans != 0 {
		t.Errorf("%d rows of states that are gone, error %v", orphans, err)
	}
}

// One tick with a clock a year ahead costs one group at most, not the journal.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	j.groupTicks = fewTicks
	for n := range 4 * fewTicks {
		d := numbered(n)
		mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
	}
	wild := numbered(4 * fewTicks)
	wild.At = wild.At.AddDate(1, 0, 0)
	mustAppend(t, j, planner.State{Now: wild.At}, planner.Policy{}, wild)
	if oldest := oldestDecision(t, j, "m0"); oldest.After(numbered(fewTicks).At) {
		t.Errorf("the oldest decision is of %s: more than one group was dropped", oldest)
	}
}

// Models that are gone for longer than decisions are kept leave no trace.
func TestNamesAreDropped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{KeepDecisions: time.Hour})
	j.groupTicks = fewTicks
	for n := range 10 * fewTicks {
		d := planner.Decision{At: monday.Add(time.Duration(n) * 2 * time.Minute), Models: []planner.ModelDecision{{Name: "stays"}}}
		if n < fewTicks/2 {
			d.Models = []planner.ModelDecision{{Name: "goes"}, {Name: "stays"}}
		}
		mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
		if names, err := j.Models(ctx); n == fewTicks && (err != nil || len(names) != 2) {
			t.Fatalf("models are %v, error %v, while both are kept", names, err)
		}
	}
	if names, err := j.Models(ctx); err != nil || len(names) != 1 || names[0] != "stays" {
		t.Errorf("models are %v, error %v", names, err)
	}
}

// The file may not grow: Append says that there is no room, what was recorded stays, and with room it goes on. The
// limit is SQLite's own, so that this runs everywhere; TestDiskFull has a disk that is really full.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	limit := func(pages int64) {
		if _, err := j.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	fillAndRecover(t, j, func() {
		pages, err := number(context.Background(), j.write, "PRAGMA page_count")
		if err != nil {
			t.Fatal(err)
		}
		limit(pages + 30)
	}, func() { limit(1 << 30) })
}

// fillAndRecover appends until there is no room, checks that nothing was lost, makes room and goes on.
func fillAndRecover(t *testing.T, j *Journal, fill, makeRoom func()) {
	t.Helper()
	ctx := context.Background()
	f := newFleet(6, 10, 20)
	s, p, d := f.next(t)
	mustAppend(t, j, s, p, d)
	fill()
	recorded := []planner.Decision{d}
	refused := 0
	for range 2000 {
		s, p, d = f.next(t)
		err := j.Append(ctx, s, p, d)
		if err == nil || strings.Contains(err.Error(), "its decision is recorded") {
			recorded = append(recorded, d)
			continue
		}
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), j.path) {
			t.Fatalf("error is %v, must be ErrFull and name the file", err)
		}
		if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, recorded[len(recorded)-1]) {
			t.Fatal("the last decision is not the last one that was recorded")
		}
		if refused++; refused == 3 {
			break
		}
	}
	if refused < 3 {
		t.Fatal("there was always room")
	}
	makeRoom()
	for range 3 {
		s, p, d = f.next(t)
		mustAppend(t, j, s, p, d)
		recorded = append(recorded, d)
	}
	checkDecisions(t, j.Reader, "chat-004", recorded, time.Time{}, time.Time{})
	integrity(t, j.Reader)
}

// Free pages go back to the file system.
func TestVacuum(t *testing.T) {
	t.Parallel()
	j, _ := mustOpen(t, t.TempDir(), Options{CheckpointEvery: time.Second, KeepStates: time.Hour})
	f := newFleet(5, 40, 30)
	for range 10 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
	}
	size := func() int64 {
		if _, err := j.write.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(filepath.Dir(j.path), fileName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	for n := range 40 { // far later, without large States
		d := numbered(n + 2000)
		mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
	}
	if after := size(); after > before/3 {
		t.Errorf("the file has %d bytes, had %d with the states that are gone", after, before)
	}
}
