package main

import (
	"strings"
	"testing"

	"forewarm/scaler/prom"
)

// Each finding about the configuration is raised by the setting that causes it, and by nothing else.
func TestConfigFindings(t *testing.T) {
	const sound = `
data_dir: /var/lib/forewarm
prometheus: {url: "http://127.0.0.1:9"}
models:
- name: m
  matchers: ['model_name="m"']
  shape: {gpus: 1, pods: 1}
  profile: {prompt_tokens_per_s: 20000, completion_tokens_per_s: 2000}
  lead_times: {warm_node: {p50: 3m, p95: 5m}}
`
	for _, tt := range []struct {
		name, old, new string
		want           string // "" for none
	}{
		{"sound", "", "", ""},
		{"no journal", "data_dir: /var/lib/forewarm\n", "", "data_dir"},
		{"no profile", "  profile: {prompt_tokens_per_s: 20000, completion_tokens_per_s: 2000}\n", "", "no replica profile"},
		{"no lead time", "  lead_times: {warm_node: {p50: 3m, p95: 5m}}\n", "", "no lead time is stated"},
		{"answers zero", "\nmodels:\n- name: m\n", "\nmodels:\n- name: m\n  policy: {replicas_min: 0}\n  arrivals: {source: inference-extension}\n",
			"authority observe answers replicas_min, which is 0"},
		{"lead times beyond the forecast", "{warm_node: {p50: 3m, p95: 5m}}", "{warm_node: {p50: 20m, p95: 40m}, cold_node: {p50: 40m, p95: 50m}}",
			"of cold_node is 52m11s, q97.5 of warm_node is 45m41s"},
		{"a steep service level reads further", "\nmodels:\n", "\npolicy: {defaults: {service_level: 0.9999}}\nforecast: {horizon: 6m}\nmodels:\n",
			"of warm_node is"},
		{"load older than allowed", "9\"}\n", "9\", step: 5m}\n", "load_max_age is 3m0s, but the newest load is up to 5m20s old"},
		{"stale at once", "\nmodels:\n", "\ntick: 1m\nmodels:\n", "every plan is stale before the next one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(sound, tt.old) {
				t.Fatalf("%q is not in the sound configuration", tt.old)
			}
			cfg, err := parseConfig("f.yaml", []byte(strings.Replace(sound, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			findings := configFindings(cfg)
			if tt.want == "" {
				if len(findings) > 0 {
					t.Errorf("found %v", findings)
				}
				return
			}
			if len(findings) != 1 || !strings.Contains(findings[0].String(), tt.want) || findings[0].Severity == prom.Info {
				t.Errorf("found %v, want one with %q", findings, tt.want)
			}
		})
	}
}
