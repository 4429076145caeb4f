package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/sim/engine"
)

// Cluster is one seeded realisation of a World, and its present. Time stands still until Advance or Observe moves it.
//
// It is not safe for concurrent use: a caller with several goroutines (a loop and a dashboard) needs a lock of its own.
type Cluster struct {
	world    World
	seed     uint64
	now      int64 // Unix nanoseconds
	timeline timeline
	models   []*model // sorted by name
	pools    []*pool  // sorted by name
	gaps     []interval
	minutes  *actor
	account  account
	done     []job // scratch of collect
	troubles troubles
	prices   map[string]float64 // dollars per GPU-hour, by product
}

// model is one model's clients, queue and replicas.
type model struct {
	cfg      Model
	gen      demand
	coming   []Request // of the present minute
	next     int       // index in coming of the next to arrive
	minute   int64     // index of the minute after that of coming
	arrival  *actor
	patience *actor // acts when the first request of the queue gives up
	queue    queue
	replicas []*replica // in order of creation
	created  uint64
	desired  int
	inside   int64   // requests waiting or running
	area     float64 // of inside over time, in nanoseconds
	areaAt   int64
	hpa      hpa
	hpaActor *actor
	// activation and its actor are those of a model that may go to zero.
	activation activation
	kedaActor  *actor
	answer     *int
	answerAt   int64
	starts     []coldstart.Sample // ended since the last Observe
	need       int                // replicas that the present minute's load needs, by the profile
	tally      tally
	asked      struct{ prompt, completion int64 } // tokens of all requests that arrived
	router     router
	engine     engine.Config
	truth      planner.Profile // what a replica really carries within the SLO: what a minute's need is counted by
	// triggers are those of a policy that is not a Decision, in place of answer and sibling.
	triggers []metric
}

// startsKept bounds the starts remembered for an Observe that never comes; the oldest go first.
const startsKept = 1000

// NewCluster returns the world at its start: initial replicas are ready, nothing waits. It returns everything that is
// wrong with w, or that an initial replica has no room.
func NewCluster(w World, seed uint64) (*Cluster, error) {
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("sim: world: %w", err)
	}
	c := &Cluster{world: w, seed: seed, now: w.Start.UnixNano()}
	c.account.upTo = c.now
	for _, p := range w.Pools {
		c.pools = append(c.pools, c.newPool(p))
	}
	slices.SortFunc(c.pools, func(a, b *pool) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
	for _, m := range w.Models {
		sm, err := c.newModel(m)
		if err != nil {
			return nil, fmt.Errorf("sim: model %q: %w", m.Name, err)
		}
		c.models = append(c.models, sm)
	}
	slices.SortFunc(c.models, func(a, b *model) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
	for _, m := range c.models {
		for range m.cfg.Replicas {
			err := c.seatReady(m)
			if err != nil && m.cfg.orderRest {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("sim: model %q: %w", m.cfg.Name, err)
			}
		}
		c.reconcile(m)
	}
	c.minutes = c.timeline.add(c.everyMinute)
	c.timeline.set(c.minutes, (floorDiv(c.now, int64(time.Minute))+1)*int64(time.Minute))
	return c, nil
}

func (c *Cluster) newModel(cfg Model) (*model, error) {
	// The stream is named by the model's name: its demand does not change when another model is added to the world.
	gen, err := newDemand(cfg.Workload, mix(c.seed, purposeModel, nameSeed(cfg.Name)))
	if err != nil {
		return nil, err
	}
	m := &model{cfg: cfg, gen: gen, desired: max(cfg.Replicas, cfg.ReplicasMin),
		hpa: hpa{cfg: c.world.Autoscaler, min: max(1, cfg.ReplicasMin), max: cfg.ReplicasMax}}
	m.tally.slo, m.tally.start = cfg.SLO, c.now
	m.router = newRouter(cfg.Router, mix(c.seed, purposeRouter, nameSeed(cfg.Name)))
	m.truth = cfg.Profile
	if cfg.Engine != nil {
		m.engine = engineConfig(*cfg.Engine)
		slo := planner.SLO{TTFT: cfg.SLO.TTFT, ITL: cfg.SLO.ITL, Percentile: needPercentile}
		m.truth = cfg.Engine.Capacity(gen.mix(), slo, 1).Rates
	}
	m.arrival = c.timeline.add(func() { c.arrive(m) })
	m.patience = c.timeline.add(func() { c.giveUp(m) })
	m.hpaActor = c.timeline.add(func() { c.syncHPA(m) })
	c.timeline.set(m.hpaActor, c.now+int64(c.world.Autoscaler.Sync))
	if cfg.ReplicasMin == 0 {
		m.activation = activation{cooldown: c.world.Autoscaler.CooldownPeriod, active: c.now}
		m.kedaActor = c.timeline.add(func() { c.pollKEDA(m) })
		c.timeline.set(m.kedaActor, c.now+int64(c.world.Autoscaler.PollingInterval))
	}
	m.minute = floorDiv(c.now, int64(time.Minute))
	c.fetchMinute(m)
	m.need = neededReplicas(m)
	for m.nextArrival() < c.now {
		m.next++
	}
	c.timeline.set(m.arrival, m.nextArrival())
	return m, nil
}

// close ends what models read their requests from, and returns what went wrong with it.
func (c *Cluster) close() error {
	var errs []error
	for _, m := range c.models {
		m.gen.close()
		if err := m.gen.err(); err != nil {
			errs = append(errs, fmt.Errorf("sim: model %q: trace: %w", m.cfg.Name, err))
		}
	}
	return errors.Join(errs...)
}

// nameSeed is the FNV-1a hash of a name.
func nameSeed(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Now is the present of the world, in UTC.
func (c *Cluster) Now() time.Time { return time.Unix(0, c.now).UTC() }

// Advance moves the world to an instant, handling everything that happens up to and including it. It returns an error
// when the instant lies in the past: time never goes backwards.
func (c *Cluster) Advance(to time.Time) error {
	end := to.UnixNano()
	if end < c.now {
		return fmt.Errorf("sim: advancing to %s: the world is at %s already, and time does not go backwards",
			to.Format(time.RFC3339Nano), c.Now().Format(time.RFC3339Nano))
	}
	for a := c.timeline.first(); a != nil && a.at <= end; a = c.timeline.first() {
		c.now = a.at
		// An actor that sets no new instant is out of the timeline.
		c.timeline.set(a, never)
		a.fire()
	}
	c.now = end
	c.accountUpTo(end)
	return nil
}

// everyMinute draws the coming minute of each model.
func (c *Cluster) everyMinute() {
	c.accountUpTo(c.now)
	for _, m := range c.models {
		c.fetchMinute(m)
		m.need = neededReplicas(m)
		c.timeline.set(m.arrival, m.nextArrival())
	}
	c.timeline.set(c.minutes, c.now+int64(time.Minute))
}

// fetchMinute puts the requests of the next minute into coming, whose own have all arrived by then.
func (c *Cluster) fetchMinute(m *model) {
	m.coming, m.next = m.gen.appendMinute(m.coming[:0], m.minute), 0
	m.minute++
}

// needPercentile is the share of requests that a minute's need lets meet the SLO.
const needPercentile = 0.95

// neededReplicas is how many replicas a minute's requests keep busy, by the profile or the true physics.
func neededReplicas(m *model) int {
	var prompt, completion float64
	for i := range m.coming {
		prompt += float64(m.coming[i].Prompt)
		completion += float64(m.coming[i].Completion)
	}
	busy := (prompt/float64(m.truth.Prompt) + completion/float64(m.truth.Completion)) / time.Minute.Seconds()
	n := int(busy)
	if busy > float64(n) {
		n++
	}
	return n
}

func (m *model) nextArrival() int64 {
	if m.next == len(m.coming) {
		return never
	}
	return m.coming[m.next].At.UnixNano()
}

// arrive hands the next request to the least loaded replica with room, or to the queue.
func (c *Cluster) arrive(m *model) {
	r := &m.coming[m.next]
	m.next++
	m.tally.arrived++
	m.asked.prompt += int64(r.Prompt)
	m.asked.completion += int64(r.Completion)
	j := job{arrived: c.now, client: r.Client, prompt: int32(r.Prompt), completion: int32(r.Completion)}
	if m.tooLong(r) {
		m.tally.reject(j)
	} else if to := m.router.pick(m.replicas, r.Client); to != nil {
		m.tally.admit(c.now)
		c.give(to, j)
	} else if m.queue.len() >= m.cfg.QueueMax {
		m.tally.reject(j)
	} else {
		m.tally.admit(c.now)
		m.enter(c.now, 1)
		m.queue.push(j)
		c.setPatience(m)
	}
	c.timeline.set(m.arrival, m.nextArrival())
}

// tooLong reports whether a request does not fit into the KV cache of a replica, which an engine refuses.
func (m *model) tooLong(r *Request) bool {
	return m.cfg.Engine != nil && r.Prompt+r.Completion > m.engine.Block*m.engine.Blocks
}

// give lets a replica take a request.
func (c *Cluster) give(r *replica, j job) {
	m := r.model
	if m.cfg.Engine != nil && m.cfg.Engine.PrefixHit != nil {
		j.shared = int32(float64(j.prompt) * float64(m.cfg.Engine.PrefixHit.At(warmTokens, m.router.ready)))
	}
	c.collect(r)
	m.enter(c.now, 1)
	r.server.add(j)
	c.timeline.set(r.actor, r.nextEvent())
}

// warmTokens is more than any replica needs to serve until its prefix cache is warm: the engine itself counts.
const warmTokens planner.Tokens = 1e15

// collect lets a replica's batch reach the present and takes what it finished.
func (c *Cluster) collect(r *replica) {
	m := r.model
	before := r.server.load()
	r.server.advance(c.now)
	var dropped int
	c.done, dropped = r.server.settle(c.done[:0], c.now-int64(m.cfg.Patience))
	m.tally.leave(c.now, dropped)
	for range dropped {
		m.tally.timeOut(c.now - int64(m.cfg.Patience))
	}
	for _, j := range c.done {
		m.tally.served(j)
	}
	m.enter(c.now, r.server.load()-before)
}

// enter counts requests that came into the model (or left it, negative) at an instant, for Little's law.
func (m *model) enter(now int64, n int) {
	m.area += float64(m.inside) * float64(now-m.areaAt)
	m.inside, m.areaAt = m.inside+int64(n), now
}

// drainQueue hands queued requests out while there is room.
func (c *Cluster) drainQueue(m *model) {
	for m.queue.len() > 0 {
		to := m.router.pick(m.replicas, m.queue.head().client)
		if to == nil {
			break
		}
		m.enter(c.now, -1)
		c.give(to, m.queue.pop())
	}
	c.setPatience(m)
}

func (c *Cluster) setPatience(m *model) {
	at := int64(never)
	if m.queue.len() > 0 {
		at = m.queue.head().arrived + int64(m.cfg.Patience)
	}
	if at != m.patience.at {
		c.timeline.set(m.patience, at)
	}
}

// giveUp drops the requests at the front of the queue whose clients have waited too long. The queue is in order of
// arrival.
func (c *Cluster) giveUp(m *model) {
	for m.queue.len() > 0 && m.queue.head().arrived <= c.now-int64(m.cfg.Patience) {
		m.tally.timeOut(m.queue.pop().arrived)
		m.tally.leave(c.now, 1)
		m.enter(c.now, -1)
	}
	c.setPatience(m)
}

// serverEvent lets a replica's server reach the present and handles what it finished.
func (c *Cluster) serverEvent(r *replica) {
	m := r.model
	c.collect(r)
	if r.state == leaving && (r.server.load() == 0 || c.now >= r.deadline) {
		c.leave(r)
		return
	}
	c.timeline.set(r.actor, r.nextEvent())
	if r.state == ready && m.queue.len() > 0 {
		c.drainQueue(m)
	}
}

// syncHPA is one period of a model's autoscaler.
func (c *Cluster) syncHPA(m *model) {
	c.timeline.set(m.hpaActor, c.now+int64(c.world.Autoscaler.Sync))
	if c.now < c.troubles.apiOut || m.desired == 0 {
		return
	}
	m.desired = m.hpa.sync(c.now, m.desired, c.metricsOf(m))
	c.reconcile(m)
	c.seatPending()
}

// metricsOf are a model's triggers as KEDA reads them now.
func (c *Cluster) metricsOf(m *model) []metric {
	external := metric{target: 1, err: m.answer == nil || c.now-m.answerAt > int64(c.world.Autoscaler.AnswerAgeMax)}
	if !external.err {
		external.value = float64(*m.answer)
	}
	metrics := []metric{external}
	if per := c.world.Autoscaler.WaitingPerReplica; per > 0 {
		waiting, _ := m.signals()
		metrics = append(metrics, metric{value: float64(waiting), target: per, err: c.blind(c.now)})
	}
	if m.triggers != nil {
		metrics = m.triggers
	}
	if c.now < c.troubles.scalerOut { // KEDA reaches nobody: every trigger is in error
		return []metric{{target: 1, err: true}}
	}
	return metrics
}

// signals are the model's gauges: waiting are the requests in the queue and those in replicas whose prefill has not
// begun; running all others inside.
func (m *model) signals() (waiting, running int) {
	waiting = m.queue.len()
	for _, r := range m.replicas {
		queued := r.server.queued()
		waiting += queued
		running += r.server.load() - queued
	}
	return waiting, running
}
