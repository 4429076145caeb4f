package scaler

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

func TestAPI(t *testing.T) {
	now := monday
	w := &world{load: 3000, ready: 2}
	l := newLoop(t, w, nil)
	ready := false
	mux := http.NewServeMux()
	(&API{Loop: l, Now: func() time.Time { return now }, Ready: func() bool { return ready }, StaleAfter: 45 * time.Second}).Register(mux)
	get := func(path string) (int, string) {
		r := httptest.NewRecorder()
		mux.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		return r.Code, r.Body.String()
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/api/plan": 503, "/": 200, "/nowhere": 404} {
		if code, body := get(path); code != want {
			t.Errorf("before the first plan %s gives %d, want %d: %s", path, code, want, body)
		}
	}
	ready = true
	l.Tick(context.Background(), now)
	now = now.Add(time.Minute)
	if code, _ := get("/readyz"); code != 200 {
		t.Errorf("/readyz gives %d", code)
	}
	if code, body := get("/api/plan?model=nobody"); code != 404 || !strings.Contains(body, "chat") {
		t.Errorf("an unknown model gives %d: %s", code, body)
	}
	code, body := get("/api/plan?model=chat")
	var v planner.PlanView
	if err := json.Unmarshal([]byte(body), &v); err != nil || code != 200 {
		t.Fatalf("%d, %v: %s", code, err, body)
	}
	if v.Model.Replicas == nil || *v.Model.Replicas < 3 || v.Version != 1 || !v.Stale || v.AgeSeconds != 60 || len(v.Model.Steps) == 0 {
		t.Errorf("the view is %+v", v)
	}
	var all struct {
		Version int64              `json:"version"`
		Models  []planner.PlanView `json:"models"`
	}
	if _, body := get("/api/plan"); json.Unmarshal([]byte(body), &all) != nil || len(all.Models) != 1 || all.Version != 1 {
		t.Errorf("the list is %s", body)
	}
	if _, body := get("/"); !strings.Contains(body, "chat") || !strings.Contains(body, "1m0s old") {
		t.Errorf("the table is\n%s", body)
	}
	if _, body := get("/api/status"); !strings.Contains(body, `"part": "observe"`) {
		t.Errorf("the status is %s", body)
	}
}

// gather reads one metric by name and label values; NaN when it is absent.
func gather(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, ",") == strings.Join(labels, ",") {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return math.NaN()
}

func TestMetricsFollowTheTicks(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := &world{load: 3000, ready: 2}
	l := newLoop(t, w, func(c *Config) { c.Metrics = NewMetrics(reg, func() float64 { return 7 }) })
	next := ticks(l, monday, 60) // a quarter of an hour: forecasts of three to eight minutes ahead have matured
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"forewarm_plan_age_seconds", nil, 7},
		{"forewarm_decisions_total", nil, 60},
		{"forewarm_replicas", []string{"ready", "chat"}, 2},
		{"forewarm_replicas", []string{"planned", "chat"}, float64(planned(t, l))},
		{"forewarm_load_tokens_per_second", []string{"completion", "chat"}, 3000},
		{"forewarm_forecast_error_ratio", []string{"completion", "chat"}, 0},
		{"forewarm_last_good_timestamp_seconds", []string{"observe"}, float64(monday.Add(59 * 15 * time.Second).Unix())},
	} {
		if got := gather(t, reg, tt.name, tt.labels...); got != tt.want {
			t.Errorf("%s%v is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
	matured := gather(t, reg, "forewarm_forecasts_matured_total", "completion", "chat")
	if covered := gather(t, reg, "forewarm_forecasts_covered_total", "completion", "chat"); !(matured >= 3) || covered != matured {
		t.Errorf("%v forecasts matured, %v covered: a constant load must cover all", matured, covered)
	}
	w.observeErr = context.DeadlineExceeded
	ticks(l, next, 2)
	if got := gather(t, reg, "forewarm_tick_failures_total", "observe"); got != 2 {
		t.Errorf("%v failures counted, want 2", got)
	}
	if got := gather(t, reg, "forewarm_replicas", "ready", "chat"); !math.IsNaN(got) {
		t.Errorf("an unknown count of ready replicas is exported as %v", got)
	}
	if got := gather(t, reg, "forewarm_gaps", ""); got != 1 {
		t.Errorf("%v gaps of the whole cluster, want that of the observation", got)
	}
	ticks(l, next, 140) // beyond the forecast
	if got := gather(t, reg, "forewarm_forecast_peak_tokens_per_second", "prompt", "chat"); !math.IsNaN(got) {
		t.Errorf("the peak of a forecast that has ended is exported as %v", got)
	}
}

// The lead time of a model is one series, that of the path of the newest plan, and none when it is unknown.
func TestMetricsFollowTheStartPath(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, func() float64 { return 0 })
	const name = "forewarm_lead_time_seconds"
	for _, tt := range []struct {
		lead       *planner.Lead
		warm, cold float64
	}{
		{&planner.Lead{Path: "warm_node", Time: time.Minute}, 60, math.NaN()},
		{&planner.Lead{Path: "cold_node", Time: 5 * time.Minute}, math.NaN(), 300},
		{nil, math.NaN(), math.NaN()},
		{&planner.Lead{Path: "warm_node", Time: 2 * time.Minute}, 120, math.NaN()},
	} {
		m.observeLead("chat", tt.lead)
		for path, want := range map[string]float64{"warm_node": tt.warm, "cold_node": tt.cold} {
			if got := gather(t, reg, name, "chat", path); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("lead %+v: %s is %v, want %v", tt.lead, path, got, want)
			}
		}
	}
}
