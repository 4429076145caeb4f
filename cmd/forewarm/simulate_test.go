package main

import (
	"os"
	"path/filepath"
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
