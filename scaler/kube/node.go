package kube

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// node is what is kept of a node.
type node struct {
	object
	created       time.Time
	labels        map[string]string
	gpus          amounts // allocatable, and 0 for what the node has and cannot give
	cpu, memory   resource.Quantity
	ready         bool
	readyAt       time.Time
	unschedulable bool
	deleting      bool
	taints        []corev1.Taint // that keep pods away: NoSchedule and NoExecute
}

// The labels of nodes. nvidia.com: GPU feature discovery.
const (
	labelProduct     = "nvidia.com/gpu.product"
	labelCount       = "nvidia.com/gpu.count"
	labelReplicas    = "nvidia.com/gpu.replicas"
	labelSharing     = "nvidia.com/gpu.sharing-strategy"
	labelClique      = "nvidia.com/gpu.clique"
	labelNodePool    = "karpenter.sh/nodepool"
	labelInitialized = "karpenter.sh/initialized"
)

// poolLabels name the group of like nodes that a node was launched into, the first that is there.
var poolLabels = []string{
	labelNodePool, "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
}

// productLabels name the GPU product, the first that is there. GPU feature discovery's is the only one that knows MIG
// and sharing.
var productLabels = []string{
	labelProduct, "amd.com/gpu.product-name", "karpenter.k8s.aws/instance-gpu-name", "cloud.google.com/gke-accelerator",
}

// nodeFacts converts a node.
func nodeFacts(n *corev1.Node) *node {
	out := &node{
		object: objectOf(n), created: n.CreationTimestamp.UTC(), labels: cloned(n.Labels), gpus: amounts{},
		cpu: *n.Status.Capacity.Cpu(), memory: *n.Status.Capacity.Memory(),
		unschedulable: n.Spec.Unschedulable, deleting: n.DeletionTimestamp != nil,
	}
	// A resource that a device plugin once offered stays with an amount of 0; one whose devices are all unhealthy still
	// has a capacity.
	allocatable := devices(n.Status.Allocatable)
	for r, n := range allocatable {
		if n > 0 {
			out.gpus[r] = n
		}
	}
	for r, n := range devices(n.Status.Capacity) {
		if n > 0 {
			out.gpus[r] = allocatable[r]
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			out.taints = append(out.taints, corev1.Taint{Key: strings.Clone(t.Key), Value: strings.Clone(t.Value), Effect: t.Effect})
		}
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.ready, out.readyAt = c.Status == corev1.ConditionTrue, c.LastTransitionTime.UTC()
		}
	}
	return out
}

// cloned copies a map and its strings, so that they do not keep the message alive that they were decoded from.
func cloned(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[strings.Clone(k)] = strings.Clone(v)
	}
	return out
}

func first(labels map[string]string, names []string) string {
	for _, name := range names {
		if v := labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// product is the name of what one unit of a resource on this node is; empty when no label says it. With MIG strategy
// single GPU feature discovery puts the profile into the product itself; with mixed each profile is a resource of its
// own, and its product is named in the same way: NVIDIA-A100-SXM4-40GB-MIG-3g.20gb.
func (n *node) product(res string) string {
	plain := strings.TrimSuffix(res, sharedSuffix)
	profile, mig := strings.CutPrefix(plain, resourceMIGPrefix)
	if !mig {
		return first(n.labels, productLabels)
	}
	if p := n.labels[plain+".product"]; p != "" {
		return p
	}
	base := strings.TrimSuffix(n.labels[labelProduct], "-SHARED")
	if base == "" {
		return "MIG-" + profile
	}
	return base + "-MIG-" + profile
}

// sharing is the strategy by which units of a resource are shared, empty when each is one device. Where shares are
// counted without a strategy being named it is "shared".
func (n *node) sharing(res string) string {
	plain := strings.TrimSuffix(res, sharedSuffix)
	strategy, replicas := n.labels[plain+".sharing-strategy"], n.labels[plain+".replicas"]
	if strategy != "" && strategy != "none" {
		return strategy
	}
	count, counted := n.number(plain + ".count")
	switch shares, _ := strconv.Atoi(replicas); {
	case shares > 1, plain != res, strings.HasSuffix(n.product(res), "-SHARED"), counted && n.gpus[res] > count:
		return "shared"
	}
	return ""
}

// number reads a label that is a count.
func (n *node) number(label string) (int, bool) {
	v, err := strconv.Atoi(n.labels[label])
	return v, err == nil && v >= 0
}

// whole returns how many devices the units of a shared resource are parts of: the count that GPU feature discovery
// states, which stays physical, else the units divided by the shares of each; 0 when neither is known.
func (n *node) whole(res string) int {
	plain := strings.TrimSuffix(res, sharedSuffix)
	if count, ok := n.number(plain + ".count"); ok {
		return count
	}
	if shares, ok := n.number(plain + ".replicas"); ok && shares > 0 {
		return n.gpus[res] / shares
	}
	return 0
}

// tolerated reports whether pods with these tolerations may be bound to the node. The taint that GPU nodes carry under
// the resource's own name is tolerated by every pod that requests the resource, by the ExtendedResourceToleration
// admission or by common manifests.
func (n *node) tolerated(by []corev1.Toleration) bool {
	for i := range n.taints {
		t := &n.taints[i]
		ok := isGPU(t.Key)
		for j := range by {
			ok = ok || tolerates(&by[j], t)
		}
		if !ok {
			return false
		}
	}
	return true
}

// tolerates follows the scheduler: an empty effect matches every effect, an empty key with Exists every key.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if t.Operator == corev1.TolerationOpExists {
		return true
	}
	return (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Key != "" && t.Value == taint.Value
}

// selected reports whether the node has every label of a nodeSelector.
func (n *node) selected(selector map[string]string) bool {
	for k, v := range selector {
		if have, ok := n.labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// open reports whether new pods can be bound to the node, taints apart: it is Ready, not cordoned, not on its way out,
// and, of Karpenter's, initialized. Until then its allocatable may lack the GPUs or the node its final labels.
func (n *node) open() bool {
	if !n.ready || n.unschedulable || n.deleting {
		return false
	}
	return n.labels[labelNodePool] == "" || n.labels[labelInitialized] == "true"
}
