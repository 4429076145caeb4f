package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// nodePool is what is kept of a Karpenter NodePool.
type nodePool struct {
	object
	static bool
	limits map[string]resource.Quantity
	used   map[string]resource.Quantity
	// gpus and product are what its requirements pin down; 0 and empty when they leave a choice.
	gpus    int
	product string
	spot    bool // it may launch nodes that the provider takes away at any time
}

// gpuCountLabels are requirements that say how many GPUs a node of the pool has.
var gpuCountLabels = []string{"karpenter.k8s.aws/instance-gpu-count", labelCount}

// nodePoolFacts converts a NodePool.
func nodePoolFacts(u *unstructured.Unstructured) (*nodePool, error) {
	p := &nodePool{object: objectOf(u), static: count(u.Object, "spec", "replicas") != nil}
	var err error
	if p.limits, err = quantities(u.Object, "spec", "limits"); err != nil {
		return nil, err
	}
	if p.used, err = quantities(u.Object, "status", "resources"); err != nil {
		return nil, err
	}
	requirements, _, err := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "requirements")
	if err != nil {
		return nil, err
	}
	pinned := map[string]string{}
	for _, r := range requirements {
		m, ok := r.(map[string]any)
		if !ok {
			continue // the API server refuses it
		}
		key, _, _ := unstructured.NestedString(m, "key")
		operator, _, _ := unstructured.NestedString(m, "operator")
		values, _, _ := unstructured.NestedStringSlice(m, "values")
		if operator == "In" && len(values) == 1 {
			pinned[key] = strings.Clone(values[0])
		}
		if key == "karpenter.sh/capacity-type" && operator == "In" {
			p.spot = slices.Contains(values, "spot")
		}
	}
	p.product = first(pinned, productLabels)
	p.gpus, _ = strconv.Atoi(first(pinned, gpuCountLabels))
	return p, nil
}

func quantities(obj map[string]any, path ...string) (map[string]resource.Quantity, error) {
	m, ok, err := unstructured.NestedMap(obj, path...)
	if err != nil || !ok {
		return nil, err
	}
	out := make(map[string]resource.Quantity, len(m))
	for key := range m {
		q, err := quantity(m, key)
		if err != nil {
			return nil, err
		}
		out[strings.Clone(key)] = q
	}
	return out, nil
}

// launchable is how many more nodes with so many GPUs the pool's limits allow, nil when there are no limits that say
// it. A whole node must fit what remains of each limit, as in Karpenter's filterByRemainingResources. like is a node of
// the pool, whose CPU and memory a new one is taken to have; nil is none, and then limits on these bound nothing. A
// static pool launches no node for a pending pod.
func (p *nodePool) launchable(res string, gpus int, like *node) *int {
	if p.static {
		none := 0
		return &none
	}
	perNode := map[string]int64{"nodes": 1, res: int64(gpus)}
	if like != nil {
		perNode["cpu"], perNode["memory"] = like.cpu.MilliValue(), like.memory.Value()
	}
	var out *int
	for key, limit := range p.limits {
		each := perNode[key]
		if each <= 0 {
			continue
		}
		used := p.used[key]
		rest := limit.Value() - used.Value()
		if key == "cpu" {
			rest = limit.MilliValue() - used.MilliValue()
		}
		if n := int(max(0, rest/each)); out == nil || n < *out {
			out = &n
		}
	}
	return out
}

// nodeClaim is what is kept of a Karpenter NodeClaim.
type nodeClaim struct {
	object
	pool        string
	node        string // its name, once registered
	initialized bool
	deleting    bool
	// The times of creation and of its conditions; zero is unknown.
	created, launchedAt, registeredAt, initializedAt time.Time
}

// nodeClaimFacts converts a NodeClaim.
func nodeClaimFacts(u *unstructured.Unstructured) (*nodeClaim, error) {
	c := &nodeClaim{object: objectOf(u), pool: strings.Clone(u.GetLabels()[labelNodePool]), deleting: u.GetDeletionTimestamp() != nil}
	name, _, err := unstructured.NestedString(u.Object, "status", "nodeName")
	if err != nil {
		return nil, err
	}
	c.node = strings.Clone(name)
	c.initialized = isTrue(u.Object, "Initialized")
	c.created = u.GetCreationTimestamp().UTC()
	c.launchedAt, c.registeredAt = trueSince(u.Object, "Launched"), trueSince(u.Object, "Registered")
	c.initializedAt = trueSince(u.Object, "Initialized")
	return c, nil
}

// trueSince is when a condition became true; zero when it is not, or its time cannot be read.
func trueSince(obj map[string]any, condition string) time.Time {
	if !isTrue(obj, condition) {
		return time.Time{}
	}
	conditions, _, _ := unstructured.NestedSlice(obj, "status", "conditions")
	for _, item := range conditions {
		m, _ := item.(map[string]any)
		if kind, _, _ := unstructured.NestedString(m, "type"); kind == condition {
			text, _, _ := unstructured.NestedString(m, "lastTransitionTime")
			if t, err := time.Parse(time.RFC3339, text); err == nil {
				return t.UTC()
			}
		}
	}
	return time.Time{}
}

// buffer is what is kept of a CapacityBuffer.
type buffer struct {
	object
	wanted, replicas *int
	fits             *bool
}

// bufferFacts converts a CapacityBuffer (autoscaling.x-k8s.io/v1beta1). Its condition Provisioning says whether it fits on
// nodes that are there.
func bufferFacts(u *unstructured.Unstructured) (*buffer, error) {
	b := &buffer{object: objectOf(u), wanted: count(u.Object, "spec", "replicas"), replicas: count(u.Object, "status", "replicas")}
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil, fmt.Errorf("CapacityBuffer %s: %w", b.object, err)
	}
	for _, item := range conditions {
		m, _ := item.(map[string]any)
		kind, _, _ := unstructured.NestedString(m, "type")
		status, _, _ := unstructured.NestedString(m, "status")
		if kind == "Provisioning" && status != "Unknown" {
			fits := status == "True"
			b.fits = &fits
		}
	}
	return b, nil
}
