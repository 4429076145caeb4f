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
//   - Raise to U = A + Q_τ max_{s∈[t+L, t+L+Δ]} (n_i(s) − A_i(s)): an order placed now matters only from t+L on. A
//     start that is overdue or may fail is replaced by at most one more replica than the need, so that orders do not pile
//     up while pods are stuck. U is below A when some of A is to spare.
//   - Hold while H = Q_τ max_{s∈[t, t+max(d+L_back, L)+Δ]} n_i(s) is not below the current count; else release to the
//     larger of H and U. The window reaches at least as far as the raise window: what was ordered for a burst must not be
//     released before the burst because getting a replica back is quicker than getting another.
//
// Both together are max(U, min(H, current)), which is monotone in the load.
//
// τ is the service level, or above it when the forecast's quantiles have held too rarely (see readLevel).
//
// The maximum is taken along each path, never over per-step quantiles. The forecast needs its authority to release below
// what was lately needed.
func (c *course) warm() {
	if !c.forecastOK || c.state.Profile == nil {
		c.warmBlind()
		return
	}
	if c.policy.Mode == ModeCost {
		c.warmCost()
		return
	}
	raise := c.raiseWindow()
	needs := c.pathNeeds(raise.first, raise.last)
	need := quantileCount(needs, c.level)
	c.reportPeak(raise)
	if !c.supplyOK {
		c.warmUnseen(raise, need)
		return
	}
	c.wantedOK = true
	current := max(c.supply, c.memory.Replicas)
	raised := c.supply + quantileCount(c.pathShortages(raise, needs), c.level)
	raised = min(raised, need+c.replacements(), replicasLimit)
	hold := c.holdNeed()
	c.giveUp()
	switch {
	case raised > current:
		c.wanted = raised
		c.raiseStep(raise, need, raised)
	case raised == current || hold.replicas >= current:
		c.wanted = current
		c.holdStep(raise, need, raised, hold)
	default:
		c.release(raise, need, max(hold.replicas, raised), hold, current)
	}
}

// warmUnseen wants the larger of the last plan and the need when it is unknown what runs. Without a last plan there is
// no number: the need alone could be below what runs.
func (c *course) warmUnseen(raise raiseWindow, need int) {
	c.wantedOK = c.remembered
	if !c.remembered {
		c.step(StageWarm, nil, fmt.Sprintf("%s needs %d, but the replica count is unknown and no plan is remembered",
			c.windowText(raise), need))
		return
	}
	c.wanted = max(need, c.memory.Replicas)
	if need < c.wanted {
		c.out.Held = c.blind
	}
	c.step(StageWarm, &c.wanted, fmt.Sprintf("%s needs %d; the replica count is unknown, so the last plan of %d is not lowered",
		c.windowText(raise), need, c.memory.Replicas))
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

// raiseWindow is the stretch of forecast at which an order placed now takes effect. An order placed now serves from
// arrives on, which is from unless the forecast ends too early.
type raiseWindow struct {
	from, to    time.Time
	arrives     time.Time
	first, last int
	beyond      bool
	lead        time.Duration
	leadKnown   bool
}

func (c *course) raiseWindow() raiseWindow {
	w := raiseWindow{arrives: c.now}
	if c.lead != nil {
		w.lead, w.leadKnown = c.lead.Time, true
		w.arrives = c.now.Add(w.lead)
		w.from = w.arrives
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
				shortDuration(w.lead), c.clock(c.forecastEnd())),
		})
	}
	return w
}

func (c *course) windowText(w raiseWindow) string {
	tau := c.levelText()
	switch {
	case !w.leadKnown:
		return fmt.Sprintf("%s of the peak until %s (lead time unknown, so the whole forecast counts)", tau, c.clock(w.to))
	case w.beyond:
		return fmt.Sprintf("%s of the peak until %s (the lead time of %s reaches past the forecast)", tau, c.clock(w.to),
			c.lead.brief())
	default:
		return fmt.Sprintf("%s of the peak over %s–%s (lead time %s, tick %s)", tau, c.clock(w.from), c.clock(w.to),
			c.lead.brief(), shortDuration(c.interval))
	}
}

func (c *course) haveText() string {
	have := fmt.Sprintf("%d ready", c.state.Replicas.Ready)
	ordered := len(c.state.Replicas.ordered())
	if ordered > 0 {
		have += fmt.Sprintf(" + %d starting", ordered)
	}
	if surge := len(c.state.Replicas.Starting) - ordered; surge > 0 {
		have += fmt.Sprintf(" (%d more start beyond the %d that are asked for: a rollout's surge)", surge, *c.state.Replicas.Desired)
	}
	return have
}

func (c *course) raiseStep(w raiseWindow, need, raised int) {
	why := fmt.Sprintf("%s needs %d; %s: order %d more", c.windowText(w), need, c.haveText(), raised-c.supply)
	s := c.step(StageWarm, &c.wanted, why)
	if raised > need {
		s.BoundBy = replacement
	}
}

// replacement is why a plan is one above the need.
const replacement = "one replacement for starts that are late or may fail"

func (c *course) holdStep(w raiseWindow, need, raised int, hold holdWindow) {
	why := fmt.Sprintf("%s needs %d; %s", c.windowText(w), need, c.haveText())
	switch {
	case c.wanted > c.supply:
		why += fmt.Sprintf(", the last plan of %d stands", c.wanted)
	case hold.replicas > c.wanted && c.needBefore(w.from) > c.wanted:
		why += fmt.Sprintf("; %d are needed before that, sooner than an order of now could serve: short until then",
			c.needBefore(w.from))
	case hold.replicas > c.wanted:
		why += fmt.Sprintf("; %d are needed by %s: too early to order", hold.replicas, c.clock(hold.until))
	case hold.replicas == c.wanted && need < c.wanted:
		why += fmt.Sprintf("; %d are needed by %s, before a released replica could be back: hold", hold.replicas,
			c.clock(hold.until))
	default:
		why += ": enough"
	}
	s := c.step(StageWarm, &c.wanted, why)
	if raised == c.wanted && raised > need {
		s.BoundBy = replacement
	}
	if low := max(raised, need); low < c.wanted {
		s.Rejected = fmt.Sprintf("release to %d", low)
	}
}

// release lowers the plan as far as target, what the hold and raise windows need, and the forecast's authority allow.
func (c *course) release(w raiseWindow, need, target int, hold holdWindow, current int) {
	why := fmt.Sprintf("%s needs %d; %s; the need until a released replica could be back (%s) is %d", c.windowText(w), need,
		c.haveText(), c.clock(hold.until), hold.replicas)
	bound := ""
	if !c.state.Forecast.MayShrink {
		lately, ok := maxSince(c.next.Needed, c.now.Add(-max(c.policy.ScaleDownWindow, reactiveWindowMin)))
		if !ok {
			lately = current
		}
		if lately > target {
			target = min(lately, current)
			why += fmt.Sprintf(", but %d were needed lately", lately)
			bound = "no authority to shrink below recent need: " + c.state.Forecast.Authority
		}
	}
	c.wanted = min(target, current)
	if c.wanted < current {
		why += fmt.Sprintf(": release %d", current-c.wanted)
		if len(c.state.Replicas.ordered()) > 0 {
			why += ", starting ones first"
		}
	}
	c.step(StageWarm, &c.wanted, why).BoundBy = bound
}

// holdNeed is H: the peak need until a replica that is released now could be back, or one ordered now could be there.
func (c *course) holdNeed() holdWindow {
	until := c.holdUntil()
	return holdWindow{replicas: c.needBefore(until), until: until}
}

// holdUntil is the end of that time; without a known lead time, that of the forecast.
func (c *course) holdUntil() time.Time {
	if c.lead == nil {
		return c.forecastEnd()
	}
	return c.now.Add(max(c.policy.DrainTime+c.leadBack(), c.lead.Time) + c.interval)
}

// holdWindow is the need from now until a time.
type holdWindow struct {
	replicas int
	until    time.Time
}

// needBefore is the peak need from now until t.
func (c *course) needBefore(t time.Time) int {
	first, last, _ := c.window(c.now, t)
	return quantileCount(c.pathNeeds(first, last), c.level)
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
	f, p := c.state.Forecast, &c.rates.Profile
	needs := make([]int, len(f.Prompt.Paths))
	for i := range needs {
		prompt, completion := f.Prompt.Paths[i], f.Completion.Paths[i]
		peak := 0.0
		for k := first; k <= last; k++ {
			peak = math.Max(peak, p.utilisation(prompt[k], completion[k]))
		}
		needs[i] = ceilCount(peak)
		if needs[i] == 1 && c.idle(prompt[first:last+1], completion[first:last+1]) {
			needs[i] = 0
		}
	}
	return needs
}

// idle reports whether a stretch of a path has less than half a request in it, so that it most likely has none: a model
// that may go to zero is not kept up by the hundredth of a request that a forecaster's mean leaves at night. Without known
// sizes of requests any token is one.
func (c *course) idle(prompt, completion []float64) bool {
	if c.policy.ReplicasMin > 0 {
		return false
	}
	mix := c.rates.mix
	if mix == nil {
		mix = c.state.Requests
	}
	if mix == nil {
		return false
	}
	p, g := 0.0, 0.0
	for k := range prompt {
		p += prompt[k]
		g += completion[k]
	}
	seconds := c.state.Forecast.Prompt.Step.Seconds()
	return p*seconds < float64(mix.Prompt)/2 && g*seconds < float64(mix.Completion)/2
}

// pathShortages is, per sample path, the largest shortage within the raise window given when the starting replicas
// arrive on that path; negative when there is a surplus. needs are the path's peaks in the same window.
func (c *course) pathShortages(w raiseWindow, needs []int) []int {
	r := c.state.Replicas
	short := make([]int, len(needs))
	if len(r.ordered()) == 0 {
		for i, n := range needs {
			short[i] = n - r.Ready
		}
		return short
	}
	f, p := c.state.Forecast, &c.rates.Profile
	arrivals := c.arrivals(len(needs))
	for i := range short {
		if needs[i] == 0 {
			short[i] = -r.Ready - arrivedBy(arrivals[i], w.arrives.Sub(c.now))
			continue
		}
		short[i] = math.MinInt
		for k := w.first; k <= w.last; k++ {
			at := f.Prompt.Start.Add(time.Duration(k) * f.Prompt.Step)
			if at.Before(w.arrives) {
				at = w.arrives
			}
			have := r.Ready + arrivedBy(arrivals[i], at.Sub(c.now))
			n := ceilCount(p.utilisation(f.Prompt.Paths[i][k], f.Completion.Paths[i][k]))
			short[i] = max(short[i], n-have)
		}
	}
	return short
}

// noSeat reports that the nth of the starts that wait for a node has no slot that could be had for it. They are supply only
// as far as slots can be reached; while the hardware is unknown all are.
func (c *course) noSeat(nth int) bool { return c.pending > 0 && nth > c.waiting.placed() }

// replacements is how many replicas beyond the need may be ordered for starts that are late or may fail: one, and none
// while starts wait for which there is no slot, since a replacement would wait beside them.
func (c *course) replacements() int {
	if c.pending > c.waiting.placed() {
		return 0
	}
	return 1
}

// giveUp says which starts are given up: those that have waited for a node for longer than nearly all starts take while no
// slot can be had. They are no supply, so that a variant with slots takes the load (see mix); the order stands for when a
// slot comes free.
func (c *course) giveUp() {
	overdue := min(c.state.overdue(c.now), c.pending-c.waiting.placed())
	if overdue <= 0 {
		return
	}
	c.step(StageWarm, nil, fmt.Sprintf("%s without a node for longer than p%s of all starts take, and no slot can be had: given up, they count as no supply",
		plural(overdue, "start"), percent(giveUpAt))).BoundBy = "slots"
}

// never is the arrival of a start that fails, and fails again.
const never = time.Duration(math.MaxInt64)

// arrivals draws, per path, when each starting replica serves (from now). Each replica has its own stream, seeded by
// its ID, so the draws stay the same from tick to tick and do not depend on the other replicas. A replica whose lead
// time is unknown counts as there: counting it out would order another one every tick. One that fails is ordered again
// by its workload when it has given up (after the mean time that failed starts took, else after a drawn lead time), and
// starts from the beginning; one that fails twice is counted out.
func (c *course) arrivals(paths int) [][]time.Duration {
	out := make([][]time.Duration, paths)
	waiting := 0
	for _, s := range c.state.Replicas.ordered() {
		if s.Pending {
			if waiting++; c.noSeat(waiting) {
				for i := range out {
					out[i] = append(out[i], never)
				}
				continue
			}
		}
		lt, known := c.leadTimeOf(s.Path)
		rng := rand.New(rand.NewPCG(c.seed, hash(c.state.Name, s.ID)))
		retries := rand.New(rand.NewPCG(c.seed, hash(c.state.Name, s.ID, "retry")))
		age := max(0, c.now.Sub(s.Since))
		for i := range out {
			u, fails := rng.Float64(), rng.Float64()
			again, againFails := retries.Float64(), retries.Float64()
			switch {
			case !known:
				out[i] = append(out[i], 0)
			case fails < lt.FailureProb && againFails < lt.FailureProb:
				out[i] = append(out[i], never)
			case fails < lt.FailureProb:
				gaveUp := lt.SampleRemaining(age, u)
				if lt.FailedAfter > 0 {
					gaveUp = max(0, lt.FailedAfter-age)
				}
				out[i] = append(out[i], gaveUp+lt.Sample(again))
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
	f, level := c.state.Forecast, c.level
	c.out.Peak = &Peak{
		Quantile: level,
		Coverage: c.coverage,
		Load: Load{
			Prompt:     TokenRate(f.Prompt.PeakQuantile(level, w.first, w.last+1)),
			Completion: TokenRate(f.Completion.PeakQuantile(level, w.first, w.last+1)),
		},
		From: w.from,
		To:   w.to,
	}
}

// quantileCount is the smallest count that at least the share p of the paths stays at or below.
func quantileCount(counts []int, p float64) int {
	sorted := slices.Clone(counts)
	slices.Sort(sorted)
	i := ceilCount(p*float64(len(sorted))) - 1 // ceilCount: 0.55·100 is a little above 55 in floating point
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
func percent(p float64) string { return fmt.Sprintf("%g", math.Round(p*1e6)/1e4) }
