package scaler

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// What may be let in is exported while replicas are short and not a plan longer; the time short is counted by owner.
func TestMetricsFollowTheAdmission(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() float64 { return 0 })
	check := func(want float64, metric string, labels ...string) {
		t.Helper()
		if got := gather(t, reg, metric, labels...); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s %v is %v, want %v", metric, labels, got, want)
		}
	}
	depth := 80
	short := &planner.Admission{Load: planner.Load{Prompt: 40_000, Completion: 400, Requests: 40}, Share: 0.5, QueueDepth: &depth,
		Cause: planner.ShortOfStarts, Owner: planner.OwnerPlatform}
	m.admission.observe("chat", short, 15*time.Second)
	m.admission.observe("chat", short, 15*time.Second)
	check(40_000, "forewarm_admissible_rate", "prompt", "chat")
	check(40, "forewarm_admissible_rate", "requests", "chat")
	check(80, "forewarm_admissible_queue_requests", "chat")
	check(30, "forewarm_short_seconds_total", "cold start", "chat", "platform")

	uncounted := *short
	uncounted.Load.Requests, uncounted.QueueDepth = 0, nil
	m.admission.observe("chat", &uncounted, 15*time.Second)
	check(math.NaN(), "forewarm_admissible_rate", "requests", "chat")
	check(math.NaN(), "forewarm_admissible_queue_requests", "chat")

	m.admission.observe("chat", nil, 15*time.Second)
	check(math.NaN(), "forewarm_admissible_rate", "prompt", "chat")
	check(45, "forewarm_short_seconds_total", "cold start", "chat", "platform")
}
