package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"forewarm/planner"
	"forewarm/scaler/prom"
)

// validateGroups reports what is wrong between the models that serve one load, and models that may go to zero although
// nothing would then show that they are asked for.
func (c *config) validateGroups() error {
	var errs []error
	for i := range c.Models {
		m := &c.Models[i]
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("models[%d] %q: %s", i, m.Name, fmt.Sprintf(format, args...)))
		}
		if !slices.Contains([]planner.Role{"", planner.RolePrefill, planner.RoleDecode}, m.Role) {
			bad("role is %q: prefill, decode or none are allowed", m.Role)
		}
		if m.Price != nil && !(*m.Price > 0 && *m.Price <= priceMax) {
			bad("price_per_hour is %v: above 0 to %d are allowed", *m.Price, priceMax)
		}
		head := c.head(m)
		switch {
		case m.Serves == "":
		case head == nil || head == m:
			bad("serves is %q: another name under models is allowed", m.Serves)
		case head.Serves != "":
			bad("serves is %q, which serves %q itself: a model with a load of its own is allowed", m.Serves, head.Serves)
		case (head.Role == "") != (m.Role == ""):
			bad("role is %q and that of %q, which it serves, %q: either all have one or none", m.Role, head.Name, head.Role)
		case m.Replaces != "" || m.Like != "":
			bad("serves is %q with replaces or like: it has no history of its own, so neither is allowed", m.Serves)
		}
		if s := c.policy().For(m.Name).Standby; s != nil {
			served := c.named(s.For)
			switch {
			case served == nil || served == m:
				bad("policy.standby.for is %q: another name under models is allowed", s.For)
			case served.Serves != "":
				// Its load would be unknown for ever, and an unknown one holds the plan.
				bad("policy.standby.for is %q, which serves %q: a model with a load of its own is allowed", s.For, served.Serves)
			}
		}
		if head != nil && !c.seenAtZero(head) && c.policy().For(m.Name).ReplicasMin == 0 {
			bad("policy.replicas_min is 0 with arrivals.source %q: 0 is allowed only when arrivals are seen without a replica "+
				"(source %s, or %s with requests or queue)", head.Arrivals.Source, prom.ArrivalsGIE, prom.ArrivalsCustom)
		}
	}
	return errors.Join(errs...)
}

// priceMax is far above what a replica costs per hour in any currency that has cents.
const priceMax = 1_000_000

// head is the model whose load m carries: itself, or the one it serves; nil when there is none of that name.
func (c *config) head(m *modelConfig) *modelConfig {
	if m.Serves == "" {
		return m
	}
	return c.named(m.Serves)
}

// named is the model of a name; nil when there is none.
func (c *config) named(name string) *modelConfig {
	for i := range c.Models {
		if c.Models[i].Name == name {
			return &c.Models[i]
		}
	}
	return nil
}

// seenAtZero reports whether the load of the head shows while some of those that carry it have no replica: it is counted
// where it arrives, or another variant that always runs serves it.
func (c *config) seenAtZero(head *modelConfig) bool {
	if head.seesDemandAtZero() {
		return true
	}
	policy := c.policy()
	for i := range c.Models {
		m := &c.Models[i]
		if c.head(m) == head && m.Role == "" && policy.For(m.Name).ReplicasMin > 0 {
			return true
		}
	}
	return false
}

// price fills in what replicas of the catalogue's profiles cost, by the prices of their GPUs; what is stated for the model
// stands, and a GPU without a price leaves its replicas without one.
func (c *config) price(m *modelConfig) {
	of := func(name string, gpus int) *planner.Price {
		parts := strings.Split(name, "/")
		if len(parts) != 5 {
			return nil
		}
		each, ok := c.GPUPrices[parts[2]]
		if !ok {
			return nil
		}
		whole := each * planner.Price(gpus)
		return &whole
	}
	if m.Price == nil {
		m.Price = of(m.ProfileName, m.Shape.GPUs*m.Shape.Pods)
	}
	for i := range m.alternatives {
		m.alternatives[i].Price = of(m.alternatives[i].Name, m.alternatives[i].GPUs)
	}
}
