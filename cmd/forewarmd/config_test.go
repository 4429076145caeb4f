package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"forewarm/configs"
	"forewarm/planner"
)

// The shipped example documents the defaults; both must say the same.
func TestExampleConfigStatesTheDefaults(t *testing.T) {
	data, err := configs.Example("forewarmd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig("forewarmd.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := defaultConfig()
	want.Prometheus.URL = "http://127.0.0.1:9090"
	got := *c
	got.Models, got.location, got.raw = nil, nil, nil
	gotPolicy := got.Policy.Planner()
	wantPolicy := want.Policy.Planner()
	got.Policy, want.Policy = configs.Policy{}, configs.Policy{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example differs from the defaults:\n got %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(gotPolicy, wantPolicy) {
		t.Errorf("the example's policy differs from the defaults:\n got %+v\nwant %+v", gotPolicy, wantPolicy)
	}
	if m := c.policy().For("chat-70b"); m.ReplicasMin != 2 || m.ReplicasMax != 12 || m.ServiceLevel != 0.95 {
		t.Errorf("the model's policy is not laid over the defaults: %+v", m)
	}
	ledger, err := c.ledger()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := planner.NewTracker(c.trackerConfig(ledger)); err != nil {
		t.Error(err)
	}
}

const minimal = `
prometheus: {url: "http://127.0.0.1:9"}
models:
- name: m
  matchers: ['model_name="m"']
  shape: {gpus: 1, pods: 1}
`

// A profile can be taken from the catalogue by its name, and a wrong name says what there is of that model.
func TestConfigTakesAProfileByName(t *testing.T) {
	const name = "llama-3.1-70b/fp8/h200_sxm/tp4/vllm"
	c, err := parseConfig("f.yaml", []byte(minimal+"  profile_name: "+name+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Models[0].Profile; p == nil || p.Physics == nil || !strings.Contains(p.Source, name) {
		t.Errorf("the profile is %+v", p)
	}
	_, err = parseConfig("f.yaml", []byte(minimal+"  profile_name: llama-3.1-70b/x\n"))
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a wrong name: %v", err)
	}
	_, err = parseConfig("f.yaml", []byte(minimal+"  profile_name: "+name+"\n  profile: {prompt_tokens_per_s: 1, completion_tokens_per_s: 1}\n"))
	if err == nil || !strings.Contains(err.Error(), "one of them is allowed") {
		t.Errorf("a name and a profile: %v", err)
	}
}

// TestConfigPricesProfiles: the price of a GPU prices the replicas of the catalogue's profiles, the model's own and the
// other shapes of the same model, precision and engine; one of a GPU without a price has none, and a stated one stands.
func TestConfigPricesProfiles(t *testing.T) {
	c, err := parseConfig("f.yaml", []byte(minimal+"  profile_name: llama-3.1-70b/fp8/h100_sxm/tp4/vllm\n"+
		"  learn_profile: true\ngpu_prices_per_hour: {h100_sxm: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	tracked := c.trackerConfig(nil).Models[0]
	if tracked.Price == nil || *tracked.Price != 3*planner.Price(tracked.Shape.GPUs*tracked.Shape.Pods) {
		t.Errorf("the price is %v", tracked.Price)
	}
	if tracked.Learn == nil {
		t.Error("the profile is not learned")
	}
	prices := map[string]planner.Price{}
	for _, a := range tracked.Alternatives {
		if a.Name == "llama-3.1-70b/fp8/h100_sxm/tp4/vllm" || !strings.HasSuffix(a.Name, "/vllm") || !strings.Contains(a.Name, "/fp8/") {
			t.Errorf("%s is no alternative", a.Name)
		}
		prices[a.Name] = 0
		if a.Price != nil {
			prices[a.Name] = *a.Price
		}
	}
	if prices["llama-3.1-70b/fp8/h100_sxm/tp8/vllm"] != 24 || prices["llama-3.1-70b/fp8/h200_sxm/tp2/vllm"] != 0 || len(prices) < 4 {
		t.Errorf("the prices are %v", prices)
	}
}

// The calendar is read with the file, in the zone of the forecast, and what is wrong with it is reported with the rest.
func TestConfigReadsTheCalendar(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with := minimal + "forecast: {timezone: Europe/Berlin}\nevents: " + path + "\n"
	write("events: [{name: launch, start: 2026-07-01 09:00, duration: 1h, learn: true, models: [m]}]\n")
	c, err := parseConfig("f.yaml", []byte(with))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := c.ledger()
	if err != nil {
		t.Fatal(err)
	}
	nine := time.Date(2026, 7, 1, 7, 0, 0, 0, time.UTC)
	if o := c.trackerConfig(ledger).Events.Occurrences("m", nine, nine.Add(time.Minute)); len(o) != 1 || !o[0].Start.Equal(nine) {
		t.Errorf("occurrences %v, want one at 9 in Berlin", o)
	}
	for at, want := range map[time.Time]int{nine.AddDate(0, 0, 10): 0, nine.AddDate(0, 0, 20): 1} {
		if found := eventFindings(c, at); len(found) != want {
			t.Errorf("at %s: found %v, want %d", at, found, want)
		}
	}
	write("events: [{name: launch, start: 2026-07-01, duration: 1h, learn: true, models: [n]}]\n")
	_, err = parseConfig("f.yaml", []byte(strings.Replace(with, "models:", "tick: 1ms\nmodels:", 1)))
	for _, want := range []string{"tick is 1ms", path + `: an event is about model "n": the names under models are allowed: m`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	write("events: [{name: launch}]\n")
	if _, err = parseConfig("f.yaml", []byte(with)); err == nil || !strings.Contains(err.Error(), path+`:1: events[0] "launch": start is ""`) {
		t.Errorf("an event without a start gives %v", err)
	}
	if _, err = parseConfig("f.yaml", []byte(minimal+"events: nowhere.yaml\n")); err == nil || !strings.Contains(err.Error(), "f.yaml: events: open nowhere.yaml") {
		t.Errorf("a missing file gives %v", err)
	}
}

// Every problem of a file is reported at once, with its key, the value and what is allowed.
func TestConfigReportsEverythingAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, yaml string
		want       []string
	}{
		{"form", strings.Replace(minimal, "prometheus:", "tick: 15\ntik: 15s\nkeda: {max_plan_age: five}\nprometheus:", 1), []string{
			`f.yaml:2: "15" is not a duration: a number with a unit is allowed`,
			`f.yaml:3: unknown key "tik"`,
			`f.yaml:4: "five" is not a duration`,
		}},
		{"unit", minimal + "  lead_times: {cold_node: {p50: 6 minutes}}\n", []string{`f.yaml:7: "6 minutes" is not a duration`}},
		{"ranges", `
tick: 10ms
http: {listen: nowhere}
keda: {max_plan_age: 0s}
prometheus: {url: "ftp://x", step: 1s}
forecast: {method: oracle, horizon: -1m, paths: 1, timezone: Mars/Olympus}
policy: {defaults: {replicas_min: -1, service_level: 1.5}}
models:
- name: m
  matchers: ['{{']
  shape: {gpus: 0, pods: 1}
  profile: {prompt_tokens_per_s: -5, completion_tokens_per_s: 10}
  weights_gb: -1
  lead_times: {lukewarm: {p50: 1m}, warm_node: {p50: 3m, p95: 2m}}
  policy: {replicas_min: 5, replicas_max: 3}
`, []string{
			"f.yaml: tick is 10ms: 1s to 5m are allowed",
			`f.yaml: http.listen is "nowhere"`,
			"f.yaml: keda.max_plan_age is 0s",
			"f.yaml: prometheus.url:",
			"f.yaml: prometheus.step:",
			`f.yaml: forecast.method is "oracle": auto, last, snaive, drift, daylevel, weeklevel, profile, dshw, stlar, harmonic, quantreg are allowed`,
			"f.yaml: forecast.horizon is -1m0s",
			"f.yaml: forecast.paths is 1",
			`f.yaml: forecast.timezone is "Mars/Olympus"`,
			"f.yaml: policy.defaults.replicas_min is -1",
			"f.yaml: policy.defaults.service_level is 1.5",
			"matchers[0]",
			"shape.gpus is 0",
			"profile.prompt_tokens_per_s is -5",
			`lead_times has "lukewarm": any, cached_weights, cold_node, reclaimed_node, warm_node are allowed`,
			"lead_times.warm_node:",
			"weights_gb is -1",
			"policy.replicas_min is 5: at most replicas_max, 3, is allowed",
		}},
		{"form and ranges", "tick: 10ms\ntik: 1s\n" + minimal + "  policy: {replicas_min: 2.7, drain_time: 5, replicas_max: -1}\n", []string{
			`f.yaml:2: unknown key "tik"`, `"2.7" is not a whole number`, `"5" is not a duration`, "f.yaml: tick is 10ms", "policy.replicas_max is -1",
		}},
		{"one address for two", "http: {listen: 127.0.0.1:6000}\n" + minimal, []string{"as keda.listen: two addresses are needed"}},
		{"no models", `prometheus: {url: "http://127.0.0.1:9"}`, []string{"models is empty"}},
		{"same name twice", minimal + "- {name: m, matchers: ['a=\"b\"'], shape: {gpus: 1, pods: 1}}\n", []string{"allowed once"}},
		{"zero without arrivals", minimal + "  policy: {replicas_min: 0}\n", []string{
			`policy.replicas_min is 0 with arrivals.source ""`}},
		{"zero with served tokens", minimal + "  policy: {replicas_min: 0}\n  arrivals: {source: gen-ai}\n", []string{
			`policy.replicas_min is 0 with arrivals.source "gen-ai"`}},
		{"zero by the policy of the model", minimal + "policy: {models: {m: {replicas_min: 0}}}\n", []string{
			`policy.replicas_min is 0 with arrivals.source ""`}},
		{"limits that meet from two places", minimal + "  policy: {replicas_min: 5}\npolicy: {models: {m: {replicas_max: 3}}}\n", []string{
			"policy.replicas_min is 5: at most replicas_max, 3, is allowed"}},
		{"serving nobody", minimal + "  serves: other\n  role: both\n  price_per_hour: 0\n  policy: {standby: {for: m, share: 2}}\n", []string{
			`serves is "other": another name under models is allowed`, `role is "both": prefill, decode or none are allowed`,
			"price_per_hour is 0: above 0 to 1000000 are allowed", `policy.standby.for is "m": another name under models is allowed`,
			"policy.standby.share is 2: above 0 to 1 is allowed"}},
		{"a price of nothing", minimal + "  learn_profile: true\ngpu_prices_per_hour: {h100_sxm: 0}\n", []string{
			"gpu_prices_per_hour.h100_sxm is 0: above 0 to 1000000 is allowed", "learn_profile is true without physics to start from"}},
		{"acting on what nothing writes", minimal + "policy: {pools: act, quota: {authority: act}}\n", []string{
			"policy.pools is act: observe or advise is allowed, for the daemon does not write the nodes of static pools",
			"policy.quota.authority is act: observe or advise is allowed, for the daemon does not write quotas"}},
		{"serving one that serves", minimal + "- {name: a, matchers: ['a=\"b\"'], shape: {gpus: 1, pods: 1}, serves: m, role: decode}\n" +
			"- {name: b, matchers: ['a=\"c\"'], shape: {gpus: 1, pods: 1}, serves: a, like: m}\n", []string{
			`role is "decode" and that of "m", which it serves, "": either all have one or none`,
			`serves is "a", which serves "m" itself: a model with a load of its own is allowed`}},
		{"standing by for one that serves", minimal + "- {name: a, matchers: ['a=\"b\"'], shape: {gpus: 1, pods: 1}, serves: m}\n" +
			"- {name: b, matchers: ['a=\"c\"'], shape: {gpus: 1, pods: 1}, policy: {standby: {for: a, share: 0.5}}}\n", []string{
			`policy.standby.for is "a", which serves "m": a model with a load of its own is allowed`}},
		{"policy of nobody", minimal + "policy: {models: {chat-70b: {replicas_min: 2}}}\n", []string{
			`f.yaml: policy.models has "chat-70b": the names under models are allowed: m`}},
		{"horizon below a step", strings.Replace(minimal, "9\"}", "9\", step: 5m}\nforecast: {horizon: 2m}", 1), []string{
			"forecast.horizon is 2m0s: at least prometheus.step, 5m0s, is allowed"}},
		{"two documents", minimal + "---\n{}\n", []string{"one YAML document is allowed"}},
		{"no YAML", "a: [", []string{"f.yaml: "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseConfig("f.yaml", []byte(tt.yaml))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
			if got := strings.Count(err.Error(), "\n") + 1; tt.name != "no YAML" && got < len(tt.want) {
				t.Errorf("%d problems reported, want at least %d:\n%v", got, len(tt.want), err)
			}
		})
	}
	if _, err := parseConfig("f.yaml", []byte(minimal)); err != nil {
		t.Errorf("the minimal file is refused: %v", err)
	}
	if _, err := parseConfig("f.yaml", []byte(minimal+"  policy: {replicas_min: 0}\n  arrivals: {source: inference-extension}\n")); err != nil {
		t.Errorf("a minimum of 0 with arrivals at the gateway is refused: %v", err)
	}
}

func TestConfigReadsStartsAsMeasured(t *testing.T) {
	file := t.TempDir() + "/starts.json"
	var lines strings.Builder
	for _, s := range []string{"180", "200", "190", "210", "240", "205"} {
		lines.WriteString(`{"id":"pod-` + s + `","model":"m","path":"warm_node","started":"2026-03-01T09:00:00Z","total_seconds":` + s + `,"outcome":"served"}` + "\n")
	}
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig("f.yaml", []byte(minimal+"  starts_file: "+file+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := c.ledger()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ledger.Samples()); n != 6 {
		t.Errorf("%d starts read, want 6", n)
	}
	c.Models[0].StartsFile = file + ".missing"
	if _, err := c.ledger(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a missing starts file gives %v", err)
	}
}

// Two models with their own files, whose records have no ids, keep the starts of both.
func TestConfigKeepsStartsOfEveryFile(t *testing.T) {
	text := minimal
	for _, m := range []string{"m", "n"} {
		file := t.TempDir() + "/" + m + ".json"
		line := `{"model":"` + m + `","path":"warm_node","started":"2026-03-01T09:00:00Z","total_seconds":200}` + "\n"
		if err := os.WriteFile(file, []byte(line+line), 0o600); err != nil {
			t.Fatal(err)
		}
		if m != "m" {
			text += "- name: n\n  matchers: ['model_name=\"n\"']\n  shape: {gpus: 1, pods: 1}\n"
		}
		text += "  starts_file: " + file + "\n"
	}
	c, err := parseConfig("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := c.ledger()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, s := range ledger.Samples() {
		of[s.Key.Model]++
	}
	if of["m"] != 2 || of["n"] != 2 {
		t.Errorf("starts by model: %v, want 2 of each", of)
	}
}
