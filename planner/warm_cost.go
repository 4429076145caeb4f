package planner

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Mode is what a plan is a compromise between.
type Mode string

// The modes: enough on the share ServiceLevel of the futures, whatever it costs; or the least expected cost of being short
// and being idle. Empty is ModeServiceLevel.
const (
	ModeServiceLevel Mode = "service_level"
	ModeCost         Mode = "cost"
)

// warmCost is warm for the mode of least cost. A replica-minute short costs Cu, one idle Co.
//
//   - Raise to U = A + the Cu/(Cu+Co) fractile of n_i(s) − A_i(s) over all paths i and all s ∈ [t+L, t+L+Δ]: the newsvendor's
//     order for that stretch of time.
//   - Release one replica after the other, down to U, while the expected cost of keeping it idle until it is needed next is
//     more than that of starting it again and of being short until it is back.
//
// Source: Arrow, Harris and Marschak, "Optimal Inventory Policy", Econometrica 19 (1951), for the fractile.
func (c *course) warmCost() {
	raise := c.raiseWindow()
	c.reportPeak(raise)
	need := quantileCount(c.stepNeeds(raise), c.fractile())
	if !c.supplyOK {
		c.warmUnseen(raise, need)
		return
	}
	c.wantedOK = true
	current := max(c.supply, c.memory.Replicas)
	raised := c.supply + quantileCount(c.stepShortages(raise), c.fractile())
	raised = min(raised, need+c.replacements(), replicasLimit)
	c.giveUp()
	why := fmt.Sprintf("%s of the need over %s–%s by the costs of %g a replica-minute short and %g idle is %d; %s",
		"p"+percent(c.fractile()), c.clock(raise.from), c.clock(raise.to), c.policy.ShortageCost, c.policy.IdleCost, need, c.haveText())
	if raised >= current {
		c.wanted = raised
		c.step(StageWarm, &c.wanted, why+orders(raised-c.supply))
		return
	}
	kept, reason := c.keepByCost(current, max(raised, 0))
	if !c.state.Forecast.MayShrink {
		if lately, ok := maxSince(c.next.Needed, c.now.Add(-max(c.policy.ScaleDownWindow, reactiveWindowMin))); ok && lately > kept {
			kept, reason = min(lately, current), fmt.Sprintf("%d were needed lately, and there is no authority to shrink below that: %s",
				lately, c.state.Forecast.Authority)
		}
	}
	c.wanted = kept
	s := c.step(StageWarm, &c.wanted, why+"; "+reason)
	if kept > raised {
		s.Rejected = fmt.Sprintf("release to %d", raised)
	}
}

func orders(n int) string {
	if n <= 0 {
		return ": enough"
	}
	return fmt.Sprintf(": order %d more", n)
}

// fractile is Cu/(Cu+Co).
func (c *course) fractile() float64 {
	return c.policy.ShortageCost / (c.policy.ShortageCost + c.policy.IdleCost)
}

// stepNeeds are the replicas needed on every path at every step of the window.
func (c *course) stepNeeds(w raiseWindow) []int {
	f := c.state.Forecast
	needs := make([]int, 0, len(f.Prompt.Paths)*(w.last-w.first+1))
	for i := range f.Prompt.Paths {
		for k := w.first; k <= w.last; k++ {
			needs = append(needs, ceilCount(c.rates.utilisation(f.Prompt.Paths[i][k], f.Completion.Paths[i][k])))
		}
	}
	return needs
}

// stepShortages are those needs less what is there at that time on that path.
func (c *course) stepShortages(w raiseWindow) []int {
	short, f := c.stepNeeds(w), c.state.Forecast
	arrivals, steps := c.arrivals(len(f.Prompt.Paths)), w.last-w.first+1
	for n := range short {
		at := f.Prompt.Start.Add(time.Duration(w.first+n%steps) * f.Prompt.Step)
		if at.Before(w.arrives) {
			at = w.arrives
		}
		short[n] -= c.state.Replicas.Ready + arrivedBy(arrivals[n/steps], at.Sub(c.now))
	}
	return short
}

// keepByCost is how many of the current replicas are worth keeping, at least least, and why the last of them is.
func (c *course) keepByCost(current, least int) (kept int, why string) {
	back := c.policy.DrainTime + c.forecastEnd().Sub(c.now)
	if c.lead != nil {
		back = c.policy.DrainTime + c.leadBack()
	}
	for n := current; n > least; n-- {
		idle, restart, short := c.releaseCosts(n, back)
		if idle <= restart+short {
			return n, fmt.Sprintf("keeping the last of %d idle until it is needed costs %.3g, releasing it %.3g (a start %.3g, being short %.3g)",
				n, idle, restart+short, restart, short)
		}
	}
	if least < current {
		return least, fmt.Sprintf("release %d: keeping them idle costs more than starting them again", current-least)
	}
	return current, "all are needed"
}

// releaseCosts are the expected costs about replica n: of keeping it idle until a path needs n again, of starting it then,
// and of being short from then until it is back, when it is released now. What lies beyond the forecast is left out of all.
func (c *course) releaseCosts(n int, back time.Duration) (idle, restart, short float64) {
	f := c.state.Forecast
	first, last, _ := c.window(c.now, c.forecastEnd())
	starts := c.now.Add(back)
	for i := range f.Prompt.Paths {
		neededAt := -1
		for k := first; k <= last; k++ {
			begin := f.Prompt.Start.Add(time.Duration(k) * f.Prompt.Step)
			if ceilCount(c.rates.utilisation(f.Prompt.Paths[i][k], f.Completion.Paths[i][k])) < n {
				continue
			}
			if neededAt < 0 {
				neededAt = k
			}
			// Released now and ordered again at once it would be back at starts: until then a step that needs it is short.
			short += c.policy.ShortageCost * overlap(begin, f.Prompt.Step, c.now, starts).Minutes()
		}
		until := c.forecastEnd()
		if neededAt >= 0 {
			until = f.Prompt.Start.Add(time.Duration(neededAt) * f.Prompt.Step)
			restart += c.policy.IdleCost * (back - c.policy.DrainTime).Minutes()
		}
		idle += c.policy.IdleCost * math.Max(0, until.Sub(c.now).Minutes())
	}
	paths := float64(len(f.Prompt.Paths))
	return idle / paths, restart / paths, short / paths
}

// overlap is how long a step from begin lies within [from, to].
func overlap(begin time.Time, step time.Duration, from, to time.Time) time.Duration {
	end := begin.Add(step)
	if end.After(to) {
		end = to
	}
	if begin.Before(from) {
		begin = from
	}
	return max(0, end.Sub(begin))
}

// costProblems reports costs that make no compromise.
func (m ModelPolicy) costProblems(bad func(key string, value any, allowed string)) {
	if !slices.Contains([]Mode{"", ModeServiceLevel, ModeCost}, m.Mode) {
		bad("mode", fmt.Sprintf("%q", m.Mode), "service_level or cost are allowed")
	}
	for _, v := range []struct {
		key  string
		cost float64
	}{{"shortage_cost", m.ShortageCost}, {"idle_cost", m.IdleCost}} {
		if !(v.cost >= 0 && v.cost <= 1e9) || m.Mode == ModeCost && v.cost == 0 {
			bad(v.key, v.cost, "a cost per replica-minute of at most 1000000000 is allowed, above 0 in the mode cost")
		}
	}
}
