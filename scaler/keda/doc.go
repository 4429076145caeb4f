// Package keda tells KEDA how many replicas the plan wants. It serves KEDA's ExternalScaler gRPC contract, health and
// reflection; every answer is read from memory, nothing is computed, fetched or locked during a call.
//
//	Decision ─ Publish ─ board (atomic pointer) ─┬─ GetMetricSpec, GetMetrics, IsActive   (per HPA poll, 15 s)
//	                                             └─ StreamIsActive, StreamMetricSpec      (external-push)
//
// It decides nothing: planner.ModelDecision.Answer is the number, and this package chooses only whether the number is
// still trustworthy. What KEDA gets in each condition:
//
//	condition                            GetMetricSpec      GetMetrics          IsActive
//	plan fresh                           constant target 1  replicas            replicas > 0
//	plan stale, younger than maxPlanAge  same               the last plan       the last answer
//	plan older, or never made            same               UNAVAILABLE         last known answer, or an error
//	unknown model                        same               NOT_FOUND           NOT_FOUND
//
// # Why it fails the way it does
//
// KEDA asks for the metric spec first; when that fails it has no metric to ask for, so `fallback` never fires and the
// other triggers of the same ScaledObject lose their metrics too (KEDA 2.21, pkg/scaling/scale_handler.go:806). Hence
// GetMetricSpec is answered whenever the model's name can be read: with or without a plan, and also when another
// metadata key is wrong; that mistake is told by GetMetrics. An error from GetMetrics counts towards `fallback`, leaves
// the sibling triggers alone and blocks scale-in. "Unknown" is always an error, never 0, -1 or NaN: KEDA reads those as
// zero replicas.
//
// IsActive moves a workload between 0 and 1 replica; a false nobody decided would scale to zero after the cooldown. KEDA
// sets no deadline on its calls and holds the ScaledObject's lock meanwhile, so the server has a deadline of its own.
//
// # Trigger metadata
//
//	model        required: the model's name as the plan has it
//	minReplicas  optional: an integer; raises the answer, never lowers it
//	maxPlanAge   optional: a duration such as 90s; shortens the server's max_plan_age, never lengthens it
//
// Each may be written with KEDA's suffix FromEnv. KEDA forwards its own keys as well (scalerAddress, enableTLS, …); they
// are ignored. Any other key is an error that names the nearest valid one.
//
// # Concurrency
//
// Publish and SetModels may be called at any time, also while serving. All methods of Server are safe for concurrent use.
package keda
