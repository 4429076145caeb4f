package kube

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// world is everything that is known about the cluster at one moment. The kept objects are never changed, so that a world
// is a cheap copy of lists, sorted by name. Its methods are pure.
type world struct {
	pods          []*pod
	nodes         []*node
	workloads     map[Workload]*workload
	scaledObjects []*scaledObject
	hpas          map[object]*hpa
	nodePools     map[string]*nodePool
	nodeClaims    []*nodeClaim
	clusterQueues []*clusterQueue
	localQueues   map[object]*localQueue
	topologies    []*topology
	slices        []*resourceSlice
	claims        map[object]*resourceClaim

	byNode   map[string]*node
	children map[Workload][]*workload // by the owner that controls them, sorted by name
	// unknown says, by kind, why objects that are there are not known. A kind that is not installed has none.
	unknown map[string]string
}

// world assembles what the feeds hold at now.
func (o *Observer) world(now time.Time) *world {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &world{unknown: map[string]string{}}
	var workloads []*workload
	var autoscalers []*hpa
	var pools []*nodePool
	var queues []*localQueue
	var claims []*resourceClaim
	for _, f := range o.feeds {
		if why := f.unknown(now, o.cfg.StaleAfter); why != "" {
			w.unknown[f.kind.id()] = why
		}
		w.pods, w.nodes = listed(f, w.pods), listed(f, w.nodes)
		workloads, autoscalers = listed(f, workloads), listed(f, autoscalers)
		w.scaledObjects, w.nodeClaims = listed(f, w.scaledObjects), listed(f, w.nodeClaims)
		w.clusterQueues, w.topologies = listed(f, w.clusterQueues), listed(f, w.topologies)
		w.slices, claims = listed(f, w.slices), listed(f, claims)
		pools, queues = listed(f, pools), listed(f, queues)
	}
	for _, k := range kinds {
		if _, asked := o.absent[k.id()]; !asked {
			w.unknown[k.id()] = k.id() + " have not been looked for"
			if o.problem != nil {
				w.unknown[k.id()] = strings.ReplaceAll(o.problem.Error(), "\n", "; ")
			}
		} else if o.absent[k.id()] && k.without == "" {
			w.unknown[k.id()] = k.id() + " are not served by the API server"
		}
	}
	w.index(workloads, autoscalers, pools, queues, claims)
	return w
}

// index sorts the lists and makes the maps.
func (w *world) index(workloads []*workload, autoscalers []*hpa, pools []*nodePool, queues []*localQueue, claims []*resourceClaim) {
	slices.SortFunc(w.pods, func(a, b *pod) int { return a.compare(b.object) })
	slices.SortFunc(w.nodes, func(a, b *node) int { return a.compare(b.object) })
	slices.SortFunc(w.scaledObjects, func(a, b *scaledObject) int { return a.compare(b.object) })
	slices.SortFunc(w.clusterQueues, func(a, b *clusterQueue) int { return a.compare(b.object) })
	slices.SortFunc(w.topologies, func(a, b *topology) int { return a.compare(b.object) })
	slices.SortFunc(w.slices, func(a, b *resourceSlice) int { return a.compare(b.object) })
	w.workloads = make(map[Workload]*workload, len(workloads))
	w.children = map[Workload][]*workload{}
	slices.SortFunc(workloads, func(a, b *workload) int { return cmp.Or(a.compare(b.object), cmp.Compare(a.kind, b.kind)) })
	for _, x := range workloads {
		w.workloads[x.key()] = x
		if x.owner.kind != "" {
			parent := Workload{x.namespace, x.owner.kind, x.owner.name}
			w.children[parent] = append(w.children[parent], x)
		}
	}
	w.hpas, w.localQueues, w.claims = map[object]*hpa{}, map[object]*localQueue{}, map[object]*resourceClaim{}
	for _, x := range autoscalers {
		w.hpas[x.object] = x
	}
	for _, x := range queues {
		w.localQueues[x.object] = x
	}
	for _, x := range claims {
		w.claims[x.object] = x
	}
	w.nodePools, w.byNode = map[string]*nodePool{}, make(map[string]*node, len(w.nodes))
	for _, x := range pools {
		w.nodePools[x.name] = x
	}
	for _, x := range w.nodes {
		w.byNode[x.name] = x
	}
}

func (o object) compare(other object) int {
	return cmp.Or(cmp.Compare(o.namespace, other.namespace), cmp.Compare(o.name, other.name))
}

func (w *workload) key() Workload {
	return Workload{Namespace: w.namespace, Kind: w.kind, Name: w.name}
}

// why joins the reasons for which any of the kinds is unknown; empty when all are known or absent.
func (w *world) why(kinds ...string) string {
	var reasons []string
	for _, k := range kinds {
		if r := w.unknown[k]; r != "" {
			reasons = append(reasons, r)
		}
	}
	return summary(reasons)
}

// nothing says why nothing at all is known; empty when something is.
func (w *world) nothing() string {
	for _, k := range kinds {
		if w.unknown[k.id()] == "" {
			return ""
		}
	}
	return w.why(pods)
}
