package forecast

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomWalk is a series that only its last value tells anything about.
func randomWalk(n int, seed uint64) Series {
	rng := testRand(seed)
	s := minutes(make([]float64, n)...)
	v := 1000.0
	for i := range s.Values {
		v = math.Max(100, v+5*rng.NormFloat64())
		s.Values[i] = v
	}
	return s
}

func TestAutoFollowsTheBestExpert(t *testing.T) {
	walk := NewAuto(Options{})
	if err := walk.Fit(randomWalk(6*1440, 31)); err != nil {
		t.Fatal(err)
	}
	if w := walk.Weights(); seasonalShare(w) > 0.3 {
		t.Errorf("weights on a random walk: %v", w)
	}
	season := NewAuto(Options{Horizon: 60})
	if err := season.Fit(dailyDemand(6*1440, time.Minute, nil, 32)); err != nil {
		t.Fatal(err)
	}
	if w := season.Weights(); seasonalShare(w) < 0.6 {
		t.Errorf("weights on a daily shape an hour ahead: %v", w)
	}
}

// seasonalShare is the weight of the experts that know no more than the time of day.
func seasonalShare(w map[string]float64) float64 {
	return w[nameSeasonal] + w[nameDayLevel] + w[nameWeekLevel] + w[nameHoltWinters]
}

// TestAutoChangesItsMind: the daily shape ends and a random walk begins.
func TestAutoChangesItsMind(t *testing.T) {
	s := dailyDemand(6*1440, time.Minute, nil, 33)
	a := NewAuto(Options{Horizon: 30})
	if err := a.Fit(s); err != nil {
		t.Fatal(err)
	}
	before := seasonalShare(a.Weights())
	for _, v := range randomWalk(2*1440, 34).Values {
		a.Update(v, false)
	}
	if after := seasonalShare(a.Weights()); before < 0.5 || after > 0.25 {
		t.Errorf("weight of the seasonal experts went from %v to %v", before, after)
	}
}

// TestAutoFollowsALevelShift: demand falls to a tenth, or grows tenfold, in the evening and stays there with its daily
// shape. Within the hour the p95 of the peak must have followed, and stay until the next morning's burst.
func TestAutoFollowsALevelShift(t *testing.T) {
	for _, c := range []struct {
		horizon int
		to      float64
		within  int // minutes until it has followed
		ratio   float64
	}{
		{10, 0.1, 20, 1.6}, {10, 10, 20, 1.6}, {30, 0.1, 60, 2.5}, {30, 10, 60, 2.5},
	} {
		s := dailyDemand(12*1440, time.Minute, nil, 77)
		shift := 10*1440 + 20*60
		for i := shift; i < s.Len(); i++ {
			s.Values[i] *= c.to
		}
		a := NewAuto(Options{Horizon: c.horizon})
		if err := a.Fit(s.slice(0, shift)); err != nil {
			t.Fatal(err)
		}
		const untilMorning = 12 * 60
		for m := 1; m <= untilMorning; m++ {
			last := shift + m - 1
			a.Update(s.Values[last], false)
			if m < c.within || m > 2*c.within && m%10 != 0 {
				continue
			}
			blocks := blocksFor(s.slice(0, last+1), 200, c.horizon)
			got := a.Sample(c.horizon, blocks).PeakQuantile(0.95, 0, c.horizon)
			peak := slices.Max(s.Values[last+1 : last+1+c.horizon])
			if got > c.ratio*peak || got < 0.85*peak {
				t.Errorf("horizon %d, x%v: %d minutes after the shift the p95 of the peak is %.4g, the peak %.4g",
					c.horizon, c.to, m, got, peak)
				break
			}
		}
	}
}

func TestAutoSkill(t *testing.T) {
	s := dailyDemand(6*1440, time.Minute, nil, 35)
	a := NewAuto(Options{Horizon: 30})
	if err := a.Fit(s); err != nil {
		t.Fatal(err)
	}
	skill := a.Skill()
	if may, why := skill.MayShrink(); !may || skill.Origins < skillOriginsMin || skill.Loss >= skill.LastLoss {
		t.Errorf("skill %+v: %v, %s", skill, may, why)
	}
	before := skill.Origins
	for range 15 {
		a.Update(s.Values[0], false)
	}
	if got := a.Skill().Origins; got < before+7 || got > before+8 {
		t.Errorf("%d origins after 15 more steps, were %d: every second is kept", got, before)
	}
	// Missing and clipped steps are no evidence.
	for i := range 60 {
		v := nan
		if i%2 == 0 {
			v = 5
		}
		a.Update(v, i%2 == 0)
	}
	settled := a.Skill().Origins
	for i := range 60 {
		a.Update(float64(i), true)
	}
	if got := a.Skill().Origins; got != settled {
		t.Errorf("%d origins were scored on lower bounds", got-settled)
	}
}

func TestMayShrink(t *testing.T) {
	for _, c := range []struct {
		s    Skill
		may  bool
		says string
	}{
		{Skill{}, false, "only 0 forecasts"},
		{Skill{Origins: skillOriginsMin - 1, Loss: 1, LastLoss: 2, SeasonalLoss: 2}, false, "are needed"},
		{Skill{Origins: 500, Loss: 1, LastLoss: 2, SeasonalLoss: 3}, true, "against 2 of last value"},
		{Skill{Origins: 500, Loss: 2.1, LastLoss: 2, SeasonalLoss: 3}, false, "of last value"},
		{Skill{Origins: 500, Loss: 2.1, LastLoss: 3, SeasonalLoss: 2}, false, "of seasonal naive"},
		{Skill{Origins: 500}, true, "loss 0"}, // constant demand: nobody errs
		{Skill{Origins: 500, Loss: nan}, false, "NaN"},
	} {
		if may, why := c.s.MayShrink(); may != c.may || !strings.Contains(why, c.says) {
			t.Errorf("%+v: %v, %q; want %v, with %q", c.s, may, why, c.may, c.says)
		}
	}
}

// TestScaleChangesNothing: the unit of a series is the caller's, so a thousand times the values must give the same
// weights, skill ratios and verdict.
func TestScaleChangesNothing(t *testing.T) {
	s := dailyDemand(4*1440, time.Minute, nil, 36)
	k := s
	k.Values = make([]float64, s.Len())
	for i, v := range s.Values {
		k.Values[i] = 1000 * v
	}
	a, b := NewAuto(Options{}), NewAuto(Options{})
	if a.Fit(s) != nil || b.Fit(k) != nil {
		t.Fatal("fit")
	}
	x, y := a.Skill(), b.Skill()
	if math.Abs(y.Loss/y.LastLoss-x.Loss/x.LastLoss) > 1e-4 || x.Origins != y.Origins {
		t.Errorf("skill %+v became %+v", x, y)
	}
	for name, w := range a.Weights() {
		if math.Abs(w-b.Weights()[name]) > 1e-3 {
			t.Errorf("weight of %s: %v became %v", name, w, b.Weights()[name])
		}
	}
}
