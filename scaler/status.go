package scaler

import (
	"sort"
	"sync"
	"time"
)

// PartStatus is how one part of the tick (observe, history, decide, record, apply …) went last.
type PartStatus struct {
	Part string `json:"part"`
	// LastGood is when it last worked; zero if it never did.
	LastGood time.Time `json:"last_good"`
	// Error is empty when it worked last.
	Error string `json:"error,omitempty"`
}

type status struct {
	mu    sync.Mutex
	parts map[string]PartStatus
}

// set notes an outcome and reports whether it differs from the last one (a first success is not news).
func (s *status) set(part string, now time.Time, err error) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[string]PartStatus{}
	}
	old := s.parts[part]
	next := PartStatus{Part: part, LastGood: old.LastGood}
	if err != nil {
		next.Error = err.Error()
	} else {
		next.LastGood = now
	}
	s.parts[part] = next
	return (old.Error == "") != (next.Error == "")
}

func (s *status) lastGood(part string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[part].LastGood
}

func (s *status) all() []PartStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]PartStatus, 0, len(s.parts))
	for _, p := range s.parts {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Part < out[j].Part })
	return out
}
