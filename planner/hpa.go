package planner

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// ScalingRules are an HPA's behavior in one direction.
type ScalingRules struct {
	// Policies bound the change per period; with none of them the HPA's own defaults hold. SmallestCounts is
	// selectPolicy Min: else the policy that allows most counts.
	Policies       []ScalingPolicy `json:"policies,omitempty"`
	SmallestCounts bool            `json:"smallest_counts,omitempty"`
}

// ScalingPolicy allows Percent or Pods more within Period. Invariant: exactly one of the two is above 0.
type ScalingPolicy struct {
	Percent int           `json:"percent,omitempty"`
	Pods    int           `json:"pods,omitempty"`
	Period  time.Duration `json:"period_ns"`
}

func (r *ScalingRules) problem() error {
	if r == nil {
		return nil
	}
	for i, p := range r.Policies {
		if p.Percent < 0 || p.Pods < 0 || (p.Percent > 0) == (p.Pods > 0) || p.Period <= 0 || p.Period > time.Hour {
			return fmt.Errorf("actuator.scale_up.policies[%d] is %d %% or %d pods in %v: one of both above 0, in at most 1h, is allowed",
				i, p.Percent, p.Pods, p.Period)
		}
	}
	return nil
}

// defaultScaleUp is what the HPA does when its behavior says nothing: 100 % or 4 pods within 15 s, whichever is more.
var defaultScaleUp = ScalingRules{Policies: []ScalingPolicy{{Percent: 100, Period: 15 * time.Second}, {Pods: 4, Period: 15 * time.Second}}}

// Default is whether the rules are the HPA's own.
func (r *ScalingRules) Default() bool {
	return !r.SmallestCounts && (slices.Equal(r.Policies, defaultScaleUp.Policies) ||
		slices.Equal(r.Policies, []ScalingPolicy{defaultScaleUp.Policies[1], defaultScaleUp.Policies[0]}))
}

// defaultTolerance is the HPA controller's dead-band.
const defaultTolerance = 0.1

// edge keeps a product of binary fractions from falling on the wrong side of a whole number.
const edge = 1e-9

// The HPA compares an AverageValue metric of target 1 with the replicas that there are: while (1−down)·s ≤ value ≤
// (1+up)·s it keeps s, both ends included; else it goes to ceil(value). So the counts next to s cannot be asked for.
// KEDA passes the answer on as it is. Sources: k8s.io/kubernetes pkg/controller/podautoscaler/replica_calculator.go
// (GetExternalPerPodMetricReplicas), KEP-4951 (tolerance per direction), keda#3272.

// leastAbove is the smallest answer that makes the HPA grow from s.
func (a *Actuator) leastAbove(s int) int {
	return int(math.Floor(float64(s)*(1+a.ScaleUpTolerance)+edge)) + 1
}

// mostBelow is the largest answer that makes the HPA shrink from s.
func (a *Actuator) mostBelow(s int) int {
	down := defaultTolerance
	if a.ScaleDownTolerance != nil {
		down = *a.ScaleDownTolerance
	}
	return int(math.Ceil(float64(s)*(1-down)-edge)) - 1
}

// growsTo is how long the scale-up policies make the HPA take from s to n: the first step comes at once, each further
// one a period later. ok is false when they do not let it arrive within an hour.
func (a *Actuator) growsTo(s, n int) (took time.Duration, ok bool) {
	rules := &defaultScaleUp
	if a.ScaleUp != nil && len(a.ScaleUp.Policies) > 0 {
		rules = a.ScaleUp
	}
	// The least period is a good grid: each policy bounds what its own period before holds.
	grid := rules.Policies[0].Period
	for _, p := range rules.Policies {
		grid = min(grid, p.Period)
	}
	if grid <= 0 {
		return 0, false
	}
	counts := []int{s} // at the end of each grid step, before the growth of this one
	for took = 0; took <= time.Hour; took += grid {
		next, first := 0, true
		for _, p := range rules.Policies {
			back := max(0, len(counts)-int((p.Period+grid-1)/grid))
			before := counts[back]
			limit := before + p.Pods
			if p.Percent > 0 {
				limit = int(math.Ceil(float64(before) * (1 + float64(p.Percent)/100)))
			}
			if first || (limit > next) != rules.SmallestCounts {
				next, first = limit, false
			}
		}
		s = max(s, next)
		if s >= n {
			return took, true
		}
		counts = append(counts, s)
	}
	return 0, false
}

// present is the count that the HPA compares with: the workload's status.replicas, which has the surge of a rolling
// update in it, or the count it was last set to when its pods are still to come. ok is false when it is unknown.
func (m *ModelState) present() (s int, ok bool) {
	if m.Replicas == nil {
		return 0, false
	}
	s = m.Replicas.Ready + len(m.Replicas.Starting)
	if d := m.Replicas.Desired; d != nil {
		s = max(s, *d)
	}
	return s, s > 0 // from 0 it is KEDA that scales, to 1, whatever the metric
}

// tell is the least number that makes the HPA have the plan, or says why none does. It is never below the plan, and above
// it only by as much as the dead-band takes, within the owner's limit. The HPA then goes to the number told, so that more
// replicas start than the plan has: slots and quota are placed for the plan only, and those beyond it take what is free.
func (c *course) tell(plan int) int {
	a := c.state.Actuator
	s, known := c.state.present()
	if a == nil || a.Paused || !known {
		return plan
	}
	answer := plan
	switch least, most := a.leastAbove(s), a.mostBelow(s); {
	case plan > s && plan < least:
		answer = c.pastDeadBand(plan, s, least)
	case plan < s && plan > most:
		c.answerStep(plan, fmt.Sprintf("the HPA keeps %d: it shrinks for an answer of at most %d, and the answer is never below the plan",
			s, max(most, 0)), "HPA tolerance")
	}
	c.tellLimits(answer, s)
	return answer
}

// pastDeadBand rounds an answer up that the HPA would not follow.
func (c *course) pastDeadBand(plan, s, least int) int {
	tolerance := percent(c.state.Actuator.ScaleUpTolerance)
	if most := c.policy.ReplicasMax; most > 0 && least > most {
		c.answerStep(plan, fmt.Sprintf("the HPA stays at %d: it ignores growth of up to %s %%, and the %d that it would follow exceed "+
			"replicas_max; scaleUp.tolerance \"0\" in the ScaledObject cures it", s, tolerance, least), "HPA tolerance")
		return plan
	}
	c.answerStep(least, fmt.Sprintf("the HPA at %d ignores growth of up to %s %%: KEDA is told %d, the least that it follows; "+
		"%d are needed; scaleUp.tolerance \"0\" in the ScaledObject cures it", s, tolerance, least, plan), "HPA tolerance")
	return least
}

// tellLimits says what else keeps the HPA from arriving, or carries it further.
func (c *course) tellLimits(answer, s int) {
	a := c.state.Actuator
	if most := a.ReplicasMax; most != nil && answer > *most {
		c.answerStep(answer, fmt.Sprintf("the ScaledObject's maxReplicaCount keeps the HPA at %d", *most), "maxReplicaCount")
		answer = *most
	}
	if least := a.ReplicasMin; least != nil && answer < *least {
		c.answerStep(answer, fmt.Sprintf("the ScaledObject's minReplicaCount keeps the HPA at %d", *least), "minReplicaCount")
	}
	switch {
	case answer > s && a.ScaleOutPaused:
		c.answerStep(answer, fmt.Sprintf("scale-out is paused: the HPA stays at %d", s), "paused-scale-out")
	case answer < s && a.ScaleInPaused:
		c.answerStep(answer, fmt.Sprintf("scale-in is paused: the HPA stays at %d", s), "paused-scale-in")
	case answer > s:
		took, ok := a.growsTo(s, answer)
		if !ok {
			c.answerStep(answer, fmt.Sprintf("the HPA's scale-up policies do not let it grow from %d to %d within an hour", s, answer),
				"HPA policies")
		} else if took > 0 {
			c.answerStep(answer, fmt.Sprintf("the HPA's scale-up policies take %s longer for the growth from %d to %d",
				shortDuration(took), s, answer), "HPA policies")
		}
	}
	// Above what runs and what was answered before, it can only be another trigger: the HPA takes the largest.
	if d := a.HPADesired; d != nil && *d > max(answer, s, c.memory.told()) {
		c.answerStep(answer, fmt.Sprintf("the HPA asks for %d: a sibling trigger wants more than this answer, and the largest counts", *d),
			"sibling trigger")
	}
}

func (c *course) answerStep(answer int, why, bound string) {
	c.step(StageAnswer, &answer, why).BoundBy = bound
}
