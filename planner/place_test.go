package planner

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTakeAgainstBruteForce: as many single-pod replicas fit as an exhaustive search finds, and no node is overcommitted.
func TestTakeAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.IntRange(0, 8), 0, 4).Draw(t, "free")
		s := Shape{GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), Pods: 1}
		want := rapid.IntRange(0, 6).Draw(t, "want")
		r := newRoom(inventoryOf(free), growthRules{now: monday})
		got := r.put(ask{Shape: s}, want, false).ready
		if best := packAll(slices.Clone(free), s.GPUs, want); got != best {
			t.Fatalf("%d of %d replicas of %v fit into %v, want %d", got, want, s, free, best)
		}
		left, total := 0, 0
		for _, n := range r.pools[0].ready.nodes {
			if n.free < 0 {
				t.Fatalf("a node has %d GPUs free", n.free)
			}
			left += n.free
		}
		for _, f := range free {
			total += f
		}
		if counted, _ := r.freeGPUs(ask{Shape: s}); left != total-got*s.GPUs || counted != left {
			t.Fatalf("%d GPUs are left (counted %d) of %d after %d replicas of %v", left, counted, total, got, s)
		}
	})
}

// packAll tries every node for every replica.
func packAll(free []int, gpus, want int) int {
	if want == 0 {
		return 0
	}
	best := 0
	for i := range free {
		if free[i] >= gpus {
			free[i] -= gpus
			best = max(best, 1+packAll(free, gpus, want-1))
			free[i] += gpus
		}
	}
	return best
}

func inventoryOf(free []int) *Inventory {
	p := Pool{Name: "h200", GPUsPerNode: 8}
	for i, f := range free {
		p.Nodes = append(p.Nodes, Node{Name: string(rune('a' + i)), GPUs: 8, FreeGPUs: f, Usable: true})
	}
	return &Inventory{Pools: []Pool{p}}
}

// TestTakeSeveralPods: a replica of several pods fits exactly when one domain of its level has the pod slots; its pods
// then lie in one domain, take whole pods' GPUs, and no node is overcommitted.
func TestTakeSeveralPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := inventoryOf(rapid.SliceOfN(rapid.IntRange(0, 8), 0, 6).Draw(t, "free"))
		nodes := inv.Pools[0].Nodes
		for i := range nodes {
			nodes[i].Domain = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "domain")
		}
		s := Shape{GPUs: rapid.IntRange(1, 8).Draw(t, "gpus"), Pods: rapid.IntRange(2, 4).Draw(t, "pods"),
			Topology: rapid.SampledFrom([]string{"", topologyNode, "nvlink-domain"}).Draw(t, "topology")}
		slots := map[string]int{}
		for _, n := range nodes {
			slots[domainOf(s, n)] += n.FreeGPUs / s.GPUs
		}
		possible := false
		for _, n := range slots {
			possible = possible || n >= s.Pods
		}
		r := newRoom(inv, growthRules{now: monday})
		if fits := r.put(ask{Shape: s}, 1, false).ready == 1; fits != possible {
			t.Fatalf("fits %v, want %v: %+v into %+v", fits, possible, s, nodes)
		}
		taken, domains := 0, map[string]bool{}
		for _, n := range nodes {
			at := slices.IndexFunc(r.pools[0].ready.nodes, func(x nodeRoom) bool { return x.name == n.Name })
			if at < 0 || r.pools[0].ready.nodes[at].free == n.FreeGPUs {
				continue
			}
			used := n.FreeGPUs - r.pools[0].ready.nodes[at].free
			if r.pools[0].ready.nodes[at].free < 0 || used%s.GPUs != 0 {
				t.Fatalf("%d GPUs taken from %+v by %+v", used, n, s)
			}
			taken += used
			domains[domainOf(s, n)] = true
		}
		if possible && (taken != s.GPUs*s.Pods || len(domains) != 1) {
			t.Fatalf("%d GPUs in domains %v taken by %+v", taken, domains, s)
		}
	})
}

func domainOf(s Shape, n Node) string {
	switch {
	case s.Topology == "":
		return ""
	case s.Topology == topologyNode || n.Domain == "":
		return "node " + n.Name
	}
	return n.Domain
}

// TestLaunch: new nodes are counted once and shared by the replicas that fit on them, the pool's limit and the planner's
// own bound hold, and an absurd order returns at once.
func TestLaunch(t *testing.T) {
	three := 3
	for _, c := range []struct {
		name          string
		pool          Pool
		shape         Shape
		want          int
		placed, nodes int
	}{
		{"two on one node", Pool{GPUsPerNode: 8}, Shape{GPUs: 4, Pods: 1}, 3, 3, 2},
		{"one replica over two nodes", Pool{GPUsPerNode: 8}, Shape{GPUs: 8, Pods: 2, Topology: "nvlink-domain"}, 2, 2, 4},
		{"limit", Pool{GPUsPerNode: 8, Launchable: &three}, Shape{GPUs: 8, Pods: 2}, 2, 1, 2},
		{"node too small", Pool{GPUsPerNode: 4}, Shape{GPUs: 8, Pods: 1}, 1, 0, 0},
		{"pods must share a node that is too small", Pool{GPUsPerNode: 8}, Shape{GPUs: 8, Pods: 2, Topology: topologyNode}, 1, 0, 0},
		{"no stock", Pool{GPUsPerNode: 8, NoStock: true}, Shape{GPUs: 8, Pods: 1}, 1, 0, 0},
		{"other product", Pool{GPUsPerNode: 8, Product: "L40S"}, Shape{GPUs: 8, Pods: 1, Product: "H200"}, 1, 0, 0},
		{"absurd", Pool{GPUsPerNode: 8}, Shape{GPUs: 5, Pods: 1}, replicasLimit, launchMax, launchMax},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(&Inventory{Pools: []Pool{c.pool}}, growthRules{now: monday})
			if placed := r.put(ask{c.shape, "chat"}, c.want, false).launched; placed != c.placed || r.pools[0].added != c.nodes {
				t.Errorf("%d placed on %d nodes, want %d on %d", placed, r.pools[0].added, c.placed, c.nodes)
			}
		})
	}
}
