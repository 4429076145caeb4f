package prom

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"forewarm/planner"
)

// Source reads the facts of a set of models from one server. It is safe for concurrent use.
type Source struct {
	cfg    Config
	models []ModelConfig
	client *client

	mu        sync.Mutex
	resolved  map[string]*resolved // by model
	gaps      map[gapKey]time.Time // since when each gap is open
	kube      kubeLabels
	kubeUntil time.Time
}

type gapKey struct{ model, fact string }

// New returns a Source for the models, in their order. It validates the configuration and reads the credentials'
// configuration, but does not reach the server: one that is down at the start is a Gap of the first Observe.
func New(cfg Config, models []ModelConfig) (*Source, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	if err := ValidateModels(models); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	c, err := newClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return &Source{cfg: cfg, models: models, client: c, resolved: map[string]*resolved{},
		gaps: map[gapKey]time.Time{}}, nil
}

// Step returns the grid step of all loads.
func (s *Source) Step() time.Duration { return s.cfg.Step }

func (s *Source) model(name string) (ModelConfig, error) {
	var known []string
	for _, m := range s.models {
		if m.Name == name {
			return m, nil
		}
		known = append(known, m.Name)
	}
	return ModelConfig{}, fmt.Errorf("model %q is not configured; known are %s", name, strings.Join(known, ", "))
}

// Resolve looks up a model's metrics as they exist at now and says what it found. It keeps the result for Observe.
func (s *Source) Resolve(ctx context.Context, name string, now time.Time) (Resolution, error) {
	m, err := s.model(name)
	if err != nil {
		return Resolution{}, err
	}
	r, err := s.refresh(ctx, m, now)
	if err != nil {
		return Resolution{}, err
	}
	return r.res, nil
}

// refresh resolves a model anew and keeps the result.
func (s *Source) refresh(ctx context.Context, m ModelConfig, now time.Time) (*resolved, error) {
	r, err := s.resolve(ctx, m, now)
	if err != nil {
		return nil, err
	}
	r.expires = now.Add(lifetime(s.cfg.ResolveEvery, m.Name))
	if !r.served.known() {
		r.expires = now // look again at the next tick
	}
	s.mu.Lock()
	s.resolved[m.Name] = r
	s.mu.Unlock()
	return r, nil
}

// lifetime spreads the look-ups of many models over time, by a constant share of its name: ¾ to 1¼ of every.
func lifetime(every time.Duration, name string) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(name))
	return every*3/4 + every/2*time.Duration(h.Sum32()%1000)/1000
}

// ArrivalsIndependent reports whether the model's demand is seen when it has no replica, which a minimum of 0 needs,
// and says by which metric or why not. It looks at what was last resolved; before that only a custom configuration
// that names requests or a queue is known to be independent.
func (s *Source) ArrivalsIndependent(name string) (bool, string) {
	m, err := s.model(name)
	if err != nil {
		return false, err.Error()
	}
	s.mu.Lock()
	r := s.resolved[name]
	s.mu.Unlock()
	switch {
	case r != nil:
		return r.arrivalsIndependent()
	case m.Arrivals.Source == ArrivalsNone:
		return false, "arrivals.source is none"
	case m.Arrivals.Source == ArrivalsCustom && len(m.Arrivals.Requests)+len(m.Arrivals.Queue) > 0:
		return true, "requests or queue named in arrivals"
	}
	return false, "the gateway's metrics have not been looked up yet"
}

// gap returns a Gap that is open since the first time it was seen in a row.
func (s *Source) gap(open map[gapKey]bool, now time.Time, model, fact, detail string) planner.Gap {
	key := gapKey{model, fact}
	open[key] = true
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.gaps[key]
	if !ok {
		since = now
		s.gaps[key] = now
	}
	return planner.Gap{Model: model, Fact: fact, Since: since, Detail: detail}
}

// closeGaps forgets the gaps that were not seen this time.
func (s *Source) closeGaps(open map[gapKey]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.gaps {
		if !open[key] {
			delete(s.gaps, key)
		}
	}
}
