package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"forewarm/forecast"
)

// ReadState reads one State from JSON and validates it. Unknown keys are errors: a State that this version does not
// understand must not replay to a different Decision. The error says what is wrong, all problems at once where the JSON
// itself is sound.
func ReadState(r io.Reader) (State, error) {
	var s State
	if err := readStrict(r, &s); err != nil {
		return State{}, fmt.Errorf("state: %w", err)
	}
	if err := s.Validate(); err != nil {
		return State{}, fmt.Errorf("state: %w", err)
	}
	return s, nil
}

func readStrict(r io.Reader, v any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("at byte %d: %w", errorOffset(err, dec.InputOffset()), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("at byte %d: one JSON value is allowed, more follows", dec.InputOffset())
	}
	return nil
}

// errorOffset is where in the input err lies, as far as it says so.
func errorOffset(err error, reached int64) int64 {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &kind):
		return kind.Offset
	}
	return reached
}

// Validate reports every broken invariant of the State.
func (s State) Validate() error {
	errs := s.unusable()
	for i := range s.Models {
		m := &s.Models[i]
		for _, b := range m.broken(s.shapeLeftOut(m.Name)) {
			errs = append(errs, fmt.Errorf("model %q: %w", m.Name, b.err))
		}
	}
	if s.Inventory != nil {
		errs = append(errs, s.Inventory.problems()...)
	}
	return errors.Join(append(errs, s.Evidence.problem())...)
}

// unusable is what is broken about the State itself, so that no Decision can be made of it.
func (s State) unusable() []error {
	var errs []error
	if s.Now.IsZero() {
		errs = append(errs, errors.New("now is missing"))
	} else if !plausible(s.Now) {
		errs = append(errs, fmt.Errorf("now is %s: the years %d to %d are allowed", s.Now.Format(time.RFC3339), yearMin, yearMax))
	}
	if s.Interval <= 0 || s.Interval > time.Hour {
		errs = append(errs, fmt.Errorf("interval_ns is %d: above 0 to 1h is allowed", s.Interval))
	}
	for i := range s.Models {
		m := &s.Models[i]
		if i > 0 && s.Models[i-1].Name >= m.Name {
			errs = append(errs, fmt.Errorf("models[%d] is %q after %q: names must ascend without repeats",
				i, m.Name, s.Models[i-1].Name))
		}
		if m.Name == "" {
			errs = append(errs, fmt.Errorf("models[%d]: name is empty", i))
		}
	}
	errs = append(errs, s.groupProblems()...)
	return append(errs, s.Memory.problems()...)
}

// Times outside these years are unit mistakes; within them no sum of a time and a lead time leaves what JSON can hold.
const (
	yearMin = 1970
	yearMax = 2200
)

func plausible(t time.Time) bool { return t.UTC().Year() >= yearMin && t.UTC().Year() <= yearMax }

// problems reports counts that Decide never writes: they would be planned for.
func (m Memory) problems() []error {
	var errs []error
	for i, mm := range m.Models {
		if i > 0 && m.Models[i-1].Name >= mm.Name {
			errs = append(errs, fmt.Errorf("memory.models[%d] is %q after %q: names must ascend without repeats",
				i, mm.Name, m.Models[i-1].Name))
		}
		check := func(key string, n int) {
			if n < 0 || n > replicasLimit {
				errs = append(errs, fmt.Errorf("memory of model %q: %s is %d: 0 to %d are allowed", mm.Name, key, n, replicasLimit))
			}
		}
		check("replicas", mm.Replicas)
		check("told", mm.Told)
		for _, c := range mm.Wanted {
			check("wanted", c.Replicas)
		}
		for _, c := range mm.Needed {
			check("needed", c.Replicas)
		}
	}
	return errs
}

// broken are the facts of the model that break an invariant. An empty shape is none while it is known to be left out.
func (m *ModelState) broken(shapeLeftOut bool) []brokenFact {
	var out []brokenFact
	add := func(fact string, err error) {
		if err != nil {
			out = append(out, brokenFact{fact, err})
		}
	}
	if !shapeLeftOut || m.Shape != (Shape{}) {
		add("shape", m.Shape.Validate())
	}
	if m.Profile != nil {
		add("profile", m.Profile.Validate())
	}
	for i := range m.Alternatives {
		add("alternatives", m.Alternatives[i].problem())
	}
	if m.Requests != nil {
		add("requests", m.Requests.Validate())
	}
	if m.Load != nil && !m.Load.finite() {
		add("load", fmt.Errorf("load is %+v: finite rates of at least 0 are allowed; leave an unknown load out", m.Load.Load))
	}
	if !slices.IsSorted(m.WeightsOn) {
		add("weights_on", fmt.Errorf("weights_on is %q: ascending names are allowed", m.WeightsOn))
	}
	var leads []error
	for _, lt := range m.LeadTimes {
		if lt.Known() {
			leads = append(leads, lt.Validate())
		}
	}
	add("lead_time", errors.Join(leads...))
	add("waiting", m.Signals.problem())
	add("replicas", m.Replicas.problem())
	add("forecast", m.Forecast.problem())
	add("evidence", m.Evidence.problem())
	if a := m.Actuator; a != nil && !(a.ScaleUpTolerance >= 0 && a.ScaleUpTolerance <= 10) {
		add("actuator", fmt.Errorf("actuator.scale_up_tolerance is %v: 0 to 10 are allowed", a.ScaleUpTolerance))
	}
	if a := m.Actuator; a != nil {
		if t := a.ScaleDownTolerance; t != nil && !(*t >= 0 && *t <= 10) {
			add("actuator", fmt.Errorf("actuator.scale_down_tolerance is %v: 0 to 10 are allowed", *t))
		}
		add("actuator", a.ScaleUp.problem())
	}
	return out
}

func (s Signals) problem() error {
	var errs []error
	check := func(key string, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			errs = append(errs, fmt.Errorf("signals.%s is %v: a finite number of at least 0 is allowed; leave an unknown one out",
				key, v))
		}
	}
	if s.Waiting != nil {
		check("waiting_requests", *s.Waiting)
	}
	if s.Running != nil {
		check("running_requests", *s.Running)
	}
	if s.Backlog != nil {
		check("backlog.prompt_tokens", float64(s.Backlog.Prompt))
		check("backlog.completion_tokens", float64(s.Backlog.Completion))
	}
	return errors.Join(errs...)
}

func (r *Replicas) problem() error {
	if r == nil {
		return nil
	}
	if r.Ready < 0 || r.Leaving < 0 || r.Ready > replicasLimit-len(r.Starting) || r.Leaving > replicasLimit {
		return fmt.Errorf("replicas: %d are ready, %d starting and %d leaving: 0 to %d ready and starting, and as many leaving, "+
			"are allowed", r.Ready, len(r.Starting), r.Leaving, replicasLimit)
	}
	return nil
}

func (f *Forecast) problem() error {
	if f == nil {
		return nil
	}
	if err := errors.Join(f.Prompt.Validate(), f.Completion.Validate()); err != nil {
		return err
	}
	p, c := f.Prompt, f.Completion
	if !p.Start.Equal(c.Start) || p.Step != c.Step || len(p.Paths) != len(c.Paths) || p.Steps() != c.Steps() {
		return fmt.Errorf("forecast: prompt has %d paths of %d steps of %v from %s, completion %d of %d of %v from %s: they must be joint",
			len(p.Paths), p.Steps(), p.Step, p.Start.Format(time.RFC3339), len(c.Paths), c.Steps(), c.Step, c.Start.Format(time.RFC3339))
	}
	if len(p.Paths) == 0 || p.Steps() == 0 {
		return errors.New("forecast: at least one path of one step is needed; leave an unknown forecast out")
	}
	var errs []error
	if p.Step > forecastStepMax || p.Steps() > forecastStepsMax {
		errs = append(errs, fmt.Errorf("forecast: it has %d steps of %v: up to %d of up to %v are allowed", p.Steps(), p.Step,
			forecastStepsMax, forecastStepMax))
	}
	if !plausible(p.Start) {
		errs = append(errs, fmt.Errorf("forecast: it starts at %s: the years %d to %d are allowed",
			p.Start.Format(time.RFC3339), yearMin, yearMax))
	}
	errs = append(errs, f.Coverage.problem())
	for _, e := range f.Events {
		errs = append(errs, e.problem())
	}
	return errors.Join(append(errs, negative("prompt", p), negative("completion", c))...)
}

const (
	forecastStepMax  = time.Hour
	forecastStepsMax = 10_000
)

// negative reports the first rate below zero: a negative load on one side would cancel load on the other.
func negative(name string, e forecast.Ensemble) error {
	for i, path := range e.Paths {
		for k, v := range path {
			if v < 0 {
				return fmt.Errorf("forecast.%s: path %d step %d is %v: rates of at least 0 are allowed", name, i, k, v)
			}
		}
	}
	return nil
}

// nodeGPUsMax bounds the GPUs (or MIG devices) of one node.
const nodeGPUsMax = 1024

func (inv *Inventory) problems() []error {
	var errs []error
	for _, p := range inv.Pools {
		if p.GPUsPerNode < 0 || p.GPUsPerNode > nodeGPUsMax {
			errs = append(errs, fmt.Errorf("pool %q: gpus_per_node is %d: 0 to %d are allowed", p.Name, p.GPUsPerNode, nodeGPUsMax))
		}
		if p.Launchable != nil && *p.Launchable < 0 {
			errs = append(errs, fmt.Errorf("pool %q: launchable is %d: at least 0 is allowed; leave an unknown one out",
				p.Name, *p.Launchable))
		}
		if p.Launching < 0 || p.Launching > launchMax {
			errs = append(errs, fmt.Errorf("pool %q: launching is %d: 0 to %d are allowed", p.Name, p.Launching, launchMax))
		}
		for _, n := range p.Nodes {
			if n.FreeGPUs < 0 || n.FreeGPUs > min(n.GPUs, nodeGPUsMax) {
				errs = append(errs, fmt.Errorf("pool %q, node %q: free_gpus is %d: 0 to gpus, %d, and at most %d are allowed",
					p.Name, n.Name, n.FreeGPUs, n.GPUs, nodeGPUsMax))
			}
			errs = append(errs, n.problems(p.Name)...)
		}
	}
	return errs
}

// problems reports what else is out of range about a node.
func (n *Node) problems(pool string) []error {
	var errs []error
	negative := func(key string, value int64) {
		if value < 0 {
			errs = append(errs, fmt.Errorf("pool %q, node %q: %s is %d: at least 0 is allowed; leave an unknown one out",
				pool, n.Name, key, value))
		}
	}
	if n.FreeCPU != nil {
		negative("free_milli_cpu", int64(*n.FreeCPU))
	}
	if n.FreeMemory != nil {
		negative("free_memory_bytes", int64(*n.FreeMemory))
	}
	if n.FreePods != nil {
		negative("free_pods", int64(*n.FreePods))
	}
	for _, t := range n.Tenants {
		if t.GPUs < 0 || t.GPUs > nodeGPUsMax {
			errs = append(errs, fmt.Errorf("pool %q, node %q: tenant %q holds %d GPUs: 0 to %d are allowed",
				pool, n.Name, t.Pod, t.GPUs, nodeGPUsMax))
		}
	}
	return errs
}
