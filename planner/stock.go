package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The breaker of stock: after a launch for which the provider had no node the offer is not asked again for stockBackoff,
// twice as long after each further failure up to stockBackoffMax. Then one node at a time is tried, and after another
// such time without a failure the offer is as good as any. The first time is that for which Karpenter itself leaves an
// offering out after an insufficient-capacity error; without the doubling its NodeClaims are made and deleted in a loop
// (karpenter#3198).
const (
	stockBackoff    = 3 * time.Minute
	stockBackoffMax = time.Hour
)

// StockMemory is an open or half-open breaker: an offer of a pool that had no node. An empty Offer is the whole pool.
type StockMemory struct {
	Pool string `json:"pool"`
	Offer
	// Failures is how many there were since it was last closed, Last the newest.
	Failures int       `json:"failures"`
	Last     time.Time `json:"last"`
	// Seen is the failures within the window of the evidence when they were last counted: more are new ones.
	Seen float64 `json:"seen,omitempty"`
}

// closed says whether an offer has had the time to fail again and did not.
func (m StockMemory) closed(now time.Time) bool { return !now.Before(m.until().Add(m.backoff())) }

// backoff is how long the offer is left alone after its last failure.
func (m StockMemory) backoff() time.Duration {
	return min(stockBackoffMax, stockBackoff<<min(m.Failures-1, 10))
}

// open says whether the offer is to be left alone; one that is not open and not forgotten is half open.
func (m StockMemory) open(now time.Time) bool { return now.Before(m.until()) }

func (m StockMemory) until() time.Time { return m.Last.Add(m.backoff()) }

// stockMemory is the breakers after the failures of this State, sorted by pool, type and zone. A failure dated ahead of
// now counts as one of now. Failures that are only counted are the whole pool's, and new when there are more of them than
// before. Unknown hardware and missing counts leave the breakers as they are.
func stockMemory(s *State) []StockMemory {
	b := breakers{now: s.Now, at: map[breakerKey]StockMemory{}}
	for _, m := range s.Memory.Stock {
		b.at[breakerKey{m.Pool, m.Offer}] = m
	}
	if s.Inventory != nil {
		for i := range s.Inventory.Pools {
			p := &s.Inventory.Pools[i]
			failures := slices.Clone(p.Failures)
			slices.SortStableFunc(failures, func(a, b LaunchFailure) int { return a.At.Compare(b.At) })
			for _, f := range failures {
				b.fail(p.Name, f.Offer, f.At)
			}
		}
	}
	if s.Evidence != nil {
		for _, pool := range sortedKeys(s.Evidence.LaunchesFailed) {
			b.count(pool, s.Evidence.LaunchesFailed[pool])
		}
	}
	var out []StockMemory
	for _, m := range b.at {
		if !m.closed(s.Now) || m.Seen > 0 {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b StockMemory) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone))
	})
	return out
}

type breakerKey struct {
	pool string
	Offer
}

type breakers struct {
	now time.Time
	at  map[breakerKey]StockMemory
}

// fail notes one failure; one that is not newer than the last was counted before.
func (b breakers) fail(pool string, o Offer, at time.Time) {
	if at.After(b.now) {
		at = b.now
	}
	m := b.at[breakerKey{pool, o}]
	if !at.After(m.Last) {
		return
	}
	if m.Failures > 0 && m.closed(at) {
		m.Failures = 0
	}
	b.at[breakerKey{pool, o}] = StockMemory{Pool: pool, Offer: o, Failures: m.Failures + 1, Last: at, Seen: m.Seen}
}

// count notes how many launches of a pool failed within the window of the evidence.
func (b breakers) count(pool string, n float64) {
	k := breakerKey{pool: pool}
	if n > b.at[k].Seen {
		b.fail(pool, Offer{}, b.now)
	}
	if m, known := b.at[k]; known {
		m.Seen = n
		b.at[k] = m
	}
}

// growth is how many more nodes may be launched into a pool now. What holds it at fewer than its limits allow is in why,
// and cause is what a shortfall has for a cause then.
type growth struct {
	nodes int
	cause Cause
	why   string
}

// growthRules is what growth depends on beside the pool.
type growthRules struct {
	now    time.Time
	stock  []StockMemory
	static bool // the nodes of static pools may be set
}

// of is how far a pool may grow: within its limits, its reservations, and the stock of the provider. An unknown limit is
// taken as room: the launch itself will tell.
func (g growthRules) of(p *Pool) growth {
	out := growth{nodes: launchMax, cause: PoolLimit}
	switch {
	case p.Static && !g.static:
		return growth{cause: PoolLimit, why: "it is static, and the authority to set its nodes is missing"}
	case p.Static && p.NodesMax != nil:
		// One below the limit, at which a static pool cannot replace a node that drifts (aws#8873).
		out.nodes = min(out.nodes, max(0, *p.NodesMax-1-len(p.Nodes)-p.Launching))
	case !p.Static && p.Launchable != nil:
		out.nodes = min(out.nodes, *p.Launchable)
	}
	if len(p.Reservations) > 0 {
		left, why := g.reserved(p)
		if left < out.nodes {
			out.nodes, out.why = left, why
		}
	}
	if most, why := g.stocked(p); why != "" {
		out.nodes, out.cause, out.why = min(out.nodes, most), NoStock, why
	}
	return out
}

// reserved is how many nodes of the pool's reservations are left.
func (g growthRules) reserved(p *Pool) (left int, why string) {
	next := time.Time{}
	for _, r := range p.Reservations {
		switch {
		case g.now.Before(r.Start):
			if next.IsZero() || r.Start.Before(next) {
				next = r.Start
			}
		case r.End.IsZero() || g.now.Add(goneSoon).Before(r.End):
			left += max(0, r.Nodes-r.Used)
		}
	}
	why = fmt.Sprintf("its reservations have %s left", plural(left, "node"))
	if !next.IsZero() {
		why += ", the next one starts at " + next.In(g.now.Location()).Format(time.RFC3339)
	}
	return left, why
}

// stocked is how many nodes the provider may be asked for, and why that is not all; why is empty when nothing is known
// to be short.
func (g growthRules) stocked(p *Pool) (most int, why string) {
	if p.NoStock {
		return 0, "the provider has none"
	}
	shut, tried, until, whole := map[Offer]bool{}, map[Offer]bool{}, time.Time{}, false
	for _, m := range g.stock {
		if m.Pool != p.Name || m.closed(g.now) {
			continue
		}
		if !m.open(g.now) {
			tried[m.Offer] = true
			continue
		}
		shut[m.Offer] = true
		whole = whole || m.Offer == Offer{} || len(p.Offers) == 0
		if until.IsZero() || m.until().Before(until) {
			until = m.until()
		}
	}
	good := slices.ContainsFunc(p.Offers, func(o Offer) bool { return !shut[o] && !tried[o] })
	switch {
	case good && !whole && !tried[Offer{}]:
		return launchMax, ""
	case len(shut) > 0 && (whole || len(tried) == 0):
		return 0, "the provider has none" + offerNames(shut) + "; the next try is at " + until.In(g.now.Location()).Format(time.TimeOnly)
	case len(tried) > 0:
		return 1, "the provider had none lately: one node at a time is tried"
	}
	return launchMax, ""
}

// offerNames are the offers without stock, in words.
func offerNames(shut map[Offer]bool) string {
	var names []string
	for o := range shut {
		if o != (Offer{}) {
			names = append(names, o.Type+" in "+o.Zone)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " of " + strings.Join(names, ", ")
}
