package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"forewarm/scaler/keda"
)

// kedaCollector exports the figures of the KEDA endpoint.
type kedaCollector struct{ server *keda.Server }

var (
	kedaRequests = prometheus.NewDesc("forewarm_keda_requests_total", "Calls by KEDA, by method and gRPC code.",
		[]string{"method", "code"}, nil)
	kedaStreams = prometheus.NewDesc("forewarm_keda_streams", "Streams open now.", nil, nil)
	kedaLast    = prometheus.NewDesc("forewarm_keda_last_request_timestamp_seconds",
		"When KEDA last called; absent until it did.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c kedaCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- kedaRequests
	ch <- kedaStreams
	ch <- kedaLast
}

// Collect implements prometheus.Collector.
func (c kedaCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.server.Stats()
	for _, r := range s.Requests {
		ch <- prometheus.MustNewConstMetric(kedaRequests, prometheus.CounterValue, float64(r.Count), r.Method, r.Code)
	}
	ch <- prometheus.MustNewConstMetric(kedaStreams, prometheus.GaugeValue, float64(s.Streams))
	if !s.LastRequest.IsZero() {
		ch <- prometheus.MustNewConstMetric(kedaLast, prometheus.GaugeValue, float64(s.LastRequest.UnixNano())/1e9)
	}
}
