package kube

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"forewarm/coldstart"
	"forewarm/coldstart/evidence"
)

const (
	// logBytesMax is how much of a log is read: a start leaves some 100 kB, and it stands at the beginning.
	logBytesMax = 8 << 20
	// logTimeout is how long a log may take, after which the start is told without it.
	logTimeout = 20 * time.Second
	// logReaders is how many logs are read at once, logQueue how many starts may wait for theirs.
	logReaders = 4
	logQueue   = 256
	// answerWithin is how long after readiness the first answer still ends a start: later, nobody had asked. answerSeen is
	// how much later the metrics have it.
	answerWithin = 2 * time.Minute
	answerSeen   = 45 * time.Second
)

// FirstAnswer tells when a pod of a model first completed a request between two times; ok is false when it did not, or
// nobody can tell.
type FirstAnswer func(ctx context.Context, model, pod string, from, to time.Time) (at time.Time, ok bool, err error)

// ended is a start that has ended, with what its log is needed for.
type ended struct {
	coldstart.Sample
	pod      *pod // nil when it did not serve
	run      time.Time
	spans    []coldstart.Span
	complete bool // nothing is to be learned from a log
}

// startLogs asks others about every replica that became ready, once, beside the looks. The log of the engine's container
// has the phases inside it, which are nowhere else: a start is told when that has been read, at a later look. The metrics
// have the first answer, when there was one: then a start is told once more, longer by the time to it.
type startLogs struct {
	log     *slog.Logger
	open    func(ctx context.Context, p *pod) (io.ReadCloser, error) // nil: no logs are read
	answer  FirstAnswer                                              // nil: nobody tells
	now     func() time.Time
	readers chan struct{}

	mu      sync.Mutex
	earlier *startLogs // of the Observer before this one; nil for none
	waiting int
	told    map[string][]coldstart.Sample // by model
	failed  bool                          // the latest log could not be read
}

func newStartLogs(log *slog.Logger, now func() time.Time) *startLogs {
	return &startLogs{log: log, now: now, readers: make(chan struct{}, logReaders), told: map[string][]coldstart.Sample{}}
}

// readsFrom makes the logs those of an API server.
func (l *startLogs) readsFrom(api kubernetes.Interface) {
	limit := int64(logBytesMax)
	l.open = func(ctx context.Context, p *pod) (io.ReadCloser, error) {
		return api.CoreV1().Pods(p.namespace).GetLogs(p.name,
			&corev1.PodLogOptions{Container: p.engine, Timestamps: true, LimitBytes: &limit}).Stream(ctx)
	}
}

// through takes the starts of a model that have ended since the last look and returns those that can be told now: at once
// without a log, later with one. spawn runs a function beside the looks, under a context that ends with the Observer.
func (l *startLogs) through(model string, new []ended, spawn func(func(context.Context))) []coldstart.Sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeTold(l.earlier)
	out := l.told[model]
	delete(l.told, model)
	for _, e := range new {
		logged := l.open != nil && !e.complete && l.waiting < logQueue
		answered := l.answer != nil && e.Outcome == coldstart.Served && l.waiting < logQueue
		if !logged {
			out = append(out, e.Sample)
		}
		if logged || answered {
			l.waiting++
			spawn(func(ctx context.Context) { l.ask(ctx, model, e, logged, answered) })
		}
	}
	slices.SortFunc(out, func(a, b coldstart.Sample) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// takeOver makes l tell what another one could and was not asked for.
func (l *startLogs) takeOver(from *startLogs) {
	from.mu.Lock()
	from.takeTold(from.earlier)
	from.earlier = nil
	from.mu.Unlock()
	l.earlier = from
}

// takeTold moves what another one could tell to l; nil has nothing. The caller holds l.mu.
func (l *startLogs) takeTold(from *startLogs) {
	if from == nil {
		return
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	for model, starts := range from.told {
		l.told[model] = append(l.told[model], starts...)
	}
	clear(from.told)
}

// ask tells a start with what its log says, and again with its first answer.
func (l *startLogs) ask(ctx context.Context, model string, e ended, logged, answered bool) {
	defer func() {
		l.mu.Lock()
		l.waiting--
		l.mu.Unlock()
	}()
	if logged {
		l.readers <- struct{}{}
		s, err := l.explained(ctx, e)
		<-l.readers
		l.mu.Lock()
		l.told[model] = append(l.told[model], s)
		if err != nil && !l.failed && ctx.Err() == nil {
			l.log.Warn("a starting engine's log cannot be read: its phases stay unattributed", "pod", e.pod.String(), "error", err)
		}
		l.failed = err != nil
		l.mu.Unlock()
		e.Sample = s
	}
	if !answered {
		return
	}
	if s, ok := l.withAnswer(ctx, model, e); ok {
		l.mu.Lock()
		l.told[model] = append(l.told[model], s)
		l.mu.Unlock()
	}
}

// withAnswer is the start up to its first answer; ok is false when nobody asked soon enough, or it cannot be told.
func (l *startLogs) withAnswer(ctx context.Context, model string, e ended) (coldstart.Sample, bool) {
	ready := e.Started.Add(e.Total)
	until := ready.Add(answerWithin)
	timer := time.NewTimer(until.Add(answerSeen).Sub(l.now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return coldstart.Sample{}, false
	case <-timer.C:
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	at, ok, err := l.answer(ctx, model, e.pod.name, ready, until)
	if err != nil {
		l.log.Debug("the first answer of a replica cannot be asked for", "pod", e.pod.String(), "error", err)
	}
	if err != nil || !ok || !at.After(ready) || at.After(until) {
		return coldstart.Sample{}, false
	}
	s := e.Sample
	s.Phases, s.Sources = maps.Clone(s.Phases), maps.Clone(s.Sources)
	if s.Sources == nil {
		s.Phases, s.Sources = map[coldstart.Phase]time.Duration{}, map[coldstart.Phase]coldstart.Source{}
	}
	s.Total += at.Sub(ready)
	s.Phases[coldstart.FirstToken] += at.Sub(ready)
	s.Sources[coldstart.FirstToken] = coldstart.FromMetrics
	return s, true
}

// explained is the start with the phases inside its container; without them when its log cannot be read or tells nothing.
func (l *startLogs) explained(ctx context.Context, e ended) (coldstart.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := l.open(ctx, e.pod)
	if err != nil {
		return e.Sample, err
	}
	defer stream.Close() // only read from
	logs, err := evidence.ReadLog(io.LimitReader(stream, logBytesMax), fmt.Sprintf("log of %s", e.pod))
	if err != nil {
		return e.Sample, err
	}
	end := e.Started.Add(e.Total)
	engine, ok := evidence.EngineOf(logs, e.run, end)
	if !ok {
		return e.Sample, nil
	}
	s := e.Sample
	s.Phases, s.Sources = coldstart.Tally(coldstart.Timeline(s.Started, end, append(slices.Clone(e.spans), engine.Spans...), engine.Loose))
	s.Key.Engine, s.Key.Compile = cmp.Or(engine.Name, s.Key.Engine), engine.Compile
	s.Key.Weights = cmp.Or(s.Key.Weights, engine.Weights) // weights that an init container fetched the engine finds there
	if s.Key.Path == coldstart.WarmNode && s.Key.Image == coldstart.Cached && s.Key.Weights == coldstart.Cached {
		s.Key.Path = coldstart.CachedWeights
	}
	return s, nil
}
