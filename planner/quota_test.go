package planner

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// genQuotas draws queues of one cohort, some with limits, whose use the arithmetic allows.
func genQuotas(t *rapid.T) []Quota {
	limit := func(label string, most int) *int {
		if rapid.Bool().Draw(t, label) {
			return nil
		}
		n := rapid.IntRange(0, most).Draw(t, label)
		return &n
	}
	var out []Quota
	for i := range rapid.IntRange(1, 5).Draw(t, "queues") {
		q := Quota{Queue: fmt.Sprint("q", i), Flavor: "f", Cohort: "all", Nominal: rapid.IntRange(0, 20).Draw(t, "nominal")}
		q.LendingLimit, q.BorrowingLimit = limit("lending", q.Nominal), limit("borrowing", 20)
		out = append(out, q)
	}
	return out
}

// TestQuotaArithmetic: taking no more than is available, one queue after another in any order, nobody gets more than the
// own quota and the borrowing limit, all together no more than there is, and what a queue does not lend stays its own.
func TestQuotaArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Quotas: genQuotas(t)}
		own := rapid.IntRange(0, 8).Draw(t, "cohort's own")
		s.Cohorts = []Cohort{{Name: "all", Shared: []Quota{{Flavor: "f", Nominal: own}}}}
		nodes := quotaTree(&s, quotaKey{flavor: "f"})
		used, all, total := make([]int, len(nodes)), 0, own
		for _, q := range s.Quotas {
			total += q.Nominal
		}
		for range 20 {
			i := rapid.IntRange(0, len(nodes)-1).Draw(t, "queue")
			take := min(rapid.IntRange(0, 10).Draw(t, "take"), max(0, nodes[i].available()))
			nodes[i].use(take)
			used[i], all = used[i]+take, all+take
		}
		if all > total {
			t.Fatalf("%d in use of %d", all, total)
		}
		for i, q := range s.Quotas {
			if q.BorrowingLimit != nil && used[i] > q.Nominal+*q.BorrowingLimit {
				t.Fatalf("%s uses %d of %d, and may borrow %d", q.Queue, used[i], q.Nominal, *q.BorrowingLimit)
			}
			if q.LendingLimit != nil && used[i] < q.Nominal-*q.LendingLimit && nodes[i].available() < q.Nominal-*q.LendingLimit-used[i] {
				t.Fatalf("%s uses %d of %d, lends %d and has %d left", q.Queue, used[i], q.Nominal, *q.LendingLimit, nodes[i].available())
			}
		}
	})
}

// TestQuotaTargetsProperty: whatever the needs, the sum of a cohort stays the same, nothing goes below what is in use or
// what its owner keeps, queues that are neither models' nor donors stay as they are, and targets that were carried out
// and needs that stay are no reason for another change.
func TestQuotaTargetsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Quotas: genQuotas(t)}
		p := Policy{Quota: &QuotaPolicy{Authority: Act, Donors: map[string]int{}}}
		needs := make([]int, len(s.Quotas))
		for i := range s.Quotas {
			q := &s.Quotas[i]
			q.Used = rapid.IntRange(0, q.Nominal).Draw(t, "used")
			q.Reserved = rapid.IntRange(q.Used, q.Nominal).Draw(t, "reserved")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				q.Models = []string{"m"}
				needs[i] = rapid.IntRange(0, 20).Draw(t, "more")
			case 1:
				p.Quota.Donors[q.Queue] = rapid.IntRange(0, 10).Draw(t, "least")
			}
		}
		decide := func() []QuotaTarget {
			b := newQuotaBook(&s, p)
			for i, more := range needs {
				b.plan(&course{quotas: []int{i}}, more, false)
			}
			out, memory := b.targets()
			s.Memory.Quotas = memory
			return out
		}
		before, after := 0, 0
		targets := decide()
		for i, got := range targets {
			q := s.Quotas[i]
			before, after = before+q.Nominal, after+got.Nominal
			least, donor := p.Quota.Donors[q.Queue]
			if got.Nominal < q.Nominal && (got.Nominal < q.Reserved || !donor || got.Nominal < least || q.LendingLimit != nil && got.Nominal < *q.LendingLimit) {
				t.Fatalf("%+v goes down to %d, donor %v keeps %d", q, got.Nominal, donor, least)
			}
			if got.Nominal > q.Nominal && got.Nominal > q.Reserved+needs[i] {
				t.Fatalf("%+v goes up to %d, needs %d more", q, got.Nominal, needs[i])
			}
		}
		if before != after {
			t.Fatalf("%d GPUs became %d: %+v", before, after, targets)
		}
		for i := range s.Quotas {
			s.Quotas[i].Nominal = targets[i].Nominal
		}
		for i, got := range decide() {
			if got.Nominal != targets[i].Nominal {
				t.Fatalf("%s was to be %d, and is now to be %d", got.Queue, targets[i].Nominal, got.Nominal)
			}
		}
		clear(needs)
		for i, got := range decide() {
			q := s.Quotas[i]
			if base := newQuotaBook(&s, p).base(i); got.Nominal != base {
				t.Fatalf("%s is %d when nobody needs more, it was %d; used %d", got.Queue, got.Nominal, base, q.Used)
			}
		}
	})
}
