package benchmark

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"forewarm/forecast"
)

// Case is one series with where it is forecast. An origin is the index of the last value that a forecast may use.
//
// Invariants: origins ascend; every origin o has Split−1 ≤ o and o+horizon inside the series; windows of one list do not
// overlap; both lists of the comparison are part of Dense.
type Case struct {
	Name   string
	Series forecast.Series
	Main   bool // false for the later columns of a wide table, which slow methods leave out
	Coarse bool // true for a resampled copy of another case, which is left out where cases are pooled

	Short, Long int // horizons in steps; Long is longFactor times Short
	Split       int // the first step of the test part, the second half of the series

	Dense        []int // stride Short: all windows of the test part, for calibration
	CompareShort []int // some of Dense, spread over the test part, for the comparison with peers
	CompareLong  []int // the same with windows of Long; CompareShort where there are enough of these
}

const (
	// shortFine and shortCoarse are the short horizons: ten minutes ahead at one minute, an hour ahead at ten minutes.
	shortFine   = 10
	shortCoarse = 6
	// longFactor makes the long horizon.
	longFactor = 6
	// coarseStep is what a fine series is resampled to, so that methods which cannot take a season of more than some
	// hundred steps have a place where they can be compared; coarseSpanMin is the shortest span that is worth it.
	coarseStep    = 10 * time.Minute
	coarseSpanMin = 4 * day
	day           = 24 * time.Hour
)

// Quantiles returns the quantiles that everybody is scored on.
func Quantiles() []float64 { return forecast.DefaultQuantiles() }

// NewCase places at most compare origins per horizon for the comparison and as many as fit for calibration. It returns an error when
// the test part, half of s, is shorter than one long horizon, or s knows fewer than two values before it.
func NewCase(name string, s forecast.Series, compare int) (Case, error) {
	c := Case{Name: name, Series: s, Short: shortCoarse, Split: s.Len() / 2}
	if s.Step <= time.Minute {
		c.Short = shortFine
	}
	c.Long = longFactor * c.Short
	if s.Len()-c.Split < c.Long || s.Known() < 2 {
		return Case{}, fmt.Errorf("%s has %d steps, must have at least two horizons of %d", name, s.Len(), c.Long)
	}
	for o := c.Split - 1; o+c.Short < s.Len(); o += c.Short {
		c.Dense = append(c.Dense, o)
	}
	c.CompareLong = spread(c.Split-1, c.Long, (s.Len()-c.Split)/c.Long, compare)
	c.CompareShort = c.CompareLong
	if len(c.CompareLong) < compare {
		c.CompareShort = spread(c.Split-1, c.Short, len(c.Dense), compare)
	}
	return c, nil
}

// golden is the fractional part of the golden ratio: its multiples, modulo one, fall on no season.
const golden = 0.6180339887498949

// spread picks at most n of the origins first, first+stride, … (count of them): one from each of n equal stretches, at a
// place inside it that changes from stretch to stretch, so that equal distances do not fall on equal times of the day.
func spread(first, stride, count, n int) []int {
	n = min(n, count)
	out := make([]int, n)
	for j := range out {
		from, to := j*count/n, (j+1)*count/n
		_, place := math.Modf(float64(j+1) * golden)
		out[j] = first + stride*(from+int(place*float64(to-from)))
	}
	return out
}

// Resampled returns the same case on a grid of ten minutes, and whether there is one: the series must be finer than that
// and at least four days long.
func (c Case) Resampled(compare int) (Case, bool, error) {
	s := c.Series
	if s.Step >= coarseStep || coarseStep%s.Step != 0 || s.End().Sub(s.Start) < coarseSpanMin {
		return Case{}, false, nil
	}
	coarse, err := s.Resample(coarseStep, forecast.AggMean)
	if err != nil {
		return Case{}, false, fmt.Errorf("%s: %w", c.Name, err)
	}
	out, err := NewCase(c.Name+"@10m", coarse, compare)
	out.Main, out.Coarse = c.Main, true
	return out, true, err
}

// ReadTable makes cases of every demand column of a CSV table (see forecast.ReadCSV): one named after the table, and the
// column where there are several. Rows whose column "gap" is 1 are missing, and neither that column nor a share of what
// is known (a name that ends in share_known) is demand. A resampled copy follows each fine series. Columns after the
// first main ones are marked as not Main.
func ReadTable(name string, data []byte, main, compare int) ([]Case, error) {
	header, err := csv.NewReader(bytes.NewReader(data)).Read()
	if err != nil {
		return nil, fmt.Errorf("%s: reading the header: %w", name, err)
	}
	opts := forecast.CSVOptions{}
	if slices.Contains(header, "gap") {
		opts.MissingWhere = "gap=1"
	}
	columns := slices.DeleteFunc(slices.Clone(header[1:]), func(column string) bool {
		return column == "gap" || strings.HasSuffix(column, "share_known")
	})
	var out []Case
	for i, column := range columns {
		opts.Column = column
		s, err := forecast.ReadCSV(bytes.NewReader(data), opts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		full := name
		if len(columns) > 1 {
			full += ":" + column
		}
		c, err := NewCase(full, s, compare)
		if err != nil {
			return nil, err
		}
		c.Main = i < main
		coarse, ok, err := c.Resampled(compare)
		if err != nil {
			return nil, err
		}
		if out = append(out, c); ok {
			out = append(out, coarse)
		}
	}
	return out, nil
}

// Actual returns the value of a step, NaN when it is missing or only a lower bound.
func (c Case) Actual(i int) float64 {
	if c.Series.AtLeast != nil && c.Series.AtLeast[i] {
		return math.NaN()
	}
	return c.Series.Values[i]
}

// Peak returns the maximum over the horizon steps after origin, NaN when one of them is unknown.
func (c Case) Peak(origin, horizon int) float64 {
	peak := math.Inf(-1)
	for k := 1; k <= horizon; k++ {
		peak = max(peak, c.Actual(origin+k))
	}
	return peak
}

// until returns the series as it was known at origin.
func (c Case) until(origin int) forecast.Series {
	s := c.Series
	s.Values = s.Values[:origin+1]
	if s.AtLeast != nil {
		s.AtLeast = s.AtLeast[:origin+1]
	}
	return s
}
