package prom

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
)

// pointsMax is the server's own limit on the points of one series in a range query.
const pointsMax = 11000

// Config says how to reach the server and on which grid to read. The zero Config is not valid; begin with DefaultConfig.
type Config struct {
	// URL is the API's base, such as http://prometheus:9090 or https://mimir/prometheus.
	URL string `yaml:"url"`
	// HTTP holds authorization (bearer, basic, OAuth 2), TLS and extra headers (tenants), as Prometheus configures its
	// own clients.
	HTTP config.HTTPClientConfig `yaml:"http"`
	// QueryTimeout bounds one query, on the server as well.
	QueryTimeout time.Duration `yaml:"query_timeout"`
	// Step is the grid of all loads. It is aligned to the epoch and at least one scrape interval.
	Step time.Duration `yaml:"step"`
	// ScrapeInterval is the time between two samples of a counter; 0 measures it for each model.
	ScrapeInterval time.Duration `yaml:"scrape_interval"`
	// IngestDelay is how long after a step's end its samples may still arrive; a step is read no earlier. Raise it where
	// samples come by remote write, because a step that was read is not read again.
	IngestDelay time.Duration `yaml:"ingest_delay"`
	// HistoryChunk is the number of steps in one range query.
	HistoryChunk int `yaml:"history_chunk"`
	// ObserveSteps is the number of complete steps that each Observe reads, so that a short outage leaves no hole.
	ObserveSteps int `yaml:"observe_steps"`
	// Concurrency is the number of queries under way at once.
	Concurrency int `yaml:"concurrency"`
	// ResolveEvery is how long a model's metric names are trusted before they are looked up again.
	ResolveEvery time.Duration `yaml:"resolve_every"`
	// KubeMatchers select kube-state-metrics of the right cluster, such as `cluster="eu-1"`; none when there is but one.
	KubeMatchers string `yaml:"kube_matchers"`
}

// DefaultConfig returns the configuration of everything but the URL.
func DefaultConfig() Config {
	return Config{
		HTTP:         config.DefaultHTTPClientConfig,
		QueryTimeout: 10 * time.Second,
		Step:         time.Minute,
		IngestDelay:  5 * time.Second,
		HistoryChunk: 2880,
		ObserveSteps: 10,
		Concurrency:  8,
		ResolveEvery: 5 * time.Minute,
	}
}

// Validate reports every problem at once, each with key, value and what is allowed.
func (c Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		errs = append(errs, fmt.Errorf("url: %q, allowed is http://host or https://host with an optional path", c.URL))
	}
	if err := c.HTTP.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("http: %w", err))
	}
	durations := []struct {
		key      string
		v        time.Duration
		min, max time.Duration
	}{
		{"query_timeout", c.QueryTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"step", c.Step, 10 * time.Second, 10 * time.Minute},
		{"scrape_interval", c.ScrapeInterval, 0, c.Step},
		{"ingest_delay", c.IngestDelay, 0, 10 * time.Minute},
		{"resolve_every", c.ResolveEvery, time.Second, time.Hour},
	}
	for _, d := range durations {
		if d.v < d.min || d.v > d.max {
			errs = append(errs, fmt.Errorf("%s: %v, allowed is %v to %v", d.key, d.v, d.min, d.max))
		}
	}
	if c.Step%time.Second != 0 {
		errs = append(errs, fmt.Errorf("step: %v, allowed are whole seconds", c.Step))
	}
	counts := []struct {
		key         string
		v, min, max int
	}{
		{"history_chunk", c.HistoryChunk, 1, pointsMax - 1},
		{"observe_steps", c.ObserveSteps, 1, 120},
		{"concurrency", c.Concurrency, 1, 64},
	}
	for _, n := range counts {
		if n.v < n.min || n.v > n.max {
			errs = append(errs, fmt.Errorf("%s: %d, allowed is %d to %d", n.key, n.v, n.min, n.max))
		}
	}
	if c.KubeMatchers != "" {
		if _, err := parseMatchers(c.KubeMatchers); err != nil {
			errs = append(errs, fmt.Errorf("kube_matchers: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ModelConfig says which series and which workloads are one model.
type ModelConfig struct {
	Name string `yaml:"name"`
	// Matchers are sets of PromQL label matchers, such as `model_name="chat-70b",namespace="llm"`. The model is the union
	// of the sets: LoRA adapters and several served names on one Deployment, or one name over several namespaces.
	Matchers []string `yaml:"matchers"`
	// Workloads run the model; their ready, starting and desired replicas are added up.
	Workloads []Workload `yaml:"workloads"`
	// Arrivals says where clients' demand is counted before it reaches a replica.
	Arrivals Arrivals `yaml:"arrivals"`
	// Engine restricts the metric names to one engine's: see Engines. Empty or "auto" finds it.
	Engine string `yaml:"engine"`
	// EngineCosts reads what a profile is learned from: running sequences, KV use and the time between tokens. With
	// speculative decoding engines count events and not tokens there, so that nothing right can be learned.
	EngineCosts bool `yaml:"learn_profile"`
}

// Workload is a scalable object in the cluster. For a LeaderWorkerSet one replica is one group, counted by its leader.
type Workload struct {
	Namespace string `yaml:"namespace"`
	Kind      string `yaml:"kind"`
	Name      string `yaml:"name"`
}

// workloadKinds are the kinds whose replicas kube-state-metrics reports. A LeaderWorkerSet is read through the
// StatefulSet of its leaders, which bears its name.
var workloadKinds = []string{"Deployment", "StatefulSet", "LeaderWorkerSet"}

// The sources of Arrivals.
const (
	ArrivalsAuto   = "auto"                // inference-extension, else gen-ai, else none
	ArrivalsNone   = "none"                // served tokens only
	ArrivalsGIE    = "inference-extension" // llm-d router or Gateway API inference extension
	ArrivalsGenAI  = "gen-ai"              // OpenTelemetry GenAI conventions
	ArrivalsCustom = "custom"              // the metrics named in the configuration
)

var arrivalSources = []string{ArrivalsAuto, ArrivalsNone, ArrivalsGIE, ArrivalsGenAI, ArrivalsCustom}

// Arrivals says where demand is counted before it reaches the model's own replicas.
type Arrivals struct {
	// Source is one of auto (also when empty), none, inference-extension, gen-ai, custom.
	Source string `yaml:"source"`
	// Matchers select the model at the gateway; when empty they are made from the model_name matchers of the model.
	Matchers []string `yaml:"matchers"`
	// The metrics of source custom: selectors such as `tokens_total{type="input"}`, alternatives in order of preference.
	// The first three are counters; Queue is a gauge of waiting requests.
	Prompt     []string `yaml:"prompt"`
	Completion []string `yaml:"completion"`
	Requests   []string `yaml:"requests"`
	Queue      []string `yaml:"queue"`
}

var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// Validate reports every problem at once, each with key, value and what is allowed.
func (m ModelConfig) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
	}
	if strings.TrimSpace(m.Name) == "" {
		bad("name", "%q, allowed is a name that is not blank", m.Name)
	}
	if len(m.Matchers) == 0 {
		bad("matchers", "none, allowed is at least one set such as %s", "`model_name=\"chat-70b\"`")
	}
	for i, s := range m.Matchers {
		if _, err := parseMatchers(s); err != nil {
			bad(fmt.Sprintf("matchers[%d]", i), "%w", err)
		}
	}
	if m.Engine != "" && m.Engine != "auto" && !slices.Contains(Engines(), m.Engine) {
		bad("engine", "%q, allowed are auto, %s", m.Engine, strings.Join(Engines(), ", "))
	}
	for i, w := range m.Workloads {
		key := fmt.Sprintf("workloads[%d]", i)
		if !slices.Contains(workloadKinds, w.Kind) {
			bad(key+".kind", "%q, allowed are %s", w.Kind, strings.Join(workloadKinds, ", "))
		}
		if !dnsName.MatchString(w.Namespace) {
			bad(key+".namespace", "%q, allowed is a Kubernetes name", w.Namespace)
		}
		if !dnsName.MatchString(w.Name) {
			bad(key+".name", "%q, allowed is a Kubernetes name", w.Name)
		}
		if slices.Contains(m.Workloads[:i], w) {
			bad(key, "%s %s/%s, allowed once", w.Kind, w.Namespace, w.Name)
		}
	}
	if err := m.Arrivals.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (a Arrivals) validate() error {
	var errs []error
	if a.Source != "" && !slices.Contains(arrivalSources, a.Source) {
		errs = append(errs, fmt.Errorf("arrivals.source: %q, allowed are %s", a.Source, strings.Join(arrivalSources, ", ")))
	}
	for i, s := range a.Matchers {
		if _, err := parseMatchers(s); err != nil {
			errs = append(errs, fmt.Errorf("arrivals.matchers[%d]: %w", i, err))
		}
	}
	named := 0
	for _, list := range []struct {
		key       string
		selectors []string
	}{{"prompt", a.Prompt}, {"completion", a.Completion}, {"requests", a.Requests}, {"queue", a.Queue}} {
		for i, s := range list.selectors {
			named++
			if _, err := parseMetric(s); err != nil {
				errs = append(errs, fmt.Errorf("arrivals.%s[%d]: %w", list.key, i, err))
			}
		}
	}
	if named > 0 && a.Source != ArrivalsCustom {
		errs = append(errs, fmt.Errorf("arrivals.source: %q with metrics named, allowed is %q", a.Source, ArrivalsCustom))
	}
	if named == 0 && a.Source == ArrivalsCustom {
		errs = append(errs, fmt.Errorf("arrivals: source %q names no metric, allowed are prompt, completion, requests, queue",
			a.Source))
	}
	return errors.Join(errs...)
}

// ValidateModels reports every problem of every model, and names used twice.
func ValidateModels(models []ModelConfig) error {
	var errs []error
	seen := map[string]int{}
	for i, m := range models {
		if err := m.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("models[%d] %q: %w", i, m.Name, err))
		}
		if first, dup := seen[m.Name]; dup {
			errs = append(errs, fmt.Errorf("models[%d].name: %q is models[%d] already, allowed once", i, m.Name, first))
			continue
		}
		seen[m.Name] = i
	}
	return errors.Join(errs...)
}
