package sim

import (
	"fmt"
	"io"
	"math"
	"testing"
	"time"
)

// poissonRequests are requests of a Poisson process with exponential prompts: what the Markov queues of the textbook get.
type poissonRequests struct {
	left   int
	at     time.Time
	rate   float64 // requests/s
	mean   float64 // prompt tokens
	random *stream
}

func (p *poissonRequests) Next() (Request, error) {
	if p.left == 0 {
		return Request{}, io.EOF
	}
	p.left--
	p.at = p.at.Add(time.Duration(p.random.ExpFloat64() / p.rate * 1e9))
	return Request{At: p.at, Prompt: 1 + int(p.mean*p.random.ExpFloat64()), Completion: 1}, nil
}

// A fleet behind one queue is M/M/1 and M/M/c of the textbook (Erlang C), read from a trace. Iterations have a fixed part
// of a hundredth of their mean, so service times are exponential up to that.
func TestFleetIsErlangs(t *testing.T) {
	for _, servers := range []int{1, 4} {
		t.Run(fmt.Sprintf("M/M/%d", servers), func(t *testing.T) {
			s := queueScenario(servers, 1, Component{1, 100, 0})
			m := &s.World.Models[0]
			m.Engine.Iteration = 0.1
			const service, rho = 0.1e-3 + 0.1e-3*100.5, 0.7 // whole tokens from 1 on: half a token more
			lambda := rho * float64(servers) / service
			s.Duration = time.Duration(300_000 / lambda * 1e9)
			spec := &TraceSpec{File: "poisson"}
			m.Workload = Workload{Trace: spec}
			trace, err := NewTrace(*spec, 1, func() (Requests, io.Closer, error) {
				return &poissonRequests{left: 300_000, at: s.World.Start, rate: lambda, mean: 100, random: newStream(7)}, io.NopCloser(nil), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			spec.Trace = trace
			wait := 2 * cosmetatos(float64(servers))(lambda, service, 0) /
				(1 + (1-rho)*float64(servers-1)*(math.Sqrt(4+5*float64(servers))-2)/(16*rho*float64(servers)))
			if got, want := meanSojourn(t, s), service+wait; math.Abs(got/want-1) > 0.04 {
				t.Errorf("mean time inside %.5f s, Erlang says %.5f s", got, want)
			}
		})
	}
}

// A scaled trace has as many requests as it says, in order, the same on every reading, and its history is their sum.
func TestTraceScales(t *testing.T) {
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for _, scale := range []float64{0.25, 1, 2.5} {
		trace, err := NewTrace(TraceSpec{File: "poisson", Begin: begin, Scale: scale}, 1, func() (Requests, io.Closer, error) {
			return &poissonRequests{left: 20_000, at: time.Unix(0, 0), rate: 20, mean: 100, random: newStream(7)}, io.NopCloser(nil), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c := trace.cursor()
		n, tokens, last := 0, 0, begin
		for i := range int64(40) {
			for _, q := range c.appendMinute(nil, begin.Unix()/60+i) {
				if q.At.Before(last) {
					t.Fatalf("scale %v: %v after %v", scale, q.At, last)
				}
				n, tokens, last = n+1, tokens+q.Prompt, q.At
			}
		}
		if want := 20_000 * scale; math.Abs(float64(n)/want-1) > 0.03 {
			t.Errorf("scale %v: %d requests, want about %.0f", scale, n, want)
		}
		h, err := trace.history(begin, begin.Add(20*time.Minute), time.Minute, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, v := range h.Prompt.Values {
			if !math.IsNaN(v) {
				sum += v * 60
			}
		}
		if math.Abs(sum-float64(tokens)) > 1 {
			t.Errorf("scale %v: the history has %.0f tokens, the requests %d", scale, sum, tokens)
		}
	}
}
