package planner

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Evidence is what Diagnose looks at: how one model's replicas did over the last minutes. Every measurement is a pointer
// and nil is unknown, which makes the rules that need it unknown, never content. A model without Evidence is not
// diagnosed.
//
// Invariants: From is before To; every number is finite.
type Evidence struct {
	// From and To are the window that every Range is of. Rules want at least Thresholds.Window of it, and none that ended
	// longer than Thresholds.Lapse ago.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Pods are the model's pods, terminating ones among them, sorted by name.
	Pods []PodEvidence `json:"pods,omitempty"`
	// TTFT is the time to first token in seconds as the gateway or the client sees it, BeforeEngine the part of it that
	// passed before the engine had the request.
	TTFT         *Range `json:"ttft_seconds,omitempty"`
	BeforeEngine *Range `json:"before_engine_seconds,omitempty"`
	// Disaggregated is whether prefill and decode run in pools of their own; TransferErrors are KV transfers per second
	// between them that failed or were computed again, DecodePrefill the prompt tokens/s that decode replicas compute.
	Disaggregated  *bool  `json:"disaggregated,omitempty"`
	TransferErrors *Range `json:"kv_transfer_errors_per_second,omitempty"`
	DecodePrefill  *Range `json:"decode_prefill_tokens_per_second,omitempty"`
	// Requests are requests/s, RequestTokens prompt tokens per request; the usual values are those of the hours before.
	Requests           *Range   `json:"requests_per_second,omitempty"`
	RequestsUsual      *float64 `json:"requests_per_second_usual,omitempty"`
	RequestTokens      *Range   `json:"tokens_per_request,omitempty"`
	RequestTokensUsual *float64 `json:"tokens_per_request_usual,omitempty"`
	// OOMKillsElsewhere are containers of other workloads on the same nodes that were killed for memory in the window.
	OOMKillsElsewhere *float64 `json:"oom_kills_elsewhere,omitempty"`
}

// PodEvidence is one pod of a model.
type PodEvidence struct {
	Pod string `json:"pod"` // namespace/name
	// Created is when the pod was made; nil is unknown.
	Created *time.Time `json:"created,omitempty"`
	Ready   bool       `json:"ready"`
	// Terminating pods count nowhere.
	Terminating bool `json:"terminating,omitempty"`
	// CPULimited is whether a container of the pod has a CPU limit; one without is never throttled. Throttled is the
	// share of CFS periods in which it was.
	CPULimited *bool  `json:"cpu_limited,omitempty"`
	Throttled  *Range `json:"cpu_throttled_share,omitempty"`
	// CPUPressure is the share of time in which a task waited for a CPU (PSI some).
	CPUPressure *Range `json:"cpu_pressure_share,omitempty"`
	// GPUActive is the share of time in which the GPU's engine was active (DCGM_FI_PROF_GR_ENGINE_ACTIVE).
	GPUActive *Range `json:"gpu_active_share,omitempty"`
	// Preempted are preemptions per finished request, KVUsage the share of the KV cache in use.
	Preempted *Range `json:"preemptions_per_request,omitempty"`
	KVUsage   *Range `json:"kv_usage_share,omitempty"`
	Running   *Range `json:"running_requests,omitempty"`
	Waiting   *Range `json:"waiting_requests,omitempty"`
	// ExecProbeFailures are failed exec probes per minute; 0 when the pod has none.
	ExecProbeFailures *Range `json:"exec_probe_failures_per_minute,omitempty"`
	// OOMKills are the pod's containers that were killed for memory in the window.
	OOMKills *float64 `json:"oom_kills,omitempty"`
}

// Range is one measurement over the window: a threshold that Low exceeds was exceeded all the time, so that a short
// spike never makes a finding. Invariant: Low ≤ Mean ≤ High.
type Range struct {
	Low  float64 `json:"low"`
	Mean float64 `json:"mean"`
	High float64 `json:"high"`
}

// ClusterEvidence is what Diagnose looks at that is the same for all models. Its window is as in Evidence.
type ClusterEvidence struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// APIList is the 99th percentile of namespace LISTs in seconds (apiserver_request_sli_duration_seconds); nil where the
	// control plane hides it. APIRejected are requests/s that flow control rejected.
	APIList     *Range `json:"api_list_p99_seconds,omitempty"`
	APIRejected *Range `json:"api_rejected_per_second,omitempty"`
	// LaunchesFailed are node launches per pool that failed in the window for lack of stock; a pool left out is unknown.
	LaunchesFailed map[string]float64 `json:"launches_failed,omitempty"`
}

func (e *Evidence) problem() error {
	if e == nil {
		return nil
	}
	errs := []error{windowProblem("evidence", e.From, e.To)}
	checkRanges(&errs, "evidence", map[string]*Range{"ttft_seconds": e.TTFT, "before_engine_seconds": e.BeforeEngine,
		"kv_transfer_errors_per_second": e.TransferErrors, "decode_prefill_tokens_per_second": e.DecodePrefill,
		"requests_per_second": e.Requests, "tokens_per_request": e.RequestTokens})
	checkCounts(&errs, "evidence", map[string]*float64{"requests_per_second_usual": e.RequestsUsual,
		"tokens_per_request_usual": e.RequestTokensUsual, "oom_kills_elsewhere": e.OOMKillsElsewhere})
	for i := range e.Pods {
		p := &e.Pods[i]
		if i > 0 && e.Pods[i-1].Pod >= p.Pod {
			errs = append(errs, fmt.Errorf("evidence.pods[%d] is %q after %q: names must ascend without repeats", i, p.Pod, e.Pods[i-1].Pod))
		}
		where := fmt.Sprintf("evidence.pods[%q]", p.Pod)
		checkRanges(&errs, where, map[string]*Range{"cpu_throttled_share": p.Throttled, "cpu_pressure_share": p.CPUPressure,
			"gpu_active_share": p.GPUActive, "preemptions_per_request": p.Preempted, "kv_usage_share": p.KVUsage,
			"running_requests": p.Running, "waiting_requests": p.Waiting, "exec_probe_failures_per_minute": p.ExecProbeFailures})
		checkCounts(&errs, where, map[string]*float64{"oom_kills": p.OOMKills})
	}
	return errors.Join(errs...)
}

func (e *ClusterEvidence) problem() error {
	if e == nil {
		return nil
	}
	errs := []error{windowProblem("cluster_evidence", e.From, e.To)}
	checkRanges(&errs, "cluster_evidence", map[string]*Range{"api_list_p99_seconds": e.APIList, "api_rejected_per_second": e.APIRejected})
	for _, pool := range sortedKeys(e.LaunchesFailed) {
		n := e.LaunchesFailed[pool]
		checkCounts(&errs, "cluster_evidence", map[string]*float64{"launches_failed." + pool: &n})
	}
	return errors.Join(errs...)
}

func windowProblem(where string, from, to time.Time) error {
	if !plausible(from) || !plausible(to) || !from.Before(to) {
		return fmt.Errorf("%s is from %s to %s: a from before to, in the years %d to %d, is allowed", where,
			from.Format(time.RFC3339), to.Format(time.RFC3339), yearMin, yearMax)
	}
	return nil
}

func checkRanges(errs *[]error, where string, ranges map[string]*Range) {
	for _, key := range sortedKeys(ranges) {
		r := ranges[key]
		if r != nil && !(r.Low >= 0 && r.Low <= r.Mean && r.Mean <= r.High && !math.IsInf(r.High, 0)) {
			*errs = append(*errs, fmt.Errorf("%s.%s is low %v, mean %v, high %v: finite, 0 ≤ low ≤ mean ≤ high is allowed; "+
				"leave an unknown one out", where, key, r.Low, r.Mean, r.High))
		}
	}
}

func checkCounts(errs *[]error, where string, counts map[string]*float64) {
	for _, key := range sortedKeys(counts) {
		v := counts[key]
		if v != nil && !(*v >= 0 && !math.IsInf(*v, 0)) {
			*errs = append(*errs, fmt.Errorf("%s.%s is %v: a finite number of at least 0 is allowed; leave an unknown one out", where, key, *v))
		}
	}
}
