package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"forewarm/configs"
	"forewarm/sim"
)

// Every scenario that is shipped reads, holds together, and replays a few minutes under each of its policies but the
// oracles, which replay it many times.
func TestShippedScenarios(t *testing.T) {
	files, err := filepath.Glob("../../configs/scenarios/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := configs.Scenario(file, data, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			if s.World.Models[0].Workload.Table != nil {
				return // its file is the reader's own
			}
			s.Duration, s.History, s.Faults = 3*time.Minute, 2*time.Hour, nil
			for _, name := range s.Policies {
				spec, err := sim.ParsePolicy(name)
				if err != nil {
					t.Fatal(err)
				}
				if spec.Name == "oracle" {
					continue
				}
				x, err := sim.Replay(t.Context(), s, spec)
				if err != nil {
					t.Fatal(err)
				}
				if x.Requests == 0 || x.AttainedShare == nil {
					t.Errorf("%s: %d requests, attained %v", name, x.Requests, x.AttainedShare)
				}
			}
		})
	}
}

// The page needs no network, has a plot of each policy, and holds the table that is printed.
func TestSimulateHTML(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"simulate", "-f", "../../configs/scenarios/monday-0915.yaml", "--policy", "kpa,fixed:5",
		"--set", "duration=10m", "--format", "html", "--out", page}, &stdout, &stderr)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"http:", "https:", "<script", "NaN", "ZgotmplZ"} {
		if strings.Contains(string(data), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if got := strings.Count(string(data), `class="ready"`); got != 2 {
		t.Errorf("%d plots of replicas for 2 policies", got)
	}
	row := regexp.MustCompile(`kpa +\d+ +\d`)
	if !row.Match(data) || !row.Match(stdout.Bytes()) {
		t.Errorf("no table in the page or on standard output:\n%s", stdout.String())
	}
}

// A full disk takes nothing away from what is shown.
func TestSimulateOutFails(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"simulate", "-f", "../../configs/scenarios/monday-0915.yaml", "--policy", "kpa",
		"--set", "duration=5m", "--format", "json", "--out", "/dev/full"}, &stdout, &stderr)
	if code == 0 || !strings.Contains(stdout.String(), "kpa") || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit code %d, shown:\n%s%s", code, stdout.String(), stderr.String())
	}
}
