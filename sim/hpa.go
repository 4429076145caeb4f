package sim

import (
	"math"
	"time"
)

// Autoscaler is the KEDA ScaledObject and its HPA, the same for every model: an external trigger with AverageValue target
// 1 that carries the answer, and optionally a sibling trigger on waiting requests.
type Autoscaler struct {
	// Sync is the HPA's period.
	Sync time.Duration `yaml:"sync"`
	// ScaleUpTolerance and ScaleDownTolerance are the relative dead-bands (HPA behavior, KEP-4951).
	ScaleUpTolerance   float64 `yaml:"scale_up_tolerance"`
	ScaleDownTolerance float64 `yaml:"scale_down_tolerance"`
	// ScaleUpPercent and ScaleUpPods bound growth per ScaleUpPeriod; the larger one counts.
	ScaleUpPercent int           `yaml:"scale_up_percent"`
	ScaleUpPods    int           `yaml:"scale_up_pods"`
	ScaleUpPeriod  time.Duration `yaml:"scale_up_period"`
	// ScaleDownWindow: the count never falls below any recommendation of this window.
	ScaleDownWindow time.Duration `yaml:"scale_down_window"`
	// AnswerAgeMax is how old an answer may be before the trigger is in error.
	AnswerAgeMax time.Duration `yaml:"answer_age_max"`
	// WaitingPerReplica is the sibling trigger's target: it asks for waiting ÷ this many replicas; 0 leaves it out.
	WaitingPerReplica float64 `yaml:"waiting_per_replica"`
	// PollingInterval and CooldownPeriod are KEDA's, for models with replicas_min 0, see activation.
	PollingInterval time.Duration `yaml:"polling_interval"`
	CooldownPeriod  time.Duration `yaml:"cooldown_period"`
}

// DefaultAutoscaler is what KEDA and the HPA do when nothing is said, except that growth has no dead-band, which plans
// above nine replicas need.
func DefaultAutoscaler() Autoscaler {
	return Autoscaler{
		Sync: 15 * time.Second, ScaleUpTolerance: 0, ScaleDownTolerance: 0.1,
		ScaleUpPercent: 100, ScaleUpPods: 4, ScaleUpPeriod: 15 * time.Second,
		ScaleDownWindow: 5 * time.Minute, AnswerAgeMax: 5 * time.Minute,
		PollingInterval: 30 * time.Second, CooldownPeriod: 5 * time.Minute,
	}
}

// Validate reports every field out of range.
func (a Autoscaler) Validate() error {
	var p problems
	p.duration("sync", a.Sync, time.Second, 10*time.Minute)
	p.within("scale_up_tolerance", a.ScaleUpTolerance, 0, 1)
	p.within("scale_down_tolerance", a.ScaleDownTolerance, 0, 1)
	p.count("scale_up_percent", a.ScaleUpPercent, 0, 100_000)
	p.count("scale_up_pods", a.ScaleUpPods, 0, 100_000)
	if a.ScaleUpPercent == 0 && a.ScaleUpPods == 0 {
		p.add("scale_up_percent and scale_up_pods are both 0: at least one must let the count grow")
	}
	p.duration("scale_up_period", a.ScaleUpPeriod, time.Second, 30*time.Minute)
	p.duration("scale_down_window", a.ScaleDownWindow, 0, time.Hour)
	p.duration("answer_age_max", a.AnswerAgeMax, time.Second, 24*time.Hour)
	p.within("waiting_per_replica", a.WaitingPerReplica, 0, 1e6)
	p.duration("polling_interval", a.PollingInterval, time.Second, time.Hour)
	p.duration("cooldown_period", a.CooldownPeriod, 0, 24*time.Hour)
	return p.err()
}

// hpa is the controller's memory of one workload.
type hpa struct {
	cfg      Autoscaler
	min, max int
	// recent are past recommendations and past growth, oldest first, kept for the windows only.
	recent []hpaEvent
	growth []hpaEvent
}

type hpaEvent struct {
	at    int64 // Unix nanoseconds
	count int
}

// metric is one trigger at one sync: its summed value against its AverageValue target, or an error.
type metric struct {
	value, target float64
	err           bool
}

// sync returns the count that the workload's scale is set to at now, given the present one. As in the controller: each
// metric proposes ceil(value/target) unless value/(target·current) lies within the tolerances; the largest proposal
// counts; with a metric in error nothing shrinks, and with all in error nothing changes; then the scale-down window, the
// growth limit and the bounds, in that order.
func (h *hpa) sync(now int64, current int, metrics []metric) int {
	wanted, broken, known := 0, false, false
	for _, m := range metrics {
		if m.err {
			broken = true
			continue
		}
		known = true
		wanted = max(wanted, h.propose(current, m))
	}
	if !known || broken && wanted < current {
		wanted = current
	}
	wanted = h.stabilise(now, wanted, current)
	if limit := h.growthLimit(now, current); wanted > limit {
		wanted = limit
	}
	wanted = min(max(wanted, h.min), h.max)
	if wanted > current {
		h.growth = append(h.growth, hpaEvent{now, wanted - current})
	}
	return wanted
}

// propose is the count that one metric asks for.
func (h *hpa) propose(current int, m metric) int {
	ratio := m.value / (m.target * float64(current))
	// The dead-band is inclusive: exactly on its edge nothing happens.
	if ratio >= 1-h.cfg.ScaleDownTolerance && ratio <= 1+h.cfg.ScaleUpTolerance {
		return current
	}
	return int(math.Ceil(m.value/m.target - 1e-9))
}

// stabilise remembers the recommendation and returns the largest of the scale-down window, if that is needed to keep the
// count from falling: it never lifts the count above the present one.
func (h *hpa) stabilise(now int64, wanted, current int) int {
	h.recent = append(dropBefore(h.recent, now-int64(h.cfg.ScaleDownWindow)), hpaEvent{now, wanted})
	if wanted >= current {
		return wanted
	}
	highest := wanted
	for _, e := range h.recent {
		highest = max(highest, e.count)
	}
	return min(highest, current)
}

// growthLimit is the largest count that the scale-up policies allow: both start from what was there a period ago.
func (h *hpa) growthLimit(now int64, current int) int {
	h.growth = dropBefore(h.growth, now-int64(h.cfg.ScaleUpPeriod)+1)
	before := current
	for _, e := range h.growth {
		before -= e.count
	}
	byPercent := int(math.Ceil(float64(before) * (1 + float64(h.cfg.ScaleUpPercent)/100)))
	return max(current, byPercent, before+h.cfg.ScaleUpPods)
}

func dropBefore(events []hpaEvent, from int64) []hpaEvent {
	i := 0
	for i < len(events) && events[i].at < from {
		i++
	}
	return append(events[:0], events[i:]...)
}
