package planner

import (
	"fmt"
	"time"

	"forewarm/coldstart"
)

// apiServer is R4: the API server is slow, so that every write makes it worse and every start takes longer. The plan is
// frozen. Managed control planes may hide the series: apiserver_request_sli_duration_seconds_bucket,
// apiserver_flowcontrol_rejected_requests_total.
func (x *examination) apiServer() Finding {
	f := Finding{Rule: RuleAPIServer, Verdict: Clear}
	if x.Cluster == nil {
		return unknown(f.Rule, "evidence of the cluster")
	}
	if why := windowMissing(x.Cluster.From, x.Cluster.To, x.Now, x.t); why != "" {
		return unknown(f.Rule, why)
	}
	if l := x.Cluster.APIList; l == nil {
		f.Missing = append(f.Missing, "duration of LIST requests")
	} else if l.Low > x.t.APIListSecond {
		f.Evidence = append(f.Evidence, Measured{"seconds of a namespace LIST, p99", "", l.Low, x.t.APIListSecond})
	}
	if r := x.Cluster.APIRejected; r == nil {
		f.Missing = append(f.Missing, "requests rejected by flow control")
	} else if r.Low > 0 {
		f.Evidence = append(f.Evidence, Measured{"requests/s rejected by flow control", "", r.Low, 0})
	}
	switch {
	case len(f.Evidence) > 0:
		f.Verdict, f.Owner = Veto, OwnerPlatform
		f.Why = "the API server is slow: more writes make it worse, and starts take longer than measured"
		f.Remedy = "find the client that lists or writes most; the plan is frozen meanwhile"
	case x.Cluster.APIList == nil:
		f.Verdict = Unknown
	}
	return f
}

// noStock is R6: pools that could hold the model's replicas get no nodes. It is a hint: what no node can hold is a
// shortfall of the plan already. Series: karpenter_nodeclaims_disrupted_total{reason="insufficient_capacity"}.
func (x *examination) noStock() Finding {
	f := Finding{Rule: RuleNoStock, Verdict: Clear}
	if x.Inventory == nil {
		return unknown(f.Rule, "inventory")
	}
	failed := map[string]float64{}
	if x.Cluster != nil && windowMissing(x.Cluster.From, x.Cluster.To, x.Now, x.t) == "" {
		failed = x.Cluster.LaunchesFailed
	}
	for _, p := range x.Inventory.Pools {
		if x.Model.Shape.Product != "" && p.Product != x.Model.Shape.Product {
			continue
		}
		if n := failed[p.Name]; p.NoStock || n > 0 {
			f.Evidence = append(f.Evidence, Measured{"launches failed for lack of stock", p.Name, max(n, 1), 0})
		}
	}
	if len(f.Evidence) > 0 {
		f.Verdict, f.Owner = Hint, OwnerPlatform
		f.Why = "the provider has no nodes for a pool of this model: a new replica that needs one would stay pending"
		f.Remedy = "offer another pool, zone or instance type; keep the warm nodes that there are"
	}
	return f
}

// inFlight is R7: what starts already covers what is short now, so that adding more would not help sooner. Starts that
// take longer than the lead time's quantile are not waited for: their pods are to be looked at. A hint: starting replicas
// are supply already, and with replicas short no veto applies.
func (x *examination) inFlight() Finding {
	f := Finding{Rule: RuleInFlight, Verdict: Clear}
	r := x.Model.Replicas
	if r == nil {
		return unknown(f.Rule, "replicas")
	}
	starting := r.ordered()
	if len(starting) == 0 {
		return f
	}
	for _, s := range starting {
		within, ok := x.startsWithin(s.Path)
		if !ok {
			f.Missing = append(f.Missing, "lead time of "+s.ID)
		} else if took := x.Now.Sub(s.Since); took > within {
			f.Evidence = append(f.Evidence, Measured{"seconds since the start was ordered", s.ID, took.Seconds(), within.Seconds()})
		}
	}
	switch short := x.NeedNow; {
	case len(f.Evidence) > 0:
		f.Verdict, f.Owner = Hint, OwnerPlatform
		f.Why = fmt.Sprintf("%d of %d starts take longer than %s %% of all do", len(f.Evidence), len(starting), percent(x.t.StartQuantile))
		f.Remedy = "look at the pods that start, before adding more"
	case len(f.Missing) > 0:
		f.Verdict = Unknown
	case short == nil:
		return unknown(f.Rule, "what the load needs")
	case *short > r.Ready && len(starting) >= *short-r.Ready:
		f.Verdict, f.Owner = Hint, OwnerPlatform
		f.Evidence = []Measured{{"replicas starting", "", float64(len(starting)), float64(*short - r.Ready)}}
		f.Why = fmt.Sprintf("%d replicas are short and %d are starting: more would not come sooner", *short-r.Ready, len(starting))
		f.Remedy = "wait for them"
	}
	return f
}

// startsWithin is the lead time's quantile on a path; ok is false when it is unknown.
func (x *examination) startsWithin(path coldstart.Path) (within time.Duration, ok bool) {
	for _, lt := range x.Model.LeadTimes {
		if lt.Path == path && lt.Known() {
			return lt.Quantile(x.t.StartQuantile), true
		}
	}
	return 0, false
}

// before is R8: more than half of the time to first token passes before the engine has the request, while nothing waits
// there. A TTFT within its bound is nobody's problem. Series: the gateway's request duration or OpenTelemetry GenAI
// spans, minus the engine's own.
func (x *examination) before() Finding {
	f := Finding{Rule: RuleBefore, Verdict: Clear}
	if x.problem != "" {
		return unknown(f.Rule, x.problem)
	}
	e := x.evidence
	if e.TTFT == nil {
		f.Missing = append(f.Missing, "TTFT at the gateway")
	}
	if e.BeforeEngine == nil {
		f.Missing = append(f.Missing, "time before the engine")
	}
	waiting, n := 0.0, 0
	for _, p := range x.settled {
		if p.Waiting == nil {
			f.Missing = append(f.Missing, "waiting requests of "+p.Pod)
			continue
		}
		waiting = max(waiting, p.Waiting.Mean)
		n++
	}
	if n == 0 {
		f.Missing = append(f.Missing, "waiting requests")
	}
	if len(f.Missing) > 0 {
		return unknown(f.Rule, f.Missing...)
	}
	if waiting >= x.t.Waiting || e.BeforeEngine.Low <= x.t.BeforeEngine*e.TTFT.Mean || e.TTFT.Mean <= x.TTFT.Seconds() {
		return f
	}
	f.Verdict, f.Owner = Veto, OwnerApplication
	f.Evidence = []Measured{{"seconds before the engine, at least", "", e.BeforeEngine.Low, x.t.BeforeEngine * e.TTFT.Mean},
		{"seconds of TTFT, mean", "", e.TTFT.Mean, x.TTFT.Seconds()}}
	f.Why = fmt.Sprintf("%.1f of %.1f s until the first token pass before the engine has the request, and nothing waits there",
		e.BeforeEngine.Mean, e.TTFT.Mean)
	f.Remedy = "look at the application and the gateway: retrieval, guardrails, connection pools"
	return f
}

// probes is R9: exec probes fail while the API server is slow: the kubelet cannot run them in time, and the replicas are
// healthy. Pods that are not ready count here, since failing probes make them so.
func (x *examination) probes() Finding {
	f := Finding{Rule: RuleProbes, Verdict: Clear}
	api := x.apiServer()
	if x.problem != "" {
		return unknown(f.Rule, x.problem)
	}
	for _, p := range x.live {
		if p.ExecProbeFailures == nil {
			f.Missing = append(f.Missing, "exec probe failures of "+p.Pod)
		} else if p.ExecProbeFailures.Low > 0 {
			f.Evidence = append(f.Evidence, Measured{"failed exec probes per minute", p.Pod, p.ExecProbeFailures.Low, 0})
		}
	}
	switch {
	case len(f.Evidence) == 0 && len(f.Missing) > 0:
		f.Verdict = Unknown
	case len(f.Evidence) == 0:
	case api.Verdict == Unknown:
		return unknown(f.Rule, append(f.Missing, api.Missing...)...)
	case api.Verdict == Veto:
		f.Verdict, f.Owner = Veto, OwnerPlatform
		f.Evidence = append(f.Evidence, api.Evidence...)
		f.Why = "exec probes fail while the API server is slow: the replicas are not the cause"
		f.Remedy = "use HTTP or gRPC probes, with longer timeouts"
	default:
		f.Evidence = nil
	}
	return f
}

// rollout is R10: while a rollout is in progress readiness comes and goes without meaning.
func (x *examination) rollout() Finding {
	f := Finding{Rule: RuleRollout, Verdict: Clear}
	r := x.Model.Replicas
	if r == nil {
		return unknown(f.Rule, "replicas")
	}
	surge := 0
	if r.Desired == nil {
		f.Missing = []string{"desired replicas"}
	} else {
		surge = r.Ready + len(r.Starting) - *r.Desired
	}
	if surge <= 0 && (r.Leaving == 0 || len(r.Starting) == 0) {
		return f
	}
	f.Verdict, f.Owner = Hint, OwnerApplication
	f.Evidence = []Measured{{"replicas above the desired count", "", float64(max(surge, 0)), 0},
		{"replicas leaving", "", float64(r.Leaving), 0}}
	f.Why = "replicas are being replaced: surge is no supply and readiness of those that leave is noise"
	f.Remedy = "wait for the rollout"
	return f
}

// transfer is R12: KV transfers between prefill and decode replicas fail, so that decode computes prompts again.
func (x *examination) transfer() Finding {
	f := Finding{Rule: RuleTransfer, Verdict: Clear}
	e := x.evidence
	switch {
	case x.problem != "":
		return unknown(f.Rule, x.problem)
	case e.Disaggregated == nil:
		return unknown(f.Rule, "whether prefill and decode are apart")
	case !*e.Disaggregated:
		return f
	case e.TransferErrors == nil:
		return unknown(f.Rule, "KV transfer errors")
	case e.DecodePrefill == nil:
		return unknown(f.Rule, "prompt tokens computed by decode replicas")
	case e.TransferErrors.Low > 0 && e.DecodePrefill.Low > 0:
		f.Verdict, f.Owner = Hint, OwnerPlatform
		f.Evidence = []Measured{{"KV transfers/s that fail", "", e.TransferErrors.Low, 0},
			{"prompt tokens/s computed by decode replicas", "", e.DecodePrefill.Low, 0}}
		f.Why = "KV transfers fail and decode replicas compute the prompts again"
		f.Remedy = "look at the network between the pools and the transfer library's log"
	}
	return f
}

// longContext is R13: tokens per request rise and requests do not.
func (x *examination) longContext() Finding {
	f := Finding{Rule: RuleLongContext, Verdict: Clear}
	if x.problem != "" {
		return unknown(f.Rule, x.problem)
	}
	e := x.evidence
	for _, fact := range []struct {
		seen bool
		what string
	}{{e.RequestTokens != nil, "tokens per request"}, {e.RequestTokensUsual != nil, "usual tokens per request"},
		{e.Requests != nil, "requests"}, {e.RequestsUsual != nil, "usual requests"}} {
		if !fact.seen {
			f.Missing = append(f.Missing, fact.what)
		}
	}
	if len(f.Missing) > 0 {
		return unknown(f.Rule, f.Missing...)
	}
	if *e.RequestTokensUsual == 0 || *e.RequestsUsual == 0 {
		return f // nothing is usual yet
	}
	longer, more := e.RequestTokens.Low / *e.RequestTokensUsual, e.Requests.Mean / *e.RequestsUsual
	if longer > x.t.LongerRequest && more <= x.t.MoreRequests {
		f.Verdict, f.Owner = Hint, OwnerApplication
		f.Evidence = []Measured{{"tokens per request ÷ usual", "", longer, x.t.LongerRequest},
			{"requests ÷ usual, at most", "", more, x.t.MoreRequests}}
		f.Why = fmt.Sprintf("requests carry %.1f times the usual tokens while there are %.1f times as many", longer, more)
		f.Remedy = "name the clients that send long contexts; limit admission, or use a shape with more KV cache per dollar"
	}
	return f
}
