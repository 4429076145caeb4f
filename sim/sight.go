package sim

import (
	"math"
	"time"

	"forewarm/planner"
)

// sight is what the metrics store shows, as old as the scrape lag makes it. Models are in the order of the cluster's.
type sight struct {
	at     time.Time
	models []gauges
}

// gauges are one model's metrics. blind ones are missing and hold nothing.
type gauges struct {
	blind                   bool
	waiting, running, ready int
	// busy is the mean share of the time since the last scrape in which a ready replica ran iterations: the duty cycle that
	// GPU utilisation shows. NaN without a ready replica.
	busy float64
	// kv is the mean share of the KV cache that ready replicas hold; NaN without one, or where it is not modelled.
	kv float64
	// arrived, prompt and completion are counters at the gateway: requests, and their tokens.
	arrived, prompt, completion int64
}

// scraper looks at the cluster and remembers what it saw for as long as the lag is.
type scraper struct {
	lag  time.Duration
	past []sight
	busy map[*replica]time.Duration // at the last scrape
}

// scrape takes in the present and returns the newest sight that is at least the lag old; ok is false when there is none
// yet.
func (p *scraper) scrape(c *Cluster) (sight, bool) {
	now := c.Now()
	s := sight{at: now}
	busy := map[*replica]time.Duration{}
	for _, m := range c.models {
		s.models = append(s.models, p.look(c, m, busy))
	}
	p.past, p.busy = append(p.past, s), busy
	seen := -1
	for i := range p.past {
		if now.Sub(p.past[i].at) >= p.lag {
			seen = i
		}
	}
	if seen < 0 {
		return sight{}, false
	}
	p.past = append(p.past[:0], p.past[seen:]...)
	return p.past[0], true
}

func (p *scraper) look(c *Cluster, m *model, busy map[*replica]time.Duration) gauges {
	if c.blind(c.now) {
		return gauges{blind: true}
	}
	g := gauges{busy: math.NaN(), kv: math.NaN(), arrived: m.tally.arrived, prompt: m.asked.prompt, completion: m.asked.completion}
	g.waiting, g.running = m.signals()
	var since time.Duration
	if len(p.past) > 0 {
		since = c.Now().Sub(p.past[len(p.past)-1].at)
	}
	sum, held := 0.0, 0.0
	for _, r := range m.replicas {
		if r.state != ready {
			continue
		}
		c.collect(r)
		c.timeline.set(r.actor, r.nextEvent())
		u := r.server.usage()
		busy[r] = u.busy
		g.ready++
		held += u.kv
		if before, ok := p.busy[r]; ok && since > 0 {
			sum += float64(u.busy-before) / float64(since)
		} else if since > 0 {
			sum += min(1, float64(u.busy)/float64(since))
		}
	}
	if g.ready > 0 && since > 0 {
		g.busy, g.kv = sum/float64(g.ready), held/float64(g.ready)
	}
	return g
}

// until cuts a history at the last step that is complete by an instant.
func until(h planner.LoadHistory, at time.Time) planner.LoadHistory {
	n := min(len(h.Prompt.Values), max(0, int(at.Sub(h.Prompt.Start)/h.Prompt.Step)))
	h.Prompt.Values, h.Completion.Values, h.Requests.Values = h.Prompt.Values[:n], h.Completion.Values[:n], h.Requests.Values[:n]
	return h
}
