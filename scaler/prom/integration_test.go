package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
)

// startPrometheus serves the generated two weeks from a real Prometheus.
func startPrometheus(t *testing.T, w *world) (url string) {
	t.Helper()
	for _, binary := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(binary); err != nil {
			t.Skip("the Prometheus test needs the binaries prometheus and promtool: apt-get install prometheus")
		}
	}
	dir := t.TempDir()
	text, data, conf := filepath.Join(dir, "scraped.om"), filepath.Join(dir, "data"), filepath.Join(dir, "prometheus.yml")
	w.write(t, text)
	// One block: by default promtool reads the whole text once for every two hours.
	out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "--max-block-duration=768h", "--quiet",
		"openmetrics", text, data).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	if err := os.WriteFile(conf, []byte("global: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	var log strings.Builder
	cmd := exec.Command("prometheus", "--config.file="+conf, "--storage.tsdb.path="+data,
		"--storage.tsdb.retention.time=100y", "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed below; why it ended early is in its log
		close(exited)
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("stopping prometheus %d: %v", cmd.Process.Pid, err)
		}
		<-exited
	})
	url = "http://" + address
	for range 600 {
		select {
		case <-exited:
			t.Fatalf("prometheus ended early:\n%s", log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if resp, err := http.Get(url + "/-/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url
			}
		}
	}
	t.Fatal("prometheus was not ready within 30 s")
	return ""
}

var chatModel = ModelConfig{
	Name:      "chat-70b",
	Matchers:  []string{`model_name="chat-70b",namespace="llm"`, `model_name="chat-70b-fr",namespace="llm"`},
	Workloads: []Workload{{"llm", "Deployment", "chat-70b"}},
}

var codeModel = ModelConfig{
	Name:      "code-8b",
	Matchers:  []string{`model_name="code-8b"`},
	Workloads: []Workload{{"llm", "Deployment", "code-8b"}},
}

// The gateways' models: one found by the name that requests were rewritten to, one by the name requests asked for.
var (
	gateModel = ModelConfig{Name: "gate-7b", Matchers: []string{`model_name="gate-7b",namespace="llm"`},
		Workloads: []Workload{{"llm", "Deployment", "chat-70b"}}}
	otelModel = ModelConfig{Name: "otel-1b", Matchers: []string{`model_name="otel-1b"`},
		Workloads: []Workload{{"llm", "Deployment", "chat-70b"}}}
)

func TestRealPrometheus(t *testing.T) {
	w := generate()
	url := startPrometheus(t, w)
	cfg := DefaultConfig()
	cfg.URL = url
	cfg.QueryTimeout = 30 * time.Second
	s := newSource(t, cfg, chatModel, codeModel, gateModel, otelModel)
	ctx := context.Background()

	t.Run("history", func(t *testing.T) {
		h, err := s.History(ctx, "chat-70b", genStart, genEnd)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Validate(); err != nil {
			t.Fatal(err)
		}
		if want := int(genEnd.Sub(genStart) / genStep); h.Prompt.Len() != want || !h.Prompt.Start.Equal(genStart) {
			t.Fatalf("%d steps from %v, want %d from %v", h.Prompt.Len(), h.Prompt.Start, want, genStart)
		}
		compare(t, "prompt", h.Prompt, w.chat, func(r *replica) []*scraped { return r.prompt }, w.ready)
		compare(t, "completion", h.Completion, w.chat, func(r *replica) []*scraped { return r.completion }, w.ready)
		compare(t, "requests", h.Requests, w.chat, func(r *replica) []*scraped { return r.requests }, w.ready)

		// The marks once more, by the events that were generated rather than by the samples.
		for i := range h.Prompt.Len() {
			from, to := h.Prompt.TimeAt(i), h.Prompt.TimeAt(i+1)
			if from.After(gapFrom.Add(-time.Second)) && !to.After(gapTo) && !math.IsNaN(h.Prompt.Values[i]) {
				t.Errorf("the step from %v lies in the gap and reads %v", from, h.Prompt.Values[i])
			}
			if marked := h.Prompt.AtLeast[i]; within(from, waitFrom, waitTo.Add(-genStep)) && !marked {
				t.Errorf("the step from %v lies in the saturated hour and is not marked as a lower bound", from)
			}
		}
	})
	t.Run("seams", func(t *testing.T) {
		from, to := gapFrom.Add(-5*time.Hour), gapTo.Add(5*time.Hour)
		whole, err := s.History(ctx, "chat-70b", from, to)
		if err != nil {
			t.Fatal(err)
		}
		small := cfg
		small.HistoryChunk = 7
		cut, err := newSource(t, small, chatModel).History(ctx, "chat-70b", from, to)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range whole.Prompt.Values {
			// Equal but for the last bits: the server adds replicas up in no fixed order.
			if other := cut.Prompt.Values[i]; !same(v, other) && !(math.Abs(v-other) <= 1e-15*v) {
				t.Errorf("step %d: %v in one chunk, %v in chunks of 7", i, v, other)
			}
		}
	})
	t.Run("engine change", func(t *testing.T) {
		h, err := s.History(ctx, "code-8b", genStart, genEnd)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, "prompt", h.Prompt, w.code, func(r *replica) []*scraped { return r.prompt }, nil)
		compare(t, "completion", h.Completion, w.code, func(r *replica) []*scraped { return r.completion }, nil)
	})
	t.Run("gateways", func(t *testing.T) {
		for name, replicas := range map[string][]*replica{"gate-7b": w.gateway, "otel-1b": w.genAI} {
			h, err := s.History(ctx, name, genStart, genEnd)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name+" prompt", h.Prompt, replicas, func(r *replica) []*scraped { return r.prompt }, nil)
			compare(t, name+" completion", h.Completion, replicas, func(r *replica) []*scraped { return r.completion }, nil)
			compare(t, name+" requests", h.Requests, replicas, func(r *replica) []*scraped { return r.requests }, nil)
		}
	})
	t.Run("observe", func(t *testing.T) { observeEnd(t, ctx, s, w) })
	t.Run("check", func(t *testing.T) { checkEnd(t, ctx, s) })
}

// compare asserts a series value by value. The tolerance of 1e-9 is for the server's own arithmetic: it multiplies the
// increase by the ratio of two durations and divides by one of them, some ten roundings of 1e-16.
func compare(t *testing.T, what string, got forecast.Series, replicas []*replica, of func(*replica) []*scraped, ready *scraped) {
	t.Helper()
	const tolerance = 1e-9
	exact, absent, bounds, wrong := 0, 0, 0, 0
	complain := func(format string, args ...any) {
		t.Helper()
		if wrong++; wrong <= 10 {
			t.Errorf(what+": "+format, args...)
		}
	}
	for i, v := range got.Values {
		end := got.TimeAt(i + 1)
		want := truthAt(replicas, of, end)
		if want.whole == 0 {
			absent++
			if !math.IsNaN(v) {
				complain("step to %v: %v, want missing: no replica was scraped throughout", end, v)
			}
			continue
		}
		if want.low == want.high {
			exact++
		}
		if !(v >= want.low*(1-tolerance) && v <= want.high*(1+tolerance)) {
			complain("step to %v: %v, want %v to %v", end, v, want.low, want.high)
		}
		bound := ready != nil && float64(want.whole) < ready.minIn(end)
		for _, r := range replicas {
			bound = bound || r.waiting.anyAbove(0, end)
		}
		if bound {
			bounds++
		}
		if marked := got.AtLeast != nil && got.AtLeast[i]; marked != bound {
			complain("step to %v: lower bound %v, want %v", end, marked, bound)
		}
	}
	t.Logf("%s: %d steps, %d exact, %d missing, %d lower bounds, %d wrong", what, len(got.Values), exact, absent, bounds, wrong)
	if exact < len(got.Values)*99/100 || absent < 20 {
		t.Errorf("%s: %d exact and %d missing steps: the generator does not test what it should", what, exact, absent)
	}
}

func observeEnd(t *testing.T, ctx context.Context, s *Source, w *world) {
	now := genEnd.Add(-30 * time.Second)
	obs, err := s.Observe(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	chat := obs.Models[0]
	lastEnd := genEnd.Add(-time.Minute)
	if got := chat.Load.Prompt.End(); !got.Equal(lastEnd) || chat.Load.Prompt.Len() != s.cfg.ObserveSteps {
		t.Errorf("load of %d steps ends at %v, want %d to %v", chat.Load.Prompt.Len(), got, s.cfg.ObserveSteps, lastEnd)
	}
	for i, v := range chat.Load.Completion.Values {
		want := truthAt(w.chat, func(r *replica) []*scraped { return r.completion }, chat.Load.Completion.TimeAt(i+1))
		if !(math.Abs(v-want.high) <= 1e-9*want.high) {
			t.Errorf("completion[%d] = %v, want %v", i, v, want.high)
		}
	}
	if chat.LoadSource != "served tokens" {
		t.Errorf("source %q", chat.LoadSource)
	}
	if chat.Waiting == nil || *chat.Waiting != 0 {
		t.Errorf("waiting %v, want 0", chat.Waiting)
	}
	if chat.Running != nil {
		t.Errorf("running %v, want unknown: nothing exposes it", *chat.Running)
	}
	r := chat.Replicas
	if r == nil {
		t.Fatalf("replicas unknown: %v", obs.Gaps)
	}
	if r.Ready != 2 || r.Leaving != 1 || r.Desired == nil || *r.Desired != 3 {
		t.Errorf("replicas %+v, want 2 ready, 1 leaving, 3 desired", r)
	}
	if len(r.Starting) != 1 || r.Starting[0].ID != "uid-chat-70b-new-e" ||
		!r.Starting[0].Since.Equal(genEnd.Add(-4*time.Minute)) {
		t.Errorf("starting %+v, want uid-chat-70b-new-e since %v", r.Starting, genEnd.Add(-4*time.Minute))
	}
	if obs.Models[1].Replicas != nil {
		t.Errorf("replicas of code-8b %+v, want unknown: its Deployment is not reported", obs.Models[1].Replicas)
	}
	if gate := obs.Models[2]; gate.LoadSource != "arrivals at the gateway" || gate.Waiting == nil || *gate.Waiting != 0 {
		t.Errorf("gate-7b: source %q, waiting %v", gate.LoadSource, gate.Waiting)
	}
	for name, want := range map[string]bool{"chat-70b": false, "gate-7b": true, "otel-1b": true} {
		if got, why := s.ArrivalsIndependent(name); got != want {
			t.Errorf("arrivals of %s independent: %v (%s), want %v", name, got, why, want)
		}
	}
	var gaps []string
	for _, g := range obs.Gaps {
		gaps = append(gaps, g.Model+"/"+g.Fact)
	}
	if want := []string{"code-8b/replicas"}; !slices.Equal(gaps, want) {
		t.Errorf("gaps %v, want %v", obs.Gaps, want)
	}
}

func checkEnd(t *testing.T, ctx context.Context, s *Source) {
	now := genEnd.Add(-30 * time.Second)
	res, err := s.Resolve(ctx, "chat-70b", now)
	if err != nil {
		t.Fatal(err)
	}
	if res.Engine != "vllm" || res.ScrapeInterval != genScrape || res.Metrics[FactKVUse] != "vllm:kv_cache_usage_perc" ||
		res.Series[FactPrompt] != 3 {
		t.Errorf("resolution %+v", res)
	}
	findings, err := s.Check(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%s %s %s", f.Severity, f.Model, f.Subject))
	}
	if want := []string{"error code-8b replicas", "warning gate-7b series", "warning otel-1b names"}; !slices.Equal(got, want) {
		t.Errorf("findings %v, want %v", findings, want)
	}
}

func newSource(t testing.TB, cfg Config, models ...ModelConfig) *Source {
	t.Helper()
	s, err := New(cfg, models)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
