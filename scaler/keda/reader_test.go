package keda

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"forewarm/planner"
)

func TestReadTrigger(t *testing.T) {
	for _, c := range []struct {
		name     string
		metadata map[string]string
		want     trigger
		problems []string // parts of them, in order
	}{
		{"the least", map[string]string{"model": "m"}, trigger{model: "m"}, nil},
		{"all", map[string]string{"model": "m", "minReplicas": "3", "maxPlanAge": "90s"}, trigger{"m", 3, 90 * time.Second}, nil},
		{"limits", map[string]string{"model": "m", "minReplicas": "1000000", "maxPlanAge": "24h"}, trigger{"m", 1000000, 24 * time.Hour}, nil},
		{"from the environment", map[string]string{"modelFromEnv": "m", "minReplicasFromEnv": "0"}, trigger{model: "m"}, nil},
		{"nothing", nil, trigger{}, []string{"model is missing"}},
		{"empty", map[string]string{"modelFromEnv": ""}, trigger{}, []string{"modelFromEnv is empty"}},
		{"out of range", map[string]string{"model": "m", "minReplicas": "-1", "maxPlanAge": "999ms"}, trigger{model: "m"},
			[]string{`maxPlanAge is "999ms": a duration of 1s to 24h`, `minReplicas is "-1": an integer of 0 to 1000000`}},
		{"above range", map[string]string{"model": "m", "minReplicas": "1000001", "maxPlanAge": "24h1s"}, trigger{model: "m"},
			[]string{"maxPlanAge", "minReplicas"}},
		{"not numbers", map[string]string{"model": "m", "minReplicas": "2.5", "maxPlanAge": "NaN"}, trigger{model: "m"},
			[]string{"maxPlanAge", "minReplicas"}},
		{"twice", map[string]string{"model": "m", "modelFromEnv": "n"}, trigger{},
			[]string{`model is "m" and modelFromEnv is "n": one of them is allowed`}},
		{"another case", map[string]string{"Model": "m"}, trigger{}, []string{"model is missing", `"Model" (value "m"), did you mean "model"?`}},
		{"far from any key", map[string]string{"model": "m", "threshold": "5"}, trigger{model: "m"}, []string{`unknown key "threshold" (value "5")`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems := readTrigger(c.metadata)
			if c.name != "twice" && got != c.want { // of two models either may be kept; the call fails anyway
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if len(problems) != len(c.problems) {
				t.Fatalf("problems %q, want %q", problems, c.problems)
			}
			for i, part := range c.problems {
				if !strings.Contains(problems[i], part) {
					t.Errorf("problem %q does not have %q", problems[i], part)
				}
			}
		})
	}
}

func TestInvalidTriggerIsBounded(t *testing.T) {
	metadata := map[string]string{}
	for i := range 500 {
		metadata[strings.Repeat("k", i+1)] = strings.Repeat("v", 1000)
	}
	_, problems := readTrigger(metadata)
	if got := invalidTrigger(problems); len(got) > 4096 || !strings.Contains(got, "and 491 more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"modle": "model", "MODEL": "model", "minreplicas": "minReplicas", "minReplica": "minReplicas", "maxPlanage": "maxPlanAge",
		"maxAge": "", "x": "", "": "", "tlsClientCrt": "tlsClientCert", strings.Repeat("model", 100): "",
	} {
		if got := nearest(name, append(ownKeys[:len(ownKeys):len(ownKeys)], kedaKeys...)); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
}

// Whatever the metadata, reading ends without a panic, a trigger that is accepted keeps its bounds, and what is refused is
// refused in one short valid line.
func FuzzReadTrigger(f *testing.F) {
	f.Add("model", "chat-70b", "minReplicas", "3", "maxPlanAge", "90s")
	f.Add("modelFromEnv", "chat-70b", "model", "x", "scalerAddress", "a:1")
	f.Add("Model", "", "minReplicas", "-1", "maxPlanAge", "1h1h")
	f.Add("\xff", "\x00", "minReplicasFromEnv", "99999999999999999999", "maxPlanAgeFromEnv", "-5m")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 string) {
		metadata := map[string]string{k1: v1, k2: v2, k3: v3}
		got, problems := readTrigger(metadata)
		if len(problems) == 0 {
			if got.model == "" || got.replicasMin < 0 || got.replicasMin > replicasMinMax ||
				got.planAgeMax != 0 && (got.planAgeMax < planAgeMin || got.planAgeMax > planAgeMax) {
				t.Errorf("%q is read as %+v", metadata, got)
			}
			if got.model != metadata["model"] && got.model != metadata["modelFromEnv"] {
				t.Errorf("%q: model %q was never named", metadata, got.model)
			}
			return
		}
		if s := invalidTrigger(problems); !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\x00") || len(s) > 4096 {
			t.Errorf("%q is refused with %q", metadata, s)
		}
	})
}

func TestMetricName(t *testing.T) {
	for model, want := range map[string]string{
		"chat-70b":                       "forewarm-chat-70b",
		"m":                              "forewarm-m",
		"meta-llama/Llama-3.1-70B":       "forewarm-meta-llama-llama-3-1-70b-",
		"chat.70b":                       "forewarm-chat-70b-",
		"Chat-70b":                       "forewarm-chat-70b-",
		"-chat-70b":                      "forewarm-chat-70b-",
		"chat--70b":                      "forewarm-chat-70b-",
		"chat-0123abcd":                  "forewarm-chat-0123abcd-", // looks like a digest, so it gets one
		"模型":                             "forewarm-",
		strings.Repeat("a", 41):          "forewarm-" + strings.Repeat("a", 40) + "-",
		strings.Repeat("a", 39) + "-bcd": "forewarm-" + strings.Repeat("a", 39) + "-",
	} {
		got := MetricName(model)
		digest := 0
		if strings.HasSuffix(want, "-") {
			digest = 8
		}
		if !strings.HasPrefix(got, want) || len(got) != len(want)+digest {
			t.Errorf("MetricName(%q) = %q, want %q", model, got, want)
		}
	}
	// Fixed for ever: `printf chat.70b | sha256sum` begins so, and a name that changes breaks the HPA's history.
	if got := MetricName("chat.70b"); got != "forewarm-chat-70b-8972f656" {
		t.Errorf("MetricName(chat.70b) = %q", got)
	}
}

// Models that read alike keep names of their own, fit for an HPA: lower case, digits and dashes, below 63 characters with
// KEDA's index.
func TestMetricNamesAreUniqueAndFit(t *testing.T) {
	fit := regexp.MustCompile(`^[a-z][a-z0-9-]*[a-z0-9]$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[aA.\-/_ b0-9é]{1,50}`)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if a != b && MetricName(a) == MetricName(b) {
			t.Fatalf("%q and %q are both %q", a, b, MetricName(a))
		}
		if m := MetricName(a); len("s10-"+m) >= 63 || !fit.MatchString(m) {
			t.Fatalf("%q is no name for a metric", m)
		}
	})
}

func TestConfigValidateReportsEverything(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Config{Listen: "here", TLS: TLS{ClientCAFile: "ca.pem"},
		MaxPlanAge: time.Millisecond, StaleAfter: 25 * time.Hour, StopGrace: -1, MaxConnectionAge: time.Millisecond, StreamInterval: 0, Deadline: time.Hour}
	err := bad.Validate()
	for _, want := range []string{
		`listen is "here": host:port`, `tls.cert_file is "": a file is needed`, `tls.key_file is "": a file is needed`,
		"max_plan_age is 1ms: 1s to 24h are allowed", "stale_after is 25h0m0s: 1s to 24h are allowed",
		"stale_after is 25h0m0s: at most max_plan_age", "deadline is 1h0m0s: 10ms to 1m are allowed",
		"stream_interval is 0s: 100ms to 10m are allowed", "max_connection_age is 1ms: 1s to 24h are allowed",
		"stop_grace is -1ns: 0s to 5m are allowed",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
	for _, listen := range []string{"", "host", ":70000", ":x", "1.2.3.4:-1"} {
		c := DefaultConfig()
		c.Listen = listen
		if c.Validate() == nil {
			t.Errorf("listen %q is accepted", listen)
		}
	}
}

func TestConfigReadsFromYAML(t *testing.T) {
	cfg := DefaultConfig()
	err := yaml.Unmarshal([]byte(`
listen: ":6001"
max_plan_age: 2m
stale_after: 30s
tls: {cert_file: a, key_file: b, client_ca_file: c}
`), &cfg)
	want := DefaultConfig()
	want.Listen, want.MaxPlanAge, want.StaleAfter = ":6001", 2*time.Minute, 30*time.Second
	want.TLS = TLS{CertFile: "a", KeyFile: "b", ClientCAFile: "c"}
	if err != nil || cfg != want {
		t.Errorf("got %+v, %v; want %+v", cfg, err, want)
	}
}

func TestPlanAges(t *testing.T) {
	const stale, old = 45 * time.Second, 5 * time.Minute
	b := newBoard(decision(epoch, nil), epoch, nil, nil)
	for _, c := range []struct {
		after time.Duration
		want  Condition
	}{
		{-time.Hour, PlanFresh}, {0, PlanFresh}, {stale - 1, PlanFresh}, {stale, PlanStale}, {old - 1, PlanStale}, {old, PlanOld},
	} {
		if got := b.condition(epoch.Add(c.after), stale, old); got != c.want {
			t.Errorf("%v after it was made a plan is %s, want %s", c.after, got, c.want)
		}
	}
	// A plan from another machine's future ages from its arrival, a late one from its making.
	future := newBoard(decision(epoch.Add(time.Hour), nil), epoch, nil, nil)
	if got := future.condition(epoch.Add(old), stale, old); got != PlanOld {
		t.Errorf("a plan from the future is %s %v after it came", got, old)
	}
	late := newBoard(decision(epoch.Add(-old), nil), epoch, nil, nil)
	if got := late.condition(epoch, stale, old); got != PlanOld {
		t.Errorf("a plan made %v before it came is %s", old, got)
	}
	if got := newBoard(&planner.Decision{}, epoch, nil, nil).condition(epoch, stale, old); got != PlanOld {
		t.Errorf("a plan without a time is %s", got)
	}
	if got := newBoard(nil, time.Time{}, nil, nil).condition(epoch, stale, old); got != PlanNone {
		t.Errorf("no plan is %s", got)
	}
}

func TestPublishNilKeepsThePlan(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 5)
	h.Publish(nil)
	if p, err := poll(soon(t), h.client, ref("chat-70b"), 0); err != nil || p.sum != 5 {
		t.Errorf("after Publish(nil): %+v, %v", p, err)
	}
}

func TestWhyAModelHasNoNumber(t *testing.T) {
	d := decision(epoch, map[string]int{"chat-70b": -1})
	b := newBoard(d, epoch, nil, nil)
	if got := b.entries["chat-70b"].missing; got != "the plan gives no number and no reason" {
		t.Errorf("without a reason: %q", got)
	}
	d.Gaps = []planner.Gap{
		{Model: "chat-70b", Fact: "load", Since: epoch, Detail: "no sample"}, {Model: "other", Fact: "profile", Since: epoch},
		{Fact: "inventory", Since: epoch},
	}
	d.Models[0].Steps = []planner.Step{
		{Stage: planner.StageSize, Why: "first"}, {Stage: planner.StageGuard, Why: strings.Repeat("ü", 1000)},
	}
	got := newBoard(d, epoch, nil, nil).entries["chat-70b"].missing
	for _, want := range []string{"load missing since 2026-03-02T09:05:00Z (no sample); inventory missing", "guard: üü"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	if strings.Contains(got, "profile") || strings.Contains(got, "first") || len(got) > reasonMax+len("…") || !utf8.ValidString(got) {
		t.Errorf("the reason is %q", got)
	}
}

func TestUnknownModelNamesTheKnownOnes(t *testing.T) {
	answers := map[string]int{}
	for _, n := range strings.Fields("a1 a2 a3 a4 a5 a6 a7 a8 a9 b1 chat-70b zz") {
		answers[n] = 1
	}
	b := newBoard(decision(epoch, answers), epoch, nil, nil)
	got := b.unknownModel("chat-70")
	want := `model "chat-70" is not known, did you mean "chat-70b"? Known models: "a1", "a2"`
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, `"b1" and 2 more`) {
		t.Errorf("got %s", got)
	}
	if got := b.unknownModel("whatever"); !strings.HasPrefix(got, `model "whatever" is not known. Known models: "a1"`) {
		t.Errorf("got %s", got)
	}
	if got := newBoard(nil, epoch, nil, nil).unknownModel("x"); !strings.Contains(got, "no model is configured") {
		t.Errorf("got %s", got)
	}
}
