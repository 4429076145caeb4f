package planner

import (
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the evidence says, the plan is never below what stands (what runs or starts, and the last plan), nor below the
// reactive floor, as far as the plan without evidence was not; and where the load exceeds what the ready replicas carry,
// it is not lowered at all.
func TestVetoOnlyHoldsGrowth(t *testing.T) {
	var snapshots []snapshot
	files, _ := filepath.Glob(filepath.Join("testdata", "diagnose", "faults", "*.json"))
	for _, f := range files {
		snapshots = append(snapshots, readSnapshot(t, f))
	}
	held := 0
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		// One model: the room that a held model leaves free may give the next one a slot that starts sooner, and so a
		// smaller plan, which is no veto's doing.
		s.Models = s.Models[:1]
		if rapid.Bool().Draw(t, "burst") { // what vetoes are about: growth ahead, and enough replicas for now
			ready := rapid.IntRange(1, 8).Draw(t, "ready")
			s.Models[0] = constantModel(s.Now, 10_000*float64(rapid.IntRange(0, 12).Draw(t, "ahead")), &Replicas{Ready: ready})
			s.Models[0].Load.Prompt = TokenRate(9_000 * float64(ready) * rapid.SampledFrom([]float64{.5, .9, 1.3}).Draw(t, "load"))
		}
		without := mustDecide(t, copyState(t, s), p)
		shot := snapshots[rapid.IntRange(0, len(snapshots)-1).Draw(t, "snapshot")]
		s.Models[0].Evidence = movedEvidence(shot, s.Now)
		s.Evidence = movedCluster(shot, s.Now)
		with := mustDecide(t, s, p)
		a, b := without.Models[0], with.Models[0]
		if (a.Replicas == nil) != (b.Replicas == nil) {
			t.Fatalf("evidence made the plan %v of %v", b.Replicas, a.Replicas)
		}
		if a.Replicas == nil || *b.Replicas >= *a.Replicas {
			return
		}
		held++
		m := &s.Models[0]
		if m.Replicas == nil {
			t.Fatalf("the plan went from %d to %d and nobody knows what runs", *a.Replicas, *b.Replicas)
		}
		stands := m.Replicas.supply()
		for _, mm := range s.Memory.Models {
			if mm.Name == m.Name {
				stands = max(stands, mm.Replicas)
			}
		}
		if maximum := p.For(m.Name).ReplicasMax; maximum > 0 {
			stands = min(stands, maximum)
		}
		if *b.Replicas < stands || a.Serving > m.Replicas.Ready {
			t.Fatalf("the plan went from %d to %d: %d stand, %d serve of %d ready", *a.Replicas, *b.Replicas, stands, a.Serving,
				m.Replicas.Ready)
		}
	})
	if held == 0 {
		t.Error("no veto ever held anything: the property proves nothing")
	}
}

func movedEvidence(s snapshot, now time.Time) *Evidence {
	later := now.Sub(s.Now)
	e := *s.Model.Evidence
	e.Pods = append([]PodEvidence(nil), e.Pods...)
	e.From, e.To = e.From.Add(later), e.To.Add(later)
	for i := range e.Pods {
		made := e.Pods[i].Created.Add(later)
		e.Pods[i].Created = &made
	}
	return &e
}

func movedCluster(s snapshot, now time.Time) *ClusterEvidence {
	later := now.Sub(s.Now)
	c := *s.Cluster
	c.From, c.To = c.From.Add(later), c.To.Add(later)
	return &c
}
