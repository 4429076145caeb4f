package prom

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// decodeStrict decodes as the configuration loader does: unknown keys are errors.
func decodeStrict(text string, into any) error {
	d := yaml.NewDecoder(bytes.NewReader([]byte(text)))
	d.KnownFields(true)
	return d.Decode(into)
}

func TestConfigYAML(t *testing.T) {
	cfg := DefaultConfig()
	err := decodeStrict(`
url: https://mimir.example/prometheus
http:
  authorization: {credentials: s3cret}
  tls_config: {ca_file: ca.pem, cert_file: c.pem, key_file: k.pem, min_version: TLS12}
  http_headers: {X-Scope-OrgID: {values: [team-a]}}
query_timeout: 20s
step: 30s
kube_matchers: cluster="eu-1"
`, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.QueryTimeout != 20*time.Second || cfg.Step != 30*time.Second || cfg.HistoryChunk != 2880 {
		t.Errorf("%+v", cfg)
	}
	h := cfg.HTTP
	if h.Authorization == nil || h.Authorization.Type != "Bearer" || string(h.Authorization.Credentials) != "s3cret" ||
		h.TLSConfig.CertFile != "c.pem" || !h.FollowRedirects || h.HTTPHeaders.Headers["X-Scope-OrgID"].Values[0] != "team-a" {
		t.Errorf("http: %+v", h)
	}
	for text, want := range map[string]string{
		"url: http://p\nspeed: 3":                                      "speed",
		"url: http://p\nhttp: {basic_auth: {user: u}}":                 "user",
		"url: http://p\nhttp: {tls_config: {ca: x, y: 1}}":             "field y",
		"url: http://p\nstep: 1 minute":                                "1 minute",
		"url: http://p\nhttp: {bearer_token: a, bearer_token_file: b}": "at most one",
	} {
		cfg := DefaultConfig()
		if err := decodeStrict(text, &cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %q", text, err, want)
		}
	}
}

func TestConfigValidateReportsAll(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = "prometheus:9090"
	cfg.QueryTimeout = -time.Second
	cfg.Step = 1500 * time.Millisecond
	cfg.ScrapeInterval = time.Minute
	cfg.HistoryChunk = 11000
	cfg.Concurrency = 0
	cfg.KubeMatchers = "cluster"
	err := cfg.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{`url: "prometheus:9090"`, "query_timeout: -1s, allowed is 100ms to 10m0s", "step: 1.5s",
		"scrape_interval: 1m0s, allowed is 0s to 1.5s", "history_chunk: 11000, allowed is 1 to 10999", "concurrency: 0",
		"kube_matchers"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if _, err := New(cfg, nil); err == nil {
		t.Error("New takes an invalid configuration")
	}
}

func TestModelConfigValidateReportsAll(t *testing.T) {
	good := simpleModel
	bad := ModelConfig{
		Name:      "chat-70b",
		Matchers:  []string{`model_name="x"`, `model_name=x`, `model_name=~".*"`, `a=~"("`},
		Engine:    "vlm",
		Workloads: []Workload{{"llm", "Pod", "Chat_70b"}, {"", "Deployment", "a"}, {"llm", "Deployment", "a"}, {"llm", "Deployment", "a"}},
		Arrivals:  Arrivals{Source: "gateway", Prompt: []string{"9tokens"}, Matchers: []string{"{"}},
	}
	err := ValidateModels([]ModelConfig{good, bad, {}})
	if err == nil {
		t.Fatal("valid")
	}
	for _, want := range []string{`models[1] "chat-70b"`, "matchers[1]", "matchers[2]", "matchers[3]", `engine: "vlm", allowed are auto, vllm`,
		`workloads[0].kind: "Pod"`, `workloads[0].name: "Chat_70b"`, `workloads[1].namespace: ""`, "workloads[3]: Deployment llm/a, allowed once",
		`arrivals.source: "gateway", allowed are auto, none`, `arrivals.prompt[0]: "9tokens"`, "arrivals.matchers[0]",
		`models[1].name: "chat-70b" is models[0] already`, `models[2] "": name`, "matchers: none"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if err := (ModelConfig{Name: "a", Matchers: []string{`a="b"`}, Arrivals: Arrivals{Source: "custom"}}).Validate(); err == nil {
		t.Error("custom arrivals without a metric are valid")
	}
}

// Credentials, tenants and a private authority reach the server.
func TestAuthAndTLS(t *testing.T) {
	f := healthy()
	f.t = t
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("X-Scope-OrgID") != "team-a" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		f.ServeHTTP(w, r)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		"http: {authorization: {credentials: s3cret}, tls_config: {ca_file: " + ca + "}, http_headers: {X-Scope-OrgID: {values: [team-a]}}}": true,
		"http: {authorization: {credentials: wrong}, tls_config: {ca_file: " + ca + "}}":                                                     false,
		"http: {authorization: {credentials: s3cret}, http_headers: {X-Scope-OrgID: {values: [team-a]}}}":                                    false, // unknown authority
	} {
		cfg := testConfig(server.URL)
		if err := decodeStrict(text, &cfg); err != nil {
			t.Fatal(err)
		}
		_, err := newSource(t, cfg, simpleModel).Observe(context.Background(), testNow)
		if (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestParseMatchers(t *testing.T) {
	for text, want := range map[string]string{
		`model_name="chat-70b"`:       `model_name="chat-70b"`,
		` { a = 'b"c' , d=~"e|f", } `: `a="b\"c",d=~"e|f"`,
		"a!=``,b!~`x\\d`":             `a!="",b!~"x\\d"`,
		`a="\u00fc\x41"`:              `a="üA"`,
		`a="}"`:                       `a="}"`,
	} {
		ms, err := parseMatchers(text)
		if err != nil || ms.String() != want {
			t.Errorf("%q: %s, %v, want %s", text, ms, err, want)
		}
	}
	for _, text := range []string{"", "{}", `a`, `a=`, `a=b`, `a="b`, "a=`b", `a="b" c="d"`, `a=="b"`, `a="b"}`, `{a="b"`,
		`__name__="x"`, `a=~"("`, `a=""`, `a=~".*"`, `a!="x"`, `,`, `a="\q"`, `9a="b"`, `a="\xff"`, "a=`\xc7`"} {
		if ms, err := parseMatchers(text); err == nil {
			t.Errorf("%q was read as %s", text, ms)
		}
	}
}

// What is accepted renders to something that is read as the same again.
func FuzzMatchers(f *testing.F) {
	for _, s := range []string{`a="b"`, `{a=~"b|c",d!='e'}`, "a=`x`", `a="\n\x41\u00fc"`, `a="b",`, `a{b="c"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if ms, err := parseMatchers(s); err == nil {
			again, err := parseMatchers("{" + ms.String() + "}")
			if err != nil || again.String() != ms.String() {
				t.Errorf("%q: %s is read again as %s, %v", s, ms, again, err)
			}
		}
		if m, err := parseMetric(s); err == nil {
			again, err := parseMetric(m.selector(nil))
			if err != nil || again.selector(nil) != m.selector(nil) {
				t.Errorf("%q: metric %s is read again as %s, %v", s, m.selector(nil), again.selector(nil), err)
			}
		}
	})
}

// No text makes the strict reader or Validate panic, and a valid model can be used.
func FuzzModelConfig(f *testing.F) {
	f.Add("name: a\nmatchers: ['x=\"y\"']\nworkloads: [{namespace: n, kind: Deployment, name: d}]\narrivals: {source: custom, queue: ['q{a=\"b\"}']}\n")
	f.Add("name: a\nmatchers: ['model_name=~\"y|z\"']\nengine: sglang\n")
	f.Fuzz(func(t *testing.T, text string) {
		var m ModelConfig
		if decodeStrict(text, &m) != nil || m.Validate() != nil {
			return
		}
		sets := mustParse(m.Matchers)
		for _, family := range m.Arrivals.gatewayFamilies() {
			m.Arrivals.gatewaySets(family, sets)
		}
	})
}
