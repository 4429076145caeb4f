package planner

import "math"

// waitBins is the number of bins of the waiting time up to a bound.
const waitBins = 48

// latePrefill is P(TTFT > bound) when only prefill delays: half an iteration until the boundary, the wait for the prompts
// before, and the prompt's own stay.
func (c *costs) latePrefill(pt *point, bound float64) float64 {
	ahead := bound - pt.decoding/2
	if ahead <= 0 {
		return 1
	}
	width := ahead / waitBins
	wait := c.waits(pt, width)
	inTime := func(left float64) float64 { // P(wait ≤ left)
		x := min(left/width, waitBins)
		k := min(int(x), waitBins-1)
		return wait[k] + (x-float64(k))*(wait[k+1]-wait[k])
	}
	late := 0.0
	for i := range c.prompts {
		q := &c.prompts[i]
		stay := c.stay(q, pt)
		if stay <= ahead {
			late += q.weight * (1 - inTime(ahead-stay))
			continue
		}
		late += q.weight
		if i == 0 {
			continue
		}
		// The first cell whose middle is beyond the bound: where between the middles the bound falls decides how much of
		// either cell is beyond it. At that edge nothing is left for waiting.
		before := &c.prompts[i-1]
		if previous := c.stay(before, pt); previous <= ahead {
			switch f := (ahead - previous) / (stay - previous); {
			case f < 0.5:
				late += before.weight * (0.5 - f) * inTime(0)
			default:
				late -= q.weight * (f - 0.5) * inTime(0)
			}
		}
	}
	return late
}

// waits is the distribution function of the wait for the prefill server at the multiples of a bin's width: with
// probability (1−ρ)ρ^k the sum of k residual services (Pollaczek-Khinchine), summed by Panjer's recursion.
func (c *costs) waits(pt *point, width float64) (cdf [waitBins + 1]float64) {
	rho := pt.rate * pt.service
	var residual [waitBins + 1]float64
	i, whole, rest := 0, 0.0, 1.0
	before := 0.0
	for j := range residual {
		x := (float64(j) + 0.5) * width
		for i < len(c.prompts) {
			s := c.service(&c.prompts[i], pt)
			if s > x {
				break
			}
			whole += c.prompts[i].weight * s
			rest -= c.prompts[i].weight
			i++
		}
		reached := min(1, (whole+max(0, rest)*x)/pt.service)
		residual[j], before = reached-before, reached
	}
	scale := 1 / (1 - rho*residual[0])
	cdf[0] = (1 - rho) * scale
	for k := 1; k <= waitBins; k++ {
		sum := 0.0
		for j := 1; j <= k; j++ {
			sum += residual[j] * cdf[k-j]
		}
		cdf[k] = rho * scale * sum
	}
	for k := 1; k <= waitBins; k++ {
		cdf[k] += cdf[k-1]
	}
	return cdf
}

// lateAdmission is the probability that a request waits longer than the bound leaves for a sequence, and for KV tokens.
func (c *costs) lateAdmission(pt *point, bound float64) (sequences, kv float64) {
	left := max(0, bound-pt.stay-pt.decoding/2)
	wait := func(held, spread, total, full float64) float64 {
		if held >= total {
			return 1
		}
		// The number of sequences fluctuates more than a Poisson number: each makes the others slower.
		beta := (total - held) / math.Sqrt(spread*pt.decoding/c.alpha)
		density := math.Exp(-beta*beta/2) / math.Sqrt(2*math.Pi)
		return density / (density + beta*normal(beta)) * math.Exp(-max(0, full-pt.rate)*left*c.drain)
	}
	decodes := pt.rate*pt.iteration*c.decodes + pt.rate*pt.stay
	sequences = wait(decodes, decodes, c.sequencesMax, c.full(c.decodes, pt.stay, c.sequencesMax))
	// The prompt at the head of the queue needs its blocks at once, so that up to its size stays unused.
	usable := c.kvMax - c.promptSpread
	kv = wait(pt.kv+pt.rate*pt.heldPrefill, pt.rate*(pt.iteration*c.contextSq+pt.heldPrefillSq), usable,
		c.full(c.context, pt.heldPrefill, kvUsable*usable))
	return sequences, kv
}

// lateITL is P(a request's mean time between tokens > bound).
func (c *costs) lateITL(pt *point, bound float64) float64 {
	over := bound - c.alpha
	if over <= 0 {
		return 1
	}
	if bound >= pt.decoding+c.prefill*pt.budget/c.tokens {
		return 0 // an iteration full of prompt tokens is no longer
	}
	rate, idle := pt.rate, 1-pt.busy
	prefillBusy := rate * c.prefill
	// What a prompt leaves behind when its prefill ends: the work that came while it waited and was computed.
	rho := rate * pt.service
	residual := pt.serviceSq / (2 * (1 - rho) * pt.service)
	sojourn := rho*residual + pt.service
	sojournVar := (2*rho-rho*rho)*residual*residual + pt.serviceSq - pt.service*pt.service
	leftVar := rate*c.prefillSq*sojourn + prefillBusy*prefillBusy*sojournVar
	// The number of sequences beside it, averaged over its own life.
	u := c.alpha / pt.decoding
	averaged := 2 / u * (1 - (1-math.Exp(-u))/u)
	besideVar := c.own * c.own / ((1 - prefillBusy) * (1 - prefillBusy)) * pt.sequences / u * averaged
	late := 0.0
	for _, l := range c.lengths {
		mean := pt.iteration + prefillBusy*sojourn/(l.decodes*idle) - c.alpha
		variance := (pt.iteration*rate*c.prefillSq+leftVar/l.decodes)/(l.decodes*idle*idle) + besideVar
		sigma := math.Sqrt(math.Log1p(variance / (mean * mean)))
		late += l.weight * normal((math.Log(mean/over)-sigma*sigma/2)/sigma)
	}
	return late
}
