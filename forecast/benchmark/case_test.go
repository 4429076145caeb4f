package benchmark

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/forecast"
)

// monday is a start for series of tests.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func seriesOf(step time.Duration, n int, value func(i int) float64) forecast.Series {
	s := forecast.Series{Start: monday, Step: step, Values: make([]float64, n)}
	for i := range s.Values {
		s.Values[i] = value(i)
	}
	return s
}

func mustCase(t testing.TB, s forecast.Series, compare int) Case {
	t.Helper()
	c, err := NewCase("test", s, compare)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOrigins holds the origins to what Case promises, for every length and step.
func TestOrigins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}).Draw(t, "step")
		n := rapid.IntRange(120, 30000).Draw(t, "steps")
		compare := rapid.IntRange(1, 60).Draw(t, "compare")
		c, err := NewCase("test", seriesOf(step, n, func(int) float64 { return 1 }), compare)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range []struct {
			name    string
			origins []int
			horizon int
		}{{"dense", c.Dense, c.Short}, {"short", c.CompareShort, c.Short}, {"long", c.CompareLong, c.Long}} {
			if len(list.origins) == 0 {
				t.Fatalf("%s: no origins", list.name)
			}
			for i, o := range list.origins {
				if o < c.Split-1 || o+list.horizon >= n {
					t.Fatalf("%s: origin %d with horizon %d is outside the test part [%d,%d)", list.name, o, list.horizon,
						c.Split, n)
				}
				if i > 0 && o < list.origins[i-1]+list.horizon {
					t.Fatalf("%s: the windows of %d and %d overlap", list.name, list.origins[i-1], o)
				}
				if _, ok := slices.BinarySearch(c.Dense, o); !ok {
					t.Fatalf("%s: origin %d is not one of the dense ones", list.name, o)
				}
			}
		}
		if len(c.CompareLong) > compare || len(c.CompareShort) > compare {
			t.Fatalf("%d and %d origins are compared, at most %d are allowed", len(c.CompareShort), len(c.CompareLong), compare)
		}
	})
}

// TestOriginsOnNoSeason is about a trap: forty origins in eight days, evenly spread, are at five times of the day only.
func TestOriginsOnNoSeason(t *testing.T) {
	c := mustCase(t, seriesOf(time.Minute, 16*1440, func(int) float64 { return 1 }), 40)
	hours := map[int]bool{}
	for _, o := range c.CompareLong {
		hours[o%1440/60] = true
	}
	if len(hours) < 16 {
		t.Errorf("%d origins fall on %d hours of the day only: %v", len(c.CompareLong), len(hours), c.CompareLong)
	}
}

func TestShortSeries(t *testing.T) {
	if _, err := NewCase("test", seriesOf(time.Minute, 117, func(int) float64 { return 1 }), 5); err == nil {
		t.Error("117 steps hold no second half of 60 steps, but there was no error")
	}
}

// TestReadTable reads a table as the production files are: a gap column that says what was not collected, a share that is
// no demand, and a column that comes after the main ones.
func TestReadTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("t_s,rps,share_known,gap,tokens\n")
	for i := range 5 * 144 {
		gap := 0
		if i == 7 {
			gap = 1
		}
		fmt.Fprintf(&b, "%d,%d,0.5,%d,%d\n", i*600, i, gap, 2*i)
	}
	cases, err := ReadTable("demand", []byte(b.String()), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	if want := []string{"demand:rps", "demand:tokens"}; !slices.Equal(names, want) {
		t.Fatalf("cases are %v, want %v", names, want)
	}
	if !cases[0].Main || cases[1].Main {
		t.Error("only the first column is main")
	}
	if v := cases[0].Series.Values[7]; !math.IsNaN(v) {
		t.Errorf("the value of the gap is %v, want missing", v)
	}
	if _, err := ReadTable("demand", []byte("t_s,rps\n0,x\n"), 1, 10); err == nil || !strings.Contains(err.Error(), "demand") {
		t.Errorf("a broken table gives %v, want an error that names it", err)
	}
}

// TestResampled says which series have a copy at ten minutes.
func TestResampled(t *testing.T) {
	for _, tc := range []struct {
		step time.Duration
		span time.Duration
		want bool
	}{
		{time.Minute, 4 * day, true},
		{time.Minute, 3 * day, false},
		{10 * time.Minute, 14 * day, false},
		{7 * time.Minute, 14 * day, false},
	} {
		c := mustCase(t, seriesOf(tc.step, int(tc.span/tc.step), func(i int) float64 { return float64(i) }), 10)
		coarse, ok, err := c.Resampled(10)
		if err != nil || ok != tc.want {
			t.Errorf("%v over %v: resampled %v, %v; want %v", tc.step, tc.span, ok, err, tc.want)
		}
		if ok && (!coarse.Coarse || coarse.Series.Values[1] != 14.5 || coarse.Short != shortCoarse) {
			t.Errorf("the copy has value %v and short horizon %d, want 14.5 and %d", coarse.Series.Values[1], coarse.Short, shortCoarse)
		}
	}
}
