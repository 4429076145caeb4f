package sim

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testPhysics() Physics {
	return Physics{Prompt: 10_000, Completion: 1_000, IterationFloor: 10 * time.Millisecond, Chunk: 1000, Concurrent: 64}
}

// runServer feeds jobs in order of arrival and returns the instants of first token and completion of each, by position.
func runServer(ph Physics, jobs []job) (first, done []int64) {
	s := server{physics: ph}
	first, done = make([]int64, len(jobs)), make([]int64, len(jobs))
	position := map[int64]int{}
	for i, j := range jobs {
		position[j.arrived] = i
	}
	finish := func(until int64) {
		for next := s.next(); next <= until && next != never; next = s.next() {
			s.advance(next)
			ended, _ := s.settle(nil, math.MinInt64)
			for _, j := range ended {
				first[position[j.arrived]], done[position[j.arrived]] = j.firstToken, next
			}
		}
	}
	for _, j := range jobs {
		finish(j.arrived)
		s.advance(j.arrived)
		s.add(j)
	}
	finish(never - 1)
	return first, done
}

func TestServerAloneIsBoundByTheFloor(t *testing.T) {
	first, done := runServer(testPhysics(), []job{{arrived: 0, prompt: 500, completion: 101}})
	if want := int64(50 * time.Millisecond); first[0] != want {
		t.Errorf("500 tokens at 10,000/s take %v to the first token, want %v", time.Duration(first[0]), time.Duration(want))
	}
	if want := int64(1050 * time.Millisecond); math.Abs(float64(done[0]-want)) > 1e3 {
		t.Errorf("100 further tokens at 10 ms end at %v, want %v", time.Duration(done[0]), time.Duration(want))
	}
}

// A saturated server does its work: requests of (1000, 50) tokens cost 0.1 + 0.05 s each.
func TestServerConservesWork(t *testing.T) {
	jobs := make([]job, 2000)
	for i := range jobs {
		jobs[i] = job{arrived: int64(i), prompt: 1000, completion: 51}
	}
	ph := testPhysics()
	ph.IterationFloor = 0
	_, done := runServer(ph, jobs)
	if got, want := float64(done[len(done)-1])/1e9, 2000*0.15; math.Abs(got/want-1) > 0.01 {
		t.Errorf("2000 requests of 0.15 s work took %.2f s, want %.2f s", got, want)
	}
}

// The event-driven server against a deliberately dumb one that takes small steps of time.
func TestServerMatchesSmallSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ph := testPhysics()
		ph.Chunk = rapid.IntRange(100, 3000).Draw(rt, "chunk")
		n := rapid.IntRange(1, 8).Draw(rt, "requests")
		jobs := make([]job, n)
		at := int64(0)
		for i := range jobs {
			at += int64(rapid.IntRange(1, 200).Draw(rt, "gap")) * int64(time.Millisecond)
			jobs[i] = job{arrived: at, prompt: int32(rapid.IntRange(1, 2000).Draw(rt, "prompt")),
				completion: int32(rapid.IntRange(1, 30).Draw(rt, "completion"))}
		}
		first, done := runServer(ph, jobs)
		wantFirst, wantDone := smallSteps(ph, jobs)
		for i := range jobs {
			// Each of up to 2n changes of composition comes up to one step late in the dumb server.
			if d := math.Abs(float64(first[i])/1e9 - wantFirst[i]); d > 0.004 {
				rt.Fatalf("first token of %d at %.4f s, small steps say %.4f s", i, float64(first[i])/1e9, wantFirst[i])
			}
			// A step that still runs at the short iteration counts as many times over as the long one is longer.
			longest := float64(ph.Chunk)/float64(ph.Prompt) + float64(n)/float64(ph.Completion)
			late := float64(2*n) * smallStep * max(1, longest/ph.IterationFloor.Seconds())
			if d := math.Abs(float64(done[i])/1e9 - wantDone[i]); d > late+0.004 {
				rt.Fatalf("end of %d at %.4f s, small steps say %.4f s", i, float64(done[i])/1e9, wantDone[i])
			}
		}
	})
}

// smallStep is 0.1 ms, in seconds.
const smallStep = 1e-4

// smallSteps does the same fluid in small steps.
func smallSteps(ph Physics, jobs []job) (first, done []float64) {
	const dt = smallStep
	n := len(jobs)
	first, done = make([]float64, n), make([]float64, n)
	promptLeft, tokensLeft := make([]float64, n), make([]float64, n)
	for i, j := range jobs {
		promptLeft[i], tokensLeft[i] = float64(j.prompt), float64(j.completion-1)
	}
	for now, left := 0.0, n; left > 0; now += dt {
		head, decoding := -1, 0
		for i, j := range jobs {
			if float64(j.arrived)/1e9 > now || done[i] > 0 {
				continue
			}
			if first[i] > 0 {
				decoding++
			} else if head < 0 {
				head = i
			}
		}
		iteration := float64(decoding) / float64(ph.Completion)
		if head >= 0 {
			iteration += float64(ph.Chunk) / float64(ph.Prompt)
		}
		iteration = max(iteration, ph.IterationFloor.Seconds())
		for i := range jobs {
			if first[i] > 0 && done[i] == 0 {
				if tokensLeft[i] -= dt / iteration; tokensLeft[i] <= 1e-9 {
					done[i] = now + dt
					left--
				}
			}
		}
		if head >= 0 {
			if promptLeft[head] -= dt * float64(ph.Chunk) / iteration; promptLeft[head] <= 1e-9 {
				first[head] = now + dt
				if tokensLeft[head] <= 0 {
					done[head] = now + dt
					left--
				}
			}
		}
	}
	return first, done
}
