package planner

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"forewarm/coldstart"
)

// warm reads the forecast at the lead time and decides between raising, holding and releasing.
//
// Let n_i(s) be the replicas that sample path i needs at time s, A_i(s) the supply on that path (ready + starting whose
// drawn arrival is ≤ s), A = ready + starting, L the lead time, Δ the interval, d the drain time, L_back the lead time of
// getting a replica back, and Q_τ the τ-quantile over paths.
//
//   - Raise to U = A + Q_τ max_{s∈[t+L, t+L+Δ]} (n_i(s) − A_i(s))⁺: an order placed now matters only from t+L on. A
//     start that is overdue or may fail is replaced by at most one more replica than the need, so that orders do not pile
//     up while pods are stuck.
//   - Hold while H = Q_τ max_{s∈[t, t+d+L_back+Δ]} n_i(s) is not below the current count; else release to the larger of
//     H and the need in the raise window.
//
// The maximum is taken along each path, never over per-step quantiles. The forecast needs its authority to release below
// what was lately needed.
func (c *course) warm() {
	if !c.forecastOK || c.state.Profile == nil {
		c.warmBlind()
		return
	}
	raise := c.raiseWindow()
	needs := c.pathNeeds(raise.first, raise.last)
	need := quantileCount(needs, c.policy.ServiceLevel)
	c.reportPeak(raise)
	if !c.supplyOK {
		c.wanted, c.wantedOK = max(need, c.memory.Replicas), c.remembered
		c.step(StageWarm, &c.wanted, fmt.Sprintf("%s needs %d; the replica count is unknown, so the last plan is not lowered",
			c.windowText(raise), need))
		return
	}
	c.wantedOK = true
	current := max(c.supply, c.memory.Replicas)
	raised := min(c.supply+quantileCount(c.pathShortages(raise, needs), c.policy.ServiceLevel), max(c.supply, need+1))
	if raised >= current {
		c.wanted = raised
		c.raiseStep(raise, need, raised)
		return
	}
	hold := c.holdNeed()
	if hold >= current {
		c.wanted = current
		c.step(StageWarm, &c.wanted, fmt.Sprintf("%s needs %d, but until a released replica could be back %d are needed: hold",
			c.windowText(raise), need, hold)).Rejected = fmt.Sprintf("release to %d", need)
		return
	}
	c.release(raise, need, hold, current)
}

// warmBlind wants what runs or was planned when no forecast can be read; the floor may still raise it.
func (c *course) warmBlind() {
	c.wantedOK = c.supplyOK || c.remembered
	c.wanted = c.memory.Replicas
	if c.supplyOK && !c.remembered {
		c.wanted = c.supply
	}
	if c.wantedOK {
		c.out.Held = c.blind
		c.step(StageWarm, &c.wanted, "no forecast can be read ("+c.blind+"): the plan stays and may only grow")
	} else {
		c.step(StageWarm, nil, "nothing is known yet ("+c.blind+"): no number")
	}
}

// raiseWindow is the stretch of forecast at which an order placed now takes effect.
type raiseWindow struct {
	from, to    time.Time
	first, last int
	beyond      bool
	lead        time.Duration
	leadKnown   bool
}

func (c *course) raiseWindow() raiseWindow {
	w := raiseWindow{}
	if c.lead != nil {
		w.lead, w.leadKnown = c.lead.Time, true
		w.from = c.now.Add(w.lead)
		w.to = w.from.Add(c.interval)
		w.first, w.last, w.beyond = c.window(w.from, w.to)
	}
	if !w.leadKnown || w.beyond {
		// What cannot be read is not zero: the worst of everything that can be read stands in for it.
		w.from, w.to = c.now, c.forecastEnd()
		w.first, w.last, _ = c.window(w.from, w.to)
	}
	if w.beyond {
		c.shortfalls = append(c.shortfalls, Shortfall{
			Model: c.state.Name,
			Cause: LeadTimeBeyondHorizon,
			Why: fmt.Sprintf("the lead time of %s ends after the forecast (%s): the peak of the whole forecast is used",
				w.lead.Round(time.Second), c.clock(c.forecastEnd())),
		})
	}
	return w
}

func (c *course) windowText(w raiseWindow) string {
	tau := percent(c.policy.ServiceLevel)
	switch {
	case !w.leadKnown:
		return fmt.Sprintf("p%s of the peak until %s (lead time unknown, so the whole forecast counts)", tau, c.clock(w.to))
	case w.beyond:
		return fmt.Sprintf("p%s of the peak until %s (the lead time of %s reaches past the forecast)", tau, c.clock(w.to),
			w.lead.Round(time.Second))
	default:
		return fmt.Sprintf("p%s of the peak over %s–%s (lead time %s, tick %s)", tau, c.clock(w.from), c.clock(w.to),
			w.lead.Round(time.Second), shortDuration(c.interval))
	}
}

func (c *course) raiseStep(w raiseWindow, need, raised int) {
	r := c.state.Replicas
	have := fmt.Sprintf("%d ready", r.Ready)
	if len(r.Starting) > 0 {
		have += fmt.Sprintf(" + %d starting", len(r.Starting))
	}
	verdict := "enough"
	if raised > c.supply {
		verdict = fmt.Sprintf("order %d more", raised-c.supply)
	}
	s := c.step(StageWarm, &c.wanted, fmt.Sprintf("%s needs %d; %s: %s", c.windowText(w), need, have, verdict))
	if raised > need && raised > c.supply {
		s.BoundBy = "one replacement for starts that are late or may fail"
	}
}

// release lowers the plan as far as the hold window, the raise window and the forecast's authority allow.
func (c *course) release(w raiseWindow, need, hold, current int) {
	target := max(hold, need)
	why := fmt.Sprintf("%s needs %d and until a released replica could be back %d are needed", c.windowText(w), need, hold)
	bound := ""
	if !c.state.Forecast.MayShrink {
		lately, ok := maxSince(c.next.Needed, c.now.Add(-max(c.policy.ScaleDownWindow, reactiveWindowMin)))
		if !ok {
			lately = current
		}
		if lately > target {
			target = min(lately, current)
			bound = "no authority to shrink below recent need: " + c.state.Forecast.Authority
		}
	}
	c.wanted = min(target, current)
	if c.wanted < current {
		why += fmt.Sprintf(": release %d, starting ones first", current-c.wanted)
	}
	c.step(StageWarm, &c.wanted, why).BoundBy = bound
}

// holdNeed is H: the peak need until a replica that is released now could be back.
func (c *course) holdNeed() int {
	back := c.forecastEnd().Sub(c.now)
	if c.lead != nil {
		back = c.policy.DrainTime + c.leadBack() + c.interval
	}
	first, last, _ := c.window(c.now, c.now.Add(back))
	return quantileCount(c.pathNeeds(first, last), c.policy.ServiceLevel)
}

// leadBack is the lead time of getting a released replica back: its weights are still on the node, if that path was
// ever measured; else the lead time of any next replica.
func (c *course) leadBack() time.Duration {
	for _, lt := range c.state.LeadTimes {
		if lt.Path == coldstart.CachedWeights && lt.Known() {
			return min(lt.Quantile(c.lead.Quantile), c.lead.Time)
		}
	}
	return c.lead.Time
}

// pathNeeds is, per sample path, the replicas that the peak within steps [first, last] needs.
func (c *course) pathNeeds(first, last int) []int {
	f, p := c.state.Forecast, c.state.Profile
	needs := make([]int, len(f.Prompt.Paths))
	for i := range needs {
		prompt, completion := f.Prompt.Paths[i], f.Completion.Paths[i]
		peak := 0.0
		for k := first; k <= last; k++ {
			peak = math.Max(peak, p.utilisation(prompt[k], completion[k]))
		}
		needs[i] = ceilCount(peak)
	}
	return needs
}

// pathShortages is, per sample path, the largest shortage within the raise window given when the starting replicas
// arrive on that path. needs are the path's peaks in the same window.
func (c *course) pathShortages(w raiseWindow, needs []int) []int {
	r := c.state.Replicas
	short := make([]int, len(needs))
	if len(r.Starting) == 0 {
		for i, n := range needs {
			short[i] = max(0, n-r.Ready)
		}
		return short
	}
	f, p := c.state.Forecast, c.state.Profile
	arrivals := c.arrivals(len(needs))
	for i := range short {
		if needs[i] <= r.Ready {
			continue
		}
		for k := w.first; k <= w.last; k++ {
			at := f.Prompt.Start.Add(time.Duration(k) * f.Prompt.Step)
			if at.Before(w.from) {
				at = w.from
			}
			have := r.Ready + arrivedBy(arrivals[i], at.Sub(c.now))
			n := ceilCount(p.utilisation(f.Prompt.Paths[i][k], f.Completion.Paths[i][k]))
			short[i] = max(short[i], n-have)
		}
	}
	return short
}

// never is the arrival of a start that fails.
const never = time.Duration(math.MaxInt64)

// arrivals draws, per path, when each starting replica serves (from now). Each replica has its own stream, seeded by
// its ID, so the draws stay the same from tick to tick and do not depend on the other replicas. A replica whose lead
// time is unknown counts as there: counting it out would order another one every tick.
func (c *course) arrivals(paths int) [][]time.Duration {
	out := make([][]time.Duration, paths)
	for _, s := range c.state.Replicas.Starting {
		lt, known := c.leadTimeOf(s.Path)
		rng := rand.New(rand.NewPCG(c.seed, hash(c.state.Name, s.ID)))
		age := max(0, c.now.Sub(s.Since))
		for i := range out {
			u, fails := rng.Float64(), rng.Float64()
			switch {
			case !known:
				out[i] = append(out[i], 0)
			case fails < lt.FailureProb:
				out[i] = append(out[i], never)
			default:
				out[i] = append(out[i], lt.SampleRemaining(age, u))
			}
		}
	}
	return out
}

func arrivedBy(arrivals []time.Duration, t time.Duration) int {
	n := 0
	for _, a := range arrivals {
		if a <= t {
			n++
		}
	}
	return n
}

// reportPeak notes the marginal quantiles of the load in the raise window, for people.
func (c *course) reportPeak(w raiseWindow) {
	f, tau := c.state.Forecast, c.policy.ServiceLevel
	c.out.Peak = &Peak{
		Quantile: tau,
		Load: Load{
			Prompt:     TokenRate(f.Prompt.PeakQuantile(tau, w.first, w.last+1)),
			Completion: TokenRate(f.Completion.PeakQuantile(tau, w.first, w.last+1)),
		},
		From: w.from,
		To:   w.to,
	}
}

// quantileCount is the smallest count that at least the share p of the paths stays at or below.
func quantileCount(counts []int, p float64) int {
	sorted := slices.Sorted(slices.Values(counts))
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return h.Sum64()
}

// percent prints a probability as a percentage without needless digits: 95, 97.5.
func percent(p float64) string { return fmt.Sprintf("%g", math.Round(p*1e4)/1e2) }
