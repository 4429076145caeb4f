package sim

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/planner"
)

// The dead-band of the real controller, seen with KEDA 2.21 on Kubernetes 1.36: with target 1 and the usual tolerance of
// 10 % the count cannot move from 10 to 11 nor from 20 to 22; with scaleUp.tolerance 0 it follows.
func TestHPADeadBand(t *testing.T) {
	for _, c := range []struct {
		up                    float64
		current, answer, want int
	}{
		{0.1, 10, 11, 10}, {0, 10, 11, 11},
		{0.1, 10, 12, 12}, {0, 10, 12, 12},
		{0.1, 10, 9, 10}, {0, 10, 9, 10}, // the way down keeps its band
		{0.1, 10, 8, 8}, {0, 10, 8, 8},
		{0.1, 9, 10, 10}, // below ten every step is wider than the band
		{0.1, 20, 22, 20}, {0, 20, 21, 21}, {0.1, 20, 23, 23},
		{0.1, 30, 27, 30}, {0.1, 30, 26, 26},
		{0.1, 1, 0, 1}, // replicas_min
	} {
		cfg := DefaultAutoscaler()
		cfg.ScaleUpTolerance, cfg.ScaleDownWindow = c.up, 0
		h := hpa{cfg: cfg, min: 1, max: 1000}
		if got := h.sync(0, c.current, []metric{{value: float64(c.answer), target: 1}}); got != c.want {
			t.Errorf("tolerance %v: from %d with answer %d to %d, want %d", c.up, c.current, c.answer, got, c.want)
		}
	}
}

// course feeds one answer per 15 s and returns the counts. A negative answer is a trigger in error.
func course(cfg Autoscaler, current int, answers ...int) []int {
	h := hpa{cfg: cfg, min: 1, max: 50}
	var out []int
	for i, a := range answers {
		m := metric{value: float64(a), target: 1, err: a < 0}
		current = h.sync(int64(i)*int64(15*time.Second), current, []metric{m})
		out = append(out, current)
	}
	return out
}

func repeat(v, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func TestHPAStabilisesOnTheWayDown(t *testing.T) {
	got := course(DefaultAutoscaler(), 8, append([]int{8}, repeat(2, 22)...)...)
	// The 8 of the first sync lies in the window of 300 s up to and including the 21st.
	for i, n := range got {
		want := 8
		if i > 20 {
			want = 2
		}
		if n != want {
			t.Fatalf("sync %d: %d replicas, want %d: %v", i, n, want, got)
		}
	}
	// A blip upward within the window starts the wait anew; it is not lifted above what it reached.
	answers := append(append([]int{8, 2, 2, 9}, repeat(2, 21)...), 2)
	if got := course(DefaultAutoscaler(), 8, answers...); got[3] != 9 || got[23] != 9 || got[24] != 2 {
		t.Errorf("counts %v: 9 from sync 3 to 23 and 2 then expected", got)
	}
}

func TestHPAGrowthIsLimited(t *testing.T) {
	if got, want := course(DefaultAutoscaler(), 1, 40, 40, 40, 40), []int{5, 10, 20, 40}; !equal(got, want) {
		t.Errorf("counts %v, want %v: four pods, then doubling", got, want)
	}
	slow := DefaultAutoscaler()
	slow.ScaleUpPercent, slow.ScaleUpPods, slow.ScaleUpPeriod = 0, 2, time.Minute
	if got, want := course(slow, 3, 20, 20, 20, 20, 20, 20), []int{5, 5, 5, 5, 7, 7}; !equal(got, want) {
		t.Errorf("counts %v, want %v: two pods a minute", got, want)
	}
}

// With a trigger in error nothing shrinks, and others may still grow; with all in error nothing changes.
func TestHPAHoldsOnErrors(t *testing.T) {
	if got, want := course(DefaultAutoscaler(), 4, -1, -1), []int{4, 4}; !equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	cfg := DefaultAutoscaler()
	cfg.ScaleDownWindow = 0
	h := hpa{cfg: cfg, min: 1, max: 50}
	broken, low, high := metric{target: 1, err: true}, metric{value: 1, target: 1}, metric{value: 6, target: 1}
	if got := h.sync(0, 4, []metric{broken, low}); got != 4 {
		t.Errorf("with one trigger in error the other lowers the count to %d", got)
	}
	if got := h.sync(1, 4, []metric{broken, high}); got != 6 {
		t.Errorf("with one trigger in error the other raises the count to %d, want 6", got)
	}
	if got := h.sync(int64(time.Hour), 4, []metric{low, high}); got != 6 {
		t.Errorf("of two triggers the larger one counts: got %d, want 6", got)
	}
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Whatever the tolerance and the count, what Decide answers makes the HPA arrive at the plan or within the dead-band above
// it, in one sync, and stay there; with a dead-band that is narrower downwards it goes from there to the plan.
func TestAnswerArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current, plan := rapid.IntRange(1, 150).Draw(t, "current"), rapid.IntRange(1, 150).Draw(t, "plan")
		up := rapid.SampledFrom([]float64{0, 0.05, 0.1, 0.3}).Draw(t, "up")
		down := rapid.SampledFrom([]float64{0.05, 0.1, 0.3}).Draw(t, "down")
		cfg := DefaultAutoscaler()
		cfg.ScaleUpTolerance, cfg.ScaleDownTolerance, cfg.ScaleDownWindow, cfg.ScaleUpPods = up, down, 0, 1000
		h := hpa{cfg: cfg, min: 1, max: 1000}
		began := current
		for i := range 4 {
			p := planner.Policy{Defaults: planner.DefaultModelPolicy()}
			p.Defaults.Authority, p.Defaults.ReplicasMin, p.Defaults.ReplicasMax = planner.Act, plan, 0
			s := planner.State{Now: time.Unix(1e9, 0).UTC(), Interval: cfg.Sync, Models: []planner.ModelState{{
				Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1}, Replicas: &planner.Replicas{Ready: current, Desired: &current},
				Actuator: &planner.Actuator{ScaleUpTolerance: up, ScaleDownTolerance: &down}}}}
			s.Memory = planner.Memory{At: s.Now.Add(-cfg.Sync), Unbroken: s.Now.Add(-time.Hour),
				Models: []planner.ModelMemory{{Name: "chat", Replicas: plan}}}
			d, err := planner.Decide(s, p)
			if err != nil {
				t.Fatal(err)
			}
			told := d.Models[0].Answer
			if want := d.Models[0].Replicas; want == nil || *want != plan || told == nil || *told < plan {
				t.Fatalf("planned %v, told %v for a plan of %d", want, told, plan)
			}
			next := h.sync(int64(i)*int64(cfg.Sync), current, []metric{{value: float64(*told), target: 1}})
			if next < plan || i > 1 && next != current {
				t.Fatalf("sync %d: from %d by way of %d told %d to %d for a plan of %d", i, began, current, *told, next, plan)
			}
			if grew := next > began; grew && next > max(plan, int(float64(began)*(1+up)+1e-9)+1) {
				t.Fatalf("from %d to %d: more than the plan of %d and the dead-band", began, next, plan)
			}
			current = next
		}
	})
}
