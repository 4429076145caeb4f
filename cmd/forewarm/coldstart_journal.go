package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler/journal"
)

const (
	// whatNextSpan is how far back recorded States are asked, whatNextStates how many of them, spread evenly: a State of a
	// large fleet takes some time to read.
	whatNextSpan   = 7 * 24 * time.Hour
	whatNextStates = 84
)

// modelSavings is what shorter phases would save of one model.
type modelSavings struct {
	model   string
	states  int
	savings []planner.Saving
}

// readJournal adds the starts that a daemon has watched, and what it would save to make them shorter.
func (s *startFiles) readJournal(ctx context.Context, dir string, usdPerReplicaHour *float64) (err error) {
	j, err := journal.OpenReadOnly(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	samples, err := j.Starts(ctx)
	if err != nil {
		return err
	}
	byModel := map[string][]coldstart.Sample{}
	for _, x := range samples {
		s.recorded = append(s.recorded, inSequence(x))
		byModel[x.Key.Model] = append(byModel[x.Key.Model], x)
	}
	occasions, policy, err := weekOfOccasions(ctx, j)
	if err != nil || len(occasions) == 0 {
		return err
	}
	models, err := j.Models(ctx)
	if err != nil {
		return err
	}
	for _, m := range models {
		s.whatNext = append(s.whatNext, savingsOf(m, byModel[m], occasions[m], policy, usdPerReplicaHour))
	}
	return nil
}

// weekOfOccasions reads recorded States of the last week, evenly spread, by model, and the newest policy.
func weekOfOccasions(ctx context.Context, j *journal.Reader) (map[string][]planner.Occasion, planner.Policy, error) {
	last, ok, err := j.Last(ctx)
	if err != nil || !ok {
		return nil, planner.Policy{}, err
	}
	infos, err := j.States(ctx, last.At.Add(-whatNextSpan), last.At.Add(time.Second))
	if err != nil {
		return nil, planner.Policy{}, err
	}
	out := map[string][]planner.Occasion{}
	var policy planner.Policy
	for i := range min(len(infos), whatNextStates) {
		at := infos[(i+1)*len(infos)/min(len(infos), whatNextStates)-1].At
		state, p, decision, err := j.StateAt(ctx, at)
		if err != nil {
			return nil, planner.Policy{}, err
		}
		policy = p
		for i := range state.Models {
			m := &state.Models[i]
			o := planner.Occasion{State: m, At: state.Now, Interval: state.Interval}
			if d := decision.Model(m.Name); d != nil && d.Lead != nil {
				o.Order = d.Lead.Path
			}
			out[m.Name] = append(out[m.Name], o)
		}
	}
	return out, policy, nil
}

// savingsOf ranks what could be removed from the starts of a model on every path.
func savingsOf(model string, samples []coldstart.Sample, occasions []planner.Occasion, policy planner.Policy, usd *float64) modelSavings {
	var removals []planner.Removal
	for _, path := range coldstart.Paths() {
		of := slices.DeleteFunc(slices.Clone(samples), func(s coldstart.Sample) bool { return s.Key.Path != path })
		removals = append(removals, planner.Removals(path, of)...)
	}
	savings, used := planner.WhatNext(occasions, policy.For(model), removals, usd)
	return modelSavings{model, used, savings}
}

// writeWhatNext prints the savings of each model, those that save something.
func (r *startReport) writeWhatNext(b *strings.Builder) {
	for _, m := range r.whatNext {
		fmt.Fprintf(b, "\nWhat to make shorter for %s, by warm replicas saved per second (mean over %d recorded states):\n", m.model, m.states)
		if m.states == 0 {
			b.WriteString("  cannot be told: no recorded state has a forecast, a profile and a lead time\n")
			continue
		}
		n := 0
		for _, s := range m.savings {
			if s.Replicas > 0 {
				fmt.Fprintf(b, "  %s\n", s)
				n++
			}
		}
		if n == 0 {
			b.WriteString("  nothing: no phase by itself holds a warm replica\n")
		}
	}
}

type savingJSON struct {
	Model      string          `json:"model"`
	Path       coldstart.Path  `json:"path"`
	Phase      coldstart.Phase `json:"phase"`
	From       float64         `json:"from_seconds"`
	To         float64         `json:"to_seconds"`
	Replicas   *float64        `json:"warm_replicas_saved"`      // null when no recorded state tells
	PerSecond  *float64        `json:"warm_replicas_per_second"` // null when no recorded state tells
	USDPerWeek *float64        `json:"usd_per_week"`             // null without a price, or when no recorded state tells
}

func (r *startReport) savingsJSON() []savingJSON {
	var out []savingJSON
	for _, m := range r.whatNext {
		for _, s := range m.savings {
			x := savingJSON{Model: m.model, Path: s.Path, Phase: s.Phase, From: s.From.Seconds(), To: s.To.Seconds(), USDPerWeek: s.USDPerWeek}
			if m.states > 0 {
				x.Replicas, x.PerSecond = &s.Replicas, &s.PerSecond
			}
			out = append(out, x)
		}
	}
	return out
}
