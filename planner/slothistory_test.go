package planner

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"forewarm/coldstart"
)

func (w *scenario) weights(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.state.WeightsOn = nil
	for _, a := range d.CmdArgs[1:] {
		m.state.WeightsOn = append(m.state.WeightsOn, a.Key)
	}
	slices.Sort(m.state.WeightsOn)
	return ""
}

// startOn is a start that served; text is "node path" as in "a warm_node".
func startOn(i int, text string) coldstart.Sample {
	node, path, _ := strings.Cut(text, " ")
	return coldstart.Sample{ID: strconv.Itoa(i), Key: coldstart.Key{Model: "chat", Path: coldstart.Path(path)}, Node: node,
		Started: monday.Add(time.Duration(i) * time.Hour), Total: time.Minute, Outcome: coldstart.Served}
}

// TestWeightsOn: which nodes hold the weights, after starts told oldest first.
func TestWeightsOn(t *testing.T) {
	for _, test := range []struct{ why, starts, want string }{
		{"nothing is known", "", ""},
		{"no repeat yet: whether weights stay is unknown", "a cold_node, b warm_node", ""},
		{"a repeat found them: they stay, on b too", "a cold_node, b warm_node, a cached_weights", "a b"},
		{"and on a node that first served later", "a cached_weights, c cold_node", "a c"},
		{"a repeat missed them: they do not stay", "a cold_node, a warm_node, b cold_node", ""},
		{"the newest repeat counts", "a cold_node, a cached_weights, b warm_node, b reclaimed_node", "a"},
		{"they stay after a repeat that found them again", "a warm_node, a warm_node, b warm_node, b cached_weights", "a b"},
		{"a new node of the same name forgets, and is no repeat", "a cached_weights, b warm_node, b cold_node", "a b"},
		{"a start without a node or a path teaches nothing", " cached_weights, a ", ""},
	} {
		t.Run(test.why, func(t *testing.T) {
			var samples []coldstart.Sample
			for i, s := range strings.Split(test.starts, ", ") {
				samples = append(samples, startOn(i, s))
			}
			if got := strings.Join(weightsOn(samples), " "); got != test.want {
				t.Errorf("weights are on %q, want %q", got, test.want)
			}
			for i := range samples {
				samples[i].Outcome = coldstart.Failed
			}
			if got := weightsOn(samples); got != nil {
				t.Errorf("failed starts leave weights on %q", got)
			}
		})
	}
}

// TestTrackerWeightsOn: the history comes from the ledger, whoever filled it, and names nodes of the inventory only.
func TestTrackerWeightsOn(t *testing.T) {
	tr := newTestTracker(t, "last")
	inventory := func(names ...string) *Inventory {
		p := Pool{Name: "h100", GPUsPerNode: 8}
		for _, n := range names {
			p.Nodes = append(p.Nodes, Node{Name: n, GPUs: 8, FreeGPUs: 8, Usable: true})
		}
		return &Inventory{Pools: []Pool{p}}
	}
	look := func(inv *Inventory, starts ...coldstart.Sample) string {
		obs := Observation{At: monday.Add(24 * time.Hour), Inventory: inv,
			Models: []ModelObservation{{Name: "chat", Starts: starts}}}
		return strings.Join(tr.State(obs, Memory{}).Models[0].WeightsOn, " ")
	}
	if got := look(inventory("b", "a"), startOn(1, "a cold_node"), startOn(2, "b cold_node")); got != "" {
		t.Errorf("before a repeat weights are on %q", got)
	}
	if got := look(inventory("b", "a", "c"), startOn(3, "b cached_weights"), startOn(4, "gone warm_node")); got != "a b" {
		t.Errorf("weights are on %q, want a b", got)
	}
	if got := look(inventory("a")); got != "a" {
		t.Errorf("weights are on %q, want a", got)
	}
	if got := look(nil); got != "" {
		t.Errorf("with unknown hardware weights are on %q", got)
	}
	heir := newTestTracker(t, "last")
	if refused := heir.Inherit(tr, nil); len(refused) > 0 {
		t.Fatal(refused)
	}
	tr = heir
	if got := look(inventory("a", "b")); got != "a b" {
		t.Errorf("after a reload weights are on %q, want a b", got)
	}
}

// TestSlotPathProperty: the path with weights is taken only when every node with room holds them, against a plain count.
func TestSlotPathProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pool{Name: "p", GPUsPerNode: 8}
		m := ModelState{Name: "chat", Shape: Shape{GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), Pods: 1}}
		fits, held := 0, 0
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			n := Node{Name: string(rune('a' + i)), GPUs: 8, FreeGPUs: rapid.IntRange(0, 8).Draw(t, "free"),
				Usable: rapid.Bool().Draw(t, "usable")}
			holds := rapid.Bool().Draw(t, "holds")
			if holds {
				m.WeightsOn = append(m.WeightsOn, n.Name)
			}
			if n.Usable && n.FreeGPUs >= m.Shape.GPUs {
				fits++
				if holds {
					held++
				}
			}
			p.Nodes = append(p.Nodes, n)
		}
		r := newRoom(&Inventory{Pools: []Pool{p}}, growthRules{now: monday})
		path, _, _ := r.path(ask{m.Shape, m.Name})
		got, _ := r.slotPath(&m, path)
		want := coldstart.ColdNode
		switch {
		case fits > 0 && held == fits:
			want = coldstart.CachedWeights
		case fits > 0:
			want = coldstart.WarmNode
		}
		if got != want {
			t.Fatalf("%d of %d nodes with room hold the weights: path %q, want %q", held, fits, got, want)
		}
	})
}
