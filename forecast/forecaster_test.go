package forecast

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// mustNew returns a fitted forecaster.
func mustNew(t testing.TB, name string, s Series) Forecaster {
	t.Helper()
	f, err := New(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Fit(s); err != nil {
		t.Fatal(err)
	}
	return f
}

// blocksFor draws blocks at the end of s.
func blocksFor(s Series, n, horizon int) Blocks {
	return DrawBlocks(testRand(7), s.BlockClock(), n, horizon)
}

// dailyDemand is n steps of a quantity with a daily shape, a burst at 09:00 local time, and noise.
func dailyDemand(n int, step time.Duration, loc *time.Location, seed uint64) Series {
	rng := testRand(seed)
	s := Series{Start: monday, Step: step, Values: make([]float64, n), Location: loc}
	for i := range s.Values {
		at := s.TimeAt(i).In(s.BlockClock().location())
		hour := float64(at.Hour()) + float64(at.Minute())/60
		v := 100 + 40*math.Sin((hour-9)/24*2*math.Pi)
		if hour >= 9 && hour < 9.5 {
			v += 200
		}
		s.Values[i] = v * (1 + 0.03*rng.NormFloat64())
	}
	return s
}

func (c BlockClock) location() *time.Location {
	if c.Location == nil {
		return time.UTC
	}
	return c.Location
}

// hardSeries are the shapes that break forecasters.
func hardSeries() map[string]Series {
	rng := testRand(3)
	zeros := make([]float64, 4000)
	for i := range zeros {
		if rng.Float64() < 0.1 {
			zeros[i] = 1000 * rng.ExpFloat64()
		}
	}
	gaps := dailyDemand(4000, time.Minute, nil, 5)
	for i := range gaps.Values {
		if i%97 < 30 || i > 3900 {
			gaps.Values[i] = nan
		}
	}
	censored := dailyDemand(4000, time.Minute, nil, 6)
	censored.AtLeast = make([]bool, 4000)
	for i := range censored.AtLeast {
		censored.AtLeast[i] = i%5 == 0
	}
	late := minutes(nan, nan, nan, 4, 5)
	constant := minutes(slices.Repeat([]float64{42}, 3000)...)
	return map[string]Series{
		"heavy zeros": minutes(zeros...), "only zeros": minutes(make([]float64, 500)...), "gaps": gaps, "censored": censored,
		"one value": minutes(7), "late": late, "constant": constant, "spike": minutes(append(make([]float64, 2000), 1e12)...),
		"tiny": minutes(1e-300, 2e-300, 0, 3e-300), "huge": minutes(1e99, 2e99, 1.5e99, 1e99), "a leap": minutes(1e-210, 2e-210, 1e99, 1e99),
		"weekly steps": {Start: monday, Step: 7 * day, Values: []float64{1, 2, 3, 4, 5}},
		"odd steps":    {Start: monday, Step: 7 * time.Minute, Values: dailyDemand(900, 7*time.Minute, nil, 2).Values},
	}
}

// TestPathsAreFiniteAndNotNegative is the promise that a planner builds on, on every hard shape and with gaps after it.
func TestPathsAreFiniteAndNotNegative(t *testing.T) {
	for shape, s := range hardSeries() {
		for _, name := range Names() {
			f := mustNew(t, name, s)
			if f.Name() != name {
				t.Errorf("%s calls itself %s", name, f.Name())
			}
			for round := range 3 {
				clock := s.BlockClock()
				clock.Steps += round
				clock.Last = clock.Last.Add(time.Duration(round) * s.Step)
				e := f.Sample(30, DrawBlocks(testRand(1), clock, 50, 30))
				if err := e.Validate(); err != nil {
					t.Fatalf("%s on %s, round %d: %v", name, shape, round, err)
				}
				if !e.Start.Equal(clock.Last.Add(s.Step)) || e.Steps() != 30 || len(e.Paths) != 50 {
					t.Fatalf("%s on %s: start %v, %d paths of %d", name, shape, e.Start, len(e.Paths), e.Steps())
				}
				for _, p := range e.Paths {
					if slices.Min(p) < 0 {
						t.Fatalf("%s on %s: negative demand %v", name, shape, slices.Min(p))
					}
				}
				f.Update(nan, false)
			}
		}
	}
}

func TestFitRefusesWithoutKnownValues(t *testing.T) {
	for _, name := range Names() {
		f, err := New(name, Options{History: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		old := minutes(append([]float64{5}, slices.Repeat([]float64{nan}, 100)...)...)
		for what, s := range map[string]Series{"empty": minutes(), "all missing": minutes(nan, nan), "too old": old} {
			if err := f.Fit(s); !errors.Is(err, ErrShortHistory) {
				t.Errorf("%s on %s: %v", name, what, err)
			}
		}
		if err := f.Fit(Series{Values: []float64{1}}); err == nil {
			t.Errorf("%s took a series without a step", name)
		}
	}
}

func TestNewListsWhatItKnows(t *testing.T) {
	if _, err := New("prophet", Options{}); err == nil || !strings.Contains(err.Error(), "auto, last, snaive, drift") {
		t.Errorf("error %v does not list the names", err)
	}
}

// TestSameSeedSamePaths also checks that a forecaster that was updated equals one that was fitted on all, as far as its
// parameters do, and that Sample changes nothing.
func TestSameSeedSamePaths(t *testing.T) {
	s := dailyDemand(4320, time.Minute, nil, 11)
	b := blocksFor(s, 100, 20)
	for _, name := range Names() {
		first := mustNew(t, name, s)
		a, again, other := first.Sample(20, b), first.Sample(20, b), mustNew(t, name, s).Sample(20, b)
		for i := range a.Paths {
			if !slices.Equal(a.Paths[i], again.Paths[i]) || !slices.Equal(a.Paths[i], other.Paths[i]) {
				t.Fatalf("%s: path %d differs between equal calls", name, i)
			}
		}
	}
	if half := mustNew(t, nameLast, s.slice(0, 2000)); true {
		for _, v := range s.Values[2000:] {
			half.Update(v, false)
		}
		if a, b := half.Sample(20, b), mustNew(t, nameLast, s).Sample(20, b); !slices.Equal(a.Paths[3], b.Paths[3]) {
			t.Error("updating and fitting the last value differ")
		}
	}
}

// TestBoundedHistoryForgets runs far past the bound: memory must stay, and the paths of an updated forecaster must equal
// those of one fitted on the tail.
func TestBoundedHistoryForgets(t *testing.T) {
	s := dailyDemand(9000, time.Minute, nil, 12)
	opts := Options{History: 2 * day}
	f := NewLastValue(opts)
	if err := f.Fit(s.slice(0, 100)); err != nil {
		t.Fatal(err)
	}
	for _, v := range s.Values[100:] {
		f.Update(v, false)
	}
	if n := len(f.h.vals); n < 2880 || n > 2880*9/8+1 {
		t.Errorf("%d steps kept, want 2880 and at most an eighth more", n)
	}
	if got := f.h.timeAt(len(f.h.vals)); !got.Equal(s.End()) {
		t.Errorf("the clock is at %v after dropping, want %v", got, s.End())
	}
	tail := NewLastValue(opts)
	if err := tail.Fit(s); err != nil {
		t.Fatal(err)
	}
	clock := s.Tail(2880).BlockClock()
	b := DrawBlocks(testRand(1), clock, 60, 15)
	a, c := f.Sample(15, b), tail.Sample(15, b)
	for i := range a.Paths {
		for k := range a.Paths[i] {
			if math.Abs(a.Paths[i][k]-c.Paths[i][k]) > 0.01*c.Paths[i][k] { // the yardstick of scale remembers more
				t.Fatalf("path %d step %d: %v updated, %v fitted", i, k, a.Paths[i][k], c.Paths[i][k])
			}
		}
	}
}

// TestJointBlocksKeepSeriesTogether: completion tokens that are always a fixed share of prompt tokens stay so on every
// path, whatever the method.
func TestJointBlocksKeepSeriesTogether(t *testing.T) {
	prompt := dailyDemand(3*1440, time.Minute, nil, 13)
	completion := prompt
	completion.Values = make([]float64, prompt.Len())
	const share = 0.137
	for i, v := range prompt.Values {
		completion.Values[i] = share * v
	}
	b := blocksFor(prompt, 200, 30)
	for _, name := range Names() {
		p, c := mustNew(t, name, prompt).Sample(30, b), mustNew(t, name, completion).Sample(30, b)
		for i := range p.Paths {
			for k, v := range p.Paths[i] {
				if math.Abs(c.Paths[i][k]-share*v) > 1e-9*v {
					t.Fatalf("%s path %d step %d: %v is not %v of %v", name, i, k, c.Paths[i][k], share, v)
				}
			}
		}
	}
}

// TestAGapOrABoundNeverLowers compares with the forecast made before it, at the median.
func TestAGapOrABoundNeverLowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 100), 30, 60).Draw(t, "values")
		name := rapid.SampledFrom([]string{nameLast, nameDrift}).Draw(t, "name")
		f, err := New(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Fit(minutes(values...)); err != nil {
			t.Fatal(err)
		}
		point := func() float64 { // the point forecast one step ahead, without errors
			var dst [1]float64
			var s *single
			switch g := f.(type) {
			case *LastValue:
				s = &g.single
			case *DampedDrift:
				s = &g.single
			}
			s.method.points(s.h, s.h.last(), dst[:])
			return dst[0]
		}
		before := point()
		if rapid.Bool().Draw(t, "gap") {
			f.Update(nan, false)
		} else {
			f.Update(rapid.Float64Range(0, 100).Draw(t, "bound"), true)
		}
		if after := point(); after < before-1e-9 {
			t.Fatalf("%s: %v became %v", name, before, after)
		}
	})
}

// TestUnknownErrorsCarryTheRunUp: the history holds one run-up whose end is missing; replayed, it must stay up.
func TestUnknownErrorsCarryTheRunUp(t *testing.T) {
	values := slices.Repeat([]float64{10}, 100)
	values[50], values[51], values[52], values[53] = 20, 40, nan, nan
	s := minutes(values...)
	e := mustNew(t, nameLast, s).Sample(4, Blocks{Ages: []int{50}}) // origin 49: errors 10, 30, unknown, unknown
	if got, want := e.Paths[0], []float64{20, 40, 40, 40}; !slices.Equal(got, want) {
		t.Errorf("path %v, want %v", got, want)
	}
	// An age below the horizon is known in part and carries the same way.
	values[98], values[99] = 13, 15
	e = mustNew(t, nameLast, minutes(values...)).Sample(4, Blocks{Ages: []int{2}})
	for k, v := range e.Paths[0] {
		if k > 0 && v < e.Paths[0][k-1] {
			t.Errorf("the replayed run-up falls back: %v", e.Paths[0])
		}
	}
}

// TestABlockWithoutKnownErrorsTakesAnother: an origin in front of a long gap knows nothing.
func TestABlockWithoutKnownErrorsTakesAnother(t *testing.T) {
	values := slices.Repeat([]float64{10, 12}, 50)
	for i := 40; i < 60; i++ {
		values[i] = nan
	}
	f := mustNew(t, nameLast, minutes(values...))
	e := f.Sample(5, Blocks{Ages: []int{60, 20, 61, 30}}) // 99−60 = 39 knows nothing, neither does 38 … 38+5 but one
	if !slices.Equal(e.Paths[0], e.Paths[1]) {
		t.Errorf("path 0 has no errors and should take those of path 1: %v", e.Paths)
	}
	for _, b := range []Blocks{{Ages: []int{0}}, {Ages: []int{5000}}} {
		if e := f.Sample(3, b); !slices.Equal(e.Paths[0], []float64{12, 12, 12}) {
			t.Errorf("ages %v know nothing: path %v is not the point forecast", b.Ages, e.Paths[0])
		}
	}
}

// TestErrorsScaleWithTheLevel: the errors of a busy past are not replayed at full size on a quiet present.
func TestErrorsScaleWithTheLevel(t *testing.T) {
	var values []float64
	for i := range 4000 {
		level := 1000.0
		if i >= 2000 {
			level = 10
		}
		values = append(values, level*(1+0.1*math.Sin(float64(i))))
	}
	s := minutes(values...)
	e := mustNew(t, nameLast, s).Sample(5, Blocks{Ages: []int{2500, 3000, 3500}})
	for _, p := range e.Paths {
		if peak := slices.Max(p); peak > 150 {
			t.Errorf("an error of a level of 1000 lifts a level of 10 to %v", peak)
		}
	}
}

// TestSeasonStaysAtNineAcrossDaylightSaving: the burst is at 09:00 on the wall, an hour earlier in UTC after the change.
func TestSeasonStaysAtNineAcrossDaylightSaving(t *testing.T) {
	for _, c := range changes {
		loc := mustLocation(t, c.zone)
		y, m, d := c.at.In(loc).Date()
		s := dailyDemand(0, 15*time.Minute, loc, 1)
		s.Start = time.Date(y, m, d-10, 0, 0, 0, 0, loc)
		nine := time.Date(y, m, d+1, 9, 0, 0, 0, loc) // the first working morning after the change
		s.Values = make([]float64, nine.Sub(s.Start)/s.Step)
		for i := range s.Values {
			s.Values[i] = 10
			if h, n, _ := s.TimeAt(i).In(loc).Clock(); h == 9 && n == 0 {
				s.Values[i] = 100
			}
		}
		e := mustNew(t, nameSeasonal, s).Sample(4, blocksFor(s, 50, 4))
		if q := e.Quantile(0.5, 0); q < 90 {
			t.Errorf("%s %v: the median at 09:00 is %v, want the burst of 100", c.zone, c.at, q)
		}
		if q := e.Quantile(0.5, 1); q > 20 {
			t.Errorf("%s %v: the median at 09:15 is %v, want 10", c.zone, c.at, q)
		}
	}
}

// TestSeasonFallsBackWhenTheReferenceIsMissing loses all of yesterday: the days before must answer.
func TestSeasonFallsBackWhenTheReferenceIsMissing(t *testing.T) {
	s := dailyDemand(9*96+36, 15*time.Minute, nil, 4) // up to Wednesday 09:00
	for i := s.Len() - 100; i < s.Len()-90; i++ {
		s.Values[i] = nan
	}
	e := mustNew(t, nameSeasonal, s).Sample(2, blocksFor(s, 50, 2))
	if q := e.Quantile(0.5, 0); q < 250 {
		t.Errorf("the median at 09:00 is %v; the burst of about 300 on other days was not used", q)
	}
}

// TestPeakOfIndependentNoise is why the planner reads PeakQuantile: over thirty steps of independent noise it covers
// what it says, and the envelope of per-step quantiles does not come near.
func TestPeakOfIndependentNoise(t *testing.T) {
	for _, name := range []string{nameLast, nameDrift, nameAuto} {
		t.Run(name, func(t *testing.T) { testPeakOfIndependentNoise(t, name) })
	}
}

func testPeakOfIndependentNoise(t *testing.T, name string) {
	rng := testRand(21)
	s := Series{Start: monday, Step: time.Minute, Values: make([]float64, 14*1440)}
	for i := range s.Values {
		s.Values[i] = 1000 + 100*rng.NormFloat64()
	}
	const horizon, p = 30, 0.9
	fit := s.slice(0, 4*1440)
	f := mustNew(t, name, fit)
	within, below, windows := 0.0, 0.0, 0.0
	next := fit.Len()
	for origin := fit.Len(); origin+horizon < s.Len(); origin += horizon {
		for ; next <= origin; next++ {
			f.Update(s.Values[next], false)
		}
		e := f.Sample(horizon, DrawBlocks(testRand(1), s.slice(0, origin+1).BlockClock(), 200, horizon))
		actual := s.Values[origin+1 : origin+1+horizon]
		if slices.Max(actual) <= e.PeakQuantile(p, 0, horizon) {
			within++
		}
		inside := true
		for k, y := range actual {
			inside = inside && y <= e.Quantile(p, k)
		}
		if inside {
			below++
		}
		windows++
	}
	// Four binomial standard errors at 480 windows are 5.5 points; the bootstrap itself is less exact than that.
	if c := within / windows; c < p-0.06 || c > p+0.07 {
		t.Errorf("the %v quantile of the peak covers %.3f of %v windows", p, c, windows)
	}
	if c := below / windows; c > 0.5 {
		t.Errorf("the envelope of step quantiles covers %.3f: independent noise should break it mostly", c)
	}
}

func ExampleEnsemble_PeakQuantile() {
	// Two weeks of demand at 10-minute steps: 50 tokens/s at night, 200 by day.
	s := Series{Start: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), Step: 10 * time.Minute}
	for i := range 14 * 144 {
		v := 50.0
		if hour := i / 6 % 24; hour >= 9 && hour < 18 {
			v = 200
		}
		s.Values = append(s.Values, v)
	}
	s.Values = s.Values[:13*144+6*8+3] // it is 08:30 on the last day

	f, err := New("auto", Options{Horizon: 6})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := f.Fit(s); err != nil {
		fmt.Println(err)
		return
	}
	rng := rand.New(rand.NewPCG(1, 0))
	e := f.Sample(6, DrawBlocks(rng, s.BlockClock(), 200, 6))
	fmt.Printf("now %.0f, at 08:50 %.0f, peak over the next hour %.0f\n",
		s.Values[s.Len()-1], e.Quantile(0.9, 2), e.PeakQuantile(0.9, 0, e.Steps()))
	// Output: now 50, at 08:50 50, peak over the next hour 200
}
