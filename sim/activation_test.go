package sim

import (
	"testing"
	"time"
)

// What KEDA's loop does at each of its cases, as its source reads.
func TestActivationPolls(t *testing.T) {
	on, off, broken := metric{value: 1, target: 5}, metric{target: 5}, metric{target: 5, err: true}
	cooldown := int64(5 * time.Minute)
	for _, test := range []struct {
		name    string
		idle    int64 // since a trigger was last active
		current int
		metrics []metric
		want    int
	}{
		{"any active trigger wakes", cooldown * 9, 0, []metric{off, on}, 1},
		{"also beside one in error", cooldown * 9, 0, []metric{broken, on}, 1},
		{"nothing active stays at zero", cooldown * 9, 0, []metric{off}, 0},
		{"an error alone does not wake", cooldown * 9, 0, []metric{broken}, 0},
		{"active leaves the count to the HPA", cooldown * 9, 7, []metric{on}, 7},
		{"the cooldown is waited out", cooldown, 7, []metric{off}, 7},
		{"and then all go", cooldown + 1, 7, []metric{off, off}, 0},
		{"but not while one is in error", cooldown * 9, 7, []metric{off, broken}, 7},
	} {
		a := activation{cooldown: time.Duration(cooldown), active: 0}
		if got := a.poll(test.idle, test.current, test.metrics); got != test.want {
			t.Errorf("%s: from %d to %d, want %d", test.name, test.current, got, test.want)
		}
	}
}

// A model goes to zero a cooldown after its triggers fell silent, stays there whatever the HPA proposes, and comes back within
// one polling of a trigger's return: to one replica first, and to the rest by the HPA.
func TestModelGoesToZeroAndBack(t *testing.T) {
	w := DemoWorld()
	w.Models[0].Replicas, w.Models[0].ReplicasMin = 2, 0
	c, err := NewCluster(w, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := c.model(w.Models[0].Name)
	to := w.Start
	advance := func(d time.Duration) {
		t.Helper()
		to = to.Add(d)
		if err := c.Advance(to); err != nil {
			t.Fatal(err)
		}
	}
	m.triggers = []metric{{target: 1}}
	if advance(5 * time.Minute); m.desired < 1 {
		t.Fatalf("%d replicas within the cooldown", m.desired)
	}
	if advance(31 * time.Second); m.desired != 0 {
		t.Fatalf("%d replicas after the cooldown", m.desired)
	}
	if advance(time.Hour); m.desired != 0 || m.supply().Ready != 0 {
		t.Fatalf("%d replicas wanted and %d ready an hour later", m.desired, m.supply().Ready)
	}
	before := m.created
	m.triggers = []metric{{value: 3, target: 1}}
	if advance(31 * time.Second); m.desired < 1 {
		t.Fatal("no replica after a polling interval")
	}
	if advance(time.Minute); m.desired != 3 || m.created != before+3 {
		t.Fatalf("%d replicas wanted and %d made, want 3", m.desired, m.created-before)
	}
	m.triggers = []metric{{target: 1, err: true}}
	if advance(time.Hour); m.desired != 3 {
		t.Errorf("%d replicas under an error, want 3", m.desired)
	}
}
