package forecast

import (
	"math"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAggregationIsNotMuchWorseThanTheBestExpert feeds a band with experts and outcomes that change sides at will: over the
// time in which regrets are remembered, the loss of the aggregation must stay near that of the best expert in hindsight.
func TestAggregationIsNotMuchWorseThanTheBestExpert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const experts, rounds = 5, 800
		b := newBand(experts, make([]bool, experts))
		o := newOrigin(1, experts)
		for c := range experts {
			for p := range grid {
				b.offset[p*experts+c] = 0
			}
		}
		rng := testRand(rapid.Uint64().Draw(t, "seed"))
		every := rapid.IntRange(1, 300).Draw(t, "rounds until the good expert changes")
		noise := rapid.Float64Range(0.01, 0.2).Draw(t, "noise")
		p := rapid.IntRange(0, gridLen-1).Draw(t, "quantile")
		own, mixed := make([]float64, experts), 0.0
		for i := range rounds {
			z := 1 + rng.Float64()
			good := i / every % experts
			for c := range experts {
				away := 0.1 + 0.4*rng.Float64()
				if c == good {
					away = 0
				}
				o.centres[c] = float32(z + noise*rng.NormFloat64() + away)
			}
			for q := range grid {
				o.replayed[q] = o.centres[experts-1] // the last one is the replay, which has a centre for each quantile
			}
			o.spread[0] = float32(noise)
			r := reach{low: -10, high: 10}
			mixed += Pinball(grid[p], grown(b.mix(p, o.centres, noise, r)), grown(z))
			for c := range own {
				own[c] += Pinball(grid[p], grown(float64(o.centres[c])+noise*float64(b.offset[p*experts+c])), grown(z))
			}
			if b.seen == 0 {
				b.usual, b.stake = noise, noise
			}
			b.learn(&o, 0, z, r)
		}
		best := math.Inf(1)
		for _, l := range own {
			best = min(best, l)
		}
		// The bound of ML-Poly grows with the root of the rounds; one round can cost about 10 here, and an even mixture
		// loses about 1,000 in all.
		if mixed > best+3*math.Sqrt(rounds) {
			t.Fatalf("loss %v, best expert %v", mixed, best)
		}
	})
}

// TestConformalCoverageUnderDrift: the errors double, then shrink to a third, and the level is what nobody forecasts. The
// quantiles of the steps and of the peak must hold as often as they say.
func TestConformalCoverageUnderDrift(t *testing.T) {
	rng := testRand(61)
	n := 9000
	s := Series{Start: monday, Step: time.Minute, Values: make([]float64, n)}
	level := 500.0
	for i := range s.Values {
		size := 5.0
		switch {
		case i >= 6000:
			size = 3
		case i >= 3000:
			size = 10
		}
		level = max(100, level+size*rng.NormFloat64())
		s.Values[i] = level + 2*size*math.Abs(rng.NormFloat64())
	}
	a := NewAuto(Options{Horizon: 6})
	if err := a.Fit(s.slice(0, 2000)); err != nil {
		t.Fatal(err)
	}
	hits := map[float64]float64{}
	windows := 0.0
	for i := 2000; i+6 < n; i++ {
		a.Update(s.Values[i], false)
		if i%7 != 0 {
			continue
		}
		e := a.Sample(6, blocksFor(s.slice(0, i+1), 100, 6))
		peak := math.Inf(-1)
		for _, v := range s.Values[i+1 : i+7] {
			peak = max(peak, v)
		}
		windows++
		for _, p := range []float64{0.5, 0.9, 0.97} {
			if peak <= e.PeakQuantile(p, 0, 6) {
				hits[p]++
			}
		}
	}
	for p, within := range map[float64]float64{0.5: 0.06, 0.9: 0.035, 0.97: 0.025} {
		if c := hits[p] / windows; math.Abs(c-p) > within {
			t.Errorf("the %v quantile of the peak covers %.3f of %v windows", p, c, windows)
		}
	}
	cov := a.Coverage()
	if cov.Forecasts < 8000 || len(cov.Peak) != gridLen || len(cov.Steps) != gridLen {
		t.Fatalf("coverage %+v", cov)
	}
	for _, c := range append(cov.Steps, cov.Peak...) {
		if math.Abs(c.Share-c.P) > 0.05 {
			t.Errorf("coverage of the %v quantile is stated as %.3f", c.P, c.Share)
		}
	}
}

// TestQuantilesNeverCross on every hard shape, at every step, as the paths say them.
func TestQuantilesNeverCross(t *testing.T) {
	for shape, s := range hardSeries() {
		f := mustNew(t, nameAuto, s)
		e := f.Sample(10, blocksFor(s, 60, 10))
		for k := range 10 {
			last := math.Inf(-1)
			for p := 0.01; p < 1; p += 0.07 {
				q := e.Quantile(p, k)
				if !(q >= last) {
					t.Fatalf("%s, step %d: the %v quantile is %v, below %v", shape, k, p, q, last)
				}
				last = q
			}
		}
	}
}

// TestSkillDoesNotDependOnTheFrame: names are not known here; a factor of 1000 and five days of difference must not change
// what is forecast beyond noise.
func TestSkillDoesNotDependOnTheFrame(t *testing.T) {
	s := dailyDemand(9*1440, 2*time.Minute, nil, 71)
	peak := func(s Series) (float64, Skill) {
		a := NewAuto(Options{Horizon: 12})
		if err := a.Fit(s); err != nil {
			t.Fatal(err)
		}
		return a.Sample(12, blocksFor(s, 200, 12)).PeakQuantile(0.9, 0, 12), a.Skill()
	}
	want, skill := peak(s)
	for what, c := range map[string]struct {
		factor float64
		shift  time.Duration
	}{"a thousand times": {1000, 0}, "a thousandth": {0.001, 0}, "five days later": {1, 5 * day}} {
		m := s
		m.Start = s.Start.Add(c.shift)
		m.Values = make([]float64, s.Len())
		for i, v := range s.Values {
			m.Values[i] = c.factor * v
		}
		got, other := peak(m)
		if math.Abs(got/c.factor/want-1) > 0.05 {
			t.Errorf("%s: the p90 of the peak is %v, want %v", what, got/c.factor, want)
		}
		a, b := skill.Loss/skill.LastLoss, other.Loss/other.LastLoss
		if math.Abs(a/b-1) > 0.1 {
			t.Errorf("%s: loss against last value %.3f became %.3f", what, a, b)
		}
	}
}

// TestClippedPeakIsRecovered: for three days demand is served by too few replicas and the samples at the top are lower
// bounds. The forecast of the next day's peak must be that of the demand, within a tenth, not that of the replicas.
func TestClippedPeakIsRecovered(t *testing.T) {
	const step = 5 * time.Minute
	rng := testRand(81)
	n := 12 * 288
	s := Series{Start: monday, Step: step, Values: make([]float64, n), AtLeast: make([]bool, n)}
	top := 0.0
	for i := range s.Values {
		hour := float64(i%288) / 12
		v := (100 + 80*math.Sin((hour-9)/24*2*math.Pi)) * (1 + 0.01*rng.NormFloat64())
		top = max(top, v)
		if capacity := 140.0; i >= 8*288 && v > capacity {
			v, s.AtLeast[i] = capacity, true
		}
		s.Values[i] = v
	}
	// At 13:00 on the last day samples are clipped since 11:00, and the peak of 180 is to come at 15:00.
	end := 11*288 + 13*12
	a := NewAuto(Options{Horizon: 36})
	if err := a.Fit(s.slice(0, end)); err != nil {
		t.Fatal(err)
	}
	e := a.Sample(36, blocksFor(s.slice(0, end), 200, 36))
	if got := e.PeakQuantile(0.5, 0, 36); math.Abs(got/180-1) > 0.1 {
		t.Errorf("the median of the peak is %.4g, want 180: clipped at 140", got)
	}
}

// TestFitRecoversAClippedPeak is the same at a step of one minute, where a fit looks at few of the older steps: it must
// believe the shape of the day where it made no forecast.
func TestFitRecoversAClippedPeak(t *testing.T) {
	for _, clipped := range []int{3, 19} {
		rng := testRand(82)
		n := 21*1440 + 13*60
		s := Series{Start: monday, Step: time.Minute, Values: make([]float64, n), AtLeast: make([]bool, n)}
		for i := range s.Values {
			hour := float64(i%1440) / 60
			v := (100 + 80*math.Sin((hour-9)/24*2*math.Pi)) * (1 + 0.01*rng.NormFloat64())
			if i >= (21-clipped)*1440 && v > 130 {
				v, s.AtLeast[i] = 130, true
			}
			s.Values[i] = v
		}
		a := NewAuto(Options{Horizon: 150})
		if err := a.Fit(s); err != nil {
			t.Fatal(err)
		}
		e := a.Sample(150, blocksFor(s, 200, 150))
		if got := e.PeakQuantile(0.5, 0, 150); math.Abs(got/180-1) > 0.1 {
			t.Errorf("%d clipped days: the median of the peak is %.4g, want 180: clipped at 130", clipped, got)
		}
	}
}

// TestMemory is the promise of design §5: what a series keeps at a step of one minute, with horizon and history of the
// daemon.
func TestMemory(t *testing.T) {
	s := dailyDemand(28*1440, time.Minute, nil, 1)
	const models = 8
	kept := make([]*Auto, models)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range kept {
		kept[i] = NewAuto(Options{Horizon: 30})
		if err := kept[i].Fit(s); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / models
	t.Logf("%d KiB per series", each/1024)
	if each > 235<<10 {
		t.Errorf("%d KiB are kept per series, want at most 235", each/1024)
	}
	runtime.KeepAlive(kept)
}

// TestTwoWeeksAheadByTheHour: demand with a daily and a weekly shape grows by four percent a week; two weeks ahead the
// median must be near what comes, growth included, and the interval must hold it.
func TestTwoWeeksAheadByTheHour(t *testing.T) {
	rng := testRand(91)
	const weeks = 10
	s := Series{Start: monday, Step: time.Hour, Values: make([]float64, weeks*168)}
	for i := range s.Values {
		v := 200 + 90*math.Sin((float64(i%24)-9)/24*2*math.Pi)
		if i/24%7 >= 5 {
			v *= 0.5
		}
		s.Values[i] = v * math.Pow(1.04, float64(i)/168) * (1 + 0.04*rng.NormFloat64())
	}
	const horizon = 14 * 24
	now := (weeks - 2) * 168
	a := NewAuto(Options{Horizon: horizon})
	if err := a.Fit(s.slice(0, now)); err != nil {
		t.Fatal(err)
	}
	e := a.Sample(horizon, blocksFor(s.slice(0, now), 200, horizon))
	within, off, sum, median := 0.0, 0.0, 0.0, 0.0
	for k := range horizon {
		y, q := s.Values[now+k], e.Quantile(0.5, k)
		if y >= e.Quantile(0.05, k) && y <= e.Quantile(0.95, k) {
			within++
		}
		off += math.Abs(y - q)
		sum += y
		median += q
	}
	if off/sum > 0.08 || math.Abs(median/sum-1) > 0.05 {
		t.Errorf("the median is off by %.3f of demand, its mean by %.3f", off/sum, median/sum-1)
	}
	if c := within / horizon; c < 0.75 {
		t.Errorf("the 90 %% interval holds %.2f of the hours", c)
	}
}

// TestOutageIsNoSeason: demand vanished for two hours yesterday afternoon. Today at that time nothing of it must be left
// in the peak, and little in the median.
func TestOutageIsNoSeason(t *testing.T) {
	s := dailyDemand(9*1440+14*60, time.Minute, nil, 92)
	for i := 8*1440 + 14*60; i < 8*1440+16*60; i++ {
		s.Values[i] = 0
	}
	a := NewAuto(Options{Horizon: 30})
	if err := a.Fit(s); err != nil {
		t.Fatal(err)
	}
	e := a.Sample(30, blocksFor(s, 200, 30))
	if got := e.Quantile(0.5, 29); got < 100 {
		t.Errorf("the median at 14:30 is %.4g, want about 140: yesterday's outage is no season", got)
	}
	if got := e.PeakQuantile(0.9, 0, 30); got < 120 || got > 200 {
		t.Errorf("the p90 of the peak is %.4g, want about 150", got)
	}
}

// TestStopAndStart: a series that stops is forecast as stopped within the hour, and one that starts from nothing as there.
func TestStopAndStart(t *testing.T) {
	s := dailyDemand(3*1440, time.Minute, nil, 93)
	a := NewAuto(Options{Horizon: 10})
	if err := a.Fit(s); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		a.Update(0, false)
	}
	end := s
	end.Values = append(end.Values[:s.Len():s.Len()], make([]float64, 60)...)
	if got := a.Sample(10, blocksFor(end, 200, 10)).PeakQuantile(0.5, 0, 10); got > 10 {
		t.Errorf("an hour after the end the median of the peak is %.4g", got)
	}
	b := NewAuto(Options{Horizon: 10})
	zeros := minutes(make([]float64, 2000)...)
	if err := b.Fit(zeros); err != nil {
		t.Fatal(err)
	}
	rng := testRand(94)
	for range 60 {
		b.Update(500+10*rng.NormFloat64(), false)
	}
	zeros.Values = append(zeros.Values, make([]float64, 60)...)
	e := b.Sample(10, blocksFor(zeros, 200, 10))
	if got := e.PeakQuantile(0.5, 0, 10); got < 450 || got > 650 {
		t.Errorf("an hour after the start the median of the peak is %.4g, want about 510", got)
	}
}
