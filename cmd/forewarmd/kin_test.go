package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
	"forewarm/planner"
)

// pasts is a source of histories by model.
type pasts map[string]func() (planner.LoadHistory, error)

func (p pasts) History(_ context.Context, model string, _, _ time.Time) (planner.LoadHistory, error) {
	return p[model]()
}

func (pasts) Observe(context.Context, time.Time) (planner.Observation, error) {
	return planner.Observation{}, nil
}

// pastOf is a history on a one-minute grid, NaN where nothing is known.
func pastOf(start time.Time, values ...float64) planner.LoadHistory {
	s := forecast.Series{Start: start, Step: time.Minute, Values: values}
	return planner.LoadHistory{Prompt: s, Completion: s, Requests: s}
}

func TestKinSource(t *testing.T) {
	nan := math.NaN()
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	failing := errors.New("connection refused")
	partial := errors.Join(planner.ErrPartial, errors.New("one shard is down"))
	give := func(h planner.LoadHistory, err error) func() (planner.LoadHistory, error) {
		return func() (planner.LoadHistory, error) { return h, err }
	}
	own, old := pastOf(start, nan, nan, nan, 30), pastOf(start, 10, 20, nan, 5)
	for _, tt := range []struct {
		name    string
		source  pasts
		want    []float64
		says    string
		partial bool
		err     string
	}{
		{"inherited, and added up while both serve", pasts{"new": give(own, nil), "old": give(old, nil)}, []float64{10, 20, nan, 35}, "of old: 3 steps inherited", false, ""},
		{"both in part", pasts{"new": give(own, partial), "old": give(old, partial)}, []float64{10, 20, nan, 35}, "of old", true, ""},
		{"its own cannot be read", pasts{"new": give(planner.LoadHistory{}, failing), "old": give(old, nil)}, nil, "", false, "connection refused"},
		{"the other cannot be read: tried again", pasts{"new": give(own, nil), "old": give(planner.LoadHistory{}, failing)}, nil, "", false, "the history of old, which that of new is completed with: connection refused"},
		{"another grid", pasts{"new": give(own, nil), "old": give(pastOf(start.Add(time.Second), 1, 2), nil)}, nil, "", false, "whole number of steps"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := kinSource{tt.source, map[string]kin{"new": {"old", true}}, 4 * time.Minute}.History(t.Context(), "new", start, start.Add(4*time.Minute))
			if tt.err != "" {
				if err == nil || errors.Is(err, planner.ErrPartial) || !strings.Contains(err.Error(), tt.err) || got.Prompt.Len() > 0 {
					t.Fatalf("got %v and error %v, want one that is not partial and says %q", got.Prompt.Values, err, tt.err)
				}
				return
			}
			if errors.Is(err, planner.ErrPartial) != tt.partial || !tt.partial && err != nil {
				t.Fatalf("error %v, want partial: %v", err, tt.partial)
			}
			if !strings.HasPrefix(got.Borrowed, tt.says) || len(got.Prompt.Values) != len(tt.want) {
				t.Fatalf("got %v, %q", got.Prompt.Values, got.Borrowed)
			}
			for i, want := range tt.want {
				if v := got.Prompt.Values[i]; v != want && !(math.IsNaN(v) && math.IsNaN(want)) {
					t.Errorf("step %d is %v, want %v", i, v, want)
				}
			}
		})
	}
	hole := kinSource{pasts{"new": give(own, nil), "old": give(old, nil)}, map[string]kin{"new": {"old", true}}, time.Hour}
	if got, err := hole.History(t.Context(), "new", start, start.Add(4*time.Minute)); err != nil || got.Prompt.Values[3] != 30 || got.Borrowed != "" {
		t.Errorf("a hole is filled with another model's: %v, %q, %v", got.Prompt.Values, got.Borrowed, err)
	}
	alone, err := kinSource{pasts{"other": give(own, nil)}, nil, 0}.History(t.Context(), "other", start, start)
	if err != nil || alone.Borrowed != "" || alone.Prompt.Len() != own.Prompt.Len() {
		t.Errorf("a model without kin: %+v, %v", alone, err)
	}
}

func TestConfigKin(t *testing.T) {
	two := minimal + "- name: n\n  matchers: ['model_name=\"n\"']\n  workloads: [{namespace: a, kind: Deployment, name: n}]\n  shape: {gpus: 1, pods: 1}\n"
	for more, want := range map[string]string{
		"  replaces: m\n":            "",
		"  like: m\n":                "",
		"  replaces: n\n":            `replaces is "n": another name under models is allowed`,
		"  like: nobody\n":           `like is "nobody": another name under models is allowed`,
		"  replaces: m\n  like: m\n": `replaces is "m" and like is "m": one of them is allowed`,
	} {
		c, err := parseConfig("f.yaml", []byte(two+more))
		if want == "" {
			if err != nil || c.kin()["n"].name != "m" || c.kin()["n"].replaced != strings.Contains(more, "replaces") {
				t.Errorf("%s: %v, %v", more, c, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", more, err, want)
		}
	}
}
