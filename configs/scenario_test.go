package configs

import (
	"os"
	"strings"
	"testing"
	"time"

	"forewarm/sim"
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

// The history of the incident holds what the incident needs, whatever the seed: a burst that varies by 40 % in size and ten
// minutes in start on most days, does not come on one Monday, and meets a batch of long prompts on one morning.
func TestMondayHistory(t *testing.T) {
	data, err := os.ReadFile("scenarios/monday-0915.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Scenario("monday", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	days := int(s.History.Hours() / 24)
	if days != 28 {
		t.Errorf("%d days of history", days)
	}
	var mornings, likeSize, likeStart int
	for seed := range uint64(10) {
		var quiet, batch []string
		for day := -days; day < 0; day++ {
			m := morningOf(t, s, seed, s.World.Start.AddDate(0, 0, day))
			date := s.World.Start.AddDate(0, 0, day).Format("Mon 2006-01-02")
			switch {
			case m.longest > 1.5:
				batch = append(batch, date)
			case m.peak < 1.01 && date[0] != 'S': // Saturday, Sunday
				quiet = append(quiet, date)
			case m.peak > 1.01:
				mornings++
				if size := (m.peak - 1) / 1.6; size > 0.6 && size < 1.4 {
					likeSize++
				}
				// Half of a rise of 12 minutes after 09:13.
				if late := m.half - 79*time.Minute; late.Abs() <= 10*time.Minute {
					likeStart++
				}
			}
		}
		if len(quiet) != 1 || quiet[0][:3] != "Mon" || len(batch) != 1 {
			t.Errorf("seed %d: no burst on %v, long prompts on %v", seed, quiet, batch)
		}
	}
	// Of 180 normal variates 93 % and 90 % are within, give or take three standard errors of 1.9 and 2.2 points.
	size, start := float64(likeSize)/float64(mornings), float64(likeStart)/float64(mornings)
	if mornings != 180 || size < 0.87 || size > 0.985 || start < 0.84 || start > 0.97 {
		t.Errorf("of %d mornings %.0f %% have a size within 40 %%, %.0f %% a start within 10 minutes", mornings, 100*size, 100*start)
	}
}

// morning is how the first model's demand of a day differs from what it would be without bursts.
type morning struct {
	peak    float64       // of the ratio of requests
	half    time.Duration // from the start of the scenario's hours to half of the peak's excess
	longest float64       // of the ratio of prompt tokens per request
}

func morningOf(t *testing.T, s sim.Scenario, seed uint64, from time.Time) morning {
	t.Helper()
	w := s.World.Models[0].Workload
	with, err := sim.NewGenerator(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	w.Bursts = nil
	without, err := sim.NewGenerator(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	var m morning
	var ratios []float64
	for at := time.Duration(0); at < s.Duration; at += time.Minute {
		a, b := with.Rate(from.Add(at)), without.Rate(from.Add(at))
		ratio := float64(a.Requests / b.Requests)
		ratios = append(ratios, ratio)
		m.peak = max(m.peak, ratio)
		m.longest = max(m.longest, float64(a.Prompt/b.Prompt)/ratio)
	}
	for i, ratio := range ratios {
		if ratio-1 >= (m.peak-1)/2 {
			m.half = time.Duration(i) * time.Minute
			break
		}
	}
	return m
}
