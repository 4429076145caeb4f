// Package sim is the world that forewarm is tried in: seeded or recorded demand for LLM models, GPU nodes, replicas that
// take minutes to start, an emulated KEDA and HPA between an answer and the replicas, and the measurements a planner would
// see. Replay tries policies in it, the production planner and its peers, and scores them.
//
// The world decides nothing about replicas: it says what happens when somebody decides. The package does no I/O, reads no
// clock and uses no global randomness. Time is virtual: it moves when Advance or Observe is told an instant. The same World
// and seed give the same events, whatever the machine's clock, as long as the same answers are applied at the same
// instants.
//
//	Generator, Trace ─ requests ─ router ─ front queue ─ replicas (batch) ─ served, TTFT, ITL ─ Stats
//	   │                                                    ▲ starts, drains
//	History                                   nodes, pools ◀─ Deployment ◀─ HPA ◀─ answer or triggers
//	   ▼                                                                        ▲ Apply    ▲
//	Observe ─ as old as the scrape lag ─ Tracker ─ State ─ planner.Decide ─ Decision       │
//	scraper ─ as old as the scrape lag ─ sight ─ policy ───────────────────────────────────┘
//
// Run is the outer loop for one Tracker in virtual time, Replay that of a Scenario and a policy. Reading order: Workload
// (what clients ask for), Generator (one realisation of it), World (everything else), Cluster (the events), Scenario,
// Replay, then the policies (policies.go names them) and the oracles (bound.go, oracle.go).
//
// # What policies may know
//
// A policy sees gauges and loads as they were a scrape lag ago, the start times of starts that were watched, and a profile
// of the replicas that is wrong by the scenario's profile error. It never reads Model.Physics, Model.Engine (but for
// settings of the engine that its operator knows: slots and batched tokens) or Model.Startup. The oracles read everything.
//
// # What is real and what is simplified
//
// Demand is recorded, or fitted to public traces (fitted.go names them). Start phases and replica physics carry figures
// published by others (demo.go names them). A replica is the iterations themselves (package engine) where a Model has an
// Engine, and a fluid of them (server.go) where it has Physics, without KV memory, preemption and prefix caches. Kueue's
// quotas, disaggregated prefill and decode, and multi-pod replicas are not modelled. A Decision's pool and quota targets
// are not acted upon: nodes are launched by replicas that do not fit, as Karpenter does.
//
// Every replay checks that its books balance: see Cluster.balance.
//
// References: Patel et al., Splitwise, ISCA 2024 (the Azure LLM inference traces 2023); Xiang et al., ServeGen,
// arXiv:2505.09999 (heavy clients); Kubernetes KEP-853 and KEP-4951 (HPA behaviour and tolerance); the policies name
// theirs.
package sim
