package benchmark

import (
	"math/rand/v2"

	"forewarm/forecast"
)

// Roll forecasts c with f, which has been fitted on the part before c.Split: every value is handed to it with Update in
// turn, and it is sampled at each origin. At origin o it has seen values until o. origins ascend and begin at Split−1 or
// later.
func Roll(c Case, f forecast.Forecaster, origins []int, horizon, paths int, seed uint64) Predictions {
	out := Predictions{}
	next := c.Split
	for _, o := range origins {
		for ; next <= o; next++ {
			f.Update(c.Series.Values[next], c.Series.AtLeast != nil && c.Series.AtLeast[next])
		}
		rng := rand.New(rand.NewPCG(seed, 0x726f6c6c)) // "roll"; renewed, so that every origin draws alike
		blocks := forecast.DrawBlocks(rng, c.until(o).BlockClock(), paths, horizon)
		out[o] = Summarise(f.Sample(horizon, blocks))
	}
	return out
}

// Summarise returns the quantiles of every step and of the peak over all steps.
func Summarise(e forecast.Ensemble) Prediction {
	p := Prediction{Steps: make([][]float64, e.Steps()), Peaks: map[int][]float64{}}
	for k := range p.Steps {
		for _, q := range Quantiles() {
			p.Steps[k] = append(p.Steps[k], e.Quantile(q, k))
		}
	}
	for _, q := range Quantiles() {
		p.Peaks[e.Steps()] = append(p.Peaks[e.Steps()], e.PeakQuantile(q, 0, e.Steps()))
	}
	return p
}

// FitPart returns what a method is fitted on.
func (c Case) FitPart() forecast.Series { return c.until(c.Split - 1) }
