package sim

import (
	"context"
	"testing"
	"time"

	"forewarm/planner"
)

// A working day of the demo under a constant, sufficient answer. requests/s is of both models together, with drawing
// the demand included.
func BenchmarkDemoDay(b *testing.B) {
	w := DemoWorld()
	w.Start = w.Start.Truncate(24 * time.Hour)
	w.Pools[0].NodesMax = 20
	var requests int64
	for b.Loop() {
		c := mustCluster(b, w, 1)
		day := 24 * time.Hour
		ten, two := 10, 3
		for at := time.Duration(0); at <= day; at += 4 * time.Minute {
			now := w.Start.Add(at)
			if _, err := c.Observe(context.Background(), now); err != nil {
				b.Fatal(err)
			}
			d := planner.Decision{At: now, Models: []planner.ModelDecision{
				{Name: "chat-70b", Answer: &ten}, {Name: "code-8b", Answer: &two}}}
			if err := c.Apply(context.Background(), d); err != nil {
				b.Fatal(err)
			}
		}
		for _, s := range c.Stats() {
			requests += s.Served
		}
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
}

// One saturated server alone.
func BenchmarkServer(b *testing.B) {
	s := server{physics: DemoWorld().Models[0].Physics}
	var done []job
	served := 0
	for b.Loop() {
		for s.load() < 100 {
			s.add(job{arrived: s.at, prompt: 1000, completion: 200})
		}
		s.advance(s.next())
		done, _ = s.settle(done[:0], 0)
		served += len(done)
	}
	b.ReportMetric(float64(served)/b.Elapsed().Seconds(), "requests/s")
}
