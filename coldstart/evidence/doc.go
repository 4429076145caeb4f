// Package evidence takes starts apart that are over, from what they left behind: dumps of the cluster (pods, events,
// nodes, NodeClaims) and logs of the engine.
//
//	var c evidence.Cluster
//	err := c.ReadJSON(r, "pods.json")                // kubectl get -o json; ReadDescribe for kubectl describe
//	logs, err := evidence.ReadLog(r, "engine.log")   // vLLM, SGLang, TGI, llama.cpp; any length
//	starts, notes := evidence.Starts(&c, logs, evidence.Options{})
//
// Each Start is cut into coldstart.Phases that sum to its total exactly; every phase names its sources, and what none
// explains is unattributed. Reading order: starts.go (the rules where evidence overlaps), podstart.go (what the cluster
// tells), attempt.go (what a log tells), pattern.go (the lines that are evidence), line.go (the prefixes of a line).
//
// It refuses to know what a start means for a plan: that is the Ledger's. Limits: the pods of a replica of several pods
// are a start each; a pod's Ready condition has the time of its last change only, so that a replica that lost its
// readiness and got it back looks like a slow start unless its container was restarted long after its creation.
//
// It performs no I/O except on an io.Reader it is given and reads no clock. Event times are whole seconds, log times as
// fine as the log's.
package evidence
