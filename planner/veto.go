package planner

import (
	"fmt"
	"math"
	"strings"
)

// diagnose asks whether more replicas are the remedy at all. Without Evidence nothing is asked and nothing said.
func (c *course) diagnose() {
	if c.state.Evidence == nil && c.cluster == nil {
		return
	}
	unknowns := 0
	var vetoes []Finding
	for _, f := range Diagnose(c.examined()) {
		switch f.Verdict {
		case Clear:
			continue
		case Unknown:
			unknowns++
		case Veto:
			vetoes = append(vetoes, f)
		}
		c.out.Findings = append(c.out.Findings, f)
		if f.Verdict != Unknown {
			c.step(StageDiagnose, nil, fmt.Sprintf("%s %s (%s): %s; %s", f.Rule, f.Verdict, f.Owner, f.Why, f.Remedy))
		}
	}
	if len(c.out.Findings) == unknowns {
		c.step(StageDiagnose, nil, fmt.Sprintf("no rule says that more replicas would not help; %d of 13 rules lack data", unknowns))
	}
	c.veto(vetoes)
}

// examined is what Diagnose is asked about.
func (c *course) examined() Case {
	x := Case{Now: c.now, Model: c.state, Inventory: c.inventory, Cluster: c.cluster, TTFT: c.policy.TTFT, Thresholds: c.thresholds}
	if c.needKnown {
		x.NeedNow = &c.needNow
	}
	return x
}

// veto holds growth above what stands: the running count and the last plan, whichever is more. It never lowers a plan,
// never goes below the reactive floor (guard raises to it), and does not apply while the load offered exceeds what the
// ready replicas carry, or nobody knows: then more replicas are needed whatever else is wrong. A slow API server freezes
// the plan in the other direction too.
func (c *course) veto(vetoes []Finding) {
	if len(vetoes) == 0 || !c.wantedOK {
		return
	}
	var names []string
	for _, v := range vetoes {
		names = append(names, fmt.Sprintf("%s (%s)", v.Rule, v.Owner))
		if v.Rule == RuleAPIServer {
			c.frozen = true
		}
	}
	who := strings.Join(names, ", ")
	switch {
	case !c.supplyOK || !c.needKnown:
		c.step(StageDiagnose, &c.wanted, who+" do not hold growth: the load or the replicas are unknown")
		return
	case c.needNow > c.state.Replicas.Ready:
		c.step(StageDiagnose, &c.wanted, fmt.Sprintf("%s do not hold growth: the load needs %d replicas and %d are ready", who,
			c.needNow, c.state.Replicas.Ready))
		return
	}
	stands := max(c.supply, c.floor)
	if c.remembered {
		stands = max(stands, c.memory.Replicas)
	}
	c.vetoed = true
	if c.wanted <= stands {
		return
	}
	rejected := fmt.Sprintf("grow to %d", c.wanted)
	c.wanted = stands
	s := c.step(StageDiagnose, &c.wanted, "growth held by "+who+": more replicas are not the remedy; "+c.siblingText())
	s.BoundBy, s.Rejected = "veto", rejected
}

// siblingText says what a reactive trigger beside ours will ask for all the same.
func (c *course) siblingText() string {
	w := c.state.Signals.Waiting
	if w == nil {
		return "a sibling trigger may still ask for more"
	}
	return fmt.Sprintf("a sibling trigger at %g waiting requests per replica still asks for %d", c.policy.QueueThreshold,
		ceilCount(math.Max(*w, 0)/c.policy.QueueThreshold))
}

// holdFrozen keeps the plan while the API server is slow.
func (c *course) holdFrozen() {
	if c.frozen {
		c.hold(c.last(), "the API server is slow (R4): nothing is written that can wait", "veto")
	}
}
