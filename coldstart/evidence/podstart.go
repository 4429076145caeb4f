package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

// A podStart is one pod with what the cluster says about its start. The zero time is unknown.
type podStart struct {
	pod    *pod
	events []event // about the pod, oldest first
	node   *node
	claim  *claim
	main   container // the engine's
	status containerStatus

	created, scheduled time.Time
	firstRun, lastRun  time.Time // when the first attempt of the engine's container began, and the newest
	ready              time.Time
	notes              []string
}

// gather collects what there is about a pod.
func (c *Cluster) gather(p *pod) *podStart {
	s := &podStart{pod: p, main: p.engine(), created: p.Metadata.CreationTimestamp}
	for _, e := range c.events {
		if e.about(p) {
			s.events = append(s.events, e)
		}
	}
	slices.SortStableFunc(s.events, func(a, b event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp) })
	for _, x := range p.Status.ContainerStatuses {
		if x.Name == s.main.Name {
			s.status = x
		}
	}
	s.node = c.nodes[p.Spec.NodeName]
	s.claim = c.claimOf(p, s.events)
	s.scheduled = when(p.Status.Conditions, "PodScheduled")
	if s.scheduled.IsZero() {
		s.scheduled = s.event("Scheduled", "").FirstTimestamp
	}
	s.runs()
	s.ready = when(p.Status.Conditions, "Ready")
	if p.described && s.created.IsZero() {
		for _, e := range s.events {
			if s.created.IsZero() || e.FirstTimestamp.Before(s.created) {
				s.created = e.FirstTimestamp
			}
		}
	}
	return s
}

// about reports whether an event is about a pod: by UID where both have one, since a StatefulSet reuses names.
func (e *event) about(p *pod) bool {
	o := e.InvolvedObject
	if o.Kind != "Pod" || o.Name != p.Metadata.Name || o.Namespace != p.Metadata.Namespace {
		return false
	}
	return o.UID == "" || p.Metadata.UID == "" || o.UID == p.Metadata.UID
}

// claimOf is the NodeClaim of the pod's node, or the one that Karpenter nominated while there is no node yet.
func (c *Cluster) claimOf(p *pod, events []event) *claim {
	for _, n := range c.claims {
		if p.Spec.NodeName != "" && n.Status.NodeName == p.Spec.NodeName {
			return n
		}
	}
	if p.Spec.NodeName != "" {
		return nil
	}
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Reason != "Nominated" {
			continue
		}
		for _, n := range c.claims {
			if strings.Contains(events[i].Message, "nodeclaim/"+n.Metadata.Name) {
				return n
			}
		}
	}
	return nil
}

// engine is the container that serves: the one that asks for GPUs; without any, the one whose image or command names an
// engine; else the first.
func (p *pod) engine() container {
	for _, c := range p.Spec.Containers {
		if c.gpus() > 0 {
			return c
		}
	}
	for _, c := range p.Spec.Containers {
		if c.engineName() != "" {
			return c
		}
	}
	if len(p.Spec.Containers) > 0 {
		return p.Spec.Containers[0]
	}
	return container{}
}

// event is the first event with a reason about a container ("" any); the zero event when there is none.
func (s *podStart) event(reason, container string) event {
	for _, e := range s.events {
		if e.Reason == reason && (container == "" || e.container() == container) {
			return e
		}
	}
	return event{}
}

// runs finds when the engine's container began for the first and for the last time. Its own status tells the last and the
// one before; the first is in the events as long as they are kept (an hour, unless the cluster says otherwise).
func (s *podStart) runs() {
	st := s.status
	switch {
	case st.State.Running != nil:
		s.lastRun = st.State.Running.StartedAt
	case st.State.Terminated != nil:
		s.lastRun = st.State.Terminated.StartedAt
	}
	s.firstRun = s.lastRun
	if t := st.LastState.Terminated; t != nil && !t.StartedAt.IsZero() {
		s.firstRun = earlier(s.firstRun, t.StartedAt)
	}
	started := s.event("Started", s.main.Name)
	if started.FirstTimestamp.IsZero() {
		return
	}
	s.firstRun = earlier(s.firstRun, started.FirstTimestamp)
	if s.lastRun.IsZero() {
		s.lastRun = started.LastTimestamp
	}
	if st.RestartCount == 0 && !s.lastRun.IsZero() {
		s.firstRun = s.lastRun // event and status differ by rounding only
	}
}

// earlier is the earlier of two times, of which either may be unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// newNode reports whether the pod had to wait for its node to be launched or initialised.
func (s *podStart) newNode() bool {
	if s.claim != nil {
		done := when(s.claim.Status.Conditions, "Initialized")
		return s.claim.Metadata.CreationTimestamp.After(s.created) || done.IsZero() || done.After(s.created)
	}
	return s.node != nil && s.node.Metadata.CreationTimestamp.After(s.created)
}

// nodeSpans is how the node came up. Without a NodeClaim (another autoscaler) the node's own creation is when it
// registered, and what was before it is all launch. open is the end of what still goes on, zero when nothing does.
func (s *podStart) nodeSpans(open time.Time) []coldstart.Span {
	if !s.newNode() {
		return nil
	}
	var out []coldstart.Span
	step := func(p coldstart.Phase, from, to time.Time) {
		if to.IsZero() {
			to = open
		}
		if !from.IsZero() && to.After(from) {
			out = append(out, coldstart.Span{Phase: p, From: from, To: to, Source: coldstart.FromEvents})
		}
	}
	if s.claim != nil {
		launched := when(s.claim.Status.Conditions, "Launched")
		registered := when(s.claim.Status.Conditions, "Registered")
		step(coldstart.NodeLaunch, s.claim.Metadata.CreationTimestamp, launched)
		step(coldstart.NodeRegister, launched, registered)
		step(coldstart.NodeReady, registered, when(s.claim.Status.Conditions, "Initialized"))
		return out
	}
	asked := s.event("TriggeredScaleUp", "").FirstTimestamp
	if asked.IsZero() {
		asked = s.created
	}
	step(coldstart.NodeLaunch, asked, s.node.Metadata.CreationTimestamp)
	if ready := when(s.node.Status.Conditions, "Ready"); !s.scheduled.IsZero() && !ready.After(s.scheduled) { // later is a recovery
		step(coldstart.NodeReady, s.node.Metadata.CreationTimestamp, ready)
	}
	return out
}

// podSpans is what the pod's conditions, its containers and its events tell up to the engine's process. open is the end
// of what still goes on, zero when nothing does.
func (s *podStart) podSpans(open time.Time, downloads []string) []coldstart.Span {
	var out []coldstart.Span
	span := func(p coldstart.Phase, from, to time.Time) {
		if to.IsZero() {
			to = open
		}
		if !from.IsZero() && to.After(from) {
			out = append(out, coldstart.Span{Phase: p, From: from, To: to, Source: coldstart.FromEvents})
		}
	}
	span(coldstart.Schedule, s.created, s.scheduled)
	if s.scheduled.IsZero() {
		return out
	}
	span(coldstart.ContainerStart, s.scheduled, s.firstRun)
	for _, p := range s.pulls() {
		span(coldstart.ImagePull, p.From, earlier(p.To, s.firstRun)) // once the engine runs, nobody waits for another pull
	}
	for _, st := range s.pod.Status.InitContainerStatuses {
		if t := st.State.Terminated; t != nil && nameIn(st.Name, downloads) {
			span(coldstart.WeightDownload, t.StartedAt, t.FinishedAt)
		}
	}
	if s.lastRun.After(s.firstRun) {
		span(coldstart.Retry, s.firstRun, s.lastRun)
	}
	return out
}

// nameIn reports whether a container's name contains one of the parts.
func nameIn(name string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
}

// pulls are the image pulls of all containers, with the back-off between failed ones: from the first Pulling to the last
// Pulled. To is zero while one goes on. The kubelet's own duration is finer than the whole seconds of event times.
func (s *podStart) pulls() []coldstart.Span {
	by := map[string]*coldstart.Span{}
	var order []string
	for _, e := range s.events {
		name := e.container()
		if e.Reason == "Pulling" && by[name] == nil {
			by[name] = &coldstart.Span{From: e.FirstTimestamp}
			order = append(order, name)
		}
		took, pulled := PullTime(e.Message)
		if !pulled || e.Reason != "Pulled" {
			continue
		}
		if by[name] == nil {
			by[name] = &coldstart.Span{From: e.LastTimestamp.Add(-took)}
			order = append(order, name)
		}
		p := by[name]
		p.To = e.LastTimestamp
		if from := e.LastTimestamp.Add(-took); took > 0 && from.Sub(p.From).Abs() < 2*time.Second {
			p.From = from
		}
	}
	var out []coldstart.Span
	for _, name := range order {
		out = append(out, *by[name])
	}
	return out
}

// PullTime is how long a pull took, with the time it waited for others, as the message of its Pulled event says:
// `Successfully pulled image "x" in 1m2.5s (1m5s including waiting). Image size: …`, or `in 42s`, or without a time. ok is
// false for an image that was already on the node.
func PullTime(message string) (took time.Duration, ok bool) {
	if !strings.HasPrefix(message, "Successfully pulled") {
		return 0, false
	}
	_, rest, found := strings.Cut(message, `" in `)
	if !found {
		return 0, true
	}
	alone, rest, _ := strings.Cut(rest, " ")
	if waiting, _, found := strings.Cut(strings.TrimPrefix(rest, "("), " including waiting"); found {
		alone = waiting
	}
	took, err := time.ParseDuration(strings.TrimSuffix(alone, "."))
	if err != nil || took < 0 {
		return 0, true
	}
	return took, true
}

// imageCache says whether the engine's image was on the node.
func (s *podStart) imageCache() coldstart.Cache {
	for _, e := range s.events {
		if c := e.container(); c != "" && c != s.main.Name {
			continue
		}
		switch {
		case e.Reason == "Pulled" && strings.Contains(e.Message, "already present on machine"):
			return coldstart.Cached
		case e.Reason == "Pulled", e.Reason == "Pulling":
			return coldstart.NotCached
		}
	}
	return coldstart.CacheUnknown
}

// path is the start path as far as it can be told. Weights count as cached only when the image was there too: a replica
// that pulls its image has a slow start whatever the weights.
func (s *podStart) path(reclaimed bool, weights coldstart.Cache) coldstart.Path {
	switch {
	case s.newNode():
		return coldstart.ColdNode
	case reclaimed:
		return coldstart.ReclaimedNode
	case s.node == nil && s.claim == nil:
		return coldstart.PathUnknown
	case weights == coldstart.Cached && s.imageCache() == coldstart.Cached:
		return coldstart.CachedWeights
	}
	return coldstart.WarmNode
}

// reclaimed reports whether, while this pod waited, the scheduler preempted another one on its node, or Kueue a workload
// for it. Kueue says so of the workload that has to go, "… to accommodate a workload (UID: …, JobUID: …) due to …", where
// the job of a pod that is admitted by itself is the pod.
func (c *Cluster) reclaimed(s *podStart) bool {
	if s.pod.Spec.NodeName == "" || s.scheduled.IsZero() {
		return false
	}
	return slices.ContainsFunc(c.events, func(e event) bool {
		byScheduler := e.InvolvedObject.Kind == "Pod" && strings.Contains(e.Message+" ", "on node "+s.pod.Spec.NodeName+" ")
		byKueue := e.InvolvedObject.Kind == "Workload" && s.pod.Metadata.UID != "" &&
			strings.Contains(e.Message, "JobUID: "+s.pod.Metadata.UID+")")
		return e.Reason == "Preempted" && (byScheduler || byKueue) &&
			!e.LastTimestamp.Before(s.created) && !e.LastTimestamp.After(s.scheduled)
	})
}

// note keeps a remark about the start.
func (s *podStart) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}
