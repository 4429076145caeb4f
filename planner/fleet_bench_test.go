package planner

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// BenchmarkFleet: a tick with a new minute of load for each of 1,000 models, that is 2,000 forecasters which know
// four weeks of minutes updated and sampled, and the Decision made. Beside the time it says what the process then
// holds: live heap, and resident memory with the garbage between two collections (Linux). The forecasters are
// restored from the snapshot of one, which does not change their size; fitting 2,000 would take ten minutes.
func BenchmarkFleet(b *testing.B) {
	const models = 1000
	cfg := trackerConfig("auto")
	cfg.Paths, cfg.Models = 200, nil
	for i := range models {
		cfg.Models = append(cfg.Models, TrackedModel{Name: fmt.Sprintf("model-%04d", i), Shape: Shape{GPUs: 1, Pods: 1},
			Profile: &Profile{Prompt: 10_000, Completion: 1_000}})
	}
	fleet, err := NewTracker(cfg)
	if err != nil {
		b.Fatal(err)
	}
	restoreAll(b, fleet, cfg)
	var memory Memory
	now := monday
	b.ReportAllocs()
	for b.Loop() {
		obs := Observation{At: now.Add(time.Minute)}
		load := wavy(now, 1)
		for _, m := range cfg.Models {
			obs.Models = append(obs.Models, ModelObservation{Name: m.Name, Load: load, Replicas: &Replicas{Ready: 2}})
		}
		now = obs.At
		d, err := Decide(fleet.State(obs, memory), Policy{Defaults: DefaultModelPolicy()})
		if err != nil {
			b.Fatal(err)
		}
		if d.Models[0].Peak == nil {
			b.Fatal("no forecast")
		}
		memory = d.Memory
	}
	b.ReportMetric(float64(resident(b))/(1<<20), "RSS-MiB")
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	b.ReportMetric(float64(heap.HeapAlloc)/(1<<20), "heap-MiB")
	runtime.KeepAlive(fleet)
}

// restoreAll gives every model of a Tracker the memory of one that was fitted on four weeks of minutes up to monday.
func restoreAll(b *testing.B, fleet *Tracker, cfg TrackerConfig) {
	b.Helper()
	cfg.Models = cfg.Models[:1]
	cfg.Ledger = &coldstart.Ledger{}
	one, err := NewTracker(cfg)
	if err != nil {
		b.Fatal(err)
	}
	name := cfg.Models[0].Name
	const span = forecast.DefaultHistory
	if err := one.Fit(name, wavy(monday.Add(-span), int(span/time.Minute))); err != nil {
		b.Fatal(err)
	}
	data, err := one.Snapshot(name)
	if err != nil {
		b.Fatal(err)
	}
	s, err := DecodeSnapshot(data)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range fleet.cfg.Models {
		s.state.Model = m.Name
		if err := fleet.Restore(s, LoadHistory{}); err != nil {
			b.Fatal(err)
		}
	}
}

// resident is the memory that the machine gives the process, in bytes; 0 where that cannot be read.
func resident(b *testing.B) int {
	text, err := os.ReadFile("/proc/self/statm")
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
