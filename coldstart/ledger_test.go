package coldstart

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// t0 is a Monday, 09:00; the ledger has no clock, so any time would do.
var t0 = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var chat = Key{Model: "chat", Shape: "4x1/H200", Path: WarmNode}

// start is a sample of key that began i minutes after t0.
func start(id string, key Key, i int, outcome Outcome, secs float64) Sample {
	return Sample{ID: id, Key: key, Started: t0.Add(time.Duration(i) * time.Minute), Outcome: outcome, Total: seconds(secs)[0]}
}

func newLedger(t testing.TB, o Options, samples ...Sample) *Ledger {
	t.Helper()
	l, err := NewLedger(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		if err := l.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// served makes one served start per total, a minute apart.
func served(key Key, totals ...float64) []Sample {
	var out []Sample
	for i, s := range totals {
		out = append(out, start(fmt.Sprintf("%v#%d", key, i), key, i, Served, s))
	}
	return out
}

func TestSampleValidate(t *testing.T) {
	good := start("a", chat, 0, Served, 100)
	good.Phases = map[Phase]time.Duration{ImagePull: 40 * time.Second, WeightLoad: 60 * time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := (Sample{ID: "b", Key: Key{Model: "m"}, Started: t0, Outcome: Pending}).Validate(); err != nil {
		t.Errorf("a pending start of age 0 on an unknown path: %v", err)
	}
	bad := Sample{
		Key: Key{Shape: "\xff", Path: "hot"}, Total: -time.Second, Outcome: "lost",
		Phases: map[Phase]time.Duration{"image-pull": time.Second, WeightLoad: -1},
	}
	err := bad.Validate()
	for _, want := range []string{
		"id is empty", "model is empty", `shape "\xff"`, `path "hot"`, "started 0001", `outcome "lost"`, "total -1s",
		`phase "image-pull"`, "phase weight_load -1ns",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	over := good
	over.Total = 99 * time.Second
	if err := over.Validate(); err == nil || !strings.Contains(err.Error(), "phases sum to 1m40s") {
		t.Errorf("phases longer than the total: %v", err)
	}
	huge := good
	huge.Phases = map[Phase]time.Duration{}
	for _, p := range phases {
		huge.Phases[p] = 1<<63 - 1
	}
	if huge.Validate() == nil {
		t.Error("phases that overflow are accepted")
	}
	if start("z", chat, 0, Served, 0).Validate() == nil {
		t.Error("a start that served in no time is accepted")
	}
}

func TestOptionsValidate(t *testing.T) {
	_, err := NewLedger(Options{SamplesMax: 3, HalfLifeStarts: .5, HalfLife: time.Minute, ServedMin: -1})
	for _, want := range []string{"half-life 0.5 starts", "half-life 1m0s", "served min -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if _, err := NewLedger(Options{SamplesMax: 3}); err == nil {
		t.Error("fewer samples kept than an estimate needs: accepted")
	}
}

func TestAddReplacesByID(t *testing.T) {
	moved := Key{Model: "chat", Shape: "4x1/H200", Path: ColdNode}
	tests := []struct {
		name      string
		old, next Sample
		want      Sample
	}{
		{"pending grows", start("a", chat, 0, Pending, 5), start("a", chat, 0, Pending, 20), start("a", chat, 0, Pending, 20)},
		{"late watch event", start("a", chat, 0, Pending, 20), start("a", chat, 0, Pending, 5), start("a", chat, 0, Pending, 20)},
		{"pending serves", start("a", chat, 0, Pending, 20), start("a", chat, 0, Served, 15), start("a", chat, 0, Served, 15)},
		{"pending fails", start("a", chat, 0, Pending, 20), start("a", chat, 0, Failed, 25), start("a", chat, 0, Failed, 25)},
		{"served stays served", start("a", chat, 0, Served, 20), start("a", chat, 0, Pending, 99), start("a", chat, 0, Served, 20)},
		{"crash after serving", start("a", chat, 0, Served, 20), start("a", chat, 0, Failed, 99), start("a", chat, 0, Served, 20)},
		{"failed stays failed", start("a", chat, 0, Failed, 20), start("a", chat, 0, Pending, 99), start("a", chat, 0, Failed, 20)},
		{"recovered", start("a", chat, 0, Failed, 20), start("a", chat, 0, Served, 99), start("a", chat, 0, Served, 99)},
		{"read again", start("a", chat, 0, Served, 20), start("a", chat, 0, Served, 21), start("a", chat, 0, Served, 21)},
		{"path learned", start("a", chat, 0, Pending, 20), start("a", moved, 0, Pending, 20), start("a", moved, 0, Pending, 20)},
	}
	for _, tc := range tests {
		l := newLedger(t, Options{}, tc.old, tc.next)
		if got := l.Samples(); !reflect.DeepEqual(got, []Sample{tc.want}) {
			t.Errorf("%s: holds %+v, want %+v", tc.name, got, tc.want)
		}
	}
	l := newLedger(t, Options{}, start("a", chat, 0, Served, 20))
	if err := l.Add(Sample{ID: "a"}); err == nil || len(l.Samples()) != 1 {
		t.Errorf("an invalid sample: error %v, %d samples held", err, len(l.Samples()))
	}
}

// TestAddKeepsTheNewest per key, whatever the order of arrival, and forgets the IDs of the others.
func TestAddKeepsTheNewest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	other := Key{Model: "other", Path: WarmNode}
	l := newLedger(t, Options{SamplesMax: 10}, start("x", other, -1000, Served, 9))
	for _, i := range rng.Perm(50) {
		if err := l.Add(start(fmt.Sprint("s", i), chat, i, Served, 100)); err != nil {
			t.Fatal(err)
		}
	}
	got := l.Samples()
	if len(got) != 11 || got[0].ID != "x" || got[1].ID != "s40" || got[10].ID != "s49" {
		t.Errorf("holds %d samples from %s, %s to %s: want x, s40 to s49", len(got), got[0].ID, got[1].ID, got[len(got)-1].ID)
	}
	if len(l.keyOf) != 11 {
		t.Errorf("%d IDs remembered, want 11", len(l.keyOf))
	}
}

// TestAddCopies: neither the caller's map nor its time zone reaches the ledger.
func TestAddCopies(t *testing.T) {
	s := start("a", chat, 0, Served, 100)
	s.Started = s.Started.In(time.FixedZone("UTC+9", 9*3600))
	s.Phases = map[Phase]time.Duration{ImagePull: time.Second}
	l := newLedger(t, Options{}, s)
	s.Phases[ImagePull] = time.Hour
	got := l.Samples()[0]
	if got.Phases[ImagePull] != time.Second || got.Started != t0 {
		t.Errorf("holds %+v", got)
	}
}

func TestSetStatedErrors(t *testing.T) {
	l := newLedger(t, Options{})
	measured := noTail()
	err := l.SetStated(Key{Path: "hot"}, measured)
	for _, want := range []string{`path "hot"`, `basis "measured" with 4 samples`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if err := l.SetStated(Key{}, LeadTime{Basis: Stated}); err == nil || !strings.Contains(err.Error(), "support_ns is empty") {
		t.Errorf("an unknown lead time: %v", err)
	}
	if l.Estimate(chat, t0).Known() {
		t.Error("a refused statement is used")
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	withPhases := start("p", chat, 3, Served, 99.123456789)
	withPhases.Phases = map[Phase]time.Duration{WeightLoad: 1, ImagePull: 93500 * time.Millisecond}
	l := newLedger(t, Options{}, append(served(chat, 100, 120), withPhases, start("q", Key{Model: "b"}, 1, Pending, 600))...)
	for _, k := range []Key{{Path: ColdNode}, {Model: "chat"}} {
		lt, err := StatedDuration(k.Path, 7*time.Minute, DefaultSpread(k.Path))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetStated(k, lt); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	back := newLedger(t, Options{})
	if err := json.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(l, back) {
		t.Errorf("reads back as %+v, want %+v", back, l)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(data) {
		t.Errorf("second writing differs: %v\n%s\n%s", err, data, again)
	}
}

func TestSnapshotErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"torn":          {`{"version":1,"samples":[`, []string{"unexpected end"}},
		"version":       {`{"version":2,"samples":[]}`, []string{"version 2: want 1"}},
		"unknown field": {`{"version":1,"smaples":[]}`, []string{"smaples"}},
		"all problems": {`{"version":1,"samples":[{"id":"a"},{"id":"a"}],"stated":[{"key":{"model":"m"},"lead_time":{}}]}`,
			[]string{"samples[0]", "samples[1]: id \"a\": given before", "stated[0]", "basis"}},
	} {
		l := newLedger(t, Options{}, served(chat, 100)...)
		err := json.Unmarshal([]byte(tc.in), l)
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: missing %q in %v", name, want, err)
			}
		}
		if len(l.Samples()) != 1 {
			t.Errorf("%s: the ledger was changed", name)
		}
	}
}
