package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"forewarm/planner"
)

// Observe reads the newest complete steps, the queues and the replicas of every model at now. What could not be learnt
// is nil or missing with a Gap: one model's failure takes nothing from the others. It returns an error only when
// nothing at all was learnt. Starts, Inventory, Quotas and Actuator are left to other sources.
//
// Queries of many models are combined (up to 150 expressions or 64 KiB each) and run Concurrency at a time: 1,000 models
// are about a hundred queries, and a query that the server refuses is halved until the bad part stands alone. Metric
// names are looked up every ResolveEvery, spread over time.
func (s *Source) Observe(ctx context.Context, now time.Time) (planner.Observation, error) {
	obs := planner.Observation{At: now}
	end := now.Add(-s.cfg.IngestDelay)
	g := newGrid(end.Add(-time.Duration(s.cfg.ObserveSteps+1)*s.cfg.Step), end, s.cfg.Step)
	g = g.slice(g.n-s.cfg.ObserveSteps, g.n)

	t := s.look(ctx, now, g)
	open := map[gapKey]bool{}
	for i, m := range s.models {
		mo, gaps := t.model(s, i, m, now, open)
		obs.Models = append(obs.Models, mo)
		obs.Gaps = append(obs.Gaps, gaps...)
	}
	s.closeGaps(open)
	if t.learnt == 0 && len(s.models) > 0 {
		return planner.Observation{}, fmt.Errorf("observing: %w", errors.Join(t.first...))
	}
	return obs, nil
}

// tick is everything the server said in one Observe.
type tick struct {
	grid     grid
	resolved []*resolved // by position of the model; nil when the look-up failed
	errs     []error     // by position of the model: its look-up
	steps    columns
	now      map[string]float64
	failed   map[string]error // by key of an expression
	kube     *kubeFacts
	kubeErr  error
	learnt   int     // answers that were usable
	first    []error // distinct reasons, a few
}

// note keeps a few distinct reasons for the error of a tick in which nothing was learnt.
func (t *tick) note(err error) {
	const reasonsMax = 5
	for _, e := range t.first {
		if e.Error() == err.Error() {
			return
		}
	}
	if len(t.first) < reasonsMax {
		t.first = append(t.first, err)
	}
}

// look asks the server everything.
func (s *Source) look(ctx context.Context, now time.Time, g grid) *tick {
	t := &tick{grid: g, resolved: make([]*resolved, len(s.models)), errs: make([]error, len(s.models)),
		steps: columns{}, now: map[string]float64{}, failed: map[string]error{}}
	var mu sync.Mutex
	s.each(len(s.models), func(i int) {
		r, looked, err := s.current(ctx, s.models[i], now)
		mu.Lock()
		defer mu.Unlock()
		t.resolved[i], t.errs[i] = r, err
		if err != nil {
			t.note(err)
		} else if looked {
			t.learnt++
		}
	})
	var loads, gauges []expr
	for i, r := range t.resolved {
		if r != nil {
			loads = append(loads, r.loadExprs(prefixOf(i))...)
			gauges = append(gauges, r.gaugeExprs(prefixOf(i))...)
		}
	}
	ranges, instants := batch(loads), batch(gauges)
	s.each(len(ranges)+len(instants)+1, func(i int) {
		switch {
		case i < len(ranges):
			s.readSteps(ctx, t, &mu, ranges[i])
		case i < len(ranges)+len(instants):
			s.readNow(ctx, t, &mu, now, instants[i-len(ranges)])
		case len(s.namespaces()) > 0:
			kube, err := s.observeKube(ctx, now)
			mu.Lock()
			defer mu.Unlock()
			if t.kube, t.kubeErr = kube, err; err != nil {
				t.note(err)
			} else {
				t.learnt++
			}
		}
	})
	return t
}

// prefixOf keeps the keys of models apart in a combined query.
func prefixOf(i int) string { return fmt.Sprintf("%d.", i) }

// each runs f(0), …, f(n-1), Concurrency at a time.
func (s *Source) each(n int, f func(int)) {
	slots := make(chan struct{}, s.cfg.Concurrency)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// current returns what a model is read from, looking it up when that is old. An old answer is better than none: names
// seldom change, and expressions hold the alternatives.
func (s *Source) current(ctx context.Context, m ModelConfig, now time.Time) (r *resolved, looked bool, err error) {
	s.mu.Lock()
	r = s.resolved[m.Name]
	s.mu.Unlock()
	if r != nil && now.Before(r.expires) {
		return r, false, nil
	}
	fresh, err := s.refresh(ctx, m, now)
	if err != nil {
		if r != nil && (r.served.known() || r.gateway.known()) {
			return r, false, err
		}
		return nil, false, err
	}
	return fresh, true, nil
}

// readSteps reads one combined range query, halving it when the server refuses it.
func (s *Source) readSteps(ctx context.Context, t *tick, mu *sync.Mutex, exprs []expr) {
	m, err := s.client.matrix(ctx, combine(exprs), t.grid.end(0), t.grid.end(t.grid.n-1), t.grid.step)
	if err != nil && splittable(err) && len(exprs) > 1 {
		s.readSteps(ctx, t, mu, exprs[:len(exprs)/2])
		s.readSteps(ctx, t, mu, exprs[len(exprs)/2:])
		return
	}
	var got columns
	if err == nil {
		got, err = decode(m, t.grid)
	}
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		t.fail(exprs, err)
		return
	}
	t.learnt++
	maps.Copy(t.steps, got)
}

// readNow reads one combined instant query, halving it when the server refuses it.
func (s *Source) readNow(ctx context.Context, t *tick, mu *sync.Mutex, now time.Time, exprs []expr) {
	v, err := s.client.vector(ctx, combine(exprs), now)
	if err != nil && splittable(err) && len(exprs) > 1 {
		s.readNow(ctx, t, mu, now, exprs[:len(exprs)/2])
		s.readNow(ctx, t, mu, now, exprs[len(exprs)/2:])
		return
	}
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		t.fail(exprs, err)
		return
	}
	t.learnt++
	maps.Copy(t.now, byKey(v))
}

func (t *tick) fail(exprs []expr, err error) {
	t.note(err)
	for _, e := range exprs {
		t.failed[e.key] = err
	}
}

// assumeSaturated makes every step a lower bound when it could not be learnt whether requests waited or all replicas
// reported: a step is read once, so a clipped value taken for a free one would stay.
func (t *tick) assumeSaturated(prefix string) {
	for _, key := range []string{keyWaiting, keyQueue, keyReady, keyReporting} {
		if t.failed[prefix+key] != nil {
			t.steps[prefix+keyWaiting] = slices.Repeat([]float64{1}, t.grid.n)
		}
	}
}

// model cuts one model out of a tick.
func (t *tick) model(s *Source, i int, m ModelConfig, now time.Time, open map[gapKey]bool) (planner.ModelObservation, []planner.Gap) {
	mo := planner.ModelObservation{Name: m.Name}
	var gaps []planner.Gap
	add := func(fact, format string, args ...any) {
		gaps = append(gaps, s.gap(open, now, m.Name, fact, fmt.Sprintf(format, args...)))
	}
	r := t.resolved[i]
	if r == nil {
		r = &resolved{cfg: m}
	}
	t.assumeSaturated(prefixOf(i))
	h, from, unseen := r.load(t.steps, prefixOf(i), t.grid)
	mo.Load, mo.LoadSource = h, from
	if problem := t.loadProblem(i, r, h, unseen); problem != "" {
		add("load", "%s", problem)
		s.forget(m.Name, h)
	}
	mo.Waiting = t.gauge(prefixOf(i), []string{keyNow + string(FactWaiting), keyNowQueue}, func(d string) { add("waiting", "%s", d) })
	mo.Running = t.gauge(prefixOf(i), []string{keyNow + string(FactRunning)}, func(d string) { add("running", "%s", d) })
	mo.Engine = t.engine(prefixOf(i))
	switch {
	case len(m.Workloads) == 0:
		add("replicas", "no workload is configured")
	case t.kubeErr != nil:
		add("replicas", "%v", t.kubeErr)
	default:
		replicas, broken, err := t.kube.replicas(m.Workloads)
		mo.Replicas = replicas
		if err != nil {
			add("replicas", "%v", err)
		} else if len(broken) > 0 {
			add("replicas", "ready before and not now, so counted neither ready nor starting: %s", strings.Join(broken, ", "))
		}
	}
	return mo, gaps
}

// engine is what the engines of a model said of themselves, nil unless all of it is a number: a look that lacks a part
// teaches nothing.
func (t *tick) engine(prefix string) *planner.EngineLook {
	values := make([]float64, 4)
	for i, key := range []string{keyEngineRunning, keyEngineKV, keyEnginePrompt, keyEngineITL} {
		v, ok := t.now[prefix+key]
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		values[i] = v
	}
	return &planner.EngineLook{Running: planner.Ratio(values[0]), KVUsage: planner.Ratio(values[1]),
		Prompt: planner.TokenRate(values[2]), ITL: planner.Milliseconds(1000 * values[3])}
}

// loadProblem says why the newest step of a load is missing or doubtful, or nothing.
func (t *tick) loadProblem(i int, r *resolved, h planner.LoadHistory, unseen int) string {
	last := t.grid.n - 1
	absent := math.IsNaN(h.Prompt.Values[last]) || math.IsNaN(h.Completion.Values[last])
	if absent {
		if t.errs[i] != nil {
			return t.errs[i].Error()
		}
		for _, f := range []string{"served." + string(FactPrompt), "served." + string(FactCompletion), keyServedCover,
			"gateway." + string(FactPrompt), "gateway." + string(FactCompletion), keyGatewayCover} {
			if err := t.failed[prefixOf(i)+f]; err != nil {
				return err.Error()
			}
		}
		if !r.served.known() && !r.gateway.known() {
			return "no series matches " + strings.Join(r.cfg.Matchers, " or ")
		}
		return fmt.Sprintf("the step that ended %s is missing: a scrape was missed, or the series ended",
			t.grid.end(last).Format(time.RFC3339))
	}
	if unseen > 0 {
		return fmt.Sprintf("in %d of %d steps fewer replicas report than are ready: they are lower bounds", unseen, t.grid.n)
	}
	for _, key := range []string{keyWaiting, keyQueue, keyReporting, keyReady} {
		if err := t.failed[prefixOf(i)+key]; err != nil {
			return fmt.Sprintf("saturation is unknown, so the steps are lower bounds: %v", err)
		}
	}
	return ""
}

// forget makes the next tick look up a model's metrics anew when all steps are missing: they may have been renamed.
func (s *Source) forget(name string, h planner.LoadHistory) {
	if h.Prompt.Known() > 0 || h.Completion.Known() > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resolved[name]; r != nil {
		r.expires = time.Time{}
	}
}

// gauge adds up the parts of a gauge that were answered. It is unknown when none was, and unknown with a problem when
// one is not a number or could not be read: half a queue is no queue length.
func (t *tick) gauge(prefix string, keys []string, problem func(string)) *float64 {
	sum, known := 0.0, false
	for _, key := range keys {
		if err := t.failed[prefix+key]; err != nil {
			problem(err.Error())
			return nil
		}
		v, ok := t.now[prefix+key]
		if !ok {
			continue
		}
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			problem(fmt.Sprintf("%s is %v", key, v))
			return nil
		}
		sum, known = sum+v, true
	}
	if !known {
		return nil
	}
	return &sum
}
