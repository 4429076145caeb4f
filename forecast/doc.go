// Package forecast turns demand history into sample paths of future demand.
//
// It decides nothing about replicas, nodes or GPUs and does not know what its numbers mean: a Series is one quantity
// (prompt tokens per second, say) on a regular grid, an Ensemble is what that quantity may do next, in the same unit.
// It performs no I/O, reads no clock and uses no global randomness: time comes in with the data, randomness as a
// seeded *rand.Rand. What a caller does:
//
//	f := forecast.NewAuto(forecast.Options{Horizon: 30}) // steps ahead that matter most
//	err := f.Fit(series)                                 // once, on weeks of history
//	for each step {
//		f.Update(value, atLeast) // NaN is missing; atLeast: clients asked for at least this much
//		blocks := forecast.DrawBlocks(rng, clock, 200, 30) // once for all series that must stay joint
//		ensemble := f.Sample(30, blocks)
//		ensemble.PeakQuantile(0.95, from, to) // what a plan is sized on
//	}
//
// # Reading order
//
//   - Series (series.go): values on a grid, gaps, lower bounds, wall-clock time (wallclock.go); ReadCSV and Resample
//     bring them in.
//   - Forecaster (forecaster.go): Fit, Update, Sample. LastValue, SeasonalNaive and DampedDrift are the methods to
//     beat (single.go, history.go, paths.go); Auto is what plans use.
//   - Blocks (blocks.go): which past errors a path replays. Two series sampled with the same Blocks stay together,
//     prompt and completion tokens of one model for example.
//   - Ensemble (ensemble.go): the answer, with quantiles of a step and of the peak over a window.
//   - Backtest (backtest.go, report.go): how good a forecast would have been, and score.go, by which losses.
//   - Calendar and Effects (events.go, events_effects.go): what changes demand at known times. WithEvents puts them
//     around any Forecaster, which then sees demand without events.
//   - Series.Inherit and Series.BorrowShape (borrow.go): a young series takes over a history, or the shape of one,
//     and says so.
//
// # Inside Auto
//
// A value goes this way (mixture.go, step): squash, the scale on which errors of small and of large demand are alike
// → past, what is remembered: two days step by step, means of ten minutes before → seasons, the level and the shapes
// of day and week in local time → the experts, each a state machine with one centre per knot:
//
//	last        the last value (these five in expert.go)
//	drift       damped trend
//	snaive      this time on the last day of its class, as it was
//	daylevel    the median of three such days, moved to the level of now
//	weeklevel   the mean of this day of the last two weeks, moved to the level of now
//	profile     what days of this class do, minute by minute (profiled.go)
//	dshw        double-seasonal Holt-Winters (holtwinters.go)
//	stlar       an autoregression on what the shapes leave over (autoregression.go)
//	harmonic    waves of day and week with an autoregressive error (harmonic.go)
//	peakratio   the level times the usual ratio of peak to level at this time of day (for the peak only)
//	quantreg    linear quantile regressions on lags and calendar (quantreg.go)
//	replay      what followed this hour on earlier days (replay.go)
//
// Knots are up to eight steps ahead, in a geometric row to the horizon, and the peak over the horizon is one more.
// For each there is a band (band.go), another for origins before a jump (jump.go): it aggregates the experts'
// quantiles by the pinball loss they have had lately, and a conformal correction (conformal.go) moves each quantile
// until it holds as often as it says. Quantiles are sorted, so that they never cross. templates (shuffle.go, bend.go)
// then give sample paths these quantiles and the ups and downs of past errors, and the peaks of the paths the
// quantiles of the peak. The spread that quantiles are measured in follows how restless the series is (steady.go)
// and how wrong forecasts of this minute of the hour are (hour.go).
// Analog days were tried and removed: they were not shown to lower the loss on a fifth of the series.
//
// # What it knows about itself
//
// Skill (skill.go, record.go) is its loss against the naive methods on its own past: what it has not won there gives
// it no authority to shrink a plan. Coverage (auto.go) is how often its quantiles have held. MarshalBinary
// (snapshot.go) keeps all of it, so that a restart goes on to the last digit.
//
// # Missing data
//
// Missing values are NaN in a Series and never appear in an Ensemble. Missing is never zero: a gap leaves a
// forecaster with its last knowledge. A lower bound (a throughput taken while requests waited) is never taken for
// demand that fell.
//
// # What falls short
//
// Quantiles of several experts are averaged, so that in an hour that holds a burst at an unsure minute the steps of
// many paths lie between nothing and the burst; their peaks do not. Bursts at times that nobody knows are not
// foreseen below the p99 of the peak. From a level of zero at night, the next noon is forecast up to half too low
// (the opening itself, within the hour before, is not): see shapes_test.go, which holds what does work.
//
// # References
//
// Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd ed. (§5.2 simple methods, §8.2 damped trend,
// §5.5 bootstrapped prediction intervals, §10.5 harmonic regression); Taylor, JORS 2003 (double seasons); Gaillard,
// Stoltz and van Erven, COLT 2014 (ML-Poly); Berrisch and Ziel, Journal of Econometrics 2023 (CRPS learning);
// Angelopoulos, Candès and Tibshirani 2023 and Zaffran et al. 2022 (adaptive conformal inference); Schefzik et al.,
// Statistical Science 2013 (paths from quantiles); Gneiting, JASA 2011 (pinball loss). Each part names its own.
package forecast
