package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	groups, _, err := unstructured.NestedSlice(u.Object, "spec", "resourceGroups")
	if err != nil {
		return nil, fmt.Errorf("ClusterQueue %s: %w", q.name, err)
	}
	for _, g := range groups {
		group, _ := g.(map[string]any)
		err := eachFlavor(group, func(flavor string, r map[string]any, res string) error {
			quota, err := quotaOf(r)
			if err != nil {
				return fmt.Errorf("flavor %s, %s: %w", flavor, res, err)
			}
			quota.Queue, quota.Flavor, quota.Cohort = q.name, strings.Clone(flavor), strings.Clone(cohort)
			quota.Used = used[flavor+" "+res]
			if res != resourceGPU {
				quota.Resource = strings.Clone(res)
			}
			q.quotas = append(q.quotas, quota)
			return nil
		}, "flavors")
		if err != nil {
			return nil, fmt.Errorf("ClusterQueue %s: %w", q.name, err)
		}
	}
	slices.SortFunc(q.quotas, func(a, b planner.Quota) int {
		return cmp.Or(cmp.Compare(a.Flavor, b.Flavor), cmp.Compare(a.Resource, b.Resource))
	})
	return q, nil
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
