package planner

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// evidence takes what a snapshot of testdata/diagnose saw, moved to now.
func (w *scenario) evidence(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	m.state.Evidence, w.cluster = nil, nil
	if d.HasArg("none") {
		return ""
	}
	s := readSnapshot(t, filepath.Join("testdata", "diagnose", textArg(t, d, "snapshot", "")+".json"))
	m.state.Evidence, w.cluster = movedEvidence(s, w.now), movedCluster(s, w.now)
	return s.Proves + "\n"
}

// hpa sets up a model's autoscaler: up= and down= are its tolerances, pods= its only scale-up policy per 15 s, max= the
// ScaledObject's maxReplicaCount, desired= what the HPA asks for.
func (w *scenario) hpa(t *testing.T, d *datadriven.TestData) string {
	a := &Actuator{ScaleUpTolerance: 0.1}
	if d.HasArg("up") {
		a.ScaleUpTolerance = floatArg(t, d, "up")
	}
	if d.HasArg("down") {
		down := floatArg(t, d, "down")
		a.ScaleDownTolerance = &down
	}
	if d.HasArg("pods") {
		a.ScaleUp = &ScalingRules{Policies: []ScalingPolicy{{Pods: int(floatArg(t, d, "pods")), Period: 15 * time.Second}}}
	}
	for key, p := range map[string]**int{"max": &a.ReplicasMax, "desired": &a.HPADesired} {
		if d.HasArg(key) {
			n := int(floatArg(t, d, key))
			*p = &n
		}
	}
	a.ScaleOutPaused = d.HasArg("no-scale-out")
	w.named(t, d).state.Actuator = a
	return ""
}
