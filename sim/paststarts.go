package sim

import (
	"fmt"
	"time"

	"forewarm/coldstart"
)

// PastStarts returns each model's starts of the weeks before the world began, perPath for every start path, as a ledger
// that watched them would hold them: the phases are drawn from the same distributions as the starts to come, on nodes
// of the first pool that fits. They are spread evenly over before, the last one ending before the world begins; failed
// starts are among them. The result is ordered by model, path and time and depends on the seed only.
func (c *Cluster) PastStarts(perPath int, before time.Duration) []coldstart.Sample {
	var out []coldstart.Sample
	for _, m := range c.models {
		for p, path := range []coldstart.Path{coldstart.ColdNode, coldstart.WarmNode, coldstart.CachedWeights} {
			for i := range perPath {
				since := c.world.Start.UnixNano() - int64(before)*int64(perPath-i)/int64(perPath)
				number := uint64(p*perPath + i)
				if s, ok := c.pastStart(m, path, since, number); ok {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// pastStart plans one start at an instant before the world; ok is false when no pool fits the model.
func (c *Cluster) pastStart(m *model, path coldstart.Path, since int64, number uint64) (coldstart.Sample, bool) {
	for _, p := range c.pools {
		if !p.fits(m) {
			continue
		}
		n := &node{pool: p, cached: map[string]bool{m.cfg.Name: path == coldstart.CachedWeights}, ordered: since, running: since, ready: since}
		if path == coldstart.ColdNode {
			random := newStream(c.seed, purposePastNode, nameSeed(m.cfg.Name), number)
			n.running += int64(p.cfg.Launch.draw(random.Rand))
			n.ready = n.running + int64(p.cfg.Ready.draw(random.Rand))
		}
		// Numbers from the top down: those of the world's own replicas count up from 1.
		r := &replica{id: fmt.Sprintf("%s-past-%03d", m.cfg.Name, number), model: m, node: n, since: since, number: ^number}
		r.plan(c.seed, since, 1)
		outcome := coldstart.Served
		if r.fails {
			outcome = coldstart.Failed
		}
		return r.sample(r.until, outcome), true
	}
	return coldstart.Sample{}, false
}
