package coldstart

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestProductLimitTextbook: remission times in weeks of the 21 patients on 6-mercaptopurine (Freireich et al. 1963, Gehan
// 1965), as worked in Klein and Moeschberger, Survival Analysis, 2nd ed., tables 1.1, 4.1 and 4.1A; a minus sign marks a
// censored time. The same book's practical note on section 4.2 gives the tail of Brown, Hollander and Korwar.
func TestProductLimitTextbook(t *testing.T) {
	weeks := []int{6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35}
	want := []struct {
		at       int
		survival float64
	}{{6, .857}, {7, .807}, {10, .753}, {13, .690}, {16, .627}, {22, .538}, {23, .448}, {35, .448}}

	var obs []observation
	for _, w := range weeks {
		obs = append(obs, observation{at: time.Duration(max(w, -w)) * time.Hour, weight: 1, served: w > 0})
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(obs), func(i, j int) { obs[i], obs[j] = obs[j], obs[i] })
	c := productLimit(obs)
	if len(c.support) != len(want) {
		t.Fatalf("support %v: want %d points", c.support, len(want))
	}
	for i, w := range want {
		if c.support[i] != time.Duration(w.at)*time.Hour || math.Abs(1-c.cdf[i]-w.survival) > .0005 {
			t.Errorf("point %d: S(%v) = %.4f, want S(%d) = %.3f", i, c.support[i], 1-c.cdf[i], w.at, w.survival)
		}
	}
	if rate := 1 / c.tail.Hours(); math.Abs(rate-.02293) > .00005 { // −ln(0.4482)/35
		t.Errorf("tail rate %.5f per week, want 0.02293", rate)
	}
}

// TestProductLimitWithoutCensoring: it is then the empirical distribution; the quantile is the ⌈np⌉-th value.
func TestProductLimitWithoutCensoring(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{1, 2, 7, 20, 100, 256} {
		var obs []observation
		var values []time.Duration
		for range n {
			d := time.Duration(1+rng.IntN(400)) * time.Second
			obs, values = append(obs, observation{d, 3, true}), append(values, d)
		}
		slices.Sort(values)
		c := productLimit(obs)
		lt := LeadTime{Basis: Measured, Support: c.support, CDF: c.cdf, Tail: c.tail, Samples: n}
		if err := lt.Validate(); err != nil {
			t.Fatal(err)
		}
		if c.tail != 0 || c.cdf[len(c.cdf)-1] != 1 {
			t.Errorf("n=%d: ends at %v with tail %v, want exactly 1 and none", n, c.cdf[len(c.cdf)-1], c.tail)
		}
		for k := 1; k < 100; k++ {
			p := float64(k) / 100
			want := values[(n*k+99)/100-1]
			if got := lt.Quantile(p); got != want {
				t.Errorf("n=%d: Quantile(%v) = %v, want %v", n, p, got, want)
			}
		}
	}
}

// TestThinned: a long curve keeps its end and never rounds a quantile down, nor up by more than half a percent.
func TestThinned(t *testing.T) {
	for _, censoredEnd := range []bool{false, true} {
		var obs []observation
		for i := range 1000 {
			obs = append(obs, observation{time.Duration(i+1) * time.Second, 1 + float64(i%7), true})
		}
		if censoredEnd {
			obs = append(obs, observation{2000 * time.Second, 90, false})
		}
		full := productLimit(obs)
		thin := full.thinned()
		if len(thin.support) > supportMax {
			t.Fatalf("%d points left, want at most %d", len(thin.support), supportMax)
		}
		a := LeadTime{Basis: Measured, Support: full.support, CDF: full.cdf, Tail: full.tail}
		b := LeadTime{Basis: Measured, Support: thin.support, CDF: thin.cdf, Tail: thin.tail}
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		for k := 1; k < 2000; k++ {
			p := float64(k) / 2000
			if got := b.Quantile(p); got < a.Quantile(p) || got > a.Quantile(min(p+1./supportThin, .99999)) {
				t.Errorf("p=%v: thinned %v, full %v", p, got, a.Quantile(p))
			}
		}
	}
}

// TestTopUpTail: what the lender says lies beyond its support stays beyond every served start, with the lender's mean; only
// a start censored out there stretches it.
func TestTopUpTail(t *testing.T) {
	lender := LeadTime{Basis: Stated, Support: seconds(100), CDF: []float64{.75}, Tail: 50 * time.Second}
	tests := []struct {
		name string
		own  []observation
		end  time.Duration
		last float64 // CDF at end
		tail time.Duration
	}{
		// 4 borrowed: 3 at 100 s, 1 beyond.
		{"served within", []observation{{60 * time.Second, 1, true}}, 100 * time.Second, .8, 50 * time.Second},
		{"served beyond", []observation{{400 * time.Second, 1, true}}, 400 * time.Second, .8, 50 * time.Second},
		{"pending within", []observation{{90 * time.Second, 1, false}}, 100 * time.Second, .75, 50 * time.Second},
		// 2 of 5 outlive 100 s, so the exponential through (600 s, 0.4): mean 600/ln 2.5.
		{"pending beyond", []observation{{600 * time.Second, 1, false}}, 600 * time.Second, .6, seconds(600 / math.Log(2.5))[0]},
	}
	for _, tc := range tests {
		c := topUp(tc.own, lender, 4)
		last := len(c.support) - 1
		if c.support[last] != tc.end || math.Abs(c.cdf[last]-tc.last) > 1e-9 || !near(c.tail, tc.tail) {
			t.Errorf("%s: ends at %v with CDF %v, tail %v; want %v, %v, %v",
				tc.name, c.support[last], c.cdf[last], c.tail, tc.end, tc.last, tc.tail)
		}
	}
}
