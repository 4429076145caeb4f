package planner

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"errors"
	"fmt"
	"time"
)

// ErrNoSnapshot is returned, wrapped, for a model that has nothing worth keeping: it is not fitted yet, or its method
// has no snapshots. Its history is read anew after a restart.
var ErrNoSnapshot = errors.New("planner: no snapshot")

// ModelSnapshot is what a Tracker has learned of one model's load: with it a later Tracker goes on where this one
// stood, without reading weeks of history.
type ModelSnapshot struct{ state trackedState }

// trackedState is the form of a ModelSnapshot on disk. It belongs to this version of forewarm (see forecast.Auto's
// MarshalBinary) and is no archive.
type trackedState struct {
	Model              string
	Step               time.Duration
	Next               time.Time
	Steps              int
	Newest             *ObservedLoad
	Sizes              [3]float64 // of requestSizes: prompt, completion, requests
	Borrowed           string
	Prompt, Completion []byte // of the forecasters
}

// Snapshot returns what was learned of a model's load, as DecodeSnapshot reads it: about 0.4 MB for weeks of minutes.
// It returns ErrNoSnapshot, wrapped, when there is nothing to keep. Starts are not in it: the ledger has them.
func (t *Tracker) Snapshot(model string) ([]byte, error) {
	m := t.byName[model]
	if m == nil {
		return nil, fmt.Errorf("planner: model %q is not tracked", model)
	}
	if !m.fitted {
		return nil, fmt.Errorf("%w: model %q: %s", ErrNoSnapshot, model, m.fitProblem)
	}
	s := trackedState{Model: model, Step: t.cfg.Step, Next: m.next, Steps: m.steps, Newest: m.newest, Borrowed: m.borrowed,
		Sizes: [3]float64{m.sizes.prompt, m.sizes.completion, m.sizes.requests}}
	for _, kind := range []struct {
		from any
		to   *[]byte
	}{{m.prompt, &s.Prompt}, {m.completion, &s.Completion}} {
		f, ok := kind.from.(encoding.BinaryMarshaler)
		if !ok {
			return nil, fmt.Errorf("%w: model %q: method %q has none", ErrNoSnapshot, model, t.cfg.Method)
		}
		data, err := f.MarshalBinary()
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, fmt.Errorf("%w: model %q: %w", ErrNoSnapshot, model, err)
		}
		if err != nil {
			return nil, fmt.Errorf("planner: model %q: %w", model, err)
		}
		*kind.to = data
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(s); err != nil {
		return nil, fmt.Errorf("planner: model %q: %w", model, err)
	}
	return out.Bytes(), nil
}

// DecodeSnapshot reads what Snapshot has returned. The forecasters in it are read by Restore, which knows their
// options.
func DecodeSnapshot(data []byte) (*ModelSnapshot, error) {
	var s trackedState
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return nil, fmt.Errorf("planner: decoding a snapshot: %w", err)
	}
	if s.Step <= 0 || s.Steps < 1 || s.Next.IsZero() {
		return nil, fmt.Errorf("planner: decoding a snapshot: %d steps of %v up to %s", s.Steps, s.Step,
			s.Next.Format(time.RFC3339))
	}
	return &ModelSnapshot{s}, nil
}

// End is the end of the newest step that the snapshot has seen.
func (s *ModelSnapshot) End() time.Time { return s.state.Next }

// Restore replaces what is known of the snapshot's model by the snapshot and the steps since, which start at its End;
// an empty tail adds none. Steps between the tail's end and the next Observation are missing, as in any outage.
//
// A snapshot that was made with another step, method, horizon, history or calendar, and a tail that does not continue
// it, are an error and change nothing.
func (t *Tracker) Restore(s *ModelSnapshot, tail LoadHistory) error {
	old := t.byName[s.state.Model]
	if old == nil {
		return fmt.Errorf("planner: model %q is not tracked", s.state.Model)
	}
	m, err := t.restored(old.TrackedModel, s.state)
	if err != nil {
		return fmt.Errorf("planner: model %q: restoring a snapshot: %w", old.Name, err)
	}
	if tail.Prompt.Len() > 0 {
		if err := t.checkGrid(tail); err != nil {
			return fmt.Errorf("planner: model %q: %w", old.Name, err)
		}
		if !tail.Prompt.Start.Equal(m.next) {
			return fmt.Errorf("planner: model %q: the load since the snapshot starts at %s: its end, %s, is allowed", old.Name,
				tail.Prompt.Start.Format(time.RFC3339Nano), m.next.Format(time.RFC3339Nano))
		}
	}
	for i := range tail.Prompt.Values {
		m.see(tail, i, t.cfg)
		m.note(tail, i, "")
	}
	m.leads, m.leadsAt = old.leads, old.leadsAt
	*old = *m // t.models and t.byName share it
	return nil
}

// restored makes a model's part of the Tracker from a snapshot.
func (t *Tracker) restored(of TrackedModel, s trackedState) (*trackedModel, error) {
	if s.Step != t.cfg.Step {
		return nil, fmt.Errorf("its step is %v: %v is allowed", s.Step, t.cfg.Step)
	}
	m, err := newTrackedModel(t.cfg, of)
	if err != nil {
		return nil, err
	}
	for _, kind := range []struct {
		into any
		data []byte
	}{{m.prompt, s.Prompt}, {m.completion, s.Completion}} {
		f, ok := kind.into.(encoding.BinaryUnmarshaler)
		if !ok {
			return nil, fmt.Errorf("method %q has no snapshots", t.cfg.Method)
		}
		if err := f.UnmarshalBinary(kind.data); err != nil {
			return nil, err
		}
	}
	m.fitted, m.fitProblem = true, ""
	m.next, m.steps, m.newest, m.borrowed = s.Next, s.Steps, s.Newest, s.Borrowed
	m.sizes = requestSizes{s.Sizes[0], s.Sizes[1], s.Sizes[2]}
	return m, nil
}
