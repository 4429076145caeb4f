package sim

import (
	"context"
	"math"
	"time"

	"forewarm/planner"
)

// reactive follows the load of the last minute: as many replicas as carry it and a headroom by the profile told, never
// fewer than a floor, and never fewer than at any time within the hold window.
type reactive struct {
	settings reactiveSettings
	rates    map[string]planner.Profile
	past     []sight
	wanted   map[string][]sample
}

type reactiveSettings struct {
	headroom float64 // share of the load
	floor    float64 // share of the most replicas
	hold     time.Duration
}

func newReactive(s Scenario, c *Cluster, set reactiveSettings) *reactive {
	p := &reactive{settings: set, rates: map[string]planner.Profile{}, wanted: map[string][]sample{}}
	for _, cfg := range s.World.Models {
		p.rates[cfg.Name] = c.model(cfg.Name).rates(s.toldProfile(cfg))
	}
	return p
}

// reactiveWindow is over how long the load is measured.
const reactiveWindow = time.Minute

func (p *reactive) tick(_ context.Context, c *Cluster, s sight) error {
	p.past = append(p.past, s)
	for len(p.past) > 2 && s.at.Sub(p.past[1].at) >= reactiveWindow {
		p.past = p.past[1:]
	}
	for i, m := range c.models {
		before, now := p.past[0].models[i], s.models[i]
		seconds := s.at.Sub(p.past[0].at).Seconds()
		if before.blind || now.blind || seconds == 0 {
			m.triggers = []metric{{target: 1, err: true}}
			continue
		}
		rates := p.rates[m.cfg.Name]
		busy := (float64(now.prompt-before.prompt)/float64(rates.Prompt) +
			float64(now.completion-before.completion)/float64(rates.Completion)) / seconds
		want := max(math.Ceil(busy*(1+p.settings.headroom)), math.Ceil(p.settings.floor*float64(m.cfg.ReplicasMax)))
		m.triggers = []metric{{value: p.held(m.cfg.Name, s.at, want), target: 1}}
	}
	return nil
}

// held is the most that was wanted within the hold window.
func (p *reactive) held(model string, at time.Time, want float64) float64 {
	kept := p.wanted[model][:0]
	for _, w := range p.wanted[model] {
		if at.Sub(w.at) < p.settings.hold {
			kept = append(kept, w)
			want = max(want, w.value)
		}
	}
	p.wanted[model] = append(kept, sample{at, want})
	return want
}

// tunedHeadrooms is how many steps there are up to the largest headroom, of three times the load.
const tunedHeadrooms = 16

// replayTuned is the reactive policy with the headroom, floor and hold window that are the cheapest in hindsight among
// those that attain the goal: headrooms by bisection for each of three floors and three windows. When none attains it, it
// is the one that attains most. No live policy can know these settings: this is the bar for one that forecasts.
func replayTuned(ctx context.Context, s Scenario, spec PolicySpec) (Score, error) {
	search := newSearch(spec.goal())
	for _, floor := range []float64{0, 0.25, 0.5} {
		for _, hold := range []time.Duration{0, 15 * time.Minute, time.Hour} {
			err := search.bisect(tunedHeadrooms, func(i int) (Score, error) {
				set := reactiveSettings{headroom: 3 * float64(i) / tunedHeadrooms, floor: floor, hold: hold}
				return replayOnce(ctx, s, spec, func(c *Cluster) (policy, error) { return newReactive(s, c, set), nil })
			})
			if err != nil {
				return Score{}, err
			}
		}
	}
	return search.best, nil
}
