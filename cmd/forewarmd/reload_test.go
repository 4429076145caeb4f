package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// reloading runs a live daemon without Prometheus and cluster on a configuration file that the test rewrites.
type reloading struct {
	d    *daemon
	r    *reloader
	file string
	log  safeBuffer
}

const reloadable = `
tick: 1s
keda: {listen: "127.0.0.1:0"}
http: {listen: "127.0.0.1:0"}
kubernetes: {enabled: false}
prometheus: {url: "http://127.0.0.1:1"}
models:
- name: m
  matchers: ['model_name="m"']
  shape: {gpus: 1, pods: 1}
  policy: {replicas_min: %d}
`

func newReloading(t *testing.T) *reloading {
	t.Helper()
	w := &reloading{file: filepath.Join(t.TempDir(), "forewarmd.yaml")}
	w.write(t, fmt.Sprintf(reloadable, 2))
	read := func() (*config, error) { return readConfig(w.file) }
	cfg, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if w.d, err = newLive(cfg, slog.New(slog.NewTextHandler(&w.log, nil))); err != nil {
		t.Fatal(err)
	}
	w.r = newReloader(w.d, cfg, read)
	w.r.every = 20 * time.Millisecond
	w.d.parts.reload = w.r.run
	return w
}

func (w *reloading) write(t *testing.T, text string) {
	t.Helper()
	replaceFile(t, w.file, text)
}

// replaceFile renames a file into place, as a mounted ConfigMap changes: a half-written one would be read as it is.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (w *reloading) metrics(t *testing.T) string {
	t.Helper()
	return get(t, "http://"+w.d.httpListener.Addr().String()+"/metrics")
}

// A changed policy counts from the next tick on; a file that is wrong or needs a restart changes nothing and is reported
// once; a model that is added is answered.
func TestReload(t *testing.T) {
	w := newReloading(t)
	stop := runDaemon(t, w.d)
	defer stop()
	c := client(t, w.d.kedaListener.Addr().String())
	answers := func(model string, want float64) {
		t.Helper()
		eventually(t, c, model, fmt.Sprint(want), func(v float64, err error) bool { return err == nil && v == want })
	}
	answers("m", 2)
	w.write(t, fmt.Sprintf(reloadable, 5))
	answers("m", 5)

	w.write(t, strings.Replace(fmt.Sprintf(reloadable, 7), "tick: 1s", "tick: 1ms", 1))
	w.logged(t, "tick is 1ms: 1s to 5m are allowed")
	answers("m", 5)
	if m := w.metrics(t); !strings.Contains(m, `forewarm_config_reloads_total{result="refused"} 1`) || !strings.Contains(m, "forewarm_config_in_force 0") {
		t.Errorf("the refusal is not counted once:\n%s", grep(m, "forewarm_config"))
	}
	w.write(t, strings.Replace(fmt.Sprintf(reloadable, 7), `http: {listen: "127.0.0.1:0"}`, `http: {listen: "127.0.0.1:1"}`, 1))
	w.logged(t, "http cannot change while the daemon runs")
	answers("m", 5)

	more := fmt.Sprintf(reloadable, 5) + "- name: n\n  matchers: ['model_name=\"n\"']\n  shape: {gpus: 1, pods: 1}\n  policy: {replicas_min: 3}\n"
	if _, err := answer(c, "n"); status.Code(err) != codes.NotFound {
		t.Errorf("before it is configured n is unknown, got %v", err)
	}
	w.write(t, more)
	answers("n", 3)
	answers("m", 5)
	m := w.metrics(t)
	for _, want := range []string{`forewarm_config_reloads_total{result="applied"} 2`, `forewarm_config_reloads_total{result="refused"} 2`, "forewarm_config_in_force 1"} {
		if !strings.Contains(m, want) {
			t.Errorf("the metrics do not say %s:\n%s", want, grep(m, "forewarm_config"))
		}
	}
}

// logged waits until the daemon's log has a text.
func (w *reloading) logged(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !strings.Contains(w.log.String(), text) {
		select {
		case <-deadline:
			t.Fatalf("%q was not logged:\n%s", text, w.log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func grep(text, part string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func TestSamePlant(t *testing.T) {
	base := fmt.Sprintf(reloadable, 2)
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"a model's policy", fmt.Sprintf(reloadable, 3), true},
		{"the defaults", base + "policy: {defaults: {authority: act}}\n", true},
		{"a comment", "# more\n" + base, true},
		{"the seed", base + "policy: {seed: 2}\n", false},
		{"a shape", strings.Replace(base, "gpus: 1", "gpus: 2", 1), false},
		{"the server", strings.Replace(base, "127.0.0.1:1\"", "127.0.0.1:2\"", 1), false},
	} {
		old, err := parseConfig("old", []byte(base))
		if err != nil {
			t.Fatal(err)
		}
		next, err := parseConfig("next", []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := samePlant(old, next); got != tt.want {
			t.Errorf("%s changed: got %t", tt.name, got)
		}
	}
}

// A changed calendar is taken over although the configuration that names it is the same, and a wrong one is refused.
func TestReloadOfTheCalendar(t *testing.T) {
	w := newReloading(t)
	events := filepath.Join(t.TempDir(), "events.yaml")
	calendar := func(multiplier string) {
		t.Helper()
		replaceFile(t, events, "events: [{name: launch, start: 2026-07-01 09:00, duration: 1h, multiplier: "+multiplier+"}]\n")
	}
	calendar("2")
	w.write(t, fmt.Sprintf(reloadable, 2)+"events: "+events+"\n")
	stop := sync.OnceFunc(runDaemon(t, w.d))
	defer stop()
	applied := func(n int) {
		t.Helper()
		want := fmt.Sprintf("forewarm_config_reloads_total{result=\"applied\"} %d", n)
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(w.metrics(t), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %s:\n%s", want, grep(w.metrics(t), "forewarm_config"))
			}
		}
	}
	applied(1)
	calendar("3")
	applied(2)
	calendar("3000")
	w.logged(t, "multiplier is 3000, must be from 0.01 to 100")
	calendar("3")
	w.write(t, fmt.Sprintf(reloadable, 2))
	applied(3)
	stop()
	if w.r.cfg.calendar != nil {
		t.Error("the calendar is still in force")
	}
}
