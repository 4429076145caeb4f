package sim

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"forewarm/coldstart"
	"forewarm/planner"
)

// TestScenarios replays the files in testdata/scenarios. Each opens with prose on what it proves; times of day are the
// demo's wall clock. The commands:
//
//	world seed=N [models=a,b] [nodes-max=N] [reactive=W]   the demo world, prints what stands at the start; reactive adds
//	                                                       the sibling trigger with W waiting requests per replica
//	run policy=P until=HH:MM                               every 15 s: observe, answer for chat-70b by the policy, apply
//	    fixed:N      always N
//	    none         no answer: the trigger is in error
//	    foresight:D  replicas for the largest rate that the next D will really have
//	fail node=N · gap minutes=N                            faults, at the present
//	plot stat=ready|starting|waiting|ttft-p95 of=MODEL     one column a minute since the start
//	stats                                                  how every request and start ended
//	nodes                                                  free GPUs per node
//
// go test ./sim -rewrite writes the answers anew; commit only differences that you understand.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s *scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "world" {
				s = newScenario(t, d)
				return s.nodes()
			}
			if s == nil {
				d.Fatalf(t, "%s comes before world", d.Cmd)
			}
			switch d.Cmd {
			case "run":
				return s.run(t, d)
			case "fail":
				var node string
				d.ScanArgs(t, "node", &node)
				if err := s.c.FailNode(node); err != nil {
					return err.Error() + "\n"
				}
				return s.nodes()
			case "gap":
				var minutes int
				d.ScanArgs(t, "minutes", &minutes)
				if err := s.c.MetricsGap(s.c.Now(), s.c.Now().Add(time.Duration(minutes)*time.Minute)); err != nil {
					return err.Error() + "\n"
				}
				return "metrics are missing until " + s.clock(s.c.Now().Add(time.Duration(minutes)*time.Minute)) + "\n"
			case "plot":
				return s.plot(t, d)
			case "stats":
				return s.stats()
			case "nodes":
				return s.nodes()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// scenario is a cluster and what was seen of it minute by minute.
type scenario struct {
	c       *Cluster
	loc     *time.Location
	start   time.Time
	minutes map[string][]minuteSeen // by model
	ttft    map[string]histogram    // at the last minute
}

type minuteSeen struct {
	ready, starting, waiting float64
	ttft                     float64 // p95 in seconds of what was served in this minute, NaN when nothing was
}

func newScenario(t *testing.T, d *datadriven.TestData) *scenario {
	w := DemoWorld()
	var seed int
	d.ScanArgs(t, "seed", &seed)
	if d.HasArg("nodes-max") {
		d.ScanArgs(t, "nodes-max", &w.Pools[0].NodesMax)
	}
	if d.HasArg("reactive") {
		d.ScanArgs(t, "reactive", &w.Autoscaler.WaitingPerReplica)
	}
	loc, err := time.LoadLocation(DemoTimezone)
	if err != nil {
		t.Fatal(err)
	}
	return &scenario{c: mustCluster(t, w, uint64(seed)), loc: loc, start: w.Start,
		minutes: map[string][]minuteSeen{}, ttft: map[string]histogram{}}
}

func (s *scenario) clock(t time.Time) string { return t.In(s.loc).Format("15:04") }

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	var policy, until string
	d.ScanArgs(t, "policy", &policy)
	d.ScanArgs(t, "until", &until)
	chat := s.c.model("chat-70b")
	for now := s.c.Now(); s.clock(now) < until; {
		if n := s.answer(t, d, policy, chat, now); n >= 0 {
			if err := s.c.Apply(context.Background(), answer(now, "chat-70b", n)); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(15 * time.Second)
		if _, err := s.c.Observe(context.Background(), now); err != nil {
			t.Fatal(err)
		}
		if now.Equal(now.Truncate(time.Minute)) {
			s.see()
		}
	}
	r := chat.supply()
	return fmt.Sprintf("%s: chat-70b %d ready, %d starting, %d leaving\n", s.clock(s.c.Now()), r.Ready, len(r.Starting), r.Leaving)
}

func (s *scenario) answer(t *testing.T, d *datadriven.TestData, policy string, m *model, now time.Time) int {
	name, arg, _ := strings.Cut(policy, ":")
	switch name {
	case "none":
		return -1
	case "fixed":
		var n int
		if _, err := fmt.Sscan(arg, &n); err != nil {
			d.Fatalf(t, "policy %s: %v", policy, err)
		}
		return n
	case "foresight":
		ahead, err := time.ParseDuration(arg)
		if err != nil {
			d.Fatalf(t, "policy %s: %v", policy, err)
		}
		n := 0.0
		for at := now; !at.After(now.Add(ahead)); at = at.Add(30 * time.Second) {
			load := m.gen.(*Generator).Rate(at)
			n = max(n, float64(load.Prompt/m.cfg.Profile.Prompt)+float64(load.Completion/m.cfg.Profile.Completion))
		}
		return int(math.Ceil(n))
	}
	d.Fatalf(t, "unknown policy %s", policy)
	return 0
}

// see notes the present minute.
func (s *scenario) see() {
	for _, m := range s.c.models {
		name := m.cfg.Name
		waiting, _ := m.signals()
		supply := m.supply()
		recent := m.tally.ttft
		old := s.ttft[name]
		for i := range recent.buckets {
			recent.buckets[i] -= old.buckets[i]
		}
		recent.count -= old.count
		s.ttft[name] = m.tally.ttft
		seen := minuteSeen{ready: float64(supply.Ready), starting: float64(len(supply.Starting)),
			waiting: float64(waiting), ttft: math.NaN()}
		if recent.count > 0 {
			seen.ttft = recent.quantile(0.95).Seconds()
		}
		s.minutes[name] = append(s.minutes[name], seen)
	}
}

func (s *scenario) plot(t *testing.T, d *datadriven.TestData) string {
	var stat, of string
	d.ScanArgs(t, "stat", &stat)
	d.ScanArgs(t, "of", &of)
	pick := map[string]func(minuteSeen) float64{
		"ready":    func(m minuteSeen) float64 { return m.ready },
		"starting": func(m minuteSeen) float64 { return m.starting },
		"waiting":  func(m minuteSeen) float64 { return m.waiting },
		"ttft-p95": func(m minuteSeen) float64 { return m.ttft },
	}[stat]
	if pick == nil || len(s.minutes[of]) == 0 {
		d.Fatalf(t, "nothing to plot for stat=%s of=%s", stat, of)
	}
	var values []float64
	for _, m := range s.minutes[of] {
		values = append(values, pick(m))
	}
	return asciiPlot(values) + fmt.Sprintf("%8s +%s\n%10s%s to %s\n", "", strings.Repeat("-", len(values)), "",
		s.clock(s.start), s.clock(s.c.Now()))
}

// asciiPlot draws one column per value, eight rows from zero to the largest; a missing value is a dot on the ground.
func asciiPlot(values []float64) string {
	const rows = 8
	top := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	var out strings.Builder
	for row := rows; row >= 1; row-- {
		line := make([]byte, len(values))
		for i, v := range values {
			line[i] = ' '
			switch {
			case math.IsNaN(v) && row == 1:
				line[i] = '.'
			case v > top*(float64(row)-0.5)/rows:
				line[i] = '#'
			}
		}
		label := ""
		if row == rows || row == rows/2 {
			label = fmt.Sprintf("%.4g", top*float64(row)/rows)
		}
		fmt.Fprintf(&out, "%8s |%s\n", label, strings.TrimRight(string(line), " "))
	}
	return out.String()
}

func (s *scenario) stats() string {
	var out strings.Builder
	for _, st := range s.c.Stats() {
		fmt.Fprintf(&out, "%s: %d arrived = %d served + %d waiting + %d running + %d rejected + %d timed out + %d lost\n",
			st.Model, st.Arrived, st.Served, st.Waiting, st.Running, st.Rejected, st.TimedOut, st.Lost)
		fmt.Fprintf(&out, "  SLO %.1f %%  TTFT p50 %.2fs p95 %.2fs p99 %.2fs  ITL p50 %.0fms p95 %.0fms\n", 100**st.Attained,
			st.TTFT.P50.Seconds(), st.TTFT.P95.Seconds(), st.TTFT.P99.Seconds(),
			1000*st.ITL.P50.Seconds(), 1000*st.ITL.P95.Seconds())
		fmt.Fprintf(&out, "  starts: %d ordered, %d served, %d failed, %d called off\n",
			st.Ordered, st.StartsServed, st.StartsFailed, st.StartsCalledOff)
		fmt.Fprintf(&out, "  GPU-hours: %.1f serving, %.1f warm, %.1f starting, %.1f draining\n",
			st.GPUHours.Serving, st.GPUHours.Warm, st.GPUHours.Starting, st.GPUHours.Draining)
	}
	return out.String()
}

func (s *scenario) nodes() string {
	var out strings.Builder
	for _, p := range s.c.inventory().Pools {
		fmt.Fprintf(&out, "%s, %d more nodes possible:", p.Name, *p.Launchable)
		for _, n := range p.Nodes {
			state := ""
			if !n.Usable {
				state = " (under way)"
			}
			fmt.Fprintf(&out, " %s %d/%d%s", strings.TrimPrefix(n.Name, p.Name+"-"), n.FreeGPUs, n.GPUs, state)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// The planner in the loop must beat a fixed count in the demo's burst: this is the whole path from history to KEDA's
// answer to replicas.
func TestRunMeetsTheBurst(t *testing.T) {
	w := DemoWorld()
	attained := map[string]float64{}
	for _, name := range []string{"forewarm", "fixed"} {
		c := mustCluster(t, w, 1)
		tracker := fittedTracker(t, c)
		policy := planner.Policy{Seed: 1, Defaults: planner.DefaultModelPolicy()}
		policy.Defaults.Authority = planner.Act
		policy.Defaults.ReplicasMax = 14
		if name == "fixed" {
			policy.Defaults.ReplicasMin, policy.Defaults.ReplicasMax = 3, 3
		}
		ticks := 0
		err := Run(context.Background(), c, tracker, policy, w.Start, w.Start.Add(55*time.Minute), 15*time.Second,
			func(s planner.State, d planner.Decision) {
				if ticks++; !s.Now.Equal(d.At) || !d.At.Equal(c.Now()) {
					t.Fatalf("tick at %v decides for %v while the world is at %v", s.Now, d.At, c.Now())
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		if ticks != 221 {
			t.Errorf("%d ticks in 55 minutes of 15 s, both ends included", ticks)
		}
		attained[name] = *c.Stats()[0].Attained
		t.Logf("%s: %.4f attained, %+v", name, attained[name], c.Stats()[0].GPUHours)
	}
	if !(attained["forewarm"] > attained["fixed"]+0.2) {
		t.Errorf("SLO attainment in the burst: %v", attained)
	}
}

// fittedTracker has learned the cluster's past: loads and starts.
func fittedTracker(t *testing.T, c *Cluster) *planner.Tracker {
	t.Helper()
	ledger, err := coldstart.NewLedger(coldstart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.PastStarts(20, DemoHistory) {
		if err := ledger.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	loc, err := time.LoadLocation(DemoTimezone)
	if err != nil {
		t.Fatal(err)
	}
	cfg := planner.TrackerConfig{Step: LoadStep, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 100,
		Method: "auto", Seed: 1, Location: loc, Ledger: ledger}
	for _, m := range c.world.Models {
		profile := m.Profile
		cfg.Models = append(cfg.Models, planner.TrackedModel{Name: m.Name, Shape: m.Shape, Profile: &profile})
	}
	tracker, err := planner.NewTracker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.world.Models {
		h, err := c.History(context.Background(), m.Name, c.Now().Add(-DemoHistory), c.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := tracker.Fit(m.Name, h); err != nil {
			t.Fatal(err)
		}
	}
	return tracker
}
