package prom

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"
)

// This file generates two weeks of what a Prometheus would have scraped from two models and from kube-state-metrics, and
// the truth about it: what happened, not what our queries should return.

const (
	genScrape = 30 * time.Second
	genStep   = time.Minute
)

var (
	genStart = time.Date(2025, 3, 3, 0, 0, 0, 0, time.UTC)
	genEnd   = genStart.AddDate(0, 0, 14)
	// Half-way, chat-70b rolls out an engine version that renamed its KV gauge, and code-8b moves from SGLang to vLLM.
	genMid = genStart.AddDate(0, 0, 7)
	// Nothing at all is scraped for 20 minutes.
	gapFrom, gapTo = genStart.Add(58*time.Hour + 7*time.Minute), genStart.Add(58*time.Hour + 27*time.Minute)
	// Requests wait for an hour; the last scrape that sees it falls on the boundary of two steps.
	waitFrom, waitTo = genStart.Add(110 * time.Hour), genStart.Add(111*time.Hour + 10*time.Second)
	// One replica of two is not scraped for five minutes.
	blindFrom, blindTo = genStart.Add(130*time.Hour + 10*time.Second), genStart.Add(130*time.Hour + 5*time.Minute)
)

// scraped is one series as scraped.
type scraped struct {
	name, labels string
	at           []time.Time
	values       []float64
}

// last returns the index of the last sample at or before t, or -1.
func (s *scraped) last(t time.Time) int {
	return sort.Search(len(s.at), func(i int) bool { return s.at[i].After(t) }) - 1
}

// increase is what the counter grew by between samples i and j, resets followed.
func (s *scraped) increase(i, j int) float64 {
	sum := 0.0
	for k := i + 1; k <= j; k++ {
		if s.values[k] >= s.values[k-1] {
			sum += s.values[k] - s.values[k-1]
		} else {
			sum += s.values[k]
		}
	}
	return sum
}

// replica is one pod with its counters, all scraped at the same instants.
type replica struct {
	pod                          string
	prompt, completion, requests []*scraped // one for each served name
	waiting                      *scraped
}

// world is everything scraped and its truth.
type world struct {
	all        []*scraped
	chat, code []*replica
	gateway    []*replica // what an endpoint picker counted for gate-7b, by its old and its new names
	genAI      []*replica // what an OpenTelemetry gateway counted for otel-1b
	ready      *scraped   // ready replicas of chat-70b
}

func (w *world) series(name, labels string) *scraped {
	s := &scraped{name: name, labels: labels}
	w.all = append(w.all, s)
	return s
}

func (s *scraped) add(t time.Time, v float64) {
	s.at, s.values = append(s.at, t), append(s.values, v)
}

func generate() *world {
	w := &world{}
	rng := rand.New(rand.NewPCG(20250303, 1))
	minute := time.Minute
	// The phases of the scrapes: exactly on the boundary of a step, at its very end, and in the middle.
	a := w.replica(rng, "chat-70b-old-a", "vllm", "gpu_cache_usage_perc", []string{"chat-70b", "chat-70b-fr"},
		genStart.Add(genScrape), genMid, []time.Duration{40 * time.Hour, 90*time.Hour + 20*time.Second})
	b := w.replica(rng, "chat-70b-old-b", "vllm", "gpu_cache_usage_perc", []string{"chat-70b"},
		genStart.Add(29999*time.Millisecond), genMid, []time.Duration{77 * time.Hour})
	c := w.replica(rng, "chat-70b-new-c", "vllm", "kv_cache_usage_perc", []string{"chat-70b", "chat-70b-fr"},
		genMid.Add(2*minute+7123*time.Millisecond), genEnd, []time.Duration{250 * time.Hour})
	d := w.replica(rng, "chat-70b-new-d", "vllm", "kv_cache_usage_perc", []string{"chat-70b"},
		genMid.Add(2*minute+13*time.Second), genEnd, nil)
	w.chat = []*replica{a, b, c, d}
	w.code = []*replica{
		w.replica(rng, "code-8b-sglang", "sglang", "token_usage", []string{"code-8b"}, genStart.Add(3*time.Second), genMid, nil),
		w.replica(rng, "code-8b-vllm", "vllm", "kv_cache_usage_perc", []string{"code-8b"}, genMid.Add(5*minute), genEnd, nil),
	}
	w.gateways(rng)
	w.kube()
	return w
}

// gateways makes two gateways. The endpoint picker of gate-7b emits its metrics under a second name and with one more
// label in the second week, the same counts; gate-7b has a replica only in the last three days, so that before them
// nothing but the gateway knows of it. Requests queue at the gateway in the hour of waitFrom.
func (w *world) gateways(rng *rand.Rand) {
	from := genStart.Add(4 * time.Second)
	counts := func(labels string, names [3]string) *replica {
		return &replica{prompt: []*scraped{w.series(names[0], labels)}, completion: []*scraped{w.series(names[1], labels)},
			requests: []*scraped{w.series(names[2], labels)}}
	}
	labels := `namespace="gateway",model_name="gate",target_model_name="gate-7b"`
	old := counts(labels, [3]string{"inference_objective_input_tokens_sum", "inference_objective_output_tokens_sum",
		"inference_objective_request_total"})
	current := counts(labels+`,fairness_id="default"`, [3]string{"llm_d_epp_request_input_tokens_sum",
		"llm_d_epp_request_output_tokens_sum", "llm_d_epp_request_total"})
	old.waiting = w.series("inference_extension_flow_control_queue_size", labels)
	genAI := counts(`gen_ai_request_model="otel-1b",gen_ai_token_type="input"`,
		[3]string{"gen_ai_client_token_usage_sum", "", "gen_ai_server_request_duration_seconds_count"})
	genAI.completion[0].name = "gen_ai_client_token_usage_sum"
	genAI.completion[0].labels = `gen_ai_request_model="otel-1b",gen_ai_token_type="output"`
	var tokens [3]float64
	for t := from; t.Before(genEnd); t = t.Add(genScrape) {
		for i := range tokens {
			tokens[i] += math.Floor([]float64{9000, 2500, 12}[i] * (0.5 + rng.Float64()))
		}
		if within(t, gapFrom, gapTo) {
			continue
		}
		for _, r := range []*replica{old, current, genAI} {
			if r == current && t.Before(genMid) {
				continue
			}
			r.prompt[0].add(t, tokens[0])
			r.completion[0].add(t, tokens[1])
			r.requests[0].add(t, tokens[2])
		}
		queued := 0.0
		if within(t, waitFrom, waitTo) {
			queued = 9
		}
		old.waiting.add(t, queued)
	}
	genAI.waiting = &scraped{}
	w.gateway, w.genAI = []*replica{old}, []*replica{genAI}
	w.replica(rng, "gate-7b-a", "vllm", "kv_cache_usage_perc", []string{"gate-7b"}, genEnd.AddDate(0, 0, -3), genEnd, nil)
}

// replica makes one pod's series from its first scrape on; at each of the resets (offsets from genStart) its container
// starts anew between two scrapes.
func (w *world) replica(rng *rand.Rand, pod, engine, kv string, served []string, from, to time.Time, resets []time.Duration) *replica {
	r := &replica{pod: pod}
	names := map[string][5]string{
		"vllm": {"vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
			"vllm:num_requests_waiting", "vllm:" + kv},
		"sglang": {"sglang:prompt_tokens_total", "sglang:generation_tokens_total", "sglang:num_requests_total",
			"sglang:num_queue_reqs", "sglang:" + kv},
	}[engine]
	for _, name := range served {
		labels := fmt.Sprintf(`namespace="llm",pod=%q,model_name=%q`, pod, name)
		r.prompt = append(r.prompt, w.series(names[0], labels))
		r.completion = append(r.completion, w.series(names[1], labels))
		r.requests = append(r.requests, w.series(names[2], labels))
	}
	labels := fmt.Sprintf(`namespace="llm",pod=%q,model_name=%q`, pod, served[0])
	r.waiting = w.series(names[3], labels)
	use := w.series(names[4], labels)
	counters := append(append(append([]*scraped{}, r.prompt...), r.completion...), r.requests...)
	counts := make([]float64, len(counters))
	for t := from; t.Before(to); t = t.Add(genScrape) {
		for _, offset := range resets {
			if at := genStart.Add(offset); !at.Before(t) && at.Before(t.Add(genScrape)) {
				clear(counts)
			}
		}
		load := 1.2 + math.Sin(2*math.Pi*t.Sub(genStart).Hours()/24)
		for i := range counts {
			perScrape := []float64{9000, 2500, 12}[i/len(served)] // prompt, completion, requests
			counts[i] += math.Floor(perScrape * load * (0.5 + rng.Float64()))
		}
		if within(t, gapFrom, gapTo) || (pod == "chat-70b-old-b" && within(t, blindFrom, blindTo)) {
			continue
		}
		for i, s := range counters {
			s.add(t, counts[i])
		}
		waiting := 0.0
		if pod == "chat-70b-old-a" && within(t, waitFrom, waitTo) {
			waiting = 3
		}
		r.waiting.add(t, waiting)
		use.add(t, 0.25)
	}
	return r
}

func within(t, from, to time.Time) bool { return !t.Before(from) && t.Before(to) }

// kube makes kube-state-metrics' series: ready replicas over the two weeks, the rest in the last hour.
func (w *world) kube() {
	deployment := `namespace="llm",deployment="chat-70b"`
	w.ready = w.series("kube_deployment_status_replicas_ready", deployment)
	for t := genStart.Add(11 * time.Second); t.Before(genEnd); t = t.Add(time.Minute) {
		if within(t, gapFrom, gapTo) {
			continue
		}
		ready := 2.0
		if within(t, genMid.Add(-time.Minute), genMid.Add(4*time.Minute)) {
			ready = 0
		}
		w.ready.add(t, ready)
	}
	recent := func(name, labels string, v float64) {
		s := w.series(name, labels)
		for t := genEnd.Add(-time.Hour + 11*time.Second); t.Before(genEnd); t = t.Add(time.Minute) {
			s.add(t, v)
		}
	}
	recent("kube_deployment_spec_replicas", deployment, 3)
	recent("kube_replicaset_owner", `namespace="llm",replicaset="chat-70b-new",owner_kind="Deployment",owner_name="chat-70b"`, 1)
	for _, p := range []struct {
		name    string
		ready   float64
		created time.Time
		leaving bool
	}{
		{"chat-70b-new-c", 1, genMid, false},
		{"chat-70b-new-d", 1, genMid, false},
		{"chat-70b-new-e", 0, genEnd.Add(-4 * time.Minute), false},
		{"chat-70b-new-f", 1, genMid, true},
	} {
		labels := fmt.Sprintf(`namespace="llm",pod=%q,uid="uid-%s"`, p.name, p.name)
		recent("kube_pod_owner", labels+`,owner_kind="ReplicaSet",owner_name="chat-70b-new"`, 1)
		recent("kube_pod_created", labels, float64(p.created.Unix()))
		recent("kube_pod_status_ready", labels+`,condition="true"`, p.ready)
		recent("kube_pod_status_ready", labels+`,condition="false"`, 1-p.ready)
		recent("kube_pod_status_phase", labels+`,phase="Failed"`, 0)
		if p.leaving {
			recent("kube_pod_deletion_timestamp", labels, float64(genEnd.Unix()))
		}
	}
}

// write writes everything as OpenMetrics text with timestamps.
func (w *world) write(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	var line []byte
	for _, s := range w.all {
		head := s.name + "{" + s.labels + "} "
		for i, at := range s.at {
			line = strconv.AppendFloat(append(line[:0], head...), s.values[i], 'f', -1, 64)
			line = strconv.AppendFloat(append(line, ' '), float64(at.UnixMilli())/1000, 'f', 3, 64)
			out.Write(append(line, '\n')) // a bufio.Writer keeps its first error for Flush
		}
	}
	out.WriteString("# EOF\n")
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// truth is what is known of a step that ends at T: the value lies in [low, high], which are the same number when every
// replica was scraped throughout.
type truth struct {
	low, high float64
	whole     int // replicas whose scrapes bound the step without a miss
}

// truthAt follows each counter from the last scrape before the step to the last scrape in it. A counter that was not
// scraped throughout contributes what was seen of it, spread over somewhere between the time seen and the window. A
// counter that is about as small as its own increase began lately; the server then extrapolates less.
func truthAt(replicas []*replica, of func(*replica) []*scraped, end time.Time) truth {
	var sum truth
	window := (genStep + genScrape).Seconds()
	for _, r := range replicas {
		whole := false
		for _, s := range of(r) {
			i, j := s.last(end.Add(-genStep)), s.last(end)
			if i >= 0 && end.Add(-genStep).Sub(s.at[i]) < genScrape && end.Sub(s.at[j]) < genScrape &&
				j-i == int(genStep/genScrape) {
				whole = true
				grown := s.increase(i, j)
				exact := grown / s.at[j].Sub(s.at[i]).Seconds()
				sum.high += exact
				if s.values[i] < grown {
					exact = grown / window
				}
				sum.low += exact
				continue
			}
			first := s.last(end.Add(-genStep-genScrape)) + 1
			if j > first {
				grown := s.increase(first, j)
				sum.low += grown / window
				sum.high += grown / s.at[j].Sub(s.at[first]).Seconds()
			}
		}
		if whole {
			sum.whole++
		}
	}
	return sum
}

// anyAbove reports whether a scrape in (end−step, end] read more than limit.
func (s *scraped) anyAbove(limit float64, end time.Time) bool {
	for i := s.last(end.Add(-genStep)) + 1; i <= s.last(end); i++ {
		if s.values[i] > limit {
			return true
		}
	}
	return false
}

// minIn returns the least scrape in (end−step, end], 0 when there is none.
func (s *scraped) minIn(end time.Time) float64 {
	least := math.Inf(1)
	for i := s.last(end.Add(-genStep)) + 1; i <= s.last(end); i++ {
		least = min(least, s.values[i])
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}
