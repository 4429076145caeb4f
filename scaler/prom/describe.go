package prom

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// describe fills the Resolution from what was found and lists what is wrong with it.
func (r *resolved) describe() {
	names := namesOf(r.series)
	r.res.Matched = len(r.series)
	r.res.Metrics, r.res.Series = map[Fact]string{}, map[Fact]int{}
	if r.served != nil {
		r.res.Engine, r.res.ScrapeInterval = r.served.name, r.served.scrape
		for f, list := range r.served.metrics {
			r.res.Metrics[f] = foundNames(list, names)
			for _, series := range r.series {
				if slices.ContainsFunc(list, func(m metric) bool { return m.matches(series) }) {
					r.res.Series[f]++
				}
			}
		}
	}
	if r.gateway.known() {
		r.res.GatewayMetrics = map[Fact]string{}
		for f, list := range r.gateway.metrics {
			r.res.GatewayMetrics[f] = list[0].name
		}
		if len(r.gateway.metrics[FactPrompt]) > 0 && len(r.gateway.metrics[FactCompletion]) > 0 {
			r.res.Arrivals = r.gateway.name
		}
	}
	r.describeSeries()
	r.describeNames()
}

// foundNames lists the names of a fact that exist.
func foundNames(list []metric, names map[string]bool) string {
	var found []string
	for _, m := range list {
		if names[m.name] && !slices.Contains(found, m.name) {
			found = append(found, m.name)
		}
	}
	return strings.Join(found, ", ")
}

// describeSeries reports what is missing for reading a load.
func (r *resolved) describeSeries() {
	has := func(src *source, f Fact) bool { return src != nil && len(src.metrics[f]) > 0 }
	if !has(r.served, FactWaiting) && !has(r.gateway, FactWaiting) && (r.served != nil || r.gateway != nil) {
		r.find(Warning, "names", "expose the queue gauge of the engine or of the gateway",
			"no gauge of waiting requests: a saturated sample cannot be told from a free one")
	}
	if r.served == nil {
		if r.res.Arrivals == "" {
			r.find(Error, "series", "compare the matchers with the labels of the engine's metrics, and check that it is scraped",
				"no series matches %s: the load is unknown", strings.Join(r.cfg.Matchers, " or "))
		}
		return
	}
	if r.res.Arrivals == "" && (!has(r.served, FactPrompt) || !has(r.served, FactCompletion)) {
		r.find(Error, "names", "count tokens at a gateway (arrivals)",
			"%s exposes no token counters here: the load is unknown", r.served.name)
	}
	if r.served.scrape == 0 {
		r.find(Warning, "scrape_interval", "wait for three scrapes, or set scrape_interval",
			"no series has three samples in %v, so the scrape interval is unknown", lookback)
		return
	}
	if r.served.scrape > r.served.step {
		r.find(Error, "scrape_interval", "scrape more often, or raise step",
			"the scrape interval is %v and the step %v: most steps would be missing", r.served.scrape, r.served.step)
	}
	if r.podLabel == "" {
		r.find(Warning, "series", "keep the label pod or instance when scraping",
			"no label tells the replicas apart: a replica that is not scraped goes unnoticed")
	}
}

// describeNames reports several served models where the matchers do not name them.
func (r *resolved) describeNames() {
	for _, set := range mustParse(r.cfg.Matchers) {
		if len(set.on("model_name")) > 0 {
			continue
		}
		var names []string
		for _, series := range r.series {
			if name := string(series["model_name"]); name != "" && set.matches(series) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) > 1 {
			slices.Sort(names)
			r.find(Error, "names", "name the models that belong together by model_name matchers, one set for each",
				"%q matches %d models where one was asked: %s", set.String(), len(names), strings.Join(names, ", "))
		}
	}
}

// matches reports whether a series is one of the metric's.
func (m metric) matches(series model.Metric) bool {
	return string(series[model.MetricNameLabel]) == m.name && m.fixed.matches(series)
}

// matches reports whether a series satisfies the set, as the server would decide.
func (ms matchers) matches(series model.Metric) bool {
	for _, m := range ms {
		if !m.matches(string(series[model.LabelName(m.label)])) {
			return false
		}
	}
	return true
}

// arrivalsIndependent says whether demand is seen without any replica of the model: a queue or a counter of requests at
// a gateway. Tokens alone are not enough, because they are counted when a replica has answered.
func (r *resolved) arrivalsIndependent() (bool, string) {
	g := r.gateway
	if !g.known() {
		return false, "no metric of a gateway counts this model; its replicas' own metrics vanish with them"
	}
	for _, f := range []Fact{FactWaiting, FactRequests} {
		if list := g.metrics[f]; len(list) > 0 {
			return true, fmt.Sprintf("%s at the gateway (%s)", f, list[0].name)
		}
	}
	return false, fmt.Sprintf("the gateway (%s) counts only tokens, which come when a replica has answered", g.name)
}
