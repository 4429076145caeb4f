package forecast

import (
	"testing"
	"time"
)

// BenchmarkFit fits four weeks at one minute; design §10 allows 300 ms.
func BenchmarkFit(b *testing.B) {
	s := dailyDemand(28*1440, time.Minute, nil, 1)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			f, err := New(name, Options{Horizon: 10})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := f.Fit(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdateSample is one tick of one series: one new value, 200 paths of 30 steps. Design §10 allows one core-second
// for 2,000 series, which is 500 µs each.
func BenchmarkUpdateSample(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	s := dailyDemand(28*1440, time.Minute, berlin, 1)
	blocks := blocksFor(s, 200, 30)
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			f, err := New(name, Options{Horizon: 30})
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Fit(s); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				f.Update(s.Values[i%s.Len()], false)
				if e := f.Sample(30, blocks); len(e.Paths) != 200 {
					b.Fatal("paths")
				}
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/series")
		})
	}
}

// BenchmarkDrawBlocks is done once per model and tick.
func BenchmarkDrawBlocks(b *testing.B) {
	clock := BlockClock{Last: monday.Add(28 * day), Step: time.Minute, Steps: 28 * 1440}
	for b.Loop() {
		if got := DrawBlocks(testRand(1), clock, 200, 30); len(got.Ages) != 200 {
			b.Fatal("ages")
		}
	}
}
