package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler/keda"
)

var askedAt = time.Date(2026, 3, 2, 9, 5, 0, 0, time.UTC)

func counted(n int) *int { return &n }

// askedPlan plans 5 replicas for chat-70b, and tells KEDA the given answer.
func askedPlan(answer *int) *planner.Decision {
	return &planner.Decision{At: askedAt, Models: []planner.ModelDecision{{
		Name: "chat-70b", Replicas: counted(5), Serving: 3, Warm: 2, Answer: answer, Authority: planner.Act,
		Lead: &planner.Lead{Path: coldstart.ColdNode, Quantile: 0.975, Time: 380 * time.Second, Basis: coldstart.Measured, Samples: 14},
		Peak: &planner.Peak{Quantile: 0.95, Load: planner.Load{Prompt: 120000, Completion: 9000},
			From: askedAt.Add(380 * time.Second), To: askedAt.Add(395 * time.Second)},
		Held: "recent need",
		Steps: []planner.Step{
			{Stage: planner.StageSize, Replicas: counted(3), Why: "9000 completion tok/s need 3"},
			{Stage: planner.StageWarm, Replicas: counted(5), Why: strings.Repeat("the peak needs 5 ", 8) + "the peak needs 5", BoundBy: "replicas_max", Rejected: "6"},
		},
	}}, Gaps: []planner.Gap{{Fact: "inventory", Since: askedAt, Detail: "no node was read"}},
		Shortfalls: []planner.Shortfall{{Model: "chat-70b", Cause: planner.Fragmented, Replicas: 1, Why: "free GPUs are scattered"}}}
}

// daemon serves a Decision (nil for none) as forewarmd does, until the test ends, and returns both addresses.
func daemon(t *testing.T, d *planner.Decision, secured ...keda.TLS) (kedaAddress, httpAddress string) {
	t.Helper()
	cfg := keda.DefaultConfig()
	for _, files := range secured {
		cfg.TLS = files
	}
	s, err := keda.NewServer(cfg, []string{"chat-70b"}, func() time.Time { return askedAt }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	s.Publish(d)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d == nil || r.URL.Path != "/api/plan" {
			http.Error(w, "no plan has been made yet", http.StatusServiceUnavailable)
			return
		}
		v, ok := d.View(r.URL.Query().Get("model"))
		if !ok {
			http.Error(w, "unknown model", http.StatusNotFound)
			return
		}
		v.Version, v.AgeSeconds, v.Stale = 7, 60, true
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(func() {
		web.Close()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), web.Listener.Addr().String()
}

// ask runs the command line and returns its exit code and output.
func ask(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), append([]string{"ask"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestAskExplains(t *testing.T) {
	grpcAddress, httpAddress := daemon(t, askedPlan(counted(5)))
	code, out, errs := ask(t, grpcAddress, "--model", "chat-70b", "--http", httpAddress)
	want := `chat-70b: 5 replicas (3 serving + 2 warm), active
  KEDA sees   metric forewarm-chat-70b = 5, target 1 → the HPA wants 5
  plan        version 7 of 2026-03-02T09:05:00Z, 1m old, stale
  lead time   6m20s, q97.5 of cold_node (measured, 14 starts)
  forecast    p95 peak 120000 prompt + 9000 completion tok/s, 09:11:20 to 09:11:35
  held        recent need
  missing     inventory since 09:05:00: no node was read
  shortfall   Fragmented of 1 replica: free GPUs are scattered
  why
    size   3: 9000 completion tok/s need 3
    warm   5: the peak needs 5 the peak needs 5 the peak needs 5 the peak needs 5 the peak needs 5 the peak
           needs 5 the peak needs 5 the peak needs 5 the peak needs 5; bound by replicas_max; rejected: 6
`
	if code != 0 || errs != "" || out != want {
		t.Errorf("exit %d, stderr %q, stdout:\n%s\nwant:\n%s", code, errs, out, want)
	}
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 1+stepWidth {
			t.Errorf("a line is longer than %d characters: %s", stepWidth, line)
		}
	}
}

// How often the service level has held stands below the forecast it was read from, and what came of it.
func TestAskShowsCoverage(t *testing.T) {
	d, prompt, completion := askedPlan(counted(5)), 0.962, 0.913
	peak := d.Models[0].Peak
	peak.Coverage = &planner.PeakCoverage{Stated: 0.95, Prompt: &prompt, Completion: &completion, Forecasts: 1440, Noise: 0.02}
	line := func() string {
		grpcAddress, httpAddress := daemon(t, d)
		_, out, _ := ask(t, grpcAddress, "--model", "chat-70b", "--http", httpAddress)
		for line := range strings.Lines(out) {
			if text, ok := strings.CutPrefix(line, "  coverage    "); ok {
				return text
			}
		}
		t.Fatalf("no coverage in\n%s", out)
		return ""
	}
	const held = "p95 of the peak held for 96.2% (prompt) and 91.3% (completion) of 1440 forecasts"
	if got := line(); got != held+"\n" {
		t.Errorf("got %s", got)
	}
	peak.Quantile = 0.9731
	if got := line(); got != held+": too rarely, so p97.31 is planned for\n" {
		t.Errorf("got %s", got)
	}
}

func TestAskSaysWhenKEDAIsToldAnotherNumber(t *testing.T) {
	d := askedPlan(counted(1))
	d.Models[0].Authority = planner.Observe
	grpcAddress, httpAddress := daemon(t, d)
	_, out, _ := ask(t, grpcAddress, "--model", "chat-70b", "--http", "http://"+httpAddress)
	if want := "chat-70b: planned are 5 replicas (3 serving + 2 warm), KEDA is told 1 (authority observe), active\n"; !strings.HasPrefix(out, want) {
		t.Errorf("got %s\nwant %s", out, want)
	}
}

func TestAskAsJSON(t *testing.T) {
	grpcAddress, httpAddress := daemon(t, askedPlan(counted(5)))
	code, out, _ := ask(t, grpcAddress, "--model", "chat-70b", "--http", httpAddress, "--format", "json")
	var got asked
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	if got.Metric != "forewarm-chat-70b" || *got.Value != 5 || got.Target != 1 || *got.HPAWants != 5 || !*got.Active ||
		got.Plan.Version != 7 || *got.Plan.Model.Replicas != 5 || got.Note != "" {
		t.Errorf("got %s", out)
	}
}

func TestAskWithoutHTTPStillPrintsTheAnswers(t *testing.T) {
	grpcAddress, httpAddress := daemon(t, askedPlan(counted(5)))
	for name, http := range map[string]string{
		"nobody there": "127.0.0.1:1", "another server": httpAddress + "/elsewhere", "no HTTP": grpcAddress,
	} {
		code, out, errs := ask(t, grpcAddress, "--model", "chat-70b", "--http", http)
		if code != 0 || !strings.HasPrefix(out, "chat-70b: 5 replicas, active\n") || !strings.Contains(out, "the HPA wants 5") ||
			!strings.Contains(out, "no reason: http://"+http) || !strings.Contains(out, "--http") {
			t.Errorf("%s: exit %d, stderr %q, stdout:\n%s", name, code, errs, out)
		}
	}
}

func TestAskPrintsARefusalWithItsCode(t *testing.T) {
	grpcAddress, httpAddress := daemon(t, nil)
	code, out, errs := ask(t, grpcAddress, "--model", "chat-70b", "--http", httpAddress)
	if code != 2 || !strings.Contains(errs, "GetMetrics: Unavailable: no plan has been made yet") ||
		!strings.HasPrefix(out, "chat-70b: no number for KEDA, activity unknown\n") || !strings.Contains(out, "503") {
		t.Errorf("no plan: exit %d, stderr %q, stdout:\n%s", code, errs, out)
	}
	code, _, errs = ask(t, grpcAddress, "--model", "chat-7b", "--http", httpAddress)
	if code != 2 || !strings.Contains(errs, `GetMetrics: NotFound: model "chat-7b" is not known, did you mean "chat-70b"?`) {
		t.Errorf("unknown model: exit %d, stderr %q", code, errs)
	}

	grpcAddress, httpAddress = daemon(t, askedPlan(nil)) // the reason is still told
	code, out, errs = ask(t, grpcAddress, "--model", "chat-70b", "--http", httpAddress)
	if code != 2 || !strings.Contains(errs, "GetMetrics: Unavailable") || !strings.Contains(out, "9000 completion tok/s need 3") {
		t.Errorf("no number: exit %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

// The pair of net/http/httptest serves as server, client and authority in one: it is self-signed for 127.0.0.1 and
// example.com.
func TestAskOverTLS(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	pair := web.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, private := write("cert.pem", "CERTIFICATE", pair.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
	address, _ := daemon(t, askedPlan(counted(5)), keda.TLS{CertFile: cert, KeyFile: private})
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--tls-ca", cert}, 0},
		{[]string{"--tls-ca", cert, "--tls-server-name", "example.com"}, 0},
		{[]string{"--tls-ca", cert, "--tls-server-name", "other.org"}, 2},
		{[]string{"--tls-cert", cert, "--tls-key", private}, 2}, // not signed by an authority of this machine
		{nil, 2},
	} {
		code, out, errs := ask(t, append([]string{address, "--model", "chat-70b", "--http", "127.0.0.1:1"}, c.args...)...)
		if code != c.want || (code == 0) != strings.Contains(out, "the HPA wants 5") {
			t.Errorf("%q: exit %d, want %d; stderr %q, stdout %q", c.args, code, c.want, errs, out)
		}
		if c.args == nil && !strings.Contains(errs, "needs --tls-ca") {
			t.Errorf("plaintext to a TLS port: %q", errs)
		}
	}
}

func TestAskNamesAnAddressThatDoesNotAnswer(t *testing.T) {
	begun := time.Now()
	code, out, errs := ask(t, "127.0.0.1:1", "--model", "chat-70b")
	if code != 2 || out != "" || !strings.Contains(errs, "nothing answers at 127.0.0.1:1") || !strings.Contains(errs, "keda.listen") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out, errs)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("it took %v: a refused connection is told at once", took)
	}
}

func TestAskReportsAllBadArguments(t *testing.T) {
	code, _, errs := ask(t, "localhost", "--timeout", "0s", "--format", "yaml", "--http", "ftp://x")
	for _, want := range []string{`ADDR is "localhost"`, "--model is missing", "--timeout is 0s", `--format is "yaml"`, `--http is "ftp://x"`} {
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("exit %d, stderr does not say %q:\n%s", code, want, errs)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--tls-ca: open":                         {"--tls-ca", empty + "x"},
		"no PEM certificate":                     {"--tls-ca", empty},
		fmt.Sprintf("--tls-cert %s with", empty): {"--tls-cert", empty, "--tls-key", empty},
		"missing [tls-key]":                      {"--tls-cert", empty},
		"2 arguments: one ADDR is needed":        {"another"},
		"nothing answers at 127.0.0.1:1":         {"--tls-server-name", "forewarm.forewarm"},
		`--http is "http://%zz"`:                 {"--http", "http://%zz"},
	} {
		code, _, errs := ask(t, append([]string{"127.0.0.1:1", "--model", "m"}, args...)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, stderr %q, want %q", args, code, errs, want)
		}
	}
}
