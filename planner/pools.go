package planner

import (
	"fmt"
	"slices"
	"strings"
)

// poolTargets turns the nodes that placing asked for into targets. A pool that needs none gets no target: nodes leave
// by the provisioner's own consolidation.
func poolTargets(r *room) []PoolTarget {
	if r == nil {
		return nil
	}
	var targets []PoolTarget
	for i := range r.pools {
		p := &r.pools[i]
		if p.added == 0 {
			continue
		}
		models := slices.Compact(slices.Sorted(slices.Values(p.why)))
		targets = append(targets, PoolTarget{
			Pool:  p.pool.Name,
			Nodes: len(p.pool.Nodes) + p.added,
			Why:   fmt.Sprintf("%d more than now, for %s", p.added, strings.Join(models, ", ")),
		})
	}
	return targets
}
