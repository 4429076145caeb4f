package coldstart

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func seconds(s ...float64) []time.Duration {
	var out []time.Duration
	for _, x := range s {
		out = append(out, time.Duration(x*float64(time.Second)))
	}
	return out
}

// withTail: four served starts and one pending at 10 minutes; tail mean 600/ln 5.
func withTail() LeadTime {
	return LeadTime{
		Path: WarmNode, Basis: Measured, From: Key{Model: "m", Path: WarmNode}, Samples: 5, Censored: 1,
		Support: seconds(100, 120, 140, 200, 600), CDF: []float64{.2, .4, .6, .8, .8}, Tail: seconds(600 / math.Log(5))[0],
	}
}

func noTail() LeadTime {
	return LeadTime{
		Path: WarmNode, Basis: Measured, From: Key{Model: "m", Path: WarmNode}, Samples: 4,
		Support: seconds(100, 120, 140, 200), CDF: []float64{.25, .5, .75, 1},
	}
}

func near(got, want time.Duration) bool { return (got - want).Abs() <= time.Microsecond }

func TestQuantileAndRemaining(t *testing.T) {
	tail := 600 / math.Log(5)
	overdue := 300 / math.Log(5) // n = 4, age 300 s: mean age/ln(n+1)
	tests := []struct {
		name string
		lt   LeadTime
		age  float64
		p    float64
		want float64
	}{
		{"first step", withTail(), 0, .1, 100},
		{"exactly on a step", withTail(), 0, .4, 120},
		{"just above a step", withTail(), 0, .41, 140},
		{"last step", withTail(), 0, .8, 200},
		{"tail", withTail(), 0, .9, 600 + tail*math.Log(2)},
		{"median of those past the first step", withTail(), 100, .5, 40}, // .2 + .5·.8 = .6
		{"between steps", withTail(), 110, .25, 10},                      // .2 + .25·.8 = .4
		{"conditional tail", withTail(), 150, .75, 450 + tail*math.Log(2)},
		{"only the tail is left", withTail(), 200, .5, 400 + tail*math.Log(2)},
		{"at the end of the support", withTail(), 600, .5, tail * math.Log(2)},
		{"memoryless beyond it", withTail(), 6000, .5, tail * math.Log(2)},
		{"without a tail", noTail(), 0, .999, 200},
		{"overdue without a tail", noTail(), 300, .5, overdue * math.Log(2)},
		{"overdue grows with age", noTail(), 3000, .5, 10 * overdue * math.Log(2)},
	}
	for _, tc := range tests {
		if got, want := tc.lt.Remaining(seconds(tc.age)[0], tc.p), seconds(tc.want)[0]; !near(got, want) {
			t.Errorf("%s: Remaining(%vs, %v) = %v, want %v", tc.name, tc.age, tc.p, got, want)
		}
	}
}

func TestScaled(t *testing.T) {
	for _, lt := range []LeadTime{withTail(), noTail()} {
		for _, by := range []float64{1e-12, 0.25, 1, 3} {
			got := lt.Scaled(by)
			if err := got.Validate(); err != nil {
				t.Errorf("scaled by %v: %v", by, err)
			}
			if p := 0.5; by >= 0.25 && !near(got.Quantile(p), scale(lt.Quantile(p), by)) {
				t.Errorf("scaled by %v the median is %v of %v", by, got.Quantile(p), lt.Quantile(p))
			}
		}
	}
}

func TestLeadTimePanicsOnCallerBugs(t *testing.T) {
	for name, f := range map[string]func(){
		"p zero":        func() { noTail().Quantile(0) },
		"p one":         func() { noTail().Quantile(1) },
		"p NaN":         func() { noTail().Quantile(math.NaN()) },
		"u one":         func() { noTail().Sample(1) },
		"u negative":    func() { noTail().Sample(-.1) },
		"age negative":  func() { noTail().Remaining(-1, .5) },
		"unknown":       func() { LeadTime{}.Quantile(.5) },
		"mean, unknown": func() { LeadTime{}.Mean() },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "coldstart: ") {
					t.Errorf("%s: want a panic with the package's prefix, got %v", name, s)
				}
			}()
			f()
		}()
	}
}

// TestSampleMatchesDistribution: draws by inversion reproduce mean and quantiles.
func TestSampleMatchesDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	lt := withTail()
	const n = 200_000
	sum, below := 0.0, 0
	for range n {
		d := lt.Sample(rng.Float64())
		sum += d.Seconds()
		if d <= 140*time.Second {
			below++
		}
	}
	if mean := sum / n; math.Abs(mean-lt.Mean().Seconds()) > 3 { // standard deviation about 330 s, so 4 sigma
		t.Errorf("mean of draws %.1f s, Mean %.1f s", mean, lt.Mean().Seconds())
	}
	if share := float64(below) / n; math.Abs(share-.6) > .005 {
		t.Errorf("share of draws up to 140 s %.3f, want 0.6", share)
	}
	if got := lt.Sample(0); got != 100*time.Second {
		t.Errorf("Sample(0) = %v, want the shortest, 100s", got)
	}
	want := .2*(100+120+140+200) + .2*(600+600/math.Log(5))
	if !near(lt.Mean(), seconds(want)[0]) {
		t.Errorf("Mean = %v, want %v s", lt.Mean(), want)
	}
}

func TestLeadTimeValidate(t *testing.T) {
	for _, lt := range []LeadTime{{}, {Path: ColdNode, FailureProb: .1}, withTail(), noTail()} {
		if err := lt.Validate(); err != nil {
			t.Errorf("%+v: %v", lt, err)
		}
	}
	bad := LeadTime{
		Path: "warm", Basis: "guess", From: Key{Path: "x"}, Samples: 1, Censored: 2, FailureProb: 1,
		Support: []time.Duration{0, 5, 5}, CDF: []float64{.5, .4, math.NaN(), .9}, Tail: -1,
		Borrowed: 2, BorrowedBasis: Measured, BorrowedFrom: Key{Path: "y"},
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("want problems")
	}
	for _, want := range []string{
		`path "warm"`, `basis "guess"`, `from: path "x"`, "samples 1, censored 2", "failure_prob 1", "support_ns[0] 0s",
		"support_ns[2] 5ns", "cdf[1] 0.4", "cdf[2] NaN", "cdf has 4 values", "tail_ns -1ns: want 0", "tail_ns -1ns: want above 0",
		"borrowed 2", "borrowed_basis", "borrowed_from",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	// A curve that never rises is no observation, and nothing could be topped up from it.
	flat := LeadTime{Basis: Stated, Support: []time.Duration{time.Second}, CDF: []float64{0}, Tail: time.Second}
	if err := new(Ledger).SetStated(Key{}, flat); err == nil || !strings.Contains(err.Error(), "cdf[0] 0: want the last value above 0") {
		t.Errorf("a curve that stays at 0: %v", err)
	}
}

func TestLeadTimeJSON(t *testing.T) {
	for _, lt := range []LeadTime{{}, withTail(), noTail(), logNormal(time.Minute, 1.3)} {
		data, err := json.Marshal(lt)
		if err != nil {
			t.Fatal(err)
		}
		var back LeadTime
		if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(lt, back) {
			t.Errorf("%s reads back as %+v, %v", data, back, err)
		}
	}
}

// genLeadTime draws any valid known lead time.
func genLeadTime(t *rapid.T) LeadTime {
	lt := LeadTime{Basis: Measured, Samples: rapid.IntRange(0, 50).Draw(t, "samples")}
	at, p := time.Duration(0), 0.0
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		at += time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "gap"))
		p += (1 - p) * rapid.Float64Range(.001, .9).Draw(t, "hazard")
		lt.Support, lt.CDF = append(lt.Support, at), append(lt.CDF, p)
	}
	if rapid.Bool().Draw(t, "complete") {
		lt.CDF[len(lt.CDF)-1] = 1
	} else {
		lt.Tail = time.Duration(rapid.Int64Range(1, int64(10*time.Hour)).Draw(t, "tail"))
	}
	return lt
}

func TestLeadTimeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lt := genLeadTime(t)
		if err := lt.Validate(); err != nil {
			t.Fatal(err)
		}
		p := rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "p")
		q := rapid.Float64Range(p, 1-1e-9).Draw(t, "q")
		age := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "age"))
		if lt.Quantile(p) > lt.Quantile(q) {
			t.Fatalf("Quantile(%v) = %v > Quantile(%v) = %v", p, lt.Quantile(p), q, lt.Quantile(q))
		}
		if lt.Remaining(0, p) != lt.Quantile(p) {
			t.Fatal("Remaining at age 0 is not Quantile")
		}
		rp, rq := lt.Remaining(age, p), lt.Remaining(age, q)
		if rp <= 0 || rp > rq {
			t.Fatalf("Remaining(%v): %v at %v, %v at %v: want positive and not decreasing", age, rp, p, rq, q)
		}
		// A start that is older is not expected to end earlier in absolute time.
		older := age + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		if older+lt.Remaining(older, p) < age+rp-time.Microsecond {
			t.Fatalf("end at age %v: %v, at age %v: %v", age, age+rp, older, older+lt.Remaining(older, p))
		}
	})
}
