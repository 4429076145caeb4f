package prom

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// FirstAnswer returns when a pod of a model is first known to have completed a request after from: the first scrape up to
// to whose counter of completed requests is above zero. The answer came at most a scrape interval before that. ok is
// false when none did, when the engine has no such counter, or when its series do not name their pods.
func (s *Source) FirstAnswer(ctx context.Context, name, pod string, from, to time.Time) (at time.Time, ok bool, err error) {
	m, err := s.model(name)
	if err != nil {
		return time.Time{}, false, err
	}
	s.mu.Lock()
	r := s.resolved[name]
	s.mu.Unlock()
	if r == nil {
		if r, err = s.refresh(ctx, m, to); err != nil {
			return time.Time{}, false, err
		}
	}
	if r.served == nil || r.podLabel == "" {
		return time.Time{}, false, nil
	}
	for _, metric := range r.served.metrics[FactRequests] {
		for _, set := range r.served.sets {
			of := append(slices.Clone(set), matcher{r.podLabel, "=", pod})
			series, err := s.client.samples(ctx, fmt.Sprintf("%s[%s]", metric.selector(of), promDuration(to.Sub(from))), to)
			if err != nil {
				return time.Time{}, false, fmt.Errorf("first answer of %s: %w", pod, err)
			}
			for _, one := range series {
				for _, p := range one.Values {
					if t := p.Timestamp.Time().UTC(); p.Value > 0 && t.After(from) && (at.IsZero() || t.Before(at)) {
						at = t
					}
				}
			}
		}
	}
	return at, !at.IsZero(), nil
}
