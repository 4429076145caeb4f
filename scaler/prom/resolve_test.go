package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

func series(name string, labels ...string) map[string]string {
	m := map[string]string{"__name__": name}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return m
}

func TestCheckFindings(t *testing.T) {
	other := ModelConfig{Name: "chat-fr", Matchers: []string{`model_name=~"chat.*"`}, Workloads: simpleModel.Workloads}
	byNamespace := ModelConfig{Name: "chat-70b", Matchers: []string{`namespace="llm"`}, Workloads: simpleModel.Workloads}
	exportedNamespace := ModelConfig{Name: "chat-70b", Matchers: []string{`model_name="chat-70b",namespace="prod"`},
		Workloads: simpleModel.Workloads}
	two := append(vllmSeries("pod-a", "chat-70b"), vllmSeries("pod-a", "code-8b")...)
	triton := []map[string]string{
		series("nv_trt_llm_request_metrics", "request_type", "waiting", "pod", "pod-a", "model_name", "chat-70b"),
		series("nv_inference_request_success", "pod", "pod-a", "model_name", "chat-70b"),
	}
	relabeled := vllmSeries("pod-a", "chat-70b")
	for _, s := range relabeled {
		s["namespace"], s["exported_namespace"] = "monitoring", "prod"
	}
	bypassed := append(vllmSeries("pod-a", "chat-70b"),
		series("inference_objective_input_tokens_sum", "model_name", "x", "target_model_name", "chat-70b"),
		series("inference_objective_output_tokens_sum", "model_name", "x", "target_model_name", "chat-70b"))
	tests := map[string]struct {
		models []ModelConfig
		series []map[string]string
		kube   []sampleJSON
		want   []string
	}{
		"all well":  {[]ModelConfig{simpleModel}, vllmSeries("pod-a", "chat-70b"), healthyKube(), nil},
		"no series": {[]ModelConfig{simpleModel}, nil, healthyKube(), []string{"error chat-70b series: no series matches"}},
		"two models where one was asked": {[]ModelConfig{byNamespace}, two, healthyKube(),
			[]string{`error chat-70b names: "namespace=\"llm\"" matches 2 models where one was asked: chat-70b, code-8b`}},
		"one series in two models": {[]ModelConfig{simpleModel, other}, vllmSeries("pod-a", "chat-70b"), healthyKube(),
			[]string{"error chat-fr overlap: 4 series are counted by chat-70b too"}},
		"the namespace is exported": {[]ModelConfig{exportedNamespace}, relabeled, healthyKube(), []string{
			"error chat-70b series: no series matches",
			`info chat-70b series: 4 series would match without namespace="prod"; there exported_namespace="prod", namespace="monitoring" exist`}},
		"no token counters": {[]ModelConfig{simpleModel}, triton, healthyKube(),
			[]string{"error chat-70b names: triton exposes no token counters"}},
		"no queue gauge": {[]ModelConfig{simpleModel}, vllmSeries("pod-a", "chat-70b")[:2], healthyKube(),
			[]string{"warning chat-70b names: no gauge of waiting requests"}},
		"silent replica": {[]ModelConfig{simpleModel}, vllmSeries("pod-rank-0", "chat-70b"), healthyKube(),
			[]string{"warning chat-70b series: of 1 ready pods 1 (100 %) have no matching series: pod-a"}},
		"no kube-state-metrics": {[]ModelConfig{simpleModel}, vllmSeries("pod-a", "chat-70b"), nil,
			[]string{"error chat-70b replicas: kube_deployment_spec_replicas of Deployment llm/chat-70b is absent"}},
		"bypassed gateway": {[]ModelConfig{simpleModel}, bypassed, healthyKube(),
			[]string{"warning chat-70b arrivals: the gateway counted 10 % of the completion tokens"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fakeServer{series: tt.series, kube: tt.kube, value: func(key string, at time.Time) (string, bool) {
				switch key {
				case "served":
					return "200", true
				case "gateway":
					return "20", true
				}
				return steady(key, at)
			}}
			findings, err := newSource(t, testConfig(f.start(t)), tt.models...).Check(context.Background(), testNow)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range findings {
				line := fmt.Sprintf("%s %s %s: %s", got.Severity, got.Model, got.Subject, got.Text)
				if i >= len(tt.want) || !strings.HasPrefix(line, tt.want[i]) {
					t.Errorf("finding %d: %s", i, line)
				}
				if got.Remedy == "" {
					t.Errorf("no remedy: %s", got)
				}
			}
			if len(findings) != len(tt.want) {
				t.Errorf("%d findings, want %d: %v", len(findings), len(tt.want), tt.want)
			}
		})
	}
}

// Every engine's names resolve to its facts, and an old and a new name are read as alternatives.
func TestResolveEngines(t *testing.T) {
	for _, family := range engines {
		f := &fakeServer{value: steady}
		for _, m := range family.all() {
			s := series(m.name, "pod", "pod-a", "model_name", "chat-70b")
			for _, fixed := range m.fixed {
				s[fixed.label] = fixed.value
			}
			f.series = append(f.series, s)
		}
		s := newSource(t, testConfig(f.start(t)), simpleModel)
		res, err := s.Resolve(context.Background(), "chat-70b", testNow)
		if err != nil {
			t.Fatal(err)
		}
		if res.Engine != family.name || len(res.Metrics) != len(family.metrics) || res.ScrapeInterval != 15*time.Second {
			t.Errorf("%s: %+v", family.name, res)
		}
		hinted := simpleModel
		hinted.Engine = "vllm"
		if family.name == "vllm" {
			hinted.Engine = "sglang"
		}
		res, err = newSource(t, testConfig(f.start(t)), hinted).Resolve(context.Background(), "chat-70b", testNow)
		if err != nil || res.Engine != "" || res.Matched != 0 {
			t.Errorf("%s with hint %s: %+v, %v", family.name, hinted.Engine, res, err)
		}
	}
}

func TestGatewayMatchers(t *testing.T) {
	model := mustParse([]string{`model_name="a",namespace="llm"`, `model_name=~"b.*"`, `pod="x"`})
	got := fmt.Sprint(Arrivals{}.gatewaySets(gieFamily, model))
	want := `[target_model_name="a" model_name="a",target_model_name="" target_model_name=~"b.*" model_name=~"b.*",target_model_name=""]`
	if got != want {
		t.Errorf("inference extension: %s, want %s", got, want)
	}
	got = fmt.Sprint(Arrivals{}.gatewaySets(genAIFamily, model))
	if want = `[gen_ai_request_model="a" gen_ai_request_model=~"b.*"]`; got != want {
		t.Errorf("gen-ai: %s, want %s", got, want)
	}
	custom := Arrivals{Source: ArrivalsCustom, Requests: []string{`enqueued_total{pool="p"}`}}
	if f := custom.gatewayFamilies()[0]; f.metrics[FactRequests][0].selector(custom.gatewaySets(f, model)[0]) != `enqueued_total{pool="p"}` {
		t.Errorf("custom: %v", f)
	}
}

func TestArrivalsIndependent(t *testing.T) {
	for name, tt := range map[string]struct {
		extra []map[string]string
		want  bool
		why   string
	}{
		"served only": {nil, false, "no metric of a gateway"},
		"queue": {[]map[string]string{series("llm_d_epp_flow_control_queue_size", "target_model_name", "chat-70b")},
			true, "llm_d_epp_flow_control_queue_size"},
		"tokens only": {[]map[string]string{
			series("gen_ai_client_token_usage_sum", "gen_ai_request_model", "chat-70b", "gen_ai_token_type", "input")},
			false, "counts only tokens"},
	} {
		f := healthy()
		f.series = append(f.series, tt.extra...)
		s := newSource(t, testConfig(f.start(t)), simpleModel)
		if ok, why := s.ArrivalsIndependent("chat-70b"); ok || !strings.Contains(why, "not been looked up") {
			t.Errorf("%s, before: %v, %s", name, ok, why)
		}
		if _, err := s.Resolve(context.Background(), "chat-70b", testNow); err != nil {
			t.Fatal(err)
		}
		if ok, why := s.ArrivalsIndependent("chat-70b"); ok != tt.want || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %v, %s", name, ok, why)
		}
	}
	if _, err := newSource(t, testConfig("http://p"), simpleModel).Resolve(context.Background(), "chat-7b", testNow); err == nil ||
		!strings.Contains(err.Error(), "known are chat-70b") {
		t.Errorf("unknown model: %v", err)
	}
}

// Names found once are trusted for a while when they cannot be looked up again, and a tick of many models costs few
// queries.
func TestManyModels(t *testing.T) {
	const n = 1000
	f := healthy()
	f.series = nil
	var models []ModelConfig
	for i := range n {
		name := fmt.Sprintf("model-%04d", i)
		models = append(models, ModelConfig{Name: name, Matchers: []string{fmt.Sprintf("model_name=%q", name)},
			Workloads: simpleModel.Workloads, Arrivals: Arrivals{Source: ArrivalsNone}})
	}
	s := newSource(t, testConfig(f.start(t)), models...)
	for _, m := range models {
		s.resolved[m.Name] = &resolved{cfg: m, podLabel: "pod", expires: testNow.Add(time.Minute),
			served: &source{windows{time.Minute, 15 * time.Second}, "vllm", engines[0].metrics, mustParse(m.Matchers), nil}}
	}
	obs, err := s.Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range obs.Models {
		if m.Load.Prompt.Known() != 10 || m.Running == nil {
			t.Fatalf("%s: %+v", m.Name, m)
		}
	}
	if got := f.asked(""); got > 120 {
		t.Errorf("%d queries for %d models, want at most 120", got, n)
	}

	// An hour later the names are old and the look-ups fail: the old names still serve.
	f.spoil = func(w http.ResponseWriter, _ *http.Request, _, query string) bool {
		if strings.HasPrefix(query, "last_over_time({__name__") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	if obs, err = s.Observe(context.Background(), testNow.Add(time.Hour)); err != nil || obs.Models[n-1].Load.Prompt.Known() != 10 {
		t.Errorf("with old names: %v", err)
	}
}

func TestScrapeInterval(t *testing.T) {
	at := func(seconds ...float64) *model.SampleStream {
		s := &model.SampleStream{}
		for _, sec := range seconds {
			s.Values = append(s.Values, model.SamplePair{Timestamp: model.Time(sec * 1000)})
		}
		return s
	}
	for want, all := range map[time.Duration]model.Matrix{
		0:                {at(0, 15)},
		15 * time.Second: {at(0.003, 15, 30.004, 60, 75)},
		30 * time.Second: {at(0, 15, 30), at(3, 33, 63)},
	} {
		if got := scrapeInterval(all); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// BenchmarkHistory decodes and assembles four weeks of one model at one minute, as the server answers them in chunks:
// seven expressions on 40,320 steps.
func BenchmarkHistory(b *testing.B) {
	cfg := DefaultConfig()
	g := newGrid(testNow.AddDate(0, 0, -28), testNow.Truncate(time.Minute), cfg.Step)
	r := &resolved{served: &source{windows{time.Minute, 15 * time.Second}, "vllm", engines[0].metrics, nil, nil}}
	var bodies [][]byte
	for lo := 0; lo < g.n; lo += cfg.HistoryChunk {
		part := g.slice(lo, min(lo+cfg.HistoryChunk, g.n))
		var m model.Matrix
		for _, key := range []string{"served.prompt_tokens", "served.completion_tokens", "served.requests", keyServedCover,
			keyWaiting, keyReporting, keyReady} {
			s := &model.SampleStream{Metric: model.Metric{factLabel: model.LabelValue(key)}}
			for i := range part.n {
				s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnixNano(part.end(i).UnixNano()),
					Value: model.SampleValue(7 + float64(i%997)/3)})
			}
			m = append(m, s)
		}
		body, err := json.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	for b.Loop() {
		c := columns{}
		for i, body := range bodies {
			var m model.Matrix
			if err := json.Unmarshal(body, &m); err != nil {
				b.Fatal(err)
			}
			lo := i * cfg.HistoryChunk
			part := g.slice(lo, min(lo+cfg.HistoryChunk, g.n))
			got, err := decode(m, part)
			if err != nil {
				b.Fatal(err)
			}
			c.paste(got, g, lo)
		}
		if h, _, _ := r.load(c, "", g); h.Prompt.Known() != g.n {
			b.Fatalf("%d steps known of %d", h.Prompt.Known(), g.n)
		}
	}
	b.ReportMetric(float64(g.n), "steps")
}
