package planner

import (
	"cmp"
	"slices"
)

// inTurn is the courses in the order in which they get slots: higher tiers first, those of one tier by name.
func inTurn(courses []*course) []*course {
	out := slices.Clone(courses)
	slices.SortStableFunc(out, func(a, b *course) int { return cmp.Compare(b.policy.Priority, a.policy.Priority) })
	return out
}
