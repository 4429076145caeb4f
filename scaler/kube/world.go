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
	at            time.Time
	pods          []*pod
	nodes         []*node
	workloads     map[Workload]*workload
	scaledObjects []*scaledObject
	hpas          map[object]*hpa
	nodePools     map[object]*nodePool
	nodeClaims    []*nodeClaim
	clusterQueues []*clusterQueue
	localQueues   map[object]*localQueue
	cohorts       []*cohort
	flavors       map[object]*flavor
	waiting       []*quotaRequest
	topologies    []*topology
	buffers       []*buffer
	budgets       []*disruptionBudget
	slices        []*resourceSlice
	claims        map[object]*resourceClaim
	events        map[string][]*startEvent // by the UID of the pod, oldest first
	preemptions   map[string][]time.Time   // by node
	evictions     map[Workload][]time.Time // of workloads by Kueue, by whom they made room for

	byNode   map[string]*node
	children map[Workload][]*workload // by the owner that controls them, sorted by name
	// unknown says, by kind, why objects that are there are not known. A kind that is not installed has none.
	unknown map[string]string
}

// world assembles what the feeds hold at now.
func (o *Observer) world(now time.Time) *world {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := &world{at: now, unknown: map[string]string{}}
	for _, f := range o.feeds {
		if why := f.unknown(now, o.cfg.StaleAfter); why != "" {
			w.unknown[f.kind.id()] = why
		}
	}
	w.pods, w.nodes, w.nodeClaims = sorted[pod](o.feeds), sorted[node](o.feeds), sorted[nodeClaim](o.feeds)
	w.scaledObjects, w.hpas = sorted[scaledObject](o.feeds), indexed[hpa](o.feeds)
	w.clusterQueues, w.cohorts, w.topologies = sorted[clusterQueue](o.feeds), sorted[cohort](o.feeds), sorted[topology](o.feeds)
	w.waiting, w.localQueues, w.flavors = sorted[quotaRequest](o.feeds), indexed[localQueue](o.feeds), indexed[flavor](o.feeds)
	w.slices, w.claims = sorted[resourceSlice](o.feeds), indexed[resourceClaim](o.feeds)
	w.indexEvents(sorted[startEvent](o.feeds))
	w.indexEvictions()
	w.nodePools, w.buffers, w.budgets = indexed[nodePool](o.feeds), sorted[buffer](o.feeds), sorted[disruptionBudget](o.feeds)
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
	w.own(sorted[workload](o.feeds))
	w.byNode = make(map[string]*node, len(w.nodes))
	for _, n := range w.nodes {
		w.byNode[n.name] = n
	}
	return w
}

// own indexes workloads, and who belongs to whom.
func (w *world) own(all []*workload) {
	slices.SortStableFunc(all, func(a, b *workload) int { return cmp.Or(a.compare(b.object), cmp.Compare(a.kind, b.kind)) })
	w.workloads, w.children = make(map[Workload]*workload, len(all)), map[Workload][]*workload{}
	for _, x := range all {
		w.workloads[x.key()] = x
		if x.owner.kind != "" {
			parent := Workload{x.namespace, x.owner.kind, x.owner.name}
			w.children[parent] = append(w.children[parent], x)
		}
	}
}

// kept is a pointer to a kept object, which embeds its identity.
type kept[F any] interface {
	*F
	identity() object
}

func (o object) identity() object { return o }

// sorted lists the objects of one converted type in all feeds by name.
func sorted[F any, P kept[F]](feeds map[feedKey]*feed) []*F {
	var out []*F
	for _, f := range feeds {
		out = listed(f, out)
	}
	slices.SortFunc(out, func(a, b *F) int { return P(a).identity().compare(P(b).identity()) })
	return out
}

// indexed maps the objects of one converted type in all feeds by name.
func indexed[F any, P kept[F]](feeds map[feedKey]*feed) map[object]*F {
	out := map[object]*F{}
	for _, x := range sorted[F, P](feeds) {
		out[P(x).identity()] = x
	}
	return out
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
