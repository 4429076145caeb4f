package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// The generators of the property tests draw States as a live loop makes them: every fact may be missing, times are in
// zones with and without daylight saving, counts are small enough to check by brute force.

var testZones = []*time.Location{time.UTC, time.FixedZone("", 5*3600+1800), mustZone("Europe/Berlin"), mustZone("America/New_York")}

func mustZone(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

func genTime(t *rapid.T) time.Time {
	// Around the change to summer time in Berlin (29 March 2026, 01:00 UTC), with sub-second parts.
	base := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	at := base.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "at")))
	return at.In(rapid.SampledFrom(testZones).Draw(t, "zone"))
}

func genRate(t *rapid.T, label string, most float64) float64 {
	return rapid.Float64Range(0, most).Draw(t, label)
}

// genForecast draws joint paths of up to eight replicas' worth each kind.
func genForecast(t *rapid.T, now time.Time) *Forecast {
	paths, steps := rapid.IntRange(1, 6).Draw(t, "paths"), rapid.IntRange(1, 12).Draw(t, "steps")
	start := now.Add(-time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "forecastAge")))
	f := &Forecast{
		Prompt:     forecast.Ensemble{Start: start.UTC().Round(0), Step: time.Minute},
		Completion: forecast.Ensemble{Start: start.UTC().Round(0), Step: time.Minute},
		Method:     "drawn", MayShrink: rapid.Bool().Draw(t, "mayShrink"), Authority: "drawn",
	}
	for range paths {
		p, c := make([]float64, steps), make([]float64, steps)
		for k := range p {
			p[k], c[k] = genRate(t, "prompt", 40_000), genRate(t, "completion", 4_000)
		}
		f.Prompt.Paths, f.Completion.Paths = append(f.Prompt.Paths, p), append(f.Completion.Paths, c)
	}
	return f
}

func genLeadTimes(t *rapid.T) []coldstart.LeadTime {
	var out []coldstart.LeadTime
	for _, path := range []coldstart.Path{coldstart.ColdNode, coldstart.WarmNode, coldstart.CachedWeights} {
		if rapid.Bool().Draw(t, "known") {
			out = append(out, genLeadTime(t, path))
		}
	}
	return out
}

func genLeadTime(t *rapid.T, path coldstart.Path) coldstart.LeadTime {
	var times []time.Duration
	at := time.Duration(0)
	for range rapid.IntRange(1, 4).Draw(t, "starts") {
		at += time.Duration(rapid.Int64Range(1, int64(3*time.Minute)).Draw(t, "longer"))
		times = append(times, at)
	}
	lt := measured(path, times...)
	lt.FailureProb = rapid.SampledFrom([]float64{0, 0, 0.02, 0.5}).Draw(t, "fail")
	if rapid.Bool().Draw(t, "tail") {
		lt.CDF[len(lt.CDF)-1], lt.Tail = 1-1/float64(2*len(lt.CDF)), time.Minute
	}
	return lt
}

func genReplicas(t *rapid.T, now time.Time) *Replicas {
	r := &Replicas{Ready: rapid.IntRange(0, 6).Draw(t, "ready"), Leaving: rapid.IntRange(0, 2).Draw(t, "leaving")}
	for i := range rapid.IntRange(0, 4).Draw(t, "starting") {
		age := time.Duration(rapid.Int64Range(-int64(time.Second), int64(20*time.Minute)).Draw(t, "age"))
		r.Starting = append(r.Starting, StartingReplica{ID: fmt.Sprint("pod-", i), Since: now.Add(-age),
			Path: rapid.SampledFrom([]coldstart.Path{coldstart.PathUnknown, coldstart.ColdNode, coldstart.WarmNode}).Draw(t, "path")})
		r.Starting[i].Pending = rapid.Bool().Draw(t, "pending")
	}
	if rapid.Bool().Draw(t, "rollout") {
		surge, desired := rapid.IntRange(0, 2).Draw(t, "surge"), r.Ready+len(r.Starting)
		r.MaxSurge, r.Desired = &surge, &desired
	}
	return r
}

func genModel(t *rapid.T, name string, now time.Time) ModelState {
	maybe := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) > 0 }
	m := ModelState{Name: name, LeadTimes: genLeadTimes(t), Shape: genShape(t)}
	if maybe("load") {
		m.Load = &ObservedLoad{
			Load:       Load{Prompt: TokenRate(genRate(t, "loadPrompt", 40_000)), Completion: TokenRate(genRate(t, "loadCompletion", 4_000))},
			At:         now.Add(-time.Duration(rapid.Int64Range(0, int64(4*time.Minute)).Draw(t, "loadAge"))),
			LowerBound: rapid.Bool().Draw(t, "lowerBound"),
		}
	}
	if maybe("forecast") {
		m.Forecast = genForecast(t, now)
		if rapid.Bool().Draw(t, "covered") {
			m.Forecast.Coverage = genCoverage(t)
		}
	}
	if maybe("replicas") {
		m.Replicas = genReplicas(t, now)
	}
	if maybe("profile") {
		m.Profile = genProfile(t)
	}
	if rapid.Bool().Draw(t, "observed") {
		m.Requests = &RequestMix{Prompt: Tokens(rapid.Float64Range(1, 8000).Draw(t, "meanPrompt")),
			Completion: Tokens(rapid.Float64Range(1, 1000).Draw(t, "meanCompletion"))}
	}
	if maybe("waiting") {
		waiting := float64(rapid.IntRange(0, 30).Draw(t, "queue"))
		m.Signals.Waiting = &waiting
		if rapid.Bool().Draw(t, "backlog") {
			m.Signals.Backlog = &Backlog{Prompt: Tokens(waiting * 1000), Completion: Tokens(waiting * 100)}
		}
	}
	if rapid.Bool().Draw(t, "actuator") {
		m.Actuator = &Actuator{ScaleUpTolerance: 0.1, Paused: rapid.Bool().Draw(t, "paused")}
	}
	return m
}

// genProfile draws one of the three forms, each of about the same size.
func genProfile(t *rapid.T) *Profile {
	mix := RequestMix{Prompt: 1000, Completion: 200}
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		p := benchPhysics()
		p.PrefixHit = nil
		return &Profile{Physics: p, Source: "drawn"}
	case 1:
		return &Profile{Table: &RateTable{Prompts: []Tokens{500, 2000}, Completions: []Tokens{100, 400},
			PerSecond: [][]RequestRate{{12, 4}, {6, 3}}, Requests: mix}, Source: "drawn"}
	}
	return &Profile{Prompt: 10_000, Completion: 1_000, Source: "drawn"}
}

func genShape(t *rapid.T) Shape {
	return rapid.SampledFrom([]Shape{{GPUs: 1, Pods: 1}, {GPUs: 2, Pods: 1}, {GPUs: 4, Pods: 1, Product: "H200"}, {GPUs: 2, Pods: 2},
		{GPUs: 4, Pods: 2, Topology: "nvlink-domain"}, {GPUs: 2, Pods: 2, Topology: topologyNode}}).Draw(t, "shape")
}

func genInventory(t *rapid.T) *Inventory {
	if rapid.IntRange(0, 3).Draw(t, "hardware") == 0 {
		return nil
	}
	inv := &Inventory{}
	for i := range rapid.IntRange(0, 2).Draw(t, "pools") {
		p := Pool{Name: fmt.Sprint("pool-", i), Product: rapid.SampledFrom([]string{"H200", "L40S"}).Draw(t, "product"),
			GPUsPerNode: rapid.IntRange(0, 8).Draw(t, "gpus"), NoStock: rapid.Bool().Draw(t, "noStock")}
		if rapid.Bool().Draw(t, "limited") {
			n := rapid.IntRange(0, 3).Draw(t, "launchable")
			p.Launchable = &n
		}
		genGrowth(t, &p)
		for j := range rapid.IntRange(0, 5).Draw(t, "nodes") {
			p.Nodes = append(p.Nodes, Node{Name: fmt.Sprint("node-", j), GPUs: 8, FreeGPUs: rapid.IntRange(0, 8).Draw(t, "free"),
				Domain: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "domain"), Usable: rapid.IntRange(0, 4).Draw(t, "usable") > 0})
			genNode(t, &p.Nodes[j])
		}
		inv.Pools = append(inv.Pools, p)
	}
	return inv
}

func genPolicy(t *rapid.T, models ...string) Policy {
	p := Policy{Seed: rapid.Uint64().Draw(t, "seed"), Defaults: DefaultModelPolicy(), Models: map[string]ModelPolicy{}}
	for _, name := range models {
		m := DefaultModelPolicy()
		m.Authority = rapid.SampledFrom([]Authority{Observe, Advise, Act}).Draw(t, "authority")
		m.ReplicasMin = rapid.IntRange(0, 2).Draw(t, "min")
		m.ReplicasMax = rapid.SampledFrom([]int{0, 0, 3, 9}).Draw(t, "max")
		m.ServiceLevel = rapid.SampledFrom([]float64{0.5, 0.9, 0.95, 0.99}).Draw(t, "level")
		m.ScaleDownWindow = rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Minute}).Draw(t, "window")
		p.Models[name] = m
	}
	return p
}

// genMemory draws the memory of earlier Decisions: on time, after a break, or none.
func genMemory(t *rapid.T, now time.Time, models ...string) Memory {
	if rapid.IntRange(0, 4).Draw(t, "remembered") == 0 {
		return Memory{}
	}
	at := now.Add(-rapid.SampledFrom([]time.Duration{15 * time.Second, 40 * time.Second, 10 * time.Minute, -time.Minute}).Draw(t, "since"))
	m := Memory{At: at, Unbroken: at.Add(-time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "unbroken")))}
	for _, name := range models {
		mm := ModelMemory{Name: name, Replicas: rapid.IntRange(0, 8).Draw(t, "last")}
		for i := range rapid.IntRange(0, 4).Draw(t, "wishes") {
			c := Count{At: at.Add(-time.Duration(i) * time.Minute), Replicas: rapid.IntRange(0, 8).Draw(t, "wish")}
			mm.Wanted = pushMax(mm.Wanted, c, time.Time{})
			mm.Needed = pushMax(mm.Needed, c, time.Time{})
		}
		mm.Buffer = rapid.IntRange(0, 2).Draw(t, "buffer")
		m.Models = append(m.Models, mm)
	}
	if rapid.Bool().Draw(t, "short") {
		m.Stock = []StockMemory{{Pool: "pool-0", Failures: rapid.IntRange(1, 9).Draw(t, "failures"), Last: at}}
	}
	return m
}

// genState draws a State and a Policy for it.
func genState(t *rapid.T) (State, Policy) {
	names := []string{"chat", "code", "embed"}[:rapid.IntRange(1, 3).Draw(t, "models")]
	now := genTime(t)
	s := State{Now: now, Interval: 15 * time.Second, Inventory: genInventory(t), Memory: genMemory(t, now, names...)}
	for _, name := range names {
		s.Models = append(s.Models, genModel(t, name, now))
		if rapid.IntRange(0, 4).Draw(t, "gap") == 0 {
			s.Gaps = append(s.Gaps, Gap{Model: name, Fact: "waiting", Since: now, Detail: "no series"})
		}
	}
	p := genPolicy(t, names...)
	if rapid.Bool().Draw(t, "quota") {
		s.Quotas = []Quota{{Queue: "serving", Flavor: "h200", Nominal: 8, Used: rapid.IntRange(0, 16).Draw(t, "used"), Cohort: "all",
			Models: names[:rapid.IntRange(0, len(names)).Draw(t, "queued")], Waiting: rapid.IntRange(0, 4).Draw(t, "queueing")},
			{Queue: "batch", Flavor: "h200", Nominal: 8, Used: rapid.IntRange(0, 8).Draw(t, "batch"), Cohort: "all"}}
		p.Quota = &QuotaPolicy{Authority: Act, DrainTime: 5 * time.Minute, Donors: map[string]int{"batch": 2}}
	}
	p.Pools = rapid.SampledFrom([]Authority{"", Act}).Draw(t, "setsNodes")
	return s, p
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustDecide(t fataler, s State, p Policy) Decision {
	t.Helper()
	d, err := Decide(s, p)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

func mustJSON(t fataler, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return data
}

// copyState is a deep copy by way of JSON.
func copyState(t fataler, s State) State {
	t.Helper()
	out, err := ReadState(bytes.NewReader(mustJSON(t, s)))
	if err != nil {
		t.Fatalf("reading a state back: %v", err)
	}
	return out
}

// genGrowth draws what decides how far a pool may grow.
func genGrowth(t *rapid.T, p *Pool) {
	if rapid.Bool().Draw(t, "simple") {
		return
	}
	p.Launching = rapid.IntRange(0, 2).Draw(t, "launching")
	p.Group = rapid.SampledFrom([]string{"", "shared"}).Draw(t, "group")
	p.Spot, p.Static = rapid.Bool().Draw(t, "spot"), rapid.Bool().Draw(t, "static")
	if rapid.Bool().Draw(t, "bounded") {
		most := rapid.IntRange(0, 6).Draw(t, "nodesMax")
		p.NodesMax = &most
	}
	if rapid.Bool().Draw(t, "offers") {
		p.Offers = []Offer{{"p5", "a"}, {"p5", "b"}}
		p.Failures = []LaunchFailure{{Offer: p.Offers[0], At: monday}, {At: monday.Add(time.Hour)}}
	}
	if rapid.Bool().Draw(t, "reserved") {
		p.Reservations = []Reservation{{Name: "r", Nodes: 2, Used: rapid.IntRange(0, 2).Draw(t, "reservedUsed"), Start: monday}}
	}
}

// genNode draws whom a node is for and what else it has.
func genNode(t *rapid.T, n *Node) {
	if rapid.Bool().Draw(t, "plain") {
		return
	}
	n.Launching = !n.Usable && rapid.Bool().Draw(t, "comes")
	if rapid.Bool().Draw(t, "kept") {
		n.OnlyFor = []string{"code"}
	}
	if rapid.Bool().Draw(t, "pods") {
		pods := rapid.IntRange(0, 3).Draw(t, "freePods")
		n.FreePods = &pods
	}
}
