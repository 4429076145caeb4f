package prom

import "slices"

// Fact is what a metric says about a model, whatever its name in this engine and version.
type Fact string

// The facts that are read. Token and request facts are counters, the rest gauges.
const (
	FactPrompt     Fact = "prompt_tokens"
	FactCompletion Fact = "completion_tokens"
	FactRequests   Fact = "requests"
	FactWaiting    Fact = "waiting_requests"
	FactRunning    Fact = "running_requests"
	FactKVUse      Fact = "kv_cache_use"
)

// The parts of the mean time between tokens, in seconds: they are read only of models whose profile is learned.
const (
	FactITLSum   Fact = "inter_token_seconds"
	FactITLCount Fact = "inter_token_count"
)

// facts lists all facts in the order in which they are reported.
var facts = []Fact{FactPrompt, FactCompletion, FactRequests, FactWaiting, FactRunning, FactKVUse}

// family is the metrics of one engine or one kind of gateway. For each fact it lists alternative names, the one to
// prefer first: where one exporter emits both an old and a new name, only the first found is read.
type family struct {
	name    string
	metrics map[Fact][]metric
}

// named makes metrics without matchers of their own.
func named(names ...string) []metric {
	out := make([]metric, len(names))
	for i, n := range names {
		out[i] = metric{name: n}
	}
	return out
}

// typed makes metrics that count several things apart by one label.
func typed(label, op, value string, names ...string) []metric {
	out := named(names...)
	for i := range out {
		out[i].fixed = matchers{{label, op, value}}
	}
	return out
}

// engines are the families of model servers. Names: vLLM docs/design/metrics.md and v1/metrics/loggers.py (KV use was
// renamed by vllm#18354, and the old name removed by vllm#29330); the model-server table of the Gateway API inference
// extension for SGLang and trtllm-serve; TGI, Triton and llama.cpp as their readers use them. Triton's TensorRT-LLM
// backend and trtllm-serve expose no token counters.
var engines = []family{
	{"vllm", map[Fact][]metric{
		FactPrompt:     named("vllm:prompt_tokens_total"),
		FactCompletion: named("vllm:generation_tokens_total"),
		FactRequests:   named("vllm:request_success_total"),
		FactWaiting:    named("vllm:num_requests_waiting"),
		FactRunning:    named("vllm:num_requests_running"),
		FactKVUse:      named("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
	}},
	{"sglang", map[Fact][]metric{
		FactPrompt:     named("sglang:prompt_tokens_total"),
		FactCompletion: named("sglang:generation_tokens_total"),
		FactRequests:   named("sglang:num_requests_total"),
		FactWaiting:    named("sglang:num_queue_reqs"),
		FactRunning:    named("sglang:num_running_reqs"),
		FactKVUse:      named("sglang:token_usage"),
	}},
	{"triton", map[Fact][]metric{
		FactRequests: named("nv_inference_request_success"),
		FactWaiting:  typed("request_type", "=", "waiting", "nv_trt_llm_request_metrics"),
		FactRunning:  typed("request_type", "=", "scheduled", "nv_trt_llm_request_metrics"),
		FactKVUse:    typed("kv_cache_block_type", "=", "fraction", "nv_trt_llm_kv_cache_block_metrics"),
	}},
	{"trtllm-serve", map[Fact][]metric{
		FactRequests: named("trtllm_request_success_total"),
		FactWaiting:  named("trtllm_num_requests_waiting"),
		FactRunning:  named("trtllm_num_requests_running"),
		FactKVUse:    named("trtllm_kv_cache_utilization"),
	}},
	{"tgi", map[Fact][]metric{
		FactPrompt:     named("tgi_request_input_length_sum"),
		FactCompletion: named("tgi_request_generated_tokens_sum"),
		FactRequests:   named("tgi_request_count", "tgi_request_success"),
		FactWaiting:    named("tgi_queue_size"),
		FactRunning:    named("tgi_batch_current_size"),
	}},
	{"llama.cpp", map[Fact][]metric{
		FactPrompt:     named("llamacpp:prompt_tokens_total"),
		FactCompletion: named("llamacpp:tokens_predicted_total"),
		FactWaiting:    named("llamacpp:requests_deferred"),
		FactRunning:    named("llamacpp:requests_processing"),
		FactKVUse:      named("llamacpp:kv_cache_usage_ratio"),
	}},
}

// betweenTokens are the metrics of the time between tokens, of the engines that have such a histogram.
var betweenTokens = map[string]map[Fact][]metric{
	"vllm": {
		FactITLSum:   named("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
		FactITLCount: named("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"),
	},
	"sglang": {
		FactITLSum:   named("sglang:inter_token_latency_seconds_sum", "sglang:time_per_output_token_seconds_sum"),
		FactITLCount: named("sglang:inter_token_latency_seconds_count", "sglang:time_per_output_token_seconds_count"),
	},
}

// Engines returns the names that ModelConfig.Engine may have besides auto.
func Engines() []string {
	var names []string
	for _, f := range engines {
		names = append(names, f.name)
	}
	return names
}

// gieFamily is the endpoint picker of the Gateway API inference extension and the llm-d router. The llm_d_epp_* names
// are emitted beside their predecessors (llm-d-router docs/metrics.md, "Deprecated series"). Token histograms are filled
// from the usage block of the finished answer and request counters after the scheduler placed the request, so both are
// clipped while the flow-control queue is not empty; the one counter of true arrivals,
// *_flow_control_request_enqueue_duration_seconds_count, bears no model label and can only be named as a custom metric.
var gieFamily = family{ArrivalsGIE, map[Fact][]metric{
	FactPrompt: named("llm_d_epp_request_input_tokens_sum", "inference_objective_input_tokens_sum",
		"inference_model_input_tokens_sum"),
	FactCompletion: named("llm_d_epp_request_output_tokens_sum", "inference_objective_output_tokens_sum",
		"inference_model_output_tokens_sum"),
	FactRequests: slices.Concat(
		named("llm_d_epp_request_total", "inference_objective_request_total", "inference_model_request_total"),
		typed("status", "=", "success", "llm_d_epp_scheduler_attempts_total", "inference_extension_scheduler_attempts_total")),
	FactWaiting: named("llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size"),
}}

// genAITokenNames are the Prometheus names of the OpenTelemetry histogram gen_ai.client.token.usage: with and without
// the unit (Envoy AI Gateway emits it), and with the prefix of agentgateway.
var genAITokenNames = []string{"gen_ai_client_token_usage_token_sum", "gen_ai_client_token_usage_sum",
	"agentgateway_gen_ai_client_token_usage_sum"}

// genAIFamily follows the OpenTelemetry semantic conventions for generative AI. Token type "completion" is the older
// spelling of "output". The histogram is recorded when the operation ends.
var genAIFamily = family{ArrivalsGenAI, map[Fact][]metric{
	FactPrompt:     typed("gen_ai_token_type", "=", "input", genAITokenNames...),
	FactCompletion: typed("gen_ai_token_type", "=~", "output|completion", genAITokenNames...),
	FactRequests:   named("gen_ai_server_request_duration_seconds_count", "gen_ai_client_operation_duration_seconds_count"),
}}

// gatewayFamilies returns the families that Arrivals may be read from, in order of preference. The configuration must
// be valid.
func (a Arrivals) gatewayFamilies() []family {
	switch a.Source {
	case ArrivalsGIE:
		return []family{gieFamily}
	case ArrivalsGenAI:
		return []family{genAIFamily}
	case ArrivalsCustom:
		custom := family{ArrivalsCustom, map[Fact][]metric{}}
		for fact, list := range map[Fact][]string{
			FactPrompt: a.Prompt, FactCompletion: a.Completion, FactRequests: a.Requests, FactWaiting: a.Queue,
		} {
			for _, s := range list {
				if m, err := parseMetric(s); err == nil { // always, after Validate
					custom.metrics[fact] = append(custom.metrics[fact], m)
				}
			}
		}
		return []family{custom}
	case ArrivalsNone:
		return nil
	}
	return []family{gieFamily, genAIFamily}
}

// gatewaySets returns the matchers that select a model at a gateway. Without matchers of its own they are made from the
// model's matchers on model_name; the others (namespace, pod) describe replicas and not the gateway. The inference
// extension labels a request with the name asked for and with the name it was rewritten to (empty if it was not): the
// rewritten one is what replicas serve.
func (a Arrivals) gatewaySets(f family, model []matchers) []matchers {
	if len(a.Matchers) > 0 {
		return mustParse(a.Matchers)
	}
	if f.name == ArrivalsCustom {
		return []matchers{{}} // the selectors say it all
	}
	var sets []matchers
	for _, set := range model {
		names := set.on("model_name")
		if len(names) == 0 {
			continue
		}
		relabeled := func(label string) matchers {
			out := slices.Clone(names)
			for i := range out {
				out[i].label = label
			}
			return out
		}
		if f.name == ArrivalsGenAI {
			sets = append(sets, relabeled("gen_ai_request_model"))
			continue
		}
		sets = append(sets, relabeled("target_model_name"),
			append(slices.Clone(names), matcher{"target_model_name", "=", ""}))
	}
	return sets
}

// mustParse parses sets that Validate has accepted.
func mustParse(sets []string) []matchers {
	var out []matchers
	for _, s := range sets {
		ms, err := parseMatchers(s)
		if err != nil {
			panic("prom: matchers that were not validated: " + err.Error())
		}
		out = append(out, ms)
	}
	return out
}
