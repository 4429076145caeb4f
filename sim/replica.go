package sim

import (
	"fmt"
	"slices"
	"time"

	"forewarm/coldstart"
)

type replicaState int

// The states of a replica. A pending one has no node.
const (
	pending replicaState = iota
	starting
	ready
	leaving
)

// replica is one replica of a model from its order to its end.
type replica struct {
	id       string
	model    *model
	state    replicaState
	node     *node
	actor    *actor
	since    int64 // instant at which it was ordered
	path     coldstart.Path
	phases   []phase // of its start, known once it has a node
	until    int64   // instant at which the start ends, well or not
	fails    bool
	server   batch
	deadline int64 // of a leaving one: instant at which it is killed
	number   uint64
}

// phase is one phase of a start and how long it takes.
type phase struct {
	name coldstart.Phase
	time time.Duration
}

// nextEvent is the instant at which a ready or leaving replica must be looked at.
func (r *replica) nextEvent() int64 {
	next := r.server.next()
	if r.state == leaving {
		next = min(next, r.deadline)
	}
	return next
}

func (c *Cluster) newReplica(m *model) *replica {
	m.created++
	r := &replica{id: fmt.Sprintf("%s-%06d", m.cfg.Name, m.created), model: m, number: m.created, since: c.now,
		server: m.newBatch(c.now)}
	r.actor = c.timeline.add(func() { c.replicaEvent(r) })
	m.replicas = append(m.replicas, r)
	return r
}

// seatReady adds a replica that is ready at the start of the world.
func (c *Cluster) seatReady(m *model) error {
	n := c.findNode(m)
	if n == nil {
		return fmt.Errorf("initial replica %d of %d needs %d GPUs on one node: no node has them free",
			m.created+1, m.cfg.Replicas, m.cfg.Shape.GPUs)
	}
	r := c.newReplica(m)
	r.node, r.state = n, ready
	n.used += m.cfg.Shape.GPUs
	n.cached[m.cfg.Name] = true
	return nil
}

// reconcile does what a Deployment does: it orders or releases replicas until there are as many as desired. Leaving ones
// do not count.
func (c *Cluster) reconcile(m *model) {
	supply := 0
	for _, r := range m.replicas {
		if r.state != leaving {
			supply++
		}
	}
	for ; supply < m.desired; supply++ {
		r := c.newReplica(m)
		m.tally.ordered++
		c.seat(r)
	}
	for ; supply > m.desired; supply-- {
		c.release(m.leastWorth())
	}
}

// leastWorth is the replica that a scale-down takes: pending before starting before ready, then the one with the fewest
// requests, then the youngest.
func (m *model) leastWorth() *replica {
	var worst *replica
	for _, r := range m.replicas {
		if r.state == leaving {
			continue
		}
		// >= on the load lets a later one win: replicas are in order of creation.
		if worst == nil || r.state < worst.state || r.state == worst.state && r.server.load() <= worst.server.load() {
			worst = r
		}
	}
	return worst
}

// seat puts a pending replica on a node and starts it, launching a node when none has room; without either it stays
// pending.
func (c *Cluster) seat(r *replica) {
	n := c.findNode(r.model)
	if n == nil {
		n = c.launchNode(r.model)
	}
	if n == nil {
		return
	}
	c.accountUpTo(c.now)
	r.node, r.state = n, starting
	n.used += r.model.cfg.Shape.GPUs
	c.watchIdle(n)
	r.plan(c.seed, c.now, c.slowdown())
	c.timeline.set(r.actor, r.until)
}

// seatPending tries again to seat the replicas that have no node, the oldest of each model first.
func (c *Cluster) seatPending() {
	for _, m := range c.models {
		for _, r := range m.replicas {
			if r.state == pending {
				c.seat(r)
			}
		}
	}
}

// slowdown is the factor on what starts fetch from afar.
func (c *Cluster) slowdown() float64 {
	if c.now < c.troubles.slowUntil {
		return c.troubles.registry
	}
	return 1
}

// plan draws the phases of a start at the instant the replica gets its node. What it waited for a node until then is
// part of scheduling, as a pod's is.
func (r *replica) plan(seed uint64, now int64, slowdown float64) {
	m, n, s := r.model, r.node, r.model.cfg.Startup
	random := newStream(seed, purposeStart, nameSeed(m.cfg.Name), r.number)
	cached := n.cached[m.cfg.Name]
	r.path = coldstart.WarmNode
	switch {
	case n.ready > now:
		r.path = coldstart.ColdNode
		r.phases = append(r.phases, phase{coldstart.NodeLaunch, time.Duration(max(0, n.running-now))},
			phase{coldstart.NodeReady, time.Duration(n.ready - max(now, n.running))})
	case cached:
		r.path = coldstart.CachedWeights
	}
	add := func(name coldstart.Phase, l Lognormal) { r.phases = append(r.phases, phase{name, l.draw(random.Rand)}) }
	add(coldstart.Schedule, s.Schedule)
	r.phases[len(r.phases)-1].time += time.Duration(now - r.since)
	if cached {
		add(coldstart.WeightLoad, s.CachedWeights)
		add(coldstart.EngineInit, s.CachedInit)
	} else {
		add(coldstart.ImagePull, s.ImagePull.times(slowdown))
		add(coldstart.WeightLoad, s.Weights.times(slowdown))
		add(coldstart.EngineInit, s.EngineInit)
	}
	add(coldstart.FirstToken, s.FirstToken)
	total := time.Duration(0)
	for _, p := range r.phases {
		total += p.time
	}
	if random.Float64() < s.FailureProb {
		r.fails = true
		total = time.Duration(now-r.since) + time.Duration(random.Float64()*float64(total-time.Duration(now-r.since)))
	}
	r.until = r.since + int64(total)
}

// replicaEvent is a replica's turn in the timeline.
func (c *Cluster) replicaEvent(r *replica) {
	switch r.state {
	case starting:
		c.endStart(r)
	case ready, leaving:
		c.serverEvent(r)
	}
}

// endStart makes a starting replica ready, or replaces it when it fails.
func (c *Cluster) endStart(r *replica) {
	m := r.model
	if r.fails {
		c.lose(r)
		c.reconcile(m)
		return
	}
	c.accountUpTo(c.now)
	r.state = ready
	r.server.begin(c.now)
	r.node.cached[m.cfg.Name] = true
	m.tally.startsServed++
	m.noteStart(r, c.now, coldstart.Served)
	c.drainQueue(m)
}

// noteStart remembers a start that ended, for the next Observe.
func (m *model) noteStart(r *replica, now int64, outcome coldstart.Outcome) {
	if len(m.starts) >= startsKept {
		m.starts = append(m.starts[:0], m.starts[1:]...)
	}
	m.starts = append(m.starts, r.sample(now, outcome))
}

// sample is the start of r as a ledger is told of it when it ends at now.
func (r *replica) sample(now int64, outcome coldstart.Outcome) coldstart.Sample {
	s := coldstart.Sample{
		ID:      r.id,
		Key:     coldstart.Key{Model: r.model.cfg.Name, Shape: r.model.cfg.Shape.String(), Path: r.path},
		Started: time.Unix(0, r.since).UTC(), Total: time.Duration(now - r.since), Outcome: outcome,
	}
	if outcome == coldstart.Served {
		s.Node = r.node.name
		s.Phases = map[coldstart.Phase]time.Duration{}
		for _, p := range r.phases {
			s.Phases[p.name] += p.time
		}
	}
	return s
}

// release lets a replica go: a ready one finishes its requests first, one that never served goes at once. A start that
// is called off says nothing about how long starts take, so it leaves no sample.
func (c *Cluster) release(r *replica) {
	if r.state != ready {
		r.model.tally.startsCalledOff++
		c.leave(r)
		return
	}
	c.accountUpTo(c.now)
	r.state, r.deadline = leaving, c.now+int64(r.model.cfg.DrainMax)
	c.collect(r)
	if r.server.load() == 0 {
		c.leave(r)
		return
	}
	c.timeline.set(r.actor, r.nextEvent())
}

// lose ends a replica that was not asked to go: its start failed, or its node did.
func (c *Cluster) lose(r *replica) {
	if r.state == starting {
		r.model.tally.startsFailed++
		r.model.noteStart(r, c.now, coldstart.Failed)
	}
	c.leave(r)
}

// leave removes a replica and frees its GPUs; requests still inside are lost. Others may take the room.
func (c *Cluster) leave(r *replica) {
	m := r.model
	c.accountUpTo(c.now)
	lost := r.server.load()
	m.tally.lose(c.now, lost)
	m.enter(c.now, -lost)
	m.replicas = slices.DeleteFunc(m.replicas, func(o *replica) bool { return o == r })
	c.timeline.set(r.actor, never)
	if r.node == nil {
		return
	}
	r.node.used -= m.cfg.Shape.GPUs
	c.watchIdle(r.node)
	c.seatPending()
}
