package benchmark

import (
	"math/rand/v2"
	"time"

	"forewarm/forecast"
)

// Cost is what ours needed on one series. Times are of the processor.
type Cost struct {
	Fit                time.Duration
	FitSteps           int
	Update, Forecast   time.Duration // of all updates, and of all forecasts
	Updates, Forecasts int
}

// Run fits f on the part of c before the test part and rolls it through the test part: every value is handed to it with
// Update in turn, and it is sampled at each origin, where it has seen the values until then. origins ascend and begin at
// Split−1 or later. clock tells the processor time used so far. The error is that of Fit.
func Run(c Case, f forecast.Forecaster, origins []int, horizon, paths int, seed uint64,
	clock func() time.Duration) (Predictions, Cost, error) {
	cost := Cost{FitSteps: c.Split}
	at := clock()
	lap := func(d *time.Duration) {
		now := clock()
		*d += now - at
		at = now
	}
	if err := f.Fit(c.until(c.Split - 1)); err != nil {
		return nil, cost, err
	}
	lap(&cost.Fit)
	out := Predictions{}
	next := c.Split
	for _, o := range origins {
		for ; next <= o; next++ {
			f.Update(c.Series.Values[next], c.Series.AtLeast != nil && c.Series.AtLeast[next])
			cost.Updates++
		}
		lap(&cost.Update)
		rng := rand.New(rand.NewPCG(seed, 0x726f6c6c)) // "roll"; renewed, so that every origin draws alike
		blocks := forecast.DrawBlocks(rng, c.until(o).BlockClock(), paths, horizon)
		out[o] = Summarise(f.Sample(horizon, blocks))
		cost.Forecasts++
		lap(&cost.Forecast)
	}
	return out, cost, nil
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
