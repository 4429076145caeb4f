package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
	"forewarm/scaler"
	"forewarm/scaler/keda"
)

// TestMain lets the test binary be the daemon that a test kills: see TestKilledDaemonHoldsAfterRestart.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FOREWARMD_TEST_CHILD"); dir != "" {
		runChild(dir)
		return
	}
	os.Exit(m.Run())
}

const (
	childInterval = 100 * time.Millisecond
	childWindow   = 3 * time.Second
)

// fileWorld is a Source whose steady load and ready replicas are two numbers in a file.
type fileWorld struct{ path string }

func (w fileWorld) read() (load float64, ready int) {
	data, _ := os.ReadFile(w.path)
	if _, err := fmt.Sscan(string(data), &load, &ready); err != nil {
		panic(fmt.Sprintf("%s: %q: %v", w.path, data, err))
	}
	return load, ready
}

func (w fileWorld) History(_ context.Context, _ string, from, to time.Time) (planner.LoadHistory, error) {
	load, _ := w.read()
	n := int(to.Sub(from) / time.Minute)
	series := func(v float64) forecast.Series {
		s := forecast.Series{Start: from, Step: time.Minute, Values: make([]float64, n)}
		for i := range s.Values {
			s.Values[i] = v
		}
		return s
	}
	return planner.LoadHistory{Prompt: series(10 * load), Completion: series(load), Requests: series(load / 200)}, nil
}

func (w fileWorld) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	_, ready := w.read()
	to := now.Truncate(time.Minute)
	h, err := w.History(ctx, "chat", to.Add(-10*time.Minute), to)
	return planner.Observation{At: now, Models: []planner.ModelObservation{{Name: "chat", Load: h, Replicas: &planner.Replicas{Ready: ready}}}}, err
}

func childParts(dir string) parts {
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		panic(err)
	}
	policy := planner.DefaultModelPolicy()
	policy.Authority, policy.ScaleDownWindow, policy.DrainTime = planner.Act, childWindow, time.Second
	endpoint := keda.DefaultConfig()
	endpoint.Listen = "127.0.0.1:0"
	return parts{
		clock: scaler.WallClock(), source: fileWorld{filepath.Join(dir, "world")}, models: []string{"chat"},
		policy: planner.Policy{Defaults: policy}, history: 24 * time.Hour, keda: endpoint, httpAddr: "127.0.0.1:0",
		dataDir: filepath.Join(dir, "data"),
		tracker: planner.TrackerConfig{
			Step: time.Minute, Horizon: 30 * time.Minute, Interval: childInterval, Paths: 50, Method: "auto", Ledger: ledger,
			Models: []planner.TrackedModel{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1},
				Profile: &planner.Profile{Prompt: 20000, Completion: 2000}}},
		},
	}
}

func runChild(dir string) {
	d, err := newDaemon(childParts(dir), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(2)
	}
	fmt.Println(d.kedaListener.Addr())
	_ = d.run(context.Background())
}

// child starts the daemon as a process and returns it with the address of its endpoint.
func child(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FOREWARMD_TEST_CHILD="+dir)
	var logs bytes.Buffer
	cmd.Stderr = &logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("daemon log:\n%s", logs.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error:") {
		t.Fatalf("the daemon did not start: %q %v\n%s", line, err, logs.String())
	}
	return cmd, strings.TrimSpace(line)
}

func client(t *testing.T, address string) pb.ExternalScalerClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewExternalScalerClient(conn)
}

func ref(model string) *pb.ScaledObjectRef {
	return &pb.ScaledObjectRef{Name: model, Namespace: "serving", ScalerMetadata: map[string]string{"model": model}}
}

// answer asks for the replicas as KEDA does.
func answer(c pb.ExternalScalerClient, model string) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	spec, err := c.GetMetricSpec(ctx, ref(model))
	if err != nil {
		return 0, err
	}
	r, err := c.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref(model), MetricName: spec.MetricSpecs[0].MetricName})
	if err != nil {
		return 0, err
	}
	return r.MetricValues[0].MetricValueFloat, nil
}

// eventually asks until ok accepts the answer.
func eventually(t *testing.T, c pb.ExternalScalerClient, model, what string, ok func(float64, error) bool) float64 {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		n, err := answer(c, model)
		if ok(n, err) {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: the last answer is %v, %v", what, n, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func setWorld(t *testing.T, dir string, load float64, ready int) {
	t.Helper()
	tmp := filepath.Join(dir, "world.tmp")
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%v %d", load, ready), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, "world")); err != nil {
		t.Fatal(err)
	}
}

// Nothing is lost by kill -9: the restarted daemon answers its last plan at once and does not go below it until it has
// watched a whole scale-down window again, although the load is long gone.
func TestKilledDaemonHoldsAfterRestart(t *testing.T) {
	dir := t.TempDir()
	setWorld(t, dir, 8000, 4)
	first, address := child(t, dir)
	before := eventually(t, client(t, address), "chat", "a plan of at least 4", func(n float64, err error) bool { return err == nil && n >= 4 })
	if err := first.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	setWorld(t, dir, 100, 4)
	restarted := time.Now()
	_, address = child(t, dir)
	c := client(t, address)
	for time.Since(restarted) < childWindow {
		n, err := answer(c, "chat")
		if err != nil {
			t.Fatalf("%v after the restart there is no answer: %v", time.Since(restarted), err)
		}
		if n < before {
			t.Fatalf("%v after the restart the answer fell from %v to %v", time.Since(restarted), before, n)
		}
		time.Sleep(20 * time.Millisecond)
	}
	eventually(t, c, "chat", "the plan to come down after the window", func(n float64, err error) bool { return err == nil && n < before })
}

// A Prometheus that cannot be reached at the start leaves an endpoint that answers specs, says UNAVAILABLE instead of
// inventing a number, and is ready (an unready endpoint could not even say that).
func TestLiveWithoutPrometheus(t *testing.T) {
	cfg, err := parseConfig("f.yaml", []byte(minimal+"  policy: {authority: act}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.KEDA.Listen, cfg.HTTP.Listen, cfg.DataDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	d, err := newLive(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop := runDaemon(t, d)
	defer stop()
	c := client(t, d.kedaListener.Addr().String())
	eventually(t, c, "m", "an honest error", func(_ float64, err error) bool {
		return status.Code(err) == codes.Unavailable && d.loop.Plan() != nil
	})
	if _, err := answer(c, "other"); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "m") {
		t.Errorf("an unknown model gives %v, want NOT_FOUND naming the known ones", err)
	}
	base := "http://" + d.httpListener.Addr().String()
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/": "unknown", "/metrics": "forewarm_plan_age_seconds",
		"/api/status": "refused", "/api/plan?model=m": `"replicas": null`,
	} {
		if body := get(t, base+path); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q:\n%.600s", path, want, body)
		}
	}
}

// runDaemon runs d until the returned function stops it, which fails the test when the daemon does not end cleanly.
func runDaemon(t *testing.T, d *daemon) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	var once sync.Once
	return func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("the daemon ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the daemon did not stop")
			}
		})
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestDemo(t *testing.T) {
	var out safeBuffer
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := time.Now()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"--demo", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--log-level", "error"}, &out, &out)
	}()
	for !strings.Contains(out.String(), "forewarm ask") {
		if time.Since(started) > 30*time.Second {
			t.Fatalf("no greeting:\n%s", out.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("greeting after %v:\n%s", time.Since(started).Round(time.Millisecond), out.String())
	address := strings.Fields(strings.SplitAfter(out.String(), "KEDA endpoint on ")[1])[0]
	plan := strings.TrimSuffix(strings.Fields(strings.SplitAfter(out.String(), "metrics on ")[1])[0], ",")
	n := eventually(t, client(t, strings.TrimSuffix(address, ",")), "chat-70b", "an answer", func(n float64, err error) bool { return err == nil && n >= 1 })
	var view planner.PlanView
	if err := json.Unmarshal([]byte(get(t, plan+"/api/plan?model=chat-70b")), &view); err != nil {
		t.Fatal(err)
	}
	if view.Model.Replicas == nil || view.Model.Lead == nil || view.Model.Peak == nil || len(view.Model.Steps) < 4 {
		t.Errorf("the plan of %v replicas is not explained: %+v", n, view)
	}
	var starts scaler.StartsView
	if err := json.Unmarshal([]byte(get(t, plan+"/api/starts?model=chat-70b")), &starts); err != nil {
		t.Fatal(err)
	}
	if len(starts.LeadTimes) < 3 || starts.LeadTimes[0].Basis != coldstart.Measured || len(starts.Starts) == 0 || len(starts.Starts[0].Phases) == 0 {
		t.Errorf("the lead times are not learned from starts, or the last start is not shown: %+v", starts)
	}
	cancel()
	select {
	case c := <-code:
		if c != 0 {
			t.Errorf("exit code %d:\n%s", c, out.String())
		}
	case <-time.After(20 * time.Second):
		t.Error("the demo did not stop")
	}
}

// safeBuffer is a buffer that is written and read by different goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestCommandLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().String()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("tik: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	unreachable := filepath.Join(t.TempDir(), "ok.yaml")
	if err := os.WriteFile(unreachable, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "at least one of the flags"},
		{"--demo --config x", 2, "none of the others can be"},
		{"--config " + bad + ".missing", 2, "no such file"},
		{"--config " + bad, 2, `unknown key "tik"`},
		{"--config " + bad + " --log-level loud", 2, "debug, info, warn or error are allowed"},
		{"--config " + unreachable + " --speed 3", 2, "--speed belongs to --demo"},
		{"--demo --speed 0", 2, "1 to 600 are allowed"},
		{"--demo --listen " + busy + " --http-listen 127.0.0.1:0", 2, "another address can be given with --listen"},
		{"--demo --listen 127.0.0.1:0 --http-listen " + busy, 2, "another address can be given with --http-listen"},
		{"--check --config " + unreachable, 1, "prometheus.url"},
		{"--help", 0, "--demo"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out safeBuffer
			code := run(context.Background(), strings.Fields(tt.args), &out, &out)
			if code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tt.code, tt.want, out.String())
			}
		})
	}
}

// A data directory that cannot be written is loud and not fatal.
func TestDataDirThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	setWorld(t, dir, 2000, 1)
	p := childParts(dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.dataDir = filepath.Join(file, "below") // a directory below a file can be made by nobody, root included
	var log safeBuffer
	d, err := newDaemon(p, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stop := runDaemon(t, d)
	defer stop()
	eventually(t, client(t, d.kedaListener.Addr().String()), "chat", "an answer", func(n float64, err error) bool { return err == nil && n >= 1 })
	if !strings.Contains(log.String(), "running without it") {
		t.Errorf("the log does not say that there is no journal:\n%s", log.String())
	}
	if metric := get(t, "http://"+d.httpListener.Addr().String()+"/metrics"); !strings.Contains(metric, "forewarm_journal_open 0\n") || !strings.Contains(metric, "forewarm_decisions_total") ||
		strings.Contains(metric, "forewarm_decisions_total 0\n") {
		t.Error("no decisions are counted")
	}
}

// A journal that opens and then cannot be read costs the memory, not the daemon.
func TestJournalThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	setWorld(t, dir, 2000, 1)
	var log safeBuffer
	d, err := newDaemon(childParts(dir), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(context.Background())
	if err := d.journal.Close(); err != nil {
		t.Fatal(err)
	}
	if m := d.recall(); !m.At.IsZero() || len(m.Models) > 0 {
		t.Errorf("recalled %+v", m)
	}
	for _, want := range []string{"starts cannot be read", "last plan cannot be read"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// A foreign file in the journal's place is set aside, not lost and not fatal.
func TestForeignJournalIsSetAside(t *testing.T) {
	dir := t.TempDir()
	setWorld(t, dir, 2000, 1)
	p := childParts(dir)
	if err := os.MkdirAll(p.dataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := []byte(strings.Repeat("not a database ", 400))
	if err := os.WriteFile(filepath.Join(p.dataDir, "journal.db"), foreign, 0o600); err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	d, err := newDaemon(p, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(context.Background())
	aside, err := filepath.Glob(filepath.Join(p.dataDir, "journal.db.aside-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %v, %v\n%s", aside, err, log.String())
	}
	if data, _ := os.ReadFile(aside[0]); !bytes.Equal(data, foreign) {
		t.Error("the file that was set aside is not what it was")
	}
	if !strings.Contains(log.String(), "set aside") {
		t.Errorf("the log does not say so:\n%s", log.String())
	}
	d.loop.Tick(t.Context(), p.clock.Now())
	gaps := d.loop.Plan().Decision.Gaps
	if !slices.ContainsFunc(gaps, func(g planner.Gap) bool { return g.Fact == "journal" && strings.Contains(g.Detail, aside[0]) }) {
		t.Errorf("the plan's gaps are %+v: want one about the journal", gaps)
	}
}
