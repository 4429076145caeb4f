package planner

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOnlyLowerTiersYield: a plan is lowered for another model only when that one is of a higher tier and short or waits for
// a node, never below ReplicasMin, and never while facts about it are missing or it is paused.
func TestOnlyLowerTiersYield(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		for _, state := range s.Models {
			m := p.Models[state.Name]
			m.Priority = rapid.IntRange(0, 2).Draw(t, "tier")
			p.Models[state.Name] = m
		}
		d := mustDecide(t, s, p)
		for i := range d.Models {
			m := &d.Models[i]
			at := slices.IndexFunc(m.Steps, func(s Step) bool { return s.BoundBy == "a higher tier" })
			if at < 0 {
				continue
			}
			policy := p.For(m.Name)
			if *m.Replicas < policy.ReplicasMin {
				t.Fatalf("%s yields to %d, replicas_min is %d", m.Name, *m.Replicas, policy.ReplicasMin)
			}
			if strings.Contains(m.Held, "missing") || s.Models[i].Load == nil || s.Models[i].Profile == nil {
				t.Fatalf("%s yields although facts are missing: %s", m.Name, m.Held)
			}
			if a := s.Models[i].Actuator; a != nil && a.Paused {
				t.Fatalf("%s yields although it is paused", m.Name)
			}
			above := func(model string) bool { return p.For(model).Priority > policy.Priority }
			short := slices.ContainsFunc(d.Shortfalls, func(f Shortfall) bool { return above(f.Model) })
			waits := slices.ContainsFunc(s.Models, func(m ModelState) bool {
				return above(m.Name) && m.Replicas != nil && slices.ContainsFunc(m.Replicas.Starting,
					func(r StartingReplica) bool { return r.Pending })
			})
			if !short && !waits {
				t.Fatalf("%s of tier %d yields and no higher tier is short or waits for a node: %+v", m.Name, policy.Priority,
					d.Shortfalls)
			}
		}
	})
}

// TestTiersComeFirst: what a model of the highest tier gets of the slots does not depend on the models of lower ones.
func TestTiersComeFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		first := s.Models[len(s.Models)-1].Name
		m := p.Models[first]
		m.Priority = 1
		p.Models[first] = m
		together := mustDecide(t, s, p)
		alone := copyState(t, s)
		alone.Models = alone.Models[len(alone.Models)-1:]
		single := mustDecide(t, alone, p)
		short := func(d Decision) (n int) {
			for _, f := range d.Shortfalls {
				if f.Model == first {
					n += f.Replicas
				}
			}
			return n
		}
		if short(together) > short(single) {
			t.Fatalf("%s is short of %d beside others, and of %d alone", first, short(together), short(single))
		}
	})
}
