package sim

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
)

// queueScenario is one model on so many single-server replicas: an iteration serves one request whole, so that a replica
// is a server with the service time 1 ms + 0.1 ms a prompt token.
func queueScenario(servers int, requests planner.RequestRate, prompt Component) Scenario {
	s := DefaultScenario()
	s.Name, s.ScrapeLag, s.Policies = "queue", 0, []string{"fixed:1"}
	s.Duration = time.Duration(300_000 / float64(requests) * float64(time.Second)) // that many requests
	s.World.Start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	s.World.Models = []Model{{
		Name: "queue", Shape: planner.Shape{GPUs: 1, Pods: 1},
		Engine: &planner.Physics{Iteration: 1, Prefill: 0.1, KVTokens: 1 << 20, MaxSequences: 1, MaxBatchedTokens: 1 << 19,
			Requests: planner.RequestMix{Prompt: 100, Completion: 1}},
		Workload: Workload{Requests: requests, ArrivalCV: 1, Prompt: Lengths{Max: 100_000, Components: []Component{prompt}},
			Completion: Lengths{Max: 1, Components: []Component{{Weight: 1, Median: 1}}}},
		Outstanding: 1, // one queue in front of all
		Replicas:    servers, ReplicasMin: servers, ReplicasMax: servers,
		QueueMax: 1_000_000, Patience: time.Hour, SLO: SLO{TTFT: time.Second, ITL: time.Second},
	}}
	s.World.Pools = []Pool{{Name: "p", NodesMax: 1, Nodes: []Node{{Name: "n", GPUs: servers}}}}
	return s
}

// meanSojourn is the mean time that requests spent in a replay, in seconds.
func meanSojourn(t *testing.T, s Scenario) float64 {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	var c *Cluster
	spec := PolicySpec{Name: "fixed", N: s.World.Models[0].Replicas}
	if _, err := replayOnce(context.Background(), s, spec, func(x *Cluster) (policy, error) {
		c = x
		return fixed(spec.N), nil
	}); err != nil {
		t.Fatal(err)
	}
	m := c.models[0]
	if m.tally.arrived < 100_000 {
		t.Fatalf("%d requests are too few to tell", m.tally.arrived)
	}
	return m.area / 1e9 / float64(m.tally.arrived)
}

// A replica that serves one request at a time is the queue of the textbook. M/D/1 and M/G/1: the mean wait is
// λE[S²]/2(1−ρ) (Pollaczek and Khinchine); M/D/c by Cosmetatos' approximation (1975), which is good to 1 % at these loads.
func TestReplicasAreQueues(t *testing.T) {
	for _, test := range []struct {
		name    string
		servers int
		lambda  float64
		prompt  Component
		wait    func(lambda, s, s2 float64) float64
	}{
		{"M/D/1 at 0.5", 1, 45.45, Component{1, 100, 0}, pollaczekKhinchine},
		{"M/D/1 at 0.8", 1, 72.73, Component{1, 100, 0}, pollaczekKhinchine},
		{"M/G/1 at 0.7", 1, 40, Component{1, 100, 0.8}, nil}, // moments are those of the lengths
		{"M/D/4 at 0.8", 4, 290.9, Component{1, 100, 0}, cosmetatos(4)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := queueScenario(test.servers, planner.RequestRate(test.lambda), test.prompt)
			mean, sd := s.World.Models[0].Workload.Prompt.Moments()
			service := 1e-3 + 1e-4*mean
			second := service*service + 1e-8*sd*sd
			wait := pollaczekKhinchine
			if test.wait != nil {
				wait = test.wait
			}
			want := service + wait(test.lambda, service, second)
			if got := meanSojourn(t, s); math.Abs(got/want-1) > 0.03 {
				t.Errorf("mean time inside %.5f s, theory says %.5f s", got, want)
			}
		})
	}
}

func pollaczekKhinchine(lambda, s, s2 float64) float64 { return lambda * s2 / 2 / (1 - lambda*s) }

// cosmetatos is the mean wait of M/D/c from that of M/M/c (Erlang C).
func cosmetatos(c float64) func(lambda, s, s2 float64) float64 {
	return func(lambda, s, _ float64) float64 {
		rho := lambda * s / c
		sum, term := 0.0, 1.0
		for k := 0.0; k < c; k++ {
			sum += term
			term *= lambda * s / (k + 1)
		}
		tail := term / (1 - rho)
		mmc := tail / (sum + tail) * s / (c * (1 - rho))
		return mmc / 2 * (1 + (1-rho)*(c-1)*(math.Sqrt(4+5*c)-2)/(16*rho*c))
	}
}

// One queue in front of four servers waits less than four queues: the routers differ as they should.
func TestRoutersDiffer(t *testing.T) {
	inside := map[string]float64{}
	for _, kind := range []string{leastOutstanding, randomTwo, roundRobin, prefixAffine} {
		s := queueScenario(4, 290, Component{1, 100, 0})
		s.World.Models[0].Outstanding, s.World.Models[0].Router = 0, kind
		inside[kind] = meanSojourn(t, s)
	}
	if !(inside[leastOutstanding] < inside[randomTwo] && inside[randomTwo] < inside[prefixAffine]) {
		t.Errorf("mean times inside: %v", inside)
	}
}

// A replay whose books were cooked fails: conservation and Little's law see a request that vanishes and one whose time is
// miscounted.
func TestBooksMustBalance(t *testing.T) {
	for name, cook := range map[string]func(*model){
		"Little's law": func(m *model) { m.enter(m.areaAt, 1); m.inside += 2 },
		"arrived":      func(m *model) { m.tally.arrived++ },
	} {
		s := queueScenario(1, 30, Component{1, 100, 0})
		s.Duration = 10 * time.Minute
		_, err := replayOnce(context.Background(), s, PolicySpec{Name: "fixed", N: 1}, func(c *Cluster) (policy, error) {
			cook(c.models[0])
			return fixed(1), nil
		})
		if !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the replay ended with %v", name, err)
		}
	}
}

// Churn is 0 for a trend, k for an excursion by k, and does not depend on the level.
func TestChurn(t *testing.T) {
	for _, test := range []struct {
		counts []float64
		want   float64
	}{
		{nil, 0}, {[]float64{1, 2, 5, 9}, 0}, {[]float64{9, 4, 1}, 0}, {[]float64{1, 4, 1}, 3}, {[]float64{11, 14, 11}, 3},
		{[]float64{1, 3, 2, 5}, 1},
	} {
		if got := churn(test.counts); got != test.want {
			t.Errorf("churn(%v) = %v, want %v", test.counts, got, test.want)
		}
	}
}
