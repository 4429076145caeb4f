package kube

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"forewarm/coldstart/evidence"
)

// startEvent is what is kept of an event that tells about a start. The API server forgets events after an hour unless it
// is told otherwise, so they tell about starts under way, not about old ones.
type startEvent struct {
	object
	reason    string
	pod       string // its UID
	container string // empty when the event is about the pod
	message   string // of those whose message is read
	first     time.Time
	last      time.Time
}

// The reasons that are kept. Of the kubelet: Pulling, Pulled, Started; of the scheduler: Preempted, said of the pod that
// has to go; of the cluster autoscaler: TriggeredScaleUp; of Karpenter: Nominated, which names the NodeClaim that it launches.
var startReasons = []string{reasonPulling, reasonPulled, reasonStarted, reasonPreempted, reasonScaleUp, reasonNominated}

const (
	reasonPulling   = "Pulling"
	reasonPulled    = "Pulled"
	reasonStarted   = "Started"
	reasonPreempted = "Preempted"
	reasonScaleUp   = "TriggeredScaleUp"
	reasonNominated = "Nominated"
)

// startEventFacts converts an event; one that tells nothing about a start is not kept.
func startEventFacts(obj any) (any, error) {
	if kept, ok := obj.(*startEvent); ok {
		return kept, nil
	}
	e, ok := obj.(*corev1.Event)
	if !ok || e.InvolvedObject.Kind != "Pod" || !slices.Contains(startReasons, e.Reason) {
		return nil, nil
	}
	out := &startEvent{object: objectOf(e), reason: strings.Clone(e.Reason), pod: strings.Clone(string(e.InvolvedObject.UID)),
		first: e.FirstTimestamp.UTC(), last: e.LastTimestamp.UTC()}
	if _, name, found := strings.Cut(strings.TrimSuffix(e.InvolvedObject.FieldPath, "}"), "{"); found {
		out.container = strings.Clone(name)
	}
	if slices.Contains([]string{reasonPulled, reasonPreempted, reasonNominated}, e.Reason) {
		out.message = strings.Clone(e.Message)
	}
	if out.first.IsZero() || e.FirstTimestamp.IsZero() {
		out.first = e.EventTime.UTC()
	}
	if e.LastTimestamp.IsZero() {
		out.last = out.first
	}
	return out, nil
}

// indexEvents keeps events by pod, oldest first, and the times of preemptions by node: that event is said of the pod that
// has to leave, and its message names the node ("Preempted by pod … on node …").
func (w *world) indexEvents(all []*startEvent) {
	w.events, w.preemptions = map[string][]*startEvent{}, map[string][]time.Time{}
	for _, e := range all {
		w.events[e.pod] = append(w.events[e.pod], e)
		if i := strings.LastIndex(e.message, "on node "); e.reason == reasonPreempted && i >= 0 {
			node := e.message[i+len("on node "):]
			w.preemptions[node] = append(w.preemptions[node], e.last)
		}
	}
	for _, of := range w.events {
		slices.SortStableFunc(of, func(a, b *startEvent) int { return a.first.Compare(b.first) })
	}
}

// pulls are the finished pulls of images that events tell of, each from the first attempt to the image, the back-off
// between failed ones included. The kubelet's own duration is finer than the whole seconds of the times.
func pulls(events []*startEvent) []period {
	begun := map[string]time.Time{}
	var out []period
	for _, e := range events {
		if e.reason == reasonPulling && begun[e.container].IsZero() {
			begun[e.container] = e.first
		}
		took, pulled := evidence.PullTime(e.message)
		if e.reason != reasonPulled || !pulled {
			continue
		}
		from, to := e.last.Add(-took), e.last
		if b := begun[e.container]; !b.IsZero() && (took == 0 || b.Before(from.Add(-2*time.Second))) {
			from = b
		}
		out = append(out, period{from, to})
	}
	return out
}
