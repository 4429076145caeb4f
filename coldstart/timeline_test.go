package coldstart

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// genSpan draws evidence that may begin before the start, end after it, be empty or run backwards.
func genSpan(t *rapid.T) Span {
	at := func(name string) time.Time {
		return t0.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(11*time.Minute)).Draw(t, name)))
	}
	return Span{Phase: rapid.SampledFrom(phases[:len(phases)-1]).Draw(t, "phase"), From: at("from"), To: at("to"),
		Source: rapid.SampledFrom(sources[:3]).Draw(t, "source")}
}

// TestTimelineIsWhole: whatever the evidence, segments follow each other without gaps, the phases sum to the total to the
// nanosecond, and the order of the evidence changes nothing.
func TestTimelineIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(rapid.Custom(genSpan), 0, 12).Draw(t, "spans")
		var loose []Loose
		for _, s := range rapid.SliceOfN(rapid.Custom(genSpan), 0, 4).Draw(t, "loose") {
			took := time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "took"))
			loose = append(loose, Loose{Phase: s.Phase, Took: took, From: s.From, To: s.To, Source: s.Source})
		}
		total := time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "total"))
		segments := Timeline(t0, t0.Add(total), spans, loose)
		at, sum := time.Duration(0), time.Duration(0)
		for i, s := range segments {
			if s.From != at || s.To <= s.From {
				t.Fatalf("segment %d %+v begins at %v: want %v", i, s, s.From, at)
			}
			if i > 0 && segments[i-1].Phase == s.Phase && segments[i-1].Source == s.Source {
				t.Fatalf("segments %d and %d are one: %+v", i-1, i, segments)
			}
			at = s.To
		}
		took, from := Tally(segments)
		for p, d := range took {
			sum += d
			if from[p] == "" {
				t.Fatalf("phase %s has no source", p)
			}
		}
		if at != total || sum != total {
			t.Fatalf("segments end at %v and phases sum to %v: want %v", at, sum, total)
		}
		s := Sample{ID: "a", Key: chat, Started: t0, Total: total, Outcome: Served, Phases: took, Sources: from}
		if err := s.Validate(); err != nil {
			t.Fatalf("not a sample: %v", err)
		}
		for p, d := range s.Explained() {
			if took[p] != d {
				t.Fatalf("%s: %v explained as %v", p, took[p], d)
			}
		}
		if len(loose) == 0 {
			reversed := make([]Span, 0, len(spans))
			for _, s := range spans {
				reversed = append([]Span{s}, reversed...)
			}
			again, _ := Tally(Timeline(t0, t0.Add(total), reversed, nil))
			for p := range took {
				if again[p] != took[p] {
					t.Fatalf("%s is %v, and %v with the evidence in another order", p, took[p], again[p])
				}
			}
		}
	})
}

// TestTimelinePrecedence: each instant belongs to the phase that says most about it, and no phase gets more than its
// evidence covers.
func TestTimelinePrecedence(t *testing.T) {
	second := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	segments := Timeline(second(0), second(100), []Span{
		{Schedule, second(0), second(60), FromEvents},
		{NodeLaunch, second(10), second(40), FromEvents},
		{WarmUp, second(65), second(95), FromLogs},
		{Compile, second(70), second(80), FromLogs},
		{Compile, second(75), second(85), FromEvents}, // the log is closer where both claim
		{ImagePull, second(50), second(40), FromEvents},
	}, []Loose{
		{WeightLoad, 3 * time.Second, second(0), second(100), FromLogs},
		{GraphCapture, time.Hour, second(90), second(98), FromLogs}, // takes what is left there, no more
	})
	want := []Segment{
		{Schedule, 0, 10, FromEvents}, {NodeLaunch, 10, 40, FromEvents}, {Schedule, 40, 60, FromEvents},
		{WeightLoad, 60, 63, FromLogs}, {Unattributed, 63, 65, FromNothing},
		{WarmUp, 65, 70, FromLogs}, {Compile, 70, 80, FromLogs}, {Compile, 80, 85, FromEvents}, {WarmUp, 85, 95, FromLogs},
		{GraphCapture, 95, 98, FromLogs}, {Unattributed, 98, 100, FromNothing},
	}
	if len(segments) != len(want) {
		t.Fatalf("%+v", segments)
	}
	for i, w := range want {
		w.From, w.To = w.From*time.Second, w.To*time.Second
		if segments[i] != w {
			t.Errorf("segment %d is %+v, want %+v", i, segments[i], w)
		}
	}
	if _, from := Tally(segments); from[Compile] != "events+logs" {
		t.Errorf("compile from %q", from[Compile])
	}
	if Timeline(second(1), second(1), nil, nil) != nil {
		t.Error("a start of no length has segments")
	}
}

// TestPrecedenceIsComplete: a phase that is not in the order would lose every instant to unattributed.
func TestPrecedenceIsComplete(t *testing.T) {
	for _, p := range phases {
		n := 0
		for _, q := range precedence {
			if p == q {
				n++
			}
		}
		if n != 1 {
			t.Errorf("phase %s is %d times in precedence: want once", p, n)
		}
	}
}

// TestWholeSample: a start that claims to be explained must be.
func TestWholeSample(t *testing.T) {
	s := start("a", chat, 0, Served, 100)
	s.Phases = map[Phase]time.Duration{ImagePull: 40 * time.Second, Unattributed: 50 * time.Second}
	if s.Validate() == nil {
		t.Error("phases with unattributed among them that do not sum to the total are accepted")
	}
	s.Phases[Unattributed] = 60 * time.Second
	s.Sources = map[Phase]Source{ImagePull: "events+logs", Unattributed: FromNothing}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s.Sources = map[Phase]Source{Compile: FromLogs, ImagePull: "hearsay"}
	if s.Validate() == nil {
		t.Error("a source of a phase that the start does not have is accepted, or an unknown source")
	}
}
