package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"forewarm/coldstart"
)

// Removal is a phase of the starts on one path that could be shorter.
type Removal struct {
	Path     coldstart.Path
	Phase    coldstart.Phase
	From, To time.Duration // how long it takes, and would take
}

// Removals lists what could be taken off the starts on a path: each phase at its median, to nothing, except compilation,
// which a cache shortens to the median of the starts that hit it where there are any. A start without a phase spends no
// time in it: what one start of ten does is not what a start would save. Left out are phases below a second, and what no
// source explains, since nobody knows what to remove. samples are of one model and path.
func Removals(path coldstart.Path, samples []coldstart.Sample) []Removal {
	var all, missed, cached []coldstart.Sample
	for _, s := range samples {
		switch {
		case s.Outcome != coldstart.Served:
			continue
		case s.Key.Compile == coldstart.Cached:
			cached = append(cached, s)
		default:
			missed = append(missed, s)
		}
		all = append(all, s)
	}
	var out []Removal
	for _, phase := range coldstart.Phases() {
		if phase == coldstart.Unattributed {
			continue
		}
		r := Removal{Path: path, Phase: phase, From: medianOf(all, phase)}
		if phase == coldstart.Compile {
			r.From, r.To = medianOf(missed, phase), medianOf(cached, phase)
		}
		if r.From-r.To >= time.Second {
			out = append(out, r)
		}
	}
	return out
}

// medianOf is the median of a phase over samples; 0 without samples.
func medianOf(samples []coldstart.Sample, phase coldstart.Phase) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	took := make([]time.Duration, len(samples))
	for i, s := range samples {
		took[i] = s.Phases[phase]
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// Saving is what a Removal would save.
type Saving struct {
	Removal
	// Replicas is how many fewer would have to be kept, on average over the States; NaN when none of them tells.
	Replicas float64
	// PerSecond is Replicas by each second removed.
	PerSecond float64
	// USDPerWeek is nil without a price, or when Replicas is not known.
	USDPerWeek *float64
}

// String is the saving as a report says it: "compile on a warm node: 62s → 4s saves 3 warm replicas, $412/week".
func (s Saving) String() string {
	text := fmt.Sprintf("%s on %s starts: %s → %s saves %s warm replicas", s.Phase, pathName(s.Path), shortDuration(s.From),
		shortDuration(s.To), shortCount(s.Replicas))
	if s.USDPerWeek != nil {
		text += fmt.Sprintf(", $%.0f/week", *s.USDPerWeek)
	}
	return text
}

// shortCount has two digits, and all of those before the point.
func shortCount(x float64) string {
	if math.Abs(x) >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}

// Occasion is a model at one time at which it was planned.
type Occasion struct {
	State    *ModelState
	At       time.Time
	Interval time.Duration
	// Order is the path that an order would have taken then (the Decision's Lead); PathUnknown counts as the slowest path
	// that is known.
	Order coldstart.Path
}

// WhatNext ranks removals by the warm replicas that each second saves, the most first. occasions are the same model at
// several times, such as a week of recorded ones; those without a forecast, a profile or the lead time of the order's path
// say nothing and are left out; used is how many remain, and when none does no saving can be told. usdPerReplicaHour is nil
// when there is no price.
//
// A replica is warm because it could not be there in time when it is needed. What must be there or on its way at a moment
// is the peak need until an order placed now arrives, or a replica released now could be back (the hold window, see
// warm.go): Q_τ of the maximum over [now, now + max(L, drain + L_back) + Δ]. A start that is shorter by d seconds shortens L
// by d, and L_back when the removed phase is one of that path. The saving is the difference between the two needs. It
// leaves out what else decides a plan (limits, the reactive floor, the scale-down window), so it is what the forecast
// makes possible, not a promise. O(occasions · removals · paths · steps).
func WhatNext(occasions []Occasion, p ModelPolicy, removals []Removal, usdPerReplicaHour *float64) (savings []Saving, used int) {
	sums := make([]float64, len(removals))
	for _, o := range occasions {
		now, ok := o.needs(p)
		if !ok {
			continue
		}
		used++
		before := now.need(Removal{})
		for k, r := range removals {
			sums[k] += float64(before - now.need(r))
		}
	}
	for k, r := range removals {
		s := Saving{Removal: r, Replicas: math.NaN()}
		if used > 0 {
			s.Replicas = sums[k] / float64(used)
		}
		s.PerSecond = s.Replicas / (r.From - r.To).Seconds()
		if usdPerReplicaHour != nil && used > 0 {
			usd := s.Replicas * *usdPerReplicaHour * 24 * 7
			s.USDPerWeek = &usd
		}
		savings = append(savings, s)
	}
	slices.SortStableFunc(savings, func(a, b Saving) int {
		return cmp.Or(-cmp.Compare(a.PerSecond, b.PerSecond), -cmp.Compare(a.Replicas, b.Replicas))
	})
	return savings, used
}

// needs is what the forecast of one State asks for at every distance.
type needs struct {
	policy   ModelPolicy
	interval time.Duration
	quantile float64
	order    coldstart.LeadTime // of the path that an order takes
	back     coldstart.LeadTime // of the path by which a released replica comes back
	upTo     []time.Duration    // the ends of steps, from now
	peaks    []int              // the service level's quantile of the peak until then
}

// needs reads an Occasion; ok is false when it does not tell.
func (o Occasion) needs(p ModelPolicy) (_ needs, ok bool) {
	m := o.State
	if m.Forecast == nil || m.Profile == nil || len(m.Forecast.Prompt.Paths) == 0 {
		return needs{}, false
	}
	n := needs{policy: p, interval: o.Interval, quantile: 1 - (1-p.ServiceLevel)/2}
	for _, lt := range m.LeadTimes {
		if !lt.Known() {
			continue
		}
		slower := !n.order.Known() || lt.Quantile(n.quantile) > n.order.Quantile(n.quantile)
		if lt.Path == o.Order || o.Order == coldstart.PathUnknown && slower {
			n.order = lt
		}
		if lt.Path == coldstart.CachedWeights {
			n.back = lt
		}
	}
	if !n.order.Known() {
		return needs{}, false
	}
	if !n.back.Known() {
		n.back = n.order
	}
	replicas := 1
	if m.Replicas != nil {
		replicas = max(1, m.Replicas.supply())
	}
	rates := m.Profile.sizedFor(m.Requests, p.slo(), replicas)
	f := m.Forecast
	level, _ := f.readLevel(p.ServiceLevel)
	running := make([]float64, len(f.Prompt.Paths))
	for k := range f.Prompt.Steps() {
		end := f.Prompt.Start.Add(time.Duration(k+1) * f.Prompt.Step).Sub(o.At)
		if end <= 0 {
			continue
		}
		counts := make([]int, len(running))
		for i := range running {
			running[i] = math.Max(running[i], rates.utilisation(f.Prompt.Paths[i][k], f.Completion.Paths[i][k]))
			counts[i] = ceilCount(running[i])
		}
		n.upTo = append(n.upTo, end)
		n.peaks = append(n.peaks, quantileCount(counts, level))
	}
	return n, len(n.peaks) > 0
}

// need is what must be there or on its way with starts that are shorter by r; the zero Removal changes nothing.
func (n needs) need(r Removal) int {
	shorter := func(lt coldstart.LeadTime) time.Duration {
		d := lt.Quantile(n.quantile)
		if r.Phase != "" && (r.Path == lt.Path) {
			d = max(d-(r.From-r.To), 0)
		}
		return d
	}
	within := max(shorter(n.order), n.policy.DrainTime+min(shorter(n.back), shorter(n.order))) + n.interval
	i, _ := slices.BinarySearch(n.upTo, within)
	return n.peaks[min(i, len(n.peaks)-1)]
}
