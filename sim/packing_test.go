package sim

import "testing"

// Six single-GPU replicas beside a four-GPU one on the first of two nodes of eight: most-allocated fills that node first,
// least-allocated the other one until nothing of four GPUs is left on either, and FGD leaves a hole of four on the second.
func TestPackings(t *testing.T) {
	for packing, want := range map[string][2]int{
		"": {4, 2}, mostAllocated: {4, 2}, leastAllocated: {1, 5}, leastFragmenting: {2, 4},
	} {
		w := DemoWorld()
		w.Packing = packing
		w.Models[0].Replicas, w.Models[1].Replicas = 1, 6 // chat-70b takes four GPUs, code-8b one
		w.Pools[0].Nodes = []Node{{Name: "a", GPUs: 8}, {Name: "b", GPUs: 8}}
		c := mustCluster(t, w, 1)
		used := map[string]int{}
		for _, r := range c.model("code-8b").replicas {
			used[r.node.name]++
		}
		if got := [2]int{used["a"], used["b"]}; got != want {
			t.Errorf("%q: six replicas are %v on two nodes, want %v", packing, got, want)
		}
	}
}

// With holes of five and of three, a single-GPU replica breaks the use of neither on the first (a four-GPU replica still
// fits) and takes nothing of value from the second: FGD sees that four of five stay usable, and that three never were.
func TestFragmentationIsWhatNobodyCanUse(t *testing.T) {
	w := DemoWorld()
	w.Models[0].Replicas, w.Models[1].Replicas = 0, 0
	w.Pools[0].Nodes = []Node{{Name: "a", GPUs: 8, Others: 4}, {Name: "b", GPUs: 8, Others: 5}}
	w.Models[0].ReplicasMin, w.Models[1].ReplicasMin = 1, 1
	c := mustCluster(t, w, 1)
	for _, m := range c.models { // nobody is seated
		for len(m.replicas) > 0 {
			m.desired = 0
			c.leave(m.replicas[0])
		}
	}
	if got := c.fragmentation(c.node("a"), 1); got != 3 {
		t.Errorf("one of four taken: %d GPUs are lost to the four-GPU model, want the other 3", got)
	}
	if got := c.fragmentation(c.node("b"), 1); got != -1 {
		t.Errorf("one of three taken: %d, want one fewer that nobody could use", got)
	}
}
