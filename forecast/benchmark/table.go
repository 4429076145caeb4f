package benchmark

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// table is Markdown with aligned columns.
type table struct {
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	line := func(cells []string) {
		for i, cell := range cells {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		fmt.Fprintln(w, "|")
	}
	line(t.header)
	rule := make([]string, len(t.header))
	for i := range rule {
		rule[i] = strings.Repeat("-", widths[i])
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
}

// number writes x with three digits after the point, "–" when it is unknown.
func number(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.3f", x)
}

// String writes both ends, or that there is no interval.
func (i Interval) String() string {
	if math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return "no interval"
	}
	return number(i.Low) + "–" + number(i.High)
}

// each writes the mean time of n things in microseconds.
func each(d time.Duration, n int) string {
	return fmt.Sprintf("%.0f µs", d.Seconds()*1e6/float64(max(1, n)))
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// verdict writes whether a bar holds.
func verdict(holds bool) string {
	if holds {
		return "holds"
	}
	return "MISSED"
}

// WriteCalibration writes the calibration table and, below it, the pooled figures with their bars. rows must not be
// empty.
func WriteCalibration(w io.Writer, rows []CalibrationRow) {
	t := table{header: []string{"series", "windows", "q0.9 holds", "95 %", "q0.99 holds", "95 %", "bar",
		"loss ÷ direct", "upper", "loss ÷ last", "upper", "fit", "update", "forecast"}}
	var missed, enough, missedEnough, sharper int
	for _, r := range rows {
		x := r.ratios()
		t.add(r.Name, fmt.Sprint(r.Windows), number(r.Cov90.Share), r.Cov90.Interval.String(), number(r.Cov99.Share),
			r.Cov99.Interval.String(), verdict(r.Holds()), number(x[0]), number(x[1]), number(x[2]), number(x[3]),
			fmt.Sprintf("%.0f ms", r.Cost.Fit.Seconds()*1e3), each(r.Cost.Update, r.Cost.Updates),
			each(r.Cost.Forecast, r.Cost.Forecasts))
		missed += one(!r.Holds())
		enough += one(r.Enough())
		missedEnough += one(r.Enough() && !r.Holds())
		sharper += one(x[0] <= 1 && x[2] <= 1)
	}
	t.write(w)
	p := Pool(rows)
	fmt.Fprintf(w, "\n- pooled over %d series, %d windows: 90 %% of the peak holds %.4f (bar %.2f ± %.2f), 99 %% holds %.4f"+
		" (bar %.2f ± %.3f): %s\n", p.Series, p.Windows, p.Cov90, peakP90, pooledSlack90, p.Cov99, peakP99, pooledSlack99,
		verdict(p.Holds()))
	fmt.Fprintf(w, "- baselines: direct %.4f and %.4f, last value with conformal intervals %.4f and %.4f\n",
		p.Direct90, p.Direct99, p.Last90, p.Last99)
	fmt.Fprintf(w, "- bar of one series missed: %d of %d with at least %d windows, %d of all %d\n",
		missedEnough, enough, windowsMin, missed, len(rows))
	fmt.Fprintf(w, "- peak pinball, geometric mean over series: ÷ direct %.3f (quantiles from 0.9 on: %.3f), ÷ last value"+
		" %.3f (%.3f); at most both baselines' on %d of %d series\n",
		p.DirectRatio, p.DirectUpper, p.LastRatio, p.LastUpper, sharper, len(rows))
}
