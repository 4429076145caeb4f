// Package prom reads facts from Prometheus, or from Thanos, Mimir or VictoriaMetrics speaking its API: the load of each
// model as per-step rates, the engines' queues, and replicas as kube-state-metrics reports them. It decides nothing.
//
// Reading order: Config and ModelConfig (what a model is: label matchers over workloads) → catalog.go (which engine
// exposes which metric under which names) → Source.Resolve (which of them exist here) → expr.go (the queries) →
// Source.History and Source.Observe (the facts) → Source.Check (what a person should repair).
//
// # A step's rate
//
// Values[i] of a series covers [Start+i·Step, +Step): it is read at its end T. A counter scraped every s seconds is read
// as rate(x[step+s−1ms]) at T. Whatever the phase of the scrapes, that window holds exactly the samples at both ends of
// floor(step/s) whole scrape intervals, so consecutive steps tile the counter's increments: none is lost between two
// windows (rate over one step would lose one interval of each) and none is counted twice (rate over step+s would, when
// scrapes fall on the boundary of a closed window). rate divides by the time the samples span, and follows resets.
// Increments between the last scrape before a reset and the reset itself are not knowable. When a counter begins at zero
// inside the window, rate declines to extrapolate below zero: the first step of a new replica reads low by at most
// s/(step+s), the time of one scrape.
//
// # Missing is missing
//
// A step is missing (NaN) unless the best-covered series of the model has floor(step/s)+1 samples in the window, that is
// every scrape: rate over a half-empty window would smear what was seen over the gap. Where only some replicas miss
// scrapes (fewer pods fully covered than kube-state-metrics counts ready throughout the step), what was seen is a lower
// bound and marked AtLeast. So is every step in which requests waited: then tokens are clipped at what replicas can do.
// Gateways are no exception, because they count tokens when an answer is complete, and requests when they are placed.
//
// A warning in an answer means that parts of the server did not answer: the steps it covers are missing. No series at
// all is missing and a finding, never a zero load.
package prom
