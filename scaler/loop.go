package scaler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"forewarm/coldstart"
	"forewarm/forecast"
	"forewarm/planner"
)

// Source brings the facts of the world. Its two implementations are the live readers and the simulated cluster.
type Source interface {
	// History returns a model's load over [from, to) at the Tracker's step; missing steps are NaN. With an error that
	// wraps planner.ErrPartial what is returned may be used.
	History(ctx context.Context, model string, from, to time.Time) (planner.LoadHistory, error)
	// Observe returns what is known at now. Facts it could not learn are nil or Gaps; an error means that nothing could
	// be learned at all.
	Observe(ctx context.Context, now time.Time) (planner.Observation, error)
}

// Plan is a published Decision. Version counts up from 1 in this process.
type Plan struct {
	Version  int64
	Decision *planner.Decision
}

// Config is what a Loop is made of. Source, Tracker and Models are required; the functions may be nil.
type Config struct {
	Clock   Clock
	Source  Source
	Tracker *planner.Tracker
	Policy  planner.Policy
	// Models are the tracked models. The history of each that has a load of its own is read at the start.
	Models []string
	// Interval is the time between two ticks, Step that of the load history, History how far back it is read.
	Interval, Step, History time.Duration
	// HistoryWorkers read histories beside the ticks, so that the first plan of a large fleet does not wait for all of
	// them. With 0 they are read within the tick; a Source that is not safe for concurrent use needs that.
	HistoryWorkers int
	// Memory is that of the last Decision of an earlier process.
	Memory planner.Memory
	// Snapshots keep the forecasters over a restart; nil keeps none.
	Snapshots *Snapshots
	// Record makes a Decision durable before it is published.
	Record func(context.Context, planner.Decision) error
	// RecordState keeps the State and Policy that the recorded Decision came from, after it was published: a State is
	// large, and nobody waits for it.
	RecordState func(context.Context, planner.State, planner.Policy, planner.Decision) error
	// PastStarts are the starts of an earlier time that are shown until newer ones were watched.
	PastStarts []coldstart.Sample
	// Inherits picks the starts that a new Tracker takes over from the one before it in Reconfigure; nil is all of them.
	Inherits func(coldstart.Sample) bool
	// Standing are facts that are missing for as long as the process runs, such as a past that could not be read; every plan
	// has them among its Gaps.
	Standing []planner.Gap
	// RecordStarts keeps observed cold starts.
	RecordStarts func(context.Context, []coldstart.Sample) error
	// Publish hands the plan to those who serve it; it must not block.
	Publish func(Plan)
	// Apply carries the Decision out.
	Apply   func(context.Context, planner.Decision) error
	Metrics *Metrics
	Log     *slog.Logger
}

// Loop runs the tick. Its Plan and Status may be read from any goroutine; Run is called once.
type Loop struct {
	cfg     Config
	memory  planner.Memory
	plan    atomic.Pointer[Plan]
	status  status
	starts  startBook
	version int64
	reading *reading
	workers sync.WaitGroup         // that read histories
	next    atomic.Pointer[Config] // what Reconfigure was given and no tick has taken yet
	saved   map[string]time.Time   // when a model's snapshot was saved, or tried
	// unsaved and unrestored are what is wrong with snapshots.
	unsaved, unrestored problems
}

// NewLoop returns a Loop that has not started.
func NewLoop(cfg Config) *Loop {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l := &Loop{cfg: cfg, memory: cfg.Memory, reading: newReading(cfg), saved: map[string]time.Time{}, unsaved: problems{},
		unrestored: problems{}}
	for _, s := range cfg.PastStarts {
		l.starts.add(s.Key.Model, []coldstart.Sample{s})
	}
	return l
}

// Plan is the latest published plan, nil before the first.
func (l *Loop) Plan() *Plan { return l.plan.Load() }

// Run ticks until ctx ends. The first tick comes at once. It returns nil when ctx ends: a loop has no other end.
func (l *Loop) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.workers.Wait()
	defer cancel()
	ticker := time.NewTicker(l.cfg.Clock.Wall(l.cfg.Interval))
	defer ticker.Stop()
	for {
		before := l.cfg.Interval
		l.Tick(ctx, l.cfg.Clock.Now())
		if l.cfg.Interval != before {
			ticker.Reset(l.cfg.Clock.Wall(l.cfg.Interval))
		}
		select {
		case <-ctx.Done():
			l.saveAll(l.cfg.Clock.Now())
			return nil
		case <-ticker.C:
		}
	}
}

// Tick is one round at time now: observe → Decide → record → publish → apply.
func (l *Loop) Tick(ctx context.Context, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	l.reconfigured(now)
	obs := l.observe(ctx, now)
	l.readHistories(ctx, now) // after the look, which brings a simulated world to now
	if ctx.Err() != nil {
		return // the end cut the look short: what it did not see is no reason for a last plan
	}
	obs.Gaps = append(obs.Gaps, l.cfg.Standing...)
	state := l.cfg.Tracker.State(obs, l.memory).Sound()
	decision, err := planner.Decide(state, l.cfg.Policy)
	if !l.outcome("decide", now, err) {
		return
	}
	l.memory = decision.Memory
	l.starts.note(&state)
	recorded := l.record(ctx, now, decision)
	l.publish(decision)
	if l.cfg.Metrics != nil {
		l.cfg.Metrics.observe(&state, &decision, l.cfg.Policy)
	}
	// What was published is carried out and its State kept also when ctx ends meanwhile.
	ctx = context.WithoutCancel(ctx)
	if l.cfg.Apply != nil {
		l.outcome("apply", now, l.cfg.Apply(ctx, decision))
	}
	if recorded && l.cfg.RecordState != nil {
		l.outcome("record_state", now, l.cfg.RecordState(ctx, state, l.cfg.Policy, decision))
	}
	l.saveSnapshots(now)
}

// Reconfigure makes the loop observe and decide by next from its next tick on: by its Source, Tracker, Policy,
// Models, Interval, Step, History, HistoryWorkers and Snapshots. Everything else, the memory of the last Decision
// above all, stays as it is. With a new Tracker the histories are read anew, and until they are the plan holds or
// grows; it learns the starts that the one before knows (see Inherits), since without a journal they are nowhere
// else. It may be called from any goroutine; of several calls between two ticks the last counts.
func (l *Loop) Reconfigure(next Config) { l.next.Store(&next) }

func (l *Loop) reconfigured(now time.Time) {
	next := l.next.Swap(nil)
	if next == nil {
		return
	}
	anew := next.Tracker != l.cfg.Tracker
	if anew {
		if refused := next.Tracker.Inherit(l.cfg.Tracker, next.Inherits); len(refused) > 0 {
			l.cfg.Log.Warn("starts learned before were refused", "problems", refused)
		}
	}
	l.cfg.Source, l.cfg.Tracker, l.cfg.Policy, l.cfg.Models = next.Source, next.Tracker, next.Policy, next.Models
	l.cfg.Interval, l.cfg.Step, l.cfg.History = next.Interval, next.Step, next.History
	l.cfg.HistoryWorkers, l.cfg.Snapshots = next.HistoryWorkers, next.Snapshots
	if anew {
		clear(l.saved)
		// A model that is gone has no more problems; of one that stays they come up again, for all of it is read and saved anew.
		l.forget(now, "save_snapshot", l.unsaved)
		l.forget(now, "restore_snapshot", l.unrestored)
		l.reading = newReading(l.cfg) // workers of the old one end by themselves and are not listened to
	}
}

// observe asks the source within one interval. A source that fails altogether yields an Observation in which every
// fact is missing, so that Decide holds and the plan says why.
func (l *Loop) observe(ctx context.Context, now time.Time) planner.Observation {
	look, cancel := context.WithTimeout(ctx, max(l.cfg.Clock.Wall(l.cfg.Interval), observeTimeoutMin))
	defer cancel()
	obs, err := l.cfg.Source.Observe(look, now)
	if ctx.Err() != nil {
		return planner.Observation{}
	}
	if !l.outcome("observe", now, err) {
		since := l.status.lastGood("observe")
		if since.IsZero() {
			since = now // it never worked in this process
		}
		return planner.Observation{At: now, Gaps: []planner.Gap{{Fact: "observation", Since: since, Detail: err.Error()}}}
	}
	obs.At = now
	l.backfill(look, now, obs.Models)
	l.recordStarts(ctx, now, obs)
	return obs
}

// observeTimeoutMin is the least time a source gets, also when a simulated clock makes ticks very short.
const observeTimeoutMin = 2 * time.Second

// backfill reads the steps that an outage left between what the tracker has and what the source just brought. Steps
// that cannot be read stay missing.
func (l *Loop) backfill(ctx context.Context, now time.Time, models []planner.ModelObservation) {
	asked, failed := false, problems{}
	for i := range models {
		m := &models[i]
		end, start := l.cfg.Tracker.End(m.Name), m.Load.Prompt.Start
		if m.Load.Prompt.Len() == 0 || end.IsZero() || !start.After(end) || start.Sub(end) > l.cfg.History {
			continue
		}
		asked = true
		h, err := l.cfg.Source.History(ctx, m.Name, end, start)
		if err != nil {
			failed[m.Name] = err
		}
		if err != nil && !errors.Is(err, planner.ErrPartial) {
			continue
		}
		if joined, ok := join(h, m.Load); ok {
			m.Load = joined
		}
	}
	if asked {
		l.outcome("backfill", now, failed.err("history"))
	}
}

// join puts two stretches of load together; ok is false when the first does not end where the second starts.
func join(a, b planner.LoadHistory) (planner.LoadHistory, bool) {
	if a.Prompt.Len() == 0 || !a.Prompt.End().Equal(b.Prompt.Start) || a.Prompt.Step != b.Prompt.Step {
		return planner.LoadHistory{}, false
	}
	return planner.LoadHistory{
		Prompt:     concat(a.Prompt, b.Prompt),
		Completion: concat(a.Completion, b.Completion),
		Requests:   concat(a.Requests, b.Requests),
	}, true
}

func concat(a, b forecast.Series) forecast.Series {
	out := forecast.Series{Start: a.Start, Step: a.Step, Location: b.Location}
	for _, s := range []forecast.Series{a, b} {
		out.Values = append(out.Values, s.Values...)
		marks := make([]bool, s.Len())
		copy(marks, s.AtLeast)
		out.AtLeast = append(out.AtLeast, marks...)
	}
	return out
}

func (l *Loop) recordStarts(ctx context.Context, now time.Time, obs planner.Observation) {
	var starts []coldstart.Sample
	for i := range obs.Models {
		m := &obs.Models[i]
		// A source need not know the shape; without it a start that is read back would not count for this model's own key.
		m.Starts = l.cfg.Tracker.Keyed(m.Name, m.Starts)
		starts = append(starts, m.Starts...)
		l.starts.add(m.Name, m.Starts)
		if l.cfg.Metrics != nil {
			l.cfg.Metrics.starts.observe(m.Name, m.Starts, now)
		}
	}
	if l.cfg.Metrics != nil {
		l.cfg.Metrics.starts.settle(now)
	}
	if len(starts) > 0 && l.cfg.RecordStarts != nil {
		l.outcome("record_starts", now, l.cfg.RecordStarts(ctx, starts))
	}
}

// record makes the Decision durable before anyone can act on it, so that a restart never knows less than KEDA was told:
// the end of ctx does not stop it, for the plan would be published all the same. A journal that fails does not keep the
// plan from being served.
func (l *Loop) record(ctx context.Context, now time.Time, d planner.Decision) bool {
	if l.cfg.Record == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return l.outcome("record", now, l.cfg.Record(ctx, d))
}

// recordTimeout bounds how long a slow disk may delay a plan.
const recordTimeout = 3 * time.Second

func (l *Loop) publish(d planner.Decision) {
	l.version++
	p := &Plan{Version: l.version, Decision: &d}
	l.plan.Store(p)
	if l.cfg.Publish != nil {
		l.cfg.Publish(*p)
	}
}

// outcome notes how a part of the tick went and logs a change for the worse or the better once, not every tick.
func (l *Loop) outcome(part string, now time.Time, err error) bool {
	changed := l.status.set(part, now, err)
	if l.cfg.Metrics != nil {
		l.cfg.Metrics.outcome(part, now, err)
	}
	switch {
	case err != nil && changed:
		l.cfg.Log.Error("tick part failed", "part", part, "at", now, "error", err)
	case err == nil && changed:
		l.cfg.Log.Info("tick part works", "part", part, "at", now)
	}
	return err == nil
}

// Status reports how each part of the tick went last, sorted by part.
func (l *Loop) Status() []PartStatus { return l.status.all() }
