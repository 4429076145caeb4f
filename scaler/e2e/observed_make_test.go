//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"time"

	"forewarm/planner"
)

// makeNodes creates the nodes, and the pods that hold, held and are about to leave their GPUs.
func (f *observed) makeNodes() {
	f.t.Helper()
	from := time.Now()
	holder, err := f.client.create("/api/v1/namespaces/"+f.namespace+"/configmaps", object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"generateName": "holder-"}})
	f.must(err)
	f.holder = ownedBy(holder)
	var nodes, pods []string
	for i := range fleet {
		g := &fleet[i]
		for n := range g.nodes {
			nodes = append(nodes, g.node(n))
			pods = append(pods, g.tenants(n, f.namespace, f.holder)...)
		}
	}
	pods = append(pods,
		boundPod(f.namespace, "done", f.holder, "v100-003", gpu, 8, ""),
		boundPod(f.namespace, "going", f.holder, "a10-001", gpu, 3, ", finalizers: [forewarm.io/keep]"),
		boundPod(f.namespace, "kept", f.holder, "a10-003", gpu, 1, ", annotations: {karpenter.sh/do-not-disrupt: 'true'}"))
	f.must(f.client.createAll(nodes))
	f.must(f.client.createAll(pods))
	path := "/api/v1/namespaces/" + f.namespace + "/pods/"
	f.until(30*time.Second, "the pod that is done to have run", func() (bool, string) {
		o, err := f.client.get(path + "done")
		return err == nil && o.text("status", "phase") == "Running", fmt.Sprint(o.text("status", "phase"), err)
	})
	f.must(f.client.merge(path+"done/status", `{"status": {"phase": "Succeeded"}}`))
	f.must(f.client.remove(path + "going"))
	f.must(f.client.createAll([]string{
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: racks, labels: {fleet: observed}},
spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}`,
	}))
	f.makeDevices()
	f.t.Logf("%d nodes and %d pods were made in %.1f s", len(nodes), len(pods), time.Since(from).Seconds())
}

// makeDevices gives the nodes of the group dra four devices each, of which every second node has one allocated.
func (f *observed) makeDevices() {
	f.t.Helper()
	for i := range 6 {
		node := fmt.Sprintf("dra-%03d", i)
		var devices []string
		for d := range 4 {
			devices = append(devices, fmt.Sprintf("{name: gpu-%d, attributes: {type: {string: gpu}, productName: {string: NVIDIA L40S}}}", d))
		}
		f.must(f.client.createYAML(fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s-gpu, labels: {fleet: observed}},
spec: {driver: gpu.nvidia.com, nodeName: %[1]s, pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [%[2]s]}}`,
			node, strings.Join(devices, ", "))))
		if i%2 == 0 {
			continue
		}
		f.must(f.client.createYAML(fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s, namespace: %s},
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}`, node, f.namespace)))
		f.must(f.client.merge("/apis/resource.k8s.io/v1/namespaces/"+f.namespace+"/resourceclaims/"+node+"/status", fmt.Sprintf(
			`{"status": {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": %q, "device": "gpu-1"}]}}}}`, node)))
	}
}

// ownedBy writes a controlling owner reference to an object.
func ownedBy(o object) string {
	return fmt.Sprintf("{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true}", o.text("apiVersion"), o.text("kind"),
		o.text("metadata", "name"), o.text("metadata", "uid"))
}

// makeModels creates a model in every kind of workload.
func (f *observed) makeModels() {
	f.t.Helper()
	const template = `selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}, annotations: {%[2]s: '%[3]s'}},
spec: {%[4]s containers: [{name: engine, image: "emulated/vllm:1"%[5]s}]}}`
	one := `, resources: {requests: {nvidia.com/gpu: '1'}, limits: {nvidia.com/gpu: '1'}}`
	chat := `nodeSelector: {pool: chat}, tolerations: [{key: team, value: chat}],`
	app := func(kind, name, more, delay, spec, resources string) string {
		return fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: %s%s}, spec: {%s, ", kind, name, f.namespace, more,
			map[string]string{"chat": "replicas: 3", "slow": "replicas: 2", "set": "replicas: 1, serviceName: set", "kserve-predictor": "replicas: 2"}[name]) +
			fmt.Sprintf(template, name, startDelay, delay, spec, resources) + "}}"
	}
	f.must(f.client.createAll([]string{
		app("Deployment", "chat", ", labels: {kueue.x-k8s.io/queue-name: llm}", "0s", chat, one),
		app("Deployment", "slow", "", "10m", "", ""),
		app("StatefulSet", "set", "", "0s", "", ""),
		fmt.Sprintf(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: chat, namespace: %s},
spec: {minAvailable: 3, selector: {matchLabels: {app: chat}}}}`, f.namespace),
	}))
	made := map[string]string{}
	for _, o := range []struct{ version, kind, name, fields string }{
		{"serving.kserve.io/v1beta1", "InferenceService", "kserve", `"metadata": {"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}`},
		{"serving.kserve.io/v1beta1", "InferenceService", "knative", `"status": {"deploymentMode": "Serverless"}`},
		{"ray.io/v1", "RayCluster", "ray", `"spec": {"workerGroupSpecs": [{"groupName": "w", "replicas": 1, "template": {"spec": {"containers": []}}}]}`},
		{"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "group", `"spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2}}`},
	} {
		f.must(f.client.createYAML(fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}}", o.version, o.kind, o.name, f.namespace)))
		path, err := f.client.path(o.version, o.kind, f.namespace, o.name)
		f.must(err)
		patched := path
		if strings.HasPrefix(o.fields, `"status"`) {
			patched += "/status"
		}
		f.must(f.client.merge(patched, "{"+o.fields+"}"))
		owner, err := f.client.get(path)
		f.must(err)
		made[o.name] = ownedBy(owner)
		f.t.Cleanup(func() {
			if err := f.client.remove(path); err != nil {
				f.t.Error(err)
			}
		})
	}
	f.must(f.client.createYAML(app("Deployment", "kserve-predictor", ", ownerReferences: ["+made["kserve"]+"]", "0s", "", "")))
	f.makeMembers(made["group"], made["ray"])
	f.until(30*time.Second, "the models to be ready", func() (bool, string) {
		for model, n := range map[string]int{"chat": 3, "kserve-predictor": 2} {
			if ok, seen := f.field(n, deploymentPath(f.namespace, model), "status", "readyReplicas")(); !ok {
				return false, model + ": " + seen
			}
		}
		o, err := f.client.get("/apis/apps/v1/namespaces/" + f.namespace + "/statefulsets/set")
		return err == nil && o.number("status", "readyReplicas") == 1, fmt.Sprint(err)
	})
}

// makeMembers creates the pods whose controllers do not run: two groups of a leader and a worker, of which one is
// terminating, and a Ray head with a worker.
func (f *observed) makeMembers(group, ray string) {
	f.t.Helper()
	member := func(name, index, more string) string {
		return boundPod(f.namespace, name, group, "cpu-000", "", 0, ", labels: {leaderworkerset.sigs.k8s.io/name: group, "+
			"leaderworkerset.sigs.k8s.io/group-index: '"+index+"'}, annotations: {leaderworkerset.sigs.k8s.io/size: '2'}"+more)
	}
	f.must(f.client.createAll([]string{
		member("group-0", "0", ""), member("group-0-1", "0", ""),
		member("leaving-0", "1", ", finalizers: [forewarm.io/keep]"), member("leaving-1", "1", ", finalizers: [forewarm.io/keep]"),
		boundPod(f.namespace, "ray-head", ray, "cpu-001", "", 0, ", labels: {ray.io/node-type: head}"),
		boundPod(f.namespace, "ray-worker", ray, "cpu-001", "", 0, ", labels: {ray.io/node-type: worker}"),
	}))
	for _, name := range []string{"leaving-0", "leaving-1"} {
		f.must(f.client.remove("/api/v1/namespaces/" + f.namespace + "/pods/" + name))
	}
}

// makeQuotas creates what Kueue would work with, and what it would say about it.
func (f *observed) makeQuotas() {
	f.t.Helper()
	workload := func(name, queue string, pods, gpus int) string {
		return fmt.Sprintf(`{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: %s, namespace: %s},
spec: {queueName: %s, podSets: [{name: main, count: %d, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "emulated/batch:1",
  resources: {requests: {nvidia.com/gpu: '%d'}}}]}}}]}}`, name, f.namespace, queue, pods, gpus)
	}
	labels := "labels: {fleet: observed}"
	f.must(f.client.createAll([]string{
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: h100, ` + labels + `}, spec: {nodeLabels: {nvidia.com/gpu.product: ` + h100 + `}}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: mig, ` + labels + `}, spec: {nodeLabels: {nvidia.com/mig.strategy: mixed}}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: gpus, ` + labels + `}, spec: {resourceGroups: [{coveredResources: [nvidia.com/gpu],
flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 24}]}]}]}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: serving, ` + labels + `}, spec: {cohortName: gpus, namespaceSelector: {}, resourceGroups: [
{coveredResources: [cpu, nvidia.com/gpu], flavors: [{name: h100, resources: [{name: cpu, nominalQuota: 90}, {name: nvidia.com/gpu, nominalQuota: 16, borrowingLimit: 24}]}]},
{coveredResources: [nvidia.com/mig-3g.20gb], flavors: [{name: mig, resources: [{name: nvidia.com/mig-3g.20gb, nominalQuota: 8}]}]}]}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: batch, ` + labels + `}, spec: {cohortName: gpus, namespaceSelector: {}, resourceGroups: [
{coveredResources: [nvidia.com/gpu], flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 40, lendingLimit: 40}]}]}]}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: llm, namespace: ` + f.namespace + `}, spec: {clusterQueue: serving}}`,
		`{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: jobs, namespace: ` + f.namespace + `}, spec: {clusterQueue: batch}}`,
		workload("runs", "jobs", 3, 8), workload("waits", "jobs", 2, 4), workload("waits-too", "jobs", 5, 1), workload("over", "jobs", 9, 1),
	}))
	usage := `"flavorsUsage": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "%d"}]}],
"flavorsReservation": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "%d"}]}],
"pendingWorkloads": 0, "reservingWorkloads": 0, "admittedWorkloads": 0`
	queues := "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/"
	f.must(f.client.merge(queues+"serving/status", fmt.Sprintf(`{"status": {`+usage+`}}`, 3, 3)))
	f.must(f.client.merge(queues+"batch/status", fmt.Sprintf(`{"status": {`+usage+`}}`, 24, 26)))
	for name, condition := range map[string]string{"runs": "QuotaReserved", "over": "Finished"} {
		f.must(f.client.merge("/apis/kueue.x-k8s.io/v1beta2/namespaces/"+f.namespace+"/workloads/"+name+"/status", fmt.Sprintf(
			`{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Made", "message": "by the test", "lastTransitionTime": %q}]}}`,
			condition, time.Now().UTC().Format(time.RFC3339))))
	}
}

// makePools creates NodePools with limits, a node on its way, and a buffer.
func (f *observed) makePools() {
	f.t.Helper()
	class := "nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}"
	f.must(f.client.createAll([]string{
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: burst, labels: {fleet: observed}}, spec: {limits: {nvidia.com/gpu: "96", cpu: "2000"},
template: {spec: {` + class + `, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}`,
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: spare, labels: {fleet: observed}}, spec: {replicas: 2, limits: {nodes: "4"},
template: {spec: {` + class + `, requirements: [{key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-B200]}, {key: nvidia.com/gpu.count, operator: In, values: ["8"]}]}}}}`,
		`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: burst-next, labels: {fleet: observed, karpenter.sh/nodepool: burst}},
spec: {` + class + `, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}`,
		`{apiVersion: v1, kind: PodTemplate, metadata: {name: chat, namespace: ` + f.namespace + `}, template: {spec: {containers: [{name: c, image: "emulated/vllm:1"}]}}}`,
		`{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: chat-burst, namespace: ` + f.namespace + `}, spec: {replicas: 2, podTemplateRef: {name: chat}}}`,
	}))
	now := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type": %q, "status": "True", "reason": "Made", "message": "", "lastTransitionTime": %q}`, kind, now)
	}
	f.must(f.client.merge("/apis/karpenter.sh/v1/nodepools/burst/status", `{"status": {"resources": {"nvidia.com/gpu": "64", "cpu": "768", "nodes": "8"}}}`))
	f.must(f.client.merge("/apis/karpenter.sh/v1/nodeclaims/burst-next/status", `{"status": {"conditions": [`+condition("Launched")+`]}}`))
	f.must(f.client.merge("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/"+f.namespace+"/capacitybuffers/chat-burst/status",
		`{"status": {"replicas": 2, "conditions": [`+condition("ReadyForProvisioning")+`, `+condition("Provisioning")+`]}}`))
}

// expectedExtras are the pools and pods beside those of the fleet's table.
func (f *observed) expectedExtras(pools map[string]*planner.Pool) {
	pod := func(name string, gpus int, pinned string) planner.Tenant {
		return planner.Tenant{Pod: f.namespace + "/" + name, GPUs: gpus, Priority: new(int), Pinned: pinned}
	}
	addTenant(pools["NVIDIA-A10"], "a10-001", pod("going", 3, "is terminating"))
	addTenant(pools["NVIDIA-A10"], "a10-003", pod("kept", 1, "is annotated karpenter.sh/do-not-disrupt"))
	// 12 whole nodes fit what is left of the CPUs, 4 what is left of the GPUs.
	pools["burst"].Launchable, pools["burst"].Launching, pools["burst"].Group = new(4), 1, "burst"
	pools["spare"] = &planner.Pool{Name: "spare", Product: "NVIDIA-B200", GPUsPerNode: 8, Launchable: new(int), Group: "spare",
		Static: true, NodesMax: new(4), Nodes: []planner.Node{}}
	pools["unlabelled"] = &planner.Pool{Name: "unlabelled", GPUsPerNode: 512,
		Nodes: []planner.Node{{Name: nodeName, GPUs: 512, FreeGPUs: 512, Usable: true, OnlyFor: others}}}
	dra := &planner.Pool{Name: "NVIDIA-L40S", Product: "NVIDIA-L40S", GPUsPerNode: 4}
	for i := range 6 {
		dra.Nodes = append(dra.Nodes, planner.Node{Name: fmt.Sprintf("dra-%03d", i), GPUs: 4, FreeGPUs: 4 - i%2, Usable: true, OnlyFor: others})
	}
	pools["NVIDIA-L40S"] = dra
}
