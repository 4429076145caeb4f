package planner

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
)

// spoil breaks one fact of a model, and returns its name.
func spoil(t *rapid.T, m *ModelState) string {
	fact := rapid.SampledFrom([]string{"shape", "profile", "requests", "load", "lead_time", "waiting", "replicas", "forecast",
		"actuator"}).Draw(t, "fact")
	switch fact {
	case "shape":
		m.Shape.GPUs = rapid.IntRange(-2, 0).Draw(t, "gpus")
	case "profile":
		m.Profile = &Profile{Prompt: TokenRate(nan), Completion: -1}
	case "requests":
		m.Requests = &RequestMix{Prompt: Tokens(nan)}
	case "load":
		m.Load = &ObservedLoad{At: monday, Load: Load{Prompt: TokenRate(nan)}}
	case "lead_time":
		m.LeadTimes = []coldstart.LeadTime{{Path: coldstart.WarmNode, Support: []time.Duration{2, 1}, CDF: []float64{0.9, 0.5}}}
	case "waiting":
		m.Signals.Waiting = &nan
	case "replicas":
		m.Replicas = &Replicas{Ready: -1}
	case "forecast":
		f := Forecast{}
		if m.Forecast != nil {
			f = *m.Forecast
		}
		f.Completion.Step++
		m.Forecast = &f
	case "actuator":
		m.Actuator = &Actuator{ScaleUpTolerance: nan}
	}
	return fact
}

// TestInvalidFactsHoldTheirOwnModel: a fact that breaks its invariant never stops Decide, lowers no plan of its model below
// the last one (or what runs), changes no other model's decision, says what was left out, and the State without it is
// decided to the same bytes.
func TestInvalidFactsHoldTheirOwnModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		s.Inventory = nil // with it, the slots that one model does not take go to the others
		good := mustDecide(t, s, p)
		at := rapid.IntRange(0, len(s.Models)-1).Draw(t, "model")
		bad := copyState(t, s)
		name := bad.Models[at].Name
		fact := spoil(t, &bad.Models[at])
		d := mustDecide(t, bad, p)
		if !slices.ContainsFunc(d.Gaps, func(g Gap) bool { return g.Invalid && g.Model == name && g.Fact == fact && g.Detail != "" }) {
			t.Fatalf("no gap for %s of %s: %+v", fact, name, d.Gaps)
		}
		for i := range d.Models {
			if i != at && !bytes.Equal(mustJSON(t, d.Models[i]), mustJSON(t, good.Models[i])) {
				t.Fatalf("%s of %s changes %s:\n%s\n%s", fact, name, d.Models[i].Name, mustJSON(t, d.Models[i]), mustJSON(t, good.Models[i]))
			}
		}
		last, known := 0, false
		for _, m := range s.Memory.Models {
			if m.Name == name {
				last, known = m.Replicas, true
			}
		}
		if most := p.For(name).ReplicasMax; most > 0 {
			last = min(last, most)
		}
		if plan := d.Models[at].Replicas; known && (plan == nil || *plan < last) {
			t.Fatalf("without %s the plan is %s, the last was %d", fact, countText(plan), last)
		}
		sound := bad.Sound()
		if err := sound.Validate(); err != nil {
			t.Fatalf("what is left is not sound: %v", err)
		}
		if again := mustJSON(t, mustDecide(t, copyState(t, sound), p)); !bytes.Equal(again, mustJSON(t, d)) {
			t.Fatalf("the sound State decides otherwise:\n%s\n%s", again, mustJSON(t, d))
		}
	})
}
