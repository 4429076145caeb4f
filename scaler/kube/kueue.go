package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"forewarm/planner"
)

// clusterQueue is what is kept of a Kueue ClusterQueue.
type clusterQueue struct {
	object
	quotas []planner.Quota // without the models
}

// clusterQueueFacts converts a ClusterQueue of v1beta1 or v1beta2, which differ here only in the name of the cohort's
// field. Only GPU resources are kept. Usage includes what is borrowed.
func clusterQueueFacts(u *unstructured.Unstructured) (*clusterQueue, error) {
	q := &clusterQueue{object: objectOf(u)}
	cohort, _, _ := unstructured.NestedString(u.Object, "spec", "cohortName")
	if cohort == "" {
		cohort, _, _ = unstructured.NestedString(u.Object, "spec", "cohort")
	}
	used, err := flavorAmounts(u.Object, "total", "status", "flavorsUsage")
	if err != nil {
		return nil, fmt.Errorf("ClusterQueue %s: status: %w", q.name, err)
	}
	reserved, err := flavorAmounts(u.Object, "total", "status", "flavorsReservation")
	if err != nil {
		return nil, fmt.Errorf("ClusterQueue %s: status: %w", q.name, err)
	}
	if q.quotas, err = groupQuotas(u); err != nil {
		return nil, fmt.Errorf("ClusterQueue %s: %w", q.name, err)
	}
	for i := range q.quotas {
		quota := &q.quotas[i]
		quota.Queue, quota.Cohort = q.name, strings.Clone(cohort)
		key := quota.Flavor + " " + counted(quota)
		quota.Used, quota.Reserved = used[key], reserved[key]
	}
	return q, nil
}

// counted is the resource that a quota counts.
func counted(q *planner.Quota) string {
	if q.Resource == "" {
		return resourceGPU
	}
	return q.Resource
}

// groupQuotas reads the GPU quotas of the resource groups of a ClusterQueue or a Cohort, sorted by flavor and resource.
func groupQuotas(u *unstructured.Unstructured) ([]planner.Quota, error) {
	groups, _, err := unstructured.NestedSlice(u.Object, "spec", "resourceGroups")
	if err != nil {
		return nil, err
	}
	var out []planner.Quota
	for _, g := range groups {
		group, _ := g.(map[string]any)
		err := eachFlavor(group, func(flavor string, r map[string]any, res string) error {
			quota, err := quotaOf(r)
			if err != nil {
				return fmt.Errorf("flavor %s, %s: %w", flavor, res, err)
			}
			quota.Flavor = strings.Clone(flavor)
			if res != resourceGPU {
				quota.Resource = strings.Clone(res)
			}
			out = append(out, quota)
			return nil
		}, "flavors")
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b planner.Quota) int {
		return cmp.Or(cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

func quotaOf(r map[string]any) (planner.Quota, error) {
	var q planner.Quota
	nominal, err := quantity(r, "nominalQuota")
	if err != nil {
		return q, err
	}
	q.Nominal = int(nominal.Value())
	for _, limit := range []struct {
		key string
		to  **int
	}{{"borrowingLimit", &q.BorrowingLimit}, {"lendingLimit", &q.LendingLimit}} {
		if _, ok := r[limit.key]; !ok {
			continue
		}
		v, err := quantity(r, limit.key)
		if err != nil {
			return q, err
		}
		n := int(v.Value())
		*limit.to = &n
	}
	return q, nil
}

// flavorAmounts reads one amount of every GPU resource of every flavor, by "flavor resource".
func flavorAmounts(obj map[string]any, key string, path ...string) (amounts, error) {
	out := amounts{}
	err := eachFlavor(obj, func(flavor string, r map[string]any, res string) error {
		v, err := quantity(r, key)
		out[flavor+" "+res] = int(v.Value())
		return err
	}, path...)
	return out, err
}

// eachFlavor calls f for every GPU resource of every flavor in the list at path.
func eachFlavor(obj map[string]any, f func(flavor string, r map[string]any, res string) error, path ...string) error {
	flavors, _, err := unstructured.NestedSlice(obj, path...)
	if err != nil {
		return err
	}
	for _, item := range flavors {
		flavor, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(flavor, "name")
		resources, _, err := unstructured.NestedSlice(flavor, "resources")
		if err != nil {
			return err
		}
		for _, item := range resources {
			r, _ := item.(map[string]any)
			res, _, _ := unstructured.NestedString(r, "name")
			if !isGPU(res) {
				continue
			}
			if err := f(name, r, res); err != nil {
				return err
			}
		}
	}
	return nil
}

func quantity(m map[string]any, key string) (resource.Quantity, error) {
	v, ok := m[key]
	if !ok {
		return resource.Quantity{}, nil // omitted when it is 0
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return q, fmt.Errorf("%s is %v: %w", key, v, err)
	}
	return q, nil
}

// cohort is what is kept of a Kueue Cohort.
type cohort struct {
	object
	parent string
	quotas []planner.Quota
}

// cohortFacts converts a Cohort: v1beta1 calls the parent parentName as v1beta2 does, v1alpha1 called it parent.
func cohortFacts(u *unstructured.Unstructured) (*cohort, error) {
	c := &cohort{object: objectOf(u)}
	parent, _, _ := unstructured.NestedString(u.Object, "spec", "parentName")
	if parent == "" {
		parent, _, _ = unstructured.NestedString(u.Object, "spec", "parent")
	}
	c.parent = strings.Clone(parent)
	var err error
	if c.quotas, err = groupQuotas(u); err != nil {
		return nil, fmt.Errorf("cohort %s: %w", c.name, err)
	}
	for i := range c.quotas {
		c.quotas[i].Cohort = c.name
	}
	return c, nil
}

// flavor is what is kept of a Kueue ResourceFlavor.
type flavor struct {
	object
	labels map[string]string
}

func flavorFacts(u *unstructured.Unstructured) (*flavor, error) {
	labels, _, err := unstructured.NestedStringMap(u.Object, "spec", "nodeLabels")
	if err != nil {
		return nil, fmt.Errorf("ResourceFlavor %s: %w", u.GetName(), err)
	}
	return &flavor{objectOf(u), cloned(labels)}, nil
}

// quotaRequest is what is kept of a Kueue Workload: what it asks for while it waits for quota.
type quotaRequest struct {
	object
	queue   string  // LocalQueue
	waiting amounts // nil once it has quota, is finished or is not active

	uid    string
	owners []reference // its job, or the pods of its group
	// evictedFor is the UID of the Workload that it made room for, at evictedAt; empty when it did not, or has quota again.
	evictedFor string
	evictedAt  time.Time
}

// quotaRequestFacts converts a Workload. What it asks for is what its pod templates ask for, times their counts; what
// Kueue adds or leaves out by its own configuration concerns no GPUs.
func quotaRequestFacts(u *unstructured.Unstructured) (*quotaRequest, error) {
	queue, _, _ := unstructured.NestedString(u.Object, "spec", "queueName")
	r := &quotaRequest{object: objectOf(u), queue: strings.Clone(queue), uid: strings.Clone(string(u.GetUID()))}
	for _, o := range u.GetOwnerReferences() {
		r.owners = append(r.owners, reference{kind: strings.Clone(o.Kind), name: strings.Clone(o.Name)})
	}
	r.readEviction(u)
	active, stated, _ := unstructured.NestedBool(u.Object, "spec", "active")
	if stated && !active || isTrue(u.Object, "QuotaReserved") || isTrue(u.Object, "Finished") {
		return r, nil
	}
	sets, _, err := unstructured.NestedSlice(u.Object, "spec", "podSets")
	if err != nil {
		return nil, fmt.Errorf("Workload %s: %w", r.object, err)
	}
	for _, item := range sets {
		set, _ := item.(map[string]any)
		spec, err := templateSpec(set, "template", "spec")
		if err != nil {
			return nil, fmt.Errorf("Workload %s: %w", r.object, err)
		}
		if spec == nil {
			continue
		}
		pods := 1 // the API server's default
		if n := count(set, "count"); n != nil {
			pods = *n
		}
		for res, n := range requested(spec) {
			if r.waiting == nil {
				r.waiting = amounts{}
			}
			r.waiting[res] += pods * n
		}
	}
	return r, nil
}

// readEviction takes the preemptor out of the condition Evicted with reason Preempted: "Preempted to accommodate a workload
// (UID: x, JobUID: y) due to …"; the oldest versions have no JobUID.
func (r *quotaRequest) readEviction(u *unstructured.Unstructured) {
	r.evictedAt = trueSince(u.Object, "Evicted")
	if r.evictedAt.IsZero() {
		return
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		m, _ := item.(map[string]any)
		kind, _, _ := unstructured.NestedString(m, "type")
		reason, _, _ := unstructured.NestedString(m, "reason")
		message, _, _ := unstructured.NestedString(m, "message")
		if _, rest, found := strings.Cut(message, "(UID: "); kind == "Evicted" && reason == "Preempted" && found {
			if end := strings.IndexAny(rest, ",)"); end >= 0 {
				r.evictedFor = strings.Clone(rest[:end])
			}
		}
	}
}

// indexEvictions finds out for whom Kueue made workloads leave.
func (w *world) indexEvictions() {
	w.evictions = map[Workload][]time.Time{}
	byUID := map[string]*quotaRequest{}
	for _, r := range w.waiting {
		byUID[r.uid] = r
	}
	for _, r := range w.waiting {
		preemptor := byUID[r.evictedFor]
		if r.evictedFor == "" || preemptor == nil {
			continue
		}
		for _, o := range preemptor.owners {
			key := Workload{preemptor.namespace, o.kind, o.name}
			w.evictions[key] = append(w.evictions[key], r.evictedAt)
		}
	}
}

// isTrue reports whether an object has a condition with status True.
func isTrue(obj map[string]any, condition string) bool {
	conditions, _, err := unstructured.NestedSlice(obj, "status", "conditions")
	if err != nil {
		return false
	}
	for _, item := range conditions {
		m, _ := item.(map[string]any)
		kind, _, _ := unstructured.NestedString(m, "type")
		status, _, _ := unstructured.NestedString(m, "status")
		if kind == condition {
			return status == "True"
		}
	}
	return false
}

// localQueue leads from a namespace's queue to the ClusterQueue.
type localQueue struct {
	object
	clusterQueue string
}

func localQueueFacts(u *unstructured.Unstructured) (*localQueue, error) {
	name, _, err := unstructured.NestedString(u.Object, "spec", "clusterQueue")
	return &localQueue{objectOf(u), strings.Clone(name)}, err
}

// topology is a Kueue Topology: node labels from the widest level to the narrowest.
type topology struct {
	object
	levels []string
}

// topologyFacts converts a Topology. The level of single nodes is left out.
func topologyFacts(u *unstructured.Unstructured) (*topology, error) {
	levels, _, err := unstructured.NestedSlice(u.Object, "spec", "levels")
	if err != nil {
		return nil, fmt.Errorf("topology %s: %w", u.GetName(), err)
	}
	t := &topology{object: objectOf(u)}
	for _, l := range levels {
		m, _ := l.(map[string]any)
		label, _, _ := unstructured.NestedString(m, "nodeLabel")
		if label != "" && label != "kubernetes.io/hostname" {
			t.levels = append(t.levels, strings.Clone(label))
		}
	}
	return t, nil
}

// domain is the narrowest domain of the topology that holds the node, as the path of all levels (a rack's name may
// repeat in another block); ok is false unless the node carries every label.
func (t *topology) domain(labels map[string]string) (path string, ok bool) {
	if len(t.levels) == 0 {
		return "", false
	}
	parts := make([]string, len(t.levels))
	for i, l := range t.levels {
		if parts[i] = labels[l]; parts[i] == "" {
			return "", false
		}
	}
	return strings.Join(parts, "/"), true
}
