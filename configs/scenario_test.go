package configs

import (
	"os"
	"strings"
	"testing"
)

// A set changes one value and nothing else, also behind an alias that others share.
func TestScenarioSets(t *testing.T) {
	data, err := os.ReadFile("scenarios/monday-0915.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Scenario("monday", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Scenario("monday", data, []string{"world.models.code-8b.workload.day.0=9", "seed=7", "world.models.0.replicas=2"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.World.Models[1].Workload.Day[0]; got != 9 {
		t.Errorf("the day of code-8b begins with %v, want 9", got)
	}
	if got, want := s.World.Models[0].Workload.Day[0], plain.World.Models[0].Workload.Day[0]; got != want {
		t.Errorf("the day of chat-70b begins with %v, want %v as before", got, want)
	}
	if s.Seed != 7 || s.World.Models[0].Replicas != 2 || s.World.Models[1].Replicas != plain.World.Models[1].Replicas {
		t.Errorf("seed %d, replicas %d and %d", s.Seed, s.World.Models[0].Replicas, s.World.Models[1].Replicas)
	}
	for set, want := range map[string]string{
		"seed": "path=value", "=1": "path=value", "seed.x=1": "no keys", "world.models.chat=1": "chat-70b, code-8b",
		"world.models.9.replicas=1": "chat-70b, code-8b", "sed=1": `did you mean "seed"`, "seed=[": "must be YAML",
	} {
		if _, err := Scenario("monday", data, []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("set %s: %v, want something about %s", set, err, want)
		}
	}
}

// Whatever the bytes and the sets, reading a scenario ends with one or with an error.
func FuzzScenario(f *testing.F) {
	data, err := os.ReadFile("scenarios/monday-0915.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, "seed=2")
	f.Add([]byte("world: {models: [&m {name: a}, *m]}"), "world.models.1.name=b")
	f.Add([]byte("a: &a [*a]"), "a.0=1")
	f.Add([]byte(""), "name=x")
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		s, err := Scenario("fuzz", data, []string{set})
		if err == nil {
			_ = s.Validate()
		}
	})
}
