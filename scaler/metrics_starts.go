package scaler

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/coldstart"
)

// startMetrics count the cold starts that were watched. Classic buckets go with native ones, so that what was learned can
// be read back from whatever keeps the metrics (prom.Source.Starts reads start_seconds and failed_start_seconds). A
// histogram takes nothing back, so a start that served waits for its last word: a source tells it when the replica is
// ready, and once more with its first answer.
type startMetrics struct {
	total    *prometheus.HistogramVec
	failed   *prometheus.HistogramVec
	phases   *prometheus.HistogramVec
	starts   *prometheus.CounterVec
	settling []settlingStart              // served, oldest first
	seen     map[string]coldstart.Outcome // by ID, of the starts that have been counted
	order    []string                     // their IDs, oldest first
}

// A settlingStart has served and may still be told again.
type settlingStart struct {
	coldstart.Sample
	until time.Time
}

const (
	// nativeFactor is the growth of native buckets, nativeBuckets how many of them a series may have.
	nativeFactor  = 1.1
	nativeBuckets = 100
	nativeReset   = 24 * time.Hour
	// startsSeen is how many starts are remembered so that none is counted twice.
	startsSeen = 4096
	// startSettles is how long after a start was first told its first answer may still come: the cluster's source waits for
	// it two minutes, and about one for the metrics and the log.
	startSettles = 5 * time.Minute
)

// startBuckets are 30 % apart, from 5 s to an hour: the lead time that is read back from them is off by 15 % at most.
var startBuckets = prometheus.ExponentialBuckets(5, 1.3, 26)

// phaseBuckets are coarser, because there are as many series as phases: they are for people.
var phaseBuckets = prometheus.ExponentialBuckets(1, 2, 12)

func newStartMetrics(reg prometheus.Registerer) *startMetrics {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "forewarm", Name: name, Help: help, Buckets: buckets,
			NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets,
			NativeHistogramMinResetDuration: nativeReset}, labels)
		reg.MustRegister(h)
		return h
	}
	m := &startMetrics{
		total:  histogram("start_seconds", "Cold starts that served, from the order to the first answer, or to readiness where nobody asked within two minutes; a start is in it five minutes after it was seen at the latest.", startBuckets, "model", "path"),
		failed: histogram("failed_start_seconds", "Cold starts that failed, from the order to when they gave up.", startBuckets, "model", "path"),
		phases: histogram("start_phase_seconds", "Phases of cold starts that served.", phaseBuckets, "model", "phase"),
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forewarm", Name: "starts_total",
			Help: "Cold starts that ended, by outcome; pending is a replica that was deleted while it started."}, []string{"model", "path", "outcome"}),
		seen: map[string]coldstart.Outcome{},
	}
	reg.MustRegister(m.starts)
	return m
}

// observe counts starts of a model that have ended, each once; those that served are in the histograms when settle has
// found that nothing more is to come.
func (m *startMetrics) observe(model string, starts []coldstart.Sample, now time.Time) {
	for _, s := range starts {
		s.Key.Model = model
		if s.Validate() != nil { // what is wrong with it the tracker reports
			continue
		}
		if i := slices.IndexFunc(m.settling, func(w settlingStart) bool { return w.ID == s.ID }); i >= 0 && s.Outcome == coldstart.Served {
			m.settling[i].Sample = s
		}
		if !m.news(s) {
			continue
		}
		m.starts.WithLabelValues(model, pathLabel(s.Key.Path), string(s.Outcome)).Inc()
		switch s.Outcome {
		case coldstart.Served:
			m.settling = append(m.settling, settlingStart{s, now.Add(startSettles)})
		case coldstart.Failed:
			m.failed.WithLabelValues(model, pathLabel(s.Key.Path)).Observe(s.Total.Seconds())
		}
	}
}

// settle puts into the histograms what will not be told again: starts with their first answer, and those that have waited
// long enough for it.
func (m *startMetrics) settle(now time.Time) {
	m.settling = slices.DeleteFunc(m.settling, func(s settlingStart) bool {
		if _, answered := s.Phases[coldstart.FirstToken]; !answered && now.Before(s.until) {
			return false
		}
		m.total.WithLabelValues(s.Key.Model, pathLabel(s.Key.Path)).Observe(s.Total.Seconds())
		for phase, took := range s.Explained() {
			m.phases.WithLabelValues(s.Key.Model, string(phase)).Observe(took.Seconds())
		}
		return true
	})
}

// news notes a start and reports whether it is to be counted: when it is new, or has served after all.
func (m *startMetrics) news(s coldstart.Sample) bool {
	was, counted := m.seen[s.ID]
	if counted && (was == s.Outcome || was == coldstart.Served) {
		return false
	}
	if !counted {
		if m.order = append(m.order, s.ID); len(m.order) > startsSeen {
			delete(m.seen, m.order[0])
			m.order = m.order[1:]
		}
	}
	m.seen[s.ID] = s.Outcome
	return true
}

// pathLabel names a start path; one that nobody observed needs a name too, since an empty label is none.
func pathLabel(p coldstart.Path) string {
	if p == coldstart.PathUnknown {
		return "unknown"
	}
	return string(p)
}
