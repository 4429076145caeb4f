package prom

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// Check resolves every model anew at now and reports what a person should repair, in the order of the models: metrics
// that are not there, two models where one was asked, one series in two models, scrape intervals, gateways that are
// bypassed, workloads that kube-state-metrics does not report, replicas that no series matches. It returns an error only
// when the server could not be asked anything; a failure that concerns one model is a Finding.
func (s *Source) Check(ctx context.Context, now time.Time) ([]Finding, error) {
	if _, err := s.client.vector(ctx, "vector(1)", now); err != nil {
		return nil, fmt.Errorf("checking %s: %w", s.cfg.URL, err)
	}
	results, errs := make([]*resolved, len(s.models)), make([]error, len(s.models))
	s.each(len(s.models), func(i int) {
		r, err := s.refresh(ctx, s.models[i], now)
		if err == nil && r.served == nil && r.res.Arrivals == "" {
			err = s.explainNone(ctx, r, now)
		}
		results[i], errs[i] = r, err
	})
	kube, kubeErr := s.observeKube(ctx, now)
	var out []Finding
	if kubeErr != nil {
		out = append(out, Finding{Error, "", "replicas", kubeErr.Error(), "check that kube-state-metrics is scraped"})
	}
	for i, r := range results {
		if errs[i] != nil {
			out = append(out, Finding{Error, s.models[i].Name, "server", errs[i].Error(), "repair the server or the matchers"})
		}
		if r == nil {
			continue
		}
		if kubeErr == nil {
			r.checkReplicas(kube)
		}
		out = append(out, r.res.Findings...)
	}
	return append(out, overlaps(results)...), nil
}

// explainNone looks for the one matcher without which something would match.
func (s *Source) explainNone(ctx context.Context, r *resolved, now time.Time) error {
	for _, set := range mustParse(r.cfg.Matchers) {
		for i := range set {
			rest := set.without(i)
			if len(rest) == 0 {
				rest = matchers{}
			}
			v, err := s.client.vector(ctx, anyOf(r.cfg.engineFamilies(), rest), now)
			if err != nil {
				return fmt.Errorf("looking for the matcher that excludes everything: %w", err)
			}
			if len(v) == 0 {
				continue
			}
			r.find(Info, "series", "correct it, for example to one of the values seen",
				"%d series would match without %s; there %s", len(v), set[i], valuesOf(v, set[i].label))
		}
	}
	return nil
}

// valuesOf says which values a label has in an answer, or under which name it is kept instead.
func valuesOf(v model.Vector, label string) string {
	var values []string
	for _, name := range []string{label, "exported_" + label} {
		for _, sample := range v {
			value := string(sample.Metric[model.LabelName(name)])
			if entry := fmt.Sprintf("%s=%q", name, value); value != "" && !slices.Contains(values, entry) {
				values = append(values, entry)
			}
		}
	}
	slices.Sort(values)
	const valuesMax = 5
	switch {
	case len(values) == 0:
		return "no series has the label " + label
	case len(values) > valuesMax:
		return fmt.Sprintf("%s and %d more exist", strings.Join(values[:valuesMax], ", "), len(values)-valuesMax)
	}
	return strings.Join(values, ", ") + " exist"
}

// checkReplicas compares the workloads with the series.
func (r *resolved) checkReplicas(kube *kubeFacts) {
	if len(r.cfg.Workloads) == 0 {
		r.find(Error, "replicas", "name the model's workloads", "no workload is configured: replicas are unknown")
		return
	}
	if _, _, err := kube.replicas(r.cfg.Workloads); err != nil {
		r.find(Error, "replicas", "check the workload's name and namespace, and that kube-state-metrics is scraped", "%v", err)
		return
	}
	var ready, silent []string
	for _, w := range r.cfg.Workloads {
		for _, p := range kube.owned(w) {
			if !p.ready || p.leaving || p.ended {
				continue
			}
			ready = append(ready, p.name)
			if !r.pods[p.name] {
				silent = append(silent, p.name)
			}
		}
	}
	if len(ready) == 0 || r.podLabel == "" || r.podLabel == "instance" {
		return
	}
	share := float64(len(silent)) / float64(len(ready))
	r.res.UnmatchedShare = &share
	if len(silent) > 0 {
		r.find(Warning, "series", "compare the label "+r.podLabel+" and the matchers with these pods",
			"of %d ready pods %d (%.0f %%) have no matching series: %s", len(ready), len(silent), 100*share,
			strings.Join(silent, ", "))
	}
}

// overlaps reports series that two models count.
func overlaps(results []*resolved) []Finding {
	type pair struct{ first, second string }
	owner, shared := map[model.Fingerprint]string{}, map[pair]int{}
	var order []pair
	for _, r := range results {
		if r == nil {
			continue
		}
		for _, series := range r.series {
			fp := series.Fingerprint()
			first, dup := owner[fp]
			if !dup {
				owner[fp] = r.cfg.Name
				continue
			}
			p := pair{first, r.cfg.Name}
			if shared[p]++; shared[p] == 1 {
				order = append(order, p)
			}
		}
	}
	var out []Finding
	for _, p := range order {
		out = append(out, Finding{Error, p.second, "overlap",
			fmt.Sprintf("%d series are counted by %s too", shared[p], p.first),
			"make the matchers of the two models exclude each other"})
	}
	return out
}
