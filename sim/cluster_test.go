package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
	"forewarm/planner"
)

func mustCluster(t reporter, w World, seed uint64) *Cluster {
	t.Helper()
	c, err := NewCluster(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answer is a Decision that answers n for one model.
func answer(at time.Time, model string, n int) planner.Decision {
	return planner.Decision{At: at, Models: []planner.ModelDecision{{Name: model, Replicas: &n, Answer: &n}}}
}

// observe looks at the world and applies an answer for chat.
func observe(t reporter, c *Cluster, at time.Time, chat int) planner.Observation {
	t.Helper()
	obs, err := c.Observe(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(context.Background(), answer(at, "chat-70b", chat)); err != nil {
		t.Fatal(err)
	}
	return obs
}

// observations is the stream of half an hour of the demo under a fixed schedule of answers, as bytes.
func observations(t *testing.T, seed uint64) []byte {
	w := DemoWorld()
	c := mustCluster(t, w, seed)
	var out bytes.Buffer
	for k := range 120 {
		obs := observe(t, c, w.Start.Add(time.Duration(k)*15*time.Second), 3+k/20)
		line, err := json.Marshal(obs)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	stats, err := json.Marshal(c.Stats())
	if err != nil {
		t.Fatal(err)
	}
	out.Write(stats)
	return out.Bytes()
}

func TestTheSameSeedGivesTheSameWorld(t *testing.T) {
	first := observations(t, 7)
	if !bytes.Equal(first, observations(t, 7)) {
		t.Error("two runs of seed 7 differ")
	}
	if bytes.Equal(first, observations(t, 8)) {
		t.Error("seeds 7 and 8 give the same observations")
	}
}

// However time is cut into pieces, the same happens.
func TestAdvancingInPiecesChangesNothing(t *testing.T) {
	w := DemoWorld()
	whole, pieces := mustCluster(t, w, 3), mustCluster(t, w, 3)
	end := w.Start.Add(20 * time.Minute)
	if err := whole.Advance(end); err != nil {
		t.Fatal(err)
	}
	for at := w.Start; at.Before(end); at = at.Add(777 * time.Millisecond) {
		if err := pieces.Advance(at); err != nil {
			t.Fatal(err)
		}
	}
	if err := pieces.Advance(end); err != nil {
		t.Fatal(err)
	}
	a, b := whole.Stats(), pieces.Stats()
	for i := range a {
		// The integrals are sums of more terms; everything else is equal.
		if math.Abs(a[i].GPUHours.Serving-b[i].GPUHours.Serving) > 1e-9 {
			t.Errorf("%s: serving %v GPU-hours in one piece, %v in many", a[i].Model, a[i].GPUHours.Serving, b[i].GPUHours.Serving)
		}
		if *a[i].Attained != *b[i].Attained {
			t.Errorf("%s: attained %v in one piece, %v in many", a[i].Model, *a[i].Attained, *b[i].Attained)
		}
		a[i].Attained, b[i].Attained = nil, nil
		a[i].GPUHours, b[i].GPUHours = GPUHours{}, GPUHours{}
		if a[i] != b[i] {
			t.Errorf("in one piece %+v\nin many %+v", a[i], b[i])
		}
	}
}

// smallWorld is the demo with little traffic and quick, failing starts, so that a property sees many of them.
func smallWorld() World {
	w := DemoWorld()
	for i := range w.Models {
		m := &w.Models[i]
		m.Workload.Requests /= 4
		m.Physics.Prompt /= 6
		m.Physics.Completion /= 6
		m.Startup.FailureProb = 0.3
		m.Startup.ImagePull.Median /= 4
		m.QueueMax, m.Patience, m.DrainMax = 50, 20*time.Second, 10*time.Second
	}
	w.Pools[0].Launch.Median, w.Pools[0].Ready.Median, w.Pools[0].IdleAfter = 20*time.Second, 20*time.Second, time.Minute
	w.Autoscaler.ScaleDownWindow = 30 * time.Second
	return w
}

// Whatever is answered and whatever fails: no request is lost sight of, no GPU is given twice, all GPU-hours have a
// cause, and time does not go backwards.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := smallWorld()
		w.Autoscaler.WaitingPerReplica = rapid.SampledFrom([]float64{0, 5}).Draw(rt, "waiting per replica")
		c := mustCluster(rt, w, rapid.Uint64().Draw(rt, "seed"))
		now, hours, before := w.Start, 0.0, c.Stats()
		for range rapid.IntRange(5, 40).Draw(rt, "ticks") {
			step := time.Duration(rapid.IntRange(1, 90_000).Draw(rt, "step ms")) * time.Millisecond
			now = now.Add(step)
			switch rapid.IntRange(0, 9).Draw(rt, "fault") {
			case 0:
				nodes := c.inventory().Pools[0].Nodes
				if err := c.FailNode(nodes[rapid.IntRange(0, len(nodes)-1).Draw(rt, "node")].Name); err != nil {
					rt.Fatal(err)
				}
			case 1:
				if err := c.MetricsGap(now, now.Add(time.Minute)); err != nil {
					rt.Fatal(err)
				}
			}
			observe(rt, c, now, rapid.IntRange(0, 16).Draw(rt, "answer"))
			checkRequests(rt, before, c.Stats())
			before = c.Stats()
			checkGPUs(rt, c)
			if c.now != now.UnixNano() {
				rt.Fatalf("the world is at %v after observing at %v", c.Now(), now)
			}
			if err := c.Advance(now.Add(-time.Nanosecond)); err == nil {
				rt.Fatal("time went backwards without an error")
			}
			g := c.GPUHours()
			sum := g.Serving + g.Warm + g.Starting + g.Draining + g.Others + g.Free
			if sum < hours || g.Free < -1e-9 {
				rt.Fatalf("GPU-hours %+v after %v hours in all", g, hours)
			}
			hours = sum
		}
	})
}

func checkRequests(t *rapid.T, before, after []Stats) {
	for i, s := range after {
		if sum := s.Served + s.Waiting + s.Running + s.Rejected + s.TimedOut + s.Lost; s.Arrived != sum {
			t.Fatalf("%d requests arrived, %d are accounted for: %+v", s.Arrived, sum, s)
		}
		b := before[i]
		if s.Arrived < b.Arrived || s.Served < b.Served || s.Rejected < b.Rejected ||
			s.TimedOut < b.TimedOut || s.Lost < b.Lost {
			t.Fatalf("a counter fell: %+v, before %+v", s, b)
		}
	}
}

func checkGPUs(t *rapid.T, c *Cluster) {
	held := map[*node]int{}
	for _, m := range c.models {
		for _, r := range m.replicas {
			if (r.node == nil) != (r.state == pending) {
				t.Fatalf("replica %s in state %d on node %v", r.id, r.state, r.node)
			}
			if r.node != nil {
				held[r.node] += m.cfg.Shape.GPUs
			}
		}
	}
	for _, p := range c.pools {
		if len(p.nodes) > p.cfg.NodesMax {
			t.Fatalf("pool %s has %d nodes of at most %d", p.cfg.Name, len(p.nodes), p.cfg.NodesMax)
		}
		for _, n := range p.nodes {
			if n.used != held[n] || n.free() < 0 {
				t.Fatalf("node %s: %d GPUs in use, %d held, %d free of %d", n.name, n.used, held[n], n.free(), n.gpus)
			}
			delete(held, n)
		}
	}
	if len(held) > 0 {
		t.Fatalf("replicas hold GPUs of %d nodes that are gone", len(held))
	}
}

// Constant hardware: all GPU-hours are those of its GPUs.
func TestGPUHoursAddUp(t *testing.T) {
	w := DemoWorld()
	w.Pools[0].NodesMax = len(w.Pools[0].Nodes)
	c := mustCluster(t, w, 1)
	observe(t, c, w.Start, 4)
	if err := c.Advance(w.Start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	g := c.GPUHours()
	if sum := g.Serving + g.Warm + g.Starting + g.Draining + g.Others + g.Free; math.Abs(sum-64) > 1e-6 {
		t.Errorf("64 GPUs for an hour are %v GPU-hours: %+v", sum, g)
	}
	if math.Abs(g.Others-40) > 1e-6 {
		t.Errorf("other workloads hold 40 GPUs, %v GPU-hours are charged to them", g.Others)
	}
}

func TestStartsTakeTheirPaths(t *testing.T) {
	w := DemoWorld()
	w.Models[0].Startup.FailureProb = 0
	c := mustCluster(t, w, 2)
	got := map[coldstart.Path]time.Duration{}
	for at := w.Start; at.Before(w.Start.Add(20 * time.Minute)); at = at.Add(15 * time.Second) {
		for _, m := range observe(t, c, at, 7).Models {
			for _, s := range m.Starts {
				var sum time.Duration
				for _, d := range s.Phases {
					sum += d
				}
				if s.Outcome != coldstart.Served || sum != s.Total {
					t.Errorf("start %s: %s after %v, its phases sum to %v", s.ID, s.Outcome, s.Total, sum)
				}
				if s.Key.Model == "chat-70b" {
					got[s.Key.Path] = max(got[s.Key.Path], s.Total)
				}
			}
		}
	}
	// One replica fits into the hole beside running ones; the others need nodes.
	if d := got[coldstart.CachedWeights]; d < 50*time.Second || d > 3*time.Minute {
		t.Errorf("a start with cached weights took %v, about 90 s expected", d)
	}
	if d := got[coldstart.ColdNode]; d < 6*time.Minute || d > 20*time.Minute {
		t.Errorf("the longest start on a new node took %v, about ten minutes expected", d)
	}
}

func TestPendingReplicasWaitForRoom(t *testing.T) {
	w := DemoWorld()
	w.Pools[0].NodesMax = len(w.Pools[0].Nodes)
	c := mustCluster(t, w, 2)
	observe(t, c, w.Start, 6)
	obs := observe(t, c, w.Start.Add(time.Minute), 6)
	chat := obs.Models[0].Replicas
	if chat.Ready != 3 || len(chat.Starting) != 3 || *chat.Desired != 6 {
		t.Fatalf("replicas %+v: 3 ready and 3 starting expected", chat)
	}
	unknown := 0
	for _, s := range chat.Starting {
		if s.Path == coldstart.PathUnknown {
			unknown++
		}
	}
	if unknown != 2 {
		t.Errorf("%d starting replicas have no path yet, 2 expected: six scattered GPUs are no slot", unknown)
	}
}

func TestFailNodeLosesItsRequestsAndOrdersAnew(t *testing.T) {
	w := DemoWorld()
	c := mustCluster(t, w, 2)
	observe(t, c, w.Start.Add(time.Minute), 3)
	if err := c.FailNode("h100-a"); err != nil {
		t.Fatal(err)
	}
	obs := observe(t, c, w.Start.Add(time.Minute), 3)
	if r := obs.Models[0].Replicas; r.Ready != 1 || len(r.Starting) != 2 {
		t.Errorf("replicas %+v after losing the node of two: 1 ready and 2 starting expected", r)
	}
	if c.Stats()[0].Lost == 0 {
		t.Error("no request was lost with two busy replicas")
	}
	if err := c.FailNode("h100-a"); err == nil || !strings.Contains(err.Error(), "h100-a") {
		t.Errorf("failing it again: error %v, one that names the node expected", err)
	}
}

func TestMetricsGapIsUnknownNotZero(t *testing.T) {
	w := DemoWorld()
	c := mustCluster(t, w, 2)
	from := w.Start.Add(3 * time.Minute)
	if err := c.MetricsGap(from, from.Add(90*time.Second)); err != nil {
		t.Fatal(err)
	}
	during := observe(t, c, from.Add(30*time.Second), 3)
	for _, m := range during.Models {
		if m.Waiting != nil || m.Running != nil || m.Load.Prompt.Len() != 0 || m.Replicas == nil {
			t.Errorf("%s during the gap: %+v: metrics unknown and replicas known expected", m.Name, m)
		}
		if !slices.ContainsFunc(during.Gaps, func(g planner.Gap) bool {
			return g.Model == m.Name && g.Fact == "load" && g.Since.Equal(from)
		}) {
			t.Errorf("%s: no gap of load since %v in %v", m.Name, from, during.Gaps)
		}
	}
	after := observe(t, c, from.Add(5*time.Minute), 3)
	load := after.Models[0].Load.Prompt
	for i, v := range load.Values {
		in := load.TimeAt(i).Before(from.Add(90*time.Second)) && load.TimeAt(i).Add(load.Step).After(from)
		if math.IsNaN(v) != in {
			t.Errorf("step at %s is %v: missing exactly inside the gap expected", load.TimeAt(i).Format("15:04"), v)
		}
	}
	if len(after.Gaps) > 0 {
		t.Errorf("after the gap: %v", after.Gaps)
	}
}

// Starts of the past look like those to come: complete, before the world, some of them failed.
func TestPastStartsAreStarts(t *testing.T) {
	w := DemoWorld()
	c := mustCluster(t, w, 6)
	past := c.PastStarts(200, DemoHistory)
	if want := 2 * 3 * 200; len(past) != want {
		t.Fatalf("%d starts, %d expected", len(past), want)
	}
	failed, ids := 0, map[string]bool{}
	for _, s := range past {
		if end := s.Started.Add(s.Total); end.After(w.Start) || s.Started.Before(w.Start.Add(-DemoHistory)) || ids[s.ID] {
			t.Fatalf("start %+v", s)
		}
		ids[s.ID] = true
		if s.Outcome == coldstart.Failed {
			failed++
			continue
		}
		var sum time.Duration
		for _, d := range s.Phases {
			sum += d
		}
		if sum != s.Total || (s.Phases[coldstart.NodeLaunch] > 0) != (s.Key.Path == coldstart.ColdNode) {
			t.Errorf("start %+v: its phases do not make it", s)
		}
	}
	if share := float64(failed) / float64(len(past)); share < 0.01 || share > 0.035 {
		t.Errorf("%.3f of the starts failed, 0.02 was asked for", share)
	}
}

// What History says of the past is what Observe said when it was the present, and what arrived.
func TestHistoryAgreesWithObserveAndArrivals(t *testing.T) {
	w := DemoWorld()
	c := mustCluster(t, w, 4)
	end := w.Start.Add(10 * time.Minute)
	obs := observe(t, c, end, 3)
	for i, m := range obs.Models {
		h, err := c.History(context.Background(), m.Name, w.Start, end)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(h.Prompt.Values, m.Load.Prompt.Values) || !h.Prompt.Start.Equal(m.Load.Prompt.Start) {
			t.Errorf("%s: history %v, observed %v", m.Name, h.Prompt.Values, m.Load.Prompt.Values)
		}
		var requests float64
		for _, v := range h.Requests.Values {
			requests += v * 60
		}
		if got := float64(c.Stats()[i].Arrived); math.Abs(got-requests) > 1e-6 {
			t.Errorf("%s: %v requests arrived, the history has %v", m.Name, got, requests)
		}
	}
	if _, err := c.History(context.Background(), "chat-70b", w.Start, end.Add(time.Minute)); err == nil {
		t.Error("the history of the future has no error")
	}
	if _, err := c.History(context.Background(), "chat-7b", w.Start, end); err == nil {
		t.Error("the history of an unknown model has no error")
	}
}

func TestStaleAnswersHold(t *testing.T) {
	w := DemoWorld()
	w.Autoscaler.ScaleDownWindow = 0
	c := mustCluster(t, w, 4)
	observe(t, c, w.Start, 2)
	stale := w.Start.Add(w.Autoscaler.AnswerAgeMax + time.Minute)
	if err := c.Apply(context.Background(), answer(w.Start.Add(-6*time.Minute), "chat-70b", 2)); err != nil {
		t.Fatal(err)
	}
	if r := observe(t, c, stale, 2).Models[0].Replicas; *r.Desired != 3 {
		t.Errorf("an answer older than %v moved the count to %d", w.Autoscaler.AnswerAgeMax, *r.Desired)
	}
	if r := observe(t, c, stale.Add(time.Minute), 2).Models[0].Replicas; *r.Desired != 2 {
		t.Errorf("a fresh answer of 2 left the count at %d", *r.Desired)
	}
}

func TestApplyReportsWrongEntriesAndRecordsTheOthers(t *testing.T) {
	w := DemoWorld()
	c := mustCluster(t, w, 4)
	minus, five := -1, 5
	err := c.Apply(context.Background(), planner.Decision{At: w.Start, Models: []planner.ModelDecision{
		{Name: "chat-70b", Answer: &five}, {Name: "code-8b", Answer: &minus}, {Name: "nobody", Answer: &five}}})
	for _, part := range []string{"code-8b", "-1", "nobody"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
	if r := observe(t, c, w.Start.Add(time.Minute), 5).Models[0].Replicas; *r.Desired != 5 {
		t.Errorf("the right entry was not recorded: desired is %d", *r.Desired)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Observe(ctx, w.Start.Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("observing with a cancelled context: %v", err)
	}
}
