package benchmark

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// peakP90 and peakP99 are the quantiles of the peak that must hold, and the bars on them: the pooled coverage may be
	// off by pooledSlack90 and 99, that of one series of windowsMin windows or more may not be below least90 and 99.
	peakP90, peakP99             = 0.9, 0.99
	pooledSlack90, pooledSlack99 = 0.02, 0.005
	least90, least99             = 0.85, 0.975
	windowsMin                   = 500
)

// PeakScore is how the peak forecasts of one method on one series did, over windows that do not overlap.
type PeakScore struct {
	Hit90, Hit99 []float64 // 1 where the peak was at or below the quantile, else 0; a failed forecast covers nothing
	All, Upper   []Loss    // over all quantiles, and over those from 0.9 on
}

// PeakScore scores the peaks of p at origins. Windows with an unknown value are left out.
func (c Case) PeakScore(p Predictions, origins []int, horizon int) PeakScore {
	var s PeakScore
	ps := Quantiles()
	hit := func(level float64, qs []float64, y float64) float64 {
		if Valid(qs, len(ps)) && y <= qs[slices.Index(ps, level)] {
			return 1
		}
		return 0
	}
	for _, o := range origins {
		y := c.Peak(o, horizon)
		if math.IsNaN(y) {
			continue
		}
		qs := p[o].Peaks[horizon]
		s.Hit90 = append(s.Hit90, hit(peakP90, qs, y))
		s.Hit99 = append(s.Hit99, hit(peakP99, qs, y))
		s.All = append(s.All, c.PeakLoss(p[o], o, horizon, 0))
		s.Upper = append(s.Upper, c.PeakLoss(p[o], o, horizon, peakP90))
	}
	return s
}

// Coverage is the share of hits with its interval.
type Coverage struct {
	Share float64
	Interval
}

// missesMin is the number of misses below which drawing blocks says too little: without any, every draw is the same.
const missesMin = 5

// NewCoverage returns the coverage of hits, which are in order of time, with the interval of blocks of the given length;
// with fewer than missesMin misses the exact binomial one.
func NewCoverage(hits []float64, block int, rng *rand.Rand) Coverage {
	c := Coverage{Share: mean(hits), Interval: BlockInterval(hits, block, rng)}
	n := float64(len(hits))
	if covered := math.Round(c.Share * n); n > 0 && n-covered < missesMin {
		c.Interval = exact(covered, n)
	}
	return c
}

// block returns the number of windows that are drawn together: a day of them, because misses come together, but at most
// an eighth of all.
func (c Case) block(windows, horizon int) int {
	return max(1, min(int(day/c.Series.Step)/horizon, windows/8))
}

// CalibrationRow is one series of the calibration table: ours, and the two baselines' losses over the same windows.
type CalibrationRow struct {
	Name         string
	Windows      int
	Cov90, Cov99 Coverage

	Ours, Direct, Last PeakScore

	Cost Cost // of ours
}

// NewCalibrationRow scores our peak forecasts at the dense origins of c beside both baselines.
func NewCalibrationRow(c Case, ours Predictions, rng *rand.Rand) CalibrationRow {
	r := CalibrationRow{Name: c.Name, Ours: c.PeakScore(ours, c.Dense, c.Short)}
	r.Direct = c.PeakScore(c.DirectPeaks(c.Dense, c.Short), c.Dense, c.Short)
	r.Last = c.PeakScore(c.LastPeaks(c.Dense, c.Short), c.Dense, c.Short)
	r.Windows = len(r.Ours.Hit90)
	block := c.block(r.Windows, c.Short)
	r.Cov90 = NewCoverage(r.Ours.Hit90, block, rng)
	r.Cov99 = NewCoverage(r.Ours.Hit99, block, rng)
	return r
}

// Enough reports whether the row has the windows that the bars of one series ask for.
func (r CalibrationRow) Enough() bool { return r.Windows >= windowsMin }

// Holds reports whether the bars of one series hold: both nominal levels inside the interval, and neither share below
// the least where there are enough windows.
func (r CalibrationRow) Holds() bool {
	return r.Cov90.Contains(peakP90) && r.Cov99.Contains(peakP99) &&
		!(r.Enough() && (r.Cov90.Share < least90 || r.Cov99.Share < least99))
}

// Pooled is the coverage over all windows of all rows, and the geometric means of the peak losses' ratios.
type Pooled struct {
	Series, Windows int
	Cov90, Cov99    float64
	Direct90        float64 // the direct baseline's, to compare
	Direct99        float64
	Last90, Last99  float64

	DirectRatio, DirectUpper, LastRatio, LastUpper float64 // our loss ÷ theirs, all quantiles and the upper ones
}

// Pool pools rows.
func Pool(rows []CalibrationRow) Pooled {
	p := Pooled{Series: len(rows)}
	var hits [6][]float64
	var ratios [4][]float64
	for _, r := range rows {
		p.Windows += r.Windows
		for i, hs := range [][]float64{r.Ours.Hit90, r.Ours.Hit99, r.Direct.Hit90, r.Direct.Hit99, r.Last.Hit90, r.Last.Hit99} {
			hits[i] = append(hits[i], hs...)
		}
		for i, x := range r.ratios() {
			if !math.IsNaN(x) {
				ratios[i] = append(ratios[i], x)
			}
		}
	}
	p.Cov90, p.Cov99 = mean(hits[0]), mean(hits[1])
	p.Direct90, p.Direct99 = mean(hits[2]), mean(hits[3])
	p.Last90, p.Last99 = mean(hits[4]), mean(hits[5])
	p.DirectRatio, p.DirectUpper = GeometricMean(ratios[0]), GeometricMean(ratios[1])
	p.LastRatio, p.LastUpper = GeometricMean(ratios[2]), GeometricMean(ratios[3])
	return p
}

// Holds reports whether the pooled coverage is within its bars.
func (p Pooled) Holds() bool {
	return math.Abs(p.Cov90-peakP90) <= pooledSlack90 && math.Abs(p.Cov99-peakP99) <= pooledSlack99
}

// ratios returns our peak loss ÷ the direct baseline's and ÷ the last value's, over all quantiles and the upper ones.
func (r CalibrationRow) ratios() [4]float64 {
	return [4]float64{
		Ratio(r.Ours.All, r.Direct.All), Ratio(r.Ours.Upper, r.Direct.Upper),
		Ratio(r.Ours.All, r.Last.All), Ratio(r.Ours.Upper, r.Last.Upper),
	}
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
