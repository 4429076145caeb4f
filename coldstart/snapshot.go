package coldstart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// snapshotVersion is the version of the JSON below. A reader refuses any other.
const snapshotVersion = 1

type snapshot struct {
	Version int              `json:"version"`
	Samples []Sample         `json:"samples"`
	Stated  []statedLeadTime `json:"stated,omitempty"`
}

type statedLeadTime struct {
	Key      Key      `json:"key"`
	LeadTime LeadTime `json:"lead_time"`
}

// MarshalJSON writes the samples (oldest first) and the stated lead times (by key). Ledgers that hold the same give the
// same bytes. The options are configuration and stay out.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	s := snapshot{Version: snapshotVersion, Samples: l.Samples()}
	for _, k := range slices.SortedFunc(maps.Keys(l.stated), Key.Compare) {
		s.Stated = append(s.Stated, statedLeadTime{k, l.stated[k]})
	}
	return json.Marshal(s)
}

// UnmarshalJSON replaces the contents by a snapshot and keeps the options; samples beyond SamplesMax are dropped, oldest
// first. A snapshot with another version, an unknown field, a repeated ID or an invalid entry is refused whole, with all
// reasons, and the ledger stays as it was.
func (l *Ledger) UnmarshalJSON(data []byte) error {
	var s snapshot
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("coldstart snapshot: %w", err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("coldstart snapshot: version %d: want %d", s.Version, snapshotVersion)
	}
	fresh := Ledger{opts: l.opts}
	var errs []error
	seen := map[string]bool{}
	for i, sample := range s.Samples {
		if seen[sample.ID] {
			errs = append(errs, fmt.Errorf("samples[%d]: id %q: given before, want each once", i, sample.ID))
		}
		seen[sample.ID] = true
		if err := fresh.Add(sample); err != nil {
			errs = append(errs, fmt.Errorf("samples[%d]: %w", i, err))
		}
	}
	for i, st := range s.Stated {
		if _, ok := fresh.stated[st.Key]; ok {
			errs = append(errs, fmt.Errorf("stated[%d]: %v: given before, want each key once", i, st.Key))
		}
		if err := fresh.SetStated(st.Key, st.LeadTime); err != nil {
			errs = append(errs, fmt.Errorf("stated[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("coldstart snapshot: %w", errors.Join(errs...))
	}
	*l = fresh
	return nil
}
