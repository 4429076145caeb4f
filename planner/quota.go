package planner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// QuotaPolicy is what the owner wishes of the quotas that replicas are admitted under.
type QuotaPolicy struct {
	// Authority over nominal quotas; observe and advise name targets that nobody writes.
	Authority Authority `json:"authority" yaml:"authority"`
	// DrainTime is how long batch work takes to leave after its queue got less: quotas are planned that far ahead of a
	// replica's start.
	DrainTime time.Duration `json:"drain_time_ns" yaml:"drain_time"`
	// Donors are the queues that may be given less, with the least each keeps, GPUs per flavor.
	Donors map[string]int `json:"donors,omitempty" yaml:"donors"`
}

// DefaultQuotaPolicy takes nothing from anybody.
func DefaultQuotaPolicy() QuotaPolicy {
	return QuotaPolicy{Authority: Observe, DrainTime: 10 * time.Minute}
}

func (p *QuotaPolicy) problems() error {
	if p == nil {
		return nil
	}
	var errs []error
	if !slices.Contains([]Authority{Observe, Advise, Act}, p.Authority) {
		errs = append(errs, fmt.Errorf("quota.authority is %q: observe, advise or act are allowed", p.Authority))
	}
	if p.DrainTime < 0 || p.DrainTime > 24*time.Hour {
		errs = append(errs, fmt.Errorf("quota.drain_time is %s: 0s to 24h are allowed", shortDuration(p.DrainTime)))
	}
	for _, queue := range slices.Sorted(maps.Keys(p.Donors)) {
		if least := p.Donors[queue]; least < 0 {
			errs = append(errs, fmt.Errorf("quota.donors.%s is %d: the GPUs that it keeps, at least 0, are allowed", queue, least))
		}
	}
	return errors.Join(errs...)
}

// quotaBook is the quotas during one Decide: admitting replicas takes from them.
type quotaBook struct {
	quotas  []Quota
	nodes   []*quotaNode // by the index of quotas
	policy  QuotaPolicy
	memory  map[string]QuotaMemory
	need    []int  // GPUs, by the index of quotas: what the models of the queue will hold
	held    []bool // nobody can say that less is needed
	waiting map[string]int
}

// QuotaMemory is a quota that a Decision changed: Base is what it was before, Now what it was at the last Decision, and
// Target what that asked for.
type QuotaMemory struct {
	Queue    string `json:"queue"`
	Flavor   string `json:"flavor"`
	Resource string `json:"resource,omitempty"`
	Base     int    `json:"base_gpus"`
	Now      int    `json:"now_gpus"`
	Target   int    `json:"target_gpus"`
}

func quotaID(queue, flavor, resource string) string {
	return queue + "\x00" + flavor + "\x00" + resource
}

func newQuotaBook(s *State, p Policy) *quotaBook {
	b := &quotaBook{quotas: s.Quotas, nodes: make([]*quotaNode, len(s.Quotas)), policy: DefaultQuotaPolicy(),
		memory: map[string]QuotaMemory{}, need: make([]int, len(s.Quotas)), held: make([]bool, len(s.Quotas)),
		waiting: map[string]int{}}
	if p.Quota != nil {
		b.policy = *p.Quota
	}
	for _, m := range s.Memory.Quotas {
		b.memory[quotaID(m.Queue, m.Flavor, m.Resource)] = m
	}
	for i := range s.Quotas {
		q := &s.Quotas[i]
		b.need[i] = max(q.Used, q.Reserved)
		b.waiting[q.Queue] = max(b.waiting[q.Queue], q.Waiting)
		if b.nodes[i] == nil {
			for _, n := range quotaTree(s, quotaKey{q.Flavor, q.Resource}) {
				b.nodes[n.at] = n
			}
		}
	}
	return b
}

// of is the indices of the quotas that the model's replicas are admitted under: its queue's flavors with nodes that can
// hold it. A flavor of which the pools are unknown counts when it is of whole GPUs.
func (b *quotaBook) of(c *course, pools []Pool) []int {
	var out []int
	for i := range b.quotas {
		q := &b.quotas[i]
		if !slices.Contains(q.Models, c.state.Name) {
			continue
		}
		holds := q.Resource == ""
		if q.Pools != nil && len(pools) > 0 {
			holds = slices.ContainsFunc(pools, func(p Pool) bool {
				return p.holds(c.state.Shape) && slices.Contains(q.Pools, p.Name)
			})
		}
		if holds {
			out = append(out, i)
		}
	}
	return out
}

// admit takes quota for up to want replicas beyond the supply and returns how many get it, with the reason when not all
// do. What waits at the queue already goes first. A model without a queue is admitted anyway.
func (b *quotaBook) admit(c *course, want int) (admitted int, why string) {
	if len(c.quotas) == 0 {
		return want, ""
	}
	each := c.state.Shape.GPUs * c.state.Shape.Pods
	queue := b.quotas[c.quotas[0]].Queue
	free, left := 0, want
	for _, i := range c.quotas {
		n := b.nodes[i]
		available := max(0, n.available())
		ahead := min(available, b.waiting[queue])
		b.waiting[queue] -= ahead
		n.use(ahead)
		available -= ahead
		free += available
		fits := min(left, available/each)
		n.use(fits * each)
		left -= fits
	}
	if left == 0 {
		return want, ""
	}
	return want - left, fmt.Sprintf("queue %s has %d GPUs of quota left, with what it may borrow and without what waits "+
		"there already, and a replica needs %d", queue, free, each)
}

// pods is how many more pods of the model its quotas admit before this Decision places any; beyond every count for a model
// without a queue.
func (b *quotaBook) pods(c *course) int {
	if len(c.quotas) == 0 || c.state.Shape == (Shape{}) {
		return math.MaxInt
	}
	pods, waiting := 0, b.waiting[b.quotas[c.quotas[0]].Queue]
	for _, i := range c.quotas {
		available := max(0, b.nodes[i].available())
		ahead := min(available, waiting)
		waiting -= ahead
		pods += (available - ahead) / c.state.Shape.GPUs
	}
	return pods
}

// plan notes that the model will hold gpus more than it does now through its queue: first where there is nominal quota
// left, the rest on its first flavor. held is set when nobody can say that less is needed than the quota there is.
func (b *quotaBook) plan(c *course, gpus int, held bool) {
	for _, i := range c.quotas {
		b.held[i] = b.held[i] || held
		room := min(gpus, max(0, b.quotas[i].Nominal-b.need[i]))
		b.need[i] += room
		gpus -= room
	}
	if len(c.quotas) > 0 {
		b.need[c.quotas[0]] += gpus
	}
}

// base is what the quota is when nobody needs more: what it was before forewarm changed it. One that somebody else has
// changed since is that person's.
func (b *quotaBook) base(i int) int {
	q := &b.quotas[i]
	m, ok := b.memory[quotaID(q.Queue, q.Flavor, q.Resource)]
	if ok && (q.Nominal == m.Now || q.Nominal == m.Target) {
		return m.Base
	}
	return q.Nominal
}

// targets moves nominal quota between the queues that share a cohort so that each queue of models has what these will
// hold, and gives it back. Per cohort, flavor and resource the sum stays the same; no target is below what is in use,
// since that turns the queue's own workloads into victims of reclaim. So a queue of batch work is lowered as far as its
// work has left, and further at later ticks.
func (b *quotaBook) targets() ([]QuotaTarget, []QuotaMemory) {
	out := make([]QuotaTarget, len(b.quotas))
	for i := range b.quotas {
		q := &b.quotas[i]
		out[i] = QuotaTarget{Queue: q.Queue, Flavor: q.Flavor, Resource: q.Resource, Now: q.Nominal, Nominal: q.Nominal, Why: "as it is"}
	}
	order := make([]int, len(b.quotas))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(b.quotas[i].Queue, b.quotas[k].Queue) })
	for _, i := range order {
		b.giveBack(i, order, out)
	}
	for _, i := range order {
		b.fund(i, order, out)
	}
	for i := range out {
		q := &b.quotas[i]
		if out[i].Nominal == q.Nominal && q.Cohort == "" && q.Used > q.Nominal {
			out[i].Nominal, out[i].Why = q.Used, fmt.Sprintf("%d GPUs are in use", q.Used)
		}
	}
	var memory []QuotaMemory
	for i := range out {
		if base := b.base(i); base != out[i].Nominal || base != b.quotas[i].Nominal {
			memory = append(memory, QuotaMemory{Queue: out[i].Queue, Flavor: out[i].Flavor, Resource: out[i].Resource, Base: base,
				Now: b.quotas[i].Nominal, Target: out[i].Nominal})
		}
	}
	return out, memory
}

// share says whether quota can be moved between two quotas: they count the same and lend to each other.
func (b *quotaBook) share(i, k int) bool {
	a, c := &b.quotas[i], &b.quotas[k]
	return i != k && a.Cohort != "" && a.Flavor == c.Flavor && a.Resource == c.Resource && b.nodes[i].root() == b.nodes[k].root()
}

// floor is what quota i may not go below: what is in use, and what it may lend, which Kueue's webhook refuses to exceed it.
func (b *quotaBook) floor(i int) int {
	q := &b.quotas[i]
	floor := max(q.Used, q.Reserved)
	if q.LendingLimit != nil {
		floor = max(floor, *q.LendingLimit)
	}
	return floor
}

// giveBack returns what quota i has above its base and its need to queues that have less than theirs.
func (b *quotaBook) giveBack(i int, order []int, out []QuotaTarget) {
	spare := b.quotas[i].Nominal - max(b.need[i], b.base(i), b.floor(i))
	if b.held[i] || spare <= 0 {
		return
	}
	for _, k := range order {
		if owed := b.base(k) - out[k].Nominal; owed > 0 && spare > 0 && b.share(i, k) {
			n := min(spare, owed)
			out[i].Nominal -= n
			out[k].Nominal += n
			spare -= n
			out[i].Why = fmt.Sprintf("%d GPUs will be needed: the rest goes back", b.need[i])
			out[k].Why = fmt.Sprintf("%d GPUs come back from %s", n, out[i].Queue)
		}
	}
}

// fund raises quota i to its need by what its donors do not use.
func (b *quotaBook) fund(i int, order []int, out []QuotaTarget) {
	lack := b.need[i] - out[i].Nominal
	if len(b.quotas[i].Models) == 0 || lack <= 0 {
		return
	}
	var from []string
	for _, k := range order {
		least, donor := b.policy.Donors[b.quotas[k].Queue]
		if !donor || !b.share(i, k) || lack == 0 {
			continue
		}
		n := min(lack, max(0, out[k].Nominal-max(least, b.floor(k))))
		if n == 0 {
			continue
		}
		lack -= n
		out[i].Nominal += n
		out[k].Nominal -= n
		out[k].Why = fmt.Sprintf("%d GPUs less for %s", out[k].Now-out[k].Nominal, out[i].Queue)
		from = append(from, fmt.Sprintf("%d from %s", n, out[k].Queue))
	}
	out[i].Why = fmt.Sprintf("%d GPUs will be needed for %s", b.need[i], strings.Join(b.quotas[i].Models, ", "))
	if len(from) > 0 {
		out[i].Why += ": " + strings.Join(from, ", ")
	}
	if lack > 0 {
		out[i].Why += fmt.Sprintf("; %d more are not to be had now", lack)
	}
}
