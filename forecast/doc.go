// Package forecast turns demand history into sample paths of future demand.
//
// It decides nothing about replicas, nodes or GPUs and does not know what its numbers mean: a Series is one quantity
// (prompt tokens per second, say) on a regular grid, an Ensemble is what that quantity may do next. It performs no I/O,
// reads no clock and uses no global randomness: time comes in with the data, randomness as a seeded *rand.Rand.
//
// Reading order: Series (history, gaps, wall-clock time) → Forecaster (the state machines: LastValue, SeasonalNaive and
// DampedDrift, the methods to beat, and Auto) → Blocks (which past errors a path replays; shared by series that must
// stay joint) → Ensemble (the answer: quantiles of a step and of the peak over a window) → Backtest (how good it was).
// A Calendar holds events that change demand at known times; WithEvents puts it around any Forecaster, and Effects says
// what each event did, does and will do.
//
// Inside Auto a value goes this way: squash (the scale on which errors of small and of large demand are alike) → past
// (what is remembered) → seasons (level, shape of the day and week) → experts, each a state machine: hold, trend,
// lagged, profiled, holtWinters, autoregression, harmonic, quantileRegression, and replay, which repeats what followed
// this hour → jump (which origins stand before a burst) → band (one per step ahead and one for the peak, apart for
// origins before a jump: aggregation of the experts, per quantile, and conformal correction) → templates (the joint
// paths) → record (skill and coverage) → snapshot. Series.Inherit and Series.BorrowShape lend a young series a history.
//
// Missing values are NaN in a Series and never appear in an Ensemble. Missing is never zero: a gap leaves a forecaster
// with its last knowledge.
//
// References: Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 3rd ed. (§5.2 simple methods, §8.2
// damped trend, §5.5 bootstrapped prediction intervals); Gneiting, Making and evaluating point forecasts, JASA 2011
// (pinball loss). Each expert, and each part of Auto, names its own.
package forecast
