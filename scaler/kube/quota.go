package kube

import (
	"maps"
	"slices"

	"forewarm/planner"
)

// quotas are the GPU quotas of all ClusterQueues, with the models whose workloads are admitted through each. They are
// nil when Kueue is not installed, and with a problem when it is and could not be read.
func (w *world) quotas(targets map[string]target) ([]planner.Quota, string) {
	if why := w.why(clusterQueues, localQueues); why != "" {
		return nil, why
	}
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
			quota.Models = models[q.name]
			out = append(out, quota)
		}
	}
	return out, ""
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
