// Package planner is where capacity is chosen, and the only place: Decide turns the facts of one moment (State) and the
// wishes of its owner (Policy) into everything to do and why (Decision). It is a pure function: no I/O, no clock, no
// global randomness. The live loop and the simulator differ only in who fills State and who carries Decision out.
//
//	Observation ─ Tracker ─ State ─┐
//	                               ├─ Decide ─ Decision ─ (answers, writes) ─ the world ─ Observation …
//	                      Policy ──┘                └─ Memory ─ State of the next tick
//
// Decide runs one model through
//
//	demand.go  sample paths of prompt and completion tokens/s, offered load now, what is missing
//	group.go   models that others serve too: their load is divided by role, and among variants by the cheapest mix
//	           (variant.go)
//	size.go    load ÷ Profile → replicas that must serve now; the reactive floor from load and queue. Physics become
//	           rates for the mix of the moment in capacity.go and lateness.go
//	place.go   probe: which slot would the next replica get → start path → lead time
//	warm.go    raise and hold: quantiles over paths of the peak need → replicas that must run or be starting
//	           (warm_cost.go in the mode cost); insure.go adds what must survive a loss or stand by for another region
//	veto.go    diagnose.go: is more capacity the remedy at all? Vetoes hold growth
//	guard.go   limits, scale-down window, blindness; up beats down
//	place.go   what the inventory can hold; leftovers are shortfalls with their cause
//	tier.go    when GPUs are short lower tiers yield to higher ones
//	pools.go   room for what is needed by the time that a new node could serve (buffers), and nodes per pool
//	quota.go   quotas to match, by the time that batch work could leave
//	order.go   everything that changes, in an order that is safe to stop anywhere in
//	hpa.go     the answer that makes the HPA arrive at the plan
//
// and every stage leaves a Step that says the number, the reason, what bound it and what was rejected.
//
// The hardware of one Decide is a room (room.go): what is placed is taken from it, replicas that wait for a node and those
// that a rollout may add first, then each model's new ones by name, then the buffers. Nodes under way are in it, nodes that
// the provider has no stock for (stock.go) are not.
//
// # Rules
//
// Unknown is never zero: facts that may be missing are pointers, and nil holds or raises the plan, never lowers it. A fact
// that breaks its invariant counts as missing and holds its own model (sound.go).
// Starting replicas are supply, with the time each still needs drawn from its lead-time distribution. The horizon of a
// model's forecast is the lead time of the slot its next replica would get. The plan is never below the reactive floor.
// The same State and Policy give the same Decision byte for byte (same GOARCH and Go version).
//
// # Glossary
//
//   - load: prompt tokens/s (prefill work) and completion tokens/s (decode work), never added up; offered load is what
//     clients ask for, throughput what was served (clipped at saturation).
//   - replica: one serving unit of a model, k GPUs on each of n pods. Ready replicas serve; starting ones were ordered;
//     leaving ones are terminating and count nowhere.
//   - serving: the replicas the load of this moment needs; warm: planned beyond that, ready before the burst.
//   - mix: what the requests are like, means and spreads of prompt and completion; it moves what a replica carries.
//   - shape: GPUs per pod, pods per replica, product, topology level that must hold it.
//   - variant: one of the workloads that can carry a model's load, of its own shape and price; role: prefill or decode,
//     when both are in pools of their own. Each is a model of the State that Serves the one whose load it is.
//   - tier: a model's priority when GPUs are short.
//   - lead time: from ordering a replica to its first token; start path: cold node, warm node, cached weights.
//   - service level τ: the share of sample paths on which the plan must be enough over the lead window.
//   - coverage: how often the quantiles of past forecasts held. One that held too rarely is read at a higher level
//     (coverage.go); a good one lowers nothing.
//   - snapshot: what the forecasters of a model have learned, which a later Tracker goes on with (track_snapshot.go).
//   - buffer: room kept free for replicas that are needed sooner than a node ordered later could be there.
//   - shortfall: a part of the plan that the inventory cannot hold, with its cause. A result, not an error.
//   - hold: keep the previous plan because a fact is missing or it is too early to shrink.
//   - tick: one observe → Decide → publish → apply round; Δ is the time between two.
package planner
