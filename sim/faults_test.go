package sim

import (
	"context"
	"strings"
	"testing"
	"time"
)

// faultScenario is the demo's Monday under a policy that orders everything at 09:13, so that whatever a fault delays can
// be seen.
func faultScenario(faults ...Fault) Scenario {
	s := DefaultScenario()
	s.Name, s.World, s.Duration, s.History, s.Faults = "faults", DemoWorld(), 55*time.Minute, 24*time.Hour, faults
	s.Policies = []string{"fixed:8"}
	return s
}

// orderAt wants few replicas of everything until an instant and n from then on.
type orderAt struct {
	at     time.Time
	few, n float64
}

func (o orderAt) tick(_ context.Context, c *Cluster, s sight) error {
	n := o.few
	if !c.Now().Before(o.at) {
		n = o.n
	}
	for i, m := range c.models {
		m.triggers = []metric{{value: n, target: 1, err: s.models[i].blind}}
	}
	return nil
}

func replayFaults(t *testing.T, faults ...Fault) Score {
	t.Helper()
	s := faultScenario(faults...)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	x, err := replayOnce(context.Background(), s, PolicySpec{Name: "order"}, func(*Cluster) (policy, error) {
		return orderAt{s.World.Start.Add(8 * time.Minute), 3, 8}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// minutesUntil is the first minute with at least n replicas ready; it fails the test when there is none, so that a fault
// cannot pass for lack of evidence.
func minutesUntil(t *testing.T, x Score, n int) int {
	t.Helper()
	for i, m := range x.Timeline {
		if m.Ready >= n {
			return i
		}
	}
	t.Fatalf("never %d replicas ready", n)
	return 0
}

// Each fault does to the fleet what it does to a real one, measured against the same Monday without it.
func TestFaultsBite(t *testing.T) {
	const most = 13 // of both models by the end of the quiet Monday
	quiet := replayFaults(t)
	usual := minutesUntil(t, quiet, most)
	for _, test := range []struct {
		name         string
		fault        Fault
		laterAtLeast int // minutes
		lost         bool
	}{
		{"no stock keeps replicas pending until it is over", Fault{After: 5 * time.Minute, For: 20 * time.Minute, NoStock: "h100"}, 10, false},
		{"a slow registry makes starts on new nodes late", Fault{After: 5 * time.Minute, For: 20 * time.Minute, SlowRegistry: 3}, 7, false},
		{"without metrics nobody orders", Fault{After: 7 * time.Minute, MetricsGap: 10 * time.Minute}, 8, false},
		{"without KEDA's source nothing changes", Fault{After: 7 * time.Minute, ScalerOutage: 10 * time.Minute}, 8, false},
		{"without the API server nothing changes", Fault{After: 7 * time.Minute, APIOutage: 10 * time.Minute}, 8, false},
		{"a node that dies takes its requests along", Fault{After: 15 * time.Minute, FailNode: "h100-a"}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := replayFaults(t, test.fault)
			if late := minutesUntil(t, x, most) - usual; late < test.laterAtLeast {
				t.Errorf("%d replicas are ready %d minutes later than without the fault, want at least %d", most, late, test.laterAtLeast)
			}
			if got := x.Lost > 0; got != test.lost {
				t.Errorf("%d requests lost, want some: %v", x.Lost, test.lost)
			}
		})
	}
}

// A spot node that goes with notice loses no request that can end within it; the same node without notice does.
func TestSpotNoticeSavesRequests(t *testing.T) {
	gone := replayFaults(t, Fault{After: 15 * time.Minute, FailNode: "h100-a"})
	noticed := replayFaults(t, Fault{After: 15 * time.Minute, For: 2 * time.Minute, ReclaimNode: "h100-a"})
	if gone.Lost == 0 || noticed.Lost != 0 {
		t.Errorf("%d requests lost without notice, %d with it", gone.Lost, noticed.Lost)
	}
	if noticed.GPUHours.Draining == 0 {
		t.Error("nobody drained")
	}
}

// Every mistake in a fault is found at once.
func TestFaultsAreChecked(t *testing.T) {
	err := faultScenario(Fault{}, Fault{FailNode: "x"}, Fault{NoStock: "h100"}, Fault{For: time.Minute, MetricsGap: time.Minute},
		Fault{For: time.Minute, NoStock: "y"}, Fault{After: 48 * time.Hour, APIOutage: time.Minute}).Validate()
	if err == nil {
		t.Fatal("all is well")
	}
	for _, want := range []string{"faults[0].0 of", `faults[1].fail_node is "x"`, "faults[2].for is 0s beside no_stock",
		"faults[3].for is 1m0s beside metrics_gap", `faults[4].no_stock is "y"`, "faults[5].after is 48h"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in:\n%v", want, err)
		}
	}
}
