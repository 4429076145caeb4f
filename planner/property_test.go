package planner

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// TestDecideIsPure: the same State and Policy give the same Decision byte for byte, the State is not changed, and a State
// that went through JSON (zones, daylight saving and nanoseconds included) gives the same bytes again.
func TestDecideIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		before := mustJSON(t, s)
		first := mustJSON(t, mustDecide(t, s, p))
		if second := mustJSON(t, mustDecide(t, s, p)); !bytes.Equal(first, second) {
			t.Fatalf("two calls differ:\n%s\n%s", first, second)
		}
		if after := mustJSON(t, s); !bytes.Equal(before, after) {
			t.Fatalf("Decide changed the State:\n%s\n%s", before, after)
		}
		if replayed := mustJSON(t, mustDecide(t, copyState(t, s), p)); !bytes.Equal(first, replayed) {
			t.Fatalf("a recorded State decides differently:\n%s\n%s", first, replayed)
		}
	})
}

// TestOrderOfHardware: the order in which pools and nodes are listed changes nothing.
func TestOrderOfHardware(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		want := mustJSON(t, mustDecide(t, s, p))
		if s.Inventory == nil {
			return
		}
		s = copyState(t, s)
		s.Inventory.Pools = rapid.Permutation(s.Inventory.Pools).Draw(t, "pools")
		for i := range s.Inventory.Pools {
			s.Inventory.Pools[i].Nodes = rapid.Permutation(s.Inventory.Pools[i].Nodes).Draw(t, "nodes")
		}
		if got := mustJSON(t, mustDecide(t, s, p)); !bytes.Equal(want, got) {
			t.Fatalf("order matters:\n%s\n%s", want, got)
		}
	})
}

// TestMoreDemand: a model whose load and every path are at least as high never gets fewer replicas, other facts equal.
func TestMoreDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		low := mustDecide(t, s, p).Models[0].Replicas
		more := copyState(t, s)
		m := &more.Models[0]
		up := func(v float64) float64 { return v * rapid.SampledFrom([]float64{1, 1, 1.1, 3}).Draw(t, "up") }
		if m.Load != nil {
			m.Load.Prompt, m.Load.Completion = TokenRate(up(float64(m.Load.Prompt))), TokenRate(up(float64(m.Load.Completion)))
		}
		if m.Forecast != nil {
			for i := range m.Forecast.Prompt.Paths {
				for k := range m.Forecast.Prompt.Paths[i] {
					m.Forecast.Prompt.Paths[i][k] = up(m.Forecast.Prompt.Paths[i][k])
					m.Forecast.Completion.Paths[i][k] = up(m.Forecast.Completion.Paths[i][k])
				}
			}
		}
		if m.Signals.Waiting != nil {
			*m.Signals.Waiting = up(*m.Signals.Waiting)
		}
		high := mustDecide(t, more, p).Models[0].Replicas
		if (low == nil) != (high == nil) || low != nil && *high < *low {
			t.Fatalf("more demand plans %s, less demand %s", countText(high), countText(low))
		}
	})
}

// TestLongerLeadTime: on paths that only rise, a lead time that is longer never lowers what is raised to.
func TestLongerLeadTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := genTime(t)
		m := ModelState{Name: "chat", Shape: Shape{GPUs: 1, Pods: 1}, Profile: &Profile{Prompt: 10_000, Completion: 1_000},
			Forecast: genForecast(t, now), Replicas: &Replicas{}}
		for i := range m.Forecast.Prompt.Paths {
			slices.Sort(m.Forecast.Prompt.Paths[i])
			slices.Sort(m.Forecast.Completion.Paths[i])
		}
		shorter := time.Duration(rapid.Int64Range(1, int64(15*time.Minute)).Draw(t, "shorter"))
		longer := shorter + time.Duration(rapid.Int64Range(0, int64(15*time.Minute)).Draw(t, "by"))
		raised := func(lead time.Duration) int {
			m.LeadTimes = []coldstart.LeadTime{measured(coldstart.WarmNode, lead)}
			s := State{Now: now, Interval: 15 * time.Second, Models: []ModelState{m}}
			d := mustDecide(t, s, Policy{Defaults: DefaultModelPolicy()})
			return *d.Models[0].Replicas
		}
		if a, b := raised(shorter), raised(longer); b < a {
			t.Fatalf("lead time %v raises to %d, %v to %d", shorter, a, longer, b)
		}
	})
}

// TestMissingFact: taking away any one of the load, the replicas, the forecast, the profile or the queue length (with
// the Gap that says so) never lowers a plan below min(the plan with the fact, the last plan), where what runs stands in
// for a last plan that is not remembered. There is no number only when neither what runs nor a last plan is known.
// Taking away the lead times lowers it by at most the one replica that replaces late starts, since unknown starts count
// as there.
func TestMissingFact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		with := mustDecide(t, s, p).Models[0].Replicas
		if with == nil {
			return
		}
		last, known := lastPlan(s)
		without, slack := copyState(t, s), 0
		m := &without.Models[0]
		switch rapid.SampledFrom([]string{"load", "replicas", "forecast", "profile", "waiting", "lead"}).Draw(t, "fact") {
		case "load":
			m.Load = nil
		case "replicas":
			m.Replicas = nil
			last, known = lastPlan(without)
		case "forecast":
			m.Forecast = nil
		case "profile":
			m.Profile = nil
		case "waiting":
			m.Signals.Waiting, m.Signals.Backlog = nil, nil
			without.Gaps = append(without.Gaps, Gap{Model: m.Name, Fact: "waiting", Since: s.Now})
		case "lead":
			m.LeadTimes, slack = nil, 1
		}
		got := mustDecide(t, without, p).Models[0].Replicas
		if got == nil {
			if known {
				t.Fatalf("no number although the last plan %d is known", last)
			}
			return
		}
		if *got < min(*with, last)-slack {
			t.Fatalf("plan %d without the fact, %d with it, last plan %d", *got, *with, last)
		}
	})
}

// lastPlan is what a hold of the first model goes back to.
func lastPlan(s State) (replicas int, known bool) {
	for _, mm := range s.Memory.Models {
		if mm.Name == s.Models[0].Name {
			return mm.Replicas, true
		}
	}
	if r := s.Models[0].Replicas; r != nil {
		return r.Ready + len(r.Starting), true
	}
	return 0, false
}

// TestFloorAndLimits: the plan is within the limits, and not below the reactive floor unless replicas_max is.
func TestFloorAndLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, p := genState(t)
		d := mustDecide(t, s, p)
		for i, m := range d.Models {
			if m.Replicas == nil {
				continue
			}
			limits, n := p.For(m.Name), *m.Replicas
			if n < limits.ReplicasMin || limits.ReplicasMax > 0 && n > limits.ReplicasMax {
				t.Fatalf("%s: plan %d outside %d to %d", m.Name, n, limits.ReplicasMin, limits.ReplicasMax)
			}
			floor := dumbFloor(s.Models[i], limits)
			if limits.ReplicasMax > 0 {
				floor = min(floor, float64(limits.ReplicasMax))
			}
			if float64(n) < floor-1e-6 {
				t.Fatalf("%s: plan %d below the reactive floor %v", m.Name, n, floor)
			}
			if m.Serving+m.Warm != n || m.Serving < 0 || m.Warm < 0 {
				t.Fatalf("%s: %d serving + %d warm is not the plan %d", m.Name, m.Serving, m.Warm, n)
			}
		}
	})
}

// dumbFloor is the reactive floor as a fraction, straight from the formula; unknown parts count as nothing.
func dumbFloor(m ModelState, p ModelPolicy) float64 {
	floor := 0.0
	if m.Signals.Waiting != nil {
		floor = *m.Signals.Waiting / p.QueueThreshold
	}
	if m.Profile == nil {
		return floor
	}
	var prompt, completion float64
	if m.Load != nil {
		prompt, completion = float64(m.Load.Prompt), float64(m.Load.Completion)
	}
	if b := m.Signals.Backlog; b != nil {
		prompt += float64(b.Prompt) / p.DrainWithin.Seconds()
		completion += float64(b.Completion) / p.DrainWithin.Seconds()
	}
	// No replica of genModel has a prefix cache, so that their number does not matter.
	rates := m.Profile.sizedFor(m.Requests, p.slo(), 1)
	return math.Max(floor, prompt/float64(rates.Prompt)+completion/float64(rates.Completion))
}

// TestMemorySize: a model's memory stays within 4 KiB after wishes that fell at every tick of a day, which is what fills
// the queues, with the longest name, times and counts.
func TestMemorySize(t *testing.T) {
	mm := ModelMemory{Name: string(bytes.Repeat([]byte("m"), 253)), Replicas: replicasLimit} // Kubernetes allows no longer name
	now := monday.In(time.FixedZone("", -3600)).Add(time.Nanosecond)
	for i := range 24 * 240 {
		now = now.Add(15*time.Second + 111*time.Nanosecond)
		c := Count{now, replicasLimit - i}
		mm.Wanted = pushMax(mm.Wanted, c, now.Add(-24*time.Hour))
		mm.Needed = pushMax(mm.Needed, c, now.Add(-24*time.Hour))
	}
	if size := len(mustJSON(t, mm)); size > 4096 || size < 2048 {
		t.Errorf("%d bytes, want at most 4096 and queues that are full", size)
	}
}

// TestPushMax: the bounded queue answers the maximum since a time at least as high as a list of everything would, and
// never higher than the maximum of everything.
func TestPushMax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q, all []Count
		now, n := genTime(t), 1000
		for range 30 + rapid.IntRange(1, 80).Draw(t, "ticks") {
			now = now.Add(time.Minute)
			if n--; rapid.IntRange(0, 59).Draw(t, "jump") == 59 { // mostly falling: that fills the queue
				n += 40
			}
			c := Count{now, n}
			q, all = pushMax(q, c, now.Add(-time.Hour)), append(all, c)
			from := now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "since")) * time.Minute)
			got, ok := maxSince(q, from)
			want, most := 0, 0
			for _, e := range all {
				most = max(most, e.Replicas)
				if !e.At.Before(from) {
					want = max(want, e.Replicas)
				}
			}
			if !ok || got < want || got > most {
				t.Fatalf("maximum since %v is %d, %v, want at least %d, at most %d", from, got, ok, want, most)
			}
		}
	})
}

// TestRestart: after a break at any tick the plan never drops below what it was until a scale-down window has been
// watched again, whether Memory came back (from the last Decision) or was lost while what was planned runs.
func TestRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Defaults: DefaultModelPolicy()}
		now, memory, plan := genTime(t), Memory{}, 0
		tick := func(replicas int) {
			f := genForecast(t, now)
			s := State{Now: now, Interval: 15 * time.Second, Memory: memory, Models: []ModelState{{
				Name: "chat", Shape: Shape{GPUs: 1, Pods: 1}, Profile: &Profile{Prompt: 10_000, Completion: 1_000}, Forecast: f,
				Load: &ObservedLoad{At: now,
					Load: Load{Prompt: TokenRate(f.Prompt.Paths[0][0]), Completion: TokenRate(f.Completion.Paths[0][0])}},
				Replicas:  &Replicas{Ready: replicas},
				LeadTimes: []coldstart.LeadTime{measured(coldstart.WarmNode, time.Minute)},
			}}}
			d := mustDecide(t, s, p)
			memory, plan = d.Memory, *d.Models[0].Replicas
		}
		for range rapid.IntRange(1, 5).Draw(t, "ticks") {
			tick(plan)
			now = now.Add(15 * time.Second)
		}
		before := plan
		now = now.Add(time.Duration(rapid.Int64Range(int64(time.Minute), int64(time.Hour)).Draw(t, "pause")))
		if rapid.Bool().Draw(t, "lost") {
			memory = Memory{}
		}
		for from := now; now.Sub(from) < p.Defaults.ScaleDownWindow; now = now.Add(time.Minute) {
			tick(rapid.IntRange(before, before+1).Draw(t, "replicas"))
			if plan < before {
				t.Fatalf("%v after the restart the plan is %d, it was %d", now.Sub(from), plan, before)
			}
		}
	})
}

// TestUnobservedModel: an observation that loses a model keeps its plan in Memory, and when the model comes back, with
// less demand, its plan shrinks only after a scale-down window.
func TestUnobservedModel(t *testing.T) {
	p := Policy{Defaults: DefaultModelPolicy()}
	p.Defaults.ScaleDownWindow = 2 * time.Minute
	now, memory := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Memory{}
	tick := func(rate float64, observed bool) *ModelDecision {
		s := State{Now: now, Interval: 15 * time.Second, Memory: memory}
		if observed {
			s.Models = []ModelState{constantModel(now, rate, &Replicas{Ready: 4})}
		}
		d := mustDecide(t, s, p)
		memory, now = d.Memory, now.Add(15*time.Second)
		return d.Model("chat")
	}
	tick(40_000, true)
	for range 40 {
		if tick(0, false) != nil {
			t.Fatal("a model that the State does not have is in the Decision")
		}
	}
	for i := range 8 {
		if got := *tick(5_000, true).Replicas; got != 4 {
			t.Fatalf("tick %d after the model came back plans %d, want the old plan of 4", i, got)
		}
	}
	if got := *tick(5_000, true).Replicas; got != 1 {
		t.Errorf("plan %d after the window, want 1", got)
	}
}

// constantModel has the same load for ever.
func constantModel(now time.Time, rate float64, r *Replicas) ModelState {
	flat := func(v float64) forecast.Ensemble {
		return forecast.Ensemble{Start: now.Round(0).UTC(), Step: time.Minute, Paths: [][]float64{slices.Repeat([]float64{v}, 30)}}
	}
	return ModelState{
		Name: "chat", Shape: Shape{GPUs: 1, Pods: 1}, Profile: &Profile{Prompt: 10_000, Completion: 1_000}, Replicas: r,
		Load:      &ObservedLoad{Load: Load{Prompt: TokenRate(rate)}, At: now},
		Forecast:  &Forecast{Prompt: flat(rate), Completion: flat(0), Method: "flat", MayShrink: true},
		LeadTimes: []coldstart.LeadTime{measured(coldstart.WarmNode, 2*time.Minute, 150*time.Second, 3*time.Minute)},
	}
}
