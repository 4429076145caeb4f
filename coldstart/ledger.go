package coldstart

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

// Options are the settings of a Ledger. A zero field means its default.
type Options struct {
	// SamplesMax is how many samples are kept per key, the newest by Started. Default 200: with the default half-life
	// an older start has less than 2 % of the weight of the newest.
	SamplesMax int

	// HalfLifeStarts is how many newer finished starts of the same pool halve a sample's weight. Default 32, which leaves
	// an effective sample size of about 90: enough to read a p95 with four or five starts beyond it. Counting starts, not
	// days, lets a busy model follow a slower registry within the hour without a quiet one forgetting what it knows.
	HalfLifeStarts float64

	// HalfLife is the age that halves a sample's weight on top of that. Default 30 days: images, drivers and engine
	// versions change under a model that starts once a week. Weights are relative, so with no newer starts the passing
	// of time alone changes nothing, except that a thin estimate leans more on what it borrows.
	HalfLife time.Duration

	// ServedMin is how many served starts an estimate needs to stand alone; with fewer it is topped up to that number
	// (see Ledger.Estimate). Default 5: below it a p80 and everything above would be the longest start seen.
	ServedMin int
}

func (o Options) withDefaults() Options {
	o.SamplesMax = cmp.Or(o.SamplesMax, 200)
	o.HalfLifeStarts = cmp.Or(o.HalfLifeStarts, 32)
	o.HalfLife = cmp.Or(o.HalfLife, 30*24*time.Hour)
	o.ServedMin = cmp.Or(o.ServedMin, 5)
	return o
}

// Validate reports everything that is wrong with the options, joined. Zero fields are right.
func (o Options) Validate() error {
	var errs []error
	o = o.withDefaults()
	if o.SamplesMax < o.ServedMin || o.SamplesMax > 100_000 {
		errs = append(errs, fmt.Errorf("samples max %d: want %d (served min) to 100000", o.SamplesMax, o.ServedMin))
	}
	if !(o.HalfLifeStarts >= 1) {
		errs = append(errs, fmt.Errorf("half-life %v starts: want at least 1", o.HalfLifeStarts))
	}
	if o.HalfLife < time.Hour {
		errs = append(errs, fmt.Errorf("half-life %v: want at least 1h", o.HalfLife))
	}
	if o.ServedMin < 1 {
		errs = append(errs, fmt.Errorf("served min %d: want at least 1", o.ServedMin))
	}
	return errors.Join(errs...)
}

// Ledger holds observed starts and stated lead times, and estimates lead times from them. It is a pure state machine: the
// same calls in the same order give the same estimates, and the order of Adds of different IDs matters only to which of
// more than SamplesMax samples of one key were ever kept. Not safe for concurrent use. The zero Ledger is empty and has
// the default Options.
type Ledger struct {
	opts    Options
	samples map[Key][]Sample // per key ascending by Started, then ID
	details map[Key][]Key    // coarse key → the keys of samples that it covers, sorted
	keyOf   map[string]Key   // by sample ID
	stated  map[Key]LeadTime
	weights map[string]int64 // bytes by model
}

// NewLedger returns an empty ledger, or everything that is wrong with the options.
func NewLedger(o Options) (*Ledger, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("coldstart options: %w", err)
	}
	return &Ledger{opts: o}, nil
}

// Add takes one observation of a start. The ID decides what it replaces, under whatever key that was filed:
//   - Served replaces anything: a start that recovered after it was given up did serve, and a later reading of the same
//     start may know its phases better.
//   - Failed replaces Pending and Failed, never Served: a crash after serving is not a failed start.
//   - Pending replaces a Pending of at most the same Total, and nothing finished: watches deliver out of order, and
//     something known to have taken ten minutes cannot have taken five.
//
// What may not replace is dropped without an error. The oldest sample of a key goes when there are more than SamplesMax.
// An invalid sample (Sample.Validate) is refused and changes nothing. O(SamplesMax).
func (l *Ledger) Add(s Sample) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s.Started = s.Started.Round(0).UTC() // neither monotonic reading nor zone: equal instants are equal values
	s.Phases, s.Sources = maps.Clone(s.Phases), maps.Clone(s.Sources)
	if l.samples == nil {
		l.samples, l.details, l.keyOf = map[Key][]Sample{}, map[Key][]Key{}, map[string]Key{}
	}
	if old, ok := l.find(s.ID); ok {
		if !replaces(s, old) {
			return nil
		}
		l.remove(s.ID)
	}
	of := l.samples[s.Key]
	i, _ := slices.BinarySearchFunc(of, s, compareAge)
	of = slices.Insert(of, i, s)
	l.keyOf[s.ID] = s.Key
	if len(of) > l.opts.withDefaults().SamplesMax {
		delete(l.keyOf, of[0].ID)
		of = slices.Delete(of, 0, 1)
	}
	l.samples[s.Key] = of
	coarse := s.Key.coarse()
	if i, ok := slices.BinarySearchFunc(l.details[coarse], s.Key, Key.Compare); !ok {
		l.details[coarse] = slices.Insert(l.details[coarse], i, s.Key)
	}
	return nil
}

func replaces(s, old Sample) bool {
	switch s.Outcome {
	case Served:
		return true
	case Failed:
		return old.Outcome != Served
	default:
		return old.Outcome == Pending && s.Total >= old.Total
	}
}

// compareAge orders samples oldest first; the ID breaks ties, so the order is total.
func compareAge(a, b Sample) int {
	return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
}

func (l *Ledger) find(id string) (Sample, bool) {
	key, ok := l.keyOf[id]
	if !ok {
		return Sample{}, false
	}
	of := l.samples[key]
	return of[slices.IndexFunc(of, func(s Sample) bool { return s.ID == id })], true
}

func (l *Ledger) remove(id string) {
	key := l.keyOf[id]
	l.samples[key] = slices.DeleteFunc(l.samples[key], func(s Sample) bool { return s.ID == id })
	if len(l.samples[key]) == 0 {
		delete(l.samples, key)
		coarse := key.coarse()
		l.details[coarse] = slices.DeleteFunc(l.details[coarse], func(k Key) bool { return k == key })
	}
	delete(l.keyOf, id)
}

// SetStated files a lead time that a person typed in (StatedDuration, StatedQuantiles) for a key; an empty field of the key
// applies to all. It replaces the one filed before. Refused, with all reasons, unless lt is valid, known, has Basis
// Stated and no samples.
func (l *Ledger) SetStated(key Key, lt LeadTime) error {
	errs := key.problems()
	if lt.Basis != Stated || lt.Samples != 0 || lt.Borrowed != 0 {
		errs = append(errs, fmt.Errorf("basis %q with %d samples: want %q without samples", lt.Basis, lt.Samples, Stated))
	}
	if !lt.Known() {
		errs = append(errs, errors.New("support_ns is empty: a stated lead time must say something"))
	}
	if err := lt.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("stated lead time for %v: %w", key, errors.Join(errs...))
	}
	if l.stated == nil {
		l.stated = map[Key]LeadTime{}
	}
	lt.Support, lt.CDF = slices.Clone(lt.Support), slices.Clone(lt.CDF)
	l.stated[key] = lt
	return nil
}

// Of returns the samples of a model, oldest first, ties by ID. The phases are shared with the ledger: read only. O(keys),
// and O(n log n) in the model's samples.
func (l *Ledger) Of(model string) []Sample {
	var all []Sample
	for k, of := range l.samples {
		if k.Model == model {
			all = append(all, of...)
		}
	}
	slices.SortFunc(all, compareAge)
	return all
}

// Samples returns the samples held, oldest first, ties by ID. The phases are shared with the ledger: read only.
func (l *Ledger) Samples() []Sample {
	var all []Sample
	for _, of := range l.samples {
		all = append(all, of...)
	}
	sort.Slice(all, func(i, j int) bool { return compareAge(all[i], all[j]) < 0 })
	return all
}
