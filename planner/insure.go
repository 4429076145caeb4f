package planner

import (
	"fmt"
	"math"
)

// Survival is what a plan must survive: the loss of a node, a zone or a spot pool.
type Survival string

// The losses that a plan can be made to survive; empty is none.
const (
	SurviveNode     Survival = "node"
	SurviveZone     Survival = "zone"
	SurviveSpotPool Survival = "spot-pool"
)

// Standby is the demand that a model takes over when it is lost elsewhere: a share of that of another model of the State,
// which stands for another cluster or region.
type Standby struct {
	// For names the model whose demand it is, Share is how much of it, above 0 to 1.
	For   string  `json:"for" yaml:"for"`
	Share float64 `json:"share" yaml:"share"`
}

// Insurance is what a policy's survival or standby adds to a plan, so that its price can be seen apart from that of the
// demand. Replicas may be 0: then the plan covers it anyway, or nothing of it is left in the plan, as the Steps say.
type Insurance struct {
	// Against is what it insures against: "loss of a node", "demand of chat-west".
	Against  string `json:"against"`
	Replicas int    `json:"replicas"`
	GPUs     int    `json:"gpus"`
	// PerHour is what the replicas cost; nil while the price is unknown.
	PerHour *Price `json:"price_per_hour,omitempty"`
}

// insure raises the plan to what the policy's survival and standby need: the demand at the service level until a lost
// replica could be replaced must still fit without the domain that holds most of the replicas, and with the share of the
// demand that is lost elsewhere. The two are not added up: they insure against one loss at a time.
func (c *course) insure() {
	if !c.wantedOK || c.state.Profile == nil {
		return
	}
	c.uninsured = c.wanted
	if c.policy.Survive != "" {
		need, why := c.survivalNeed()
		c.insured("loss of a "+string(c.policy.Survive), need, why)
	}
	if c.policy.Standby != nil {
		need, why, missing := c.standbyNeed()
		if why != "" {
			c.insured("demand of "+c.policy.Standby.For, need, why)
		}
		if missing != "" {
			c.wanted = max(c.wanted, c.last())
			c.step(StageWarm, &c.wanted, "standby: "+missing)
		}
	}
}

// insured raises the plan to a floor and notes the price of it.
func (c *course) insured(against string, need int, why string) {
	added := max(0, need-c.wanted)
	in := Insurance{Against: against}
	in.of(added, c.state)
	cost := plural(in.GPUs, "GPU")
	if in.PerHour != nil {
		cost += fmt.Sprintf(", %.2f/h", float64(*in.PerHour))
	}
	c.out.Insurance = append(c.out.Insurance, in)
	c.wanted += added
	s := c.step(StageWarm, &c.wanted, fmt.Sprintf("%s: %s; it adds %s (%s)", against, why, plural(added, "replica"), cost))
	if added > 0 {
		s.BoundBy = against
	}
}

// of makes it that of so many replicas of the model.
func (in *Insurance) of(replicas int, m *ModelState) {
	in.Replicas, in.GPUs, in.PerHour = replicas, replicas*m.Shape.GPUs*m.Shape.Pods, nil
	if m.Price != nil {
		hourly := Price(replicas) * *m.Price
		in.PerHour = &hourly
	}
}

// capInsurance leaves of what was added only what the plan still has of it: a veto, replicas_max or a higher tier may have
// taken it off. What was added last goes first.
func (c *course) capInsurance() {
	if c.out.Replicas == nil {
		return
	}
	left := max(0, *c.out.Replicas-c.uninsured)
	for i := range c.out.Insurance {
		in := &c.out.Insurance[i]
		if in.Replicas > left {
			c.step(StageGuard, nil, fmt.Sprintf("%s: the plan has %d of the %s that it adds", in.Against, left,
				plural(in.Replicas, "replica")))
			in.of(left, c.state)
		}
		left -= in.Replicas
	}
}

// demandNeed is what the demand needs until a lost replica could be replaced; without a forecast, what it needs now.
func (c *course) demandNeed() int {
	need := c.floor
	if c.forecastOK {
		need = max(need, c.holdNeed().replicas)
	}
	return need
}

// survivalNeed is the demand's need and the replicas that the loss takes away.
func (c *course) survivalNeed() (int, string) {
	need := c.demandNeed()
	if need == 0 {
		return 0, "nothing is needed"
	}
	most, domain, known := c.mostTogether()
	if !known {
		return max(2*need, c.last()), fmt.Sprintf(
			"the demand needs %d, and where the replicas run is unknown, so all of those may be lost and the plan is not lowered", need)
	}
	if most == 0 {
		return need, "the demand needs " + fmt.Sprint(need) + ", and no replica can be lost that way"
	}
	return need + most, fmt.Sprintf("the demand needs %d, and %s holds %d", need, domain, most)
}

// mostTogether is the domain that holds most of the model's replicas, and how many; known is false while it is not seen
// where they are. A replica of several pods is lost with any of them.
func (c *course) mostTogether() (most int, domain string, known bool) {
	if c.inventory == nil || c.inventory.stale(c.now) {
		return 0, "", false
	}
	counts, pods := map[string]int{}, 0
	for i := range c.inventory.Pools {
		p := &c.inventory.Pools[i]
		for k := range p.Nodes {
			n := &p.Nodes[k]
			at := lostWith(c.policy.Survive, p, n)
			for _, t := range n.Tenants {
				if t.Model != c.state.Name {
					continue
				}
				pods++
				if at == "" && c.policy.Survive == SurviveZone {
					return 0, "", false
				}
				if at != "" {
					counts[at]++
				}
			}
		}
	}
	if c.supplyOK && c.state.Replicas.Ready > 0 && pods == 0 {
		return 0, "", false
	}
	for at, n := range counts {
		if n > most || n == most && at < domain {
			most, domain = n, at
		}
	}
	if most == 0 && c.policy.Survive != SurviveSpotPool {
		return 1, "one " + string(c.policy.Survive), true // nothing runs yet: the first will be somewhere
	}
	return most, domain, true
}

// lostWith names what is lost together with the node; empty when that kind of loss does not touch it, or is unknown.
func lostWith(s Survival, p *Pool, n *Node) string {
	switch {
	case s == SurviveNode:
		return "node " + n.Name
	case s == SurviveZone && n.Zone != "":
		return "zone " + n.Zone
	case s == SurviveSpotPool && p.Spot:
		return "spot pool " + p.Name
	}
	return ""
}

// standbyNeed is what the own demand and the share of the other's need together, on joint paths: path i of one with path i
// of the other. The other's load counts while it is fresh and its forecast while it reaches ahead: one that does not is
// unknown, not zero. missing says which is unknown: then the plan is not lowered. why is empty when both are: nothing can
// be added for it.
func (c *course) standbyNeed() (need int, why, missing string) {
	other, share, of := c.standby, c.policy.Standby.Share, c.policy.Standby.For
	unknown := fmt.Sprintf("the demand of %s is unknown, so nothing can be added for it and the plan is not lowered", of)
	if other == nil {
		return 0, "", unknown
	}
	theirs := course{state: other, now: c.now, policy: c.policy}
	problem, covers := theirs.loadProblem(), other.Forecast != nil && theirs.forecastCovers()
	switch {
	case problem != "" && !(covers && c.forecastOK):
		return 0, "", unknown
	case problem != "":
		missing = fmt.Sprintf("of %s %s, so the plan is not lowered", of, problem)
	case !covers:
		missing = fmt.Sprintf("of %s there is no forecast, so the plan is not lowered", of)
	}
	if problem == "" {
		need = c.needBeside(share, other.Load.Load)
	}
	if c.forecastOK && covers {
		need = max(need, c.needBesidePaths(share, &theirs))
	}
	return need, fmt.Sprintf("with %g %% of it %d are needed", 100*share, need), missing
}

// needBeside is what the own load of this moment and the share of another need.
func (c *course) needBeside(share float64, their Load) int {
	own := Load{}
	if c.state.Load != nil {
		own = c.state.Load.Load
	}
	return c.rates.Profile.replicasFor(float64(own.Prompt)+share*float64(their.Prompt),
		float64(own.Completion)+share*float64(their.Completion))
}

// needBesidePaths is what the own forecast and the share of the other's peaks need until a lost replica could be replaced.
func (c *course) needBesidePaths(share float64, theirs *course) int {
	until, paths := c.holdUntil(), len(theirs.state.Forecast.Prompt.Paths)
	first, last, _ := c.window(c.now, until)
	from, to, _ := theirs.window(c.now, until)
	needs := make([]int, len(c.state.Forecast.Prompt.Paths))
	for i := range needs {
		p, g := peakRates(theirs.state.Forecast, i%paths, from, to)
		needs[i] = ceilCount(c.pathPeak(i, first, last, share*p, share*g))
	}
	return quantileCount(needs, c.level)
}

// peakRates are the largest rates of one path within steps [first, last], of prompts and of completions.
func peakRates(f *Forecast, path, first, last int) (prompt, completion float64) {
	for k := first; k <= last; k++ {
		prompt = math.Max(prompt, f.Prompt.Paths[path][k])
		completion = math.Max(completion, f.Completion.Paths[path][k])
	}
	return prompt, completion
}

// pathPeak is the most replicas that a path needs within steps [first, last] beside a steady load.
func (c *course) pathPeak(path, first, last int, prompt, completion float64) float64 {
	f, peak := c.state.Forecast, 0.0
	for k := first; k <= last; k++ {
		peak = math.Max(peak, c.rates.utilisation(f.Prompt.Paths[path][k]+prompt, f.Completion.Paths[path][k]+completion))
	}
	return peak
}

// consolidate asks, before the plan shrinks, what those that stay would hold by what is seen now, not by the profile: the KV
// tokens in use and the running requests of N replicas, spread over fewer. It holds as many as keep both below what an
// engine can take; what is not seen holds nothing.
func (c *course) consolidate() {
	if !c.wantedOK || !c.supplyOK || c.wanted >= c.state.Replicas.Ready {
		return
	}
	ready := c.state.Replicas.Ready
	if used, seen := c.kvInUse(); seen {
		if n := ceilCount(used / kvUsable); n > c.wanted {
			c.hold(min(n, ready), fmt.Sprintf("the KV tokens in use would fill %.0f %% of the caches of %d replicas, %.0f %% can be used",
				100*used/float64(max(1, c.wanted)), c.wanted, 100*kvUsable), "KV tokens in use")
		}
	}
	p := c.state.Profile
	if r := c.state.Signals.Running; r != nil && p != nil && p.Physics != nil {
		if n := ceilCount(*r / float64(p.Physics.MaxSequences)); n > c.wanted {
			c.hold(min(n, ready), fmt.Sprintf("%.0f requests run, and %d replicas take %d each", *r, c.wanted, p.Physics.MaxSequences),
				"running requests")
		}
	}
}

// kvInUse is the KV tokens in use in units of one replica's cache; seen is false unless all ready pods say so.
func (c *course) kvInUse() (used float64, seen bool) {
	e := c.state.Evidence
	if e == nil || c.now.Sub(e.To) > c.policy.LoadMaxAge {
		return 0, false
	}
	pods := 0
	for i := range e.Pods {
		p := &e.Pods[i]
		if p.Terminating || !p.Ready {
			continue
		}
		if p.KVUsage == nil {
			return 0, false
		}
		pods++
		used += p.KVUsage.Mean
	}
	return used / float64(max(1, c.state.Shape.Pods)), pods > 0
}
