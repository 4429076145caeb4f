package evidence

import (
	"time"

	"forewarm/coldstart"
)

// Engine is what an engine's log tells about the run of a container that somebody else watched.
type Engine struct {
	Spans []coldstart.Span
	Loose []coldstart.Loose
	// Name is the engine and its version, "" when the log does not tell.
	Name             string
	Weights, Compile coldstart.Cache
}

// EngineOf reads the logs of one container whose last run began at run and that was ready at ready. ok is false when
// nothing in them is evidence. The spans reach from run to ready: they are for coldstart.Timeline, together with what the
// caller knows of the time before.
func EngineOf(logs []*Log, run, ready time.Time) (_ Engine, ok bool) {
	joined := Join(logs, func(*Log) string { return "" })
	if len(joined) == 0 || len(joined[0].marks) == 0 {
		return Engine{}, false
	}
	a, clock := joined[0].serving(run, ready)
	if a.engine == "" {
		return Engine{}, false
	}
	s := podStart{lastRun: run, ready: ready}
	out := Engine{Name: a.name(), Weights: a.weightsCache(), Compile: a.compiled}
	out.Spans, out.Loose = s.logSpans(a, clock, ready, coldstart.Served)
	return out, true
}
