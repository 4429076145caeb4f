package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// forecasterFiles lists the snapshots in a data directory, those set aside apart.
func forecasterFiles(t *testing.T, p parts) (kept, aside []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(p.dataDir, "forecasters", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if strings.Contains(f, ".aside-") {
			aside = append(aside, f)
		} else {
			kept = append(kept, f)
		}
	}
	return kept, aside
}

// knowing makes a daemon, lets it tick once at now and returns what it knows of chat's load then, and its log.
func knowing(t *testing.T, p parts, now time.Time) (what, log string) {
	t.Helper()
	var out safeBuffer
	d, err := newDaemon(p, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	d.loop.Tick(t.Context(), now)
	if s := d.loop.Plan().Decision.Model("chat"); s.Peak == nil {
		t.Fatalf("no forecast: %+v\n%s", s, out.String())
	}
	data, err := d.tracker.Snapshot("chat")
	if err != nil {
		t.Fatal(err)
	}
	return string(data), out.String()
}

// The forecasters of a data directory serve the next process, also when the metrics' past is gone; those that are
// damaged, of another version or of another configuration do not, and the first two are set aside and said.
func TestForecastersAreKeptInTheDataDir(t *testing.T) {
	dir := t.TempDir()
	setWorld(t, dir, 5000, 2)
	now := time.Now().Truncate(time.Minute).Add(2 * time.Second)
	start := func() parts {
		p := childParts(dir)
		p.bases = map[string]string{"chat": "as configured"}
		return p
	}
	before, _ := knowing(t, start(), now)
	setWorld(t, dir, 200, 2) // the whole history says something else now
	kept, _ := forecasterFiles(t, start())
	if len(kept) != 1 {
		t.Fatalf("kept are %v", kept)
	}
	good, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	if after, log := knowing(t, start(), now.Add(15*time.Second)); after != before || strings.Contains(log, "level=ERROR") {
		t.Errorf("the restarted daemon knows something else\n%s", log)
	}
	for name, c := range map[string]struct {
		file  []byte
		basis string
		says  string
	}{
		"damaged":               {append([]byte(nil), good[:len(good)/2]...), "as configured", "is damaged: its checksum does not match"},
		"another version":       {[]byte(strings.Replace(string(good), "snapshot 1", "snapshot 9", 1)), "as configured", "is of another version"},
		"another configuration": {good, "configured anew", ""},
	} {
		if err := os.WriteFile(kept[0], c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		p := start()
		p.bases["chat"] = c.basis
		after, log := knowing(t, p, now.Add(15*time.Second))
		if after == before {
			t.Errorf("%s: it was restored", name)
		}
		_, aside := forecasterFiles(t, p)
		if c.says == "" {
			if len(aside) > 0 || strings.Contains(log, "level=ERROR") {
				t.Errorf("%s: set aside are %v\n%s", name, aside, log)
			}
			continue
		}
		if len(aside) != 1 || !strings.Contains(log, c.says) || !strings.Contains(log, "set aside as") {
			t.Fatalf("%s: set aside are %v, the log says\n%s", name, aside, log)
		}
		if data, err := os.ReadFile(aside[0]); err != nil || string(data) != string(c.file) {
			t.Errorf("%s: what was set aside is not what was there (%v)", name, err)
		}
		if err := os.Remove(aside[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// A basis tells apart whatever changes what the history says, and nothing else.
func TestBases(t *testing.T) {
	two := minimal + "- name: n\n  matchers: ['model_name=\"n\"']\n  workloads: [{namespace: a, kind: Deployment, name: n}]\n  shape: {gpus: 1, pods: 1}\n"
	basis := func(text string) string {
		t.Helper()
		c, err := parseConfig("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c.bases()["n"]
	}
	plain := basis(two)
	for more, same := range map[string]bool{
		"tick: 30s\n":                           true,
		"forecast: {paths: 100}\n":              true,
		"forecast: {horizon: 40m}\n":            false,
		"forecast: {history: 100h}\n":           false,
		"forecast: {timezone: Europe/Berlin}\n": false,
		"policy: {seed: 5}\n":                   true,
	} {
		if got := basis(more + two); (got == plain) != same {
			t.Errorf("with %q the basis is %s, without %s", more, got, plain)
		}
	}
	for _, more := range []string{"  replaces: m\n", "  like: m\n", "  arrivals: {source: none}\n"} {
		if basis(two+more) == plain {
			t.Errorf("%q changes nothing", more)
		}
	}
	c, err := parseConfig("f.yaml", []byte(two))
	if err != nil {
		t.Fatal(err)
	}
	if c.rawEvents = []byte("events: []"); c.bases()["n"] == plain {
		t.Error("events change nothing")
	}
	if c.bases()["m"] == c.bases()["n"] {
		t.Error("two models have one basis")
	}
}
