package planner

import "fmt"

// throttling is R1: the containers run into their own CPU limit. With the GPU idle more replicas of the same kind would
// throttle alike: a veto when at least half of the replicas show it, a hint otherwise and from the lower threshold on.
// Pods without a CPU limit have no series and are not throttled. Series: container_cpu_cfs_throttled_periods_total ÷
// container_cpu_cfs_periods_total, DCGM_FI_PROF_GR_ENGINE_ACTIVE.
func (x *examination) throttling() Finding {
	f := Finding{Rule: RuleThrottling, Verdict: Clear}
	if lacks := x.lacks(); lacks != nil {
		return unknown(f.Rule, lacks...)
	}
	idle := 0
	for _, p := range x.settled {
		switch {
		case p.CPULimited != nil && !*p.CPULimited:
			continue
		case p.Throttled == nil:
			f.Missing = append(f.Missing, "CPU throttling of "+p.Pod)
			continue
		case p.Throttled.Low <= x.t.ThrottledHint:
			continue
		}
		threshold := x.t.ThrottledHint
		if p.Throttled.Low > x.t.ThrottledVeto {
			threshold = x.t.ThrottledVeto
			if p.GPUActive == nil {
				f.Missing = append(f.Missing, "GPU activity of "+p.Pod)
			}
		}
		f.Evidence = append(f.Evidence, Measured{"share of CFS periods throttled", p.Pod, p.Throttled.Low, threshold})
		if threshold == x.t.ThrottledVeto && p.GPUActive != nil && p.GPUActive.High < x.t.GPUIdle {
			f.Evidence = append(f.Evidence, Measured{"GPU active, at most", p.Pod, p.GPUActive.High, x.t.GPUIdle})
			idle++
		}
	}
	if len(f.Evidence) == 0 {
		if len(f.Missing) > 0 {
			f.Verdict = Unknown
		}
		return f
	}
	f.Verdict, f.Owner = Hint, OwnerApplication
	f.Why = fmt.Sprintf("containers are throttled by their own CPU limit on some of %d replicas", len(x.settled))
	if x.most(idle) {
		f.Verdict = Veto
		f.Why = fmt.Sprintf("%d of %d replicas are throttled by their own CPU limit while their GPUs idle", idle, len(x.settled))
	}
	f.Remedy = "raise or remove the containers' CPU limit; requests may stay"
	return f
}

// cpuPressure is R2: tasks wait for a CPU, not because of an own limit, while the GPU idles: a noisy neighbour, or a
// request that is too small. It cannot be told from R1 without the throttling. Series:
// container_pressure_cpu_waiting_seconds_total (KubeletPSI), and those of R1.
func (x *examination) cpuPressure() Finding {
	f := Finding{Rule: RuleCPUPressure, Verdict: Clear}
	if lacks := x.lacks(); lacks != nil {
		return unknown(f.Rule, lacks...)
	}
	n, own := 0, 0
	for _, p := range x.settled {
		if p.CPUPressure == nil {
			f.Missing = append(f.Missing, "CPU pressure of "+p.Pod)
			continue
		}
		if p.CPUPressure.Low <= x.t.CPUPressure {
			continue
		}
		free := p.CPULimited != nil && !*p.CPULimited
		switch {
		case p.GPUActive == nil:
			f.Missing = append(f.Missing, "GPU activity of "+p.Pod)
		case p.GPUActive.High >= x.t.GPUIdle:
		case p.Throttled == nil && !free:
			f.Missing = append(f.Missing, "CPU throttling of "+p.Pod)
		case !free && p.Throttled.Low > x.t.ThrottledHint:
			own++ // R1 has it
		default:
			n++
			f.Evidence = append(f.Evidence, Measured{"share of time waiting for a CPU", p.Pod, p.CPUPressure.Low, x.t.CPUPressure},
				Measured{"GPU active, at most", p.Pod, p.GPUActive.High, x.t.GPUIdle})
		}
	}
	switch {
	case n == 0 && len(f.Missing) > 0 && own == 0:
		f.Verdict = Unknown
	case n == 0 && own > 0:
		f.Why = "the pods wait for their own CPU limit, see R1"
	case n > 0:
		f.Verdict, f.Owner = Hint, OwnerPlatform
		if x.most(n) {
			f.Verdict = Veto
		}
		f.Why = fmt.Sprintf("%d of %d replicas wait for a CPU without being throttled while their GPUs idle: a noisy neighbour, "+
			"or a CPU request that is too small", n, len(x.settled))
		f.Remedy = "raise the CPU request, or keep CPU-heavy pods off the GPU nodes"
	}
	return f
}

// preemption is R3: the engine lets in more than its KV cache holds and computes sequences again. While requests wait,
// demand is the cause and this is a hint only; with nobody waiting, a veto. Series: vllm:num_preemptions_total ÷
// vllm:request_success_total, vllm:kv_cache_usage_perc, vllm:num_requests_waiting.
func (x *examination) preemption() Finding {
	f := Finding{Rule: RulePreemption, Verdict: Clear}
	if lacks := x.lacks(); lacks != nil {
		return unknown(f.Rule, lacks...)
	}
	n, calm := 0, 0
	for _, p := range x.settled {
		switch {
		case p.Preempted == nil:
			f.Missing = append(f.Missing, "preemptions of "+p.Pod)
			continue
		case p.Preempted.Low <= x.t.Preempted:
			continue
		case p.KVUsage == nil:
			f.Missing = append(f.Missing, "KV cache usage of "+p.Pod)
			continue
		case p.KVUsage.Mean <= x.t.KVUsage:
			continue
		}
		n++
		f.Evidence = append(f.Evidence, Measured{"preemptions per finished request", p.Pod, p.Preempted.Low, x.t.Preempted},
			Measured{"KV cache in use", p.Pod, p.KVUsage.Mean, x.t.KVUsage})
		if p.Waiting == nil {
			f.Missing = append(f.Missing, "waiting requests of "+p.Pod)
		} else if p.Waiting.Mean < x.t.Waiting {
			calm++
			f.Evidence = append(f.Evidence, Measured{"requests waiting, below", p.Pod, p.Waiting.Mean, x.t.Waiting})
		}
	}
	if n == 0 {
		if len(f.Missing) > 0 {
			f.Verdict = Unknown
		}
		return f
	}
	f.Verdict, f.Owner = Hint, OwnerApplication
	f.Why = fmt.Sprintf("%d of %d replicas preempt running sequences for lack of KV cache", n, len(x.settled))
	if x.most(calm) {
		f.Verdict = Veto
		f.Why += " while hardly anything waits: not demand is the cause"
	}
	f.Remedy = "lower max_num_seqs or max_model_len, or raise gpu_memory_utilization"
	return f
}

// imbalance is R5: one replica carries more than twice the mean all through the window, so that new ones would idle.
// Replicas younger than the window are left out, else every scale-up would look like it; at least three must be seen.
// Series: vllm:num_requests_running + vllm:num_requests_waiting.
func (x *examination) imbalance() Finding {
	f := Finding{Rule: RuleImbalance, Verdict: Clear}
	if x.problem != "" {
		return unknown(f.Rule, x.problem)
	}
	sum, fullest, pod := 0.0, -1.0, ""
	for _, p := range x.settled {
		if p.Running == nil || p.Waiting == nil {
			f.Missing = append(f.Missing, "running and waiting requests of "+p.Pod)
			continue
		}
		sum += p.Running.Mean + p.Waiting.Mean
		if q := p.Running.Low + p.Waiting.Low; q > fullest {
			fullest, pod = q, p.Pod
		}
	}
	if len(f.Missing)+len(x.noAge) > 0 {
		return unknown(f.Rule, append(f.Missing, x.noAge...)...)
	}
	const least = 3
	if len(x.settled) < least {
		f.Why = fmt.Sprintf("%d settled replicas cannot be out of balance, %d can", len(x.settled), least)
		return f
	}
	mean := sum / float64(len(x.settled))
	if ratio := fullest / max(mean, 1); ratio > x.t.Imbalance {
		f.Verdict, f.Owner = Veto, OwnerPlatform
		f.Evidence = []Measured{{"requests of the fullest replica ÷ mean", pod, ratio, x.t.Imbalance}}
		f.Why = fmt.Sprintf("%s has at least %.0f requests where the %d replicas have %.1f on average: new replicas would idle",
			pod, fullest, len(x.settled), mean)
		f.Remedy = "balance per request: an inference gateway or an L7 balancer, or a connection age limit"
	}
	return f
}

// oom is R11. Kills in other pods fire nothing: they are listed, so that nobody chases them. The model's own are a hint.
// Terminating pods count nowhere.
func (x *examination) oom() Finding {
	f := Finding{Rule: RuleOOM, Verdict: Clear}
	if x.problem != "" {
		return unknown(f.Rule, x.problem)
	}
	for _, p := range x.live {
		if p.OOMKills == nil {
			f.Missing = append(f.Missing, "OOM kills of "+p.Pod)
		} else if *p.OOMKills > 0 {
			f.Evidence = append(f.Evidence, Measured{"containers killed for memory", p.Pod, *p.OOMKills, 0})
		}
	}
	switch elsewhere := x.evidence.OOMKillsElsewhere; {
	case len(f.Evidence) > 0:
		f.Verdict, f.Owner = Hint, OwnerApplication
		f.Why = "replicas are killed for memory: each comes back through a whole start"
		f.Remedy = "raise the containers' memory limit"
	case len(f.Missing) > 0:
		f.Verdict = Unknown
	case elsewhere != nil && *elsewhere > 0:
		f.Why = fmt.Sprintf("%.0f containers of other workloads were killed for memory, which says nothing about this model", *elsewhere)
	}
	return f
}
