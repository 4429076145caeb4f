// Package benchmark compares the forecaster of this repository with the methods of R's forecast package and of Python's
// statsmodels on real demand series, and says how well its quantiles of the peak hold.
//
// It decides nothing and is linked into no program: this package is the scoring, and the tests behind the build tag
// "peers" run everything (`make bench-peers`). Reading order: Case (a series and where it is forecast) → Prediction and
// Loss (what is scored) → Run (ours) → Job, Result (theirs, by way of the scripts in drivers/) → Match and Verdict (the
// comparison) → CalibrationRow (coverage, and two baselines without a model) → Report (the tables).
//
// # The same for everyone
//
//   - Series: every demand column in ../shared/data/demand. A column "gap" marks rows that are missing, and it and shares
//     of what is known are no demand. A wide table gives its first columns to every method; the later ones, beyond
//     -columns, are left to methods whose fit takes seconds at most, and are summed up apart. A series finer than ten
//     minutes and at least four days long is forecast a second time at ten minutes, where methods can take its seasons.
//   - Test part: the second half of each series. Horizons: 10 and 60 steps up to a step of a minute, 6 and 36 steps
//     above, so an hour ahead is the long one at one minute and the short one at ten.
//   - Origins: at most -origins per horizon, spread over the test part on no multiple of a season; windows of one horizon
//     do not overlap, and one with fewer than ten is not compared. Calibration uses all windows of the short horizon.
//   - Quantiles: 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99 of every step, and of the peak over the horizon.
//   - Score: WQL = 2·Σ pinball ÷ Σ|y|, averaged over quantiles. An unknown value is not scored. A missing, infinite, NaN or
//     crossing quantile makes the whole list of its step a failure, which is charged the worse of having said zero and
//     having said twice the largest value seen (Case.StepLoss): nobody gains by abstaining.
//   - Nothing after an origin is seen; a test changes the future and compares.
//
// # Ours
//
// forecast.New("auto") with the horizon it is scored on, fitted once on the first half, updated with every value, sampled
// with the number of paths that the planner draws. Nothing is chosen by hand.
//
// # Theirs
//
// A window of at most 28 days that ends at the origin; gaps in it are filled by straight lines. Seasons: a day if the
// window holds two, a week if it holds two. Parameters are fitted daily; for methods whose fit takes long every four days
// and at most three times. In between the fitted model is re-applied to the window up to the origin, which keeps the
// start that it was fitted from, so that seasonal states stay in phase; with each fit the window moves. A fit has a limit
// of processor time (-limit); a method that exceeds it at its first fit is not available on that series, later it keeps
// its older parameters. The scripts say how each method is called and what it cannot take.
//
// Each method is scored twice: with its own prediction intervals and, for peaks, paths simulated from its model ("own");
// and with the empirical quantiles of its own errors, whole trajectories of them, at twenty origins inside its first
// window and at all later ones that have matured by the origin, at most a hundred ("residual"). Negative quantiles of
// demand that never was negative are set to zero.
//
// Ours is compared with the best method and interval of each suite on each series and horizon, chosen with the outcome
// known. That choice favours the peers. Intervals are by bootstrap over origins, with the choice kept.
//
// Results of peers are kept in the user's cache folder under forewarm-peers, by series, method, settings and a hash of
// values, origins and driver. A run with another version of ours costs only ours.
package benchmark
