package planner

import (
	"math"
	"time"
)

// Constraint is what stops a replica from carrying more.
type Constraint string

// The constraints. Prefill compute and decode bind when iterations get longer than the ITL allows (or, without an ITL
// bound, when the replica is saturated): the larger part of the work names it.
const (
	BoundPrefill   Constraint = "prefill compute"
	BoundDecode    Constraint = "decode"
	BoundKV        Constraint = "KV tokens"
	BoundSequences Constraint = "max sequences"
	BoundTTFT      Constraint = "TTFT"
)

// Capacity is the largest load of one mix that a replica carries within an SLO, and what it is like then.
type Capacity struct {
	Requests RequestRate // λ*
	Bound    Constraint
	// ITL is the mean time between tokens, Sequences and KVTokens what is held on average.
	ITL       time.Duration
	Sequences Ratio
	KVTokens  Tokens
	// Unmet are the bounds that even a nearly idle replica would miss with this mix; Requests is without them.
	Unmet []Constraint
	// Rates is Requests as the rates of prompts alone and of completions alone, split as the binding constraint weighs
	// them: a load of this mix fits exactly while prompt/Rates.Prompt + completion/Rates.Completion ≤ 1.
	Rates Profile
}

const (
	// saturated is the highest utilisation of a replica for which nobody stated a bound.
	saturated = 0.95
	// worthwhile is the smallest share of what the replica carries without a bound for which the bound is still kept:
	// below it the tail of the requests misses the bound by itself, and more replicas would not help.
	worthwhile = 0.05
	// kvUsable is the share of the KV tokens up to which a queue for them drains: beyond it sequences that grow preempt
	// each other.
	kvUsable = 0.9
)

// Capacity returns the largest load of the mix that a replica carries within the SLO, when the load is spread over so
// many replicas (the prefix cache depends on it).
//
// With w the work of a request and w_p its prefill part, the time between tokens is T = (α + a)/(1 − λw), a being what
// the request's own sequence adds to an iteration (for α = 0 this is M/G/1 processor sharing). λ·T·E[decodes] sequences
// and λ·T·E[context read] KV tokens are held. The SLO's percentile enters through
//
//   - prefill: one first-come-first-served server; the wait is the Pollaczek-Khinchine sum of residual services;
//   - admission: the chance that sequences or KV tokens are taken, by Halfin and Whitt's approximation of Erlang's C with
//     the spread of what requests hold, and an exponential wait;
//   - ITL: the spread over requests of the prefill work of others that falls into their decoding (a first passage) and of
//     the number of sequences beside them (linear noise), as one lognormal excess over α.
//
// All probabilities are closed; λ* is found by a search over them. Of the 180 cases of capacity_test.go, where the KV cache
// holds at least about twenty contexts and completions have 100 tokens and more, 176 are within 10 % of sim/engine and all
// within 25 %. Beyond that it is off by more, mostly too low: to a third of the true capacity where the cache holds five
// widely spread contexts.
//
// Sources: Kleinrock, Queueing Systems I and II; Halfin and Whitt, Operations Research 29 (1981).
func (p *Physics) Capacity(m RequestMix, slo SLO, replicas int) Capacity {
	c := p.costs(m, float64(p.PrefixHit.At(1e15, replicas)))
	free := c.most()
	var out Capacity
	for _, bound := range []struct {
		name Constraint
		slo  SLO
	}{{BoundTTFT, SLO{TTFT: slo.TTFT, Percentile: slo.Percentile}}, {c.slower(), SLO{ITL: slo.ITL, Percentile: slo.Percentile}}} {
		if c.late(worthwhile*free, bound.slo).any(slo.Percentile) {
			out.Unmet = append(out.Unmet, bound.name)
			if bound.slo.TTFT > 0 {
				slo.TTFT = 0
			} else {
				slo.ITL = 0
			}
		}
	}
	rate := c.largest(slo)
	out.Bound = c.binding(rate, slo)
	at := c.at(rate)
	out.Requests = RequestRate(rate * 1e3)
	out.ITL = time.Duration(at.iteration * float64(time.Millisecond))
	out.Sequences, out.KVTokens = Ratio(at.sequences), Tokens(at.kv)
	out.Rates = c.rates(rate, out.Bound)
	return out
}

// costs is what the requests of one mix cost one replica, in ms and tokens a request. Rates are per ms.
type costs struct {
	p                       *Physics
	alpha, own              float64 // own is what one sequence adds to an iteration
	prefill, decode         float64 // work
	prompt, promptSpread    float64 // E[C], E[C²]/E[C]
	decodes                 float64 // E[O−1]
	context, contextSq      float64 // E[Σ KV tokens read], E[Σ their squares]: over the decode iterations of a request
	prefillSq               float64 // E[prefill work²]
	drain                   float64 // 2/(1+cv²): how much faster than exponential stays a queue drains
	prompts                 []promptCost
	lengths                 []lengthCost
	tokens                  float64 // E[prompt tokens computed]
	sequencesMax, kvMax     float64
	batchedTokensMax, chunk float64
}

// promptCost is a prompt of one cell of the distribution: its weight, context, tokens to compute and their work.
type promptCost struct{ weight, context, tokens, work float64 }

// lengthCost is a completion of one cell: weight and decode iterations.
type lengthCost struct{ weight, decodes float64 }

func (p *Physics) costs(m RequestMix, hit float64) *costs {
	prompt, completion := float64(m.Prompt), float64(m.Completion)
	pcv, ccv := float64(m.PromptCV), float64(m.CompletionCV)
	completionSq := moment(completion, ccv, 2)
	product := completion * prompt * (1 + float64(m.Correlation)*pcv*ccv)
	c := &costs{
		p: p, alpha: float64(p.Iteration), prompt: prompt, promptSpread: prompt * (1 + pcv*pcv),
		decodes: max(completion-1, 0), tokens: prompt * (1 - hit), drain: 2 / (1 + ccv*ccv),
		sequencesMax: float64(p.MaxSequences), kvMax: float64(p.KVTokens),
		batchedTokensMax: float64(p.MaxBatchedTokens), chunk: float64(p.Chunk),
	}
	c.context = max(0, product-prompt) + max(0, completionSq-completion)/2
	c.contextSq = c.decodes*moment(prompt, pcv, 2) + prompt*completionSq + moment(completion, ccv, 3)/3
	c.decode = float64(p.Decode)*c.decodes + float64(p.Attention)*c.context
	if c.decodes > 0 {
		c.own = c.decode / c.decodes
	}
	contexts, lengths := lognormal(prompt, pcv), lognormal(completion, ccv)
	c.prompts, c.lengths = make([]promptCost, 0, len(promptCells)), make([]lengthCost, 0, len(completionCells))
	for _, cell := range cellsFor(promptCells, pcv) {
		context := contexts(cell.z)
		tokens := context * (1 - hit)
		work := float64(p.Prefill)*tokens + float64(p.PrefillAttention)*tokens*(context*hit+tokens/2)
		c.prompts = append(c.prompts, promptCost{cell.weight, context, tokens, work})
		c.prefill += cell.weight * work
		c.prefillSq += cell.weight * work * work
	}
	for _, cell := range cellsFor(completionCells, ccv) {
		c.lengths = append(c.lengths, lengthCost{cell.weight, max(1, lengths(cell.z)-1)})
	}
	return c
}

// cellsFor is one cell of all weight for a variable that does not spread.
func cellsFor(cells []cell, cv float64) []cell {
	if cv == 0 {
		return []cell{{low: math.Inf(-1), weight: 1}}
	}
	return cells
}

func (c *costs) work() float64 { return c.prefill + c.decode }

// slower names the larger part of the work.
func (c *costs) slower() Constraint {
	if c.prefill > c.decode {
		return BoundPrefill
	}
	return BoundDecode
}

// point is a replica at one rate of requests.
type point struct {
	rate      float64
	busy      float64 // λw
	iteration float64 // T
	decoding  float64 // an iteration without prefill
	sequences float64 // decoding
	kv        float64 // their KV tokens
	budget    float64 // prompt tokens of an iteration
	// The prefill server: mean and mean square of a service in the queue, the mean stay of a prompt in prefill, and the
	// KV tokens that prompts hold there.
	service, serviceSq, stay, heldPrefill, heldPrefillSq float64
}

func (c *costs) at(rate float64) point {
	pt := point{rate: rate, busy: rate * c.work()}
	if pt.busy >= 1 {
		return pt
	}
	pt.iteration = (c.alpha + c.own) / (1 - pt.busy)
	pt.sequences = rate * pt.iteration * c.decodes
	pt.kv = rate * pt.iteration * c.context
	pt.decoding = c.alpha + c.own*pt.sequences
	pt.budget = max(1, c.batchedTokensMax-pt.sequences)
	if c.chunk > 0 {
		pt.budget = min(pt.budget, c.chunk)
	}
	for i := range c.prompts {
		q := &c.prompts[i]
		s, stay := c.service(q, &pt), c.stay(q, &pt)
		pt.service += q.weight * s
		pt.serviceSq += q.weight * s * s
		pt.stay += q.weight * stay
		pt.heldPrefill += q.weight * stay * q.context
		pt.heldPrefillSq += q.weight * stay * q.context * q.context
	}
	return pt
}

// service is how long a prompt keeps the prefill server from the next one: with a queue, prompts share iterations.
func (c *costs) service(q *promptCost, pt *point) float64 {
	return q.work + q.tokens/pt.budget*pt.decoding
}

// stay is how long the prompt's own prefill takes: whole iterations.
func (c *costs) stay(q *promptCost, pt *point) float64 {
	return q.work + math.Ceil(q.tokens/pt.budget)*pt.decoding
}

// lateness is the share of requests that miss a bound, by what makes them late.
type lateness struct{ prefill, sequences, kv, itl float64 }

// any reports whether more requests are late than the percentile allows.
func (l lateness) any(percentile float64) bool {
	return l.prefill+l.sequences+l.kv > 1-percentile || l.itl > 1-percentile
}

func (c *costs) late(rate float64, slo SLO) lateness {
	pt := c.at(rate)
	if pt.busy >= 1 || rate*pt.service >= 1 {
		return lateness{1, 1, 1, 1}
	}
	var l lateness
	if ttft := float64(slo.TTFT) / float64(time.Millisecond); ttft > 0 {
		l.prefill = c.latePrefill(&pt, ttft)
		l.sequences, l.kv = c.lateAdmission(&pt, ttft)
	}
	if itl := float64(slo.ITL) / float64(time.Millisecond); itl > 0 && c.decodes > 0 {
		l.itl = c.lateITL(&pt, itl)
	}
	return l
}

// full is the rate at which sequences or KV tokens are all taken: held = λ·T·perDecode + λ·perPrefill with T inserted.
func (c *costs) full(perDecode, perPrefill, total float64) float64 {
	return 1 / (c.work() + ((c.alpha+c.own)*perDecode+perPrefill)/total)
}

// most is a rate that is never exceeded, whatever the SLO: the replica's saturation, the usable KV tokens and sequences.
func (c *costs) most() float64 {
	pt := c.at(0)
	return min(saturated/c.work(), c.full(c.decodes, pt.stay, c.sequencesMax), c.full(c.context, pt.heldPrefill, kvUsable*c.kvMax))
}

// largest is λ*: where the larger of the two shares of late requests reaches what is allowed. It is found by the Illinois
// variant of regula falsi on the logarithm of that share, which grows steadily with the rate, to two parts in a thousand.
func (c *costs) largest(slo SLO) float64 {
	excess := func(rate float64) float64 {
		l := c.late(rate, slo)
		worst := max(l.prefill+l.sequences+l.kv, l.itl)
		return math.Log(max(worst, 1e-6) / (1 - slo.Percentile))
	}
	low, high := 0.0, c.most()
	above := excess(high)
	if above <= 0 {
		return high
	}
	below := -above
	for side, steps := 0, 0; high-low > 2e-3*high && steps < 100; steps++ {
		middle := low + (high-low)*min(max(below/(below-above), 0.05), 0.95)
		switch e := excess(middle); {
		case e > 0:
			high, above = middle, e
			if side > 0 {
				below /= 2
			}
			side = 1
		default:
			low, below = middle, e
			if side < 0 {
				above /= 2
			}
			side = -1
		}
	}
	return low
}

// binding names what more load would run into first.
func (c *costs) binding(rate float64, slo SLO) Constraint {
	l := c.late(rate*1.01, slo)
	switch allowed := 1 - slo.Percentile; {
	case l.prefill+l.sequences+l.kv > allowed && l.kv >= max(l.prefill, l.sequences):
		return BoundKV
	case l.prefill+l.sequences+l.kv > allowed && l.sequences >= l.prefill:
		return BoundSequences
	case l.prefill+l.sequences+l.kv > allowed:
		return BoundTTFT
	case l.itl > allowed:
		return c.slower()
	}
	// None of the probabilities: what is never exceeded.
	pt, most := c.at(0), c.most()
	switch {
	case most >= c.full(c.context, pt.heldPrefill, kvUsable*c.kvMax):
		return BoundKV
	case most >= c.full(c.decodes, pt.stay, c.sequencesMax):
		return BoundSequences
	}
	return c.slower()
}

// rates splits the rate of requests into prompts alone and completions alone, by what the binding constraint weighs: the
// work of each, and where KV tokens or sequences bind also what completions hold of them.
func (c *costs) rates(rate float64, bound Constraint) Profile {
	prompt, completion := c.prefill, c.decode
	switch bound {
	case BoundKV:
		completion += (c.alpha + c.own) * c.context / c.kvMax
	case BoundSequences:
		completion += (c.alpha + c.own) * c.decodes / c.sequencesMax
	}
	// A part that costs nothing would have an infinite rate, which JSON and the formulas do not take: a share of one in a
	// million is nothing either.
	total := prompt + completion
	prompt, completion = max(prompt, 1e-6*total), max(completion, 1e-6*total)
	total = prompt + completion
	perSecond := rate * 1e3 * total
	return Profile{
		Prompt:     TokenRate(perSecond / prompt * c.prompt),
		Completion: TokenRate(perSecond / completion * (c.decodes + 1)),
	}
}
