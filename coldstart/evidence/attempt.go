package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
)

// An attempt is what a log says of one run of the engine, from its first line to its first answer.
type attempt struct {
	marks    []mark
	engine   string
	version  string
	model    string
	compiled coldstart.Cache
	weights  coldstart.Cache
	tokens   int
	up       bool
}

// attempts puts marks in order and cuts them where a process begins: at a line that the server logs once, unless nothing
// happened since the last; at a line that every engine process logs, when that process has logged it before or the
// engine was up; and at the load of a model after the engine was up. What an engine that is up compiles or captures is
// no part of its start.
func attempts(marks []mark) []attempt {
	var out []attempt
	worked := false
	began := map[*string]bool{} // by rank
	for _, m := range inOrder(marks) {
		fresh := len(out) == 0
		if !fresh {
			wasUp := out[len(out)-1].up
			switch m.kind {
			case start:
				fresh = wasUp || worked && m.more().server || began[m.rank] && worked
			case begin:
				fresh = wasUp && m.phase == coldstart.WeightLoad
			}
		}
		if fresh {
			out = append(out, attempt{})
			worked, began = false, map[*string]bool{}
		}
		if m.kind == start && !m.more().server {
			began[m.rank] = true
		}
		if out[len(out)-1].up && m.phase != "" && m.exact && m.kind != end {
			continue
		}
		worked = worked || m.phase != ""
		out[len(out)-1].add(m)
	}
	return out
}

// inOrder sorts marks by their times, since the lines of several processes come out of order. A mark without a time
// stays with the one before it. Times of different clocks cannot be compared: then the order is that of the lines.
func inOrder(marks []mark) []mark {
	var reference mark
	for _, m := range marks {
		switch {
		case !m.exact:
		case !reference.exact:
			reference = m
		case m.clock != reference.clock:
			return marks
		}
	}
	type placed struct {
		mark
		t time.Time
	}
	c := aligned{near: reference.at, base: time.Unix(0, 0)}
	of := make([]placed, len(marks))
	for i, m := range marks {
		of[i] = placed{m, c.time(m)}
		if !m.exact && i > 0 {
			of[i].t = of[i-1].t
		}
	}
	byTime := func(a, b placed) int { return a.t.Compare(b.t) }
	if slices.IsSortedFunc(of, byTime) {
		return marks
	}
	slices.SortStableFunc(of, byTime)
	out := make([]mark, len(of))
	for i, p := range of {
		out[i] = p.mark
	}
	return out
}

func (a *attempt) add(m mark) {
	a.marks = append(a.marks, m)
	a.engine = cmp.Or(a.engine, m.engine)
	d := m.more()
	a.version = cmp.Or(a.version, d.version)
	a.model = cmp.Or(a.model, d.model)
	a.tokens = max(a.tokens, d.tokens)
	a.up = a.up || m.kind == up
	if m.compiled == coldstart.NotCached || a.compiled == "" { // one graph compiled is a miss
		a.compiled = cmp.Or(m.compiled, a.compiled)
	}
	if m.weights == coldstart.Cached || a.weights == "" { // "already present" is more than a download step that ended
		a.weights = cmp.Or(m.weights, a.weights)
	}
}

// name is the engine and its version.
func (a *attempt) name() string {
	return strings.ToValidUTF8(strings.TrimSpace(a.engine+" "+a.version), "?")
}

// weightsCache is what the log says about the weights. vLLM from 0.8 on logs a download that takes more than half a
// second: loaded without one means that they were there. Of other engines, silence says nothing.
func (a *attempt) weightsCache() coldstart.Cache {
	if a.weights != "" || a.engine != vllm || !atLeast(a.version, 0, 8) {
		return a.weights
	}
	for _, m := range a.marks {
		if m.phase == coldstart.WeightLoad && (m.kind == part || m.kind == total || m.kind == end) {
			return coldstart.Cached
		}
	}
	return ""
}

// atLeast compares a version such as "0.11.0rc1" by its first two numbers.
func atLeast(version string, major, minor int) bool {
	var x, y int
	if n, err := fmt.Sscanf(version, "%d.%d", &x, &y); n < 2 || err != nil {
		return false
	}
	return x > major || x == major && y >= minor
}

// aligned maps the clocks of a log to the cluster's.
type aligned struct {
	near  time.Time     // decides the year of a time without one; zero leaves it at 2000
	shift time.Duration // added to times without a zone
	base  time.Time     // when the process began; zero when that is not known
}

// time is when a mark was written; the zero time when that is not known.
func (a aligned) time(m mark) time.Time {
	switch m.clock {
	case absolute:
		return m.at
	case zoneless:
		return m.at.Add(a.shift)
	case yearless:
		if a.near.IsZero() {
			return m.at.Add(a.shift)
		}
		return nearestYear(m.at, a.near.Add(-a.shift)).Add(a.shift)
	case relative:
		if !a.base.IsZero() {
			return a.base.Add(m.at.Sub(time.Unix(0, 0)))
		}
	}
	return time.Time{}
}

// nearestYear moves t to the year that brings it closest to near.
func nearestYear(t, near time.Time) time.Time {
	var best time.Time
	for y := near.Year() - 1; y <= near.Year()+1; y++ {
		c := time.Date(y, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
		if best.IsZero() || c.Sub(near).Abs() < best.Sub(near).Abs() {
			best = c
		}
	}
	return best
}

// began is the first time in the attempt, whatever order its lines are in.
func (a *attempt) began(c aligned) time.Time {
	var first time.Time
	for _, m := range a.marks {
		if t := c.time(m).Add(-m.took); m.exact && !c.time(m).IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// when is the earliest exact time of a kind of mark; for up also one that was taken from the line before.
func (a *attempt) when(k kind, c aligned) time.Time {
	var first time.Time
	for _, m := range a.marks {
		if t := c.time(m); m.kind == k && !t.IsZero() && (m.exact || k == up) && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// engineSpans is the attempt as evidence. For each phase the rank that took longest counts, and no other: the replica
// waits for it. open says that spans without an end go on (to end). from and to bound evidence without a time.
func (a *attempt) engineSpans(c aligned, from, end time.Time, open bool) ([]coldstart.Span, []coldstart.Loose) {
	var spans []coldstart.Span
	var loose []coldstart.Loose
	without := map[coldstart.Phase]time.Duration{}
	var enclosing []coldstart.Loose
	for _, p := range coldstart.Phases() {
		for _, piece := range a.slowest(p, c) {
			switch {
			case !piece.from.IsZero() && !piece.to.IsZero():
				spans = append(spans, coldstart.Span{Phase: p, From: piece.from, To: piece.to, Source: coldstart.FromLogs})
			case !piece.from.IsZero():
				if open {
					spans = append(spans, coldstart.Span{Phase: p, From: piece.from, To: end, Source: coldstart.FromLogs})
				}
			case piece.whole:
				enclosing = append(enclosing, coldstart.Loose{Phase: p, Took: piece.took})
			default:
				without[p] += piece.took
				loose = append(loose, coldstart.Loose{Phase: p, Took: piece.took, From: from, To: end, Source: coldstart.FromLogs})
			}
		}
	}
	// A duration that holds others, when none of them has a place: it is told less those.
	for _, l := range enclosing {
		switch l.Phase {
		case coldstart.WarmUp:
			l.Took -= without[coldstart.Compile] + without[coldstart.GraphCapture]
		case coldstart.WeightLoad:
			l.Took -= without[coldstart.WeightDownload]
		}
		without[l.Phase] += l.Took
		loose = append(loose, coldstart.Loose{Phase: l.Phase, Took: max(l.Took, 0), From: from, To: end, Source: coldstart.FromLogs})
	}
	return a.compilation(c, spans, loose, from, end)
}

// compilation adds what the line about the whole initialisation says of it, where no line of its own does: at the
// beginning of the initialisation, for graphs are captured and KV caches filled after it.
func (a *attempt) compilation(c aligned, spans []coldstart.Span, loose []coldstart.Loose, from, end time.Time) ([]coldstart.Span, []coldstart.Loose) {
	known := slices.ContainsFunc(spans, func(s coldstart.Span) bool { return s.Phase == coldstart.Compile }) ||
		slices.ContainsFunc(loose, func(l coldstart.Loose) bool { return l.Phase == coldstart.Compile })
	var longest mark
	for _, m := range a.marks {
		if m.more().inside > longest.more().inside {
			longest = m
		}
	}
	inside := longest.more().inside
	if known || inside == 0 {
		return spans, loose
	}
	if at := c.time(longest); !at.IsZero() {
		began := at.Add(-longest.took)
		return append(spans, coldstart.Span{Phase: coldstart.Compile, From: began, To: began.Add(inside), Source: coldstart.FromLogs}), loose
	}
	for i := range loose {
		if loose[i].Phase == coldstart.WarmUp {
			loose[i].Took = max(loose[i].Took-inside, 0)
		}
	}
	return spans, append(loose, coldstart.Loose{Phase: coldstart.Compile, Took: inside, From: from, To: end, Source: coldstart.FromLogs})
}

// A piece is one stretch of a phase; from and to are zero when its place is not known, to alone when it has not ended.
type piece struct {
	from, to time.Time
	took     time.Duration
	whole    bool // it is the whole of the phase, other phases in it
}

// slowest returns the pieces of the rank for which a phase took longest; the first by name among equals.
func (a *attempt) slowest(p coldstart.Phase, c aligned) []piece {
	byRank := map[string][]mark{}
	for _, m := range a.marks {
		if m.phase == p {
			rank := ""
			if m.rank != nil {
				rank = *m.rank
			}
			byRank[rank] = append(byRank[rank], m)
		}
	}
	var best []piece
	longest, found := time.Duration(0), false
	ranks := make([]string, 0, len(byRank))
	for r := range byRank {
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	for _, r := range ranks {
		pieces := pieces(byRank[r], c)
		sum := time.Duration(0)
		for _, x := range pieces {
			sum += x.took
		}
		if len(pieces) > 0 && (!found || sum > longest) {
			best, longest, found = pieces, sum, true
		}
	}
	return best
}

// pieces makes pieces of one rank's marks of one phase: of the totals if there are any, else of the parts, else of what
// lies between a begin and the next end.
func pieces(marks []mark, c aligned) []piece {
	for _, k := range []kind{total, part} {
		var out []piece
		for _, m := range marks {
			if m.kind != k {
				continue
			}
			x := piece{took: m.took, whole: k == total}
			if at := c.time(m); !at.IsZero() {
				x.from, x.to = at.Add(-m.took), at
			}
			out = append(out, x)
		}
		if len(out) > 0 {
			return out
		}
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return c.time(a).Compare(c.time(b)) })
	var out []piece
	var since time.Time
	for _, m := range marks {
		at := c.time(m)
		switch {
		case at.IsZero():
		case m.kind == begin && since.IsZero():
			since = at
		case m.kind == end && !since.IsZero():
			out = append(out, piece{from: since, to: at, took: at.Sub(since)})
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		out = append(out, piece{from: since})
	}
	return out
}
