package planner

import "fmt"

// quotaTargets keeps every quota as it is, but never below what is in use: a nominal quota below usage turns the
// queue's own workloads into reclaim victims (facts: Kueue reclaimWithinCohort).
func quotaTargets(quotas []Quota) []QuotaTarget {
	var targets []QuotaTarget
	for _, q := range quotas {
		t := QuotaTarget{Queue: q.Queue, Flavor: q.Flavor, Nominal: q.Nominal, Why: "as it is"}
		if q.Used > q.Nominal {
			t.Nominal, t.Why = q.Used, fmt.Sprintf("%d GPUs are in use", q.Used)
		}
		targets = append(targets, t)
	}
	return targets
}
