package scaler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/coldstart"
)

// startMetrics count the cold starts that were watched. Classic buckets go with native ones, so that what was learned can
// be read back from whatever keeps the metrics (prom.Client.Starts reads forewarm_start_seconds).
type startMetrics struct {
	total  *prometheus.HistogramVec
	phases *prometheus.HistogramVec
	starts *prometheus.CounterVec
	seen   map[string]coldstart.Outcome // by ID, of the starts that have been counted
	order  []string                     // their IDs, oldest first
}

const (
	// nativeFactor is the growth of native buckets, nativeBuckets how many of them a series may have.
	nativeFactor  = 1.1
	nativeBuckets = 100
	nativeReset   = 24 * time.Hour
	// startsSeen is how many starts are remembered so that none is counted twice.
	startsSeen = 4096
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
		total:  histogram("start_seconds", "Cold starts that served: from the order to the end of the start as it was first told, which is readiness where the first answer is read later.", startBuckets, "model", "path"),
		phases: histogram("start_phase_seconds", "Phases of cold starts that served.", phaseBuckets, "model", "phase"),
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forewarm", Name: "starts_total",
			Help: "Cold starts that ended, by outcome; pending is a replica that was deleted while it started."}, []string{"model", "path", "outcome"}),
		seen: map[string]coldstart.Outcome{},
	}
	reg.MustRegister(m.starts)
	return m
}

// observe counts starts of a model that have ended. One that is told again, longer by the
// time to its first answer, counts once, as it was told first: a histogram takes nothing back.
func (m *startMetrics) observe(model string, starts []coldstart.Sample) {
	for _, s := range starts {
		s.Key.Model = model
		if s.Validate() != nil || !m.news(s) { // what is wrong with it the tracker reports
			continue
		}
		path := pathLabel(s.Key.Path)
		m.starts.WithLabelValues(model, path, string(s.Outcome)).Inc()
		if s.Outcome != coldstart.Served {
			continue
		}
		m.total.WithLabelValues(model, path).Observe(s.Total.Seconds())
		for phase, took := range s.Explained() {
			m.phases.WithLabelValues(model, string(phase)).Observe(took.Seconds())
		}
	}
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
