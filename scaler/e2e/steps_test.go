//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// gaugeScrape is the scrape interval of cases that are driven by the queue, which is read at once.
const gaugeScrape = time.Second

// external is a ScaledObject with forewarm as its only trigger.
func external(k *kase, name, kind, address, more string) string {
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  maxReplicaCount: 40
  %[5]s
  triggers:
  - {type: %[3]s, metricType: AverageValue, metadata: {scalerAddress: %[4]q, model: %[1]s}}
`, name, k.namespace, kind, address, more)
}

// TestDeadBand is the HPA's tolerance of a tenth at 20 replicas: without the shipped `tolerance: "0"` plans of 21 and 22
// are swallowed and one of 23 is followed; with it every step is. What forewarm plans is the same for both.
func TestDeadBand(t *testing.T) {
	k := newCase(t, "dead-band")
	const plain, exact = "plain", "exact"
	k.deploy(plain, 20, 0, 0)
	k.deploy(exact, 20, 0, 0)
	e := startEmulator(t, k.client, &emulatedModel{name: plain, namespace: k.namespace},
		&emulatedModel{name: exact, namespace: k.namespace})
	p := startPrometheusOf(k.waiter, e, gaugeScrape)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: gaugeScrape, models: []modelSettings{
		{name: plain, namespace: k.namespace, policy: "replicas_min: 20"},
		{name: exact, namespace: k.namespace, policy: "replicas_min: 20"}}}.text())
	window := "stabilizationWindowSeconds: 0"
	behavior := "minReplicaCount: 1\n  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {%s}}}}"
	k.scale(plain, external(k, plain, "external", d.keda, fmt.Sprintf(behavior, window)))
	k.scale(exact, external(k, exact, "external", d.keda, fmt.Sprintf(behavior, window+`, tolerance: "0"`)))

	for _, step := range []struct{ plan, plain int }{{21, 20}, {22, 20}, {23, 23}} {
		for _, model := range []string{plain, exact} {
			e.wait(model, float64(5*step.plan-2)) // queue_threshold is 5 waiting requests a replica
		}
		for _, model := range []string{plain, exact} {
			k.until(20*time.Second, fmt.Sprintf("a plan of %d for %s", step.plan, model), d.answersWith(model, step.plan))
		}
		k.until(20*time.Second, fmt.Sprintf("%d replicas with tolerance 0", step.plan), k.wants(exact, step.plan))
		k.until(20*time.Second, fmt.Sprintf("the HPA of %s to see %d", plain, step.plan), func() (bool, string) {
			v, err := k.cluster.externalMetric(k.namespace, plain, 0)
			return err == nil && v == float64(step.plan), fmt.Sprint(v, err)
		})
		k.until(20*time.Second, fmt.Sprintf("%d replicas without", step.plain), k.wants(plain, step.plain))
		k.nothingChanges(plain, 4) // of two HPAs: each looked again
	}
}

// TestFromZero starts models without any replica when requests arrive at the gateway: by KEDA's polling, and by the push
// of StreamIsActive long before the polling interval ends. The push trigger's target comes by StreamMetricSpec.
func TestFromZero(t *testing.T) {
	k := newCase(t, "from-zero")
	const polled, pushed = "polled", "pushed"
	k.deploy(polled, 0, 2*time.Second, 0)
	k.deploy(pushed, 0, 2*time.Second, 0)
	e := startEmulator(t, k.client, &emulatedModel{name: polled, namespace: k.namespace, gateway: true},
		&emulatedModel{name: pushed, namespace: k.namespace, gateway: true})
	p := startPrometheusOf(k.waiter, e, gaugeScrape)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: gaugeScrape, models: []modelSettings{
		{name: polled, namespace: k.namespace, gateway: true, policy: "replicas_min: 0"},
		{name: pushed, namespace: k.namespace, gateway: true, policy: "replicas_min: 0"}}}.text())
	for _, model := range []string{polled, pushed} {
		k.until(20*time.Second, "a plan of 0 for "+model, d.answersWith(model, 0))
	}
	k.scale(polled, external(k, polled, "external", d.keda, "minReplicaCount: 0\n  pollingInterval: 2\n  cooldownPeriod: 300"))
	k.scale(pushed, external(k, pushed, "external-push", d.keda, "minReplicaCount: 0\n  pollingInterval: 300\n  cooldownPeriod: 300"))
	k.until(20*time.Second, "KEDA to open StreamIsActive and StreamMetricSpec", func() (bool, string) {
		n, err := d.metric("forewarm_keda_streams")
		return err == nil && n >= 2, fmt.Sprint(n, err)
	})
	k.until(20*time.Second, "the target of the push trigger", func() (bool, string) {
		o, err := k.client.get(hpaPath(k.namespace, pushed))
		return err == nil && o.text("spec", "metrics", 0, "external", "target", "averageValue") == "1", fmt.Sprint(o, err)
	})
	for _, model := range []string{polled, pushed} {
		if n := k.replicas(model); n != 0 {
			t.Fatalf("%s has %d replicas before anything arrived", model, n)
		}
		e.wait(model, 14) // 3 replicas at 5 waiting requests each
	}
	for _, model := range []string{pushed, polled} {
		k.until(20*time.Second, model+" to have a replica", func() (bool, string) {
			n := k.replicas(model)
			return n > 0, fmt.Sprint(n)
		})
	}
	for _, model := range []string{pushed, polled} {
		k.until(30*time.Second, model+" to have the planned 3 replicas, ready",
			k.field(3, deploymentPath(k.namespace, model), "status", "readyReplicas"))
	}
}
