package sim

import (
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// Every problem of a world is reported at once, each with its key.
func TestWorldReportsAllProblems(t *testing.T) {
	w := DemoWorld()
	w.Start = time.Time{}
	w.Models[0].Name = "code-8b"
	w.Models[0].Shape.Pods = 2
	w.Models[0].Physics.Chunk = 0
	w.Models[0].Workload.Timezone = "Berlin"
	w.Models[1].Workload.Timezone = "Local"
	w.Models[0].Workload.Clients[0].Share = 1.5
	w.Models[0].Workload.Prompt.Components[1].Weight = -1
	w.Models[0].Startup.ImagePull.Sigma = 9
	w.Models[1].ReplicasMin = -1
	w.Models[1].SLO.TTFT = 0
	w.Pools[0].NodesMax = 1
	w.Pools[0].Nodes[0].Others = 9
	w.Pools[0].Nodes[1].Cached = []string{"nobody"}
	w.Pools[0].Nodes[2].Name = "h100-a"
	w.Autoscaler.Sync = 0
	_, err := NewCluster(w, 1)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"start is missing",
		"models[1].name is \"code-8b\"",
		"models[0].shape.pods is 2",
		"models[0].physics.chunk_tokens is 0: 1 to 1000000",
		"models[0].workload.timezone is \"Berlin\"",
		"models[1].workload.timezone is \"Local\"",
		"models[0].workload.clients[0].share is 1.5",
		"models[0].workload.clients: the shares add up to",
		"models[0].workload.prompt.components[1].weight is -1",
		"models[0].startup.image_pull.sigma is 9",
		"models[1].replicas_min is -1: 0 to 100000",
		"models[1].slo.ttft is 0s: 1ms to 1h0m0s",
		"pools[0].nodes_max is 1",
		"pools[0].nodes[0].others_gpus is 9",
		"pools[0].nodes[1].cached names \"nobody\"",
		"pools[0].nodes[2].name is \"h100-a\"",
		"autoscaler.sync is 0s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}

func TestWorldRefusesReplicasWithoutRoom(t *testing.T) {
	w := DemoWorld()
	w.Models[0].Replicas = 5
	_, err := NewCluster(w, 1)
	if err == nil || !strings.Contains(err.Error(), "chat-70b") || !strings.Contains(err.Error(), "4 GPUs") {
		t.Errorf("error %v: one that names the model and its 4 GPUs expected", err)
	}
}

// A world written as YAML reads back as the same world, so that configurations can carry it.
func TestWorldSurvivesYAML(t *testing.T) {
	text, err := yaml.Marshal(DemoWorld())
	if err != nil {
		t.Fatal(err)
	}
	var back World
	if err := yaml.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := yaml.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(text) {
		t.Errorf("read back as\n%s\nwritten was\n%s", again, text)
	}
	if back.Models[0].Physics != DemoWorld().Models[0].Physics || !back.Start.Equal(DemoWorld().Start) {
		t.Errorf("physics %+v, start %v", back.Models[0].Physics, back.Start)
	}
	for _, key := range []string{"start:", "requests_per_s:", "node_launch:", "median: 3m44s", "scale_up_tolerance:", "gpus: 4"} {
		if !strings.Contains(string(text), key) {
			t.Errorf("the YAML lacks %q:\n%s", key, text)
		}
	}
}

// The day's shape is that of the series it cites, where the data is at hand.
func TestOfficeDayMatchesItsSource(t *testing.T) {
	hours, sums := make([]float64, 24), make([]float64, 24)
	readSeries(t, "crane_00_1min.csv", func(at time.Time, v float64) {
		if local := at.Add(8 * time.Hour); !isWeekend(at.Weekday()) {
			sums[local.Hour()] += v
			hours[local.Hour()]++
		}
	})
	var all, count, office float64
	for h := range 24 {
		all, count, office = all+sums[h], count+hours[h], office+OfficeDay()[h]/24
	}
	for h, fitted := range OfficeDay() {
		measured := sums[h] / hours[h] / (all / count)
		if d := fitted/office - measured; d > 0.03 || d < -0.03 {
			t.Errorf("hour %d: fitted %.3f of the mean, measured %.3f", h, fitted/office, measured)
		}
	}
}
