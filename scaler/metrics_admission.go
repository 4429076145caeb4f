package scaler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// admissionMetrics tell a gateway what to let in while replicas are short. The gauges have no series otherwise: a gateway
// that finds none sheds nothing.
type admissionMetrics struct {
	rate, queue *prometheus.GaugeVec
	short       *prometheus.CounterVec
}

func (m *admissionMetrics) observe(model string, a *planner.Admission, interval time.Duration) {
	if a == nil {
		m.rate.DeletePartialMatch(prometheus.Labels{"model": model})
		m.queue.DeleteLabelValues(model)
		return
	}
	m.rate.WithLabelValues(model, "prompt").Set(float64(a.Load.Prompt))
	m.rate.WithLabelValues(model, "completion").Set(float64(a.Load.Completion))
	if a.Load.Requests > 0 || a.Share == 0 {
		m.rate.WithLabelValues(model, "requests").Set(float64(a.Load.Requests))
	} else {
		m.rate.DeleteLabelValues(model, "requests")
	}
	if a.QueueDepth != nil {
		m.queue.WithLabelValues(model).Set(float64(*a.QueueDepth))
	} else {
		m.queue.DeleteLabelValues(model)
	}
	m.short.WithLabelValues(model, string(a.Cause), string(a.Owner)).Add(interval.Seconds())
}
