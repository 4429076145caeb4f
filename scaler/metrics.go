package scaler

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"forewarm/planner"
)

// Metrics are the daemon's own metrics. Labels are bounded: models, pools, parts of the tick, never pods.
type Metrics struct {
	planTime     prometheus.Gauge
	decisions    prometheus.Counter
	replicas     *prometheus.GaugeVec
	leadTime     *prometheus.GaugeVec
	peak         *prometheus.GaugeVec
	load         *prometheus.GaugeVec
	held         *prometheus.GaugeVec
	gaps         *prometheus.GaugeVec
	findings     *prometheus.GaugeVec
	admission    admissionMetrics
	lastGood     *prometheus.GaugeVec
	failures     *prometheus.CounterVec
	errorRatio   *prometheus.GaugeVec
	matured      *prometheus.CounterVec
	covered      *prometheus.CounterVec
	pools        poolGauges
	targets      targetGauges
	starts       *startMetrics
	expectations map[string][]expectation
	paths        map[string]string // the start path that leadTime has of a model
}

// NewMetrics registers the metrics. planAge is asked at each scrape, since an age must grow while the loop hangs; it
// returns NaN while there is no plan.
func NewMetrics(reg prometheus.Registerer, planAge func() float64) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "forewarm", Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "forewarm", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "forewarm", Name: "plan_age_seconds",
		Help: "Age of the latest plan; NaN while there is none."}, planAge))
	return &Metrics{
		planTime:  gauge("plan_timestamp_seconds", "When the latest plan was made.").WithLabelValues(),
		decisions: counter("decisions_total", "Decisions made since the start.").WithLabelValues(),
		replicas:  gauge("replicas", "Replicas by kind: planned, serving, warm, answered, ready, starting.", "model", "kind"),
		leadTime:  gauge("lead_time_seconds", "Lead time that the plan was read at.", "model", "path"),
		peak:      gauge("forecast_peak_tokens_per_second", "Service-level quantile of the peak over the lead window.", "model", "kind"),
		load:      gauge("load_tokens_per_second", "Newest offered load.", "model", "kind"),
		held:      gauge("plan_held", "1 while the plan is kept although less is wanted.", "model"),
		gaps:      gauge("gaps", "Facts missing in the latest State; without a model those of the whole cluster.", "model"),
		admission: admissionMetrics{
			rate:  gauge("admissible_rate", "What the ready replicas carry, while that is less than is asked for: prompt and completion in tokens/s, requests in requests/s.", "model", "kind"),
			queue: gauge("admissible_queue_requests", "Requests that may wait while replicas are short: those beyond begin later than the TTFT allows.", "model"),
			short: counter("short_seconds_total", "Time in which the ready replicas carried less than was asked for.", "model", "cause", "owner"),
		},
		findings:   gauge("finding", "1 for each veto and hint of the latest plan: whether more replicas are the remedy.", "model", "rule", "verdict", "owner"),
		lastGood:   gauge("last_good_timestamp_seconds", "When a part of the tick last worked.", "part"),
		failures:   counter("tick_failures_total", "Failures of a part of the tick.", "part"),
		errorRatio: gauge("forecast_error_ratio", "Newest matured forecast of the lead window's start: |actual - median| / actual.", "model", "kind"),
		matured:    counter("forecasts_matured_total", "Forecasts whose time has come.", "model", "kind"),
		covered: counter("forecasts_covered_total", "Matured forecasts whose service-level quantile was not exceeded.",
			"model", "kind"),
		pools: poolGauges{
			gpus:  gauge("pool_gpus", "GPUs (or MIG devices) of a pool: free on nodes that take pods, held by pods, closed: free on nodes that take none.", "pool", "state"),
			nodes: gauge("pool_nodes", "Nodes of a pool: open to pods, closed, launching.", "pool", "state"),
		},
		targets: targetGauges{
			nodes:      gauge("pool_nodes_planned", "Nodes a pool should have, by what makes them come or go.", "pool", "by"),
			buffers:    gauge("buffer_replicas_planned", "Replicas of a model that room is to be kept for in a pool.", "model", "pool"),
			quotas:     gauge("quota_gpus_planned", "Nominal GPUs that a queue should have of a flavor.", "queue", "flavor", "resource"),
			shortfalls: gauge("shortfall_replicas", "Replicas of the plan that cannot be had, by cause.", "model", "cause"),
			unusable: gauge("unusable_gpus", "Free GPUs of a pool that hold no replica of a shape, by what keeps them from it.",
				"pool", "shape", "cause"),
			slots: gauge("slots", "Pods of a shape that fit: now, and with the nodes that can be had (absent while that is unknown).",
				"pool", "shape", "when"),
		},
		starts:       newStartMetrics(reg),
		expectations: map[string][]expectation{},
		paths:        map[string]string{},
	}
}

func (m *Metrics) outcome(part string, now time.Time, err error) {
	if err != nil {
		m.failures.WithLabelValues(part).Inc()
		return
	}
	m.lastGood.WithLabelValues(part).Set(unixSeconds(now))
}

func (m *Metrics) observe(s *planner.State, d *planner.Decision, p planner.Policy) {
	m.planTime.Set(unixSeconds(d.At))
	m.decisions.Inc()
	missing := map[string]int{}
	for _, g := range d.Gaps {
		missing[g.Model]++
	}
	m.gaps.WithLabelValues("").Set(float64(missing[""]))
	m.pools.observe(s.Inventory)
	m.targets.observe(d)
	for i := range s.Models {
		ms := &s.Models[i]
		m.observeModel(ms, d.Model(ms.Name), missing[ms.Name])
		m.admission.observe(ms.Name, d.Model(ms.Name).Admission, s.Interval)
		m.score(ms, s.Now, p.For(ms.Name).ServiceLevel, d.Model(ms.Name))
	}
}

func (m *Metrics) observeModel(ms *planner.ModelState, md *planner.ModelDecision, missing int) {
	name := ms.Name
	m.gaps.WithLabelValues(name).Set(float64(missing))
	m.held.WithLabelValues(name).Set(flag(md.Held != ""))
	m.count(name, "planned", md.Replicas)
	m.count(name, "answered", md.Answer)
	if md.Replicas != nil {
		m.count(name, "serving", &md.Serving)
		m.count(name, "warm", &md.Warm)
	} else {
		m.count(name, "serving", nil)
		m.count(name, "warm", nil)
	}
	if r := ms.Replicas; r != nil {
		starting := len(r.Starting)
		m.count(name, "ready", &r.Ready)
		m.count(name, "starting", &starting)
	} else {
		m.count(name, "ready", nil)
		m.count(name, "starting", nil)
	}
	m.observeFindings(name, md.Findings)
	m.observeLead(name, md.Lead)
	if md.Peak != nil {
		m.peak.WithLabelValues(name, "prompt").Set(float64(md.Peak.Load.Prompt))
		m.peak.WithLabelValues(name, "completion").Set(float64(md.Peak.Load.Completion))
	} else { // an old forecast must not look like today's
		m.peak.DeleteLabelValues(name, "prompt")
		m.peak.DeleteLabelValues(name, "completion")
	}
	if ms.Load != nil {
		m.load.WithLabelValues(name, "prompt").Set(float64(ms.Load.Prompt))
		m.load.WithLabelValues(name, "completion").Set(float64(ms.Load.Completion))
	}
}

// observeFindings replaces the model's findings: one that has gone must not stay at 1. Rules without data are no finding
// and have no series.
func (m *Metrics) observeFindings(model string, findings []planner.Finding) {
	m.findings.DeletePartialMatch(prometheus.Labels{"model": model})
	for _, f := range findings {
		if f.Verdict == planner.Veto || f.Verdict == planner.Hint {
			m.findings.WithLabelValues(model, string(f.Rule), string(f.Verdict), string(f.Owner)).Set(1)
		}
	}
}

// observeLead keeps one start path per model. The series of a path that stays is never removed, so that no scrape finds
// the model without one.
func (m *Metrics) observeLead(model string, lead *planner.Lead) {
	if old, ok := m.paths[model]; ok && (lead == nil || old != string(lead.Path)) {
		m.leadTime.DeleteLabelValues(model, old)
		delete(m.paths, model)
	}
	if lead != nil {
		m.paths[model] = string(lead.Path)
		m.leadTime.WithLabelValues(model, string(lead.Path)).Set(lead.Time.Seconds())
	}
}

// count sets a replica gauge; an unknown count is absent, never zero.
func (m *Metrics) count(model, kind string, n *int) {
	if n == nil {
		m.replicas.DeleteLabelValues(model, kind)
		return
	}
	m.replicas.WithLabelValues(model, kind).Set(float64(*n))
}

// expectation is what a forecast said about one step that had not come yet.
type expectation struct {
	to            time.Time // end of the step it is about
	median, upper planner.Load
}

// expectationsMax bounds the memory of a model whose load has stopped arriving.
const expectationsMax = 256

// score compares earlier expectations with the newest load, and files the one made now for the start of the lead
// window.
func (m *Metrics) score(ms *planner.ModelState, now time.Time, level float64, md *planner.ModelDecision) {
	pending := m.expectations[ms.Name]
	if l := ms.Load; l != nil && !l.LowerBound {
		kept := pending[:0]
		for _, e := range pending {
			switch {
			case l.At.Equal(e.to):
				m.mature(ms.Name, "prompt", float64(l.Prompt), float64(e.median.Prompt), float64(e.upper.Prompt))
				m.mature(ms.Name, "completion", float64(l.Completion), float64(e.median.Completion), float64(e.upper.Completion))
			case l.At.Before(e.to):
				kept = append(kept, e)
			}
		}
		pending = kept
	}
	if e, ok := expect(ms.Forecast, md, now, level); ok && (len(pending) == 0 || pending[len(pending)-1].to.Before(e.to)) {
		pending = append(pending, e)
	}
	m.expectations[ms.Name] = pending[max(0, len(pending)-expectationsMax):]
}

func expect(f *planner.Forecast, md *planner.ModelDecision, now time.Time, level float64) (expectation, bool) {
	if f == nil || md.Lead == nil {
		return expectation{}, false
	}
	k := int(now.Add(md.Lead.Time).Sub(f.Prompt.Start) / f.Prompt.Step)
	if k < 0 || k >= f.Prompt.Steps() {
		return expectation{}, false
	}
	at := func(p float64) planner.Load {
		return planner.Load{Prompt: planner.TokenRate(f.Prompt.Quantile(p, k)), Completion: planner.TokenRate(f.Completion.Quantile(p, k))}
	}
	from := f.Prompt.Start.Add(time.Duration(k) * f.Prompt.Step)
	return expectation{to: from.Add(f.Prompt.Step), median: at(0.5), upper: at(level)}, true
}

func (m *Metrics) mature(model, kind string, actual, median, upper float64) {
	m.matured.WithLabelValues(model, kind).Inc()
	if actual <= upper {
		m.covered.WithLabelValues(model, kind).Inc()
	}
	if actual > 0 {
		m.errorRatio.WithLabelValues(model, kind).Set(math.Abs(actual-median) / actual)
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
