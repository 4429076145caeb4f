package kube

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// t0 is when the tests' objects are looked at.
var t0 = time.Date(2026, 3, 2, 9, 15, 0, 0, time.UTC)

// resourceOf names the kind under which each object of a test is watched.
var resourceOf = map[string]string{
	"Pod": pods, "Node": nodes, "ReplicaSet": replicaSets, "Deployment": deployments, "StatefulSet": statefulSets,
	"HorizontalPodAutoscaler": hpas, "ScaledObject": scaledObjects, "LeaderWorkerSet": leaderSets, "RayCluster": rayClusters,
	"RayService": rayServices, "InferenceService": inferences, "NodePool": nodePools, "NodeClaim": nodeClaims,
	"ClusterQueue": clusterQueues, "LocalQueue": localQueues, "Topology": topologies, "ResourceSlice": resourceSlices,
	"ResourceClaim": resourceClaims, "Cohort": cohorts, "ResourceFlavor": flavors, "Workload": quotaRequests,
	"CapacityBuffer": buffers, "PodDisruptionBudget": disruptionBudgets, "Event": events,
}

func kindNamed(t testing.TB, id string) *kind {
	t.Helper()
	for _, k := range kinds {
		if k.id() == id {
			return k
		}
	}
	t.Fatalf("no kind %q is watched", id)
	return nil
}

// objects reads YAML documents as the API client would hand them over, with the kind under which each is watched.
func objects(t testing.TB, docs string) (out []runtime.Object, of []*kind) {
	t.Helper()
	for doc := range strings.SplitSeq(docs, "\n---\n") {
		var u unstructured.Unstructured
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		if string(data) == "null" {
			continue
		}
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		k := kindNamed(t, resourceOf[u.GetKind()])
		if _, byField := k.expect.(*unstructured.Unstructured); byField {
			out, of = append(out, &u), append(of, k)
			continue
		}
		typed := reflect.New(reflect.TypeOf(k.expect).Elem()).Interface().(runtime.Object)
		if err := json.Unmarshal(data, typed); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		out, of = append(out, typed), append(of, k)
	}
	return out, of
}

// worldOf converts objects by the functions that the feeds use.
func worldOf(t testing.TB, docs ...string) *world {
	t.Helper()
	o := &Observer{cfg: DefaultConfig(), now: func() time.Time { return t0 }, feeds: map[feedKey]*feed{}, absent: map[string]bool{}}
	for _, k := range kinds {
		o.absent[k.id()] = false
		f := newFeed(k, gvrOf(k), "", o.now)
		f.synced = true
		o.feeds[feedKey{k.id(), ""}] = f
	}
	for _, d := range docs {
		list, of := objects(t, d)
		for i, obj := range list {
			f := o.feeds[feedKey{of[i].id(), ""}]
			if err := f.Add(obj); err != nil {
				t.Fatal(err)
			}
			for key, err := range f.unread {
				t.Fatalf("%s %s: %v", of[i].id(), key, err)
			}
		}
	}
	return o.world(t0)
}

// asJSON prints facts for comparison and for people.
func asJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// same compares facts field by field.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func ptr[T any](v T) *T { return &v }

// gvrOf is a kind in the version to prefer.
func gvrOf(k *kind) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: k.versions[0], Resource: k.resource}
}
