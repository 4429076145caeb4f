package benchmark

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/forecast"
)

// flat is a forecast of the same quantiles for every step and peak.
func flat(c Case, horizon int, qs []float64) Prediction {
	p := Prediction{Peaks: map[int][]float64{horizon: qs}}
	for range horizon {
		p.Steps = append(p.Steps, qs)
	}
	return p
}

func same(v float64) []float64 { return slices.Repeat([]float64{v}, len(Quantiles())) }

// TestWQL is worked by hand: the actual value is always 10 and all quantiles say 8, so that each costs 2p.
func TestWQL(t *testing.T) {
	c := mustCase(t, seriesOf(time.Minute, 200, func(int) float64 { return 10 }), 3)
	o := c.Dense[0]
	sum := 0.0
	for _, p := range Quantiles() {
		sum += 2 * p
	}
	want := 2 * sum / float64(len(Quantiles())) / 10
	if got := c.StepLoss(flat(c, c.Short, same(8)), o, c.Short).WQL(); math.Abs(got-want) > 1e-12 {
		t.Errorf("WQL is %v, want %v", got, want)
	}
	if got := c.PeakLoss(flat(c, c.Short, same(8)), o, c.Short, 0).WQL(); math.Abs(got-want) > 1e-12 {
		t.Errorf("peak WQL is %v, want %v", got, want)
	}
	if got := c.StepLoss(flat(c, c.Short, same(10)), o, c.Short); got.Pinball != 0 || got.Failed != 0 || got.Scored != c.Short {
		t.Errorf("a perfect forecast scores %+v", got)
	}
}

// TestUpperQuantiles scores only the quantiles from 0.9 on.
func TestUpperQuantiles(t *testing.T) {
	c := mustCase(t, seriesOf(time.Minute, 200, func(int) float64 { return 10 }), 3)
	want := 2 * (0.9 + 0.95 + 0.99) * 2 / 3
	if got := c.PeakLoss(flat(c, c.Short, same(8)), c.Dense[0], c.Short, 0.9).Pinball; math.Abs(got-want) > 1e-12 {
		t.Errorf("loss of the upper quantiles is %v, want %v", got, want)
	}
}

func TestMissingIsNotScored(t *testing.T) {
	s := seriesOf(time.Minute, 200, func(int) float64 { return 10 })
	c := mustCase(t, s, 3)
	o := c.Dense[0]
	s.Values[o+3] = math.NaN()
	if l := c.StepLoss(flat(c, c.Short, same(8)), o, c.Short); l.Scored != c.Short-1 || l.Failed != 0 {
		t.Errorf("scored %d of %d steps, one of which is missing", l.Scored, c.Short)
	}
	if l := c.PeakLoss(flat(c, c.Short, same(8)), o, c.Short, 0); l.Scored != 0 || !math.IsNaN(l.WQL()) {
		t.Errorf("the peak over a gap was scored: %+v", l)
	}
}

// TestNobodyGainsByAbstaining holds a failed forecast to be no cheaper than any forecast between zero and twice the
// largest value seen.
func TestNobodyGainsByAbstaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.Float64Range(0, 1e6).Draw(t, "scale")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := seriesOf(time.Minute, 200, func(int) float64 { return scale * rng.Float64() })
		c, err := NewCase("test", s, 3)
		if err != nil {
			t.Fatal(err)
		}
		o := c.CompareShort[len(c.CompareShort)-1]
		qs := make([]float64, len(Quantiles()))
		for j := range qs {
			qs[j] = 2 * c.largest(o) * rng.Float64()
		}
		slices.Sort(qs)
		said := c.StepLoss(flat(c, c.Short, qs), o, c.Short)
		failed := c.StepLoss(Prediction{}, o, c.Short)
		if failed.Failed != c.Short || said.Pinball > failed.Pinball*(1+1e-12) {
			t.Fatalf("saying something costs %v, saying nothing %v", said.Pinball, failed.Pinball)
		}
	})
}

func TestValid(t *testing.T) {
	good := []float64{1, 1, 2, 3, 4, 5, 6, 7}
	for _, tc := range []struct {
		name string
		edit func(qs []float64) []float64
		want bool
	}{
		{"as they are", func(qs []float64) []float64 { return qs }, true},
		{"crossing by rounding", func(qs []float64) []float64 { qs[1] = 1 - 1e-12; return qs }, true},
		{"crossing", func(qs []float64) []float64 { qs[3] = 1.9; return qs }, false},
		{"NaN", func(qs []float64) []float64 { qs[0] = math.NaN(); return qs }, false},
		{"infinite", func(qs []float64) []float64 { qs[7] = math.Inf(1); return qs }, false},
		{"one missing", func(qs []float64) []float64 { return qs[1:] }, false},
		{"none", func([]float64) []float64 { return nil }, false},
	} {
		if got := Valid(tc.edit(slices.Clone(good)), len(good)); got != tc.want {
			t.Errorf("%s: valid is %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestRunSeesNothingAhead changes what follows an origin: forecasts until it must not.
func TestRunSeesNothingAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := seriesOf(10*time.Minute, 6*144, func(i int) float64 { return 10 + 5*math.Sin(2*math.Pi*float64(i)/144) + rng.Float64() })
	c := mustCase(t, s, 10)
	at := 20
	run := func(c Case) (ours, direct, last Predictions) {
		f, err := forecast.New("auto", forecast.Options{Horizon: c.Short})
		if err != nil {
			t.Fatal(err)
		}
		ours, cost, err := Run(c, f, c.Dense, c.Short, 50, 1, func() time.Duration { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		if cost.Forecasts != len(c.Dense) || cost.Updates != c.Dense[len(c.Dense)-1]-c.Split+1 {
			t.Errorf("cost is %+v", cost)
		}
		return ours, c.DirectPeaks(c.Dense, c.Short), c.LastPeaks(c.Dense, c.Short)
	}
	ours, direct, last := run(c)
	changed := c
	changed.Series.Values = slices.Clone(s.Values)
	for i := c.Dense[at] + 1; i < s.Len(); i++ {
		changed.Series.Values[i] = 1000
	}
	ours2, direct2, last2 := run(changed)
	for _, m := range []struct {
		name string
		a, b Predictions
	}{{"ours", ours, ours2}, {"direct", direct, direct2}, {"last", last, last2}} {
		for _, o := range c.Dense[:at+1] {
			if a, b := m.a[o].Peaks[c.Short], m.b[o].Peaks[c.Short]; !slices.Equal(a, b) {
				t.Fatalf("%s at %d says %v, and %v when the future is another", m.name, o, a, b)
			}
		}
		if o := c.Dense[at+8]; slices.Equal(m.a[o].Peaks[c.Short], m.b[o].Peaks[c.Short]) {
			t.Errorf("%s does not notice at %d what it has seen since %d", m.name, o, c.Dense[at])
		}
	}
}
