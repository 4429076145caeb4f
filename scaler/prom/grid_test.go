package prom

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

var testGrid = grid{time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), time.Minute, 4}

// answer builds a matrix of one key; times are seconds after the start of testGrid.
func answer(pairs ...float64) *model.SampleStream {
	s := &model.SampleStream{Metric: model.Metric{factLabel: "k"}}
	for i := 0; i < len(pairs); i += 2 {
		at := model.TimeFromUnixNano(testGrid.start.UnixNano()).Add(time.Duration(pairs[i] * float64(time.Second)))
		s.Values = append(s.Values, model.SamplePair{Timestamp: at, Value: model.SampleValue(pairs[i+1])})
	}
	return s
}

func TestDecode(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := map[string]struct {
		in   model.Matrix
		want []float64
		err  string
	}{
		// A point at T covers the step that ends at T.
		"in order":          {model.Matrix{answer(60, 1, 120, 2, 180, 3, 240, 4)}, []float64{1, 2, 3, 4}, ""},
		"steps left out":    {model.Matrix{answer(60, 1, 240, 4)}, []float64{1, nan, nan, 4}, ""},
		"out of order":      {model.Matrix{answer(240, 4, 60, 1, 180, 3)}, []float64{1, nan, 3, 4}, ""},
		"same twice":        {model.Matrix{answer(60, 1, 60, 1, 120, 2)}, []float64{1, 2, nan, nan}, ""},
		"different twice":   {model.Matrix{answer(60, 1, 60, 5, 120, 2)}, []float64{nan, 2, nan, nan}, ""},
		"thrice":            {model.Matrix{answer(60, 1, 60, 5, 60, 5)}, []float64{nan, nan, nan, nan}, ""},
		"series twice":      {model.Matrix{answer(60, 1, 120, 2), answer(120, 3, 180, 3)}, []float64{1, nan, 3, nan}, ""},
		"not numbers":       {model.Matrix{answer(60, nan, 120, inf, 180, -inf, 240, -1)}, []float64{nan, nan, nan, nan}, ""},
		"zero is a number":  {model.Matrix{answer(60, 0)}, []float64{0, nan, nan, nan}, ""},
		"between two steps": {model.Matrix{answer(61, 1)}, nil, "off the grid"},
		"before":            {model.Matrix{answer(0, 1)}, nil, "off the grid"},
		"after":             {model.Matrix{answer(300, 1)}, nil, "off the grid"},
		"no key":            {model.Matrix{{Metric: model.Metric{"a": "b"}}}, nil, "bears no"},
		"empty":             {model.Matrix{}, []float64{nan, nan, nan, nan}, ""},
	}
	for name, tt := range tests {
		got, err := decode(tt.in, testGrid)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want an error about %q", name, err, tt.err)
			}
			continue
		}
		if err != nil || !slices.EqualFunc(got.column("k", testGrid.n), tt.want, same) {
			t.Errorf("%s: %v, %v, want %v", name, got["k"], err, tt.want)
		}
	}
}

func TestNewGrid(t *testing.T) {
	at := func(h, m, s int) time.Time { return time.Date(2026, 3, 2, h, m, s, 0, time.UTC) }
	for _, tt := range []struct {
		from, to, start time.Time
		n               int
	}{
		{at(9, 0, 0), at(9, 10, 0), at(9, 0, 0), 10},
		{at(9, 0, 1), at(9, 10, 59), at(9, 1, 0), 9},
		{at(9, 0, 1), at(9, 1, 30), at(9, 1, 0), 0},
		{at(9, 10, 0), at(9, 0, 0), at(9, 10, 0), 0},
		{at(9, 0, 0).In(time.FixedZone("", 20700)), at(9, 1, 0), at(9, 0, 0), 1},
	} {
		if g := newGrid(tt.from, tt.to, time.Minute); !g.start.Equal(tt.start) || g.n != tt.n {
			t.Errorf("%v to %v: %d steps from %v, want %d from %v", tt.from, tt.to, g.n, g.start, tt.n, tt.start)
		}
	}
}

// Whatever a server answers, decode returns finite non-negative or missing values of the grid's length, or an error.
func FuzzDecode(f *testing.F) {
	start := testGrid.start.Unix()
	f.Add(fmt.Appendf(nil, `[{"metric":{%q:"k"},"values":[[%d,"1"],[%d,"NaN"],[%d,"1"]]}]`, factLabel, start+60, start+120, start+60))
	f.Add([]byte(`[{"metric":{},"values":[[0,"+Inf"]]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var m model.Matrix
		if json.Unmarshal(body, &m) != nil || slices.Contains(m, nil) {
			return
		}
		got, err := decode(m, testGrid)
		if err != nil {
			return
		}
		for key, column := range got {
			if len(column) != testGrid.n {
				t.Errorf("%q has %d values", key, len(column))
			}
			for _, v := range column {
				if v < 0 || math.IsInf(v, 0) {
					t.Errorf("%q has the value %v", key, v)
				}
			}
		}
	})
}

func TestBatch(t *testing.T) {
	var exprs []expr
	for i := range 1000 {
		exprs = append(exprs, expr{fmt.Sprint(i), strings.Repeat("x", i)})
	}
	var joined []expr
	for _, b := range batch(exprs) {
		size := 0
		for _, e := range b {
			size += len(e.key) + len(e.promql)
		}
		if len(b) > combinedExprsMax || (size > combinedBytesMax && len(b) > 1) {
			t.Errorf("a batch of %d expressions and %d bytes", len(b), size)
		}
		joined = append(joined, b...)
	}
	if !slices.Equal(joined, exprs) {
		t.Error("expressions were lost or moved")
	}
}

func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		step, scrape time.Duration
		rate         string
		need         int
	}{
		{time.Minute, 15 * time.Second, "74999ms", 5},
		{time.Minute, 30 * time.Second, "89999ms", 3},
		{time.Minute, 25 * time.Second, "84999ms", 3},
		{time.Minute, time.Minute, "119999ms", 2},
	} {
		w := windows{tt.step, tt.scrape}
		if w.rate() != tt.rate || w.need() != tt.need {
			t.Errorf("%v scraped each %v: %s, %d samples, want %s, %d", tt.step, tt.scrape, w.rate(), w.need(), tt.rate, tt.need)
		}
		// Whatever the phase of the scrapes, a window without a miss holds the samples needed.
		window := tt.step + tt.scrape - time.Millisecond
		for phase := time.Duration(0); phase < tt.scrape; phase += time.Millisecond {
			if n := int((window-phase)/tt.scrape) + 1; n < w.need() {
				t.Errorf("%v scraped each %v at phase %v: %d samples, need %d", tt.step, tt.scrape, phase, n, w.need())
			}
		}
	}
}
