package planner

import (
	"fmt"
	"strings"
)

// Sound is s without the facts that break an invariant: each becomes a missing fact, with a Gap that says what was wrong
// with it. So one model's unusable facts hold that model and no other; hardware of which one number is wrong is unknown
// as a whole, since what else of it is right cannot be told. What is broken about the State itself (its time, the names and
// their order, its Memory) is left to Decide to refuse. s is not modified, and a sound State is returned as it is.
func (s State) Sound() State {
	var gaps []Gap
	models := s.Models
	for i := range s.Models {
		broken := s.Models[i].broken(s.shapeLeftOut(s.Models[i].Name))
		if len(broken) == 0 {
			continue
		}
		if &models[0] == &s.Models[0] {
			models = append([]ModelState(nil), s.Models...)
		}
		for _, b := range broken {
			models[i].leaveOut(b.fact)
			gaps = append(gaps, Gap{Model: models[i].Name, Fact: b.fact, Since: s.Now, Detail: b.err.Error(), Invalid: true})
		}
	}
	s.Models = models
	if s.Inventory != nil {
		if errs := s.Inventory.problems(); len(errs) > 0 {
			gaps = append(gaps, Gap{Fact: "inventory", Since: s.Now, Detail: joined(errs), Invalid: true})
			s.Inventory = nil
		}
	}
	if err := s.Evidence.problem(); err != nil {
		gaps = append(gaps, Gap{Fact: "evidence", Since: s.Now, Detail: err.Error(), Invalid: true})
		s.Evidence = nil
	}
	if len(gaps) > 0 {
		s.Gaps = append(append([]Gap(nil), s.Gaps...), gaps...)
	}
	return s
}

func joined(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// shapeLeftOut says whether a model's empty shape is one that was invalid and is known to be left out.
func (s State) shapeLeftOut(model string) bool {
	for _, g := range s.Gaps {
		if g.Invalid && g.Model == model && g.Fact == "shape" {
			return true
		}
	}
	return false
}

// brokenFact is a fact of a model that breaks an invariant.
type brokenFact struct {
	fact string // as in Gap
	err  error
}

// leaveOut makes a fact a missing one.
func (m *ModelState) leaveOut(fact string) {
	switch fact {
	case "shape":
		m.Shape = Shape{}
	case "profile":
		m.Profile = nil
	case "alternatives":
		m.Alternatives = nil
	case "requests":
		m.Requests = nil
	case "load":
		m.Load = nil
	case "lead_time":
		m.LeadTimes = nil // all of them: the path that is wrong may be the slowest
	case "waiting":
		m.Signals = Signals{}
	case "replicas":
		m.Replicas = nil
	case "forecast":
		m.Forecast = nil
	case "weights_on":
		m.WeightsOn = nil
	case "evidence":
		m.Evidence = nil
	case "actuator":
		m.Actuator = nil
	default:
		panic(fmt.Sprintf("planner: no fact %q to leave out", fact))
	}
}

// invalidFacts says which facts of the model were left out as invalid; "" for none.
func invalidFacts(gaps []Gap, model string) string {
	var facts []string
	for _, g := range gaps {
		if g.Invalid && g.Model == model {
			facts = append(facts, strings.ReplaceAll(g.Fact, "_", " "))
		}
	}
	if len(facts) == 0 {
		return ""
	}
	return "invalid facts were left out: " + strings.Join(facts, ", ")
}
