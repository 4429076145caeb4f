package forecast

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	nan    = math.NaN()
	monday = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
)

// minutes is a series of 1-minute values from monday.
func minutes(values ...float64) Series {
	return Series{Start: monday, Step: time.Minute, Values: values}
}

// sameValues compares with NaN equal to NaN.
func sameValues(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !(math.IsNaN(a[i]) && math.IsNaN(b[i])) {
			return false
		}
	}
	return true
}

func TestSeriesBasics(t *testing.T) {
	s := minutes(1, nan, 3)
	s.AtLeast = []bool{false, false, true}
	if s.Len() != 3 || s.Known() != 2 || !s.End().Equal(monday.Add(3*time.Minute)) {
		t.Errorf("len %d known %d end %v", s.Len(), s.Known(), s.End())
	}
	tail := s.Tail(2)
	if !tail.Start.Equal(monday.Add(time.Minute)) || !sameValues(tail.Values, []float64{nan, 3}) || !tail.AtLeast[1] {
		t.Errorf("tail %+v", tail)
	}
	if got := s.Tail(9).Len(); got != 3 {
		t.Errorf("tail longer than the series has %d steps", got)
	}
}

func TestSeriesValidateReportsAllAtOnce(t *testing.T) {
	s := Series{Step: 0, Values: []float64{math.Inf(1), nan, math.Inf(-1)}, AtLeast: []bool{true}}
	err := s.Validate()
	for _, want := range []string{"step is 0s", "1 lower-bound marks for 3 values", "value 0 is +Inf", "value 2 is -Inf"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	bound := minutes(nan)
	bound.AtLeast = []bool{true}
	if bound.Validate() == nil {
		t.Error("a missing lower bound passed")
	}
	if err := minutes(1, nan, 0).Validate(); err != nil {
		t.Errorf("good series: %v", err)
	}
}

func TestCarriedNeverFillsWithZeroAndABoundNeverLowers(t *testing.T) {
	s := minutes(nan, 3, nan, 5, 4, 2)
	s.AtLeast = []bool{false, false, false, true, true, false}
	if got, want := s.Carried(), []float64{nan, 3, 3, 5, 5, 2}; !sameValues(got, want) {
		t.Errorf("carried %v, want %v", got, want)
	}
}

func TestResample(t *testing.T) {
	s := minutes(1, 3, nan, 5, nan, nan, 7, 9, 2)
	s.AtLeast = []bool{false, false, false, true, false, false, false, false, false}
	for _, c := range []struct {
		agg  Agg
		want []float64
		low  []bool
	}{
		// Two-minute steps; the ninth value fills no whole step.
		{AggMean, []float64{2, 5, nan, 8}, []bool{false, true, false, false}},
		{AggSum, []float64{4, 10, nan, 16}, []bool{false, true, false, false}},
		{AggMax, []float64{3, 5, nan, 9}, []bool{false, true, false, false}},
	} {
		got, err := s.Resample(2*time.Minute, c.agg)
		if err != nil || !sameValues(got.Values, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.agg, got.Values, err, c.want)
			continue
		}
		for i, low := range c.low {
			if got.lowerBound(i) != low {
				t.Errorf("%v: step %d lower bound is %v", c.agg, i, !low)
			}
		}
	}
	for _, bad := range []time.Duration{30 * time.Second, 90 * time.Second} {
		if _, err := s.Resample(bad, AggMean); err == nil {
			t.Errorf("resampling 1m to %v gave no error", bad)
		}
	}
	if got, err := minutes(4, nan).Resample(2*time.Minute, AggMax); err != nil || !got.lowerBound(0) {
		t.Errorf("a maximum with a gap is only a lower bound: %+v, %v", got, err)
	}
	if _, err := s.Resample(2*time.Minute, Agg(9)); err == nil {
		t.Error("an unknown aggregation gave no error")
	}
}

func TestSeriesJSONRoundTripsExactly(t *testing.T) {
	berlin := mustLocation(t, "Europe/Berlin")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "n")
		s := Series{Start: monday.Add(time.Duration(rapid.IntRange(0, 1e9).Draw(t, "ns"))), Step: time.Second}
		s.Values = make([]float64, n)
		for i := range s.Values {
			s.Values[i] = rapid.Float64Range(-1e100, 1e100).Draw(t, "v")
			if rapid.Bool().Draw(t, "missing") {
				s.Values[i] = nan
			}
		}
		if rapid.Bool().Draw(t, "local") {
			s.Location = berlin
		}
		if n > 0 && !math.IsNaN(s.Values[0]) {
			s.AtLeast = make([]bool, n)
			s.AtLeast[0] = true
		}
		first, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back Series
		if err := json.Unmarshal(first, &back); err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(back)
		if err != nil || string(first) != string(second) || !sameValues(s.Values, back.Values) || !s.Start.Equal(back.Start) {
			t.Fatalf("%s\nbecame\n%s (%v)", first, second, err)
		}
	})
}

func TestSeriesJSONRejects(t *testing.T) {
	for _, text := range []string{
		`{"start":"2024-01-01T00:00:00Z","step_ns":0,"values":[1]}`,
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"values":[1],"at_least":[1]}`,
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"values":[1],"location":"Mars/Olympus"}`,
		`{"start":"2024-01-01T00:00:00Z","step_ns":1,"values":[1],"location":"Local"}`,
		`{"start":"x"}`,
	} {
		var s Series
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	s := minutes(1)
	s.Location = time.Local
	if _, err := json.Marshal(s); err == nil {
		t.Error("time.Local was written")
	}
}
