package forecast

import (
	"math"
	"testing"
	"time"
)

// TestOldValuesRiseEveryMinute: values that only their ten-minute means are kept of lie on a line again where they lay on
// one, so that a change over ten minutes is the same from every minute of the clock. The first and the last kept mean have
// a neighbour on one side only.
func TestOldValuesRiseEveryMinute(t *testing.T) {
	const n = 4 * 1440
	p := newPast(minutes(make([]float64, n)...), DefaultHistory, newSquash(1))
	for i := range n {
		p.append(p.squash.out(float64(i)/n), false, math.Inf(-1))
	}
	if _, measured := p.measured(1440); measured {
		t.Fatalf("step 1440 of %d is still kept on its own: this tests nothing", n)
	}
	for i := 10; i < 1440; i++ {
		if got, want := p.smooth(i), float64(i)/n; math.Abs(got-want) > 1e-6 {
			t.Fatalf("step %d is %v, want %v", i, got, want)
		}
	}
	if got := p.smooth(n - 1); got != p.at(n-1) {
		t.Errorf("the last step, kept on its own, is %v, want %v", got, p.at(n-1))
	}
	if got := p.smooth(-1); !math.IsNaN(got) {
		t.Errorf("the step before the first is %v, want NaN", got)
	}
}

// TestErrorsKnowTheMinute: forecasts made at a quarter past come out too low and twice as wrong, all others unbiased. The
// next one made then is moved up and spread; where there is no such thing next to nothing moves, and a step of ten
// minutes has no minutes.
func TestErrorsKnowTheMinute(t *testing.T) {
	rng := testRand(61)
	r, none := newRestless(minutesIn(time.Minute)), newRestless(minutesIn(time.Minute))
	for i := range 10 * 1440 {
		bin := i % 60
		e := rng.NormFloat64()
		none.learn(bin, e-none.shift(bin))
		if bin == 15 {
			e = 2*e + 1
		}
		r.learn(bin, e-r.shift(bin))
	}
	if got := r.shift(15); got < 0.25 || got > 1.25 {
		t.Errorf("a quarter past is moved by %.2f usual errors, want 1 less what is not believed yet", got)
	}
	if r.mood(15) < 0.4 || math.Abs(r.mood(40)) > 0.4 {
		t.Errorf("the log spread is %.2f at a quarter past and %.2f at 40 minutes, want above 0.4 and about 0", r.mood(15), r.mood(40))
	}
	for bin := range 60 {
		if got := none.shift(bin); math.Abs(got) > 0.1 {
			t.Errorf("without a shape of the hour, minute %d is moved by %.2f usual errors", bin, got)
		}
	}
	if got := minutesIn(10 * time.Minute); got != 1 {
		t.Errorf("an hour of steps of ten minutes has %d bins, want 1", got)
	}
}
