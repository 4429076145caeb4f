//go:build e2e

package e2e

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// day is the season of the past that the burst cases make up.
const day = 24 * time.Hour

const (
	quietLoad = 150.0 // completion tok/s: 2 replicas, the minimum
	burstLoad = 700.0 // 7 replicas and some for the spread of the past
)

// burst is when the load rises, for how long, and how often it does so: daily, or many times a day at times that are the
// same on all days.
type burst struct {
	from          time.Time
	length, every time.Duration
	quiet         float64 // completion tok/s outside of it
}

// load is what was asked for at a time of the past: quiet or burst, with a ripple of 2 %, each burst up to a tenth larger
// or smaller than the next: against a past that repeats itself exactly no forecast can beat its copy, and one that does
// not beat the naive ones has no authority to shrink a plan.
func (b burst) load(at time.Time) float64 {
	ripple := 1 + 0.02*math.Sin(float64(at.Unix())*0.7)*math.Cos(float64(at.Unix())*0.013)
	index := math.Floor(float64(at.Sub(b.from)) / float64(b.every))
	if at.Sub(b.from)-time.Duration(index)*b.every < b.length {
		return burstLoad * ripple * (1 + 0.1*math.Sin(12.9898*index))
	}
	return b.quiet * ripple
}

// soon is when the burst of a case begins: in 35 to 40 s, of which an idle machine needs 25 to have the replicas ready and
// a busy one has been seen to need more than 30.
func soon(now time.Time) time.Time { return now.Add(40 * time.Second).Truncate(5 * time.Second) }

// past is two days of counters of prompt tokens, completion tokens and requests, until some minutes before the test.
func (b burst) past(now time.Time, prompt, completion, requests, labels string) []pastSeries {
	to := now.Add(-2 * time.Minute).Truncate(time.Minute)
	from := to.Add(-2 * day)
	return []pastSeries{
		{prompt, labels, func(at time.Time) float64 { return b.load(at) * promptPerCompletion }, from, to},
		{completion, labels, b.load, from, to},
		{requests, labels, func(at time.Time) float64 { return b.load(at) / completionPerRequest }, from, to},
	}
}

// enginePast is the past of the shipped model as a model server counted it.
func (b burst) enginePast(now time.Time) []pastSeries {
	return b.past(now, "vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total",
		fmt.Sprintf("model_name=%q,namespace=%q,pod=\"of-the-past\"", shippedName, shippedNamespace))
}

// gatewayPast is the past of a model as the gateway in front of it counted it.
func (b burst) gatewayPast(now time.Time, model string) []pastSeries {
	return b.past(now, "llm_d_epp_request_input_tokens_sum", "llm_d_epp_request_output_tokens_sum", "llm_d_epp_request_total",
		fmt.Sprintf("target_model_name=%q", model))
}

// burstScrape is the scrape interval of the burst cases, in the past and now.
const burstScrape = 2 * time.Second

// TestBurst is the reason for forewarm: every day the load rises at the same time; the Deployment has the planned
// replicas, ready, before it does, through the real KEDA and HPA controller with the shipped ScaledObject, while the
// load that can be seen is still low. When the burst comes nobody waits.
func TestBurst(t *testing.T) {
	k := newCase(t, shippedNamespace)
	k.deploy(shippedName, 2, 2*time.Second, 0)
	now := time.Now()
	b := burst{soon(now), 10 * time.Minute, day, quietLoad}
	e := startEmulator(t, k.client, &emulatedModel{name: shippedName, namespace: shippedNamespace, offered: quietLoad})
	p := startPrometheusOf(k.waiter, e, burstScrape, b.enginePast(now)...)
	config, err := k.cluster.observerConfig()
	k.must(err)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: burstScrape, method: "auto", window: "5m", kubeconfig: config,
		models: []modelSettings{{name: shippedName, namespace: shippedNamespace, policy: shippedPolicy}}}.text())
	k.scale(shippedName, shippedScaledObject(k, d.keda, p))

	// The HPA adds 8 pods at once and the rest of a larger plan 15 s later; 7 carry the burst.
	k.until(time.Until(b.from), "the plan to be raised and followed before the burst", func() (bool, string) {
		plan, err := d.answered(shippedName)
		n := k.replicas(shippedName)
		return err == nil && plan > 6 && n > 6 && n <= plan, fmt.Sprintf("the plan is %d, the Deployment wants %d, %v", plan, n, err)
	})
	planned := k.replicas(shippedName)
	k.until(time.Until(b.from), "the planned replicas to be ready before the burst", func() (bool, string) {
		o, err := k.client.get(deploymentPath(k.namespace, shippedName))
		return err == nil && o.number("status", "readyReplicas") >= planned, fmt.Sprint(o.number("status", "readyReplicas"), err)
	})
	t.Logf("%d replicas were ready %.1f s before the burst", planned, time.Until(b.from).Seconds())
	if seen, err := d.metric("forewarm_load_tokens_per_second", `kind="completion"`); err != nil || seen > 1.2*quietLoad {
		t.Errorf("the load seen before the burst is %v completion tok/s (%v): what was ordered was no forecast", seen, err)
	}

	k.until(time.Until(b.from)+time.Second, "the burst", func() (bool, string) { return !time.Now().Before(b.from), "" })
	e.offer(shippedName, burstLoad)
	before := e.served(shippedName)
	k.until(30*time.Second, "five seconds of the burst to be served", func() (bool, string) {
		served := e.served(shippedName) - before
		return served >= 5*burstLoad, fmt.Sprintf("%.0f completion tokens served", served)
	})
	if n := k.replicas(shippedName); n < planned {
		t.Errorf("%d replicas within the burst, %d were planned before it", n, planned)
	}
	if lost := e.lost(shippedName); lost > 0 {
		t.Errorf("%.0f completion tokens had to wait in the burst", lost)
	}
}

// TestFromZeroByForecast starts a model without any replica before anybody asks for it, because they do at this time
// every day: its replicas are ready while the gateway has not seen a request yet.
func TestFromZeroByForecast(t *testing.T) {
	const model = "foreseen"
	k := newCase(t, "foreseen")
	k.deploy(model, 0, 2*time.Second, 0)
	now := time.Now()
	b := burst{soon(now), 10 * time.Minute, day, 0}
	e := startEmulator(t, k.client, &emulatedModel{name: model, namespace: k.namespace, gateway: true})
	p := startPrometheusOf(k.waiter, e, burstScrape, b.gatewayPast(now, model)...)
	config, err := k.cluster.observerConfig()
	k.must(err)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: burstScrape, method: "auto", window: "5m", kubeconfig: config,
		models: []modelSettings{{name: model, namespace: k.namespace, gateway: true, policy: "replicas_min: 0, replicas_max: 12"}}}.text())
	k.scale(model, external(k, model, "external", d.keda, "minReplicaCount: 0\n  pollingInterval: 2\n  cooldownPeriod: 300"))
	k.until(time.Until(b.from), "the planned replicas to be ready before the burst", func() (bool, string) {
		o, err := k.client.get(deploymentPath(k.namespace, model))
		return err == nil && o.number("status", "readyReplicas") > 6, fmt.Sprint(o.number("status", "readyReplicas"), err)
	})
	t.Logf("%d replicas were ready %.1f s before the burst", k.replicas(model), time.Until(b.from).Seconds())
	if seen, err := d.metric("forewarm_load_tokens_per_second", `kind="completion"`); err != nil || seen > 0 {
		t.Errorf("the load seen before the burst is %v completion tok/s (%v): what was started was no forecast", seen, err)
	}
}

// TestRelease is the end of a burst: the load falls as it does at this time every day, and the Deployment follows the
// plan down. There were many bursts on these days, or else the forecast would have no authority to shrink the plan: it
// must have predicted more than one in its newest five hours. The shipped ScaledObject holds for 300 s before it scales
// down; only that is shortened here.
func TestRelease(t *testing.T) {
	k := newCase(t, shippedNamespace)
	k.deploy(shippedName, 8, 0, 0)
	now := time.Now()
	end := now.Add(20 * time.Second).Truncate(10 * time.Second)
	b := burst{end.Add(-4 * time.Minute), 4 * time.Minute, 10 * time.Minute, quietLoad}
	e := startEmulator(t, k.client, &emulatedModel{name: shippedName, namespace: shippedNamespace, offered: burstLoad})
	p := startPrometheusOf(k.waiter, e, burstScrape, b.enginePast(now)...)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: burstScrape, method: "auto",
		models: []modelSettings{{name: shippedName, namespace: shippedNamespace, policy: shippedPolicy}}}.text())
	k.scale(shippedName, shippedScaledObject(k, d.keda, p))
	k.must(k.client.merge(scaledObjectPath(k.namespace, shippedName), `{"spec": {"advanced":
		{"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}}}}}`))

	k.until(time.Until(end)+time.Second, "the end of the burst", func() (bool, string) {
		if n := k.replicas(shippedName); n < 7 {
			k.fatalf("%d replicas while the burst lasts", n)
		}
		return !time.Now().Before(end), ""
	})
	e.offer(shippedName, quietLoad)
	k.until(50*time.Second, "the plan to be lowered and followed",
		k.follows(d, shippedName, func(plan int) bool { return plan <= 3 }))
}
