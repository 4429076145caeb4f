package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"forewarm/planner"
	"forewarm/scaler/prom"
)

// runCheck prints what the daemon would read and every finding. It returns errFound when a finding needs attention.
func runCheck(ctx context.Context, cfg *config, out io.Writer, log *slog.Logger) error {
	source, err := prom.New(cfg.Prometheus, cfg.promModels())
	if err != nil {
		return err
	}
	if _, err := cfg.ledger(); err != nil {
		return err
	}
	now := time.Now()
	findings, reached := metricFindings(ctx, cfg, source, now)
	if reached {
		printResolutions(ctx, cfg, source, now, out, log)
	}
	if findings, err = checkCluster(ctx, cfg, now, findings, log); err != nil {
		return err
	}
	serious := 0
	for _, f := range findings {
		fmt.Fprintln(out, f)
		if f.Severity != prom.Info {
			serious++
		}
	}
	if serious > 0 {
		fmt.Fprintf(out, "findings that need attention: %d\n", serious)
		return errFound
	}
	fmt.Fprintln(out, "nothing found")
	return nil
}

// metricFindings are those of the configuration and of the metrics it names; reached is false when the server could not
// be asked.
func metricFindings(ctx context.Context, cfg *config, source *prom.Source, now time.Time) (findings []prom.Finding, reached bool) {
	findings = append(configFindings(cfg), eventFindings(cfg, now)...)
	fromServer, err := source.Check(ctx, now)
	if err != nil {
		return append(findings, prom.Finding{Severity: prom.Error, Subject: "url", Text: err.Error(),
			Remedy: "check prometheus.url and that it can be reached from here"}), false
	}
	findings = append(findings, fromServer...)
	return append(findings, zeroFindings(cfg, source)...), true
}

// logFindings writes to the log what --check would print about the configuration and the metrics: whoever skipped the
// check must be able to find it there.
func logFindings(ctx context.Context, cfg *config, log *slog.Logger) {
	source, err := prom.New(cfg.Prometheus, cfg.promModels())
	if err != nil {
		return // newLive has refused it already
	}
	findings, _ := metricFindings(ctx, cfg, source, time.Now())
	for _, f := range findings {
		if f.Severity != prom.Info && ctx.Err() == nil {
			log.Warn("finding", "severity", f.Severity, "model", f.Model, "subject", f.Subject, "text", f.Text, "remedy", f.Remedy)
		}
	}
}

// configFindings are settings that are allowed and yet hardly meant.
func configFindings(cfg *config) []prom.Finding {
	var out []prom.Finding
	find := func(severity prom.Severity, model, subject, text, remedy string) {
		out = append(out, prom.Finding{Severity: severity, Model: model, Subject: subject, Text: text, Remedy: remedy})
	}
	if cfg.DataDir == "" {
		find(prom.Warning, "", "data_dir", "no journal is kept: decisions cannot be explained later and starts are not remembered",
			"set data_dir to a directory on a persistent volume")
	}
	if cfg.KEDA.StaleAfter <= cfg.Tick {
		find(prom.Error, "", "keda.stale_after", fmt.Sprintf("stale_after is %s with a tick of %s: every plan is stale before the next one",
			cfg.KEDA.StaleAfter, cfg.Tick), "set keda.stale_after to three ticks and keda.max_plan_age well above that")
	}
	policy := cfg.policy()
	for i := range cfg.Models {
		m := &cfg.Models[i]
		if m.Profile == nil {
			find(prom.Error, m.Name, "profile", "no replica profile: the load cannot be turned into replicas, the plan only holds",
				"measure prompt and completion tokens/s of one replica within the SLO")
		}
		if len(m.LeadTimes) == 0 && m.StartsFile == "" && m.WeightsGB == 0 {
			find(prom.Warning, m.Name, "lead_time", "no lead time is stated and no starts are given: the peak of the whole forecast is planned for",
				"state lead_times, name a starts_file, or give weights_gb for a guess from published figures")
		}
		if p := policy.For(m.Name); p.Authority != planner.Act && p.ReplicasMin == 0 {
			find(prom.Error, m.Name, "replicas_min", fmt.Sprintf("authority %s answers replicas_min, which is 0: KEDA would be told that nothing is needed", p.Authority),
				"set replicas_min to what must run, or authority: act")
		}
		if text := beyondHorizon(cfg, m, policy.For(m.Name).ServiceLevel); text != "" {
			find(prom.Error, m.Name, "lead_time", text, "raise forecast.horizon")
		}
		if age := cfg.Prometheus.Step + cfg.Prometheus.IngestDelay + cfg.Tick; policy.For(m.Name).LoadMaxAge < age {
			find(prom.Error, m.Name, "load_max_age", fmt.Sprintf("load_max_age is %s, but the newest load is up to %s old between two steps: "+
				"it would count as missing, and the plan would never shrink", policy.For(m.Name).LoadMaxAge, age),
				"raise load_max_age, or shorten prometheus.step")
		}
	}
	return out
}

// eventFindings are events that are to be learned and that the history says nothing about.
func eventFindings(cfg *config, now time.Time) []prom.Finding {
	if cfg.calendar == nil {
		return nil
	}
	var out []prom.Finding
	for _, model := range cfg.modelNames() {
		if names := cfg.calendar.Unlearned(model, now.Add(-cfg.Forecast.History), now); len(names) > 0 {
			out = append(out, prom.Finding{Severity: prom.Warning, Model: model, Subject: "events", Text: fmt.Sprintf(
				"to be learned, but without an occurrence in the %s of history that are read: %s", cfg.Forecast.History, strings.Join(names, ", ")),
				Remedy: "state a multiplier, or raise forecast.history"})
		}
	}
	return out
}

// beyondHorizon says which stated lead time the forecast would not reach, at the quantile the planner reads it at under
// this service level.
func beyondHorizon(cfg *config, m *modelConfig, serviceLevel float64) string {
	var long []string
	quantile := 1 - (1-serviceLevel)/2
	for _, name := range slices.Sorted(maps.Keys(m.LeadTimes)) {
		lt, err := m.LeadTimes[name].leadTime(startPaths[name])
		if err != nil {
			continue // refused when the configuration was read
		}
		if q := lt.Quantile(quantile); q+cfg.Tick > cfg.Forecast.Horizon {
			long = append(long, fmt.Sprintf("q%.4g of %s is %s", 100*quantile, name, q.Round(time.Second)))
		}
	}
	if len(long) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, the forecast reaches %s ahead", strings.Join(long, ", "), cfg.Forecast.Horizon)
}

// zeroFindings refuses a minimum of 0 where demand cannot be seen without a replica.
func zeroFindings(cfg *config, source *prom.Source) []prom.Finding {
	var out []prom.Finding
	policy := cfg.policy()
	for i := range cfg.Models {
		name := cfg.Models[i].Name
		if policy.For(name).ReplicasMin > 0 {
			continue
		}
		if ok, why := source.ArrivalsIndependent(name); !ok {
			out = append(out, prom.Finding{Severity: prom.Error, Model: name, Subject: "replicas_min",
				Text: "replicas_min is 0, but demand cannot be seen without a replica: " + why, Remedy: "set replicas_min to 1, or name arrivals at the gateway"})
		}
	}
	return out
}

// printResolutions says which metrics each model is read from.
func printResolutions(ctx context.Context, cfg *config, source *prom.Source, now time.Time, out io.Writer, log *slog.Logger) {
	for _, name := range cfg.modelNames() {
		r, err := source.Resolve(ctx, name, now)
		if err != nil {
			log.Warn("metrics not resolved", "model", name, "error", err)
			continue
		}
		fmt.Fprintln(out, describe(r))
	}
}

// describe says in one line what a model is read from.
func describe(r prom.Resolution) string {
	if r.Matched == 0 && r.Arrivals == "" {
		return r.Model + ": no series matched"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d series", r.Model, r.Matched)
	if r.Engine != "" {
		fmt.Fprintf(&b, " of %s", r.Engine)
	}
	source, metrics := "served tokens", r.Metrics
	if r.Arrivals != "" {
		source, metrics = "arrivals at "+r.Arrivals, r.GatewayMetrics
	}
	fmt.Fprintf(&b, "; load from %s", source)
	for _, fact := range slices.Sorted(maps.Keys(metrics)) {
		fmt.Fprintf(&b, "\n    %-18s %s", fact, metrics[fact])
	}
	if r.ScrapeInterval > 0 {
		fmt.Fprintf(&b, "\n    %-18s %s", "scrape interval", r.ScrapeInterval)
	}
	return b.String()
}
