package kube

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"forewarm/planner"
)

// nodeYAML writes a Ready node. labels, and what is allocatable beside CPU and memory, are YAML flow entries.
func nodeYAML(name string, age time.Duration, labels, allocatable string) string {
	return nodeWith(name, age, labels, allocatable, "")
}

func nodeWith(name string, age time.Duration, labels, allocatable, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Node
metadata: {name: %q, creationTimestamp: %s, labels: {%s}}
spec: {%s}
status:
  capacity: {cpu: "96", memory: 1000Gi, %s}
  allocatable: {cpu: "95", memory: 980Gi, %s}
  conditions: [{type: Ready, status: "True", lastTransitionTime: %s}]`,
		name, stamp(age), labels, spec, allocatable, allocatable, stamp(age-30*time.Second))
}

const (
	h100  = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: '8', nvidia.com/gpu.sharing-strategy: none, nvidia.com/gpu.replicas: '1'"
	gpus8 = "nvidia.com/gpu: '8'"
)

func gpuPod(name, node string, gpus int) podDoc {
	return podDoc{name: name, owner: "Job/batch", node: node, gpus: gpus, created: time.Hour}
}

func inventoryOf(t *testing.T, models []Model, docs ...string) *planner.Inventory {
	t.Helper()
	w := worldOf(t, docs...)
	inv, problem := w.inventory(models, w.targets(models))
	if inv == nil || problem != "" {
		t.Fatalf("the inventory is unknown: %s", problem)
	}
	state := planner.State{Now: t0, Interval: time.Second, Inventory: inv}
	if err := state.Validate(); err != nil {
		t.Error(err)
	}
	return inv
}

func TestInventoryOfOneNode(t *testing.T) {
	node := func(gpus, free int, usable bool) planner.Node {
		return planner.Node{Name: "n", GPUs: gpus, FreeGPUs: free, Usable: usable}
	}
	pool := func(name, product string, n planner.Node) []planner.Pool {
		return []planner.Pool{{Name: name, Product: product, GPUsPerNode: n.GPUs, Nodes: []planner.Node{n}}}
	}
	const product = "NVIDIA-H100-80GB-HBM3"
	leaving, ended := gpuPod("l", "n", 2), gpuPod("e", "n", 4)
	leaving.deleted, ended.phase = true, "Succeeded"
	withDomain := func(n planner.Node, d string) planner.Node { n.Domain = d; return n }
	onlyFor := func(n planner.Node, models ...string) planner.Node { n.OnlyFor = models; return n }
	held := func(n planner.Node, tenants ...planner.Tenant) planner.Node { n.Tenants = tenants; return n }
	shared := func(p []planner.Pool, strategy string) []planner.Pool { p[0].Sharing = strategy; return p }
	for _, tt := range []struct {
		name string
		docs string
		want []planner.Pool
	}{
		{"idle", nodeYAML("n", time.Hour, h100, gpus8), pool(product, product, node(8, 8, true))},
		{"bound pods hold GPUs, terminating ones too, ended ones do not",
			docs(nodeYAML("n", time.Hour, h100, gpus8), podDocs(gpuPod("a", "n", 1), leaving, ended, gpuPod("elsewhere", "m", 8))),
			pool(product, product, held(node(8, 5, true), planner.Tenant{Pod: "serving/a", GPUs: 1},
				planner.Tenant{Pod: "serving/l", GPUs: 2, Pinned: "is terminating"}))},
		{"an unhealthy device under a bound pod is no negative number",
			docs(nodeYAML("n", time.Hour, h100, "nvidia.com/gpu: '7'"), podDocs(gpuPod("a", "n", 8))),
			pool(product, product, held(node(7, 0, true), planner.Tenant{Pod: "serving/a", GPUs: 8}))},
		{"cordoned", nodeWith("n", time.Hour, h100, gpus8, "unschedulable: true"), pool(product, product, node(8, 8, false))},
		{"not Ready", strings.Replace(nodeYAML("n", time.Hour, h100, gpus8), `status: "True"`, `status: Unknown`, 1),
			pool(product, product, node(8, 8, false))},
		{"being disrupted by Karpenter",
			nodeWith("n", time.Hour, h100, gpus8, "taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]"), pool(product, product, node(8, 8, false))},
		{"the GPU's own taint and a preference keep nobody away", nodeWith("n", time.Hour, h100, gpus8,
			"taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}, {key: slow, effect: PreferNoSchedule}]"),
			pool(product, product, node(8, 8, true))},
		{"tolerated by one of two models",
			nodeWith("n", time.Hour, h100, gpus8, "taints: [{key: team, value: chat, effect: NoSchedule}]"), pool(product, product, onlyFor(node(8, 8, true), "chat"))},
		{"of Karpenter and not initialized", nodeYAML("n", time.Hour, h100+", karpenter.sh/nodepool: big", gpus8), pool("big", product, node(8, 8, false))},
		{"of Karpenter and initialized", nodeYAML("n", time.Hour, h100+", karpenter.sh/nodepool: big, karpenter.sh/initialized: 'true'", gpus8),
			pool("big", product, node(8, 8, true))},
		{"NVLink domain", nodeYAML("n", time.Hour, h100+", nvidia.com/gpu.clique: uuid.3, rack: r1", gpus8),
			pool(product, product, withDomain(node(8, 8, true), "uuid.3"))},
		{"topology domain by its whole path", docs(nodeYAML("n", time.Hour, h100+", block: b2, rack: r1", gpus8), `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: default}
spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}`),
			pool(product, product, withDomain(node(8, 8, true), "b2/r1"))},
		{"time-slicing: 40 shares are 4 GPUs, of which those are free that certainly no share is of",
			docs(nodeYAML("n", time.Hour, "nvidia.com/gpu.product: Tesla-T4-SHARED, nvidia.com/gpu.count: '4', nvidia.com/gpu.replicas: '10', "+
				"nvidia.com/gpu.sharing-strategy: time-slicing", "nvidia.com/gpu: '40'"), podDocs(gpuPod("a", "n", 3))),
			shared(pool("Tesla-T4-SHARED", "Tesla-T4-SHARED", node(4, 1, false)), "time-slicing")},
		{"MPS under a name of its own", nodeYAML("n", time.Hour, "nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.count: '4', "+
			"nvidia.com/gpu.replicas: '10', nvidia.com/gpu.sharing-strategy: mps", "nvidia.com/gpu.shared: '40'"),
			shared(pool("Tesla-T4", "Tesla-T4", node(4, 4, false)), "mps")},
		{"shares although no strategy is stated", nodeYAML("n", time.Hour, "nvidia.com/gpu.product: Tesla-T4, nvidia.com/gpu.count: '4'", gpus8),
			shared(pool("Tesla-T4", "Tesla-T4", node(4, 4, false)), "shared")},
		{"MIG single", nodeYAML("n", time.Hour, "nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb, nvidia.com/gpu.count: '56', "+
			"nvidia.com/mig.strategy: single", "nvidia.com/gpu: '56'"),
			pool("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", node(56, 56, true))},
		{"MIG mixed: a pool per profile, and what is left of whole GPUs",
			nodeYAML("n", time.Hour, "nvidia.com/gpu.product: A100, nvidia.com/gpu.count: '6', nvidia.com/mig.strategy: mixed, eks.amazonaws.com/nodegroup: g",
				"nvidia.com/gpu: '6', nvidia.com/mig-3g.20gb: '4', nvidia.com/mig-1g.5gb: '0'"),
			append(pool("g/A100", "A100", node(6, 6, true)), pool("g/A100-MIG-3g.20gb", "A100-MIG-3g.20gb", node(4, 4, true))...)},
		{"without labels", nodeYAML("n", time.Hour, "", gpus8), pool("unlabelled", "", node(8, 8, true))},
		{"without GPUs", nodeYAML("n", time.Hour, "", "ephemeral-storage: 1Gi"), []planner.Pool{}},
		{"devices by DRA", docs(nodeYAML("n", time.Hour, "", "ephemeral-storage: 1Gi"), draYAML),
			pool("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3", node(2, 1, true))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tolerant := strings.Replace(deploymentYAML, "spec: {containers: []}", "spec: {containers: [], tolerations: [{key: team, value: chat}]}", 1)
			models := []Model{{Name: "other"}, {Name: "chat"}}
			got := inventoryOf(t, models, tt.docs, tolerant, scaledObjectFor("chat", "Deployment", "chat", ""))
			same(t, "pools", got.Pools, tt.want)
		})
	}
}

const draYAML = `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n-gpu-old}
spec: {driver: gpu.nvidia.com, nodeName: "n", pool: {name: "n", generation: 1, resourceSliceCount: 1}, devices: [{name: gone, attributes: {type: {string: gpu}, productName: {string: Old}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n-gpu}
spec:
  driver: gpu.nvidia.com
  nodeName: "n"
  pool: {name: "n", generation: 2, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {type: {string: gpu}, productName: {string: NVIDIA H100 80GB HBM3}}}
  - {name: gpu-1, attributes: {type: {string: gpu}, productName: {string: NVIDIA H100 80GB HBM3}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n-nic}
spec: {driver: dra.net, nodeName: "n", pool: {name: nics, generation: 1, resourceSliceCount: 1}, devices: [{name: eth0}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {namespace: serving, name: c}
status: {allocation: {devices: {results: [{driver: gpu.nvidia.com, pool: "n", device: gpu-1, request: r}, {driver: dra.net, pool: n, device: gpu-0, request: s}]}}}`

const nodePoolYAML = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: big}
spec:
  limits: {nvidia.com/gpu: "30", cpu: "960"}
  template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}
status: {resources: {nvidia.com/gpu: "8", cpu: "96", nodes: "1"}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: empty}
spec:
  limits: {nodes: 3}
  template: {spec: {requirements: [{key: nvidia.com/gpu.product, operator: In, values: [B200]}, {key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ["8"]}]}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: any}
spec: {template: {spec: {requirements: []}}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: big-1, labels: {karpenter.sh/nodepool: big}}
status: {conditions: [{type: Launched, status: "True"}, {type: Initialized, status: "Unknown"}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: big-0, labels: {karpenter.sh/nodepool: big}}
status: {nodeName: "n", conditions: [{type: Initialized, status: "True"}]}`

// Of 22 GPUs within the limit two whole nodes of 8 fit; the pool that is empty is known by its requirements, and the one
// that leaves everything open is not listed.
func TestInventoryOfNodePools(t *testing.T) {
	got := inventoryOf(t, nil, nodePoolYAML,
		nodeYAML("n", time.Hour, h100+", karpenter.sh/nodepool: big, karpenter.sh/initialized: 'true'", gpus8))
	same(t, "pools", got.Pools, []planner.Pool{
		{Name: "big", Product: "NVIDIA-H100-80GB-HBM3", GPUsPerNode: 8, Launchable: ptr(2), Launching: 1, Group: "big",
			Nodes: []planner.Node{{Name: "n", GPUs: 8, FreeGPUs: 8, Usable: true}}},
		{Name: "empty", Product: "B200", GPUsPerNode: 8, Launchable: ptr(3), Group: "empty", Nodes: []planner.Node{}},
	})
	// The second claim's node is registered and not initialized: it is one of the nodes, and not counted once more.
	registered := strings.Replace(nodePoolYAML, `status: {conditions: [{type: Launched`, `status: {nodeName: "m", conditions: [{type: Launched`, 1)
	registered = strings.Replace(registered, "values: [on-demand]", "values: [on-demand, spot]", 1)
	got = inventoryOf(t, nil, registered, nodeYAML("n", time.Hour, h100+", karpenter.sh/nodepool: big, karpenter.sh/initialized: 'true'", gpus8),
		nodeWith("m", time.Minute, h100+", karpenter.sh/nodepool: big", gpus8, "unschedulable: true"))
	if p := got.Pools[0]; p.Launching != 0 || len(p.Nodes) != 2 || p.Nodes[0].Usable || !p.Nodes[0].Launching || p.Nodes[1].Launching || !p.Spot {
		t.Errorf("a registered node is not on its way, or the pool not spot: %s", asJSON(t, p))
	}
	static := strings.Replace(nodePoolYAML, "spec:\n  limits: {nvidia", "spec:\n  replicas: 1\n  limits: {nvidia", 1)
	static = strings.Replace(static, "limits: {nvidia", "limits: {nodes: 4, nvidia", 1)
	got = inventoryOf(t, nil, static, nodeYAML("n", time.Hour, h100+", karpenter.sh/nodepool: big", gpus8))
	if p := got.Pools[0]; !p.Static || p.NodesMax == nil || *p.NodesMax != 4 {
		t.Errorf("a pool of four nodes at most that are set, got %s", asJSON(t, p))
	}
	if l := got.Pools[0].Launchable; l == nil || *l != 0 {
		t.Errorf("a static pool launches no node for a pending pod, got %s", asJSON(t, l))
	}
}

// Who holds the GPUs, for which model, and what keeps a pod where it is.
func TestTenants(t *testing.T) {
	owned := func(name, owner, labels string) podDoc {
		return podDoc{name: name, owner: owner, node: "n", gpus: 1, created: time.Hour, labels: labels}
	}
	kept := owned("kept", "ReplicaSet/other", "")
	kept.annotations = "karpenter.sh/do-not-disrupt: 'true'"
	freed := owned("freed", "ReplicaSet/other", "")
	freed.annotations = "karpenter.sh/do-not-disrupt: 'false'"
	elsewhere := owned("unbound", "ReplicaSet/other", "")
	elsewhere.node = ""
	inv := inventoryOf(t, []Model{{Name: "chat"}}, nodeYAML("n", time.Hour, h100, gpus8), deploymentYAML,
		scaledObjectFor("chat", "Deployment", "chat", ""), podDocs(owned("bare", "", ""), owned("agent", "DaemonSet/agent", ""), kept, freed,
			owned("serves", "ReplicaSet/chat-5d", "app: chat"), owned("batch", "Job/batch", "app: batch"), elsewhere), `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: serving, name: chat}
spec: {selector: {matchLabels: {app: chat}}}
status: {disruptionsAllowed: 0}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: serving, name: batch}
spec: {selector: {matchLabels: {app: batch}}}
status: {disruptionsAllowed: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {namespace: other, name: all}
spec: {selector: {}}
status: {disruptionsAllowed: 0}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {namespace: serving, name: chat}
spec: {replicas: 2, podTemplateRef: {name: chat}}
status: {replicas: 2, conditions: [{type: ReadyForProvisioning, status: "True"}, {type: Provisioning, status: "False"}]}
---
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {namespace: serving, name: share}
spec: {percentage: 20, scalableRef: {kind: Deployment, name: chat}}`)
	same(t, "tenants", inv.Pools[0].Nodes[0].Tenants, []planner.Tenant{
		{Pod: "serving/agent", GPUs: 1, Pinned: "belongs to a DaemonSet"},
		{Pod: "serving/bare", GPUs: 1, Pinned: "has no controller that would replace it"},
		{Pod: "serving/batch", GPUs: 1},
		{Pod: "serving/freed", GPUs: 1},
		{Pod: "serving/kept", GPUs: 1, Pinned: "is annotated karpenter.sh/do-not-disrupt"},
		{Pod: "serving/serves", GPUs: 1, Model: "chat", Pinned: "PodDisruptionBudget serving/chat allows no disruption"},
	})
	same(t, "buffers", inv.Buffers, []planner.Buffer{
		{Namespace: "serving", Name: "chat", Wanted: ptr(2), Replicas: ptr(2), Fits: ptr(false)},
		{Namespace: "serving", Name: "share"},
	})
}

func TestInventoryUnknown(t *testing.T) {
	w := worldOf(t, nodeYAML("n", time.Hour, h100, gpus8))
	for _, k := range []string{nodes, pods, resourceSlices, resourceClaims} {
		w.unknown[k] = k + " cannot be read"
		if inv, problem := w.inventory(nil, nil); inv != nil || !strings.Contains(problem, k) {
			t.Errorf("without %s: got %s, %q", k, asJSON(t, inv), problem)
		}
		delete(w.unknown, k)
	}
	w.unknown[nodePools] = "nodepools cannot be read"
	if inv, problem := w.inventory(nil, nil); inv == nil || problem == "" || inv.Pools[0].Launchable != nil {
		t.Errorf("unknown NodePools leave the nodes known and the room unknown, got %s, %q", asJSON(t, inv), problem)
	}
}

// A few hundred nodes of the kinds that a large shared cluster has, against an inventory computed while they are made.
func TestInventoryOfALargeCluster(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	want := map[string]*planner.Pool{}
	var all []string
	for i := range 400 {
		doc, resource, pool, n := randomNode(rng, fmt.Sprintf("node-%03d", i))
		all = append(all, doc)
		left := n.GPUs
		if pool.Sharing != "" {
			left = 0
		}
		for j := 0; left > 0 && rng.IntN(3) > 0; j++ {
			p := gpuPod(fmt.Sprintf("p-%03d-%d", i, j), n.Name, 1+rng.IntN(left))
			p.resource = resource
			switch rng.IntN(5) {
			case 0:
				p.phase = "Succeeded"
			case 1:
				p.deleted = true
				fallthrough
			default:
				left -= p.gpus
				n.FreeGPUs -= p.gpus
				tenant := planner.Tenant{Pod: "serving/" + p.name, GPUs: p.gpus}
				if p.deleted {
					tenant.Pinned = "is terminating"
				}
				n.Tenants = append(n.Tenants, tenant)
			}
			all = append(all, p.yaml())
		}
		if pool.Product == "" {
			continue // no GPUs
		}
		if want[pool.Name] == nil {
			want[pool.Name] = &pool
		}
		p := want[pool.Name]
		p.Nodes = append(p.Nodes, n)
		p.GPUsPerNode = max(p.GPUsPerNode, n.GPUs)
	}
	got := inventoryOf(t, nil, all...)
	if len(got.Pools) != len(want) {
		t.Fatalf("got %d pools, want %d", len(got.Pools), len(want))
	}
	for _, p := range got.Pools {
		if want[p.Name] == nil {
			t.Fatalf("pool %q was not made", p.Name)
		}
		same(t, "pool "+p.Name, p, *want[p.Name])
	}
}

// randomNode makes one node of a random kind and what it is in the inventory.
func randomNode(rng *rand.Rand, name string) (doc, resource string, pool planner.Pool, n planner.Node) {
	n = planner.Node{Name: name, Usable: true}
	labels, spec := "", ""
	resource = resourceGPU
	switch product := []string{"V100M16", "A10", "G2", "T4"}[rng.IntN(4)]; rng.IntN(6) {
	case 0: // CPU only
		return nodeYAML(name, time.Hour, "", "ephemeral-storage: 1Gi"), resource, planner.Pool{}, n
	case 1: // time-sliced
		n.GPUs, n.FreeGPUs, n.Usable = 4, 4, false
		pool = planner.Pool{Name: product + "-SHARED", Product: product + "-SHARED", Sharing: "time-slicing"}
		return nodeYAML(name, time.Hour, "nvidia.com/gpu.product: "+product+"-SHARED, nvidia.com/gpu.count: '4', nvidia.com/gpu.replicas: '5', "+
			"nvidia.com/gpu.sharing-strategy: time-slicing", "nvidia.com/gpu: '20'"), resource, pool, n
	case 2: // MIG mixed, cut up completely
		n.GPUs = 2 * (1 + rng.IntN(4))
		resource, pool.Product = "nvidia.com/mig-3g.20gb", product+"-MIG-3g.20gb"
		labels = "nvidia.com/mig-3g.20gb.count: '" + fmt.Sprint(n.GPUs) + "', nvidia.com/mig.strategy: mixed, nvidia.com/gpu.product: " + product
		n.FreeGPUs, pool.Name = n.GPUs, pool.Product
		return nodeYAML(name, time.Hour, labels, fmt.Sprintf("%s: '%d', nvidia.com/gpu: '0'", resource, n.GPUs)), resource, pool, n
	default:
		n.GPUs = []int{2, 4, 8}[rng.IntN(3)]
		pool.Product = product
		labels = fmt.Sprintf("nvidia.com/gpu.product: %s, nvidia.com/gpu.count: '%d', cloud.google.com/gke-nodepool: np-%s", product, n.GPUs, product)
		pool.Name = "np-" + product
		if rng.IntN(2) == 0 {
			n.Domain = fmt.Sprintf("uuid.%d", rng.IntN(9))
			labels += ", nvidia.com/gpu.clique: " + n.Domain
		}
	}
	n.FreeGPUs = n.GPUs
	if rng.IntN(8) == 0 {
		n.Usable, spec = false, "unschedulable: true"
	}
	doc = nodeWith(name, time.Hour, labels, fmt.Sprintf("%s: '%d'", resource, n.GPUs), spec)
	if rng.IntN(8) == 0 {
		n.Usable, doc = false, strings.Replace(doc, `status: "True"`, `status: "False"`, 1)
	}
	return doc, resource, pool, n
}
