package coldstart

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestStatedDuration(t *testing.T) {
	for _, p := range paths {
		lt, err := StatedDuration(p, 5*time.Minute, DefaultSpread(p))
		if err != nil {
			t.Fatal(err)
		}
		if err := lt.Validate(); err != nil {
			t.Fatal(err)
		}
		if lt.Path != p || lt.Basis != Stated || lt.Samples != 0 || lt.FailureProb != PriorFailureProb {
			t.Errorf("labels %+v", lt)
		}
		if got := lt.Quantile(.5); got != 5*time.Minute {
			t.Errorf("%q: p50 %v, want 5m", p, got)
		}
		if got, want := lt.Quantile(.95).Minutes(), 5*DefaultSpread(p); math.Abs(got-want) > 1e-6 {
			t.Errorf("%q: p95 %v min, want %v", p, got, want)
		}
		sigma := math.Log(DefaultSpread(p)) / 1.6448536269514722 // the normal's 0.95 quantile
		exact := 5 * math.Exp(sigma*sigma/2)
		if got := lt.Mean().Minutes(); got < exact || got > 1.04*exact { // steps round up, by less than 4 %
			t.Errorf("%q: mean %v min, log-normal %v", p, got, exact)
		}
		// Beyond the last step the exponential stays near the log-normal's p99.9 (z = 3.0902).
		if got, want := lt.Quantile(.999).Minutes(), 5*math.Exp(sigma*3.0902); math.Abs(got/want-1) > .05 {
			t.Errorf("%q: p99.9 %v min, log-normal %v", p, got, want)
		}
	}
}

func TestStatedQuantiles(t *testing.T) {
	lt, err := StatedQuantiles(WarmNode, 210*time.Second, 380*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !near(lt.Quantile(.5), 210*time.Second) || !near(lt.Quantile(.95), 380*time.Second) {
		t.Errorf("p50 %v, p95 %v: want 210s and 380s", lt.Quantile(.5), lt.Quantile(.95))
	}
	if lt, err := StatedDuration(WarmNode, 1, 1.1); err != nil || lt.Validate() != nil || !lt.Known() {
		t.Errorf("a nanosecond: %+v, %v, %v", lt, err, lt.Validate())
	}
}

func TestStatedErrors(t *testing.T) {
	_, err := StatedDuration("warm", -time.Second, 1)
	for _, want := range []string{`path "warm"`, "lead time -1s", "spread (p95/p50) 1:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if _, err := StatedDuration(WarmNode, time.Minute, math.NaN()); err == nil {
		t.Error("a NaN spread is accepted")
	}
	for _, q := range [][2]time.Duration{{time.Minute, time.Minute}, {time.Minute, time.Second}, {time.Second, time.Hour}, {0, time.Minute}} {
		if _, err := StatedQuantiles(WarmNode, q[0], q[1]); err == nil {
			t.Errorf("p50 %v with p95 %v is accepted", q[0], q[1])
		}
	}
}
