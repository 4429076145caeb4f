package journal

import (
	"context"
	"testing"
	"time"

	"forewarm/planner"
)

// benchFleet is a mid-size fleet: 100 models, forecasts of 60 steps; how many sample paths decides the size of a State.
const (
	benchModels = 100
	benchSteps  = 60
)

// ticksPerDay is how often the loop decides.
const ticksPerDay = float64(24 * time.Hour / tick)

// BenchmarkAppend measures one tick at 100 models whose loads move every minute, without a State, and reports how much
// the file grows per day. The Decisions are the planner's own.
func BenchmarkAppend(b *testing.B) {
	j, _ := mustOpen(b, b.TempDir(), Options{CheckpointEvery: 24 * time.Hour})
	f := newFleet(benchModels, 10, benchSteps)
	var json int
	n := 0
	for b.Loop() {
		b.StopTimer()
		s, p, d := f.next(b)
		json += len(asJSON(b, d))
		j.recorded = recorded{at: d.At, targets: targetsOf(d)} // the State is the next benchmark's
		b.StartTimer()
		mustAppend(b, j, s, p, d)
		n++
	}
	b.StopTimer()
	live := used(b, j)
	b.ReportMetric(float64(live)/float64(n), "file-B/op")
	b.ReportMetric(float64(json)/float64(n), "json-B/op")
	b.ReportMetric(float64(live)/float64(n)*ticksPerDay/(1<<20), "MiB/day")
}

// BenchmarkAppendState measures a tick that stores its State as well: 100 models with 100 sample paths of 60 steps.
func BenchmarkAppendState(b *testing.B) {
	j, _ := mustOpen(b, b.TempDir(), Options{SizeMax: 8 << 30})
	s, p, d := newFleet(benchModels, 100, benchSteps).next(b)
	n := 0
	for b.Loop() {
		s.Now, d.At = s.Now.Add(tick), d.At.Add(tick)
		j.recorded = recorded{}
		mustAppend(b, j, s, p, d)
		n++
	}
	b.ReportMetric(float64(used(b, j))/float64(n), "file-B/op")
}

// BenchmarkDecisions reads one model's plans of six hours out of a journal of 20 models.
func BenchmarkDecisions(b *testing.B) {
	j, _ := mustOpen(b, b.TempDir(), Options{})
	f := newFleet(20, 4, 12)
	var last planner.Decision
	const ticks = 6 * groupTicks
	for range ticks {
		s, p, d := f.next(b)
		j.recorded = recorded{at: d.At, targets: targetsOf(d)}
		mustAppend(b, j, s, p, d)
		last = d
	}
	for b.Loop() {
		n := 0
		for _, err := range j.Decisions(context.Background(), "chat-007", time.Time{}, last.At.Add(1)) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != ticks {
			b.Fatalf("%d decisions of %d", n, ticks)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*ticks), "µs/plan")
}

func used(tb testing.TB, j *Journal) int64 {
	tb.Helper()
	over, err := j.overCap(context.Background(), j.write)
	if err != nil {
		tb.Fatal(err)
	}
	return over + j.opts.liveMax()
}
