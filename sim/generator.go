package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"forewarm/planner"
)

// Generator is one seeded realisation of a Workload. Every minute of it is a sub-stream of its own, so that any stretch
// of time can be asked for in any order and gives the same requests, and History and Requests agree on each minute.
//
// It is not safe for concurrent use.
type Generator struct {
	w          Workload
	seed       uint64
	loc        *time.Location
	dayMean    float64
	everyday   float64 // requests/s of everyone but the heavy clients on a working day
	prompt     *sampler
	completion *sampler
	level      levelPath
	table      *tableRates // nil without one
	holidays   map[string]bool
	clients    []clientPath
	bursts     map[int]dayBursts // by day, only recent ones
	rand       *stream
	scratch    []float64
}

// NewGenerator returns the realisation of w that the seed names, or what is wrong with w.
func NewGenerator(w Workload, seed uint64) (*Generator, error) {
	if err := w.Validate(); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	loc, err := time.LoadLocation(w.Timezone)
	if err != nil {
		return nil, fmt.Errorf("workload timezone %q: %w", w.Timezone, err)
	}
	g := &Generator{w: w, seed: seed, loc: loc, everyday: float64(w.Requests), dayMean: 1,
		prompt: newSampler(w.Prompt), completion: newSampler(w.Completion),
		bursts: map[int]dayBursts{}, rand: newStream(seed)}
	if w.Table != nil {
		if g.table, err = newTableRates(w.Table, float64(w.Requests), g.prompt.mean, g.completion.mean); err != nil {
			return nil, err
		}
	}
	g.holidays = map[string]bool{}
	for _, day := range w.Holidays {
		g.holidays[day] = true
	}
	if len(w.Day) > 0 {
		g.dayMean = 0
		for _, v := range w.Day {
			g.dayMean += v / float64(len(w.Day))
		}
	}
	g.level = newLevelPath(w.Level, seed)
	for i, c := range w.Clients {
		g.everyday -= c.Share * float64(w.Requests)
		g.clients = append(g.clients, newClientPath(c, float64(w.Requests), mix(seed, purposeSwitch, uint64(i))))
	}
	g.everyday = max(0, g.everyday) // shares that add up to 1 leave dust
	return g, nil
}

// Rate returns the load that is expected at t: the rate of the process given this realisation's level, bursts and
// clients, times the mean lengths.
func (g *Generator) Rate(t time.Time) planner.Load {
	r := g.everydayRate(t)
	for i := range g.clients {
		r += g.clients[i].rate(t)
	}
	prompt, completion := g.lengthFactors(t)
	return planner.Load{
		Prompt:     planner.TokenRate(r * prompt * g.prompt.mean),
		Completion: planner.TokenRate(r * completion * g.completion.mean),
		Requests:   planner.RequestRate(r),
	}
}

// mix is the mean and the spread of the requests' lengths, which are drawn independently.
func (g *Generator) mix() planner.RequestMix {
	return planner.RequestMix{Prompt: planner.Tokens(g.prompt.mean), Completion: planner.Tokens(g.completion.mean),
		PromptCV: planner.Ratio(g.prompt.sd / g.prompt.mean), CompletionCV: planner.Ratio(g.completion.sd / g.completion.mean)}
}

// everydayRate is the rate of all but the heavy clients.
func (g *Generator) everydayRate(t time.Time) float64 {
	local := t.In(g.loc)
	r := g.level.factor(t)
	if g.table != nil {
		rate, _, _ := g.table.at(t.UnixNano())
		r *= rate
	} else {
		r *= g.everyday * g.dayFactor(local)
	}
	if len(g.w.Bursts) == 0 {
		return r
	}
	return r * g.burstsOn(local).factor(g.w.Bursts, timeOfDay(local))
}

// lengthFactors scale the mean lengths of a time.
func (g *Generator) lengthFactors(t time.Time) (prompt, completion float64) {
	if g.table == nil {
		return 1, 1
	}
	_, prompt, completion = g.table.at(t.UnixNano())
	return prompt, completion
}

// dayOff reports whether a local day is no working day.
func (g *Generator) dayOff(local time.Time) bool {
	return isWeekend(local.Weekday()) || len(g.holidays) > 0 && g.holidays[local.Format(time.DateOnly)]
}

// dayFactor interpolates the day between the middles of the hours on the wall clock; the weekend factor belongs to the
// day that a middle lies in, so that the change at midnight takes an hour.
func (g *Generator) dayFactor(local time.Time) float64 {
	x := timeOfDay(local).Hours() - 0.5
	floor := math.Floor(x)
	before, share := int(floor), x-floor
	if len(g.holidays) > 0 && g.w.Weekend != nil && g.dayOff(local) { // the change at midnight is at once
		return (1-share)*g.hourFactor(time.Sunday, (before+24)%24) + share*g.hourFactor(time.Sunday, (before+1)%24)
	}
	return (1-share)*g.hourFactor(local.Weekday(), before) + share*g.hourFactor(local.Weekday(), before+1)
}

// hourFactor is the factor in the middle of an hour; hours -1 and 24 belong to the neighbouring days.
func (g *Generator) hourFactor(day time.Weekday, hour int) float64 {
	switch {
	case hour < 0:
		day, hour = (day+6)%7, hour+24
	case hour > 23:
		day, hour = (day+1)%7, hour-24
	}
	f := 1.0
	if len(g.w.Day) > 0 {
		f = g.w.Day[hour] / g.dayMean
	}
	if g.w.Weekend != nil && isWeekend(day) {
		f *= *g.w.Weekend
	}
	return f
}

func isWeekend(d time.Weekday) bool { return d == time.Saturday || d == time.Sunday }

// timeOfDay is what the wall clock shows, as a duration since its 00:00: not the time passed since midnight, which
// differs on the days of a daylight-saving change.
func timeOfDay(local time.Time) time.Duration {
	return time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute +
		time.Duration(local.Second())*time.Second + time.Duration(local.Nanosecond())
}

// dayBursts are the draws of one day, one per Burst.
type dayBursts []struct {
	start  time.Duration
	excess float64
}

// burstDaysKept bounds the cache of drawn days; a simulation looks at one or two at a time.
const burstDaysKept = 64

// comes reports whether a burst belongs to a local day.
func (g *Generator) comes(b Burst, local time.Time) bool {
	if len(b.On) > 0 {
		return slices.Contains(b.On, local.Format(time.DateOnly))
	}
	return !g.dayOff(local)
}

func (g *Generator) burstsOn(local time.Time) dayBursts {
	day := local.Year()*1000 + local.YearDay()
	if b, ok := g.bursts[day]; ok {
		return b
	}
	if len(g.bursts) >= burstDaysKept {
		clear(g.bursts)
	}
	out := make(dayBursts, len(g.w.Bursts))
	for i, b := range g.w.Bursts {
		r := newStream(g.seed, purposeBurst, uint64(day), uint64(i))
		out[i].excess = (b.Multiple - 1) * math.Exp(b.Sigma*r.NormFloat64())
		if !g.comes(b, local) {
			out[i].excess = 0
		}
		out[i].start = b.At + time.Duration(float64(b.Jitter)*r.NormFloat64())
	}
	g.bursts[day] = out
	return out
}

// factor multiplies the bursts of a day at a time of day. A multiple below 1 is a dip; it never turns negative.
func (d dayBursts) factor(bursts []Burst, at time.Duration) float64 {
	f := 1.0
	for i, b := range bursts {
		since := at - d[i].start
		f *= max(0, 1+d[i].excess*b.height(since))
	}
	return f
}

// height is the burst's form, 0 to 1, a time after its start.
func (b Burst) height(since time.Duration) float64 {
	switch {
	case since < 0:
		return 0
	case since < b.Rise:
		return smoothstep(float64(since) / float64(b.Rise))
	case since < b.Rise+b.Hold:
		return 1
	case since < b.Rise+b.Hold+b.Fall:
		return 1 - smoothstep(float64(since-b.Rise-b.Hold)/float64(b.Fall))
	}
	return 0
}

func smoothstep(x float64) float64 { return x * x * (3 - 2*x) }
