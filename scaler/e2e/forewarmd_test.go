//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"forewarm/planner"
)

// daemon is a forewarmd process of one case.
type daemon struct {
	w          *waiter
	keda, http string // addresses, which stay the same over restarts
	config     string
	process    *process
}

// startDaemon runs the forewarmd of this checkout with a configuration whose listen addresses are added here, and waits
// until it answers.
func startDaemon(w *waiter, configuration string) *daemon {
	w.t.Helper()
	d := &daemon{w: w, keda: freeAddress(), http: freeAddress(), config: filepath.Join(w.t.TempDir(), "forewarmd.yaml")}
	d.configure(configuration)
	d.start()
	w.t.Cleanup(func() {
		_ = d.process.signal(contSignal) // a stopped process hears no other signal; one that is gone needs none
		if err := d.process.stop(); err != nil {
			w.t.Error(err)
		}
	})
	w.note(d.explain)
	return d
}

// configure writes the configuration that the next start reads.
func (d *daemon) configure(configuration string) {
	d.w.t.Helper()
	d.w.must(os.WriteFile(d.config, []byte(configuration), 0o600))
}

// start runs the daemon and waits until it answers KEDA.
func (d *daemon) start() {
	d.w.t.Helper()
	path, err := daemonProgram()
	d.w.must(err)
	d.process, err = startProcess("forewarmd-"+strings.ReplaceAll(d.w.t.Name(), "/", "-"), path, nil, "--config", d.config,
		"--listen", d.keda, "--http-listen", d.http)
	d.w.must(err)
	d.w.watch(d.process)
	d.w.until(20*time.Second, "forewarmd to be ready", answers(http.DefaultClient, "http://"+d.http+"/readyz"))
}

// plan reads the published plan of a model.
func (d *daemon) plan(model string) (planner.PlanView, error) {
	var v planner.PlanView
	client := &http.Client{Timeout: requestTimeout}
	resp, err := client.Get("http://" + d.http + "/api/plan?model=" + model)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("plan of %s: %s", model, resp.Status)
	}
	return v, json.NewDecoder(resp.Body).Decode(&v)
}

// answered is the plan's number for KEDA; an error when it has none.
func (d *daemon) answered(model string) (int, error) {
	v, err := d.plan(model)
	if err != nil {
		return 0, err
	}
	if v.Model.Answer == nil {
		return 0, fmt.Errorf("the plan of %s has no number: %s", model, steps(v))
	}
	return *v.Model.Answer, nil
}

// answersWith is a probe for the plan's number.
func (d *daemon) answersWith(model string, want int) probe {
	return func() (bool, string) {
		n, err := d.answered(model)
		if err != nil {
			return false, err.Error()
		}
		return n == want, fmt.Sprintf("the plan is %d", n)
	}
}

// metric reads one of the daemon's own metrics.
func (d *daemon) metric(name string, parts ...string) (float64, error) {
	return scrapeSum(http.DefaultClient, "http://"+d.http+"/metrics", name, parts...)
}

// explain is every plan with its steps and gaps, for a report.
func (d *daemon) explain() string {
	client := &http.Client{Timeout: requestTimeout}
	resp, err := client.Get("http://" + d.http + "/api/plan")
	if err != nil {
		return fmt.Sprintf("plan: %v", err)
	}
	defer resp.Body.Close()
	var all struct{ Models []planner.PlanView }
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return fmt.Sprintf("plan: %s: %v", resp.Status, err)
	}
	var b strings.Builder
	for _, v := range all.Models {
		fmt.Fprintf(&b, "plan of %s at %s:\n%s", v.Model.Name, v.At.Format(time.TimeOnly), steps(v))
	}
	return b.String()
}

func steps(v planner.PlanView) string {
	var b strings.Builder
	for _, s := range v.Model.Steps {
		fmt.Fprintf(&b, "  %s: %s %s\n", s.Stage, s.Why, s.BoundBy)
	}
	for _, g := range v.Gaps {
		fmt.Fprintf(&b, "  gap: %s %s\n", g.Fact, g.Detail)
	}
	return b.String()
}

// settings are what the cases configure differently.
type settings struct {
	prometheus          string
	scrape              time.Duration
	tick                string // 1s when empty
	staleAfter, planAge string // defaults when empty
	method              string // last when empty
	window              string // the scale-down window; 0s when empty
	kubeconfig          string // the cluster to observe; empty for none, so that replicas come from kube-state-metrics
	models              []modelSettings
}

type modelSettings struct {
	name, namespace string
	gateway         bool
	policy          string // over replicas_min 1, authority act
}

// cluster is what the daemon may know of the cluster.
func (s settings) cluster() string {
	if s.kubeconfig == "" {
		return `enabled: "false"`
	}
	return fmt.Sprintf(`enabled: "true", kubeconfig: %q, rediscover: 10s`, s.kubeconfig)
}

// text is the daemon's configuration: a tick of a second, the shortest step there is, stated lead times of seconds.
func (s settings) text() string {
	or := func(v, fallback string) string {
		if v == "" {
			return fallback
		}
		return v
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
tick: %s
keda: {stale_after: %s, max_plan_age: %s}
prometheus: {url: %q, step: 10s, scrape_interval: %v, ingest_delay: 1s, resolve_every: 5s}
forecast: {method: %s, horizon: 2m, history: 96h}
policy:
  defaults: {authority: act, scale_down_window: %s, drain_time: 0s}
kubernetes: {%s}
models:
`, or(s.tick, "1s"), or(s.staleAfter, "5s"), or(s.planAge, "5m"), s.prometheus, s.scrape, or(s.method, "last"),
		or(s.window, "0s"), s.cluster())
	for _, m := range s.models {
		arrivals := "none"
		if m.gateway {
			arrivals = "inference-extension"
		}
		fmt.Fprintf(&b, `- name: %s
  matchers: ['model_name="%s",namespace="%s"']
  workloads: [{namespace: %s, kind: Deployment, name: %s}]
  arrivals: {source: %s}
  shape: {gpus: 1, pods: 1}
  profile: {prompt_tokens_per_s: %g, completion_tokens_per_s: %g, source: "the emulator"}
  lead_times: {any: {p50: 10s, p95: 15s}}
  policy: {%s}
`, m.name, m.name, m.namespace, m.namespace, m.name, arrivals, float64(profilePrompt), profileCompletion, m.policy)
	}
	return b.String()
}
