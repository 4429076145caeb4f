// Package sim is the world that forewarm is tried in: seeded demand for LLM models, GPU nodes, replicas that take
// minutes to start, an emulated KEDA and HPA between an answer and the replicas, and the measurements a planner would
// see.
//
// It decides nothing about replicas: it says what happens when somebody decides. It does no I/O, reads no clock and uses
// no global randomness. Time is virtual: it moves when Advance or Observe is told an instant. The same World and seed
// give the same events, whatever the machine's clock, as long as the same answers are applied at the same instants.
//
//	Workload ─ Generator ─ requests ─ front queue ─ replicas (server) ─ served, TTFT, ITL ─ Stats
//	                          │                        ▲ starts, drains
//	                       History                  nodes, pools ◀─ Deployment ◀─ HPA ◀─ answer
//	                          ▼                                                            ▲ Apply
//	                       Observe ───────────── Tracker ─ State ─ planner.Decide ─ Decision
//
// Run is that outer loop in virtual time. Reading order: Workload (what clients ask for), Generator (one realisation of
// it), World (everything else), Cluster (the events), Run.
//
// # What is real and what is simplified
//
// Demand is fitted to public traces (fitted.go names them). Start phases and replica physics carry figures published by
// others (demo.go names them). A replica is a fluid of iterations (server.go), not the iterations themselves, which package
// engine runs and Cluster does not use yet; KV memory, preemption, prefix caches, quotas and multi-pod replicas are not
// modelled. A Decision's pool and quota targets are not acted upon: nodes are launched by replicas that do not fit, as
// Karpenter does.
//
// References: Patel et al., Splitwise, ISCA 2024 (the Azure LLM inference traces 2023); Xiang et al., ServeGen,
// arXiv:2505.09999 (heavy clients); Kubernetes KEP-853 and KEP-4951 (HPA behaviour and tolerance).
package sim
