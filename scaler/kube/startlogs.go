package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
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
)

// ended is a start that has ended, with what its log is needed for.
type ended struct {
	coldstart.Sample
	pod      *pod // nil when it did not serve
	run      time.Time
	spans    []coldstart.Span
	complete bool // nothing is to be learned from a log
}

// startLogs reads the log of the engine's container of every replica that became ready, once, beside the looks: the
// phases inside the container are nowhere else. A start is told when its log has been read, at a later look.
type startLogs struct {
	log     *slog.Logger
	open    func(ctx context.Context, p *pod) (io.ReadCloser, error)
	readers chan struct{}

	mu      sync.Mutex
	waiting int
	told    map[string][]coldstart.Sample // by model
	failed  bool                          // the latest log could not be read
}

func newStartLogs(api kubernetes.Interface, log *slog.Logger) *startLogs {
	limit := int64(logBytesMax)
	return &startLogs{log: log, readers: make(chan struct{}, logReaders), told: map[string][]coldstart.Sample{},
		open: func(ctx context.Context, p *pod) (io.ReadCloser, error) {
			return api.CoreV1().Pods(p.namespace).GetLogs(p.name,
				&corev1.PodLogOptions{Container: p.engine, Timestamps: true, LimitBytes: &limit}).Stream(ctx)
		}}
}

// through takes the starts of a model that have ended since the last look and returns those that can be told now: at once
// without a log, later with one. spawn runs a function beside the looks, under a context that ends with the Observer.
func (l *startLogs) through(model string, new []ended, spawn func(func(context.Context))) []coldstart.Sample {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.told[model]
	delete(l.told, model)
	for _, e := range new {
		if e.complete || l.waiting >= logQueue {
			out = append(out, e.Sample)
			continue
		}
		l.waiting++
		spawn(func(ctx context.Context) { l.read(ctx, model, e) })
	}
	slices.SortFunc(out, func(a, b coldstart.Sample) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// read adds what the log tells to a start.
func (l *startLogs) read(ctx context.Context, model string, e ended) {
	l.readers <- struct{}{}
	defer func() { <-l.readers }()
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	s, err := l.explained(ctx, e)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	l.told[model] = append(l.told[model], s)
	if err != nil && !l.failed && ctx.Err() == nil {
		l.log.Warn("a starting engine's log cannot be read: its phases stay unattributed", "pod", e.pod.String(), "error", err)
	}
	l.failed = err != nil
}

// explained is the start with the phases inside its container; without them when its log cannot be read or tells nothing.
func (l *startLogs) explained(ctx context.Context, e ended) (coldstart.Sample, error) {
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
	s.Key.Engine, s.Key.Weights, s.Key.Compile = engine.Name, engine.Weights, engine.Compile
	if s.Key.Path == coldstart.WarmNode && s.Key.Image == coldstart.Cached && s.Key.Weights == coldstart.Cached {
		s.Key.Path = coldstart.CachedWeights
	}
	return s, nil
}
