//go:build e2e

package e2e

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// kase is one case: a namespace of the shared control plane with Deployments, and what to print when it fails.
type kase struct {
	*waiter
	cluster   *cluster
	namespace string
}

// newCase makes a namespace; what the case creates in it is gone, pods included, before the case ends.
func newCase(t *testing.T, namespace string) *kase {
	t.Helper()
	c := sharedCluster(t)
	k := &kase{waiter: &waiter{t: t, client: c.client}, cluster: c, namespace: namespace}
	k.must(c.client.apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace)))
	for _, name := range []string{"keda-operator", "keda-adapter", "kube-controller-manager"} {
		k.watch(c.process(name))
	}
	return k
}

// deploy creates a Deployment called like a model, whose pods take start to become ready and stop to go away.
func (k *kase) deploy(model string, replicas int, start, stop time.Duration) {
	k.t.Helper()
	path := deploymentPath(k.namespace, model)
	k.about(path)
	k.must(k.client.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  strategy: {rollingUpdate: {maxUnavailable: 0}}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {%[4]s: "%[5]v", %[6]s: "%[7]v"}
    spec:
      terminationGracePeriodSeconds: 60
      containers:
      - {name: engine, image: "emulated/vllm:1", resources: {requests: {nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}}
`, model, k.namespace, replicas, startDelay, start, stopDelay, stop)))
	k.t.Cleanup(func() {
		if err := k.clear(path, "app="+model); err != nil {
			k.t.Error(err)
		}
	})
	k.until(30*time.Second+start, fmt.Sprintf("%d ready pods of %s", replicas, model),
		k.field(replicas, path, "status", "readyReplicas"))
}

// clear removes a Deployment and waits until its pods have gone, so that the next case with the same name starts clean.
func (k *kase) clear(path, selector string) error {
	if err := k.client.remove(path); err != nil {
		return err
	}
	return poll(60*time.Second, "the pods of "+path+" to be gone", func() (bool, string) {
		o, err := k.client.get("/api/v1/namespaces/" + k.namespace + "/pods?labelSelector=" + url.QueryEscape(selector))
		if err != nil {
			return false, err.Error()
		}
		return len(o.list("items")) == 0, fmt.Sprintf("%d pods", len(o.list("items")))
	})
}

// scale applies a ScaledObject of the case's namespace and waits until KEDA made its HPA.
func (k *kase) scale(name, yaml string) {
	k.t.Helper()
	k.about(scaledObjectPath(k.namespace, name), hpaPath(k.namespace, name))
	k.must(k.client.apply(yaml))
	k.t.Cleanup(func() {
		err := k.client.remove(scaledObjectPath(k.namespace, name))
		if err == nil {
			err = poll(60*time.Second, "the ScaledObject to be gone", func() (bool, string) {
				o, err := k.client.get(scaledObjectPath(k.namespace, name))
				return isNotFound(err), fmt.Sprint(o, err)
			})
		}
		if err != nil {
			k.t.Error(err)
		}
	})
	k.until(30*time.Second, "KEDA to make the HPA of "+name, func() (bool, string) {
		_, err := k.client.get(hpaPath(k.namespace, name))
		return err == nil, fmt.Sprint(err)
	})
}

// shippedScaledObject is configs/scaledobject.yaml, the one of the README, with nothing but the two addresses replaced.
func shippedScaledObject(k *kase, scaler string, p *prometheus) string {
	k.t.Helper()
	data, err := os.ReadFile("../../configs/scaledobject.yaml")
	k.must(err)
	text := string(data)
	for _, r := range []struct{ shipped, here string }{
		{"scalerAddress: forewarmd.forewarm.svc:6000", "scalerAddress: " + scaler},
		{"serverAddress: http://prometheus.monitoring.svc:9090", "serverAddress: " + p.url},
	} {
		if strings.Count(text, r.shipped) != 1 {
			k.t.Fatalf("configs/scaledobject.yaml does not hold %q once", r.shipped)
		}
		text = strings.Replace(text, r.shipped, r.here, 1)
	}
	return text
}

// The model of configs/scaledobject.yaml.
const (
	shippedName      = "chat-70b"
	shippedNamespace = "serving"
	shippedPolicy    = "replicas_min: 2, replicas_max: 12"
)

// replicas is the Deployment's wanted number, which only the HPA and KEDA write.
func (k *kase) replicas(model string) int {
	k.t.Helper()
	o, err := k.client.get(deploymentPath(k.namespace, model))
	k.must(err)
	return o.number("spec", "replicas")
}

// wants is a probe for the Deployment's wanted number.
func (k *kase) wants(model string, n int) probe {
	return k.field(n, deploymentPath(k.namespace, model), "spec", "replicas")
}

// follows is a probe for a Deployment that has as many replicas as the plan says, given the plan is as many as wanted
// by ok.
func (k *kase) follows(d *daemon, model string, ok func(plan int) bool) probe {
	return func() (bool, string) {
		plan, err := d.answered(model)
		if err != nil {
			return false, err.Error()
		}
		o, err := k.client.get(deploymentPath(k.namespace, model))
		if err != nil {
			return false, err.Error()
		}
		n := o.number("spec", "replicas")
		return ok(plan) && n == plan, fmt.Sprintf("the plan is %d, the Deployment wants %d", plan, n)
	}
}

// nothingChanges asserts that a Deployment keeps its replicas while the HPA controller reconciles n times more.
func (k *kase) nothingChanges(model string, n int) {
	k.t.Helper()
	before := k.replicas(model)
	from, err := k.cluster.hpaSyncs()
	k.must(err)
	k.until(time.Duration(n)*10*time.Second, fmt.Sprintf("the HPA controller to reconcile %d times", n), func() (bool, string) {
		if now := k.replicas(model); now != before {
			k.fatalf("%s went from %d to %d replicas", model, before, now)
		}
		now, err := k.cluster.hpaSyncs()
		return err == nil && now >= from+float64(n), fmt.Sprintf("%v more, %v", now-from, err)
	})
}
