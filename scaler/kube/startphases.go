package kube

import (
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
	"forewarm/coldstart/evidence"
)

// served is the start of a replica that is ready, cut into phases that sum to its total. Times in the API are whole
// seconds, so that a start may seem to take none: it is then taken to have lasted one. ok is false when the clocks of API
// server and node contradict each other.
func (w *world) served(model string, r *replica) (_ ended, ok bool) {
	last := r.last()
	total := last.readyAt.Sub(r.since)
	if last.readyAt.IsZero() || total < -resolution {
		return ended{}, false
	}
	total = max(total, resolution)
	e := ended{pod: last, spans: w.startSpans(last, r.since), Sample: coldstart.Sample{
		ID: r.id, Started: r.since, Total: total, Outcome: coldstart.Served, Node: r.node(),
		Key: coldstart.Key{Model: model, Path: w.path(*r), Engine: evidence.ImageEngine(last.image), Image: w.imageCache(last)},
	}}
	if len(last.downloads) > 0 {
		e.Key.Weights = coldstart.NotCached
	}
	_, e.run = w.runs(last)
	e.complete = e.run.IsZero()
	e.Phases, e.Sources = coldstart.Tally(coldstart.Timeline(r.since, r.since.Add(total), e.spans, nil))
	return e, true
}

// startSpans is what the API tells about the start of a replica that waited for this pod longest. What happens inside the
// engine's container is not in it: that is in its log.
func (w *world) startSpans(p *pod, since time.Time) []coldstart.Span {
	out := w.nodeSpans(p, since)
	step := func(phase coldstart.Phase, from, to time.Time) {
		if !from.IsZero() && to.After(from) {
			out = append(out, coldstart.Span{Phase: phase, From: from, To: to, Source: coldstart.FromEvents})
		}
	}
	step(coldstart.Schedule, since, p.scheduledAt)
	if p.scheduledAt.IsZero() {
		return out
	}
	first, last := w.runs(p)
	step(coldstart.ContainerStart, p.scheduledAt, first)
	step(coldstart.Retry, first, last)
	// Without events (they are not read, or too old) nothing tells how much of the container's start was the pull.
	for _, x := range pulls(w.events[p.uid]) {
		step(coldstart.ImagePull, x.from, earliest(x.to, first)) // once the engine runs, nobody waits for another pull
	}
	for _, x := range p.downloads {
		step(coldstart.WeightDownload, x.from, x.to)
	}
	return out
}

// nodeSpans is how the pod's node came up, when the replica waited for it: by its NodeClaim, else by its own times. A
// node that reports ready after the pod was bound has recovered.
func (w *world) nodeSpans(p *pod, since time.Time) []coldstart.Span {
	var out []coldstart.Span
	step := func(phase coldstart.Phase, from, to time.Time) {
		if !from.IsZero() && to.After(from) {
			out = append(out, coldstart.Span{Phase: phase, From: from, To: to, Source: coldstart.FromEvents})
		}
	}
	if c := w.claimOf(p); c != nil && c.awaited(since) {
		step(coldstart.NodeLaunch, c.created, c.launchedAt)
		step(coldstart.NodeRegister, c.launchedAt, c.registeredAt)
		step(coldstart.NodeReady, c.registeredAt, c.initializedAt)
		return out
	}
	n := w.byNode[p.node]
	if n == nil || !n.created.After(since) {
		return nil
	}
	asked := since
	for _, e := range w.events[p.uid] {
		if e.reason == reasonScaleUp {
			asked = e.first
			break
		}
	}
	step(coldstart.NodeLaunch, asked, n.created)
	if !p.scheduledAt.IsZero() && n.readyAt.Before(p.scheduledAt) {
		step(coldstart.NodeReady, n.created, n.readyAt)
	}
	return out
}

// claimOf is the NodeClaim of a pod's node, or the one that Karpenter nominated last while it has no node; nil when there
// is none.
func (w *world) claimOf(p *pod) *nodeClaim {
	named := func(c *nodeClaim) bool { return c.node == p.node }
	if p.node == "" {
		claim := w.nominated(p)
		named = func(c *nodeClaim) bool { return c.name == claim }
	}
	i := slices.IndexFunc(w.nodeClaims, named)
	if i < 0 {
		return nil
	}
	return w.nodeClaims[i]
}

// nominated is the NodeClaim that Karpenter's newest word about a pod names: "Pod should schedule on: nodeclaim/x"; empty
// when there is none, or it names a node that is there.
func (w *world) nominated(p *pod) string {
	events := w.events[p.uid]
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].reason == reasonNominated {
			_, claim, _ := strings.Cut(events[i].message, "nodeclaim/")
			claim, _, _ = strings.Cut(claim, ",")
			return strings.TrimSpace(claim)
		}
	}
	return ""
}

// launching reports whether a node is on its way for a pod that has none.
func (w *world) launching(p *pod, since time.Time) bool {
	if p.node != "" {
		return false
	}
	if c := w.claimOf(p); c != nil {
		return c.awaited(since)
	}
	return slices.ContainsFunc(w.events[p.uid], func(e *startEvent) bool { return e.reason == reasonScaleUp })
}

// awaited reports whether a replica ordered at since had to wait for the claim.
func (c *nodeClaim) awaited(since time.Time) bool {
	return c.created.After(since) || c.initializedAt.After(since)
}

// runs is when the engine's container began for the first and for the last time; the first run of one that was restarted
// is in the events, or at least the last but one in its status.
func (w *world) runs(p *pod) (first, last time.Time) {
	last = p.runAt
	if last.IsZero() {
		return p.startedAt, p.startedAt
	}
	first = last
	if !p.engineRestarted {
		return first, last
	}
	first = earliest(first, p.lostRun)
	for _, e := range w.events[p.uid] {
		if e.reason == reasonStarted && e.container == p.engine {
			first = earliest(first, e.first)
		}
	}
	return first, last
}

// earliest is the earlier of two times, of which either may be unknown.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// imageCache says whether the node had the engine's image, as far as the events tell.
func (w *world) imageCache(p *pod) coldstart.Cache {
	for _, e := range w.events[p.uid] {
		if e.container != p.engine {
			continue
		}
		switch {
		case e.reason == reasonPulled && strings.Contains(e.message, "already present on machine"):
			return coldstart.Cached
		case e.reason == reasonPulled, e.reason == reasonPulling:
			return coldstart.NotCached
		}
	}
	return coldstart.CacheUnknown
}

// path tells a replica's start path as far as the API does: cold when one of its nodes is younger than it, was not
// initialised when it was ordered, or is on its way; reclaimed when batch work was preempted for it; warm when neither;
// unknown before it is bound, when no node is launched for it. Whether the weights lie on the node already is not visible in the API, so warm node here means both: it is
// what the next replica on an existing node would get. The engine's log tells (Config.StartLogs).
func (w *world) path(r replica) coldstart.Path {
	path := coldstart.WarmNode
	for _, p := range r.pods {
		n := w.byNode[p.node]
		if n == nil && w.launching(p, r.since) {
			path = coldstart.ColdNode
			continue
		}
		if n == nil {
			return coldstart.PathUnknown
		}
		c := w.claimOf(p)
		switch {
		case n.created.After(r.since), c != nil && c.awaited(r.since):
			path = coldstart.ColdNode
		case path == coldstart.WarmNode && w.preempted(p):
			path = coldstart.ReclaimedNode
		}
	}
	return path
}

// preempted reports whether, while a pod waited, the scheduler made another one leave its node, or Kueue a workload give
// up its quota for it.
func (w *world) preempted(p *pod) bool {
	waited := func(at time.Time) bool {
		return !at.Before(p.created) && (p.scheduledAt.IsZero() || !at.After(p.scheduledAt))
	}
	if slices.ContainsFunc(w.preemptions[p.node], waited) {
		return true
	}
	given := slices.ContainsFunc(w.evictions[Workload{p.namespace, "Pod", p.name}], waited)
	w.chain(p.namespace, p.owner, func(r reference) {
		given = given || slices.ContainsFunc(w.evictions[Workload{p.namespace, r.kind, r.name}], waited)
	})
	return given
}
