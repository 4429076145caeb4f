package scaler

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// A finding is exported while the newest plan has it and not a plan longer; a rule without data is no finding.
func TestMetricsFollowTheFindings(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() float64 { return 0 })
	check := func(owner, rule, verdict string, want float64) {
		t.Helper()
		got := gather(t, reg, "forewarm_finding", "chat", owner, rule, verdict)
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%s %s is %v, want %v", rule, verdict, got, want)
		}
	}
	m.observeFindings("chat", []planner.Finding{
		{Rule: planner.RuleThrottling, Verdict: planner.Veto, Owner: planner.OwnerApplication},
		{Rule: planner.RuleImbalance, Verdict: planner.Unknown, Missing: []string{"queues"}},
	})
	check("application", "R1", "veto", 1)
	check("", "R5", "unknown", math.NaN())
	m.observeFindings("chat", nil)
	check("application", "R1", "veto", math.NaN())
}
