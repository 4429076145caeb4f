package benchmark

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// TestDirectOnExactSeason repeats a day exactly: the ratio of peak to level is then known for every time of day, and the
// median must be near the peak, while the last value alone cannot know the rise.
func TestDirectOnExactSeason(t *testing.T) {
	c := mustCase(t, seriesOf(10*time.Minute, 10*144, func(i int) float64 {
		return 100 + 80*math.Sin(2*math.Pi*float64(i)/144)
	}), 10)
	median := slices.Index(Quantiles(), 0.5)
	var direct, last float64
	d, l := c.DirectPeaks(c.Dense, c.Short), c.LastPeaks(c.Dense, c.Short)
	for _, o := range c.Dense {
		y := c.Peak(o, c.Short)
		direct += math.Abs(d[o].Peaks[c.Short][median] - y)
		last += math.Abs(l[o].Peaks[c.Short][median] - y)
	}
	if direct > last/4 {
		t.Errorf("mean error of the direct baseline is %v, of the last value %v", direct/float64(len(c.Dense)), last/float64(len(c.Dense)))
	}
}

// TestLastPeaksCover holds the conformal intervals to their promise on a random walk, where the promise applies.
func TestLastPeaksCover(t *testing.T) {
	rng := newRand(3)
	level := 1000.0
	c := mustCase(t, seriesOf(time.Minute, 40000, func(int) float64 { level += rng.NormFloat64(); return level }), 10)
	s := c.PeakScore(c.LastPeaks(c.Dense, c.Short), c.Dense, c.Short)
	if got := mean(s.Hit90); math.Abs(got-0.9) > 0.03 {
		t.Errorf("the 0.9 quantile covers %v over %d windows", got, len(s.Hit90))
	}
	if got := mean(s.Hit99); math.Abs(got-0.99) > 0.01 {
		t.Errorf("the 0.99 quantile covers %v over %d windows", got, len(s.Hit99))
	}
}

// TestBaselinesOnZeros has nothing but zeros for half of the time, where a ratio needs its offset.
func TestBaselinesOnZeros(t *testing.T) {
	rng := newRand(4)
	c := mustCase(t, seriesOf(10*time.Second, 400, func(int) float64 { return max(0, rng.NormFloat64()) }), 10)
	for name, p := range map[string]Predictions{"direct": c.DirectPeaks(c.Dense, c.Short), "last": c.LastPeaks(c.Dense, c.Short)} {
		for _, o := range c.Dense {
			if !Valid(p[o].Peaks[c.Short], len(Quantiles())) {
				t.Fatalf("%s at %d says %v", name, o, p[o].Peaks[c.Short])
			}
		}
	}
}

// TestIntervalString: three dashes in a row would be no text.
func TestIntervalString(t *testing.T) {
	if got := (Interval{0.8807, 1}).String(); got != "0.881–1.000" {
		t.Errorf("got %q", got)
	}
	if got := BlockInterval(nil, 1, nil).String(); got != "no interval" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestBlockInterval draws series whose neighbours are alike: an interval that ignored it would be too narrow.
func TestBlockInterval(t *testing.T) {
	rng := newRand(5)
	inside, narrow := 0, 0
	const trials = 200
	for range trials {
		xs := make([]float64, 600)
		v := 0.0
		for i := range xs {
			if i%20 == 0 {
				v = float64(one(rng.Float64() < 0.9))
			}
			xs[i] = v
		}
		inside += one(BlockInterval(xs, 60, rng).Contains(0.9))
		narrow += one(BlockInterval(xs, 1, rng).Contains(0.9))
	}
	if share := float64(inside) / trials; share < 0.8 {
		t.Errorf("the interval by blocks contains the truth in %v of the trials", share)
	}
	if narrow >= inside {
		t.Errorf("without blocks %d, with blocks %d of %d contain the truth: blocks do nothing", narrow, inside, trials)
	}
}

// TestExact compares with published limits: 0 of 10, and 9 of 10 (Clopper and Pearson's tables give .308 and .555 to .997).
func TestExact(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.001 }
	if i := exact(0, 10); i.Low != 0 || !near(i.High, 0.308) {
		t.Errorf("0 of 10: %v", i)
	}
	if i := exact(9, 10); !near(i.Low, 0.555) || !near(i.High, 0.997) {
		t.Errorf("9 of 10: %v", i)
	}
}

// TestCoverageWithoutMiss is where drawing again says nothing: 17 windows that all hold cannot refute 0.99.
func TestCoverageWithoutMiss(t *testing.T) {
	c := NewCoverage(slices.Repeat([]float64{1}, 17), 2, newRand(1))
	if c.Share != 1 || !c.Contains(0.99) || c.Contains(0.7) {
		t.Errorf("17 of 17 hold: %+v", c)
	}
}

// TestBarsOfOneSeries walks the edge of each bar.
func TestBarsOfOneSeries(t *testing.T) {
	row := func(windows int, share90, share99 float64) CalibrationRow {
		around := func(share, nominal float64) Coverage {
			return Coverage{share, Interval{min(share, nominal) - 0.001, max(share, nominal) + 0.001}}
		}
		return CalibrationRow{Windows: windows, Cov90: around(share90, 0.9), Cov99: around(share99, 0.99)}
	}
	off := row(1000, 0.9, 0.99)
	off.Cov99.Interval = Interval{0.991, 0.999}
	for _, tc := range []struct {
		name string
		row  CalibrationRow
		want bool
	}{
		{"exact", row(1000, 0.9, 0.99), true},
		{"nominal outside the interval", off, false},
		{"below the least at 0.9", row(500, 0.849, 0.99), false},
		{"below the least at 0.99", row(500, 0.9, 0.974), false},
		{"below the least, too few windows to say", row(499, 0.849, 0.974), true},
	} {
		if got := tc.row.Holds(); got != tc.want {
			t.Errorf("%s: holds is %v, want %v", tc.name, got, tc.want)
		}
	}
	if (Pooled{Cov90: 0.9201, Cov99: 0.99}).Holds() || !(Pooled{Cov90: 0.8801, Cov99: 0.9949}).Holds() {
		t.Error("the pooled bars are 0.02 and 0.005")
	}
}

// TestFailedPeakCoversNothing gives no forecast at all.
func TestFailedPeakCoversNothing(t *testing.T) {
	c := mustCase(t, seriesOf(time.Minute, 400, func(int) float64 { return 10 }), 3)
	s := c.PeakScore(nil, c.Dense, c.Short)
	if mean(s.Hit90) != 0 || mean(s.Hit99) != 0 || Sum(s.All).Failed != len(c.Dense) {
		t.Errorf("nothing was said, and %v and %v of it hold", mean(s.Hit90), mean(s.Hit99))
	}
	var b strings.Builder
	WriteCalibration(&b, []CalibrationRow{NewCalibrationRow(c, nil, newRand(1))})
	if !strings.Contains(b.String(), "MISSED") {
		t.Errorf("the table does not say so:\n%s", b.String())
	}
}
