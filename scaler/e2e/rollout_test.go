//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestRollingUpdate replaces all pods of a model under a constant load. New pods start beside the old ones, and old ones
// stay for a while after they were told to go: neither is demand, and neither counts as a replica that serves. The plan
// and the Deployment's number stay what they were. The replicas come from the cluster itself.
func TestRollingUpdate(t *testing.T) {
	const model, replicas = "rolled", 4
	k := newCase(t, "rollout")
	k.deploy(model, replicas, 2*time.Second, 6*time.Second)
	e := startEmulator(t, k.client, &emulatedModel{name: model, namespace: k.namespace, offered: 340})
	p := startPrometheusOf(k.waiter, e, gaugeScrape)
	config, err := k.cluster.observerConfig()
	k.must(err)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: gaugeScrape, kubeconfig: config,
		models: []modelSettings{{name: model, namespace: k.namespace, policy: "replicas_min: 1"}}}.text())
	k.scale(model, external(k, model, "external", d.keda, `minReplicaCount: 1
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {stabilizationWindowSeconds: 0, tolerance: "0"},
    scaleDown: {stabilizationWindowSeconds: 0}}}}`))
	k.until(40*time.Second, "a plan of 4 without gaps", func() (bool, string) {
		v, err := d.plan(model)
		if err != nil || v.Model.Replicas == nil {
			return false, fmt.Sprint(steps(v), err)
		}
		return *v.Model.Replicas == replicas && len(v.Gaps) == 0, steps(v)
	})

	path := deploymentPath(k.namespace, model)
	k.must(k.client.merge(path, `{"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}`))
	surge, leaving := 0, 0
	k.until(60*time.Second, "the rollout to be complete and all old pods to be gone", func() (bool, string) {
		if n := k.replicas(model); n != replicas {
			k.fatalf("%d replicas are wanted during the rollout, want %d", n, replicas)
		}
		if n, err := d.answered(model); err != nil || n != replicas {
			k.fatalf("the plan during the rollout is %d (%v), want %d", n, err, replicas)
		}
		if ready, err := d.metric("forewarm_replicas", `kind="ready"`); err != nil || !(ready <= replicas+1) {
			k.fatalf("%v replicas count as ready (%v): more than %d and a surge of 1", ready, err, replicas)
		}
		o, err := k.client.get(path)
		if err != nil {
			return false, err.Error()
		}
		world, err := readNamespace(k.client, k.namespace)
		if err != nil {
			return false, err.Error()
		}
		going := 0
		for _, pod := range world.pods {
			if pod.text("metadata", "deletionTimestamp") != "" {
				going++
			}
		}
		surge, leaving = max(surge, o.number("status", "replicas")), max(leaving, going)
		done := o.number("status", "observedGeneration") == o.number("metadata", "generation") &&
			o.number("status", "updatedReplicas") == replicas && o.number("status", "replicas") == replicas &&
			o.number("status", "readyReplicas") == replicas && len(world.pods) == replicas
		return done, fmt.Sprintf("%d updated of %d, %d pods, %d leaving", o.number("status", "updatedReplicas"),
			o.number("status", "replicas"), len(world.pods), going)
	})
	t.Logf("at most %d pods that counted, %d on their way out", surge, leaving)
	if surge <= replicas || leaving < 2 {
		t.Errorf("a surge of %d and %d leaving pods at most: the rollout did not show what it should", surge, leaving)
	}
}
