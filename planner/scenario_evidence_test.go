package planner

import (
	"path/filepath"
	"testing"

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
