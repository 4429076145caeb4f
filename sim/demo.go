package sim

import (
	"time"

	"forewarm/planner"
)

// DemoHistory is how much history the demo world is meant to be shown with.
const DemoHistory = 28 * 24 * time.Hour

// DemoWorld is the bad day that forewarm exists for, small enough to read: a 70B chat model and an 8B code model on H100
// nodes, Monday 2026-03-02 09:05 in Berlin. Three chat replicas serve a quiet hour; from about 09:13 everyone opens the
// assistant, and by 09:25 eight to ten are needed. One four-GPU hole is left on a node that runs the model already; six
// more free GPUs are scattered two-two-one-one and hold no chat replica; everything else needs a new node, ten minutes
// away.
//
// Physics, start times and node times are published figures; each names its source. Demand is fitted (fitted.go).
func DemoWorld() World {
	return World{
		Start:      time.Date(2026, time.March, 2, 8, 5, 0, 0, time.UTC), // 09:05 in Berlin, UTC+1
		Models:     []Model{demoChat(), demoCode()},
		Pools:      []Pool{demoPool()},
		Autoscaler: DefaultAutoscaler(),
	}
}

// DemoTimezone is the wall clock of the demo's users.
const DemoTimezone = "Europe/Berlin"

func demoChat() Model {
	weekend := OfficeWeekend
	prompt, completion, cv := AzureConversation()
	return Model{
		Name:  "chat-70b",
		Shape: planner.Shape{GPUs: 4, Pods: 1, Product: demoProduct},
		Physics: Physics{
			// Llama-3.3-70B FP8 on two H100 prefills 12k tokens/s (TensorRT-LLM v1.0 performance overview, 2048/128); the
			// cost per token falls like tp^-0.5, so four do 17k.
			Prompt: 17_000,
			// Llama-3.1-70B at tp 4: 3,543 tokens/s (vLLM v0.6.0 benchmark by Lambda).
			Completion: 3_500,
			// a₀ 3 ms + 70 GB of weights over four times 3.35 TB/s.
			IterationFloor: 8 * time.Millisecond,
			Chunk:          2048, // vLLM's default budget with chunked prefill
			Concurrent:     128,
		},
		Profile: planner.Profile{Prompt: 13_600, Completion: 2_800,
			Source: "80 % of saturation, so that TTFT holds; saturation: TensorRT-LLM v1.0 perf-overview (70B FP8, 2 x H100, " +
				"2048/128, scaled to 4) and vLLM v0.6.0 (70B, tp 4)"},
		Workload: Workload{
			Requests: 10, Timezone: DemoTimezone, Day: OfficeDay(), Weekend: &weekend, Bursts: []Burst{MorningBurst()},
			Level: OfficeLevel(), Clients: HeavyChatClients(), ArrivalCV: cv, Prompt: prompt, Completion: completion,
		},
		Startup: Startup{
			Schedule: Lognormal{Median: 5 * time.Second, Sigma: 0.3},
			// 224 s for the pull and 46 to 92 s for the engine in whole chains measured on EKS and on 8 x H100; 38 s with a
			// compile cache; weights 84 s with the stock loader (ServerlessLLM, LLaMA-2-70B), 27 s sharded from disk. The
			// first answer comes up to 30 s after the log says ready (vllm#20264).
			ImagePull:     Lognormal{Median: 224 * time.Second, Sigma: 0.2},
			Weights:       Lognormal{Median: 84 * time.Second, Sigma: 0.2},
			CachedWeights: Lognormal{Median: 27 * time.Second, Sigma: 0.15},
			EngineInit:    Lognormal{Median: 92 * time.Second, Sigma: 0.1},
			CachedInit:    Lognormal{Median: 38 * time.Second, Sigma: 0.1},
			FirstToken:    Lognormal{Median: 20 * time.Second, Sigma: 0.3},
			FailureProb:   0.02,
		},
		Replicas: 3, ReplicasMin: 1, ReplicasMax: 14,
		QueueMax: 5_000, Patience: time.Minute, DrainMax: 2 * time.Minute,
		SLO: SLO{TTFT: 2 * time.Second, ITL: 200 * time.Millisecond},
	}
}

func demoCode() Model {
	weekend := OfficeWeekend
	prompt, completion, cv := AzureCode()
	burst := MorningBurst()
	burst.Multiple = 1.7 // the Azure 2024 code service from one working hour to the next
	return Model{
		Name:  "code-8b",
		Shape: planner.Shape{GPUs: 1, Pods: 1, Product: demoProduct},
		Physics: Physics{
			// Llama-3.1-8B FP8 on one H100: 55k prompt tokens/s (TensorRT-LLM v1.0, 2048/128), 8,088 tokens/s (vLLM v0.6.0).
			Prompt: 55_000, Completion: 8_088,
			IterationFloor: 6300 * time.Microsecond, // measured α of an 8B at tp 1
			Chunk:          2048,
			Concurrent:     256,
		},
		// Requests come in trains of dozens, whose last ones wait for the prefill of the first: three replicas attain the
		// SLO for 99 % of them at 35 % of saturation, one at no load that is worth its GPU.
		Profile: planner.Profile{Prompt: 19_250, Completion: 2_830,
			Source: "35 % of saturation, so that TTFT holds under trains of arrivals; saturation: TensorRT-LLM v1.0 " +
				"perf-overview (8B FP8, H100, 2048/128) and vLLM v0.6.0 (8B)"},
		Workload: Workload{
			Requests: 8, Timezone: DemoTimezone, Day: OfficeDay(), Weekend: &weekend, Bursts: []Burst{burst},
			Level: OfficeLevel(), Clients: HeavyCodeClients(), ArrivalCV: cv, Prompt: prompt, Completion: completion,
		},
		Startup: Startup{
			Schedule:  Lognormal{Median: 5 * time.Second, Sigma: 0.3},
			ImagePull: Lognormal{Median: 224 * time.Second, Sigma: 0.2},
			// 58 s of download on EKS; from the page cache under a second, from disk a few. Engine: 39.3 s with compilation
			// (vllm#11005), 14.2 s without.
			Weights:       Lognormal{Median: 58 * time.Second, Sigma: 0.2},
			CachedWeights: Lognormal{Median: 6 * time.Second, Sigma: 0.2},
			EngineInit:    Lognormal{Median: 39 * time.Second, Sigma: 0.1},
			CachedInit:    Lognormal{Median: 14 * time.Second, Sigma: 0.1},
			FirstToken:    Lognormal{Median: 10 * time.Second, Sigma: 0.3},
			FailureProb:   0.02,
		},
		Replicas: 2, ReplicasMin: 2, ReplicasMax: 8,
		QueueMax: 5_000, Patience: time.Minute, DrainMax: time.Minute,
		SLO: SLO{TTFT: 2 * time.Second, ITL: 100 * time.Millisecond},
	}
}

// demoProduct is the label value that GPU feature discovery gives an H100.
const demoProduct = "NVIDIA-H100-80GB-HBM3"

func demoPool() Pool {
	both := []string{"chat-70b", "code-8b"}
	return Pool{
		Name: "h100", Product: demoProduct, GPUsPerNode: 8, NodesMax: 12,
		Nodes: []Node{
			{Name: "h100-a", GPUs: 8, Cached: both},
			{Name: "h100-b", GPUs: 8, Cached: both},
			{Name: "h100-c", GPUs: 8, Others: 6},
			{Name: "h100-d", GPUs: 8, Others: 6},
			// The two code replicas start on e and f, the tightest fit; g and h keep a single free GPU each.
			{Name: "h100-e", GPUs: 8, Others: 7, Cached: []string{"code-8b"}},
			{Name: "h100-f", GPUs: 8, Others: 7, Cached: []string{"code-8b"}},
			{Name: "h100-g", GPUs: 8, Others: 7},
			{Name: "h100-h", GPUs: 8, Others: 7},
		},
		// A chain measured on EKS with Karpenter has 167 s from NodeClaim to scheduled; the instance of a lab run was up
		// after 35 s.
		Launch:    Lognormal{Median: 40 * time.Second, Sigma: 0.25},
		Ready:     Lognormal{Median: 125 * time.Second, Sigma: 0.2},
		IdleAfter: 10 * time.Minute,
	}
}
