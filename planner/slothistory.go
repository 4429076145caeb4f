package planner

import (
	"fmt"
	"slices"

	"forewarm/coldstart"
)

// weightsOn names, sorted, the nodes that hold image and weights of a model as far as its starts tell; samples are the
// model's, oldest first. The nodes of a State are those of its inventory only.
//
// A start that found the weights (path cached_weights) shows that they are on its node. One that served and did not find
// them leaves them there, if what starts leave behind stays: that is what the newest repeat tells, the newest start on a
// node where the model had served before. Weights fetched into a volume that goes with the pod are missed by every
// repeat, weights on the node's disk by none. Before there was a repeat that is unknown, and so is every node. A start
// on a new node (cold_node) forgets what a node of that name held before.
//
// Missing data: a start without a node (several pods, or nobody told) teaches nothing; pending and failed ones do not
// either. A node that is not named here is unknown, which counts as without the weights: the slower path.
func weightsOn(samples []coldstart.Sample) []string {
	found := map[string]bool{} // by node where the model served: whether its newest start there found the weights
	stay := false
	for _, s := range samples {
		if s.Node == "" || s.Outcome != coldstart.Served || s.Key.Path == coldstart.PathUnknown {
			continue
		}
		hit := s.Key.Path == coldstart.CachedWeights
		if _, repeat := found[s.Node]; hit || repeat && s.Key.Path != coldstart.ColdNode {
			stay = hit
		}
		found[s.Node] = hit
	}
	var out []string
	for node, hit := range found {
		if hit || stay {
			out = append(out, node)
		}
	}
	slices.Sort(out)
	return out
}

// present keeps the nodes that the inventory has; an unknown inventory has none.
func present(nodes []string, inv *Inventory) []string {
	if inv == nil || len(nodes) == 0 {
		return nil
	}
	var out []string
	for i := range inv.Pools {
		for k := range inv.Pools[i].Nodes {
			if name := inv.Pools[i].Nodes[k].Name; contains(nodes, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// contains is whether sorted has x.
func contains(sorted []string, x string) bool {
	_, ok := slices.BinarySearch(sorted, x)
	return ok
}

// slotPath refines the path of the next replica by what earlier starts left on the nodes, and says why in words that go
// on from slotText.
//
// Of several nodes with room the scheduler picks one by rules that are not read here, so the weights count as there only
// when all of them hold them. Without room, a replica gets a node by preemption before one is launched, when the
// scheduler finds pods of lower priority on it.
func (r *room) slotPath(m *ModelState, path coldstart.Path) (coldstart.Path, string) {
	if m.Shape.Pods != 1 {
		return path, "" // what a group of nodes holds is not told by starts
	}
	if path == coldstart.ColdNode {
		if node, ok := r.reclaimable(m); ok {
			return coldstart.ReclaimedNode, fmt.Sprintf(", unless pods of lower priority give way, as those on node %s do", node)
		}
		return path, ""
	}
	if len(m.WeightsOn) == 0 {
		return path, ""
	}
	fits, held := 0, 0
	for i := range r.pools {
		if !r.pools[i].pool.holds(m.Shape) {
			continue
		}
		for k := range r.pools[i].ready.nodes {
			n := &r.pools[i].ready.nodes[k]
			if n.slots(ask{m.Shape, m.Name}) == 0 {
				continue
			}
			fits++
			if contains(m.WeightsOn, n.name) {
				held++
			}
		}
	}
	if held == fits && fits > 0 {
		return coldstart.CachedWeights, fmt.Sprintf("; image and weights are on %s", allOf(fits))
	}
	return path, fmt.Sprintf("; image and weights are on %d of %d such nodes, so the slower path counts", held, fits)
}

func allOf(n int) string {
	if n == 1 {
		return "the one such node"
	}
	return fmt.Sprintf("all %d such nodes", n)
}

// reclaimable is the first usable node on which pods of lower priority than the model's own hold enough for a replica,
// together with what is free; ok is false when there is none or priorities are unknown. The model's priority is the
// lowest of its pods that run, since a replica to come might have any of them. Pods that may not be moved do not count,
// although the scheduler preempts past a disruption budget when nothing else helps.
func (r *room) reclaimable(m *ModelState) (node string, ok bool) {
	own := r.priority(m.Name)
	if own == nil {
		return "", false
	}
	for i := range r.pools {
		if !r.pools[i].pool.holds(m.Shape) {
			continue
		}
		for _, n := range r.pools[i].pool.Nodes {
			gpus := n.FreeGPUs
			for _, t := range n.Tenants {
				if t.Model == "" && t.Pinned == "" && t.Priority != nil && *t.Priority < *own {
					gpus += t.GPUs
				}
			}
			mine := len(n.OnlyFor) == 0 || slices.Contains(n.OnlyFor, m.Name)
			if n.Usable && mine && gpus > n.FreeGPUs && gpus >= m.Shape.GPUs && (!ok || n.Name < node) {
				node, ok = n.Name, true
			}
		}
	}
	return node, ok
}

// priority is the lowest known priority of the model's pods; nil when none is known.
func (r *room) priority(model string) *int {
	var lowest *int
	for i := range r.pools {
		for _, n := range r.pools[i].pool.Nodes {
			for _, t := range n.Tenants {
				if t.Model == model && t.Priority != nil && (lowest == nil || *t.Priority < *lowest) {
					lowest = t.Priority
				}
			}
		}
	}
	return lowest
}
