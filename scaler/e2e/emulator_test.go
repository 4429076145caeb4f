//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The physics of an emulated replica: each completion token comes with four prompt tokens, and prefill and decode share
// the replica, so that it serves 100 completion tok/s. A request has 200 completion tokens.
const (
	promptPerCompletion  = 4
	replicaCompletion    = 100.0
	completionPerRequest = 200
	profileCompletion    = 2 * replicaCompletion                       // alone with completions
	profilePrompt        = 2 * replicaCompletion * promptPerCompletion // alone with prompts
)

// emulator is one exporter that plays the model servers (vLLM), the gateway (llm-d router) and kube-state-metrics. Who is
// ready and what exists comes from the API server, when Prometheus scrapes; what is asked for comes from the test.
type emulator struct {
	client  *client
	address string
	server  *http.Server

	mu     sync.Mutex
	models []*emulatedModel
	seen   time.Time // when the world was last looked at; zero before the first scrape
}

// emulatedModel is one model: its Deployment is called like it.
type emulatedModel struct {
	name, namespace string
	gateway         bool // arrivals are counted in front of the replicas

	offered  float64 // completion tok/s
	queue    float64 // requests that wait, beyond those that come of too much load
	unserved float64 // completion tokens that could not be served yet
	// lost is the largest number of tokens that ever waited: 0 while capacity was always there before the load.
	lost     float64
	arrived  float64 // requests at the gateway
	finished float64 // completion tokens served
	pods     map[string]*emulatedPod
}

// emulatedPod is one model server.
type emulatedPod struct {
	completion float64 // tokens served
	serving    bool    // ready and not on its way out
}

// startEmulator serves the metrics of models until the test ends.
func startEmulator(t *testing.T, c *client, models ...*emulatedModel) *emulator {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &emulator{client: c, address: listener.Addr().String(), models: models}
	for _, m := range models {
		m.pods = map[string]*emulatedPod{}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", e.metrics)
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- e.server.Serve(listener) }()
	t.Cleanup(func() {
		if err := e.server.Close(); err != nil {
			t.Errorf("emulator: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("emulator: %v", err)
		}
	})
	return e
}

// offer changes the load of a model, in completion tok/s.
func (e *emulator) offer(model string, completion float64) {
	e.change(model, func(m *emulatedModel) { m.offered = completion })
}

// wait changes how many requests of a model wait.
func (e *emulator) wait(model string, requests float64) {
	e.change(model, func(m *emulatedModel) { m.queue = requests })
}

func (e *emulator) change(model string, f func(*emulatedModel)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.seen.IsZero() {
		e.advance(time.Now())
	}
	f(e.model(model))
}

// lost is the largest number of completion tokens of a model that ever had to wait.
func (e *emulator) lost(model string) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.model(model).lost
}

// served is how many completion tokens of a model were served so far.
func (e *emulator) served(model string) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.model(model).finished
}

func (e *emulator) model(name string) *emulatedModel {
	for _, m := range e.models {
		if m.name == name {
			return m
		}
	}
	panic(fmt.Sprintf("e2e: model %q is not emulated", name))
}

// advance lets the load flow from when the world was last looked at until now, over the replicas of then.
func (e *emulator) advance(now time.Time) {
	from := e.seen
	e.seen = now
	if from.IsZero() {
		return // nothing is known of the replicas, and nobody has counted anything yet
	}
	for _, m := range e.models {
		m.flow(now.Sub(from).Seconds())
	}
}

func (m *emulatedModel) flow(seconds float64) {
	var serving []*emulatedPod
	for _, p := range m.pods {
		if p.serving {
			serving = append(serving, p)
		}
	}
	due := m.unserved + m.offered*seconds
	served := min(due, float64(len(serving))*replicaCompletion*seconds)
	m.unserved = due - served
	m.lost = max(m.lost, m.unserved)
	m.arrived += m.offered * seconds / completionPerRequest
	m.finished += served
	for _, p := range serving {
		p.completion += served / float64(len(serving))
	}
}

func (m *emulatedModel) waiting() float64 { return m.queue + m.unserved/completionPerRequest }

// metrics looks at the cluster and answers a scrape. What cannot be read fails the scrape: half a world would be a lie.
func (e *emulator) metrics(w http.ResponseWriter, _ *http.Request) {
	var out strings.Builder
	if err := e.write(&out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	fmt.Fprint(w, out.String())
}

func (e *emulator) write(out *strings.Builder) error {
	worlds := map[string]*namespaceWorld{}
	for _, m := range e.models {
		if worlds[m.namespace] == nil {
			world, err := readNamespace(e.client, m.namespace)
			if err != nil {
				return err
			}
			worlds[m.namespace] = world
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance(time.Now())
	for _, namespace := range slices.Sorted(maps.Keys(worlds)) {
		worlds[namespace].write(out)
	}
	for _, m := range e.models {
		m.meet(worlds[m.namespace])
		m.write(out)
	}
	return nil
}

// meet takes over which pods of the model exist and serve.
func (m *emulatedModel) meet(w *namespaceWorld) {
	exist := map[string]bool{}
	for _, p := range w.pods {
		if p.text("metadata", "labels", "app") != m.name || p.text("status", "phase") != "Running" {
			continue
		}
		name := p.text("metadata", "name")
		exist[name] = true
		if m.pods[name] == nil {
			m.pods[name] = &emulatedPod{}
		}
		ready, _ := p.condition("Ready")
		m.pods[name].serving = ready == "True" && p.text("metadata", "deletionTimestamp") == ""
	}
	maps.DeleteFunc(m.pods, func(name string, _ *emulatedPod) bool { return !exist[name] })
}

func (m *emulatedModel) write(out *strings.Builder) {
	share := m.waiting() / float64(max(1, len(m.pods)))
	if m.gateway {
		share = 0 // requests wait in front of the replicas
	}
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		p := m.pods[name]
		labels := fmt.Sprintf("{model_name=%q,namespace=%q,pod=%q}", m.name, m.namespace, name)
		sample(out, "vllm:prompt_tokens_total", labels, p.completion*promptPerCompletion)
		sample(out, "vllm:generation_tokens_total", labels, p.completion)
		sample(out, "vllm:request_success_total", labels, p.completion/completionPerRequest)
		sample(out, "vllm:num_requests_waiting", labels, share)
		sample(out, "vllm:num_requests_running", labels, 0)
	}
	if m.gateway {
		labels := fmt.Sprintf("{target_model_name=%q}", m.name)
		sample(out, "llm_d_epp_request_total", labels, m.arrived)
		sample(out, "llm_d_epp_request_input_tokens_sum", labels, m.finished*promptPerCompletion)
		sample(out, "llm_d_epp_request_output_tokens_sum", labels, m.finished)
		sample(out, "llm_d_epp_flow_control_queue_size", labels, m.waiting())
	}
}

func sample(out *strings.Builder, name, labels string, v float64) {
	fmt.Fprintf(out, "%s%s %g\n", name, labels, v)
}

// namespaceWorld is what kube-state-metrics reports of one namespace.
type namespaceWorld struct {
	namespace               string
	deployments, sets, pods []object
}

func readNamespace(c *client, namespace string) (*namespaceWorld, error) {
	w := &namespaceWorld{namespace: namespace}
	for _, kind := range []struct {
		path string
		into *[]object
	}{
		{"/apis/apps/v1/namespaces/" + namespace + "/deployments", &w.deployments},
		{"/apis/apps/v1/namespaces/" + namespace + "/replicasets", &w.sets},
		{"/api/v1/namespaces/" + namespace + "/pods", &w.pods},
	} {
		o, err := c.get(kind.path)
		if err != nil {
			return nil, err
		}
		*kind.into = o.list("items")
	}
	return w, nil
}

func (w *namespaceWorld) write(out *strings.Builder) {
	labels := func(pairs ...string) string {
		text := fmt.Sprintf("namespace=%q", w.namespace)
		for i := 0; i < len(pairs); i += 2 {
			text += fmt.Sprintf(",%s=%q", pairs[i], pairs[i+1])
		}
		return "{" + text + "}"
	}
	for _, d := range w.deployments {
		l := labels("deployment", d.text("metadata", "name"))
		sample(out, "kube_deployment_spec_replicas", l, float64(d.number("spec", "replicas")))
		sample(out, "kube_deployment_status_replicas_ready", l, float64(d.number("status", "readyReplicas")))
	}
	for _, s := range w.sets {
		owner := s.list("metadata", "ownerReferences")
		if len(owner) == 1 {
			sample(out, "kube_replicaset_owner", labels("replicaset", s.text("metadata", "name"),
				"owner_kind", owner[0].text("kind"), "owner_name", owner[0].text("name")), 1)
		}
	}
	for _, p := range w.pods {
		w.writePod(out, p, labels)
	}
}

func (w *namespaceWorld) writePod(out *strings.Builder, p object, labels func(...string) string) {
	pod := []string{"pod", p.text("metadata", "name"), "uid", p.text("metadata", "uid")}
	if owner := p.list("metadata", "ownerReferences"); len(owner) == 1 {
		sample(out, "kube_pod_owner", labels(append(pod, "owner_kind", owner[0].text("kind"), "owner_name",
			owner[0].text("name"))...), 1)
	}
	for _, stamp := range []struct{ metric, field string }{
		{"kube_pod_created", "creationTimestamp"}, {"kube_pod_deletion_timestamp", "deletionTimestamp"},
	} {
		if at, err := time.Parse(time.RFC3339, p.text("metadata", stamp.field)); err == nil {
			sample(out, stamp.metric, labels(pod...), float64(at.Unix()))
		}
	}
	ready, _ := p.condition("Ready")
	for _, status := range []string{"true", "false", "unknown"} {
		is := 0.0
		if strings.EqualFold(ready, status) {
			is = 1
		}
		sample(out, "kube_pod_status_ready", labels(append(pod, "condition", status)...), is)
	}
	sample(out, "kube_pod_status_phase", labels(append(pod, "phase", p.text("status", "phase"))...), 1)
}
