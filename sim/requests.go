package sim

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"forewarm/forecast"
	"forewarm/planner"
)

// Request is one call of a client.
type Request struct {
	At time.Time
	// Prompt and Completion are lengths in tokens, at least 1.
	Prompt, Completion int
	// Client names the heavy client that sent it, or Everyone.
	Client string
}

// minute is the grain of the realisation: its count and token sums are drawn first, its requests are made to fit them.
type minute struct {
	index              int64 // minutes since the Unix epoch
	count              int
	prompt, completion int64
}

// individually is the count up to which a minute's token sums are the sums of its requests' own draws. Above it they are
// drawn as a Gamma variate with the mean and variance of such a sum, and the requests' lengths are scaled to it: that
// changes a length by a few percent (√(2/count)·sd/mean) and makes a month of history as cheap as its minutes.
const individually = 64

// minuteAt draws the count and sums of one minute. The count has mean rate·60 s at the middle of the minute and, as a
// Gamma renewal process does over many events, the index of dispersion ArrivalCV².
func (g *Generator) minuteAt(index int64) minute {
	m := minute{index: index}
	mean := float64(g.Rate(time.Unix(index*60+30, 0)).Requests) * 60
	g.rand.seek(g.seed, purposeCount, uint64(index))
	m.count = g.drawCount(mean)
	if m.count > individually {
		prompt, completion := g.lengthFactors(time.Unix(index*60+30, 0))
		m.prompt = g.drawSum(g.prompt, m.count, prompt)
		m.completion = g.drawSum(g.completion, m.count, completion)
		return m
	}
	g.eachLength(m.index, m.count, func(prompt, completion float64) {
		m.prompt += int64(math.Round(prompt))
		m.completion += int64(math.Round(completion))
	})
	return m
}

// drawCount draws a count: a Gamma-mixed Poisson (negative binomial) when arrivals are more dispersed than Poisson's, a
// randomly rounded Gamma when they are less.
func (g *Generator) drawCount(mean float64) int {
	if mean <= 0 {
		return 0
	}
	dispersion := g.w.ArrivalCV * g.w.ArrivalCV
	switch excess := dispersion - 1; {
	case excess < 0:
		x := distuv.Gamma{Alpha: mean / dispersion, Beta: 1 / dispersion, Src: g.rand.src}.Rand()
		return int(math.Floor(x + g.rand.Float64()))
	case excess > 0:
		mean = distuv.Gamma{Alpha: mean / excess, Beta: 1 / excess, Src: g.rand.src}.Rand()
	}
	if mean <= 0 { // the mixing variate underflowed: next to no requests are expected
		return 0
	}
	return int(distuv.Poisson{Lambda: mean, Src: g.rand.src}.Rand())
}

// drawSum draws the sum of n lengths that are scaled by a factor.
func (g *Generator) drawSum(s *sampler, n int, factor float64) int64 {
	mean, variance := float64(n)*s.mean*factor, float64(n)*s.sd*s.sd*factor*factor
	if variance <= 0 {
		return max(int64(n), int64(math.Round(mean)))
	}
	x := distuv.Gamma{Alpha: mean * mean / variance, Beta: mean / variance, Src: g.rand.src}.Rand()
	return max(int64(n), int64(math.Round(x)))
}

func (g *Generator) eachLength(index int64, count int, each func(prompt, completion float64)) {
	prompt, completion := g.lengthFactors(time.Unix(index*60+30, 0))
	g.rand.seek(g.seed, purposeLengths, uint64(index))
	for range count {
		p := max(1, g.prompt.draw(g.rand.Rand)*prompt)
		each(p, max(1, g.completion.draw(g.rand.Rand)*completion))
	}
}

// appendMinute appends the requests of one minute, in order of arrival.
func (g *Generator) appendMinute(out []Request, index int64) []Request {
	m := g.minuteAt(index)
	if m.count == 0 {
		return out
	}
	first := len(out)
	offsets := g.arrivals(index, m.count)
	for _, at := range offsets {
		out = append(out, Request{At: time.Unix(index*60, 0).Add(at)})
	}
	added := out[first:]
	g.fillClients(added, index)
	g.scratch = g.scratch[:0]
	g.eachLength(index, m.count, func(p, c float64) { g.scratch = append(g.scratch, p, c) })
	if m.count <= individually {
		for i := range added {
			added[i].Prompt = int(math.Round(g.scratch[2*i]))
			added[i].Completion = int(math.Round(g.scratch[2*i+1]))
		}
		return out
	}
	scaleTo(g.scratch, 0, m.prompt, func(i int, tokens int64) { added[i].Prompt = int(tokens) })
	scaleTo(g.scratch, 1, m.completion, func(i int, tokens int64) { added[i].Completion = int(tokens) })
	return out
}

// arrivals draws a minute's arrival offsets, ascending: Gamma gaps with the workload's coefficient of variation, laid
// around a circle of one minute that is turned by a random angle. Gaps from the start of the minute would begin each
// minute with a train when arrivals come in trains.
func (g *Generator) arrivals(index int64, count int) []time.Duration {
	g.rand.seek(g.seed, purposeArrivals, uint64(index))
	shape := 1 / (g.w.ArrivalCV * g.w.ArrivalCV)
	gap := distuv.Gamma{Alpha: shape, Beta: 1, Src: g.rand.src}
	g.scratch = g.scratch[:0]
	sum := 0.0
	for range count {
		if shape == 1 {
			sum += g.rand.ExpFloat64()
		} else {
			sum += gap.Rand()
		}
		g.scratch = append(g.scratch, sum)
	}
	turn := g.rand.Float64()
	offsets := make([]time.Duration, count)
	first := 0 // the first one after the turn passed the top of the circle
	for i, upTo := range g.scratch {
		share := turn
		if sum > 0 { // else every gap underflowed: all at once
			share += upTo / sum
		}
		if share < 1 {
			first = i + 1
		} else {
			share -= 1
		}
		offsets[i] = min(time.Duration(share*float64(time.Minute)), time.Minute-1)
	}
	first %= count
	return slices.Concat(offsets[first:], offsets[:first])
}

// fillClients gives each request its client, in proportion to the rates in the middle of the minute.
func (g *Generator) fillClients(rs []Request, index int64) {
	mid := time.Unix(index*60+30, 0)
	rates := make([]float64, len(g.clients))
	total := g.everydayRate(mid)
	for i := range g.clients {
		rates[i] = g.clients[i].rate(mid)
		total += rates[i]
	}
	g.rand.seek(g.seed, purposeClients, uint64(index))
	for i := range rs {
		rs[i].Client = Everyone
		if len(rates) == 0 {
			continue
		}
		u := g.rand.Float64() * total
		for c := range rates {
			if u -= rates[c]; u < 0 {
				rs[i].Client = g.clients[c].client.Name
				break
			}
		}
	}
}

// scaleTo scales every second value of raw, from offset on, to whole numbers of at least 1 that sum to total. What is
// above 1 is scaled, and rounding is carried along, so that the sum is exact. total is at least the number of values.
func scaleTo(raw []float64, offset int, total int64, set func(i int, tokens int64)) {
	n := len(raw) / 2
	sum := 0.0
	for i := range n {
		sum += raw[2*i+offset] - 1
	}
	spare := total - int64(n)
	var given int64
	cum := 0.0
	for i := range n {
		cum += raw[2*i+offset] - 1
		share := float64(i+1) / float64(n) // all values are 1: spread evenly
		if sum > 0 {
			share = cum / sum
		}
		upTo := int64(math.Round(share * float64(spare)))
		if i == n-1 {
			upTo = spare
		}
		set(i, 1+upTo-given)
		given = upTo
	}
}

// Requests yields the requests that arrive in [from, to), in order.
func (g *Generator) Requests(from, to time.Time) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		var buffer []Request
		for index := floorDiv(from.Unix(), 60); index*60 < to.Unix()+1; index++ {
			buffer = g.appendMinute(buffer[:0], index)
			for _, r := range buffer {
				if r.At.Before(from) || !r.At.Before(to) {
					continue
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// History returns the load that the requests of [from, to) make, as means per step: tokens count when the request
// arrives. It is the same realisation as Requests, summed. A step of whole minutes costs O(minutes); from must lie on the
// minute grid then. Shorter steps must divide a minute, lie on their own grid, and cost O(requests). An incomplete last
// step is left out.
func (g *Generator) History(from, to time.Time, step time.Duration) (planner.LoadHistory, error) {
	grain := min(step, time.Minute)
	if step <= 0 || step > time.Minute && step%time.Minute != 0 || step < time.Minute && time.Minute%step != 0 {
		return planner.LoadHistory{}, fmt.Errorf("history step is %v: whole minutes, or a divisor of one, are allowed", step)
	}
	if from.UnixNano()%int64(grain) != 0 {
		return planner.LoadHistory{}, fmt.Errorf("history starts at %s: with a step of %v the grid of %v is allowed",
			from.Format(time.RFC3339Nano), step, grain)
	}
	n := max(0, int(to.Sub(from)/step))
	h := newHistory(from, step, n, g.loc)
	add := func(i int, prompt, completion, requests float64) {
		h.Prompt.Values[i] += prompt / step.Seconds()
		h.Completion.Values[i] += completion / step.Seconds()
		h.Requests.Values[i] += requests / step.Seconds()
	}
	if step < time.Minute {
		for r := range g.Requests(from, from.Add(time.Duration(n)*step)) {
			add(int(r.At.Sub(from)/step), float64(r.Prompt), float64(r.Completion), 1)
		}
		return h, nil
	}
	first, perStep := from.Unix()/60, int(step/time.Minute)
	for i := range n * perStep {
		m := g.minuteAt(first + int64(i))
		add(i/perStep, float64(m.prompt), float64(m.completion), float64(m.count))
	}
	return h, nil
}

// newHistory returns a history of zeros on one grid.
func newHistory(from time.Time, step time.Duration, n int, loc *time.Location) planner.LoadHistory {
	series := func() forecast.Series {
		return forecast.Series{Start: from, Step: step, Values: make([]float64, n), Location: loc}
	}
	return planner.LoadHistory{Prompt: series(), Completion: series(), Requests: series()}
}
