package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	chartWidth  = 24 * vg.Centimeter
	chartHeight = 12 * vg.Centimeter
	// chartPast is how many steps of history are drawn for each step of forecast, and at least.
	chartPast    = 4
	chartPastMin = 60
)

var (
	chartLine  = color.NRGBA{R: 0x1f, G: 0x4e, B: 0x79, A: 0xff}
	chartEvent = color.NRGBA{R: 0xd9, G: 0x8c, B: 0x00, A: 0x40}
	chartPeak  = color.NRGBA{R: 0xb0, G: 0x3a, B: 0x2e, A: 0xff}
)

// writeSVG draws the fan: history, a band for each pair of quantiles that mirror each other, the middle, and a dashed
// line at the highest quantile of the peak. The same seriesInput gives the same bytes.
func (r *forecastResult) writeSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s: %s forecast over %s", r.file, r.model.Name(),
		formatSpan(r.ensemble.Step*time.Duration(r.ensemble.Steps())))
	p.X.Label.Text = "time (" + r.in.loc.String() + ")"
	p.Y.Label.Text = "demand"
	if r.column != "" {
		p.Y.Label.Text = r.column
	}
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	if r.in.asSeconds {
		p.X.Label.Text = "seconds"
	} else {
		p.X.Tick.Marker = clockTicks{r.in.loc}
	}
	for _, draw := range []func(*plot.Plot) error{r.drawEvents, r.drawBands, r.drawHistory, r.drawMiddle, r.drawPeak} {
		if err := draw(p); err != nil {
			return fmt.Errorf("drawing forecast: %w", err)
		}
	}
	c := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(c))
	_, err := c.WriteTo(w)
	return err
}

// clockTicks marks whole hours or days of the local wall clock.
type clockTicks struct{ loc *time.Location }

// tickHours are the distances of labels to choose from, in hours; the first that gives few enough is taken.
var tickHours = []float64{1. / 12, 0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 7 * 24, 14 * 24, 28 * 24}

// Ticks implements plot.Ticker over Unix seconds.
func (c clockTicks) Ticks(from, to float64) []plot.Tick {
	const labelsMax = 9
	hours := tickHours[len(tickHours)-1]
	for _, h := range tickHours {
		if (to-from)/3600/h <= labelsMax {
			hours = h
			break
		}
	}
	var out []plot.Tick
	first := time.Unix(int64(from), 0).In(c.loc)
	y, m, d := first.Date()
	for n := 0; len(out) <= 2*labelsMax; n++ {
		// Counted in wall-clock minutes from midnight on, so that 9 o'clock is marked also after the clock was changed.
		at := time.Date(y, m, d, 0, int(float64(n)*hours*60), 0, 0, c.loc)
		switch x := float64(at.Unix()); {
		case x > to:
			return out
		case x >= from:
			label := at.Format("15:04")
			if hours >= 24 {
				label = at.Format("Mon 02 Jan")
			} else if len(out) == 0 || at.Hour() == 0 && at.Minute() == 0 {
				label += at.Format("\nMon 02 Jan")
			}
			out = append(out, plot.Tick{Value: x, Label: label})
		}
	}
	return out
}

// x is the middle of step i of the series, in Unix seconds.
func (r *forecastResult) x(i int) float64 {
	t := r.in.series.TimeAt(i)
	return float64(t.Unix()) + r.in.series.Step.Seconds()/2
}

// quantileLine returns the p-quantile of every step.
func (r *forecastResult) quantileLine(p float64) plotter.XYs {
	xys := make(plotter.XYs, r.ensemble.Steps())
	for k := range xys {
		xys[k] = plotter.XY{X: r.x(r.in.series.Len() + k), Y: r.ensemble.Quantile(p, k)}
	}
	return xys
}

// drawBands fills the area between the j-th lowest and the j-th highest quantile, the outer ones lighter.
func (r *forecastResult) drawBands(p *plot.Plot) error {
	pairs := len(r.ps) / 2
	for j := range pairs {
		low, high := r.ps[j], r.ps[len(r.ps)-1-j]
		ring := r.quantileLine(low)
		top := r.quantileLine(high)
		for k := len(top) - 1; k >= 0; k-- {
			ring = append(ring, top[k])
		}
		band, err := plotter.NewPolygon(ring)
		if err != nil {
			return err
		}
		fill := chartLine
		fill.A = uint8(40 + 100*j/pairs)
		band.Color, band.LineStyle.Width = fill, 0
		p.Add(band)
		p.Legend.Add(fmt.Sprintf("%s to %s", quantileName(low), quantileName(high)), band)
	}
	return nil
}

// chartFrom is the first step of history that is drawn.
func (r *forecastResult) chartFrom() int {
	return max(0, r.in.series.Len()-max(chartPastMin, chartPast*r.ensemble.Steps()))
}

// drawHistory draws the known past; a gap is a gap in the line.
func (r *forecastResult) drawHistory(p *plot.Plot) error {
	s := r.in.series
	var run plotter.XYs
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		line, err := plotter.NewLine(run)
		if err != nil {
			return err
		}
		p.Add(line)
		run = nil
		return nil
	}
	for i := r.chartFrom(); i < s.Len(); i++ {
		if math.IsNaN(s.Values[i]) {
			if err := flush(); err != nil {
				return err
			}
			continue
		}
		run = append(run, plotter.XY{X: r.x(i), Y: s.Values[i]})
	}
	return flush()
}

// drawMiddle draws the median.
func (r *forecastResult) drawMiddle(p *plot.Plot) error {
	line, err := plotter.NewLine(r.quantileLine(0.5))
	if err != nil {
		return err
	}
	line.Color, line.Width = chartLine, vg.Points(1.5)
	p.Add(line)
	p.Legend.Add("median", line)
	return nil
}

// drawPeak draws the highest quantile of the maximum over the horizon.
func (r *forecastResult) drawPeak(p *plot.Plot) error {
	top := r.ps[len(r.ps)-1]
	y := r.ensemble.PeakQuantile(top, 0, r.ensemble.Steps())
	n := r.in.series.Len()
	line, err := plotter.NewLine(plotter.XYs{{X: r.x(n), Y: y}, {X: r.x(n + r.ensemble.Steps() - 1), Y: y}})
	if err != nil {
		return err
	}
	line.Color, line.Dashes = chartPeak, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	p.Legend.Add(quantileName(top)+" of the peak", line)
	return nil
}

// chartTop is the largest value that is drawn.
func (r *forecastResult) chartTop() float64 {
	top := r.ensemble.PeakQuantile(r.ps[len(r.ps)-1], 0, r.ensemble.Steps())
	for _, v := range r.in.series.Values[r.chartFrom():] {
		if v > top { // never when v is missing
			top = v
		}
	}
	return top
}

// drawEvents marks when events are on, in the past that is drawn and ahead, from zero to the top of the chart.
func (r *forecastResult) drawEvents(p *plot.Plot) error {
	if r.in.calendar == nil {
		return nil
	}
	s := r.in.series
	from, to := s.TimeAt(r.chartFrom()), s.TimeAt(s.Len()+r.ensemble.Steps())
	seen, top := map[string]bool{}, r.chartTop()
	for _, o := range r.in.calendar.Occurrences(r.in.eventsFor, from, to) {
		left, right := float64(max(o.Start.Unix(), from.Unix())), float64(min(o.Done.Unix(), to.Unix()))
		band, err := plotter.NewPolygon(plotter.XYs{{X: left}, {X: right}, {X: right, Y: top}, {X: left, Y: top}})
		if err != nil {
			return err
		}
		band.Color, band.LineStyle.Width = chartEvent, 0
		p.Add(band)
		if !seen[o.Name] {
			seen[o.Name] = true
			p.Legend.Add("event "+o.Name, band)
		}
	}
	return nil
}
