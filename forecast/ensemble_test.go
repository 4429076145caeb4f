package forecast

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawEnsemble(t *rapid.T) Ensemble {
	n, steps := rapid.IntRange(1, 30).Draw(t, "paths"), rapid.IntRange(1, 6).Draw(t, "steps")
	e := Ensemble{Start: monday, Step: time.Minute, Paths: newPaths(n, steps)}
	for i := range e.Paths {
		for k := range e.Paths[i] {
			e.Paths[i][k] = rapid.Float64Range(-1e9, 1e9).Draw(t, "v")
		}
	}
	return e
}

// TestPeakQuantileAgainstBruteForce computes the maxima and their ranks without any of the code under test.
func TestPeakQuantileAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnsemble(t)
		from := rapid.IntRange(0, e.Steps()-1).Draw(t, "from")
		to := rapid.IntRange(from+1, e.Steps()).Draw(t, "to")
		var peaks []float64
		for _, p := range e.Paths {
			peak := p[from]
			for k := from; k < to; k++ {
				peak = math.Max(peak, p[k])
			}
			peaks = append(peaks, peak)
		}
		slices.Sort(peaks)
		// At p = r/(n+1) the quantile is the r-th smallest.
		for r := 1; r <= len(peaks); r++ {
			got := e.PeakQuantile(float64(r)/float64(len(peaks)+1), from, to)
			if math.Abs(got-peaks[r-1]) > 1e-6*(1+math.Abs(peaks[r-1])) && len(peaks) > 1 {
				if math.Abs(got-peaks[r-1]) > 1e-9*(peaks[len(peaks)-1]-peaks[0]) {
					t.Fatalf("rank %d of %v: %v", r, peaks, got)
				}
			}
		}
		if e.PeakQuantile(0, from, to) != peaks[0] || e.PeakQuantile(1, from, to) != peaks[len(peaks)-1] {
			t.Fatal("the ends are not the smallest and the largest peak")
		}
	})
}

func TestQuantilesAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnsemble(t)
		last := math.Inf(-1)
		for p := 0.0; p <= 1; p += 1.0 / 128 {
			q := e.Quantile(p, 0)
			if q < last {
				t.Fatalf("quantile %v is %v, below %v", p, q, last)
			}
			last = q
		}
	})
}

func TestEnsemblePanicsOnCallerBugs(t *testing.T) {
	e := Ensemble{Start: monday, Step: time.Minute, Paths: [][]float64{{1, 2}}}
	for name, f := range map[string]func(){
		"p above one":     func() { e.Quantile(1.1, 0) },
		"p not a number":  func() { e.Quantile(nan, 0) },
		"step outside":    func() { e.Quantile(0.5, 2) },
		"empty window":    func() { e.PeakQuantile(0.5, 1, 1) },
		"window outside":  func() { e.PeakQuantile(0.5, 0, 3) },
		"no paths":        func() { Ensemble{}.Quantile(0.5, 0) },
		"before fit":      func() { NewLastValue(Options{}).Update(1, false) },
		"auto before fit": func() { NewAuto(Options{}).Sample(1, Blocks{Ages: []int{1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r, _ := recover().(string); !strings.HasPrefix(r, "forecast: ") {
					t.Errorf("panicked with %q, want the prefix %q", r, "forecast: ")
				}
			}()
			f()
		})
	}
}

func TestEnsembleJSONRoundTripsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnsemble(t)
		first, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Ensemble
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(back)
		if err != nil || string(first) != string(second) {
			t.Fatalf("%s\nbecame\n%s (%v)", first, second, err)
		}
		for i := range e.Paths {
			if !slices.Equal(e.Paths[i], back.Paths[i]) {
				t.Fatalf("path %d: %v became %v", i, e.Paths[i], back.Paths[i])
			}
		}
	})
}

func TestEnsembleJSONGolden(t *testing.T) {
	e := Ensemble{Start: monday, Step: time.Minute, Paths: [][]float64{{1, 2.5}}}
	got, err := json.Marshal(e)
	if want := `{"start":"2024-01-01T00:00:00Z","step_ns":60000000000,"paths":[[1,2.5]]}`; err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestEnsembleJSONRejects(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[[1,2],[3]]}`:     "path 1 has 1 steps",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[[1,null]]}`:      "path 0 step 1 is NaN",
		`{"start":"2024-01-01T00:00:00Z","step_ns":0,"paths":[[1]]}`:           "step is 0s",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[]}`:              "0 paths",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[[1e999]]}`:       "decoding ensemble",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[["1"]]}`:         "decoding ensemble",
		`{"start":"not a time","step_ns":1,"paths":[[1]]}`:                     "decoding ensemble",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[[],[]]}`:         "of 0 steps",
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"paths":[[1],[null],[]]}`: "path 2 has 0 steps",
	} {
		var e Ensemble
		if err := json.Unmarshal([]byte(text), &e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", text, err, want)
		}
	}
	for _, v := range []float64{nan, math.Inf(1)} {
		if _, err := json.Marshal(Ensemble{Start: monday, Step: 1, Paths: [][]float64{{v}}}); err == nil {
			t.Errorf("%v was written", v)
		}
	}
}
