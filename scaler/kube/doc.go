// Package kube observes a cluster through the Kubernetes API: reflectors keep a small copy of the objects that capacity
// decisions depend on, and Observer turns them into facts of the planner: replicas by state, starts, inventory, quotas
// and the settings of each model's autoscaler. It reads only; it never writes an object.
//
//	objects ─ convert (pod.go, node.go, …) ─ shelf ─ world ─ replicas, starts, actuator, inventory, quotas ─ Observation
//
// # Reading
//
// One reflector of client-go per kind: a list from the API server's watch cache (resourceVersion=0; in pages where the
// server has to read its store), or a streaming list where the server offers one, then a watch. Nothing is polled.
// ReplicaSets are read as metadata only. Objects are converted before they are kept: of a pod remains its identity,
// owner, node, GPU requests and conditions. Kinds that may not be installed (KEDA, Kueue, Karpenter, LeaderWorkerSet,
// KServe, Ray, DRA) are read without their Go types, by field, in whichever version is served: a version newer than the
// one known still yields the facts it shares.
//
// # What is not there
//
// Kinds are looked up by API discovery at the start and again every Rediscover. A kind that is not installed is an
// Absence, which is stated and no error; one that appears later is picked up. A kind that is installed and could not be
// read (yet), or whose watch has been broken for longer than StaleAfter, makes the facts that need it unknown, with a
// Gap that says why: unknown is never zero.
//
// # Rules of the facts
//
// Terminating pods (DeletionTimestamp set) are in no count but Leaving, and hold their GPUs until they are gone. Free
// GPUs are allocatable minus the requests of bound pods that have not ended. GPUs of a node that shares them
// (time-slicing, MPS) are never read from allocatable, which counts shares. A model's workload is found through the
// ScaledObject with an external trigger whose metadata says `model: NAME`; pods belong to it when their chain of
// controlling owners leads to the scale target, whatever is in between (ReplicaSet, RayCluster, InferenceService).
//
// A start counts when it was watched. Its phases come from conditions of the pod and of its NodeClaim and from events
// (startphases.go), with StartLogs from the engine's log, and its end is the first answer when the metrics tell of one soon
// after readiness (startlogs.go). They sum to the total; what nobody tells is unattributed.
package kube
