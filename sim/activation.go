package sim

import "time"

// activation is KEDA's own loop for a workload that may go to zero: between 0 and 1 replica KEDA decides, above that the
// HPA, which is off while the scale is 0. Every polling interval
//
//	a trigger is active (its value is above 0), scale 0       → scale 1
//	no trigger is active and none is in error, scale above 0  → scale 0, once nothing was active for the cooldown period
//	no trigger is active and one is in error                  → nothing
//
// A trigger of its own in forewarm tells KEDA by a stream that a model is active, without waiting for the next poll; here it
// waits like everybody's. There is no fallback and no idle count. Source: KEDA's executor (scale_scaledobjects.go, 2.18 to
// 2.21); its defaults are DefaultAutoscaler's.
type activation struct {
	cooldown time.Duration
	active   int64 // instant at which a trigger was last known to be active; the start of the world to begin with
}

// poll is the count that one polling of the triggers leaves of the present one.
func (a *activation) poll(now int64, current int, metrics []metric) int {
	active, broken := false, false
	for _, m := range metrics {
		broken = broken || m.err
		active = active || !m.err && m.value > 0
	}
	switch {
	case active && current == 0:
		a.active = now
		return 1
	case active && !broken:
		a.active = now
	case !active && !broken && now-a.active > int64(a.cooldown):
		return 0
	}
	return current
}

// pollKEDA is one polling of the triggers of a model that may go to zero.
func (c *Cluster) pollKEDA(m *model) {
	c.timeline.set(m.kedaActor, c.now+int64(c.world.Autoscaler.PollingInterval))
	if c.now < c.troubles.apiOut {
		return
	}
	if n := m.activation.poll(c.now, m.desired, c.metricsOf(m)); n != m.desired {
		m.desired = n
		c.reconcile(m)
		c.seatPending()
	}
}
