package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"forewarm/planner"
)

func TestActuator(t *testing.T) {
	hpa := func(behavior string) string {
		return `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {namespace: serving, name: keda-hpa-chat}
spec: {maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: chat}` + behavior + `}`
	}
	annotated := func(annotations string) string {
		return strings.Replace(scaledObjectFor("chat", "Deployment", "chat", ""), "name: chat}", "name: chat, annotations: {"+annotations+"}}", 1)
	}
	plain := planner.Actuator{ScaleUpTolerance: 0.1, ReplicasMin: ptr(0), ReplicasMax: ptr(100)}
	with := func(change func(*planner.Actuator)) *planner.Actuator {
		a := plain
		change(&a)
		return &a
	}
	const wish = `  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {tolerance: "0"}}}}`
	for _, tt := range []struct {
		name, docs string
		want       *planner.Actuator
	}{
		{"nobody names the model", scaledObjectFor("other", "Deployment", "chat", ""), nil},
		{"defaults", scaledObjectFor("chat", "Deployment", "chat", ""), &plain},
		{"the wish holds while there is no HPA", scaledObjectFor("chat", "Deployment", "chat", wish),
			with(func(a *planner.Actuator) { a.ScaleUpTolerance = 0 })},
		{"the HPA keeps it", docs(scaledObjectFor("chat", "Deployment", "chat", wish), hpa(`, behavior: {scaleUp: {tolerance: 50m}}`)),
			with(func(a *planner.Actuator) { a.ScaleUpTolerance = 0.05 })},
		{"the API server dropped it", docs(scaledObjectFor("chat", "Deployment", "chat", wish), hpa("")), &plain},
		{"an absurd tolerance", docs(scaledObjectFor("chat", "Deployment", "chat", ""), hpa(`, behavior: {scaleUp: {tolerance: "200"}}`)),
			with(func(a *planner.Actuator) { a.ScaleUpTolerance = 10 })},
		{"the HPA's policies, and what it asks for", docs(scaledObjectFor("chat", "Deployment", "chat", ""), hpa(`, behavior: {
scaleUp: {selectPolicy: Min, policies: [{type: Pods, value: 2, periodSeconds: 60}, {type: Percent, value: 50, periodSeconds: 30}]},
scaleDown: {tolerance: 200m}}`)+"\nstatus: {desiredReplicas: 7}\n"),
			with(func(a *planner.Actuator) {
				a.ScaleDownTolerance, a.HPADesired = ptr(0.2), ptr(7)
				a.ScaleUp = &planner.ScalingRules{SmallestCounts: true, Policies: []planner.ScalingPolicy{
					{Pods: 2, Period: time.Minute}, {Percent: 50, Period: 30 * time.Second}}}
			})},
		{"the HPA's defaults, written out", docs(scaledObjectFor("chat", "Deployment", "chat", ""), hpa(`, behavior: {
scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: 15}]}}`)), &plain},
		{"paused", annotated("autoscaling.keda.sh/paused: 'true'"), with(func(a *planner.Actuator) { a.Paused = true })},
		{"paused by anything that is no boolean", annotated("autoscaling.keda.sh/paused: 'yes please'"), with(func(a *planner.Actuator) { a.Paused = true })},
		{"not paused", annotated("autoscaling.keda.sh/paused: 'false'"), &plain},
		{"paused at a count", annotated("autoscaling.keda.sh/paused-replicas: '3'"),
			with(func(a *planner.Actuator) { a.Paused, a.PausedAt = true, ptr(3) })},
		{"paused at nonsense", annotated("autoscaling.keda.sh/paused-replicas: many"), with(func(a *planner.Actuator) { a.Paused = true })},
		{"paused in each direction", annotated("autoscaling.keda.sh/paused-scale-in: '', autoscaling.keda.sh/paused-scale-out: '1'"),
			with(func(a *planner.Actuator) { a.ScaleInPaused, a.ScaleOutPaused = true, true })},
		{"limits and fallback", scaledObjectFor("chat", "Deployment", "chat",
			"  minReplicaCount: 2\n  maxReplicaCount: 12\n  fallback: {behavior: currentReplicasIfHigher, replicas: 4, failureThreshold: 3}"),
			with(func(a *planner.Actuator) {
				a.ReplicasMin, a.ReplicasMax = ptr(2), ptr(12)
				a.Fallback = &planner.Fallback{Behavior: "currentReplicasIfHigher", Replicas: 4, FailureThreshold: 3}
			})},
		{"two ScaledObjects, one paused: the model is not", docs(annotated("autoscaling.keda.sh/paused: 'true'"),
			strings.Replace(scaledObjectFor("chat", "StatefulSet", "more", ""), "name: chat}", "name: more}", 1)),
			with(func(a *planner.Actuator) { a.ReplicasMax = ptr(200) })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := worldOf(t, tt.docs).actuator("chat")
			same(t, "actuator", got, tt.want)
			if got != nil {
				s := planner.State{Now: t0, Interval: 1, Models: []planner.ModelState{{Name: "chat", Shape: planner.Shape{GPUs: 1, Pods: 1}, Actuator: got}}}
				if err := s.Validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestQuotas(t *testing.T) {
	const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: serving}
spec:
  cohortName: gpus
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - {name: h100, resources: [{name: cpu, nominalQuota: "90"}, {name: nvidia.com/gpu, nominalQuota: "16", borrowingLimit: "8", lendingLimit: "0"}]}
    - {name: a100, resources: [{name: cpu, nominalQuota: "90"}, {name: nvidia.com/gpu, nominalQuota: 8}]}
  - coveredResources: [nvidia.com/mig-1g.5gb]
    flavors: [{name: mig, resources: [{name: nvidia.com/mig-1g.5gb, nominalQuota: "7"}]}]
status:
  flavorsUsage: [{name: h100, resources: [{name: nvidia.com/gpu, total: "20", borrowed: "4"}, {name: cpu, total: "3"}]}]
  flavorsReservation: [{name: h100, resources: [{name: nvidia.com/gpu, total: "22"}]}, {name: mig, resources: [{name: nvidia.com/mig-1g.5gb, total: "1"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: batch}
spec: {cohort: gpus, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: "0"}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: serving, name: llm}
spec: {clusterQueue: serving}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: mig}
spec: {nodeLabels: {mig: "yes"}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: gpus}
spec:
  parentName: all
  resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: "4"}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: all}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: serving, name: waits}
spec: {queueName: llm, podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "2", cpu: "1"}}}]}}}, {name: one, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: serving, name: runs}
spec: {queueName: llm, podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "2", cpu: "1"}}}]}}}, {name: one, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}
status: {conditions: [{type: QuotaReserved, status: "True"}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: serving, name: done}
spec: {queueName: llm, podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "2", cpu: "1"}}}]}}}, {name: one, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}
status: {conditions: [{type: Finished, status: "True"}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: serving, name: stopped}
spec: {queueName: llm, active: false, podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "2", cpu: "1"}}}]}}}, {name: one, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: serving, name: evicted}
spec: {queueName: llm, podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "2", cpu: "1"}}}]}}}, {name: one, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}
status: {conditions: [{type: QuotaReserved, status: "False"}]}
`
	queued := strings.Replace(deploymentYAML, "name: chat}", "name: chat, labels: {kueue.x-k8s.io/queue-name: llm}}", 1)
	w := worldOf(t, queues, queued, scaledObjectFor("chat", "Deployment", "chat", ""), nodeYAML("n", time.Hour, h100, gpus8))
	models := []Model{{Name: "chat"}}
	inv, _ := w.inventory(models, w.targets(models))
	got, problem := w.quotas(w.targets(models), inv)
	if problem != "" {
		t.Fatal(problem)
	}
	models1, h100Pools := []string{"chat"}, []string{"NVIDIA-H100-80GB-HBM3"}
	same(t, "quotas", got, []planner.Quota{
		{Queue: "batch", Flavor: "h100", Cohort: "gpus", Pools: h100Pools},
		{Queue: "serving", Flavor: "a100", Nominal: 8, Waiting: 14, Cohort: "gpus", Models: models1},
		{Queue: "serving", Flavor: "h100", Nominal: 16, Used: 20, Reserved: 22, Waiting: 14, Cohort: "gpus", BorrowingLimit: ptr(8),
			LendingLimit: ptr(0), Models: models1, Pools: h100Pools},
		{Queue: "serving", Flavor: "mig", Resource: "nvidia.com/mig-1g.5gb", Nominal: 7, Reserved: 1, Cohort: "gpus", Models: models1, Pools: []string{}},
	})
	shared, problem := w.sharedQuotas(inv)
	if problem != "" {
		t.Fatal(problem)
	}
	same(t, "cohorts", shared, []planner.Cohort{{Name: "all"},
		{Name: "gpus", Parent: "all", Shared: []planner.Quota{{Flavor: "h100", Nominal: 4, Cohort: "gpus", Pools: h100Pools}}}})
	for _, kind := range []string{localQueues, quotaRequests, clusterQueues} {
		w.unknown[kind] = kind + " cannot be read"
		if got, problem := w.quotas(nil, inv); got != nil || problem == "" {
			t.Errorf("without %s: got %s, %q", kind, asJSON(t, got), problem)
		}
		delete(w.unknown, kind)
	}
	w.unknown[cohorts] = "cohorts cannot be read"
	if got, problem := w.sharedQuotas(inv); got != nil || problem == "" {
		t.Errorf("without cohorts: got %s, %q", asJSON(t, got), problem)
	}
}

// What a pod holds: containers and sidecars together, or an init container beside the sidecars before it.
func TestRequestedGPUs(t *testing.T) {
	container := func(gpus string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			resourceGPU: resource.MustParse(gpus), "cpu": resource.MustParse("1")}}}
	}
	sidecar := func(gpus string) corev1.Container {
		c := container(gpus)
		c.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
		return c
	}
	for _, tt := range []struct {
		name             string
		init, containers []corev1.Container
		want             int
	}{
		{"containers add up", nil, []corev1.Container{container("2"), container("1")}, 3},
		{"init containers do not", []corev1.Container{container("2"), container("2")}, []corev1.Container{container("1")}, 2},
		{"sidecars do", []corev1.Container{sidecar("1")}, []corev1.Container{container("2")}, 3},
		{"an init container beside a sidecar", []corev1.Container{sidecar("1"), container("4")}, []corev1.Container{container("2")}, 5},
		{"an init container before a sidecar", []corev1.Container{container("4"), sidecar("1")}, []corev1.Container{container("2")}, 4},
		{"none", nil, []corev1.Container{container("0")}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := requested(&corev1.PodSpec{InitContainers: tt.init, Containers: tt.containers})
			if got[resourceGPU] != tt.want || tt.want == 0 && got != nil {
				t.Errorf("got %v, want %d", got, tt.want)
			}
		})
	}
}

func TestTolerations(t *testing.T) {
	taint := corev1.Taint{Key: "team", Value: "chat", Effect: corev1.TaintEffectNoSchedule}
	for _, tt := range []struct {
		name string
		by   corev1.Toleration
		want bool
	}{
		{"equal", corev1.Toleration{Key: "team", Value: "chat"}, true},
		{"other value", corev1.Toleration{Key: "team", Value: "batch"}, false},
		{"exists", corev1.Toleration{Key: "team", Operator: corev1.TolerationOpExists}, true},
		{"everything", corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{"other key", corev1.Toleration{Key: "zone", Operator: corev1.TolerationOpExists}, false},
		{"other effect", corev1.Toleration{Key: "team", Value: "chat", Effect: corev1.TaintEffectNoExecute}, false},
		{"empty key and Equal is none", corev1.Toleration{Value: "chat"}, false},
	} {
		if got := tolerates(&tt.by, &taint); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
