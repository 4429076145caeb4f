package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// Every Decision comes back as it went in, whole and per model, over group boundaries, before and after a restart.
func TestDecisionsComeBack(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	j, report := mustOpen(t, dir, Options{})
	if !report.Created || report.Aside != "" {
		t.Fatalf("report of a fresh journal: %+v", report)
	}
	if _, ok, err := j.Last(ctx); ok || err != nil {
		t.Fatalf("last of an empty journal: ok %v, error %v", ok, err)
	}
	if _, ok, err := j.LastMemory(ctx); ok || err != nil {
		t.Fatalf("memory of an empty journal: ok %v, error %v", ok, err)
	}
	j.groupTicks = fewTicks
	f := newFleet(3, 3, 12)
	var made []planner.Decision
	for i := range 300 { // more than one page of Decisions
		if i == 155 { // a restart opens a new group, in the middle of one
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j, report = mustOpen(t, dir, Options{})
			j.groupTicks = fewTicks
			if report.Created || report.Aside != "" {
				t.Fatalf("report of a sound journal: %+v", report)
			}
		}
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		made = append(made, d)
	}
	last := made[len(made)-1]
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, last) {
		t.Errorf("last is\n%s, was\n%s", asJSON(t, got), asJSON(t, last))
	}
	if m, ok, err := j.LastMemory(ctx); err != nil || !ok || asJSON(t, m) != asJSON(t, last.Memory) {
		t.Errorf("memory is %s (ok %v, error %v), was %s", asJSON(t, m), ok, err, asJSON(t, last.Memory))
	}
	checkDecisions(t, j.Reader, "chat-001", made, monday, last.At.Add(1))
	checkDecisions(t, j.Reader, "chat-002", made[10:50], made[10].At, made[50].At)
	checkDecisions(t, j.Reader, "chat-000", made, time.Time{}, time.Time{})
	names, err := j.Models(ctx)
	if err != nil || strings.Join(names, " ") != "chat-000 chat-001 chat-002" {
		t.Errorf("models are %v, error %v", names, err)
	}
	integrity(t, j.Reader)
}

func checkDecisions(t *testing.T, r *Reader, model string, want []planner.Decision, from, to time.Time) {
	t.Helper()
	n := 0
	for v, err := range r.Decisions(context.Background(), model, from, to) {
		if err != nil {
			t.Fatal(err)
		}
		if n >= len(want) {
			t.Fatalf("%s: more than the %d decisions made", model, len(want))
		}
		exp, _ := want[n].View(model)
		exp.Version = v.Version
		if asJSON(t, v) != asJSON(t, exp) {
			t.Fatalf("%s: decision %d is\n%s, was\n%s", model, n, asJSON(t, v), asJSON(t, exp))
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%s: %d decisions, %d were made", model, n, len(want))
	}
}

func TestDecisionAt(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	f := newFleet(2, 3, 12)
	var made []planner.Decision
	for range 4 {
		s, p, d := f.next(t)
		mustAppend(t, j, s, p, d)
		made = append(made, d)
	}
	for _, test := range []struct {
		name string
		at   time.Time
		want int // index into made, -1 for none
	}{
		{"exactly at a decision", made[2].At, 2},
		{"between two", made[1].At.Add(tick / 2), 1},
		{"after the last", made[3].At.Add(time.Hour), 3},
		{"before the first", made[0].At.Add(-1), -1},
	} {
		v, ok, err := j.DecisionAt(ctx, "chat-001", test.at)
		if err != nil {
			t.Fatal(err)
		}
		if ok != (test.want >= 0) || ok && !v.At.Equal(made[test.want].At) {
			t.Errorf("%s: got the plan of %s (ok %v), want index %d", test.name, v.At, ok, test.want)
		}
	}
	if _, ok, err := j.DecisionAt(ctx, "nobody", monday.Add(time.Hour)); ok || err != nil {
		t.Errorf("a model never seen: ok %v, error %v", ok, err)
	}
	if _, _, err := j.DecisionAt(ctx, "chat-001", time.Time{}); err == nil {
		t.Error("the zero time is accepted")
	}
}

// A model that appears, disappears and comes back within one group is there exactly when it was.
func TestModelsComeAndGo(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	plan := func(i int, names ...string) planner.Decision {
		d := planner.Decision{At: monday.Add(time.Duration(i) * tick), Models: []planner.ModelDecision{}}
		for _, n := range names {
			d.Models = append(d.Models, planner.ModelDecision{Name: n, Serving: i, Authority: planner.Observe,
				Steps: []planner.Step{{Stage: planner.StageSize, Why: "because"}}})
		}
		return d
	}
	made := []planner.Decision{plan(0), plan(1, "a"), plan(2, "a", "b"), plan(3, "b"), plan(4, "a", "b", "c"), plan(5)}
	for _, d := range made {
		mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
		if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
			t.Fatalf("last is %s, was %s", asJSON(t, got), asJSON(t, d))
		}
	}
	for _, test := range []struct {
		model string
		at    []int
	}{{"a", []int{1, 2, 4}}, {"b", []int{2, 3, 4}}, {"c", []int{4}}} {
		var want []planner.Decision
		for _, i := range test.at {
			want = append(want, made[i])
		}
		checkDecisions(t, j.Reader, test.model, want, time.Time{}, time.Time{})
	}
	if _, ok, err := j.DecisionAt(ctx, "a", made[0].At); err != nil || ok {
		t.Errorf("a before it appeared: ok %v, error %v", ok, err)
	}
	if v, ok, err := j.DecisionAt(ctx, "a", made[5].At); err != nil || !ok || !v.At.Equal(made[4].At) {
		t.Errorf("a at the end: of %s, ok %v, error %v; its newest plan is of %s", v.At, ok, err, made[4].At)
	}
}

// A fleet of more than one block, whose blocks shift when a model is inserted, reads back model by model.
func TestBlocks(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	want := map[string][]planner.Decision{}
	for n, count := range []int{0, 1, blockModels, blockModels + 1, 3*blockModels + 5, 2 * blockModels, 1} {
		d := planner.Decision{At: monday.Add(time.Duration(n) * tick), Models: []planner.ModelDecision{}}
		for i := range count {
			name := fmt.Sprintf("m%03d", i)
			if n%2 == 0 {
				name = fmt.Sprintf("m%03d", 2*i) // others in between
			}
			d.Models = append(d.Models, planner.ModelDecision{Name: name, Serving: n + i})
		}
		mustAppend(t, j, planner.State{Now: d.At}, planner.Policy{}, d)
		for _, m := range d.Models {
			want[m.Name] = append(want[m.Name], d)
		}
		if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
			t.Fatalf("%d models come back as\n%s, were\n%s", count, asJSON(t, got), asJSON(t, d))
		}
	}
	for name, made := range want {
		checkDecisions(t, j.Reader, name, made, time.Time{}, time.Time{})
		at := made[len(made)-1].At
		if v, ok, err := j.DecisionAt(context.Background(), name, at.Add(time.Hour)); err != nil || !ok || !v.At.Equal(at) {
			t.Errorf("%s: newest plan is of %s, ok %v, error %v, must be of %s", name, v.At, ok, err, at)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	models := func(names ...string) (out []planner.ModelDecision) {
		for _, n := range names {
			out = append(out, planner.ModelDecision{Name: n})
		}
		return out
	}
	for _, test := range []struct {
		name string
		s    planner.State
		d    planner.Decision
		want string
	}{
		{"no time", planner.State{}, planner.Decision{}, "years 1970 to 2261"},
		{"another moment", planner.State{Now: monday}, planner.Decision{At: monday.Add(1)}, "of one moment"},
		{"unsorted", planner.State{Now: monday}, planner.Decision{At: monday, Models: models("b", "a")}, "must ascend"},
		{"twice", planner.State{Now: monday}, planner.Decision{At: monday, Models: models("a", "a")}, "must ascend"},
	} {
		err := j.Append(context.Background(), test.s, planner.Policy{}, test.d)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, must say %q", test.name, err, test.want)
		}
	}
	if _, ok, err := j.Last(context.Background()); ok || err != nil {
		t.Errorf("something was recorded: ok %v, error %v", ok, err)
	}
}

// A State that cannot be encoded costs its own record, not the Decision's; the next one is stored although no checkpoint
// is due and no target changed.
func TestStateThatDoesNotEncode(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	f := newFleet(2, 3, 12)
	s, p, d := f.next(t)
	good := s.Models[0].Forecast.Prompt.Paths[0][0]
	s.Models[0].Forecast.Prompt.Paths[0][0] = math.NaN()
	err := j.Append(ctx, s, p, d)
	if err == nil || !strings.Contains(err.Error(), "its decision is recorded") || !strings.Contains(err.Error(), "chat-000") {
		t.Fatalf("error is %v, must name the model and say that the decision is recorded", err)
	}
	if got := mustLast(t, j.Reader); asJSON(t, got) != asJSON(t, d) {
		t.Errorf("the decision was not recorded")
	}
	s.Models[0].Forecast.Prompt.Paths[0][0] = good
	s.Now, d.At = s.Now.Add(tick), d.At.Add(tick)
	mustAppend(t, j, s, p, d)
	if infos, err := j.States(ctx, time.Time{}, time.Time{}); err != nil || len(infos) != 1 || !infos[0].At.Equal(s.Now) {
		t.Errorf("states are %v, error %v; the second must be there", infos, err)
	}
}

// States are stored at the first Decision, at checkpoints, on every change of a target or an answer, and when the clock
// goes back; not otherwise.
func TestWhenStatesAreStored(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{CheckpointEvery: time.Minute})
	decision := func(replicas, answer, nodes, gpus int) planner.Decision {
		return planner.Decision{
			Models: []planner.ModelDecision{{Name: "a", Replicas: &replicas, Answer: &answer}},
			Pools:  []planner.PoolTarget{{Pool: "h200", Nodes: nodes}},
			Quotas: []planner.QuotaTarget{{Queue: "q", Flavor: "f", Nominal: gpus}},
		}
	}
	unknown := decision(0, 0, 2, 8)
	unknown.Models[0].Replicas, unknown.Models[0].Answer = nil, nil
	explained := decision(3, 3, 2, 9)
	explained.Models[0].Steps = []planner.Step{{Stage: planner.StageWarm, Why: "another sentence"}}
	at := monday
	for i, test := range []struct {
		after time.Duration
		d     planner.Decision
		want  bool
	}{
		{0, decision(3, 3, 2, 8), true},     // the first
		{tick, decision(3, 3, 2, 8), false}, // the same again
		{tick, decision(4, 3, 2, 8), true},  // a plan
		{tick, decision(4, 4, 2, 8), true},  // an answer
		{tick, decision(4, 4, 3, 8), true},  // a pool
		{tick, decision(4, 4, 3, 9), true},  // a quota
		{tick, unknown, true},               // no number any more
		{tick, decision(0, 0, 2, 8), true},  // zero is not unknown
		{tick, decision(3, 3, 2, 9), true},
		{tick, explained, false}, // Steps are in the Decision, which is stored anyway
		{3 * tick, explained, true},
		{-time.Hour, explained, true}, // the clock was set back
		{tick, explained, false},
	} {
		at = at.Add(test.after)
		before, err := number(ctx, j.Reader.db, "SELECT count(*) FROM states")
		if err != nil {
			t.Fatal(err)
		}
		test.d.At = at
		mustAppend(t, j, planner.State{Now: at, Interval: tick}, planner.Policy{}, test.d)
		after, err := number(ctx, j.Reader.db, "SELECT count(*) FROM states")
		if err != nil {
			t.Fatal(err)
		}
		if (after > before) != test.want {
			t.Errorf("decision %d: state stored %v, want %v", i, after > before, test.want)
		}
	}
}

func TestStarts(t *testing.T) {
	ctx := context.Background()
	j, _ := mustOpen(t, t.TempDir(), Options{})
	sample := func(id string, outcome coldstart.Outcome, total time.Duration) coldstart.Sample {
		return coldstart.Sample{ID: id, Key: coldstart.Key{Model: "chat", Path: coldstart.WarmNode}, Started: monday,
			Total: total, Outcome: outcome, Phases: map[coldstart.Phase]time.Duration{coldstart.ImagePull: time.Second}}
	}
	for _, test := range []struct {
		name  string
		given []coldstart.Sample
		want  coldstart.Sample
	}{
		{"a later look replaces", []coldstart.Sample{sample("a", coldstart.Pending, time.Minute),
			sample("a", coldstart.Pending, 2*time.Minute)}, sample("a", coldstart.Pending, 2*time.Minute)},
		{"an earlier look does not", []coldstart.Sample{sample("a", coldstart.Pending, time.Minute)},
			sample("a", coldstart.Pending, 2*time.Minute)},
		{"the end replaces", []coldstart.Sample{sample("a", coldstart.Failed, time.Minute)}, sample("a", coldstart.Failed, time.Minute)},
		{"served replaces failed", []coldstart.Sample{sample("a", coldstart.Served, 3*time.Minute)},
			sample("a", coldstart.Served, 3*time.Minute)},
		{"nothing less replaces served", []coldstart.Sample{sample("a", coldstart.Failed, 4*time.Minute),
			sample("a", coldstart.Pending, 5*time.Minute)}, sample("a", coldstart.Served, 3*time.Minute)},
	} {
		if err := j.AddStarts(ctx, test.given); err != nil {
			t.Fatal(err)
		}
		got, err := j.Starts(ctx)
		if err != nil || len(got) != 1 || asJSON(t, got[0]) != asJSON(t, test.want) {
			t.Errorf("%s: starts are %s (error %v), want %s", test.name, asJSON(t, got), err, asJSON(t, test.want))
		}
	}
	bad := []coldstart.Sample{sample("", coldstart.Served, time.Minute), sample("b", coldstart.Served, time.Minute),
		sample("c", "lost", time.Minute)}
	err := j.AddStarts(ctx, bad)
	if err == nil || !strings.Contains(err.Error(), `""`) || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("error is %v, must name both refused starts", err)
	}
	if got, err := j.Starts(ctx); err != nil || len(got) != 2 {
		t.Errorf("starts are %s (error %v), want a and b", asJSON(t, got), err)
	}
}

func TestClosed(t *testing.T) {
	j, _ := mustOpen(t, t.TempDir(), Options{})
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(context.Background(), planner.State{Now: monday}, planner.Policy{}, planner.Decision{At: monday}); !errors.Is(err, ErrClosed) {
		t.Errorf("append: error is %v", err)
	}
	if err := j.AddStarts(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("starts: error is %v", err)
	}
}

func TestOptions(t *testing.T) {
	bad := Options{CheckpointEvery: time.Millisecond, KeepDecisions: -1, KeepStates: time.Second, SizeMax: 5}
	_, _, err := Open(t.TempDir(), bad, monday, nil)
	for _, key := range []string{"checkpoint_every", "keep_decisions", "keep_states", "size_max"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error is %v, must name %s", err, key)
		}
	}
	if err == nil || strings.Contains(err.Error(), "keep_starts") {
		t.Errorf("error is %v, must not name keep_starts, which is 0", err)
	}
	if (Options{}).withDefaults() != DefaultOptions() {
		t.Error("zero options are not the defaults")
	}
}
