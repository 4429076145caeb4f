package keda

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"forewarm/planner"
)

// Condition says how far the published plan can be trusted.
type Condition string

// The conditions of a plan, best first. A fresh and a stale plan are answered, the others are not.
const (
	PlanFresh Condition = "fresh" // younger than stale_after
	PlanStale Condition = "stale" // younger than max_plan_age
	PlanOld   Condition = "old"   // not younger than max_plan_age
	PlanNone  Condition = "none"  // never made
)

// board is everything that calls read: one immutable value behind an atomic pointer, replaced as a whole by Publish and
// SetModels.
type board struct {
	// planned is set once there is a Decision; at is when it was made, received when it came here.
	planned      bool
	at, received time.Time
	// entries holds each model that is configured or planned, by name.
	entries map[string]*entry
	names   []string // the keys of entries, sorted
	// replaced is closed when another board takes this one's place: it wakes the streams.
	replaced chan struct{}
}

// entry is one model on the board.
type entry struct {
	metric string
	spec   *pb.GetMetricSpecResponse
	// answer is the plan's number; nil when the plan has none, and missing then says why.
	answer  *int
	missing string
	// last is the newest number that any plan had; nil when there never was one.
	last *int
}

// newBoard builds the board of a Decision, nil for none yet, and the configured models. Of the previous board it keeps
// only the last known answers.
func newBoard(d *planner.Decision, received time.Time, models []string, previous *board) *board {
	b := &board{entries: map[string]*entry{}, replaced: make(chan struct{})}
	for _, name := range models {
		b.add(name, "no plan has been made yet", previous)
	}
	if d != nil {
		// Round strips the monotonic reading, so that a machine that slept notices; received keeps its own, so that a
		// wall clock set back does not make the plan young for ever.
		b.planned, b.at, b.received = true, d.At.Round(0), received
		for _, e := range b.entries {
			e.missing = "the plan does not have this model"
		}
		for i := range d.Models {
			b.plan(d, &d.Models[i], previous)
		}
	}
	for name := range b.entries {
		b.names = append(b.names, name)
	}
	slices.Sort(b.names)
	return b
}

func (b *board) add(name, missing string, previous *board) *entry {
	if e := b.entries[name]; e != nil {
		return e
	}
	e := &entry{missing: missing}
	if previous != nil && previous.entries[name] != nil {
		p := previous.entries[name]
		e.metric, e.spec, e.last = p.metric, p.spec, p.last
	} else {
		e.metric = MetricName(name)
		e.spec = metricSpec(e.metric)
	}
	b.entries[name] = e
	return e
}

func (b *board) plan(d *planner.Decision, m *planner.ModelDecision, previous *board) {
	e := b.add(m.Name, "", previous)
	switch {
	case m.Answer == nil:
		e.missing = whyMissing(d, m)
	case *m.Answer < 0:
		e.missing = fmt.Sprintf("the plan holds %d replicas, which is no count", *m.Answer)
	default:
		n := *m.Answer // a copy: the Decision stays the caller's
		e.answer, e.last, e.missing = &n, &n, ""
	}
}

// whyMissing says why a plan has no number for a model, from its gaps and its last step.
func whyMissing(d *planner.Decision, m *planner.ModelDecision) string {
	var parts []string
	for _, g := range d.Gaps {
		if g.Model != m.Name && g.Model != "" {
			continue
		}
		p := fmt.Sprintf("%s missing since %s", g.Fact, g.Since.UTC().Format(time.RFC3339))
		if g.Detail != "" {
			p += " (" + g.Detail + ")"
		}
		parts = append(parts, p)
	}
	for _, s := range slices.Backward(m.Steps) {
		if s.Why != "" {
			parts = append(parts, string(s.Stage)+": "+s.Why)
			break
		}
	}
	if len(parts) == 0 {
		return "the plan gives no number and no reason"
	}
	return clip("the plan has no trustworthy number: " + strings.Join(parts, "; "))
}

// reasonMax keeps a reason, which travels in a header, far below gRPC's limits.
const reasonMax = 600

// clip shortens a text to reasonMax bytes and keeps it valid UTF-8.
func clip(s string) string {
	if len(s) <= reasonMax {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(s[:reasonMax], "") + "…"
}

// age is how old the plan is: the longer of the time since it was made and the time since it came here, never negative.
// A plan from the future (another machine's clock, a clock set back) ages from its arrival.
func (b *board) age(now time.Time) time.Duration {
	return max(now.Sub(b.at), now.Sub(b.received), 0)
}

func (b *board) condition(now time.Time, staleAfter, maxAge time.Duration) Condition {
	switch age := b.age(now); {
	case !b.planned:
		return PlanNone
	case age >= maxAge:
		return PlanOld
	case age >= staleAfter:
		return PlanStale
	}
	return PlanFresh
}

// unknownModel is the sentence about a model that is neither configured nor planned.
func (b *board) unknownModel(name string) string {
	if len(b.names) == 0 {
		return fmt.Sprintf("model %s is not known: no model is configured or planned", quote(name))
	}
	shown, more := b.names, ""
	if len(shown) > namesShown {
		more = fmt.Sprintf(" and %d more", len(shown)-namesShown)
		shown = shown[:namesShown]
	}
	hint := ""
	if near := nearest(name, b.names); near != "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	return clip(fmt.Sprintf("model %s is not known%s Known models: %s%s",
		quote(name), cmp.Or(hint, "."), strings.Join(quoteAll(shown), ", "), more))
}

func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return quoted
}

// metricSpec asks the HPA for a target of 1 per replica, so that the metric is the wanted number of replicas. The target
// is constant: KEDA rewrites it in the HPA only when the ScaledObject changes (C8).
func metricSpec(metric string) *pb.GetMetricSpecResponse {
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{
		{MetricName: metric, TargetSize: 1, TargetSizeFloat: 1},
	}}
}
