package coldstart

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Span is one piece of evidence: a source says that a start was in Phase from From to To.
type Span struct {
	Phase    Phase
	From, To time.Time
	Source   Source
}

// A Loose is evidence that knows how long a phase took and not when: it happened somewhere between From and To.
type Loose struct {
	Phase    Phase
	Took     time.Duration
	From, To time.Time
	Source   Source
}

// A Segment is one piece of a start that has been cut up: the start was in Phase from From to To, counted from its begin.
type Segment struct {
	Phase    Phase
	From, To time.Duration
	Source   Source
}

// precedence orders phases by how much they say about an instant that several claim, least first. What encloses comes
// before what it encloses: a pod is not scheduled while its node is launched, the engine's initialisation contains the
// compilation, and the load of a model its download. Failed attempts come last: what the container did in them was lost.
var precedence = []Phase{Unattributed, PodReady, Schedule, ContainerStart, EngineBootstrap, EngineInit, WarmUp, WeightLoad,
	NodeLaunch, NodeRegister, NodeReady, ImagePull, WeightDownload, Compile, GraphCapture, FirstToken, Retry}

// Timeline cuts [start, end) into segments, in order and without gaps, so that their lengths sum to end − start exactly.
// Each instant belongs to one phase: the one of highest precedence among the spans that cover it, whatever their order;
// Unattributed where none does. Parts of spans outside [start, end) are dropped. Evidence without a place then takes
// what is unattributed between its bounds, earliest phase first; what does not fit there is dropped, because a start
// cannot take longer than it took.
//
// It returns nil when end is not after start. O(n²) in the number of spans, which is that of phases.
func Timeline(start, end time.Time, spans []Span, loose []Loose) []Segment {
	total := end.Sub(start)
	if total <= 0 {
		return nil
	}
	within := func(t time.Time) time.Duration { return min(max(t.Sub(start), 0), total) }
	cuts := []time.Duration{0, total}
	for _, s := range spans {
		cuts = append(cuts, within(s.From), within(s.To))
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []Segment
	for i := range len(cuts) - 1 {
		best := Segment{Unattributed, cuts[i], cuts[i+1], FromNothing}
		for _, s := range spans {
			if within(s.From) <= cuts[i] && within(s.To) >= cuts[i+1] && outranks(s, best) {
				best.Phase, best.Source = s.Phase, s.Source
			}
		}
		out = append(out, best)
	}
	loose = slices.Clone(loose)
	slices.SortStableFunc(loose, func(a, b Loose) int { return cmp.Compare(order(a.Phase), order(b.Phase)) })
	for _, l := range loose {
		out = l.place(out, within(l.From), within(l.To))
	}
	return merged(out)
}

// outranks reports whether the span says more about a segment than what is known so far. Two sources of one phase: the
// one that sources lists last is the closer one.
func outranks(s Span, than Segment) bool {
	a, b := slices.Index(precedence, s.Phase), slices.Index(precedence, than.Phase)
	return a > b || a == b && slices.Index(sources, s.Source) > slices.Index(sources, than.Source) && than.Source != FromNothing
}

func order(p Phase) int { return slices.Index(phases, p) }

// place turns unattributed time between from and to into the loose phase, from the left, until all of it is placed.
func (l Loose) place(in []Segment, from, to time.Duration) []Segment {
	var out []Segment
	left := l.Took
	for _, s := range in {
		a, b := max(s.From, from), min(s.To, to)
		take := min(left, b-a)
		if s.Phase != Unattributed || take <= 0 {
			out = append(out, s)
			continue
		}
		left -= take
		for _, part := range []Segment{
			{s.Phase, s.From, a, s.Source}, {l.Phase, a, a + take, l.Source}, {s.Phase, a + take, s.To, s.Source},
		} {
			if part.To > part.From {
				out = append(out, part)
			}
		}
	}
	return out
}

// merged joins neighbours of one phase and source.
func merged(in []Segment) []Segment {
	var out []Segment
	for _, s := range in {
		if n := len(out); n > 0 && out[n-1].Phase == s.Phase && out[n-1].Source == s.Source {
			out[n-1].To = s.To
			continue
		}
		out = append(out, s)
	}
	return out
}

// Tally sums segments by phase, and joins the sources of each. A phase that takes no time is not in it.
func Tally(segments []Segment) (map[Phase]time.Duration, map[Phase]Source) {
	took, from := map[Phase]time.Duration{}, map[Phase]Source{}
	of := map[Phase][]Source{}
	for _, s := range segments {
		took[s.Phase] += s.To - s.From
		if !slices.Contains(of[s.Phase], s.Source) {
			of[s.Phase] = append(of[s.Phase], s.Source)
		}
	}
	for _, p := range slices.Collect(maps.Keys(of)) {
		from[p] = joinSources(of[p])
	}
	return took, from
}

// joinSources names each of several sources once.
func joinSources(of []Source) Source {
	var names []string
	for _, s := range sources {
		for _, o := range of {
			if slices.Contains(strings.Split(string(o), "+"), string(s)) {
				names = append(names, string(s))
				break
			}
		}
	}
	return Source(strings.Join(names, "+"))
}
