package prom

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeServer speaks the part of the API that is used. It understands our queries only by the keys of their expressions:
// what a query computes is the real server's business, and tested with it.
type fakeServer struct {
	t *testing.T
	// series exist at all times: label sets with __name__.
	series []map[string]string
	// value answers the expression of a key at an instant.
	value func(key string, at time.Time) (string, bool)
	// kube answers the queries to kube-state-metrics.
	kube []sampleJSON
	// spoil may answer a request itself, for a fault.
	spoil func(w http.ResponseWriter, r *http.Request, path, query string) bool

	mu      sync.Mutex
	queries []string
}

type sampleJSON struct {
	Metric map[string]string `json:"metric"`
	Value  []any             `json:"value,omitempty"`
	Values [][]any           `json:"values,omitempty"`
}

func (f *fakeServer) start(t *testing.T) string {
	f.t = t
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL
}

func (f *fakeServer) asked(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, q := range f.queries {
		if strings.Contains(q, part) {
			n++
		}
	}
	return n
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		f.t.Errorf("form: %v", err)
	}
	query := r.Form.Get("query")
	f.mu.Lock()
	f.queries = append(f.queries, r.URL.Path+" "+query)
	f.mu.Unlock()
	if f.spoil != nil && f.spoil(w, r, r.URL.Path, query) {
		return
	}
	switch {
	case r.URL.Path == "/api/v1/label/__name__/values":
		var names []string
		for _, s := range f.series {
			names = append(names, s["__name__"])
		}
		f.answer(w, names)
	case r.URL.Path == "/api/v1/query_range":
		f.matrix(w, r, query)
	case strings.HasSuffix(query, "[600000ms]"):
		f.samples(w, r, query)
	case strings.HasPrefix(query, "last_over_time({__name__"):
		var out []sampleJSON
		for _, s := range f.series {
			if selects(query, s) {
				out = append(out, sampleJSON{Metric: s, Value: []any{f.seconds(r, "time"), "1"}})
			}
		}
		f.vector(w, out)
	case strings.Contains(query, "kube_") && !strings.Contains(query, factLabel):
		if strings.HasPrefix(query, "{") {
			f.vector(w, f.kube)
			return
		}
		f.vector(w, nil)
	case query == "vector(1)":
		f.vector(w, []sampleJSON{{Metric: map[string]string{}, Value: []any{f.seconds(r, "time"), "1"}}})
	default:
		var out []sampleJSON
		at := f.seconds(r, "time")
		for _, key := range keysOf(query) {
			if v, ok := f.value(key, unixTime(at)); ok {
				out = append(out, sampleJSON{Metric: map[string]string{factLabel: key}, Value: []any{at, v}})
			}
		}
		f.vector(w, out)
	}
}

// selects evaluates the matchers of a selector other than the one on the name.
func selects(query string, series map[string]string) bool {
	inner := query[strings.Index(query, "{")+1 : strings.Index(query, "}")]
	name := regexp.MustCompile(`__name__=~"([^"]*)",?`).FindStringSubmatch(inner)
	if name != nil && !regexp.MustCompile("^(?:"+name[1]+")$").MatchString(series["__name__"]) {
		return false
	}
	if name != nil {
		inner = strings.Replace(inner, name[0], "", 1)
	}
	ms, err := scanMatchers(inner)
	if err != nil {
		panic(err)
	}
	for _, m := range ms {
		if !m.matches(series[m.label]) {
			return false
		}
	}
	return true
}

var keyInQuery = regexp.MustCompile(`"` + factLabel + `","([^"]+)"`)

func keysOf(query string) []string {
	var keys []string
	for _, m := range keyInQuery.FindAllStringSubmatch(query, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

func (f *fakeServer) seconds(r *http.Request, key string) float64 {
	v, err := strconv.ParseFloat(r.Form.Get(key), 64)
	if err != nil {
		f.t.Errorf("%s: %v", key, err)
	}
	return v
}

func (f *fakeServer) matrix(w http.ResponseWriter, r *http.Request, query string) {
	var out []sampleJSON
	start, end, step := f.seconds(r, "start"), f.seconds(r, "end"), f.seconds(r, "step")
	for _, key := range keysOf(query) {
		s := sampleJSON{Metric: map[string]string{factLabel: key}}
		for at := start; at <= end; at += step {
			if v, ok := f.value(key, unixTime(at)); ok {
				s.Values = append(s.Values, []any{at, v})
			}
		}
		if s.Values != nil {
			out = append(out, s)
		}
	}
	f.answer(w, map[string]any{"resultType": "matrix", "result": out})
}

// samples answers a range selector: every series it selects, scraped each 15 s.
func (f *fakeServer) samples(w http.ResponseWriter, r *http.Request, query string) {
	var out []sampleJSON
	at := f.seconds(r, "time")
	for _, s := range f.series {
		if name, _, _ := strings.Cut(query, "{"); s["__name__"] != name || !selects(query, s) {
			continue
		}
		one := sampleJSON{Metric: s}
		for back := 595.0; back > 0; back -= 15 {
			one.Values = append(one.Values, []any{at - back, "1"})
		}
		out = append(out, one)
	}
	f.answer(w, map[string]any{"resultType": "matrix", "result": out})
}

func (f *fakeServer) vector(w http.ResponseWriter, samples []sampleJSON) {
	if samples == nil {
		samples = []sampleJSON{}
	}
	f.answer(w, map[string]any{"resultType": "vector", "result": samples})
}

func (f *fakeServer) answer(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}); err != nil {
		f.t.Errorf("answering: %v", err)
	}
}

// vllmSeries are the series of one vLLM pod.
func vllmSeries(pod, name string) []map[string]string {
	var out []map[string]string
	for _, metric := range []string{"vllm:prompt_tokens_total", "vllm:generation_tokens_total",
		"vllm:num_requests_waiting", "vllm:num_requests_running"} {
		out = append(out, map[string]string{"__name__": metric, "pod": pod, "model_name": name, "namespace": "llm"})
	}
	return out
}

// steady answers every expression of one healthy model: 100 prompt and 20 completion tokens/s, nothing waiting.
func steady(key string, _ time.Time) (string, bool) {
	switch strings.TrimLeft(key, "0123456789.") { // without the prefix of the model, which a history's keys do not have
	case "served.prompt_tokens":
		return "100", true
	case "served.completion_tokens":
		return "20", true
	case keyServedCover:
		return "5", true
	case keyWaiting:
		return "0", true
	case keyReporting, keyReady:
		return "1", true
	case keyNow + string(FactWaiting):
		return "0", true
	case keyNow + string(FactRunning):
		return "7", true
	}
	return "", false
}

func kubeSample(name string, v float64, labels ...string) sampleJSON {
	m := map[string]string{"__name__": name, "namespace": "llm"}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return sampleJSON{Metric: m, Value: []any{0, fmt.Sprint(v)}}
}

// healthyKube is a Deployment of one ready pod.
func healthyKube() []sampleJSON {
	return []sampleJSON{
		kubeSample("kube_deployment_spec_replicas", 1, "deployment", "chat-70b"),
		kubeSample("kube_deployment_status_replicas_ready", 1, "deployment", "chat-70b"),
		kubeSample("kube_replicaset_owner", 1, "replicaset", "rs", "owner_kind", "Deployment", "owner_name", "chat-70b"),
		kubeSample("kube_pod_owner", 1, "pod", "pod-a", "owner_kind", "ReplicaSet", "owner_name", "rs"),
		kubeSample("kube_pod_created", 1.7e9, "pod", "pod-a", "uid", "uid-a"),
		kubeSample("kube_pod_status_ready", 1, "pod", "pod-a", "condition", "true"),
	}
}

func healthy() *fakeServer {
	return &fakeServer{series: vllmSeries("pod-a", "chat-70b"), value: steady, kube: healthyKube()}
}

func testConfig(url string) Config {
	cfg := DefaultConfig()
	cfg.URL = url
	cfg.QueryTimeout = 30 * time.Second
	return cfg
}

var simpleModel = ModelConfig{
	Name:      "chat-70b",
	Matchers:  []string{`model_name="chat-70b"`},
	Workloads: []Workload{{"llm", "Deployment", "chat-70b"}},
}
