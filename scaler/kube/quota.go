package kube

import (
	"maps"
	"slices"

	"forewarm/planner"
)

// quotas are the GPU quotas of all ClusterQueues, with the models whose workloads are admitted through each. They are
// nil when Kueue is not installed, and with a problem when it is and could not be read.
func (w *world) quotas(targets map[string]target, inv *planner.Inventory) ([]planner.Quota, string) {
	if why := w.why(clusterQueues, localQueues, quotaRequests); why != "" {
		return nil, why
	}
	waiting, pools := w.waitingIn(), w.poolsOf(inv)
	models := map[string][]string{} // by ClusterQueue
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		for _, wl := range targets[name].workloads {
			queue := w.clusterQueueOf(wl)
			if queue != "" && !slices.Contains(models[queue], name) {
				models[queue] = append(models[queue], name)
			}
		}
	}
	var out []planner.Quota
	for _, q := range w.clusterQueues {
		for _, quota := range q.quotas {
			quota.Models, quota.Waiting, quota.Pools = models[q.name], waiting[q.name][counted(&quota)], pools(quota.Flavor)
			out = append(out, quota)
		}
	}
	return out, w.why(flavors)
}

// sharedQuotas are the Cohorts that are objects. They are nil when Kueue is not installed, and with a problem when they
// could not be read.
func (w *world) sharedQuotas(inv *planner.Inventory) ([]planner.Cohort, string) {
	if why := w.why(cohorts); why != "" {
		return nil, why
	}
	pools := w.poolsOf(inv)
	var out []planner.Cohort
	for _, c := range w.cohorts {
		shared := slices.Clone(c.quotas)
		for i := range shared {
			shared[i].Pools = pools(shared[i].Flavor)
		}
		out = append(out, planner.Cohort{Name: c.name, Parent: c.parent, Shared: shared})
	}
	return out, ""
}

// waitingIn adds up what workloads without quota ask for, by ClusterQueue and resource.
func (w *world) waitingIn() map[string]amounts {
	out := map[string]amounts{}
	for _, r := range w.waiting {
		q := w.localQueues[object{r.namespace, r.queue}]
		if q == nil || len(r.waiting) == 0 {
			continue
		}
		if out[q.clusterQueue] == nil {
			out[q.clusterQueue] = amounts{}
		}
		for res, n := range r.waiting {
			out[q.clusterQueue][res] += n
		}
	}
	return out
}

// poolsOf finds the pools with a node that carries every label of a flavor; nil when the flavor, or the inventory, is
// not known. A flavor without labels selects every node.
func (w *world) poolsOf(inv *planner.Inventory) func(flavor string) []string {
	return func(name string) []string {
		f := w.flavors[object{name: name}]
		if f == nil || inv == nil {
			return nil
		}
		out := []string{}
		for i := range inv.Pools {
			p := &inv.Pools[i]
			if slices.ContainsFunc(p.Nodes, func(n planner.Node) bool { return w.byNode[n.Name].selected(f.labels) }) {
				out = append(out, p.Name)
			}
		}
		return out
	}
}

// clusterQueueOf follows a workload's queue label, or that of what it owns, to the ClusterQueue; empty when there is
// none.
func (w *world) clusterQueueOf(wl Workload) string {
	local := ""
	if x := w.workloads[wl]; x != nil {
		local = x.queue
	}
	for _, child := range w.children[wl] {
		if local == "" {
			local = child.queue
		}
	}
	if q := w.localQueues[object{wl.Namespace, local}]; q != nil {
		return q.clusterQueue
	}
	return ""
}
