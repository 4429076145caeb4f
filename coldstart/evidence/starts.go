package evidence

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

// A Start is one start as the evidence shows it. Its phases sum to its total exactly.
type Start struct {
	coldstart.Sample
	// Pod is "namespace/name", or the name of the log when there is no pod.
	Pod string
	// Segments are the phases where they happened; without gaps.
	Segments []coldstart.Segment
	// Attempts is how often the engine's container began.
	Attempts int
	// KVTokens is the capacity of the KV cache in tokens or blocks, as the log gives it; 0 is unknown.
	KVTokens int
	// Notes say what was assumed, cut off or missing.
	Notes []string
}

// Options are what the evidence does not tell. A zero field means its default.
type Options struct {
	// At is when the dumps and logs were taken. Default: the newest time in them.
	At time.Time
	// RetryWithin is how long after a pod was created a restart of its engine still counts as part of its start, and how
	// long after it was bound an engine that only backs off has not failed yet. Default 1 h: later, a restart is a crash of
	// a replica that served.
	RetryWithin time.Duration
	// AnswerWithin is how long after readiness the first answer still ends the start. Default 2 min: later, nobody asked.
	AnswerWithin time.Duration
	// Downloads are parts of the names of init containers that fetch weights. Default: storage-initializer, download,
	// fetch, weights, model.
	Downloads []string
}

func (o Options) withDefaults(c *Cluster) Options {
	o.RetryWithin = cmp.Or(o.RetryWithin, time.Hour)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, 2*time.Minute)
	if o.At.IsZero() {
		o.At = c.newest
	}
	if len(o.Downloads) == 0 {
		o.Downloads = downloads
	}
	return o
}

// downloads are parts of the names of init containers that fetch weights.
var downloads = []string{"storage-initializer", "download", "fetch", "weights", "model"}

// FetchesWeights reports whether an init container's name says that it fetches weights.
func FetchesWeights(container string) bool { return nameIn(container, downloads) }

// Starts puts the evidence together: one Start per pod that serves a model, in the order in which they began, and one per
// start that only a log knows. What cannot be used is said in notes, never dropped silently.
//
// Rules where the evidence overlaps (see coldstart.Timeline for instants that several phases claim):
//   - Several ranks: for each phase the rank that took longest counts; "repeated across cluster" counts once.
//   - Several containers: the engine's counts (the one with GPUs). Pulls of others count until it runs.
//   - Init containers: one whose name says that it fetches weights is the download; others are part of container_start.
//   - A second attempt: from the first run of the container to the last is retry. The engine's phases are the last one's.
//   - The end is the first answer if it came soon after readiness, else Ready, else the engine's own word that it serves.
//   - A pod that is terminating, or not ready when the dump was taken, is a start that takes longer than that. One whose
//     container only backs off for longer than Options.RetryWithin has failed.
func Starts(c *Cluster, logs []*Log, o Options) (starts []Start, notes []string) {
	o = o.withDefaults(c)
	used := map[*Log]bool{}
	pods := c.serving()
	for _, p := range pods {
		s := c.gather(p)
		var l *Log
		for _, joined := range Join(logsOf(p, pods, logs, used), func(*Log) string { return "" }) {
			l = joined
		}
		start, why := c.start(s, l, o)
		if why != "" {
			notes = append(notes, fmt.Sprintf("pod %s: %s", p.Metadata.key(), why))
			continue
		}
		starts = append(starts, start)
	}
	var rest []*Log
	for _, l := range logs {
		if !used[l] {
			rest = append(rest, l)
		}
	}
	alone, why := logStarts(Join(rest, rotation), o)
	starts, notes = append(starts, alone...), append(notes, why...)
	slices.SortStableFunc(starts, func(a, b Start) int { return a.Started.Compare(b.Started) })
	return starts, notes
}

// serving are the pods that can be replicas: those with GPUs, those whose container is a known engine, and all if that
// leaves none.
func (c *Cluster) serving() []*pod {
	var out []*pod
	for _, p := range c.pods {
		if e := p.engine(); e.gpus() > 0 || e.engineName() != "" {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return c.pods
	}
	return out
}

// logsOf are the logs of a pod: by kubectl's prefix, by the pod's name in the name of the file (the longest that fits), and
// when there is one pod only, all that name no other.
func logsOf(p *pod, pods []*pod, logs []*Log, used map[*Log]bool) []*Log {
	var out []*Log
	for _, l := range logs {
		own := l.Pod == p.Metadata.Name || l.Pod == "" && p.Metadata.Name == longestIn(l.Name, pods) ||
			l.Pod == "" && len(pods) == 1
		if own && !used[l] {
			used[l] = true
			out = append(out, l)
		}
	}
	return out
}

// longestIn is the longest of the pods' names that stands in the base name of a file, apart from letters and digits beside
// it: chat-10.log is not of chat-1. It is empty when none does.
func longestIn(file string, pods []*pod) string {
	base := "." + filepath.Base(file) + "."
	longest := ""
	for _, p := range pods {
		name := p.Metadata.Name
		if len(name) <= len(longest) {
			continue
		}
		for at := 1; at < len(base); at++ {
			if strings.HasPrefix(base[at:], name) && !alphanumeric(base[at-1]) && !alphanumeric(base[at+len(name)]) {
				longest = name
				break
			}
		}
	}
	return longest
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// start puts one pod and its log together; why is not empty when the pod says nothing about a start.
func (c *Cluster) start(s *podStart, l *Log, o Options) (_ Start, why string) {
	p := s.pod
	switch {
	case s.created.IsZero():
		return Start{}, "no creation time and no event: nothing to count from"
	case p.Status.Phase == "Succeeded":
		return Start{}, "succeeded: a job that has finished, not a replica"
	case s.status.RestartCount > 0 && s.lastRun.Sub(s.created) > o.RetryWithin && !s.neverReady():
		return Start{}, fmt.Sprintf("restarted %d times, last at %s: more than %v after its creation, so not a start",
			s.status.RestartCount, s.lastRun.Format(time.RFC3339), o.RetryWithin)
	case !p.Metadata.DeletionTimestamp.IsZero() && s.ready.IsZero():
		o.At = p.Metadata.DeletionTimestamp
		s.note("deleted before it was ready")
	}
	a, clock := s.engineLog(l)
	end, outcome := s.ending(a, clock, o)
	if !end.After(s.created) {
		return Start{}, fmt.Sprintf("created at %s, after the last thing known about it", s.created.Format(time.RFC3339))
	}
	open := time.Time{}
	if outcome != coldstart.Served {
		open = end
	}
	spans := append(s.nodeSpans(open), s.podSpans(open, o.Downloads)...)
	var loose []coldstart.Loose
	weights := coldstart.CacheUnknown
	if a != nil {
		var more []coldstart.Span
		more, loose = s.logSpans(a, clock, end, outcome)
		spans, weights = append(spans, more...), a.weightsCache()
	}
	if slices.ContainsFunc(spans, func(x coldstart.Span) bool { return x.Phase == coldstart.WeightDownload }) {
		weights = coldstart.NotCached
	}
	out := Start{Pod: p.Metadata.key(), Attempts: 1 + s.status.RestartCount,
		Segments: coldstart.Timeline(s.created, end, spans, loose)}
	out.Sample = coldstart.Sample{
		ID: cmp.Or(p.Metadata.UID, p.Metadata.key()), Started: s.created, Total: end.Sub(s.created), Outcome: outcome,
		Key: coldstart.Key{Model: s.modelOf(a), Shape: s.shapeOf(), Path: s.path(c.reclaimed(s), weights),
			Engine: s.engineOf(a), Image: s.imageCache(), Weights: weights},
	}
	if a != nil {
		out.Key.Compile, out.KVTokens = a.compiled, a.tokens
	}
	out.Phases, out.Sources = coldstart.Tally(out.Segments)
	s.remark()
	out.Notes = s.notes
	if err := out.Validate(); err != nil {
		return Start{}, err.Error()
	}
	return out, ""
}

// remark notes what a reader of the waterfall would ask.
func (s *podStart) remark() {
	for _, e := range s.events {
		if e.Reason == "BackOff" && strings.Contains(e.Message, "pulling image") {
			s.note("image pull backed off")
			break
		}
	}
	if n := s.status.RestartCount; n > 0 {
		s.note("%d failed attempts of container %s before this one", n, s.main.Name)
	}
	if w := s.status.State.Waiting; w != nil && s.ready.IsZero() {
		s.note("container %s is waiting: %s", s.main.Name, w.Reason)
	}
}

// ending is when the start ended, and how.
func (s *podStart) ending(a *attempt, clock aligned, o Options) (time.Time, coldstart.Outcome) {
	served := s.ready
	if served.IsZero() && a != nil && s.pod.described { // text has no time of readiness
		if served = a.when(up, clock); !served.IsZero() {
			s.note("ready when the engine's log says that it serves: a description has no time of it")
		}
	}
	switch {
	case !served.IsZero():
	case s.pod.Status.Phase == "Failed":
		end := o.At
		if t := s.status.State.Terminated; t != nil {
			end = t.FinishedAt
		}
		return end, coldstart.Failed
	case s.stuck(o):
		s.note("cannot start for more than %v: counted as failed", o.RetryWithin)
		return o.At, coldstart.Failed
	default:
		if s.status.Ready {
			s.note("ready, but nothing tells since when")
		}
		return o.At, coldstart.Pending
	}
	if a != nil {
		if answer := a.when(done, clock); answer.After(served) && answer.Sub(served) <= o.AnswerWithin {
			return answer, coldstart.Served
		}
	}
	return served, coldstart.Served
}

// BacksOff reports whether the reason for which a container waits is one that does not pass by waiting.
func BacksOff(reason string) bool { return slices.Contains(backOffs, reason) }

// backOffs are from pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime of Kubernetes.
var backOffs = []string{"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// stuck reports whether the kubelet has tried for so long to run the engine that the start has failed: a Deployment's pod
// never says so itself. The time counts from when it was bound, for it may wait for hours for a node.
func (s *podStart) stuck(o Options) bool {
	since := s.created
	if s.scheduled.After(since) {
		since = s.scheduled
	}
	w := s.status.State.Waiting
	return w != nil && !s.status.Ready && BacksOff(w.Reason) && o.At.Sub(since) > o.RetryWithin
}

// neverReady reports whether the conditions tell that the pod has not been ready yet: the kubelet sets Ready to False when
// it first sees the pod, and moves the time only when the status changes.
func (s *podStart) neverReady() bool {
	for _, x := range s.pod.Status.Conditions {
		if x.Type == "Ready" && x.Status == "False" && !s.scheduled.IsZero() {
			return x.LastTransitionTime.Sub(s.scheduled) <= firstSync
		}
	}
	return false
}

// firstSync is how soon after a pod was bound the kubelet has seen it.
const firstSync = time.Minute

// logSpans is what the engine's log tells, and what follows from it together with the pod.
func (s *podStart) logSpans(a *attempt, clock aligned, end time.Time, outcome coldstart.Outcome) ([]coldstart.Span, []coldstart.Loose) {
	from, to := s.lastRun, end
	if from.IsZero() {
		from = s.scheduled
	}
	if !s.ready.IsZero() {
		to = s.ready
	}
	spans, loose := a.engineSpans(clock, from, to, outcome != coldstart.Served)
	add := func(p coldstart.Phase, from, to time.Time, source coldstart.Source) {
		if !from.IsZero() && to.After(from) {
			spans = append(spans, coldstart.Span{Phase: p, From: from, To: to, Source: source})
		}
	}
	both := coldstart.FromEvents + "+" + coldstart.FromLogs
	add(coldstart.EngineBootstrap, from, weightsTouched(spans), both)
	add(coldstart.PodReady, a.when(up, clock), s.ready, both)
	add(coldstart.FirstToken, s.ready, end, both)
	return spans, loose
}

// weightsTouched is when the engine first touched weights; zero when its log does not tell.
func weightsTouched(spans []coldstart.Span) time.Time {
	var first time.Time
	for _, x := range spans {
		if x.Phase == coldstart.WeightDownload || x.Phase == coldstart.WeightLoad {
			first = earlier(first, x.From)
		}
	}
	return first
}

// quarter is the grid on which time zones lie.
const quarter = 15 * time.Minute

// engineLog finds the attempt of a log that served the pod, and how the log's clock runs against the cluster's. A clock
// without a zone is shifted by whole quarters of an hour when only that brings it into the pod's life.
func (s *podStart) engineLog(l *Log) (*attempt, aligned) {
	if l == nil || len(l.marks) == 0 {
		return nil, aligned{}
	}
	if l.Dropped > 0 {
		s.note("%s", l.dropped())
	}
	run := s.lastRun
	if run.IsZero() {
		run = s.created
	}
	a, clock := l.serving(run, s.ready)
	if clock.shift != 0 {
		s.note("the log's clock runs %v ahead of UTC", -clock.shift)
	}
	return a, clock
}

// serving finds the attempt of a process that began at run and was ready at ready (zero: not yet), and the log's clock.
// The log must not be empty.
func (l *Log) serving(run, ready time.Time) (*attempt, aligned) {
	clock := aligned{near: run, base: run}
	all := attempts(l.marks)
	last := &all[len(all)-1]
	// Where the log goes on after the pod was ready, the last attempt that began before counts.
	for i := len(all) - 1; i >= 0 && !ready.IsZero(); i-- {
		if began := all[i].began(clock); !began.IsZero() && !began.After(ready.Add(quarter)) {
			last = &all[i]
			break
		}
	}
	began := last.began(clock)
	if began.IsZero() || last.marks[0].clock == absolute {
		return last, clock
	}
	const slack = 5 * time.Second // whole seconds here, other clocks there
	if off := began.Sub(run); off < -slack || !ready.IsZero() && began.After(ready) {
		clock.shift = -off.Round(quarter)
	}
	return last, clock
}
