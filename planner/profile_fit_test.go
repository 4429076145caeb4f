package planner_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"forewarm/planner"
)

// runsOf makes runs that the coefficients explain exactly but for relative noise: nine sizes at five concurrencies.
func runsOf(c planner.Coefficients, noise float64) []planner.Measurement {
	random := rand.New(rand.NewPCG(5, 6))
	var runs []planner.Measurement
	for _, prompt := range []planner.Tokens{500, 2000, 8000} {
		for _, completion := range []planner.Tokens{100, 500, 2000} {
			for _, n := range []float64{4, 8, 16, 32, 64} {
				m := planner.Measurement{Setup: planner.Setup{Model: "m"}, Line: len(runs) + 2, Concurrency: n, Prompt: prompt, Completion: completion, TTFT: 1}
				m.TPOT = c.TPOT(&m) * planner.Milliseconds(1+noise*random.NormFloat64())
				runs = append(runs, m)
			}
		}
	}
	return runs
}

func TestFitRecoversTheCoefficients(t *testing.T) {
	want := planner.Coefficients{Iteration: 8, Prefill: 0.03, Decode: 0.09, Attention: 2e-5}
	got, err := planner.FitCoefficients(runsOf(want, 0))
	if err != nil {
		t.Fatal(err)
	}
	near := func(got, want planner.Coefficients, tolerance float64) bool {
		off := func(a, b planner.Milliseconds) bool { return math.Abs(float64(a/b)-1) > tolerance }
		return !off(got.Iteration, want.Iteration) && !off(got.Prefill, want.Prefill) && !off(got.Decode, want.Decode) &&
			!off(got.Attention, want.Attention)
	}
	if !near(got, want, 1e-6) {
		t.Errorf("exact runs give %+v, want %+v", got, want)
	}
	// A tenth of the runs is three times too slow: they must not decide.
	runs := runsOf(want, 0.01)
	for i := range runs {
		if i%10 == 3 {
			runs[i].TPOT *= 3
		}
	}
	if got, err = planner.FitCoefficients(runs); err != nil || !near(got, want, 0.15) {
		t.Errorf("%v; with bad runs among them it is %+v, want about %+v", err, got, want)
	}
	report := planner.FitProfiles(runsOf(want, 0.01))
	if e := report.Pooled; e.Runs != 45 || *e.Median > 0.015 || *report.Blind.Median < 0.1 {
		t.Errorf("held-out errors are %+v, of a line through the concurrencies %+v", e, report.Blind)
	}
}

// What does not identify the coefficients is refused, with what is missing.
func TestFitRefusesWhatItCannotTell(t *testing.T) {
	all := runsOf(planner.Coefficients{Iteration: 8, Prefill: 0.03, Decode: 0.03, Attention: 2e-5}, 0)
	var crossed []planner.Measurement // every size at a concurrency of its own
	for i := 0; i < len(all); i += 6 {
		crossed = append(crossed, all[i])
	}
	waiting := runsOf(planner.Coefficients{Iteration: 8, Prefill: 0.03, Decode: 0.03, Attention: 2e-5}, 0)
	for i := range waiting {
		waiting[i].TTFT = 1e6
	}
	for name, runs := range map[string][]planner.Measurement{"none": nil, "one": all[:1], "two": all[:2], "no size twice": crossed,
		"all wait": waiting} {
		if _, err := planner.FitCoefficients(runs); !errors.Is(err, planner.ErrFewMeasurements) {
			t.Errorf("%s: %v", name, err)
		}
	}
	report := planner.FitProfiles(crossed)
	if g := report.Groups[0]; g.Coefficients != nil || g.Why == "" || g.Errors.Median != nil || len(g.Runs) != len(crossed) {
		t.Errorf("a group that cannot be fitted is reported as %+v", g)
	}
}

const runsHeader = "model_path,isl,osl,concurrency,batch_size,ttft_ms,tpot_ms,tp_size,pp_size\n"

func TestReadMeasurements(t *testing.T) {
	runs, err := planner.ReadMeasurements(strings.NewReader(runsHeader + "a/b,100,10,4.0,,5,6,2.0,1.0\na/b,100,10,,8,5,6,2,2\n"))
	if err != nil || len(runs) != 2 {
		t.Fatal(runs, err)
	}
	if m := runs[0]; m.Setup.String() != "a/b tp2" || m.Concurrency != 4 || m.Line != 2 || !m.OnlyTensor {
		t.Errorf("%+v", m)
	}
	if m := runs[1]; m.Setup.String() != "a/b tp2 pp2" || m.Concurrency != 8 || m.OnlyTensor {
		t.Errorf("%+v", m)
	}
	_, err = planner.ReadMeasurements(strings.NewReader(runsHeader + "a,x,1,0,,5,NaN,,\n,100,10,4,,5,6,,\n"))
	for _, want := range []string{`line 2: isl is "x"`, `line 2: osl is "1": a number of 2 to`, `line 2: concurrency is "0"`,
		`line 2: tpot_ms is "NaN"`, "line 3: model_path is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	for text, want := range map[string]string{"": "empty", "a,b\n": `no column "isl"`, runsHeader: "no run below"} {
		if _, err := planner.ReadMeasurements(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzReadMeasurements(f *testing.F) {
	f.Add(runsHeader + "a/b,100,10,4.0,,5,6,2.0,1.0\n")
	f.Add(runsHeader + "a,1e400,10,4,,5,6,2,1\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := planner.ReadMeasurements(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, g := range planner.FitProfiles(runs).Groups {
			if c := g.Coefficients; c != nil && !(c.Iteration >= 0 && c.Prefill >= 0 && c.Decode >= 0 && c.Attention >= 0) {
				t.Errorf("coefficients are %+v", c)
			}
		}
	})
}

// The bars of the fidelity row, on measurements that are not ours.
func TestFitMeetsTheFidelityBars(t *testing.T) {
	file, err := os.Open("../../shared/data/profiles/silicon_dense_subset.csv")
	if err != nil {
		t.Skipf("no measurements at hand: %v", err)
	}
	defer file.Close()
	runs, err := planner.ReadMeasurements(file)
	if err != nil {
		t.Fatal(err)
	}
	r := planner.FitProfiles(runs)
	text := func(e planner.FitErrors) string {
		return fmt.Sprintf("%d runs, median %.1f %%, p90 %.1f %%", e.Runs, 100**e.Median, 100**e.P90)
	}
	t.Logf("held out: %s; α+bN: %s; highest concurrency: %s; with those that wait: %s", text(r.Pooled), text(r.Blind), text(r.Highest), text(r.All))
	if *r.Pooled.Median > 0.05 || *r.Pooled.P90 > 0.15 || *r.Highest.Median > 0.07 {
		t.Errorf("held out: %s; highest concurrency: %s; allowed are medians of 5 and 7 %% and a p90 of 15 %%", text(r.Pooled), text(r.Highest))
	}
	fitted := 0
	for _, g := range r.Groups {
		if g.Errors.Median == nil {
			t.Logf("not predicted: %s: %s", g.Group, g.Why)
			continue
		}
		fitted++
		if *g.Errors.Median > 0.13 {
			t.Errorf("%s: %s; a median of 13 %% is allowed", g.Group, text(g.Errors))
		}
	}
	if fitted < 30 {
		t.Errorf("only %d of %d groups are predicted", fitted, len(r.Groups))
	}
}
