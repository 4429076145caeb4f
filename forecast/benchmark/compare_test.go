package benchmark

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func losses(n int, pinball func(i int) float64) []Loss {
	out := make([]Loss, n)
	for i := range out {
		out[i] = Loss{Pinball: pinball(i), Abs: 10, Scored: 1}
	}
	return out
}

// TestMatch pits a loss against two candidates: the better one is taken, and the interval lies around the ratio.
func TestMatch(t *testing.T) {
	c := mustCase(t, seriesOf(time.Minute, 400, func(int) float64 { return 10 }), 3)
	rng := newRand(1)
	noise := func(mean float64) func(int) float64 {
		return func(int) float64 { return mean * (0.8 + 0.4*rng.Float64()) }
	}
	ours := Candidate{Steps: losses(40, noise(0.9))}
	peers := []Candidate{
		{Method: "worse", Steps: losses(40, noise(2))},
		{Method: "better", Steps: losses(40, noise(1))},
	}
	m, ok := NewMatch(c, c.Short, ours, peers, StepsOf, rng)
	if !ok || m.Best.Method != "better" || !m.Contains(m.Ratio) || math.Abs(m.Ratio-0.9) > 0.05 {
		t.Errorf("match is %v against %s, interval %v", m.Ratio, m.Best.Method, m.Interval)
	}
	if m.High-m.Low > 0.2 || m.High-m.Low < 0.01 {
		t.Errorf("the interval %v does not fit a noise of 20 %% over 40 origins", m.Interval)
	}
	few := Candidate{Steps: ours.Steps[:9]}
	if _, ok := NewMatch(c, c.Short, few, []Candidate{few}, StepsOf, rng); ok {
		t.Error("nine origins were compared")
	}
	if _, ok := NewMatch(c, c.Short, ours, nil, StepsOf, rng); ok {
		t.Error("there was no candidate, and yet a match")
	}
	same, _ := NewMatch(c, c.Short, ours, []Candidate{ours}, StepsOf, rng)
	if same.Ratio != 1 || same.Interval != (Interval{1, 1}) {
		t.Errorf("against itself: %v, %v", same.Ratio, same.Interval)
	}
}

// TestJudge holds the verdict to its three bars.
func TestJudge(t *testing.T) {
	match := func(name string, ratio float64) Match {
		theirs := losses(10, func(int) float64 { return 1 })
		return Match{Case: Case{Name: name}, Ratio: ratio,
			Pair: Pair{losses(10, func(int) float64 { return ratio }), theirs}}
	}
	of := func(ratios ...float64) (out []Match) {
		for i, r := range ratios {
			out = append(out, match(string(rune('a'+i)), r))
		}
		return out
	}
	for _, tc := range []struct {
		name    string
		matches []Match
		want    bool
	}{
		{"all better", of(0.9, 0.9, 0.9, 1.0), true},
		{"mean too high", of(0.98, 0.98), false},
		{"too few", of(0.5, 1.01, 1.01), false},
		{"one far worse", of(0.5, 0.5, 0.5, 1.06), false},
	} {
		if v := Judge(tc.matches, newRand(1)); v.Holds() != tc.want {
			t.Errorf("%s: %+v holds %v, want %v", tc.name, v, v.Holds(), tc.want)
		}
	}
	if v := Judge(of(0.9, 1.2), newRand(1)); v.WorstAt != "b" || math.Abs(v.Mean-math.Sqrt(0.9*1.2)) > 1e-9 {
		t.Errorf("verdict is %+v", v)
	}
}

// job is a small job of tests.
func job(t *testing.T) Job {
	s := seriesOf(10*time.Minute, 300, func(i int) float64 { return float64(i) })
	s.Values[4] = math.NaN()
	return Job{Case: mustCase(t, s, 3), Paths: 10, Seed: 1, Limit: time.Minute}
}

func TestJobFiles(t *testing.T) {
	j := job(t)
	var series, origins bytes.Buffer
	if err := j.WriteSeries(&series); err != nil {
		t.Fatal(err)
	}
	if got, want := series.String()[:14], "0\n1\n2\n3\n\n5\n6\n7"; got != want[:14] {
		t.Errorf("series is %q, want %q", got, want)
	}
	if err := j.WriteOrigins(&origins); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(origins.String()), "\n")
	if lines[0] != "origin,horizon" || len(lines) < 4 || !strings.HasSuffix(lines[1], ",36") {
		t.Errorf("origins are %q", lines)
	}
	if s := strings.Join(j.Settings(), " "); !strings.Contains(s, "day=144 week=1008 window=4032") {
		t.Errorf("settings are %s", s)
	}
	j.Case.Series.Step = 7 * time.Minute
	if s := strings.Join(j.Settings(), " "); !strings.Contains(s, "day=0 week=1440") {
		t.Errorf("a day is no whole number of 7-minute steps, but settings are %s", s)
	}
}

// TestRefitSetting has a fast method refitted daily, and a slow one every four days or three times.
func TestRefitSetting(t *testing.T) {
	fast, slow := Method{Name: "m", Refit: day}, Method{Name: "m", Refit: slowRefit}
	for _, tc := range []struct {
		steps int
		m     Method
		want  string
	}{
		{14 * 144, fast, "refit.m=144"},
		{14 * 144, slow, "refit.m=576"},
		{60 * 144, slow, "refit.m=1440"},
	} {
		c := mustCase(t, seriesOf(10*time.Minute, tc.steps, func(int) float64 { return 1 }), 3)
		if got := (Job{Case: c}).RefitSetting(tc.m); got != tc.want {
			t.Errorf("%d steps: %s, want %s", tc.steps, got, tc.want)
		}
	}
}

// TestKey changes one thing at a time.
func TestKey(t *testing.T) {
	m := Methods()[0]
	keys := []string{job(t).Key(m, []byte("driver"))}
	add := func(edit func(j *Job, m *Method), driver string) {
		j, m := job(t), m
		edit(&j, &m)
		keys = append(keys, j.Key(m, []byte(driver)))
	}
	add(func(*Job, *Method) {}, "another driver")
	add(func(j *Job, _ *Method) { j.Case.Series.Values[0] = 9 }, "driver")
	add(func(j *Job, _ *Method) { j.Seed = 2 }, "driver")
	add(func(j *Job, _ *Method) { j.Limit = time.Hour }, "driver")
	add(func(j *Job, _ *Method) { j.Case.CompareShort, j.Case.CompareLong = j.Case.CompareShort[1:], nil }, "driver")
	add(func(_ *Job, m *Method) { m.Name = "other" }, "driver")
	add(func(_ *Job, m *Method) { m.Refit = 2 * day }, "driver")
	slices.Sort(keys)
	if different := slices.Compact(keys); len(different) != 8 {
		t.Errorf("of 8 keys only %d are different", len(different))
	}
	if a, b := job(t).Key(m, nil), job(t).Key(m, nil); a != b {
		t.Error("the same job has two keys")
	}
}

const header = "origin,interval,kind,step,q0.05,q0.1,q0.25,q0.5,q0.75,q0.9,q0.95,q0.99\n"

func TestReadResult(t *testing.T) {
	r, err := ReadResult(strings.NewReader("#status: ok\n#fits: 2\n#fit_seconds: 1.5\n#applied: 3\n#apply_seconds: 0.25\n" +
		"#note: origin 9: bad: luck\n" + header +
		"7,own,step,2,1,2,3,4,5,6,7,8\n7,own,peak,6,1,2,3,4,5,6,7,NA\n7,residual,step,1,1,1,1,1,1,1,1,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Fits != 2 || r.FitSeconds != 1.5 || r.Applied != 3 || r.ApplySeconds != 0.25 ||
		!slices.Equal(r.Notes, []string{"origin 9: bad: luck"}) {
		t.Errorf("facts are %+v", r)
	}
	own := r.Intervals["own"][7]
	if own.Steps[0] != nil || own.Steps[1][7] != 8 || !math.IsNaN(own.Peaks[6][7]) || r.Intervals["residual"][7].Steps[0][0] != 1 {
		t.Errorf("forecasts are %+v", r.Intervals)
	}
}

func TestReadResultErrors(t *testing.T) {
	for name, text := range map[string]string{
		"no status":    header,
		"unknown fact": "#mood: good\n",
		"few cells":    "#status: ok\n" + header + "7,own,step,1,1\n",
		"origin":       "#status: ok\n" + header + "x,own,step,1,1,1,1,1,1,1,1,1\n",
		"step":         "#status: ok\n" + header + "7,own,step,0,1,1,1,1,1,1,1,1\n",
		"kind":         "#status: ok\n" + header + "7,own,mean,1,1,1,1,1,1,1,1,1\n",
	} {
		if _, err := ReadResult(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzReadResult(f *testing.F) {
	f.Add("#status: ok\n" + header + "7,own,step,2,1,2,3,4,5,6,7,8\n")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ReadResult(strings.NewReader(text)); err == nil && r.Status == "" {
			t.Error("no status and no error")
		}
	})
}

// TestReport prints a small comparison: a peer that is worse, one that did not run, and no Python.
func TestReport(t *testing.T) {
	c := mustCase(t, seriesOf(10*time.Minute, 900, func(i int) float64 { return 10 + float64(i%7) }), 12)
	c.Main = true
	say := func(origins []int, horizon int, v float64) Predictions {
		p := Predictions{}
		for _, o := range origins {
			p[o] = flat(c, horizon, same(v))
			p[o].Peaks[c.Short] = same(v)
		}
		return p
	}
	long := say(c.CompareLong, c.Long, 20)
	for o, p := range say(c.CompareShort, c.Short, 20) {
		if _, ok := long[o]; !ok {
			long[o] = p
		}
	}
	r := Report{Entries: []Entry{{
		Case: c, Short: say(c.CompareShort, c.Short, 13), Long: say(c.CompareLong, c.Long, 13),
		Results: map[string]map[string]Result{SuiteR: {
			"naive": {Status: "ok", Intervals: map[string]Predictions{"own": long}},
			"dshw":  {Status: "history shorter than two weeks"},
		}},
	}}}
	var out, summary strings.Builder
	r.Write(&out, 1)
	for _, want := range []string{"naive/own", "1 h", "6 h", "dshw", "history shorter than two weeks"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	r.WriteSummary(&summary)
	if lines := strings.Count(summary.String(), "\n"); lines != 1+2*3 {
		t.Errorf("the summary has %d lines:\n%s", lines, summary.String())
	}
}
