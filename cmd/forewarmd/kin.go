package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"forewarm/planner"
	"forewarm/scaler"
)

// kin says whose history a model's own is completed with, and how.
type kin struct {
	name     string
	replaced bool // its users are this model's now; else it is merely similar
}

// kin are the models that others take history from, by the model that takes it.
func (c *config) kin() map[string]kin {
	out := map[string]kin{}
	for i := range c.Models {
		switch m := &c.Models[i]; {
		case m.Replaces != "":
			out[m.Name] = kin{m.Replaces, true}
		case m.Like != "":
			out[m.Name] = kin{m.Like, false}
		}
	}
	return out
}

// kinSource completes histories with those of the models' kin. What is shorter than whole is a hole in one that was
// completed already, and the model's own.
type kinSource struct {
	scaler.Source
	kin   map[string]kin
	whole time.Duration
}

// History reads a model's history and, where it has kin, the kin's. When the kin's cannot be read there is an error
// and no history, so that it is tried again: what is fitted once is not completed later.
func (s kinSource) History(ctx context.Context, model string, from, to time.Time) (planner.LoadHistory, error) {
	own, err := s.Source.History(ctx, model, from, to)
	k, ok := s.kin[model]
	if !ok || to.Sub(from) < s.whole || err != nil && !errors.Is(err, planner.ErrPartial) {
		return own, err
	}
	other, otherErr := s.Source.History(ctx, k.name, from, to)
	if otherErr != nil && !errors.Is(otherErr, planner.ErrPartial) {
		return planner.LoadHistory{}, fmt.Errorf("the history of %s, which that of %s is completed with: %w", k.name,
			model, otherErr)
	}
	join := own.BorrowShape
	if k.replaced {
		join = own.Inherit
	}
	completed, kinErr := join(other, k.name)
	if kinErr != nil {
		return planner.LoadHistory{}, kinErr
	}
	return completed, errors.Join(err, otherErr)
}
