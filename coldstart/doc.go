// Package coldstart answers one question from measurements: when a replica is ordered now, when will it serve?
//
// A Sample is one observed start, cut into Phases (each with its Source) and labelled with its start path (cold node,
// reclaimed node, warm node, cached weights). A Ledger holds samples and estimates, for a Key of model, shape and path, a LeadTime: a distribution, not a
// number. Starts that have not finished are right-censored samples: a pod still starting after ten minutes says "longer
// than ten minutes" and raises the estimate. A key without samples of its own borrows from its parents and says so.
//
// The caller's loop: Add every start it watches, again as a pending one ages and once more when it ends; Estimate for the
// key of the slot the next replica would get; then read
//
//	lt := ledger.Estimate(key, now)
//	if !lt.Known() { ... }            // hold: unknown is never zero
//	horizon := lt.Quantile(0.95)      // order this long before the need
//	eta := lt.Remaining(age, 0.95)    // for a replica that has been starting for age
//	draw := lt.Sample(rng.Float64())  // a lead time per sample path; the randomness is the caller's
//
// Before there are measurements, lead times are stated (StatedDuration, StatedQuantiles, Ledger.SetStated) or come from a
// samples file (ReadSamples); with neither, published figures stand in for a model whose weights are known (SetWeights).
// Reading order: sample.go, timeline.go (how evidence becomes phases that sum to the total), leadtime.go, ledger.go,
// estimate.go (where samples come from and how thin ones are topped up, with a worked example), productlimit.go, shift.go
// (starts that change their level), weights.go. Package evidence reads what starts leave behind.
//
// It refuses to know how a start is watched, and what to do about a slow one.
//
// It performs no I/O except on an io.Reader it is given, reads no clock and uses no global randomness. Units:
// time.Duration throughout; the samples file is in seconds.
//
// References: Kaplan and Meier, Nonparametric estimation from incomplete observations, JASA 1958 (product-limit
// estimate); Brown, Hollander and Korwar 1974 (exponential tail beyond the last censored observation).
package coldstart
