package kube

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The shipped role allows exactly what is read: a kind that is missing would be unknown in every cluster, and anything
// else would be a right that nobody uses.
func TestRoleIsWhatIsRead(t *testing.T) {
	data, err := os.ReadFile("../../configs/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(data), "\n---\n")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
		t.Fatal(err)
	}
	var allowed, read []string
	for _, r := range role.Rules {
		if !slices.Equal(r.Verbs, []string{"list", "watch"}) || len(r.APIGroups) != 1 {
			t.Errorf("rule %+v: want one group with list and watch", r)
			continue
		}
		for _, resource := range r.Resources {
			allowed = append(allowed, resource+"."+r.APIGroups[0])
		}
	}
	for _, k := range kinds {
		read = append(read, k.resource+"."+k.group)
	}
	slices.Sort(allowed)
	slices.Sort(read)
	if !slices.Equal(allowed, read) {
		t.Errorf("allowed are %v\nread are %v", allowed, read)
	}
}
