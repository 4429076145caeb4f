package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// benchConfig is an 8B model on one H100: the priors of Profile (α 6 ms, β 0.02 ms, γ 4e-5 ms, δ = γ/25), 400,000 KV
// tokens.
func benchConfig() Config {
	return Config{Alpha: Of(6 * time.Millisecond), BetaPrefill: Of(20 * time.Microsecond), BetaDecode: Of(20 * time.Microsecond),
		Gamma: 40_000, Delta: 1600, Block: 16, Blocks: 25_000, MaxSequences: 256, MaxBatchedTokens: 2048}
}

// traffic is Poisson arrivals of requests with exponential prompts and completions of given means.
type traffic struct {
	random             *rand.Rand
	gap                float64 // mean, in ps
	prompt, completion float64
	at                 Time
	made               uint64
}

func (g *traffic) next() Request {
	g.at += Time(g.random.ExpFloat64() * g.gap)
	g.made++
	return Request{ID: g.made, Arrived: g.at, Prompt: 1 + int32(g.random.ExpFloat64()*g.prompt),
		Completion: 1 + int32(g.random.ExpFloat64()*g.completion)}
}

// fleet is the smallest router: the replica with the fewest requests at the instant of arrival takes the next one. Every
// replica is advanced to every instant that it asks for.
type fleet struct {
	replicas []*Engine
	next     []Time
	out      []Outcome
	served   int
	late     Time // sum of time to first token, so that nothing is optimised away
}

func (f *fleet) give(r Request) error {
	for {
		first := 0
		for i, at := range f.next {
			if at < f.next[first] {
				first = i
			}
		}
		if f.next[first] > r.Arrived {
			break
		}
		f.out = f.replicas[first].Advance(f.next[first], f.out[:0])
		f.next[first] = f.replicas[first].Next()
		f.served += len(f.out)
		for i := range f.out {
			f.late += f.out[i].First - f.out[i].Arrived
		}
	}
	least := 0
	for i, e := range f.replicas {
		if e.Load() < f.replicas[least].Load() {
			least = i
		}
	}
	e := f.replicas[least]
	f.out = e.Advance(r.Arrived, f.out[:0])
	_, err := e.Add(r)
	f.next[least] = e.Next()
	return err
}

// BenchmarkReplica is replica and router alone at about 70 % of what the replicas carry: requests/s and runs a request.
func BenchmarkReplica(b *testing.B) {
	for _, bench := range []struct {
		name               string
		replicas           int
		prompt, completion float64
		perReplica         float64 // requests/s
	}{
		{"one/chat", 1, 1000, 200, 20},
		{"eight/chat", 8, 1000, 200, 20},
		{"one/code", 1, 2000, 30, 14},
		{"one/long", 1, 8000, 500, 1.6},
	} {
		b.Run(bench.name, func(b *testing.B) {
			f := fleet{}
			for range bench.replicas {
				e, err := New(benchConfig())
				if err != nil {
					b.Fatal(err)
				}
				f.replicas, f.next = append(f.replicas, e), append(f.next, Never)
			}
			g := traffic{random: rand.New(rand.NewPCG(1, 2)), gap: 1e12 / bench.perReplica / float64(bench.replicas),
				prompt: bench.prompt, completion: bench.completion}
			b.ReportAllocs()
			for b.Loop() {
				if err := f.give(g.next()); err != nil {
					b.Fatal(err)
				}
			}
			var runs, iterations int64
			for _, e := range f.replicas {
				runs, iterations = runs+e.counts.Runs, iterations+e.counts.Iterations
			}
			if waiting := f.replicas[0].Waiting(); waiting > 200 {
				b.Errorf("%d requests wait: the replica is saturated", waiting)
			}
			b.ReportMetric(float64(f.served)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(runs)/float64(f.served), "runs/request")
			b.ReportMetric(float64(iterations)/float64(f.served), "iterations/request")
		})
	}
}
