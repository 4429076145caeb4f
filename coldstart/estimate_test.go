package coldstart

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// equalWeights all but switches recency off (within an hour, weights differ by less than a millionth), so that expected
// values can be computed by hand.
var equalWeights = Options{HalfLifeStarts: math.Inf(1), HalfLife: 290 * 365 * 24 * time.Hour}

// sameCurve reports whether two estimates have the same steps, up to rounding and those millionths.
func sameCurve(a, b LeadTime) bool {
	return slices.Equal(a.Support, b.Support) && a.Tail == b.Tail &&
		slices.EqualFunc(a.CDF, b.CDF, func(x, y float64) bool { return math.Abs(x-y) < 1e-6 })
}

func requireValid(t interface{ Fatalf(string, ...any) }, lt LeadTime) {
	if err := lt.Validate(); err != nil {
		t.Fatalf("invalid estimate %+v: %v", lt, err)
	}
}

// TestTenMinutesPending is the worked example of Estimate's comment.
func TestTenMinutesPending(t *testing.T) {
	now := t0.Add(time.Hour)
	five := served(chat, 150, 160, 170, 180, 190)
	before := newLedger(t, equalWeights, five...).Estimate(chat, now)
	if before.Basis != Measured || before.From != chat || before.Samples != 5 || before.Borrowed != 0 || before.Path != WarmNode {
		t.Errorf("labels %+v", before)
	}
	old := newLedger(t, equalWeights, append(five, start("slow", chat, 50, Pending, 600))...).Estimate(chat, now)
	requireValid(t, old)
	if old.Samples != 6 || old.Censored != 1 {
		t.Errorf("%d samples, %d censored: want 6 and 1", old.Samples, old.Censored)
	}
	tail := 600 / math.Log(6)
	for p, want := range map[float64][2]float64{
		.45: {170, 170}, // the third of 5, the third of 6
		.90: {190, 600 + tail*math.Log(1./6/.1)},
		.95: {190, 600 + tail*math.Log(1./6/.05)},
	} {
		if before.Quantile(p) != seconds(want[0])[0] || math.Abs(old.Quantile(p).Seconds()-want[1]) > .01 {
			t.Errorf("p%v: %v, with a pod at 10 min %v: want %v", 100*p, before.Quantile(p), old.Quantile(p), want)
		}
	}
	if math.Abs(old.Quantile(.9).Seconds()-771) > .5 {
		t.Errorf("p90 %v: the comment says 771 s", old.Quantile(.9))
	}
	young := newLedger(t, Options{}, append(five, start("young", chat, 2, Pending, 5))...).Estimate(chat, now)
	without := newLedger(t, Options{}, five...).Estimate(chat, now)
	if !reflect.DeepEqual(young.Support, without.Support) || !reflect.DeepEqual(young.CDF, without.CDF) || young.Tail != without.Tail {
		t.Errorf("a pod of age 5 s changes the estimate:\n%+v\n%+v", young, without)
	}
}

// TestSourcesInOrder walks the documented fall-back order by taking the nearest source away each time.
func TestSourcesInOrder(t *testing.T) {
	five := func(k Key) []Sample { return served(k, 100, 110, 120, 130, 140) }
	sources := []struct {
		key, from Key
		basis     Basis
	}{
		{chat, chat, Measured},
		{Key{Model: "chat", Shape: "8x1/H100", Path: WarmNode}, Key{Model: "chat", Path: WarmNode}, Pooled},
		{Key{Model: "other", Shape: "4x1/H200", Path: WarmNode}, Key{Shape: "4x1/H200", Path: WarmNode}, Pooled},
		{Key{Model: "other", Shape: "1x1/L4", Path: WarmNode}, Key{Path: WarmNode}, Pooled},
	}
	statedKeys := []Key{
		chat, {Model: "chat", Path: WarmNode}, {Shape: "4x1/H200", Path: WarmNode}, {Path: WarmNode},
		{Model: "chat", Shape: "4x1/H200"}, {Model: "chat"}, {Shape: "4x1/H200"}, {},
	}
	for i := 0; i <= len(sources)+len(statedKeys); i++ {
		l := newLedger(t, Options{}, five(Key{Model: "chat", Shape: "4x1/H200", Path: ColdNode})...) // never used
		wantBasis, wantFrom := Basis(""), Key{}
		for j, s := range sources {
			if j < i {
				continue
			}
			for _, sample := range five(s.key) {
				if err := l.Add(sample); err != nil {
					t.Fatal(err)
				}
			}
		}
		for j, k := range statedKeys {
			if j+len(sources) < i {
				continue
			}
			lt, err := StatedDuration(k.Path, time.Minute, 1.5)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.SetStated(k, lt); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case i < len(sources):
			wantBasis, wantFrom = sources[i].basis, sources[i].from
		case i < len(sources)+len(statedKeys):
			wantBasis, wantFrom = Stated, statedKeys[i-len(sources)]
		}
		lt := l.Estimate(chat, t0)
		requireValid(t, lt)
		if lt.Basis != wantBasis || lt.From != wantFrom || lt.Known() != (wantBasis != "") || lt.Path != WarmNode || lt.Borrowed != 0 {
			t.Errorf("without the first %d sources: basis %q from %v, want %q from %v", i, lt.Basis, lt.From, wantBasis, wantFrom)
		}
	}
}

// TestPoolIsShared: a model with many starts lends no more of them than the newest 32.
func TestPoolIsShared(t *testing.T) {
	l := newLedger(t, Options{}, served(Key{Model: "quiet", Shape: "4x1/H200", Path: WarmNode}, 500, 500, 500, 500)...)
	for i := range 150 {
		if err := l.Add(start(fmt.Sprint("busy", i), Key{Model: "busy", Shape: "4x1/H200", Path: WarmNode}, -i, Served, 100)); err != nil {
			t.Fatal(err)
		}
	}
	lt := l.Estimate(chat, t0)
	if lt.Samples != 36 || lt.Quantile(.95) != 500*time.Second {
		t.Errorf("%d samples, p95 %v: want 32 + 4 and the quiet model's 500s", lt.Samples, lt.Quantile(.95))
	}
}

// TestEmptyFieldsPool: a key with an empty field pools over it, and is Measured only if that is what was recorded.
func TestEmptyFieldsPool(t *testing.T) {
	noShape := Key{Model: "chat", Path: WarmNode}
	l := newLedger(t, Options{}, served(chat, 1, 2, 3, 4, 5)...)
	if lt := l.Estimate(noShape, t0); lt.Basis != Pooled || lt.From != noShape || lt.Samples != 5 {
		t.Errorf("%+v: want pooled over shapes", lt)
	}
	l = newLedger(t, Options{}, served(noShape, 1, 2, 3, 4, 5)...)
	if lt := l.Estimate(noShape, t0); lt.Basis != Measured {
		t.Errorf("%+v: want measured", lt)
	}
}

// TestThinEstimates: one to four served starts are topped up to five, openly; from five on nothing is borrowed.
func TestThinEstimates(t *testing.T) {
	sibling := Key{Model: "chat", Shape: "8x1/H100", Path: WarmNode}
	stated, err := StatedDuration(WarmNode, 10*time.Minute, 1.5)
	if err != nil {
		t.Fatal(err)
	}
	own := []float64{100, 100, 100, 100, 100, 100}
	for n := 1; n <= 6; n++ {
		for _, lender := range []Basis{Pooled, Stated, Assumed} {
			l := newLedger(t, equalWeights, served(chat, own[:n]...)...)
			from := Key{}
			switch lender {
			case Pooled:
				from = Key{Model: "chat", Path: WarmNode}
				for _, s := range served(sibling, 600, 600, 600, 600, 600) {
					if err := l.Add(s); err != nil {
						t.Fatal(err)
					}
				}
			case Stated:
				if err := l.SetStated(from, stated); err != nil {
					t.Fatal(err)
				}
			}
			lt := l.Estimate(chat, t0)
			requireValid(t, lt)
			if lt.Basis != Measured || lt.From != chat || lt.Samples != n {
				t.Errorf("n=%d, %s: labels %+v", n, lender, lt)
			}
			want := max(0, float64(5-n)/5)
			if n >= 5 {
				lender, from = "", Key{}
			}
			if math.Abs(lt.Borrowed-want) > 1e-9 || lt.BorrowedBasis != lender || lt.BorrowedFrom != from {
				t.Errorf("n=%d: borrowed %v %q from %v, want %v %q from %v",
					n, lt.Borrowed, lt.BorrowedBasis, lt.BorrowedFrom, want, lender, from)
			}
			if n < 5 && lt.Quantile(.95) <= 100*time.Second {
				t.Errorf("n=%d, %q: p95 %v is false certainty", n, lender, lt.Quantile(.95))
			}
			if n >= 5 && lt.Quantile(.95) != 100*time.Second {
				t.Errorf("n=%d: p95 %v is not the samples' own", n, lt.Quantile(.95))
			}
		}
	}
}

// TestOwnPendingOnBorrowedEstimate: a pod of this key at ten minutes counts at full weight although none served yet.
func TestOwnPendingOnBorrowedEstimate(t *testing.T) {
	sibling := Key{Model: "chat", Shape: "8x1/H100", Path: WarmNode}
	l := newLedger(t, equalWeights, served(sibling, 150, 160, 170, 180, 190)...)
	before := l.Estimate(chat, t0)
	if err := l.Add(start("young", chat, 0, Pending, 5)); err != nil {
		t.Fatal(err)
	}
	young := l.Estimate(chat, t0)
	if err := l.Add(start("young", chat, 0, Pending, 600)); err != nil {
		t.Fatal(err)
	}
	old := l.Estimate(chat, t0)
	requireValid(t, old)
	if young.Quantile(.9) != before.Quantile(.9) || young.Quantile(.5) != before.Quantile(.5) {
		t.Errorf("a pod of age 5 s moves p50 or p90 to %v, %v", young.Quantile(.5), young.Quantile(.9))
	}
	if want := 771 * time.Second; (old.Quantile(.9) - want).Abs() > time.Second { // 5 borrowed + 1 own, as in the worked example
		t.Errorf("p90 %v, want about %v", old.Quantile(.9), want)
	}
	if old.Basis != Pooled || old.From != (Key{Model: "chat", Path: WarmNode}) || old.Samples != 6 || old.Censored != 1 {
		t.Errorf("labels %+v", old)
	}
	// Pending starts alone, with nobody to borrow from, know nothing.
	alone := newLedger(t, Options{}, start("only", chat, 0, Pending, 600), start("dead", chat, 1, Failed, 9)).Estimate(chat, t0)
	requireValid(t, alone)
	if alone.Known() || alone.Samples != 2 || alone.FailureProb < .3 {
		t.Errorf("%+v: want unknown, with two samples and the failure counted", alone)
	}
}

func TestFailures(t *testing.T) {
	now := t0
	add := func(nServed, nFailed int) LeadTime {
		l := newLedger(t, equalWeights)
		for i := range nServed + nFailed {
			o := Served
			if i >= nServed {
				o = Failed
			}
			if err := l.Add(start(fmt.Sprint(i), chat, i, o, 100+9000*float64(i/nServed))); err != nil {
				t.Fatal(err)
			}
		}
		return l.Estimate(chat, now)
	}
	for _, tc := range []struct {
		served, failed int
		want           float64
	}{{10, 0, .04 / 12}, {10, 10, 10.04 / 22}, {1, 1, 1.04 / 4}, {1, 30, 30.04 / 33}} {
		lt := add(tc.served, tc.failed)
		requireValid(t, lt)
		if math.Abs(lt.FailureProb-tc.want) > 1e-9 {
			t.Errorf("%d served, %d failed: %v, want %v", tc.served, tc.failed, lt.FailureProb, tc.want)
		}
		if none := add(tc.served, 0); !sameCurve(none, lt) {
			t.Errorf("%d failed starts move the distribution: %v %v, without %v %v", tc.failed, lt.Support, lt.CDF, none.Support, none.CDF)
		}
	}
	one := newLedger(t, Options{}, start("f", chat, 0, Failed, 30)).Estimate(chat, now)
	if math.Abs(one.FailureProb-1.04/3) > 1e-9 || one.Known() {
		t.Errorf("one failure of one start: %+v", one)
	}
}

// TestRecency: what starts cost now outweighs what they cost before.
func TestRecency(t *testing.T) {
	var byCount, byAge []Sample
	for i := range 160 {
		s := start(fmt.Sprint(i), chat, i, Served, 100)
		if i >= 96 { // the registry became slow 64 starts ago: two half-lives, so the old weigh less than a quarter
			s.Total = 300 * time.Second
		}
		byCount = append(byCount, s)
	}
	for i := range 20 { // half of them today, half 60 days ago: two half-lives again
		s := start(fmt.Sprint(i), chat, i, Served, 300)
		if i%2 == 0 {
			s.Started, s.Total = s.Started.AddDate(0, 0, -60), 100*time.Second
		}
		byAge = append(byAge, s)
	}
	for name, samples := range map[string][]Sample{"count": byCount, "age": byAge} {
		now := t0.Add(3 * time.Hour)
		lt, flat := newLedger(t, Options{}, samples...).Estimate(chat, now), newLedger(t, equalWeights, samples...).Estimate(chat, now)
		if lt.Quantile(.25) != 300*time.Second || flat.Quantile(.25) != 100*time.Second {
			t.Errorf("%s: p25 %v with recency, %v without: want 300s and 100s", name, lt.Quantile(.25), flat.Quantile(.25))
		}
	}
	// Time alone takes nothing away from what stands alone.
	l := newLedger(t, Options{}, byCount...)
	a, b := l.Estimate(chat, t0.AddDate(0, 0, 1)), l.Estimate(chat, t0.AddDate(0, 3, 0))
	for _, p := range []float64{.1, .5, .9} {
		if a.Quantile(p) != b.Quantile(p) {
			t.Errorf("p%v: %v after a day, %v after three months without a start", 100*p, a.Quantile(p), b.Quantile(p))
		}
	}
}

// genSamples draws a ledger's worth of samples of chat and its relatives.
func genSamples(t *rapid.T, most int) []Sample {
	keys := []Key{chat, {Model: "chat", Shape: "8x1/H100", Path: WarmNode}, {Model: "other", Shape: "4x1/H200", Path: WarmNode}, {Model: "other", Shape: "1x1/L4", Path: WarmNode}}
	var out []Sample
	for i := range rapid.IntRange(0, most).Draw(t, "n") {
		s := start(fmt.Sprint("s", i), rapid.SampledFrom(keys).Draw(t, "key"), rapid.IntRange(0, 50_000).Draw(t, "at"),
			rapid.SampledFrom([]Outcome{Served, Served, Served, Pending, Failed}).Draw(t, "outcome"),
			float64(rapid.IntRange(1, 900).Draw(t, "seconds")))
		out = append(out, s)
	}
	return out
}

func genLedger(t *rapid.T) *Ledger {
	l, err := NewLedger(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range genSamples(t, 30) {
		if err := l.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	if rapid.Bool().Draw(t, "stated") {
		lt, err := StatedDuration(WarmNode, 5*time.Minute, 1.3)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetStated(Key{Path: WarmNode}, lt); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

var probs = []float64{.01, .1, .25, .5, .75, .8, .9, .95, .975, .99, .999}

// TestCensoredNeverLowers: whatever a ledger holds, a start of the key pending for longer than every sample of the ledger
// never lowers a quantile, and never a remaining time; a further one again does not.
func TestCensoredNeverLowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLedger(t)
		now := t0.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "now")) * time.Minute)
		before := l.Estimate(chat, now)
		longest := 901
		for i := range rapid.IntRange(1, 3).Draw(t, "pods") {
			longest += rapid.IntRange(0, 5000).Draw(t, "longer")
			s := start(fmt.Sprint("pending", i), chat, rapid.IntRange(0, 50_000).Draw(t, "at"), Pending, float64(longest))
			if err := l.Add(s); err != nil {
				t.Fatal(err)
			}
			after := l.Estimate(chat, now)
			requireValid(t, after)
			if after.Known() != before.Known() {
				t.Fatalf("known: %v, before %v", after.Known(), before.Known())
			}
			if !before.Known() {
				return
			}
			for _, p := range probs {
				if after.Quantile(p) < before.Quantile(p)-time.Microsecond {
					t.Fatalf("p%v falls from %v to %v\n%+v\n%+v", 100*p, before.Quantile(p), after.Quantile(p), before, after)
				}
			}
			before = after
		}
	})
}

// TestEstimateProperties: the estimate is valid, the same whatever the order of Adds, survives the JSON of ledger and
// LeadTime, and a pod younger than everything seen does not move it.
func TestEstimateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLedger(t)
		now := t0.AddDate(0, 0, 40)
		want := l.Estimate(chat, now)
		requireValid(t, want)

		shuffled, err := NewLedger(Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range rapid.Permutation(l.Samples()).Draw(t, "order") {
			if err := shuffled.Add(s); err != nil {
				t.Fatal(err)
			}
		}
		for k, lt := range l.stated {
			if err := shuffled.SetStated(k, lt); err != nil {
				t.Fatal(err)
			}
		}
		if got := shuffled.Estimate(chat, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("another order of Adds:\n%+v\n%+v", got, want)
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var back Ledger
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if got := back.Estimate(chat, now); !reflect.DeepEqual(got, want) {
			t.Fatalf("after JSON:\n%+v\n%+v", got, want)
		}
		if err := l.Add(start("young", chat, rapid.IntRange(0, 50_000).Draw(t, "young"), Pending, .5)); err != nil {
			t.Fatal(err)
		}
		young := l.Estimate(chat, now)
		for _, p := range probs {
			if want.Known() && (young.Quantile(p)-want.Quantile(p)).Abs() > time.Microsecond {
				t.Fatalf("p%v: %v with a pod of 0.5 s, %v without", 100*p, young.Quantile(p), want.Quantile(p))
			}
		}
	})
}

// TestEstimateCoverage: on seeded log-normal starts the p90 of 60 earlier starts covers about 90 % of the next ones, and
// still does when a third of the earlier ones were censored at a random age.
func TestEstimateCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	lead := func() float64 { return 200 * math.Exp(.35*rng.NormFloat64()) }
	for _, censor := range []float64{0, .33} {
		covered := 0
		const rounds = 600
		for r := range rounds {
			l := newLedger(t, Options{})
			for i := range 60 {
				s := start(fmt.Sprint(i), chat, i, Served, lead())
				if rng.Float64() < censor {
					s.Outcome, s.Total = Pending, time.Duration(rng.Float64()*float64(s.Total))
				}
				if err := l.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			if seconds(lead())[0] <= l.Estimate(chat, t0.Add(time.Duration(r)*time.Hour)).Quantile(.9) {
				covered++
			}
		}
		// Three binomial standard deviations at 600 rounds are 3.7 points; the estimate of 60 starts itself is low by 1.
		if got := float64(covered) / rounds; got < .85 || got > .94 {
			t.Errorf("censored share %v: p90 covers %.3f of the next starts, want about 0.9", censor, got)
		}
	}
}

func BenchmarkEstimate(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	l := newLedger(b, Options{})
	for m := range 100 {
		for i := range 200 {
			k := Key{Model: fmt.Sprint("m", m), Shape: "4x1/H200", Path: WarmNode}
			if err := l.Add(start(fmt.Sprint(m, "/", i), k, i, Served, 60+300*rng.Float64())); err != nil {
				b.Fatal(err)
			}
		}
	}
	now := t0.Add(24 * time.Hour)
	for name, key := range map[string]Key{
		"own-200-samples":      {Model: "m7", Shape: "4x1/H200", Path: WarmNode},
		"pool-of-100-keys":     {Model: "new", Shape: "4x1/H200", Path: WarmNode},
		"unknown-of-100-keys":  {Model: "m7", Shape: "4x1/H200", Path: ColdNode},
		"own-shape-unrecorded": {Model: "m7", Shape: "", Path: WarmNode},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Estimate(key, now)
			}
		})
	}
}
