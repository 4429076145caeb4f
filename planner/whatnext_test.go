package planner

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/coldstart"
	"forewarm/forecast"
)

// risingState needs one replica more with every minute that is looked ahead, on every path, from 1 on.
func risingState(t testing.TB, now time.Time) ModelState {
	t.Helper()
	e := forecast.Ensemble{Start: now, Step: time.Minute}
	for range 10 {
		var path []float64
		for k := range 30 {
			path = append(path, 1000*float64(k+1))
		}
		e.Paths = append(e.Paths, path)
	}
	zero := forecast.Ensemble{Start: now, Step: time.Minute, Paths: make([][]float64, 10)}
	for i := range zero.Paths {
		zero.Paths[i] = make([]float64, 30)
	}
	point := func(path coldstart.Path, d time.Duration) coldstart.LeadTime {
		return coldstart.LeadTime{Path: path, Basis: coldstart.Measured, Samples: 20, Support: []time.Duration{d}, CDF: []float64{1}}
	}
	return ModelState{Name: "chat", Shape: Shape{GPUs: 4, Pods: 1}, Profile: &Profile{Prompt: 1000, Completion: 1000},
		Forecast:  &Forecast{Prompt: e, Completion: zero},
		LeadTimes: []coldstart.LeadTime{point(coldstart.ColdNode, 10*time.Minute), point(coldstart.CachedWeights, 90*time.Second)}}
}

// With a need that rises by one replica a minute every minute off the start saves one, whichever phase it is; a phase of a
// path that no order takes saves nothing, and what is left is the drain of a released replica.
func TestWhatNext(t *testing.T) {
	rising, empty := risingState(t, monday), ModelState{Name: "chat"}
	warm := risingState(t, monday)
	warm.LeadTimes[1].Path = coldstart.WarmNode
	occasion := func(m *ModelState, order coldstart.Path) Occasion {
		return Occasion{m, monday, 15 * time.Second, order}
	}
	// The order's path is not known the first time: the slowest counts.
	occasions := []Occasion{occasion(&rising, ""), occasion(&empty, coldstart.ColdNode), occasion(&rising, coldstart.WarmNode)}
	removal := func(path coldstart.Path, phase coldstart.Phase, from, to time.Duration) Removal {
		return Removal{path, phase, from, to}
	}
	price := 2.0
	savings, used := WhatNext(occasions, DefaultModelPolicy(), []Removal{
		removal(coldstart.WarmNode, coldstart.ImagePull, 4*time.Minute, 0),
		removal(coldstart.ColdNode, coldstart.Compile, 62*time.Second, 2*time.Second),
		removal(coldstart.ColdNode, coldstart.NodeLaunch, 3*time.Minute, 0),
		removal(coldstart.ColdNode, coldstart.ImagePull, 10*time.Minute, 0),
	}, &price)
	if used != 1 {
		t.Errorf("%d states are used: want the one with a forecast", used)
	}
	want := map[coldstart.Phase]float64{coldstart.Compile: 1, coldstart.NodeLaunch: 3, coldstart.ImagePull: 9}
	for i, s := range savings {
		if i > 0 && s.PerSecond > savings[i-1].PerSecond {
			t.Errorf("not ranked: %v after %v", s, savings[i-1])
		}
		if s.Path == coldstart.WarmNode {
			if s.Replicas != 0 {
				t.Errorf("%v, though no order takes that path", s)
			}
			continue
		}
		if math.Abs(s.Replicas-want[s.Phase]) > 1 || math.Abs(*s.USDPerWeek-s.Replicas*2*24*7) > 1e-9 {
			t.Errorf("%v: want about %v", s, want[s.Phase])
		}
	}
	if text := savings[0].String(); !strings.Contains(text, " → ") || !strings.Contains(text, "warm replicas, $") {
		t.Errorf("says %q", text)
	}
	// Where there is room on a running node a minute less of the launch saves nothing, a minute less on that path does.
	savings, _ = WhatNext([]Occasion{occasion(&warm, coldstart.WarmNode)}, ModelPolicy{ServiceLevel: 0.95, TTFT: time.Second, ITL: time.Second}, []Removal{
		removal(coldstart.ColdNode, coldstart.NodeLaunch, 5*time.Minute, 0),
		removal(coldstart.WarmNode, coldstart.ImagePull, time.Minute, 0),
	}, nil)
	for _, s := range savings {
		if want := map[coldstart.Phase]float64{coldstart.ImagePull: 1}[s.Phase]; s.Replicas != want {
			t.Errorf("with room on a running node: %v: want %v", s, want)
		}
	}
	none, used := WhatNext(occasions[1:], DefaultModelPolicy(), []Removal{removal(coldstart.ColdNode, coldstart.Compile, time.Minute, 0)}, &price)
	if used != 0 || !math.IsNaN(none[0].Replicas) || !math.IsNaN(none[0].PerSecond) || none[0].USDPerWeek != nil {
		t.Errorf("without a State that tells: %+v, %d used", none, used)
	}
}

// TestWhatNextIsMonotone: to remove more never saves less, nothing saves nothing, and nothing is ever lost.
func TestWhatNextIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := risingState(nopTB{}, monday)
		for i := range m.Forecast.Prompt.Paths {
			for k := range m.Forecast.Prompt.Paths[i] {
				m.Forecast.Prompt.Paths[i][k] = rapid.Float64Range(0, 20000).Draw(t, "load")
			}
		}
		var removals []Removal
		for _, s := range []int{0, 1, 60, 300, 600, 3600} {
			removals = append(removals, Removal{coldstart.ColdNode, coldstart.ImagePull, time.Duration(s)*time.Second + 1, 1})
		}
		savings, _ := WhatNext([]Occasion{{&m, monday, 15 * time.Second, coldstart.ColdNode}}, DefaultModelPolicy(), removals, nil)
		for _, a := range savings {
			for _, b := range savings {
				if a.From <= b.From && a.Replicas > b.Replicas {
					t.Fatalf("%v saves more than %v", a, b)
				}
			}
			if a.Replicas < 0 || a.From == a.To && a.Replicas != 0 {
				t.Fatalf("%v", a)
			}
		}
	})
}

// nopTB stands in for the test where a function that takes one cannot fail.
type nopTB struct{ testing.TB }

func (nopTB) Helper() {}

// TestRemovals: phases at their medians; compilation down to what a cache leaves of it.
func TestRemovals(t *testing.T) {
	sample := func(compile coldstart.Cache, took time.Duration) coldstart.Sample {
		return coldstart.Sample{Key: coldstart.Key{Compile: compile}, Outcome: coldstart.Served, Total: 200 * time.Second,
			Phases: map[coldstart.Phase]time.Duration{coldstart.Compile: took, coldstart.ImagePull: 100 * time.Second, coldstart.PodReady: time.Millisecond}}
	}
	got := map[coldstart.Phase]Removal{}
	for _, r := range Removals(coldstart.WarmNode, []coldstart.Sample{sample(coldstart.NotCached, 62*time.Second), sample(coldstart.NotCached, 62*time.Second), sample(coldstart.Cached, 4*time.Second)}) {
		got[r.Phase] = r
	}
	if c := got[coldstart.Compile]; c.From != 62*time.Second || c.To != 4*time.Second {
		t.Errorf("compile %+v", c)
	}
	if c := got[coldstart.ImagePull]; c.From != 100*time.Second || c.To != 0 || c.Path != coldstart.WarmNode {
		t.Errorf("image pull %+v", c)
	}
	if _, ok := got[coldstart.Unattributed]; ok || len(got) != 2 {
		t.Errorf("what takes no time or is not explained cannot be removed: %+v", got)
	}
	rare := sample(coldstart.NotCached, 62*time.Second)
	rare.Phases[coldstart.WeightDownload] = 30 * time.Second
	for _, r := range Removals(coldstart.WarmNode, []coldstart.Sample{rare, sample(coldstart.NotCached, 62*time.Second), sample(coldstart.NotCached, 62*time.Second)}) {
		if r.Phase == coldstart.WeightDownload {
			t.Errorf("%+v, though two starts of three download nothing", r)
		}
	}
}

// Numbers of replicas are written as people do, however many.
func TestSavingText(t *testing.T) {
	for replicas, want := range map[float64]string{123: " 123 ", 99.6: " 100 ", 12.4: " 12 ", 1: " 1 ", 0.25: " 0.25 ", 2.34: " 2.3 ", 9.97: " 10 "} {
		s := Saving{Removal: Removal{coldstart.ColdNode, coldstart.ImagePull, time.Minute, 0}, Replicas: replicas}
		if text := s.String(); !strings.Contains(text, "saves"+want+"warm") {
			t.Errorf("%v replicas: %q", replicas, text)
		}
	}
}
