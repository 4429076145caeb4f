package prom

import (
	"context"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
)

// engineAnswers are what the engines of a model say when a profile is learned from them.
var engineAnswers = map[string]string{keyEngineRunning: "14", keyEngineKV: "0.25", keyEnginePrompt: "100", keyEngineITL: "0.02"}

// TestEngineCosts: what a profile is learned from is read only of models for which that is wanted, and only as a whole: a
// part that is missing or no number (0/0 while nothing was generated) leaves the look out.
func TestEngineCosts(t *testing.T) {
	learned := simpleModel
	learned.EngineCosts = true
	for name, tt := range map[string]struct {
		model ModelConfig
		spoil map[string]string
		want  *planner.EngineLook
	}{
		"read":       {learned, nil, &planner.EngineLook{Running: 14, KVUsage: 0.25, Prompt: 100, ITL: 20}},
		"not wanted": {simpleModel, nil, nil},
		"idle":       {learned, map[string]string{keyEngineITL: "NaN"}, nil},
		"missing":    {learned, map[string]string{keyEngineKV: ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.series = append(f.series, map[string]string{"__name__": "vllm:kv_cache_usage_perc", "pod": "pod-a",
				"model_name": "chat-70b", "namespace": "llm"})
			f.value = func(key string, at time.Time) (string, bool) {
				key = strings.TrimLeft(key, "0123456789.")
				if v, ok := tt.spoil[key]; ok {
					return v, v != ""
				}
				if v, ok := engineAnswers[key]; ok {
					return v, true
				}
				return steady(key, at)
			}
			obs, err := newSource(t, testConfig(f.start(t)), tt.model).Observe(context.Background(), testNow)
			if err != nil {
				t.Fatal(err)
			}
			got := obs.Models[0].Engine
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if asked := f.asked("inter_token_latency_seconds_sum") > 0; asked != tt.model.EngineCosts {
				t.Errorf("the time between tokens was asked for: %v", asked)
			}
		})
	}
}
