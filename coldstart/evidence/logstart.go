package evidence

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"forewarm/coldstart"
)

// rotated matches what log rotation appends to a name: engine.log.1, engine.log-20260302, 0.log.20260302-091500, .gz.
var rotated = regexp.MustCompile(`([.-]\d{8}(-\d{6})?|\.\d{1,3})?(\.gz)?$`)

// rotation is the name of a log without what rotation appended, so that its parts have one name.
func rotation(l *Log) string { return rotated.ReplaceAllString(l.Name, "") + "\x00" + l.Pod }

// logStarts makes starts of logs alone: from the first line with a time to the first answer, or to the word that the
// engine serves. Attempts that never served are retries of the next one.
func logStarts(logs []*Log, o Options) (starts []Start, notes []string) {
	for _, l := range logs {
		if len(l.marks) == 0 {
			notes = append(notes, l.label()+": no line that is evidence of a start")
			continue
		}
		if l.Dropped > 0 {
			notes = append(notes, fmt.Sprintf("%s: %s", l.label(), l.dropped()))
		}
		var failed []attempt
		all := attempts(l.marks)
		found := 0
		for i := range all {
			if !all[i].up && i < len(all)-1 {
				failed = append(failed, all[i])
				continue
			}
			s, why := l.start(found, failed, &all[i], o)
			failed = nil
			if why != "" {
				notes = append(notes, l.label()+": "+why)
				continue
			}
			found++
			starts = append(starts, s)
		}
	}
	return starts, notes
}

// dropped says what was not kept.
func (l *Log) dropped() string {
	return fmt.Sprintf("%d lines of evidence were not kept, of the oldest attempts first: no more than %d of a file are", l.Dropped, marksMax)
}

func (l *Log) label() string {
	if l.Pod != "" {
		return l.Name + " pod " + l.Pod
	}
	return l.Name
}

// start is one start by its log: of the attempt a after the failed ones.
func (l *Log) start(n int, failed []attempt, a *attempt, o Options) (_ Start, why string) {
	clock := aligned{near: o.At, base: time.Unix(0, 0).UTC()}
	run, served := a.began(clock), a.when(up, clock)
	if run.IsZero() || a.engine == "" {
		return Start{}, "no line of an engine with a time: kubectl logs --timestamps adds one"
	}
	first := run
	for i := range failed {
		first = earlier(failed[i].began(clock), first)
	}
	end, outcome := served, coldstart.Served
	if served.IsZero() {
		outcome = coldstart.Pending
		for _, m := range a.marks {
			if t := clock.time(m); t.After(end) {
				end = t
			}
		}
	}
	answer := a.when(done, clock)
	if !served.IsZero() && answer.After(served) && answer.Sub(served) <= o.AnswerWithin {
		end = answer
	}
	if !end.After(first) {
		return Start{}, "nothing after the first line has a time"
	}
	to := end
	if !served.IsZero() {
		to = served
	}
	spans, loose := a.engineSpans(clock, run, to, outcome != coldstart.Served)
	add := func(p coldstart.Phase, from, to time.Time) {
		if !from.IsZero() && to.After(from) {
			spans = append(spans, coldstart.Span{Phase: p, From: from, To: to, Source: coldstart.FromLogs})
		}
	}
	add(coldstart.Retry, first, run)
	add(coldstart.EngineBootstrap, run, weightsTouched(spans))
	add(coldstart.FirstToken, served, end)
	s := l.assemble(n, a, len(failed), first, end, outcome, coldstart.Timeline(first, end, spans, loose))
	if err := s.Validate(); err != nil {
		return Start{}, err.Error()
	}
	return s, ""
}

func (l *Log) assemble(n int, a *attempt, failed int, first, end time.Time, outcome coldstart.Outcome, segments []coldstart.Segment) Start {
	pod := cmp.Or(l.Pod, path.Base(strings.Split(l.Name, ", ")[0]))
	s := Start{Pod: pod, Segments: segments, Attempts: 1 + failed, KVTokens: a.tokens,
		Notes: []string{"by the log alone: counted from its first line, so node, schedule, image and container are not in it"}}
	if first.Year() == 2000 || first.Year() == 1970 {
		s.Notes = append(s.Notes, "the log has no date of its own: give the time at which it was taken")
	}
	if failed > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d failed attempts before this one", failed))
	}
	s.Sample = coldstart.Sample{
		ID: strings.ToValidUTF8(fmt.Sprintf("log:%s#%d", pod, n+1), "?"), Started: first, Total: end.Sub(first), Outcome: outcome,
		Key: coldstart.Key{Model: strings.ToValidUTF8(cmp.Or(a.model, pod), "?"),
			Engine: a.name(), Weights: a.weightsCache(), Compile: a.compiled},
	}
	s.Phases, s.Sources = coldstart.Tally(segments)
	return s
}
