package prom

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// expr is a PromQL expression that yields at most one series, known by its key in a combined query.
type expr struct {
	key, promql string
}

// factLabel carries an expression's key through a combined query.
const factLabel = "forewarm_fact"

// combine makes one query of many expressions, so that one answer holds the facts of many models at the same instant.
func combine(exprs []expr) string {
	parts := make([]string, len(exprs))
	for i, e := range exprs {
		parts[i] = fmt.Sprintf(`label_replace(%s,%q,%q,"","")`, e.promql, factLabel, e.key)
	}
	return strings.Join(parts, " or ")
}

// Limits on one combined query. The server evaluates `or` in time proportional to the expressions before it, and proxies
// limit bodies to about a megabyte.
const (
	combinedExprsMax = 150
	combinedBytesMax = 64 << 10
)

// batch cuts expressions into combined queries within the limits, keeping their order.
func batch(exprs []expr) [][]expr {
	var out [][]expr
	size := 0
	for _, e := range exprs {
		n := len(e.promql) + len(e.key)
		if last := len(out) - 1; last >= 0 && len(out[last]) < combinedExprsMax && size+n <= combinedBytesMax {
			out[last] = append(out[last], e)
			size += n
			continue
		}
		out = append(out, []expr{e})
		size = n
	}
	return out
}

// promDuration renders a duration as PromQL reads it; milliseconds are its resolution.
func promDuration(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// windows are the ranges over which one source of metrics is read at the end of a step. See the package comment.
type windows struct {
	step, scrape time.Duration
}

// rate holds the samples at both ends of floor(step/scrape) whole scrape intervals, whatever their phase.
func (w windows) rate() string { return promDuration(w.step + w.scrape - time.Millisecond) }

// gauge holds the samples of (T−step, T].
func (w windows) gauge() string { return promDuration(w.step - time.Millisecond) }

// fresh holds the newest sample of whatever is scraped at present.
func (w windows) fresh() string { return promDuration(2*w.scrape + 5*time.Second) }

// need is the number of samples of a series that missed no scrape.
func (w windows) need() int { return int(w.step/w.scrape) + 1 }

// union applies a function over a range to every metric and set. Without its name a series is its labels: a replica that
// exposes an old and a new name, or that several sets match, is read once, and replicas before and after a rename join.
func union(fn, window string, metrics []metric, sets []matchers) string {
	var parts []string
	for _, m := range metrics {
		for _, set := range sets {
			parts = append(parts, fmt.Sprintf("%s(%s[%s])", fn, m.selector(set), window))
		}
	}
	return strings.Join(parts, " or ")
}

// firstOf aggregates each metric apart and takes the first that has a value: at a gateway a new name may come with other
// labels than the old one beside it, so that their series cannot be told to be the same. With need above 0 a metric that
// missed a scrape has no value, so that one that has just appeared does not hide the one before.
func firstOf(agg, fn, window string, need int, metrics []metric, sets []matchers) string {
	var parts []string
	for _, m := range metrics {
		one := []metric{m}
		part := wrap(agg, union(fn, window, one, sets))
		if need > 0 {
			part = fmt.Sprintf("(%s and max(%s) >= %d)", part, union("count_over_time", window, one, sets), need)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " or ")
}

// current reads gauges now. The plain selector knows when a replica has gone (staleness markers) but looks back five
// minutes where nothing marks it; the range bounds that.
func current(window string, metrics []metric, sets []matchers) string {
	var parts []string
	for _, m := range metrics {
		for _, set := range sets {
			sel := m.selector(set)
			parts = append(parts, fmt.Sprintf("(%s and last_over_time(%s[%s]))", sel, sel, window))
		}
	}
	return strings.Join(parts, " or ")
}

// loadExprs returns the expressions of a model's load over steps, with keys that begin with prefix.
func (r *resolved) loadExprs(prefix string) []expr {
	var out []expr
	add := func(key, promql string) {
		if promql != "" {
			out = append(out, expr{prefix + key, promql})
		}
	}
	if s := r.served; s.known() {
		for _, f := range []Fact{FactPrompt, FactCompletion, FactRequests} {
			add("served."+string(f), wrap("sum", union("rate", s.rate(), s.metrics[f], s.sets)))
		}
		counted := s.counted()
		count := union("count_over_time", s.rate(), counted, s.sets)
		add(keyServedCover, wrap("max", count))
		if r.podLabel != "" && count != "" {
			add(keyReporting, fmt.Sprintf("count(max by (%s) (%s) >= %d)", r.podLabel, count, s.need()))
			add(keyReady, r.readyExpr(s.gauge()))
		}
		add(keyWaiting, wrap("max", union("max_over_time", s.gauge(), s.metrics[FactWaiting], s.sets)))
	}
	if g := r.gateway; g.known() {
		for _, f := range []Fact{FactPrompt, FactCompletion, FactRequests} {
			add("gateway."+string(f), firstOf("sum", "rate", g.rate(), g.need(), g.metrics[f], g.sets))
		}
		add(keyGatewayCover, wrap("max", union("count_over_time", g.rate(), g.counted(), g.sets)))
		add(keyQueue, firstOf("max", "max_over_time", g.gauge(), 0, g.metrics[FactWaiting], g.sets))
	}
	return out
}

// gaugeExprs returns the expressions of what waits and runs now, with keys that begin with prefix.
func (r *resolved) gaugeExprs(prefix string) []expr {
	var out []expr
	if s := r.served; s.known() {
		for _, f := range []Fact{FactWaiting, FactRunning} {
			if len(s.metrics[f]) > 0 {
				out = append(out, expr{prefix + keyNow + string(f),
					wrap("sum", current(s.fresh(), s.metrics[f], s.sets))})
			}
		}
	}
	if r.cfg.EngineCosts {
		out = append(out, r.engineExprs(prefix)...)
	}
	if g := r.gateway; g.known() && len(g.metrics[FactWaiting]) > 0 {
		var parts []string
		for _, m := range g.metrics[FactWaiting] {
			parts = append(parts, wrap("sum", current(g.fresh(), []metric{m}, g.sets)))
		}
		out = append(out, expr{prefix + keyNowQueue, strings.Join(parts, " or ")})
	}
	return out
}

// engineExprs returns the expressions of what the engines did over the last step, for learning a profile; none when the
// engine does not say all of it.
func (r *resolved) engineExprs(prefix string) []expr {
	s := r.served
	if !s.known() {
		return nil
	}
	for _, list := range [][]metric{s.metrics[FactRunning], s.metrics[FactPrompt], s.metrics[FactKVUse], s.between[FactITLSum]} {
		if len(list) == 0 {
			return nil
		}
	}
	rate := func(list []metric) string { return wrap("sum", union("rate", s.rate(), list, s.sets)) }
	return []expr{
		{prefix + keyEngineRunning, wrap("sum", union("avg_over_time", s.gauge(), s.metrics[FactRunning], s.sets))},
		{prefix + keyEngineKV, wrap("avg", union("avg_over_time", s.gauge(), s.metrics[FactKVUse], s.sets))},
		{prefix + keyEnginePrompt, rate(s.metrics[FactPrompt])},
		{prefix + keyEngineITL, rate(s.between[FactITLSum]) + " / " + rate(s.between[FactITLCount])},
	}
}

// The keys of the expressions besides "served." and "gateway." with a fact.
const (
	keyServedCover  = "served.cover"
	keyGatewayCover = "gateway.cover"
	keyReporting    = "reporting"
	keyReady        = "ready"
	keyWaiting      = "waiting"
	keyQueue        = "queue"
	keyNow          = "now."
	keyNowQueue     = "now.queue"

	keyEngineRunning = "engine.running"
	keyEngineKV      = "engine.kv"
	keyEnginePrompt  = "engine.prompt"
	keyEngineITL     = "engine.itl"
)

// wrap applies an aggregation, or returns nothing for nothing.
func wrap(agg, inner string) string {
	if inner == "" {
		return ""
	}
	return agg + "(" + inner + ")"
}

// readyExpr is the number of replicas that were ready throughout a step, as kube-state-metrics counts them; max drops
// what several kube-state-metrics report twice. It is empty for a model without workloads.
func (r *resolved) readyExpr(window string) string {
	var parts []string
	for _, w := range r.cfg.Workloads {
		kind := kubeKinds[w.Kind]
		set := append(matchers{{r.kube.label("namespace"), "=", w.Namespace}, {kind.label, "=", w.Name}}, r.kube.set...)
		parts = append(parts, fmt.Sprintf("max by (%s, %s) (min_over_time(%s[%s]))",
			r.kube.label("namespace"), kind.label, metric{name: kind.ready}.selector(set), window))
	}
	return wrap("sum", strings.Join(parts, " or "))
}
