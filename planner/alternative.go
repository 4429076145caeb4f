package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// problem reports what is out of range about an alternative.
func (a *Alternative) problem() error {
	var errs []error
	if a.Name == "" || a.GPUs < 1 || a.GPUs > 1024*1024 {
		errs = append(errs, fmt.Errorf("alternative %q has %d GPUs: a name and 1 to %d are allowed", a.Name, a.GPUs, 1024*1024))
	}
	if a.Price != nil && !(*a.Price > 0 && *a.Price <= 1e6) {
		errs = append(errs, fmt.Errorf("alternative %q: price_per_hour is %v: above 0 to 1000000 is allowed; leave an unknown one out",
			a.Name, *a.Price))
	}
	return errors.Join(append(errs, a.Profile.Validate())...)
}

// priceAlternatives says, where KV tokens bind, what other ways to serve the load would cost beside more of the same, the
// cheapest first: more requests do not help a replica that is full of contexts, more KV tokens for the money may. It is
// advice and changes no number.
func (c *course) priceAlternatives() {
	l := c.state.Load
	if l == nil || c.rates.capacity == nil || c.rates.capacity.Bound != BoundKV || len(c.state.Alternatives) == 0 {
		return
	}
	type offer struct {
		cost float64
		text string
	}
	own := Alternative{Name: "more of the same", GPUs: c.state.Shape.GPUs * c.state.Shape.Pods, Profile: *c.state.Profile,
		Price: c.state.Price}
	all := append([]Alternative{own}, c.state.Alternatives...)
	priced := !slices.ContainsFunc(all, func(a Alternative) bool { return a.Price == nil })
	offers := make([]offer, len(all))
	for i := range all {
		a := &all[i]
		each, unit := float64(a.GPUs), "GPU"
		if priced {
			each, unit = float64(*a.Price), "unit of price and hour"
		}
		rates := a.Profile.sizedFor(c.rates.mix, c.policy.slo(), max(1, c.needNow))
		n := rates.replicasFor(float64(l.Prompt), float64(l.Completion))
		offers[i].cost = float64(n) * each
		cost := plural(n*a.GPUs, "GPU")
		if priced {
			cost = fmt.Sprintf("%.2f/h", offers[i].cost)
		}
		offers[i].text = fmt.Sprintf("%s: %d for %s", a.Name, n, cost)
		if p := a.Profile.Physics; p != nil {
			offers[i].text += fmt.Sprintf(", %.0f KV tokens per %s", float64(p.KVTokens)/each, unit)
		}
		if rates.capacity != nil {
			offers[i].text += fmt.Sprintf(", bound by %s", rates.capacity.Bound)
		}
	}
	same := offers[0]
	slices.SortStableFunc(offers[1:], func(a, b offer) int { return cmp.Compare(a.cost, b.cost) })
	texts := []string{same.text}
	for _, o := range offers[1:min(len(offers), 1+alternativesShown)] {
		texts = append(texts, o.text)
	}
	s := c.step(StageSize, nil, "KV tokens bind: "+strings.Join(texts, "; "))
	if best := offers[1]; best.cost < same.cost {
		s.Rejected = best.text + ": cheaper, but a change of shape is the owner's to make"
	}
}

// alternativesShown is how many alternatives a Step names.
const alternativesShown = 3
