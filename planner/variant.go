package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// variant is one of the workloads that can carry a load, with what a mix of them is chosen by.
type variant struct {
	state  ModelState // with the load of all
	policy ModelPolicy

	rates sized
	// carries is the share of the reference load that one replica carries.
	carries float64
	price   float64 // per hour and replica
	have    int     // running or ordered, without starts that are given up
	ready   int
	gaveUp  int
	slots   int  // for new replicas
	limited bool // slots are known
	least   int
	most    int
}

// mixed is how a load is divided: one share and the Steps that say why per variant.
type mixed struct {
	shares []float64
	steps  [][]Step
}

// mix divides a load among variants: by the cheapest numbers of replicas that carry the reference load, within what can be
// had of each. A variant keeps what it needs until those that take over are ready, and does not grow meanwhile.
//
// A variant whose physics or replicas are unknown carries nothing that could be counted on: the others are planned for all
// of the load, and its own plan is held for lack of facts. When nothing is known of any, the first is planned for all of it.
func (s *State) mix(variants []*variant) mixed {
	out := mixed{shares: make([]float64, len(variants)), steps: make([][]Step, len(variants))}
	if len(variants) == 1 {
		out.shares[0] = 1
		return out
	}
	load, problem := s.measure(variants)
	if problem != "" {
		out.shares[0] = 1
		for i := range variants {
			out.steps[i] = []Step{{Stage: StageMix, Why: problem + ": " + variants[0].state.Name + " is planned for all of it"}}
		}
		return out
	}
	counts, covered := cheapest(s.choices(variants))
	out.shares = untilTakenOver(variants, counts, shares(variants, counts))
	text := mixText(variants, counts, load, covered)
	for i, v := range variants {
		n := counts[i]
		step := Step{Stage: StageMix, Replicas: &n, Why: fmt.Sprintf("%.0f %% of the load is planned here: %s", 100*out.shares[i], text)}
		if !covered {
			step.BoundBy = "slots"
		}
		out.steps[i] = append(out.steps[i], step)
		out.steps[i] = append(out.steps[i], v.gaveUpStep()...)
	}
	return out
}

// shares is the part of the load that each variant's replicas carry. What all of them together cannot carry is asked of the
// one of the best value: its shortfall is the group's.
func shares(variants []*variant, counts []int) []float64 {
	out, total, best := make([]float64, len(variants)), 0.0, 0
	for i, v := range variants {
		out[i] = float64(counts[i]) * v.carries
		total += out[i]
		if v.carries*variants[best].price > variants[best].carries*v.price {
			best = i
		}
	}
	if total < 1 {
		out[best] += 1 - total
		return out
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

// measure fills in the prices and what one replica of each variant carries of the reference load, which it returns. problem
// says why nothing can be measured.
func (s *State) measure(variants []*variant) (reference Load, problem string) {
	problem = "neither the load nor what a replica carries is known"
	priced := !slices.ContainsFunc(variants, func(v *variant) bool { return v.state.Price == nil })
	measured := false
	for _, v := range variants {
		v.price = float64(max(1, v.state.Shape.GPUs*v.state.Shape.Pods)) // 1 while the shape is unknown
		if priced {
			v.price = float64(*v.state.Price)
		}
		if v.state.Profile == nil {
			continue
		}
		replicas := 1
		if r := v.state.Replicas; r != nil {
			replicas = max(1, r.supply())
		}
		v.rates = v.state.Profile.sizedFor(v.state.Requests, v.policy.slo(), replicas)
		if !measured {
			if reference, measured = v.reference(s.Now, s.Interval, v.rates.Profile); !measured {
				return Load{}, problem
			}
		}
		if fill := v.fill(reference); fill < 1e-9 {
			problem = "nothing is asked for"
			return reference, problem
		} else {
			v.carries = 1 / fill
			problem = ""
		}
	}
	return reference, problem
}

// fill is how many replicas of the variant the load takes; 0 when nothing is known about them.
func (v *variant) fill(l Load) float64 {
	if v.state.Profile == nil {
		return 0
	}
	return v.rates.utilisation(float64(l.Prompt), float64(l.Completion))
}

// choices are the variants as cheapest sees them.
func (s *State) choices(variants []*variant) []choice {
	out := make([]choice, len(variants))
	for i, v := range variants {
		v.count(s)
		gpus := v.state.Shape.GPUs * v.state.Shape.Pods
		out[i] = choice{carries: v.carries, price: v.price, have: v.have, least: v.least, most: v.most, gpus: gpus}
		if v.limited {
			out[i].pools = "any"
			if v.state.Shape.Product != "" {
				out[i].pools = v.state.Shape.Product
			}
			out[i].free = v.slots * gpus
		}
	}
	return out
}

// count finds how many replicas there are and how many there may be. Without an inventory, or while the limit of a pool
// that holds the shape is unknown, only the policy limits them: the launch itself will tell.
func (v *variant) count(s *State) {
	v.slots, v.limited = s.slots(&v.state)
	if r := v.state.Replicas; r != nil {
		v.ready = r.Ready
		v.have, v.gaveUp = r.supply(), 0
		if v.limited && v.slots == 0 {
			v.gaveUp = v.state.overdue(s.Now)
			v.have -= v.gaveUp
		}
	}
	v.least, v.most = v.policy.ReplicasMin, replicasLimit
	if v.policy.ReplicasMax > 0 {
		v.most = v.policy.ReplicasMax
	}
	if v.limited {
		v.most = min(v.most, v.have+v.slots)
	}
	if v.state.Profile == nil {
		v.most = 0 // nothing of it can be counted on
	}
	v.least = min(v.least, v.most)
}

// overdue is how many of the ordered starts have had no node for longer than 95 % of all starts take: those are given up.
// One of which it is not known whether it has a node counts as having one.
func (m *ModelState) overdue(now time.Time) int {
	c, n := course{state: m}, 0
	for _, s := range m.Replicas.ordered() {
		lt, known := c.leadTimeOf(s.Path)
		if s.Pending && known && now.Sub(s.Since) > lt.Quantile(giveUpAt) {
			n++
		}
	}
	return n
}

// giveUpAt is the quantile of the lead time after which a start without a node is given up.
const giveUpAt = 0.95

func (v *variant) gaveUpStep() []Step {
	if v.gaveUp == 0 {
		return nil
	}
	n := v.have
	return []Step{{Stage: StageMix, Replicas: &n, BoundBy: "slots", Why: fmt.Sprintf(
		"%s without a node for longer than p%s of all starts take, and there is no slot: given up, other variants take the load",
		plural(v.gaveUp, "start"), percent(giveUpAt))}}
}

// slots is how many more replicas of the model's shape the inventory can take; limited is false when that is unknown.
func (s *State) slots(m *ModelState) (n int, limited bool) {
	if s.Inventory == nil || m.Shape.GPUs < 1 {
		return 0, false
	}
	for i := range s.Inventory.Pools {
		f, ok := s.Inventory.Pools[i].Fragmentation(m.Shape, m.Name)
		if !ok {
			continue
		}
		if f.Reachable == nil {
			return 0, false
		}
		if f.Groups != nil {
			n += *f.Groups + (*f.Reachable-f.Slots)/m.Shape.Pods
		} else {
			n += *f.Reachable
		}
	}
	return n, true
}

// untilTakenOver raises the share of a variant that is to shrink to what the ready replicas of the others do not carry,
// as far as its own replicas go: what takes over must be ready first.
func untilTakenOver(variants []*variant, counts []int, shares []float64) []float64 {
	out := slices.Clone(shares)
	for i, v := range variants {
		if v.have <= counts[i] {
			continue
		}
		rest := 1.0
		for k, o := range variants {
			if k != i {
				rest -= float64(min(o.ready, counts[k])) * o.carries
			}
		}
		out[i] = max(out[i], min(rest, float64(v.have)*v.carries))
	}
	return out
}

// mixText lists the mix and what each variant costs; where KV tokens bind it also says what they cost.
func mixText(variants []*variant, counts []int, load Load, covered bool) string {
	var b strings.Builder
	cost := 0.0
	for i, v := range variants {
		if i > 0 {
			b.WriteString(" + ")
		}
		fmt.Fprintf(&b, "%d × %s", counts[i], v.state.Name)
		cost += float64(counts[i]) * v.price
	}
	fmt.Fprintf(&b, " for %s cost %s", load, priceText(variants, cost))
	if !covered {
		b.WriteString(" and do not carry all of it: no more can be had")
	}
	for i, v := range variants {
		if v.state.Profile == nil {
			fmt.Fprintf(&b, "; nothing is known about what a replica of %s carries", v.state.Name)
			continue
		}
		alone := ceilCount(v.fill(load))
		fmt.Fprintf(&b, "; %s alone: %d for %s", v.state.Name, alone, priceText(variants, float64(alone)*v.price))
		if v.most < alone && v.most < replicasLimit {
			fmt.Fprintf(&b, ", of which %d can be had", v.most)
		}
		if c := v.rates.capacity; c != nil {
			fmt.Fprintf(&b, ", bound by %s", c.Bound)
		}
		if kvBinds(variants) && variants[i].state.Profile.Physics != nil {
			fmt.Fprintf(&b, ", %.0f KV tokens per %s", float64(v.state.Profile.Physics.KVTokens)/v.price, priceUnit(variants))
		}
	}
	return b.String()
}

// kvBinds reports whether what any variant carries is bound by its KV tokens.
func kvBinds(variants []*variant) bool {
	return slices.ContainsFunc(variants, func(v *variant) bool { return v.rates.capacity != nil && v.rates.capacity.Bound == BoundKV })
}

// priceText is an amount in the unit that prices are stated in, or GPUs while one is unknown.
func priceText(variants []*variant, amount float64) string {
	if priceUnit(variants) == "GPU" {
		return plural(int(amount), "GPU")
	}
	return fmt.Sprintf("%.2f/h", amount)
}

func priceUnit(variants []*variant) string {
	if slices.ContainsFunc(variants, func(v *variant) bool { return v.state.Price == nil }) {
		return "GPU"
	}
	return "unit of price and hour"
}

// choice is a variant as the search for the cheapest mix sees it. Invariants: 0 ≤ least ≤ most, price > 0, carries ≥ 0 and
// finite.
type choice struct {
	carries           float64
	price             float64
	have, least, most int
	// Those of the same pools take GPUs from each other: new replicas take gpus each of what is free there.
	gpus  int
	pools string
	free  int
}

// stays is the part of its price by which a replica that runs is cheaper than one that is to be started: without it two
// variants of nearly the same price would take turns.
const stays = 0.1

// cost is the price of n replicas with the advantage of those that run.
func (c *choice) cost(n int) float64 { return c.price * (float64(n) - stays*float64(min(n, c.have))) }

// searchMax bounds the search for the cheapest mix; beyond it the best that was found stands.
const searchMax = 20_000

// cheapest is the numbers of replicas with the least cost that together carry the whole load (Σ n·carries ≥ 1), each from
// least to most; covered is false when all there may be carry less, and then all of them are taken. It is a covering
// knapsack, searched depth first from the best value for the price with a bound by the fraction of a replica that would
// do; it is exact unless there are so many variants of nearly the same value that searchMax is reached.
//
// Source: the cost-efficient mix of GPU types of Griggs et al., "Mélange: Cost Efficient Large Language Model Serving by
// Exploiting GPU Heterogeneity", 2024, whose integer program has one load slice here.
func cheapest(choices []choice) (counts []int, covered bool) {
	s := search{choices: choices, best: math.Inf(1), counts: make([]int, len(choices)), used: map[string]int{}}
	for i := range choices {
		s.order = append(s.order, i)
		s.counts[i] = choices[i].least
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		return cmp.Compare(choices[a].price/choices[a].carries, choices[b].price/choices[b].carries)
	})
	s.visit(0, 1, 0)
	if s.found != nil {
		return s.found, true
	}
	for _, i := range s.order {
		if c := &choices[i]; c.carries > 0 {
			s.counts[i] = s.reach(c)
			s.take(c, s.counts[i], 1)
		}
	}
	return s.counts, false
}

type search struct {
	choices []choice
	order   []int
	counts  []int
	used    map[string]int // GPUs of new replicas, per pools
	found   []int
	best    float64
	visits  int
}

// reach is how many of c there may be beside those of other variants in the same pools.
func (s *search) reach(c *choice) int {
	if c.pools == "" {
		return c.most
	}
	return max(c.least, min(c.most, c.have+max(0, c.free-s.used[c.pools])/c.gpus))
}

// take notes the GPUs of n of c, or with a sign of -1 gives them back.
func (s *search) take(c *choice, n, sign int) {
	if c.pools != "" {
		s.used[c.pools] += sign * max(0, n-c.have) * c.gpus
	}
}

// visit tries all numbers of the variants from order[at] on that may still beat the best: rest is what is not carried yet.
func (s *search) visit(at int, rest, cost float64) {
	s.visits++
	if s.visits > searchMax && s.found != nil {
		return
	}
	if at == len(s.order) {
		if rest <= 1e-9 && cost < s.best-1e-9 {
			s.best, s.found = cost, slices.Clone(s.counts)
		}
		return
	}
	i := s.order[at]
	c := &s.choices[i]
	from := c.least
	if rest > 1e-9 && c.carries > 0 {
		from = min(s.reach(c), max(c.least, ceilCount(rest/c.carries)))
	}
	for n := from; n >= c.least; n-- {
		left, spent := rest-float64(n)*c.carries, cost+c.cost(n)
		if spent+s.bound(at+1, left) < s.best-1e-9 {
			s.counts[i] = n
			s.take(c, n, 1)
			s.visit(at+1, left, spent)
			s.take(c, n, -1)
		}
	}
	s.counts[i] = c.least
}

// bound is the least that what is left can cost with the variants from order[at] on; infinite when they cannot carry it.
func (s *search) bound(at int, rest float64) float64 {
	cost := 0.0
	for _, i := range s.order[at:] {
		c := &s.choices[i]
		cost += c.cost(c.least)
		rest -= float64(c.least) * c.carries
	}
	for _, i := range s.order[at:] {
		c := &s.choices[i]
		if rest <= 1e-9 {
			return cost
		}
		if c.carries <= 0 {
			continue
		}
		more := min(rest/c.carries, float64(c.most-c.least))
		cost += more * c.price * (1 - stays)
		rest -= more * c.carries
	}
	if rest > 1e-9 {
		return math.Inf(1)
	}
	return cost
}
