package planner

import (
	"testing"

	"pgregory.net/rapid"
)

// TestInsuranceOnlyRaises: survival and standby never lower a plan, and a plan never grows by more than they name.
func TestInsuranceOnlyRaises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		s.Models = s.Models[:1]
		name := s.Models[0].Name
		plain := mustDecide(t, s, p).Models[0]
		m := p.Models[name]
		m.Survive = rapid.SampledFrom([]Survival{"", SurviveNode, SurviveZone, SurviveSpotPool}).Draw(t, "survive")
		if rapid.Bool().Draw(t, "standby") {
			m.Standby = &Standby{For: name, Share: rapid.Float64Range(0.01, 1).Draw(t, "share")}
		}
		p.Models[name] = m
		insured := mustDecide(t, s, p).Models[0]
		if (plain.Replicas == nil) != (insured.Replicas == nil) {
			t.Fatalf("one has a plan: %v, %v", plain.Replicas, insured.Replicas)
		}
		if plain.Replicas == nil {
			return
		}
		if *insured.Replicas < *plain.Replicas {
			t.Fatalf("the plan of %d falls to %d", *plain.Replicas, *insured.Replicas)
		}
		added := 0
		for _, in := range insured.Insurance {
			if in.Replicas < 0 || in.GPUs != in.Replicas*s.Models[0].Shape.GPUs*s.Models[0].Shape.Pods {
				t.Fatalf("insurance of %+v", in)
			}
			added += in.Replicas
		}
		if *insured.Replicas < added {
			t.Fatalf("%d of a plan of %d are named", added, *insured.Replicas)
		}
		if grown := *insured.Replicas - *plain.Replicas; grown > added {
			t.Fatalf("the plan grows by %d, %d are named", grown, added)
		}
	})
}
