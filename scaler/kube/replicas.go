package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/planner"
)

// target is what runs a model.
type target struct {
	workloads []Workload
	// by are the ScaledObjects that name the model; none when the workloads are those of the configuration.
	by []*scaledObject
}

// targets finds the workloads of every model: the scale targets of the ScaledObjects that name it, else those that were
// configured.
func (w *world) targets(models []Model) map[string]target {
	named := map[string]target{}
	for _, s := range w.scaledObjects {
		for _, m := range s.models {
			t := named[m]
			t.by = append(t.by, s)
			if !slices.Contains(t.workloads, s.workload()) {
				t.workloads = append(t.workloads, s.workload())
			}
			named[m] = t
		}
	}
	out := make(map[string]target, len(models))
	for _, m := range models {
		t, ok := named[m.Name]
		if !ok {
			t.workloads = m.Workloads
		}
		out[m.Name] = t
	}
	return out
}

// ownersMax bounds a chain of owners: pod, ReplicaSet, Deployment, InferenceService, and a few for operators that are
// not known here.
const ownersMax = 8

// chain calls f for each owner of an object, from the nearest on.
func (w *world) chain(namespace string, owner reference, f func(reference)) {
	for range ownersMax {
		if owner.kind == "" {
			return
		}
		f(owner)
		next := w.workloads[Workload{namespace, owner.kind, owner.name}]
		if next == nil {
			return
		}
		owner = next.owner
	}
}

// owned finds the pods of every targeted workload through their controlling owners.
func (w *world) owned(targets map[string]target) map[Workload][]*pod {
	out := map[Workload][]*pod{}
	for _, t := range targets {
		for _, wl := range t.workloads {
			out[wl] = nil
		}
	}
	for _, p := range w.pods {
		w.chain(p.namespace, p.owner, func(r reference) {
			key := Workload{p.namespace, r.kind, r.name}
			if pods, targeted := out[key]; targeted {
				out[key] = append(pods, p)
			}
		})
	}
	return out
}

// replica is one serving unit: a pod, or the pods of one group.
type replica struct {
	id      string
	since   time.Time
	pods    []*pod
	size    int
	ready   bool
	leaving bool
	failed  bool
}

// pending says whether a pod of the replica has no node yet, so that room must be found for the whole of it.
func (r *replica) pending() bool {
	return slices.ContainsFunc(r.pods, func(p *pod) bool { return p.node == "" })
}

// found is what is known about a model's replicas. replicas is nil when they are unknown; problem says why, or what is
// odd about those that are known.
type found struct {
	replicas *planner.Replicas
	problem  string
	each     []replica
}

// ownerKinds are what the chains of owners lead through.
var ownerKinds = []string{pods, replicaSets, deployments, statefulSets, leaderSets, rayClusters, rayServices, inferences}

// replicas counts the replicas of one model by state. wasReady says whether a replica was seen ready before: one that
// lost its readiness is neither ready nor starting, and its age says nothing about how long a start takes.
func (w *world) replicas(m Model, t target, owned map[Workload][]*pod, wasReady func(id string) bool) found {
	if why := w.why(append([]string{scaledObjects}, ownerKinds...)...); why != "" {
		return found{problem: why}
	}
	if len(t.workloads) == 0 {
		return found{problem: "no ScaledObject has an external trigger with model: " + m.Name + ", and no workload is configured"}
	}
	f := found{replicas: &planner.Replicas{}}
	desired, stated := 0, true
	var broken, stuck []string
	for _, wl := range t.workloads {
		n, ok, problem := w.desired(wl, len(owned[wl]))
		if problem != "" {
			return found{problem: problem}
		}
		desired, stated = desired+n, stated && ok
		f.replicas.MaxSurge = added(f.replicas.MaxSurge, w.surge(wl))
		for _, r := range replicasOf(owned[wl], max(1, m.Pods)) {
			f.each = append(f.each, r)
			switch {
			case r.failed:
			case r.leaving:
				f.replicas.Leaving++
			case r.ready:
				f.replicas.Ready++
			case wasReady(r.id) || r.lostReadiness():
				broken = append(broken, r.pods[0].String())
			case r.stuck(w.at):
				stuck = append(stuck, r.pods[0].String())
			default:
				f.replicas.Starting = append(f.replicas.Starting,
					planner.StartingReplica{ID: r.id, Since: r.since, Path: w.path(r), Pending: r.pending()})
			}
		}
	}
	slices.SortFunc(f.replicas.Starting, func(a, b planner.StartingReplica) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	if stated {
		f.replicas.Desired = &desired
	}
	if len(broken) > 0 {
		f.problem = "ready before and not now, so counted neither ready nor starting: " + summary(broken)
	}
	if len(stuck) > 0 {
		f.problem = strings.TrimPrefix(f.problem+"; ", "; ") + fmt.Sprintf("cannot start for more than %v, so counted as failed: ", retryWithin) + summary(stuck)
	}
	return f
}

// desired is the number that a workload's scale asks for; ok is false when its kind is not one whose scale is read. A
// workload that does not exist is a problem: nothing can be said about its replicas.
func (w *world) desired(wl Workload, pods int) (n int, ok bool, problem string) {
	x := w.workloads[wl]
	switch {
	case x == nil && pods > 0:
		return 0, false, "" // of a kind that is not watched, and there are pods that it owns
	case x == nil:
		return 0, false, wl.String() + " does not exist, or is of a kind that is not watched"
	case x.knative():
		return 0, false, wl.String() + " is scaled by Knative, not by KEDA"
	case x.replicas != nil:
		return *x.replicas, true, ""
	}
	sum, any := 0, false // of an InferenceService or RayService: what it owns
	for _, child := range w.children[wl] {
		if child.replicas != nil {
			sum, any = sum+*child.replicas, true
		}
	}
	return sum, any, ""
}

// surge is how many replicas beyond what is desired rollouts under way of a workload, or of what it owns, may run.
func (w *world) surge(wl Workload) *int {
	var sum *int
	if x := w.workloads[wl]; x != nil {
		sum = x.surge
	}
	for _, child := range w.children[wl] {
		sum = added(sum, child.surge)
	}
	return sum
}

// added is the sum of what is known of both; nil when neither is.
func added(a, b *int) *int {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a + *b
	return &sum
}

// replicasOf puts pods together into replicas, sorted by id. Pods that are leaving are replicas apart from those that
// replace them in the same group. Pods that have ended are in none, except that a failed one says how its start went.
func replicasOf(owned []*pod, podsPerReplica int) []replica {
	groups := map[string]*replica{}
	for _, p := range owned {
		if p.rayHead || p.ended && !p.failed {
			continue
		}
		key := p.uid
		if p.group != "" {
			key = fmt.Sprintf("%s %t %t", p.group, p.leaving, p.failed)
		}
		r := groups[key]
		if r == nil {
			r = &replica{id: p.uid, since: p.created, size: 1, leaving: p.leaving, failed: p.failed}
			groups[key] = r
		}
		if p.group != "" {
			r.size = podsPerReplica
			if p.groupSize > 0 {
				r.size = p.groupSize
			}
		}
		if p.created.Before(r.since) {
			r.since = p.created
		}
		r.id = min(r.id, p.uid)
		r.pods = append(r.pods, p)
	}
	out := make([]replica, 0, len(groups))
	for _, r := range groups {
		ready := 0
		for _, p := range r.pods {
			if p.ready {
				ready++
			}
		}
		r.ready = ready >= r.size && !r.leaving && !r.failed
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b replica) int { return strings.Compare(a.id, b.id) })
	return out
}

// lostReadiness reports whether the pods tell that the replica was ready and is not.
func (r *replica) lostReadiness() bool {
	return slices.ContainsFunc(r.pods, func(p *pod) bool { return p.wasReady || p.crashed })
}

// stuck reports whether the kubelet has tried for so long to run an engine of the replica that its start has failed. A
// Deployment's pod never says so itself: it has no phase Failed.
func (r *replica) stuck(now time.Time) bool {
	return slices.ContainsFunc(r.pods, func(p *pod) bool {
		return !p.ready && p.backingOff && now.Sub(p.startable()) > retryWithin
	})
}

// crashed reports whether an engine of the replica ended too late for that to be part of a start.
func (r *replica) crashed() bool {
	return slices.ContainsFunc(r.pods, func(p *pod) bool { return p.crashed })
}

// node is the node of a replica of one pod; empty for several, and before it is bound.
func (r *replica) node() string {
	if len(r.pods) != 1 || r.size != 1 {
		return ""
	}
	return r.pods[0].node
}

// last is the pod that the replica waits, or waited, for longest.
func (r *replica) last() *pod {
	last := r.pods[0]
	for _, p := range r.pods[1:] {
		if !p.ready && last.ready || p.ready == last.ready && p.readyAt.After(last.readyAt) {
			last = p
		}
	}
	return last
}
