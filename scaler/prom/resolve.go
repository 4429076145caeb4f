package prom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// source is one place where a model is counted, its replicas or a gateway, with the metrics to read there.
type source struct {
	windows
	name    string // engines or gateway, for people
	metrics map[Fact][]metric
	sets    []matchers
	// between are the parts of the mean time between tokens. A model is not known by them, and most are never read, so that
	// they are not looked up among the names.
	between map[Fact][]metric
}

// known reports whether anything can be read; a nil source is not known.
func (s *source) known() bool { return s != nil && s.scrape > 0 && len(s.metrics) > 0 }

// counted returns the metrics whose samples tell whether scrapes were missed.
func (s *source) counted() []metric {
	for _, f := range facts {
		if len(s.metrics[f]) > 0 {
			return s.metrics[f]
		}
	}
	return nil
}

// resolved is what a model is read from.
type resolved struct {
	cfg             ModelConfig
	served, gateway *source
	podLabel        string // the label that tells pods apart, empty when there is none
	pods            map[string]bool
	kube            kubeLabels
	res             Resolution
	series          []model.Metric // of the replicas, now
	expires         time.Time
}

// Resolution is what the matchers of a model found at one moment, for people and for --check.
type Resolution struct {
	Model string `json:"model"`
	// Engine names the engines whose metrics were found, joined by "+"; empty when there are none.
	Engine string `json:"engine,omitempty"`
	// Arrivals names the gateway the load is read from; empty when it is read from served tokens.
	Arrivals string `json:"arrivals,omitempty"`
	// Metrics and GatewayMetrics name the metrics found for each fact, Series counts the replicas' series.
	Metrics        map[Fact]string `json:"metrics,omitempty"`
	GatewayMetrics map[Fact]string `json:"gateway_metrics,omitempty"`
	Series         map[Fact]int    `json:"series,omitempty"`
	Matched        int             `json:"matched"`
	// ScrapeInterval is measured unless the configuration states it; 0 is unknown.
	ScrapeInterval time.Duration `json:"scrape_interval_ns,omitempty"`
	// UnmatchedShare is the share of the workloads' ready pods of which no series matches; nil is unknown.
	UnmatchedShare *float64  `json:"unmatched_share,omitempty"`
	Findings       []Finding `json:"findings,omitempty"`
}

func (r *resolved) find(severity Severity, subject, remedy, format string, args ...any) {
	r.res.Findings = append(r.res.Findings, Finding{severity, r.cfg.Name, subject, fmt.Sprintf(format, args...), remedy})
}

// lookback is how far back a series counts as existing now, and how many samples of it measure the scrape interval.
const lookback = 10 * time.Minute

// resolve finds a model's metrics as they exist now.
func (s *Source) resolve(ctx context.Context, m ModelConfig, now time.Time) (*resolved, error) {
	r := &resolved{cfg: m, res: Resolution{Model: m.Name}}
	sets := mustParse(m.Matchers)
	families := m.engineFamilies()
	var found []model.Metric
	for _, set := range sets {
		v, err := s.client.vector(ctx, anyOf(families, set), now)
		if err != nil {
			return nil, fmt.Errorf("resolving metric names of %s: %w", m.Name, err)
		}
		for _, sample := range v {
			found = append(found, sample.Metric)
		}
	}
	r.series = distinct(found)
	r.served = pick(families, namesOf(r.series), sets, s.cfg.Step)
	if err := s.probe(ctx, r.served, r, []time.Time{now}); err != nil {
		return nil, err
	}
	if err := s.resolveGateway(ctx, r, sets, now); err != nil {
		return nil, err
	}
	kube, err := s.kubeLabels(ctx, now)
	if err != nil {
		return nil, err
	}
	r.kube = kube
	r.describe()
	return r, nil
}

// resolveGateway takes the first kind of gateway that counts this model. Where most tokens do not pass it, its counts
// are not the demand, and only its queue is used.
func (s *Source) resolveGateway(ctx context.Context, r *resolved, sets []matchers, now time.Time) error {
	for _, f := range r.cfg.Arrivals.gatewayFamilies() {
		gatewaySets := r.cfg.Arrivals.gatewaySets(f, sets)
		names := map[string]bool{}
		for _, set := range gatewaySets {
			v, err := s.client.vector(ctx, anyOf([]family{f}, set), now)
			if err != nil {
				return fmt.Errorf("resolving gateway metrics of %s: %w", r.cfg.Name, err)
			}
			for _, sample := range v {
				names[string(sample.Metric[model.MetricNameLabel])] = true
			}
		}
		g := pick([]family{f}, names, gatewaySets, s.cfg.Step)
		if g == nil {
			continue
		}
		if err := s.probe(ctx, g, nil, []time.Time{now}); err != nil {
			return err
		}
		if g.known() {
			r.gateway = g
			return s.checkBypass(ctx, r, now)
		}
	}
	return nil
}

// bypassShareMax is the share of served completion tokens that may go past the gateway before its counts are distrusted:
// beyond the few per cent by which two counters of the same answers differ over an hour.
const bypassShareMax = 0.2

func (s *Source) checkBypass(ctx context.Context, r *resolved, now time.Time) error {
	if !r.served.known() || len(r.served.metrics[FactCompletion]) == 0 || len(r.gateway.metrics[FactCompletion]) == 0 {
		return nil
	}
	const hour = "1h"
	v, err := s.client.vector(ctx, combine([]expr{
		{"served", wrap("sum", union("rate", hour, r.served.metrics[FactCompletion], r.served.sets))},
		{"gateway", firstOf("sum", "rate", hour, 0, r.gateway.metrics[FactCompletion], r.gateway.sets)},
	}), now)
	if err != nil {
		return fmt.Errorf("comparing gateway and served tokens of %s: %w", r.cfg.Name, err)
	}
	got := byKey(v)
	served, gateway := got["served"], got["gateway"]
	if served > 0 && gateway < (1-bypassShareMax)*served {
		r.find(Warning, "arrivals", "route all requests of the model through the gateway, or set arrivals.source to none",
			"the gateway counted %.0f %% of the completion tokens served in the last hour; the load is read from served tokens",
			100*gateway/served)
		for _, f := range []Fact{FactPrompt, FactCompletion, FactRequests} {
			delete(r.gateway.metrics, f)
		}
	}
	return nil
}

// resolveRange finds the names that a model had at any time in a range, so that a rename within it is followed.
func (s *Source) resolveRange(ctx context.Context, m ModelConfig, from, to time.Time) (*resolved, error) {
	r := &resolved{cfg: m, res: Resolution{Model: m.Name}}
	sets := mustParse(m.Matchers)
	families := m.engineFamilies()
	var selectors []string
	for _, set := range sets {
		selectors = append(selectors, nameSelector(families, set))
	}
	names, err := s.client.metricNames(ctx, selectors, from, to)
	if err != nil {
		return nil, fmt.Errorf("resolving metric names of %s: %w", m.Name, err)
	}
	r.served = pick(families, names, sets, s.cfg.Step)
	if err := s.probe(ctx, r.served, r, probeTimes(from, to)); err != nil {
		return nil, err
	}
	for _, f := range m.Arrivals.gatewayFamilies() {
		gatewaySets := m.Arrivals.gatewaySets(f, sets)
		selectors = selectors[:0]
		for _, set := range gatewaySets {
			selectors = append(selectors, nameSelector([]family{f}, set))
		}
		if len(selectors) == 0 {
			continue
		}
		if names, err = s.client.metricNames(ctx, selectors, from, to); err != nil {
			return nil, fmt.Errorf("resolving gateway metrics of %s: %w", m.Name, err)
		}
		if g := pick([]family{f}, names, gatewaySets, s.cfg.Step); g != nil {
			if err := s.probe(ctx, g, nil, probeTimes(from, to)); err != nil {
				return nil, err
			}
			r.gateway = g
			break
		}
	}
	if r.gateway.known() {
		if err := s.checkBypass(ctx, r, to); err != nil {
			return nil, err
		}
	}
	r.kube, err = s.kubeLabels(ctx, to)
	return r, err
}

// probeTimes are the instants at which a scrape interval is looked for: the end first, then further back, for a model
// that is scaled to zero now.
func probeTimes(from, to time.Time) []time.Time {
	times := []time.Time{to}
	for _, back := range []time.Duration{6 * time.Hour, 24 * time.Hour, 72 * time.Hour, 7 * 24 * time.Hour} {
		if at := to.Add(-back); at.After(from) {
			times = append(times, at)
		}
	}
	return append(times, from.Add(to.Sub(from)/2), from.Add(lookback))
}

// probe sets a source's scrape interval from the raw samples of its counters, at the first of the given times that has
// any: the largest of the medians of its series, because one window serves all. It also learns the label that tells
// pods apart when r is given. A configured interval is kept.
func (s *Source) probe(ctx context.Context, src *source, r *resolved, times []time.Time) error {
	if src == nil {
		return nil
	}
	for _, at := range times {
		var all model.Matrix
		for _, m := range src.counted() {
			for _, set := range src.sets {
				samples, err := s.client.samples(ctx, m.selector(set)+"["+promDuration(lookback)+"]", at)
				if err != nil {
					return fmt.Errorf("measuring the scrape interval of %s: %w", src.name, err)
				}
				all = append(all, samples...)
			}
		}
		if r != nil && r.podLabel == "" {
			r.podLabel, r.pods = podLabel(all)
		}
		if src.scrape = s.cfg.ScrapeInterval; src.scrape == 0 {
			src.scrape = scrapeInterval(all)
		}
		if len(all) > 0 && src.scrape > 0 {
			return nil
		}
	}
	return nil
}

// scrapeInterval returns the largest median distance of samples of a series, rounded to a tenth of a second; 0 when no
// series has three.
func scrapeInterval(all model.Matrix) time.Duration {
	var widest time.Duration
	for _, series := range all {
		if len(series.Values) < 3 {
			continue
		}
		var gaps []time.Duration
		for i := 1; i < len(series.Values); i++ {
			gaps = append(gaps, series.Values[i].Timestamp.Sub(series.Values[i-1].Timestamp))
		}
		slices.Sort(gaps)
		widest = max(widest, gaps[len(gaps)/2].Round(100*time.Millisecond))
	}
	return widest
}

// podLabels are the labels under which scrape configurations keep a pod's name, the usual ones first.
var podLabels = []model.LabelName{"pod", "kubernetes_pod_name", "pod_name", "exported_pod", "instance"}

// podLabel returns the first of podLabels that every series has, and its values.
func podLabel(all model.Matrix) (label string, pods map[string]bool) {
	for _, l := range podLabels {
		pods := map[string]bool{}
		for _, series := range all {
			pods[string(series.Metric[l])] = true
		}
		if len(all) > 0 && !pods[""] {
			return string(l), pods
		}
	}
	return "", nil
}

// engineFamilies returns the families that the engine hint allows.
func (m ModelConfig) engineFamilies() []family {
	if m.Engine == "" || m.Engine == "auto" {
		return engines
	}
	return slices.DeleteFunc(slices.Clone(engines), func(f family) bool { return f.name != m.Engine })
}

// pick returns the source made of the families of which a token, request or queue metric exists, with all their
// alternative names: a replica with another version may come up before names are looked up again. It is nil when none
// exists.
func pick(families []family, names map[string]bool, sets []matchers, step time.Duration) *source {
	src := &source{windows: windows{step: step}, metrics: map[Fact][]metric{}, between: map[Fact][]metric{}, sets: sets}
	var picked []string
	for _, f := range families {
		if !slices.ContainsFunc(f.all(), func(m metric) bool { return names[m.name] }) {
			continue
		}
		picked = append(picked, f.name)
		for _, fact := range facts {
			list := f.metrics[fact]
			if slices.ContainsFunc(list, func(m metric) bool { return names[m.name] }) {
				src.metrics[fact] = append(src.metrics[fact], list...)
			}
		}
		for _, fact := range []Fact{FactITLSum, FactITLCount} {
			src.between[fact] = append(src.between[fact], betweenTokens[f.name][fact]...)
		}
	}
	if len(picked) == 0 || len(sets) == 0 {
		return nil
	}
	src.name = strings.Join(picked, "+")
	return src
}

// all returns the family's metrics in the order of facts.
func (f family) all() []metric {
	var out []metric
	for _, fact := range facts {
		out = append(out, f.metrics[fact]...)
	}
	return out
}

// nameSelector selects every metric of the families in one set of matchers.
func nameSelector(families []family, set matchers) string {
	names := map[string]bool{}
	for _, f := range families {
		for _, m := range f.all() {
			names[m.name] = true
		}
	}
	byName := matcher{model.MetricNameLabel, "=~", strings.Join(slices.Sorted(maps.Keys(names)), "|")}
	return "{" + append(matchers{byName}, set...).String() + "}"
}

// anyOf is the query for whatever a selector matched lately, names kept.
func anyOf(families []family, set matchers) string {
	return fmt.Sprintf("last_over_time(%s[%s])", nameSelector(families, set), promDuration(lookback))
}

// distinct drops series that several sets match.
func distinct(all []model.Metric) []model.Metric {
	seen := map[model.Fingerprint]bool{}
	return slices.DeleteFunc(all, func(m model.Metric) bool {
		fp := m.Fingerprint()
		dup := seen[fp]
		seen[fp] = true
		return dup
	})
}

func namesOf(series []model.Metric) map[string]bool {
	names := map[string]bool{}
	for _, m := range series {
		names[string(m[model.MetricNameLabel])] = true
	}
	return names
}
