package sim

import (
	"math"
	"time"
)

// Stats are one model's measurements since the start of the world.
//
// Invariant: Arrived = Served + Waiting + Running + Rejected + TimedOut + Lost.
type Stats struct {
	Model string
	// Arrived counts requests; each of the following counts is how one of them ended, or where it is.
	Arrived, Served, Waiting, Running, Rejected, TimedOut, Lost int64
	// PromptTokens and CompletionTokens are those of served requests.
	PromptTokens, CompletionTokens int64
	// Attained is the share of ended requests that met both SLOs; rejected, timed out and lost ones missed them. nil when
	// none has ended.
	Attained *float64
	// TTFT is of served requests; ITL is the mean time between the tokens of one.
	TTFT, ITL Quantiles
	// Ordered counts replicas that were asked for after the start of the world, Starts* how those starts ended.
	Ordered, StartsServed, StartsFailed, StartsCalledOff int64
	GPUHours                                             GPUHours
}

// Quantiles of a duration, within 1 %. All are 0 when Count is.
type Quantiles struct {
	Count         int64
	P50, P95, P99 time.Duration
}

// GPUHours are a model's GPU-hours by cause. Serving is what the load of each minute needed by the profile, Warm what was
// ready beyond it.
type GPUHours struct {
	Serving, Warm, Starting, Draining float64
}

// ClusterGPUHours are all allocatable GPU-hours by cause: the models' together, other workloads' and Free ones.
//
// Invariant: their sum is the GPUs of all ready nodes, integrated over time. Starting counts only GPUs of nodes that
// are ready.
type ClusterGPUHours struct {
	GPUHours
	Others, Free float64
}

// tally counts what happened to a model's requests and starts.
type tally struct {
	slo                                                  SLO
	start                                                int64 // instant of the first minute
	arrived, completed, rejected, timedOut, lost         int64
	promptTokens, completionTokens, attained             int64
	ordered, startsServed, startsFailed, startsCalledOff int64
	ttft, itl                                            histogram
	gpu                                                  GPUHours
	// minutes count the requests that arrived in each minute and have ended. A lost one counts in the minute of its loss.
	minutes []minuteOutcome
	// entered and left are the sums of the instants, since the start, at which requests came in and went.
	entered, left float64
}

// minuteOutcome is how many requests of a minute ended, and how many within the SLO.
type minuteOutcome struct{ ended, attained int64 }

// admit notes a request that is let in, leave n that go.
func (t *tally) admit(now int64)        { t.entered += float64(now - t.start) }
func (t *tally) leave(now int64, n int) { t.left += float64(now-t.start) * float64(n) }

// end counts a request that arrived at an instant as ended.
func (t *tally) end(arrived int64, attained bool) {
	i := max(0, int((arrived-t.start)/int64(time.Minute)))
	for len(t.minutes) <= i {
		t.minutes = append(t.minutes, minuteOutcome{})
	}
	t.minutes[i].ended++
	if attained {
		t.attained++
		t.minutes[i].attained++
	}
}

func (t *tally) reject(j job) {
	t.rejected++
	t.end(j.arrived, false)
}

func (t *tally) timeOut(arrived int64) {
	t.timedOut++
	t.end(arrived, false)
}

func (t *tally) lose(now int64, n int) {
	t.lost += int64(n)
	t.leave(now, n)
	for range n {
		t.end(now, false)
	}
}

func (t *tally) served(j job) {
	t.completed++
	t.leave(j.done, 1)
	t.promptTokens += int64(j.prompt)
	t.completionTokens += int64(j.completion)
	ttft := time.Duration(j.firstToken - j.arrived)
	t.ttft.add(ttft)
	ok := ttft <= t.slo.TTFT
	if j.completion > 1 {
		itl := time.Duration((j.done - j.firstToken) / int64(j.completion-1))
		t.itl.add(itl)
		ok = ok && itl <= t.slo.ITL
	}
	t.end(j.arrived, ok)
}

// share is the SLO attainment, nil when no request has ended.
func (t *tally) share() *float64 {
	ended := t.completed + t.rejected + t.timedOut + t.lost
	if ended == 0 {
		return nil
	}
	share := float64(t.attained) / float64(ended)
	return &share
}

// Stats returns the measurements of every model up to the present, sorted by name.
func (c *Cluster) Stats() []Stats {
	out := make([]Stats, 0, len(c.models))
	for _, m := range c.models {
		t := &m.tally
		waiting, running := m.signals()
		out = append(out, Stats{
			Model: m.cfg.Name, Arrived: t.arrived, Served: t.completed, Waiting: int64(waiting), Running: int64(running),
			Rejected: t.rejected, TimedOut: t.timedOut, Lost: t.lost,
			PromptTokens: t.promptTokens, CompletionTokens: t.completionTokens,
			Attained: t.share(), TTFT: t.ttft.quantiles(), ITL: t.itl.quantiles(),
			Ordered: t.ordered, StartsServed: t.startsServed, StartsFailed: t.startsFailed,
			StartsCalledOff: t.startsCalledOff, GPUHours: t.gpu,
		})
	}
	return out
}

// histogram counts durations in buckets that grow by histogramRatio, from histogramFirst on; its size is fixed.
type histogram struct {
	buckets [1200]int64
	count   int64
}

const (
	histogramRatio = 1.02
	histogramFirst = 10 * time.Microsecond
)

var histogramLog = math.Log(histogramRatio)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > histogramFirst {
		i = min(len(h.buckets)-1, int(math.Log(float64(d)/float64(histogramFirst))/histogramLog))
	}
	h.buckets[i]++
	h.count++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.count += o.count
}

// quantile is the middle of the bucket that holds the p-quantile.
func (h *histogram) quantile(p float64) time.Duration {
	rank := int64(math.Ceil(p * float64(h.count)))
	var seen int64
	for i, n := range h.buckets {
		if seen += n; seen >= rank {
			return time.Duration(float64(histogramFirst) * math.Exp((float64(i)+0.5)*histogramLog))
		}
	}
	return 0
}

func (h *histogram) quantiles() Quantiles {
	if h.count == 0 {
		return Quantiles{}
	}
	return Quantiles{Count: h.count, P50: h.quantile(0.5), P95: h.quantile(0.95), P99: h.quantile(0.99)}
}

// account integrates GPUs over time. What holds a GPU is constant between two calls of accountUpTo, which precedes each
// change.
type account struct {
	upTo         int64
	others, free float64 // GPU-hours
	cost         float64 // dollars of the GPUs that models held
	unpriced     bool    // one of them had no price
}

func (c *Cluster) accountUpTo(now int64) {
	hours := float64(now-c.account.upTo) / float64(time.Hour)
	if hours <= 0 {
		return
	}
	allocatable, held := 0, 0
	for _, p := range c.pools {
		for _, n := range p.nodes {
			if n.ready <= c.account.upTo {
				allocatable += n.gpus
				held += n.others
			}
		}
	}
	c.account.others += float64(held) * hours
	for _, m := range c.models {
		held += m.accountFor(hours, c.account.upTo)
		c.charge(m, hours)
	}
	c.account.free += float64(allocatable-held) * hours
	c.account.upTo = now
}

// charge adds what the GPUs of a model's replicas cost over a stretch of time. Nodes under way are not paid for yet.
func (c *Cluster) charge(m *model, hours float64) {
	for _, r := range m.replicas {
		if r.node == nil || r.node.ready > c.account.upTo {
			continue
		}
		price, ok := c.prices[r.node.pool.cfg.Product]
		if !ok {
			c.account.unpriced = true
		}
		c.account.cost += hours * float64(m.cfg.Shape.GPUs) * price
	}
}

// accountFor adds a stretch of time to the model's GPU-hours and returns the GPUs it holds on ready nodes.
func (m *model) accountFor(hours float64, from int64) int {
	readyNow, startingNow, drainingNow := 0, 0, 0
	for _, r := range m.replicas {
		switch {
		case r.state == ready:
			readyNow++
		case r.state == leaving:
			drainingNow++
		case r.state == starting && r.node.ready <= from:
			startingNow++
		}
	}
	gpus := m.cfg.Shape.GPUs
	serving := min(readyNow, m.need)
	per := hours * float64(gpus)
	m.tally.gpu.Serving += per * float64(serving)
	m.tally.gpu.Warm += per * float64(readyNow-serving)
	m.tally.gpu.Starting += per * float64(startingNow)
	m.tally.gpu.Draining += per * float64(drainingNow)
	return gpus * (readyNow + startingNow + drainingNow)
}

// GPUHours returns the allocatable GPU-hours since the start of the world, by cause.
func (c *Cluster) GPUHours() ClusterGPUHours {
	out := ClusterGPUHours{Others: c.account.others, Free: c.account.free}
	for _, m := range c.models {
		out.Serving += m.tally.gpu.Serving
		out.Warm += m.tally.gpu.Warm
		out.Starting += m.tally.gpu.Starting
		out.Draining += m.tally.gpu.Draining
	}
	return out
}
