package forecast

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func testModels(t *testing.T, names ...string) []Forecaster {
	t.Helper()
	var out []Forecaster
	for _, name := range names {
		f, err := New(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

// collect runs a backtest and keeps every prediction.
func collect(t *testing.T, s Series, cfg BacktestConfig, names ...string) (BacktestReport, []Prediction) {
	t.Helper()
	var rows []Prediction
	cfg.Each = func(p Prediction) error {
		p.Quantiles = slices.Clone(p.Quantiles)
		rows = append(rows, p)
		return nil
	}
	r, err := Backtest(s, testModels(t, names...), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, rows
}

func TestBacktestRows(t *testing.T) {
	s := dailyDemand(3*96, 15*time.Minute, nil, 41)
	s.Values[280] = nan
	cfg := BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.1, 0.5, 0.9}, Paths: 50}
	r, rows := collect(t, s, cfg, Names()...)
	// The first origin is the last step before the test span, the last one leaves a whole horizon: 192 … 284 by 4.
	if r.Origins != 24 || len(rows) != 24*len(Names())*5 || r.StepsSkipped != 1 || r.PeaksSkipped != 1 {
		t.Errorf("%d origins, %d rows, %d steps and %d peaks skipped", r.Origins, len(rows), r.StepsSkipped, r.PeaksSkipped)
	}
	if first := rows[0]; !first.Origin.Equal(s.TimeAt(191)) || !first.Time.Equal(s.TimeAt(192)) || first.Step != 1 ||
		first.Actual != s.Values[192] || first.Model != nameAuto {
		t.Errorf("first row %+v", first)
	}
	if peak := rows[4]; peak.Step != 0 || !peak.Time.Equal(s.TimeAt(195)) || peak.Actual != slices.Max(s.Values[192:196]) {
		t.Errorf("first peak %+v", peak)
	}
	for _, row := range rows {
		for j, q := range row.Quantiles {
			if math.IsNaN(q) || j > 0 && q < row.Quantiles[j-1] {
				t.Fatalf("quantiles cross or are missing: %+v", row)
			}
		}
	}
}

// TestBacktestScoresAgainstBruteForce recomputes every figure of the report from the rows.
func TestBacktestScoresAgainstBruteForce(t *testing.T) {
	s := dailyDemand(4*96, 15*time.Minute, nil, 42)
	ps := []float64{0.1, 0.5, 0.9}
	r, rows := collect(t, s, BacktestConfig{Horizon: 4, Test: day, Quantiles: ps, Paths: 50}, nameSeasonal, nameLast)
	var total [2]float64
	for x, name := range []string{nameSeasonal, nameLast} {
		loss, covered, sumAbs, absError, n := make([]float64, 3), make([]float64, 3), 0.0, 0.0, 0.0
		for _, row := range rows {
			if row.Model != name || row.Step == 0 {
				continue
			}
			for j, q := range row.Quantiles {
				loss[j] += math.Max(ps[j]*(row.Actual-q), (ps[j]-1)*(row.Actual-q))
				if row.Actual <= q {
					covered[j]++
				}
			}
			sumAbs, absError, n = sumAbs+row.Actual, absError+math.Abs(row.Actual-row.Quantiles[1]), n+1
		}
		scale := 0.0
		for i := 96; i < 3*96; i++ {
			scale += math.Abs(s.Values[i]-s.Values[i-96]) / float64(2*96)
		}
		m := r.Models[x]
		total[x] = loss[0] + loss[1] + loss[2]
		near(t, name+" WQL", *m.WQL, 2*total[x]/3/sumAbs)
		near(t, name+" MASE", *m.MASE, absError/n/scale)
		for j := range ps {
			near(t, name+" pinball", m.Steps[j].Pinball, loss[j]/n)
			near(t, name+" coverage", m.Steps[j].Coverage, covered[j]/n)
		}
	}
	near(t, "skill", *r.Models[0].SkillLast, 1-total[0]/total[1])
	near(t, "skill against itself", *r.Models[1].SkillLast, 0)
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestBacktestSeesNoFuture changes everything after one origin: what was forecast until then must not change.
func TestBacktestSeesNoFuture(t *testing.T) {
	s := dailyDemand(4*96, 15*time.Minute, nil, 43)
	changed := s
	changed.Values = slices.Clone(s.Values)
	cut := 3*96 + 40
	for i := cut; i < s.Len(); i++ {
		changed.Values[i] = 7 * s.Values[i]
	}
	cfg := BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.5, 0.99}, Paths: 50, Stride: 1}
	_, a := collect(t, s, cfg, Names()...)
	_, b := collect(t, changed, cfg, Names()...)
	same, differ := 0, 0
	for i := range a {
		switch {
		case a[i].Origin.Before(s.TimeAt(cut)):
			if !slices.Equal(a[i].Quantiles, b[i].Quantiles) {
				t.Fatalf("the forecast at %v knew what came later", a[i].Origin)
			}
			same++
		case !slices.Equal(a[i].Quantiles, b[i].Quantiles):
			differ++
		}
	}
	if same == 0 || differ == 0 {
		t.Errorf("%d rows before and %d changed rows after: the test tested nothing", same, differ)
	}
}

func TestBacktestOrigins(t *testing.T) {
	s := dailyDemand(3*96, 15*time.Minute, nil, 44)
	cfg := BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.5}, Paths: 20}
	cfg.Origins = []time.Time{s.TimeAt(250), s.TimeAt(200), s.TimeAt(200)}
	r, rows := collect(t, s, cfg, nameLast)
	if r.Origins != 2 || !rows[0].Origin.Equal(s.TimeAt(200)) {
		t.Errorf("%d origins, first %v", r.Origins, rows[0].Origin)
	}
	cfg.Origins = []time.Time{s.TimeAt(100), s.TimeAt(200).Add(time.Second), s.TimeAt(286), s.Start.Add(-time.Hour)}
	_, err := Backtest(s, testModels(t, nameLast), cfg)
	for _, want := range []string{"outside the test span", "not the start of a step"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if n := strings.Count(err.Error(), "origin "); n != 4 {
		t.Errorf("%d of 4 bad origins reported: %v", n, err)
	}
}

func TestBacktestRefuses(t *testing.T) {
	s := dailyDemand(3*96, 15*time.Minute, nil, 45)
	models := testModels(t, nameLast)
	if _, err := Backtest(s, models, BacktestConfig{Horizon: 4, Test: 3 * day, Quantiles: []float64{0.5}}); !errors.Is(err,
		ErrShortHistory) || !strings.Contains(err.Error(), "288 steps of 15m0s (72h0m0s)") ||
		!strings.Contains(err.Error(), "74h0m0s in all") {
		t.Errorf("short: %v", err)
	}
	_, err := Backtest(s, nil, BacktestConfig{Horizon: 0, Test: -1, Paths: -5, Quantiles: []float64{0.9, 0.5}})
	for _, want := range []string{"horizon is 0", "test span is -1ns", "number of paths is -5", "number of models is 0",
		"quantile 0.5 follows 0.9"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	stop := errors.New("enough")
	n := 0
	r, err := Backtest(s, models, BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.5}, Each: func(Prediction) error {
		if n++; n > 10 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) || r.Origins != 3 {
		t.Errorf("stopped after %d origins with %v", r.Origins, err)
	}
}

// TestBacktestOfNothingKnown: a test span without values gives no scores, and says so rather than zero.
func TestBacktestOfNothingKnown(t *testing.T) {
	s := dailyDemand(3*96, 15*time.Minute, nil, 46)
	for i := 2 * 96; i < s.Len(); i++ {
		s.Values[i] = nan
	}
	r, rows := collect(t, s, BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.5}}, Names()...)
	if r.StepsScored != 0 || r.StepsSkipped != 96 || len(rows) == 0 {
		t.Errorf("report %+v", r)
	}
	for _, m := range r.Models {
		if m.WQL != nil || m.MASE != nil || m.SkillLast != nil || len(m.Steps) != 0 {
			t.Errorf("scores from nothing: %+v", m)
		}
	}
}

func TestBacktestScaleFree(t *testing.T) {
	s := dailyDemand(4*96, 15*time.Minute, nil, 47)
	k := s
	k.Values = slices.Clone(s.Values)
	for i := range k.Values {
		k.Values[i] *= 1000
	}
	cfg := BacktestConfig{Horizon: 4, Test: day, Quantiles: []float64{0.1, 0.5, 0.9}, Paths: 50}
	a, _ := collect(t, s, cfg, Names()...)
	b, _ := collect(t, k, cfg, Names()...)
	for x := range a.Models {
		near(t, "WQL", *b.Models[x].WQL, *a.Models[x].WQL)
		near(t, "skill", *b.Models[x].SkillLast, *a.Models[x].SkillLast)
		near(t, "skill", *b.Models[x].SkillSeasonal, *a.Models[x].SkillSeasonal)
	}
}
