package coldstart

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// A truth is a distribution of starts, by inversion.
type truth struct {
	name  string
	draw  func(u float64) float64 // seconds
	limit float64                 // of the mean relative error of p90 with 20 samples
}

// truths are what starts look like: the spreads of DefaultSpread, a sum of exponential stages, a Weibull whose tail is
// lighter than a log-normal's, and a registry that is slow for one start in five (where p90 lies in the middle of the
// slow ones, of which 20 starts hold four: no estimator can know it as well).
func truths() []truth {
	lognormal := func(spread float64) func(float64) float64 {
		sigma := math.Log(spread) / distuv.UnitNormal.Quantile(.95)
		return func(u float64) float64 { return 180 * math.Exp(sigma*distuv.UnitNormal.Quantile(u)) }
	}
	return []truth{
		{"log-normal, p95/p50 1.24", lognormal(1.24), 0.10},
		{"log-normal, p95/p50 1.63", lognormal(1.63), 0.10},
		{"gamma of 16 stages", func(u float64) float64 { return distuv.Gamma{Alpha: 16, Beta: 16. / 180}.Quantile(u) }, 0.10},
		{"weibull, shape 4", func(u float64) float64 { return 180 * math.Pow(-math.Log1p(-u), .25) }, 0.10},
		{"slow registry, 1 in 5", func(u float64) float64 {
			if u < .8 {
				return lognormal(1.1)(u / .8)
			}
			return 2 * lognormal(1.1)((u-.8)/.2)
		}, 0.16},
	}
}

// wrongPrior is a ledger in which somebody stated three times the median, with false confidence.
func wrongPrior(t testing.TB) *Ledger {
	l := newLedger(t, Options{})
	lt, err := StatedDuration(WarmNode, 9*time.Minute, 1.1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetStated(Key{Path: WarmNode}, lt); err != nil {
		t.Fatal(err)
	}
	return l
}

// p90Errors repeats an experiment: n starts into a ledger with a wrong prior; the relative errors of p90, ascending by
// their size, and their mean with its sign. Everything is seeded.
func p90Errors(t testing.TB, of truth, n, repeats int, censor bool) (sizes []float64, mean, bias float64) {
	rng := rand.New(rand.NewPCG(5, uint64(n)))
	for range repeats {
		l := wrongPrior(t)
		for i := range n {
			s := start(fmt.Sprint(i), chat, i, Served, of.draw(rng.Float64()))
			// A third of the starts is seen at a random moment before it ends, and no more: deleted, or the watch broke.
			if limit := time.Duration(rng.Float64() * float64(9*time.Minute)); censor && limit < s.Total {
				s.Total, s.Outcome = limit, Pending
			}
			if err := l.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		e := l.Estimate(chat, t0.Add(time.Hour)).Quantile(.9).Seconds()/of.draw(.9) - 1
		sizes = append(sizes, math.Abs(e))
		mean, bias = mean+math.Abs(e)/float64(repeats), bias+e/float64(repeats)
	}
	slices.Sort(sizes)
	return sizes, mean, bias
}

// TestKnownDistributions: with 20 starts and a prior that is three times too long, p90 misses by less than 10 % on
// average, and hardly on one side. What a single experiment may miss by is logged: it is the nature of 20 samples.
func TestKnownDistributions(t *testing.T) {
	for _, of := range truths() {
		for _, n := range []int{5, 20, 80} {
			sizes, mean, bias := p90Errors(t, of, n, 400, false)
			t.Logf("%-26s n=%2d: error of p90 mean %4.1f %%, median %4.1f %%, in 9 of 10 below %4.1f %%, bias %+.1f %%", of.name, n,
				100*mean, 100*sizes[len(sizes)/2], 100*sizes[len(sizes)*9/10], 100*bias)
			if n == 20 && (mean > of.limit || math.Abs(bias) > of.limit/2) {
				t.Errorf("%s: mean error %.3f, bias %+.3f: want at most %v and %v", of.name, mean, bias, of.limit, of.limit/2)
			}
		}
	}
}

// TestCensoredUnbiased: with a third of the starts cut off at random, p90 and the median are as unbiased as without; one
// that took cut-off starts for served ones is not.
func TestCensoredUnbiased(t *testing.T) {
	for _, of := range truths()[:4] {
		_, _, bias := p90Errors(t, of, 80, 200, true)
		t.Logf("%-26s with a third censored: bias of p90 %+.1f %%", of.name, 100*bias)
		if math.Abs(bias) > 0.03 {
			t.Errorf("%s: bias of p90 %+.3f with censored starts: want within 3 %%", of.name, bias)
		}
		rng := rand.New(rand.NewPCG(6, 6))
		censored, naive := newLedger(t, Options{SamplesMax: 5000, HalfLifeStarts: 1e9}), newLedger(t, Options{SamplesMax: 5000, HalfLifeStarts: 1e9})
		for i := range 4000 {
			s := start(fmt.Sprint(i), chat, 0, Served, of.draw(rng.Float64()))
			if limit := time.Duration(rng.Float64() * float64(9*time.Minute)); limit < s.Total {
				s.Total, s.Outcome = limit, Pending
			}
			if err := censored.Add(s); err != nil {
				t.Fatal(err)
			}
			s.Outcome = Served
			if err := naive.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []float64{.5, .9} {
			right := censored.Estimate(chat, t0.Add(time.Hour)).Quantile(p).Seconds()/of.draw(p) - 1
			wrong := naive.Estimate(chat, t0.Add(time.Hour)).Quantile(p).Seconds()/of.draw(p) - 1
			if math.Abs(right) > .02 {
				t.Errorf("%s: p%v off by %+.3f of 4000 starts", of.name, 100*p, right)
			}
			if p == .5 && wrong > -.05 {
				t.Errorf("%s: the naive median is off by %+.3f only: the test does not censor enough to show anything", of.name, wrong)
			}
		}
	}
}

// shiftTo runs 40 starts of one level and 20 of another, and returns p90 after the third and the last of the latter.
func shiftTo(t *testing.T, of truth, factor float64, seed uint64) (third, last time.Duration) {
	rng := rand.New(rand.NewPCG(7, seed))
	l := newLedger(t, Options{})
	for i := range 60 {
		x := of.draw(rng.Float64())
		if i >= 40 {
			x *= factor
		}
		if err := l.Add(start(fmt.Sprint(i), chat, i, Served, x)); err != nil {
			t.Fatal(err)
		}
		if i == 42 {
			third = l.Estimate(chat, t0.Add(time.Hour)).Quantile(.9)
		}
	}
	return third, l.Estimate(chat, t0.Add(time.Hour)).Quantile(.9)
}

// TestShift: a registry that makes starts twice as long widens the quantile after three of them, a cure that makes them
// half as long is believed after a dozen; both converge to the new p90. In between the plan errs on the slow side.
func TestShift(t *testing.T) {
	const repeats = 100
	for _, of := range truths()[:4] {
		truth := of.draw(.9)
		widened, early, up, down := 0, 0, 0.0, 0.0
		for seed := range uint64(repeats) {
			third, last := shiftTo(t, of, 2, seed)
			if third.Seconds() > 1.25*truth {
				widened++
			}
			up += math.Abs(last.Seconds()/(2*truth)-1) / repeats
			third, last = shiftTo(t, of, .5, seed)
			if third.Seconds() < .75*truth {
				early++
			}
			down += math.Abs(last.Seconds()/(.5*truth)-1) / repeats
		}
		t.Logf("%-26s widened after 3 slow starts in %d %%, narrowed after 3 fast ones in %d %%; after 20, error of p90 %4.1f %% (twice as long), %4.1f %% (half)",
			of.name, widened, early, 100*up, 100*down)
		if widened < 85 || early > 0 || up > .13 || down > .13 {
			t.Errorf("%s: widened in %d of 100, narrowed in %d, error %.3f and %.3f after 20 starts: want 85, 0, .13, .13",
				of.name, widened, early, up, down)
		}
	}
}

// TestNoShift: what one level of starts looks like is seldom taken for a change, and a single slow start never.
func TestNoShift(t *testing.T) {
	for _, of := range truths()[:4] {
		rng := rand.New(rand.NewPCG(8, 8))
		alarms, up := 0, 0
		const starts = 2000
		var newest []Sample
		for i := range starts {
			newest = append([]Sample{start(fmt.Sprint(i), chat, i, Served, of.draw(rng.Float64()))}, newest...)
			newest = newest[:min(len(newest), 80)]
			if s := shiftOf(newest); s.Starts > 0 {
				alarms++
				if s.Factor > 1 {
					up++
				}
			}
		}
		t.Logf("%-26s shift seen in %.1f %% of the estimates (up %.1f %%) though there was none", of.name, 100*float64(alarms)/starts, 100*float64(up)/starts)
		if alarms > starts*5/100 || alarms-up > starts/100 {
			t.Errorf("%s: %d false alarms in %d, %d of them down", of.name, alarms, starts, alarms-up)
		}
	}
	l := newLedger(t, Options{}, served(chat, 100, 102, 101, 99, 100, 100, 101, 400, 100)...)
	if lt := l.Estimate(chat, t0.Add(time.Hour)); lt.Shift.Starts != 0 {
		t.Errorf("one slow start is a shift: %+v", lt.Shift)
	}
}

// TestShiftOfAPool: in a pool of a slow and a fast model it is no change that the slow one started last, but it is one that
// both take twice as long.
func TestShiftOfAPool(t *testing.T) {
	pool := func(last ...float64) []Sample {
		rng := rand.New(rand.NewPCG(4, 4))
		var newestFirst []Sample
		add := func(slow bool, seconds float64) {
			key := Key{Model: "fast", Path: WarmNode}
			if slow {
				key.Model = "slow"
			}
			i := len(newestFirst)
			newestFirst = append([]Sample{start(fmt.Sprint(i), key, i, Served, seconds*(.95+.1*rng.Float64()))}, newestFirst...)
		}
		for range 12 {
			add(true, 600)
			add(false, 60)
		}
		for _, seconds := range last {
			add(seconds > 300, seconds)
		}
		return newestFirst
	}
	if s := shiftOf(pool(slices.Repeat([]float64{600}, 10)...)); s.Starts != 0 {
		t.Errorf("the slow model started last: %+v", s)
	}
	if s := shiftOf(pool(1200, 120, 1200, 120)); s.Starts != 4 || s.Factor < 1.6 || s.Factor > 2.2 {
		t.Errorf("both take twice as long: %+v", s)
	}
}

// TestParents walks the sources of a key that says everything, nearest first, and the prior of the last.
func TestParents(t *testing.T) {
	key := Key{Model: "chat", Shape: "4x1/H200", Path: WarmNode, Engine: "vllm 0.11.0", Image: Cached, Weights: NotCached, Compile: Cached}
	with := func(change func(*Key)) Key { k := key; change(&k); return k }
	steps := []struct {
		key, from Key
		basis     Basis
	}{
		{key, key, Measured},
		{with(func(k *Key) { k.Compile = NotCached }), with(func(k *Key) { k.Compile = "" }), Pooled},
		{with(func(k *Key) { k.Image = NotCached }), with(func(k *Key) { k.Image, k.Weights, k.Compile = "", "", "" }), Pooled},
		{with(func(k *Key) { k.Engine = "vllm 0.9.1" }), key.coarse(), Pooled},
		{with(func(k *Key) { k.Shape = "8x1/H100" }), Key{Model: "chat", Path: WarmNode}, Pooled},
		{Key{Model: "sibling", Shape: "2x1/B200", Path: WarmNode}, Key{Path: WarmNode, Size: "128-256GiB"}, Pooled},
		{Key{Model: "small", Shape: "4x1/H200", Path: WarmNode}, Key{Shape: "4x1/H200", Path: WarmNode}, Pooled},
		{Key{Model: "small", Shape: "1x1/L4", Path: WarmNode}, Key{Path: WarmNode}, Pooled},
	}
	for i := 0; i <= len(steps); i++ {
		l := newLedger(t, Options{})
		for model, bytes := range map[string]int64{"chat": 140e9, "sibling": 180e9, "small": 16e9} {
			if err := l.SetWeights(model, bytes); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range steps[i:] {
			for _, x := range served(s.key, 100, 110, 120, 130, 140) {
				if err := l.Add(x); err != nil {
					t.Fatal(err)
				}
			}
		}
		lt := l.Estimate(key, t0.Add(time.Hour))
		requireValid(t, lt)
		want := struct {
			from  Key
			basis Basis
		}{Key{}, Prior}
		if i < len(steps) {
			want.from, want.basis = steps[i].from, steps[i].basis
		}
		if lt.From != want.from || lt.Basis != want.basis {
			t.Errorf("without the first %d: %s from %v, want %s from %v", i, lt.Basis, lt.From, want.basis, want.from)
		}
		if i == len(steps) && math.Abs(lt.Quantile(.5).Seconds()-(200+160+140/.75)) > 1 {
			t.Errorf("the prior's median is %v", lt.Quantile(.5))
		}
	}
}

// TestPrior: more weights never start faster, nor does a path that has to do more; what cannot be is refused.
func TestPrior(t *testing.T) {
	previous := map[Path]time.Duration{}
	for _, bytes := range []int64{1, 16e9, 140e9, 800e9, weightsMax} {
		slowest := time.Duration(math.MaxInt64)
		for _, p := range Paths() {
			lt := PriorByWeights(p, bytes)
			requireValid(t, lt)
			m := lt.Quantile(.5)
			if m > slowest || m < previous[p] {
				t.Errorf("%s with %d bytes: %v after %v", p, bytes, m, slowest)
			}
			slowest, previous[p] = m, m
		}
	}
	l := newLedger(t, Options{})
	for model, bytes := range map[string]int64{"": 1, "a": 0, "b": -1, "c": weightsMax + 1} {
		if l.SetWeights(model, bytes) == nil {
			t.Errorf("weights of %q: %d bytes are accepted", model, bytes)
		}
	}
	if got := l.sizeOf("nobody"); got != "" {
		t.Errorf("an unknown model has size %q", got)
	}
	for bytes, want := range map[int64]string{1: "0-1GiB", 1 << 30: "1-2GiB", 140e9: "128-256GiB"} {
		if err := l.SetWeights("m", bytes); err != nil || l.sizeOf("m") != want {
			t.Errorf("%d bytes: %q, want %q (%v)", bytes, l.sizeOf("m"), want, err)
		}
	}
}

// TestFailedAfter: how long a failed start takes is the mean of those that failed.
func TestFailedAfter(t *testing.T) {
	l := newLedger(t, equalWeights, served(chat, 100, 100, 100, 100, 100, 100)...)
	if lt := l.Estimate(chat, t0); lt.FailedAfter != 0 {
		t.Errorf("failed after %v though none failed", lt.FailedAfter)
	}
	for i, x := range []float64{300, 500} {
		if err := l.Add(start(fmt.Sprint("f", i), chat, i, Failed, x)); err != nil {
			t.Fatal(err)
		}
	}
	lt := l.Estimate(chat, t0.Add(time.Hour))
	requireValid(t, lt)
	if math.Abs(lt.FailedAfter.Seconds()-400) > 1 || math.Abs(lt.FailureProb-(2+2*PriorFailureProb)/10) > 1e-3 {
		t.Errorf("failed after %v with probability %v", lt.FailedAfter, lt.FailureProb)
	}
}
