package prom

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/coldstart"
)

// exportedStarts is what two forewarmd export of the same starts, hour by hour; the second began later, and the first was
// restarted in hour 5, where its counters fall.
func exportedStarts(totals map[int][]float64, hours int) []sampleJSON {
	bounds := append(prometheus.ExponentialBuckets(5, 1.3, 26), math.Inf(1))
	series := map[string]*sampleJSON{}
	var order []string
	for _, process := range []string{"a", "b"} {
		counts := make([]float64, len(bounds))
		for h := range hours {
			if process == "a" && h == 5 {
				counts = make([]float64, len(bounds))
			}
			for _, x := range totals[h] {
				for i, b := range bounds {
					if x <= b && (process == "a" || h >= 2) {
						counts[i]++
					}
				}
			}
			if process == "b" && h < 2 {
				continue
			}
			for i, b := range bounds {
				key := fmt.Sprintf("%s %g", process, b)
				if series[key] == nil {
					series[key] = &sampleJSON{Metric: map[string]string{"__name__": startsMetric, "model": "chat-70b", "path": "warm_node",
						"instance": process, "le": fmt.Sprintf("%g", b)}}
					order = append(order, key)
				}
				series[key].Values = append(series[key].Values, []any{float64(startsFrom.Add(time.Duration(h) * time.Hour).Unix()), fmt.Sprint(counts[i])})
			}
		}
	}
	var out []sampleJSON
	for _, key := range order {
		out = append(out, *series[key])
	}
	return out
}

var startsFrom = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// What a fresh replica learns from Prometheus is what the old one knew, within the width of a bucket: each start once,
// though two processes counted it and one of them began anew.
func TestStartsFromMetrics(t *testing.T) {
	totals := map[int][]float64{0: {100, 101, 102}, 1: {400}, 3: {100, 150, 210, 5000}, 5: {120, 130}, 6: {99}}
	f := healthy()
	f.spoil = func(w http.ResponseWriter, _ *http.Request, path, query string) bool {
		if path != "/api/v1/query_range" || !strings.Contains(query, "start_seconds") {
			return false
		}
		if query == failedMetric+`{model="chat-70b"}` {
			f.answer(w, map[string]any{"resultType": "matrix", "result": exportedStarts(map[int][]float64{2: {610}, 4: {5000}}, 8)})
			return true
		}
		if query != startsMetric+`{model="chat-70b"}` {
			t.Errorf("asked %s", query)
		}
		f.answer(w, map[string]any{"resultType": "matrix", "result": append(exportedStarts(totals, 8),
			sampleJSON{Metric: map[string]string{"le": "1", "path": "hot"}, Values: [][]any{{0.0, "7"}}},
			sampleJSON{Metric: map[string]string{"le": "wide", "path": "warm_node"}, Values: [][]any{{0.0, "7"}}})})
		return true
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	got, err := s.Starts(t.Context(), "chat-70b", startsFrom, startsFrom.Add(8*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	served, pending, failed := 0, 0, 0
	for _, x := range got {
		if err := ledger.Add(x); err != nil {
			t.Error(err)
		}
		switch x.Outcome {
		case coldstart.Served:
			served++
		case coldstart.Pending:
			pending++
			if x.Total < 50*time.Minute || x.Total > 5000*time.Second {
				t.Errorf("longer than every bucket: %v", x.Total)
			}
		case coldstart.Failed:
			failed++
			if x.Total < 500*time.Second {
				t.Errorf("failed after %v", x.Total)
			}
		}
		if text, _ := json.Marshal(x.Key); string(text) != `{"model":"chat-70b","path":"warm_node"}` {
			t.Errorf("key %s", text)
		}
	}
	if served != 10 || pending != 1 || failed != 2 || len(ledger.Samples()) != 13 {
		t.Errorf("%d served, %d pending and %d failed of %d: want 10, 1, 2 and 13", served, pending, failed, len(ledger.Samples()))
	}
	lt := coldstart.Measure(got)
	for p, want := range map[float64]float64{.3: 101, .85: 400} {
		if x := lt.Quantile(p).Seconds(); x < want/1.3 || x > want*1.3 {
			t.Errorf("p%v is %v: want about %v", 100*p, x, want)
		}
	}
	if _, err := s.Starts(t.Context(), "nobody", startsFrom, startsFrom.Add(time.Hour)); err == nil {
		t.Error("a model that is not configured has starts")
	}
}

// A process that began anew is told by all of its buckets together: one that has not fallen says nothing by itself.
func TestCounterResets(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		why               string
		before, now, want map[float64]float64
	}{
		{"no earlier value", nil, map[float64]float64{50: 0, 100: 2, inf: 2}, map[float64]float64{50: 0, 100: 2, inf: 2}},
		{"two more", map[float64]float64{50: 1, 100: 3, inf: 3}, map[float64]float64{50: 1, 100: 4, inf: 5},
			map[float64]float64{50: 0, 100: 1, inf: 2}},
		{"all have fallen", map[float64]float64{50: 1, 100: 3, inf: 3}, map[float64]float64{50: 0, 100: 0, inf: 1}, nil},
		{"one has fallen, the last has grown", map[float64]float64{50: 2, 100: 2, inf: 2}, map[float64]float64{50: 0, 100: 1, inf: 3}, nil},
		{"none has fallen, but they do not fit together", map[float64]float64{50: 0, 100: 2, inf: 2}, map[float64]float64{50: 1, 100: 2, inf: 2}, nil},
	} {
		if got := less(test.now, test.before); !maps.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: got %v, want %v", test.why, got, test.want)
		}
	}
}

// The first answer of a pod is the first scrape that counts a completed request, over all series of the pod.
func TestFirstAnswer(t *testing.T) {
	f := healthy()
	f.series = append(f.series, map[string]string{"__name__": "vllm:request_success_total", "pod": "pod-a", "model_name": "chat-70b", "namespace": "llm"})
	counts := map[string][]string{"stop": {"0", "0", "2"}, "length": {"0", "1", "1"}}
	to := time.Unix(1_800_000_000, 0).UTC()
	f.spoil = func(w http.ResponseWriter, _ *http.Request, _, query string) bool {
		if !strings.HasPrefix(query, "vllm:request_success_total") || !strings.HasSuffix(query, "[120000ms]") {
			return false
		}
		if !strings.Contains(query, `pod="pod-a"`) {
			f.answer(w, map[string]any{"resultType": "matrix", "result": []sampleJSON{}})
			return true
		}
		var out []sampleJSON
		for reason, values := range counts {
			one := sampleJSON{Metric: map[string]string{"finished_reason": reason}}
			for i, v := range values {
				one.Values = append(one.Values, []any{float64(to.Unix() - 90 + int64(15*i)), v})
			}
			out = append(out, one)
		}
		f.answer(w, map[string]any{"resultType": "matrix", "result": out})
		return true
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	at, ok, err := s.FirstAnswer(t.Context(), "chat-70b", "pod-a", to.Add(-2*time.Minute), to)
	if err != nil || !ok || !at.Equal(to.Add(-75*time.Second)) {
		t.Errorf("got %v, %t, %v: want %v", at, ok, err, to.Add(-75*time.Second))
	}
	if at, ok, err := s.FirstAnswer(t.Context(), "chat-70b", "pod-b", to.Add(-2*time.Minute), to); err != nil || ok {
		t.Errorf("a pod without series answered at %v, %v", at, err)
	}
	if _, _, err := s.FirstAnswer(t.Context(), "nobody", "pod-a", to.Add(-2*time.Minute), to); err == nil {
		t.Error("a model that is not configured answered")
	}
}
