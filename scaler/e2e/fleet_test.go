//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"forewarm/planner"
)

// nodeGroup is some nodes of one kind and what they are in the inventory. Sizes and products follow those of openb, the
// cluster of Weng et al., ATC 2023.
type nodeGroup struct {
	name   string
	nodes  int
	labels string // YAML flow entries
	// devices are the extended resources, one amount each, in the order of pools.
	devices []device
	taints  string
	state   nodeState
	domain  func(i int) (labels, domain string)
	onlyFor []string
}

// device is one extended resource of a node, and the pool that it makes.
type device struct {
	resource, pool, product, sharing string
	amount                           int
	gpus                             int // what it counts for; amount unless it is shared
	// held are the requests of the pods that hold it on node i.
	held func(i int) []int
}

type nodeState int

const (
	open nodeState = iota
	cordoned
	notReady
	uninitialized // of Karpenter
)

const gpu = "nvidia.com/gpu"

// notReadyAnnotation keeps kwok from making a node ready.
const notReadyAnnotation = "forewarm.io/not-ready"

// whole is a resource whose units are devices.
func whole(resource, pool, product string, n int, held func(i int) []int) device {
	return device{resource: resource, pool: pool, product: product, amount: n, gpus: n, held: held}
}

func nobody(int) []int { return nil }

// pattern cycles through requests of pods per node.
func pattern(nodes ...[]int) func(i int) []int {
	return func(i int) []int { return nodes[i%len(nodes)] }
}

const (
	h100 = "NVIDIA-H100-80GB-HBM3"
	h200 = "NVIDIA-H200"
)

func product(name string) string { return "nvidia.com/gpu.product: " + name }

// fleet is a few hundred nodes of the kinds that a large shared cluster has.
var fleet = []nodeGroup{
	{name: "t4", nodes: 90, labels: product("Tesla-T4") + ", cloud.google.com/gke-nodepool: np-t4",
		devices: []device{whole(gpu, "np-t4", "Tesla-T4", 2, pattern([]int{1}, []int{1, 1}, nil, []int{2}))}},
	{name: "v100", nodes: 60, labels: product("Tesla-V100-SXM2-16GB") + ", eks.amazonaws.com/nodegroup: g-v100",
		devices: []device{whole(gpu, "g-v100", "Tesla-V100-SXM2-16GB", 8, pattern([]int{4, 2}, []int{8}, []int{1, 1, 1}, nil, []int{2, 2, 2, 1}))}},
	{name: "a10", nodes: 40, labels: product("NVIDIA-A10"),
		devices: []device{whole(gpu, "NVIDIA-A10", "NVIDIA-A10", 4, pattern([]int{2}, nil))},
		domain: func(i int) (string, string) {
			return fmt.Sprintf("block: b%d, rack: r%d", i/20, i/5), fmt.Sprintf("b%d/r%d", i/20, i/5)
		}},
	{name: "h100", nodes: 36, labels: product(h100), devices: []device{whole(gpu, h100, h100, 8, pattern([]int{6}, []int{6}, []int{7}, []int{7}))},
		domain: func(i int) (string, string) {
			d := fmt.Sprintf("6a3f.%d", i/9)
			return "nvidia.com/gpu.clique: " + d, d
		}},
	{name: "shared", nodes: 20, labels: product("Tesla-T4-SHARED") + ", nvidia.com/gpu.count: '4', nvidia.com/gpu.replicas: '10', " +
		"nvidia.com/gpu.sharing-strategy: time-slicing",
		devices: []device{{resource: gpu, pool: "Tesla-T4-SHARED", product: "Tesla-T4-SHARED", sharing: "time-slicing", amount: 40, gpus: 4,
			held: pattern(nil, []int{1, 1})}}},
	{name: "mig", nodes: 16, labels: product("NVIDIA-A100-SXM4-40GB") + ", nvidia.com/gpu.count: '2', nvidia.com/mig.strategy: mixed, " +
		"eks.amazonaws.com/nodegroup: g-mig", devices: []device{
		whole(gpu, "g-mig/NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB", 2, nobody),
		whole("nvidia.com/mig-3g.20gb", "g-mig/NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", 4,
			pattern([]int{1, 2}, nil))}},
	{name: "mig1", nodes: 10, labels: product("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb") + ", nvidia.com/gpu.count: '56', nvidia.com/mig.strategy: single",
		devices: []device{whole(gpu, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 56, pattern([]int{1}))}},
	{name: "cordoned", nodes: 6, labels: product(h100), state: cordoned, devices: []device{whole(gpu, h100, h100, 8, pattern([]int{3}))}},
	{name: "down", nodes: 5, labels: product(h100), state: notReady, devices: []device{whole(gpu, h100, h100, 8, nobody)}},
	{name: "chat", nodes: 2, labels: product(h200) + ", pool: chat", devices: []device{whole(gpu, h200, h200, 8, nobody)}},
	{name: "team", nodes: 4, labels: product(h200) + ", pool: chat", taints: "{key: team, value: chat, effect: NoSchedule}", onlyFor: []string{"chat"},
		devices: []device{whole(gpu, h200, h200, 8, nobody)}},
	{name: "burst", nodes: 6, labels: product(h100) + ", karpenter.sh/nodepool: burst, karpenter.sh/initialized: 'true'",
		devices: []device{whole(gpu, "burst", h100, 8, pattern([]int{8}, nil))}},
	{name: "fresh", nodes: 2, labels: product(h100) + ", karpenter.sh/nodepool: burst", state: uninitialized,
		devices: []device{whole(gpu, "burst", h100, 8, nobody)}},
	{name: "cpu", nodes: 10},
	{name: "dra", nodes: 6}, // its devices are in ResourceSlices
}

// others are the models without a node selector; they run on every open node that has no taint.
var others = []string{"group", "knative", "kserve", "ray", "set", "slow"}

func (g *nodeGroup) nodeName(i int) string { return fmt.Sprintf("%s-%03d", g.name, i) }

// node writes node i as its kubelet would register it.
func (g *nodeGroup) node(i int) string {
	labels, amounts, annotations, spec := g.labels, "", "", ""
	if g.domain != nil {
		more, _ := g.domain(i)
		labels += ", " + more
	}
	for _, d := range g.devices {
		amounts += fmt.Sprintf(", %s: '%d'", d.resource, d.amount)
	}
	if g.taints != "" {
		spec = "taints: [" + g.taints + "]"
	}
	switch g.state {
	case cordoned:
		spec = "unschedulable: true"
	case notReady:
		annotations = ", " + notReadyAnnotation + ": 'yes'"
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Node,
metadata: {name: %[1]s, labels: {fleet: observed, kubernetes.io/hostname: %[1]s, %[2]s}, annotations: {kwok.x-k8s.io/node: fake%[3]s}},
spec: {%[4]s},
status: {capacity: {cpu: "96", memory: 1000Gi, pods: "250"%[5]s}, allocatable: {cpu: "95", memory: 980Gi, pods: "250"%[5]s}}}`,
		g.nodeName(i), strings.TrimPrefix(labels, ", "), annotations, spec, amounts)
}

// tenant names the pod that holds n units of device d on node i.
func (g *nodeGroup) tenant(i, d, n int) string { return fmt.Sprintf("%s-%d-%d", g.nodeName(i), d, n) }

// tenants writes the pods that hold devices of node i. They are owned by an object that no controller minds.
func (g *nodeGroup) tenants(i int, namespace, owner string) []string {
	var out []string
	for d, dev := range g.devices {
		if dev.held == nil {
			continue
		}
		for n, units := range dev.held(i) {
			out = append(out, boundPod(namespace, g.tenant(i, d, n), owner, g.nodeName(i), dev.resource, units, ""))
		}
	}
	return out
}

// boundPod writes a pod that is bound already. metadata are more YAML flow entries.
func boundPod(namespace, name, owner, node, resource string, units int, metadata string) string {
	requests := ""
	if units > 0 {
		requests = fmt.Sprintf("%s: '%d'", resource, units)
	}
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, ownerReferences: [%s]%s},
spec: {nodeName: %s, tolerations: [{operator: Exists}], containers: [{name: c, image: "emulated/batch:1", resources: {requests: {%[6]s}, limits: {%[6]s}}}]}}`,
		name, namespace, owner, metadata, node, requests)
}

// expected is what the fleet is in the inventory.
func (g *nodeGroup) expected(namespace string, into map[string]*planner.Pool) {
	for i := range g.nodes {
		for d, dev := range g.devices {
			n := planner.Node{Name: g.nodeName(i), GPUs: dev.gpus, FreeGPUs: dev.gpus, Usable: g.state == open && dev.sharing == ""}
			if g.domain != nil {
				_, n.Domain = g.domain(i)
			}
			if g.state == open {
				n.OnlyFor = others
				switch {
				case g.onlyFor != nil:
					n.OnlyFor = g.onlyFor
				case strings.Contains(g.labels, "pool: chat"):
					n.OnlyFor = nil
				}
			}
			for p, units := range dev.held(i) {
				n.FreeGPUs -= units
				if dev.sharing == "" {
					n.Tenants = append(n.Tenants, planner.Tenant{Pod: namespace + "/" + g.tenant(i, d, p), GPUs: units, Priority: new(int)})
				}
			}
			p := into[dev.pool]
			if p == nil {
				p = &planner.Pool{Name: dev.pool, Product: dev.product, Sharing: dev.sharing, GPUsPerNode: dev.gpus}
				into[dev.pool] = p
			}
			p.Nodes = append(p.Nodes, n)
		}
	}
}

// inOrder sorts pools and their nodes by name.
func inOrder(pools map[string]*planner.Pool) []planner.Pool {
	out := make([]planner.Pool, 0, len(pools))
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		p := *pools[name]
		slices.SortFunc(p.Nodes, func(a, b planner.Node) int { return cmp.Compare(a.Name, b.Name) })
		out = append(out, p)
	}
	return out
}

// createAll creates objects, some at a time, each with its status where the API server takes one at creation.
func (c *client) createAll(docs []string) error {
	errs := make(chan error, len(docs))
	next := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for doc := range next {
				errs <- c.createYAML(doc)
			}
		})
	}
	for _, doc := range docs {
		next <- doc
	}
	close(next)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// firstDifference shows where two facts differ; empty when they are equal.
func firstDifference(got, want any) string {
	g, errG := json.MarshalIndent(got, "", " ")
	w, errW := json.MarshalIndent(want, "", " ")
	if errG != nil || errW != nil {
		return fmt.Sprint(errG, errW)
	}
	a, b := strings.Split(string(g), "\n"), strings.Split(string(w), "\n")
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return ""
	}
	around := func(lines []string) string {
		return strings.Join(lines[min(len(lines), max(0, i-8)):min(len(lines), i+6)], "\n")
	}
	return fmt.Sprintf("line %d:\ngot\n%s\nwant\n%s", i+1, around(a), around(b))
}
