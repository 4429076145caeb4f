package scaler

import (
	"slices"
	"sync"

	"forewarm/coldstart"
	"forewarm/planner"
)

// startsKept is how many of a model's newest starts are shown.
const startsKept = 20

// startBook holds what people ask about starts: the newest ones of every model, and its lead times. It may be read from
// any goroutine.
type startBook struct {
	mu     sync.Mutex
	newest map[string][]coldstart.Sample // by model, newest first
	leads  map[string][]coldstart.LeadTime
}

// add files starts of a model; one that is told again replaces what was known of it.
func (b *startBook) add(model string, starts []coldstart.Sample) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == nil {
		b.newest = map[string][]coldstart.Sample{}
	}
	of := b.newest[model]
	for _, s := range starts {
		of = slices.DeleteFunc(of, func(o coldstart.Sample) bool { return o.ID == s.ID })
		of = append(of, s)
	}
	slices.SortStableFunc(of, func(a, b coldstart.Sample) int { return b.Started.Compare(a.Started) })
	if len(of) > 0 {
		b.newest[model] = of[:min(len(of), startsKept)]
	}
}

// note takes over the lead times of a State; a LeadTime is a value that nothing changes.
func (b *startBook) note(s *planner.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leads = make(map[string][]coldstart.LeadTime, len(s.Models))
	for i := range s.Models {
		b.leads[s.Models[i].Name] = s.Models[i].LeadTimes
	}
}

// StartsView is what is known about a model's starts.
type StartsView struct {
	Model     string             `json:"model"`
	LeadTimes []LeadTimeView     `json:"lead_times"`
	Starts    []coldstart.Sample `json:"starts"` // newest first
}

// LeadTimeView is the lead time of one start path in short.
type LeadTimeView struct {
	Path        coldstart.Path  `json:"path"`
	Basis       coldstart.Basis `json:"basis"`
	Samples     int             `json:"samples"`
	P50         float64         `json:"p50_seconds"`
	P90         float64         `json:"p90_seconds"`
	P99         float64         `json:"p99_seconds"`
	FailureProb float64         `json:"failure_prob"`
	Shift       coldstart.Shift `json:"shift,omitzero"`
	Borrowed    coldstart.Basis `json:"borrowed,omitempty"`
}

// Starts returns what is known about a model's starts; ok is false for a model that is not planned.
func (l *Loop) Starts(model string) (StartsView, bool) {
	l.starts.mu.Lock()
	defer l.starts.mu.Unlock()
	leads, ok := l.starts.leads[model]
	if !ok {
		return StartsView{}, false
	}
	v := StartsView{Model: model, LeadTimes: []LeadTimeView{}, Starts: slices.Clone(l.starts.newest[model])}
	if v.Starts == nil {
		v.Starts = []coldstart.Sample{}
	}
	for _, lt := range leads {
		v.LeadTimes = append(v.LeadTimes, LeadTimeView{Path: lt.Path, Basis: lt.Basis, Samples: lt.Samples,
			P50: lt.Quantile(.5).Seconds(), P90: lt.Quantile(.9).Seconds(), P99: lt.Quantile(.99).Seconds(),
			FailureProb: lt.FailureProb, Shift: lt.Shift, Borrowed: lt.BorrowedBasis})
	}
	return v, true
}
