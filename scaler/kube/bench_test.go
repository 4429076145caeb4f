package kube

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A cluster of this size is the bar of the daemon's memory.
const (
	benchNodes = 1000
	benchPods  = 5000
)

// bulkyMeta is metadata as objects of a real cluster carry it: labels, annotations and managed fields that nobody here
// reads.
func bulkyMeta(kind string, i int) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", kind, i), UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)),
		CreationTimestamp: metav1.NewTime(t0), Labels: map[string]string{}, Annotations: map[string]string{}}
	for j := range 20 {
		m.Labels[fmt.Sprintf("example.com/label-%d", j)] = fmt.Sprintf("value-%d-%d", i, j)
	}
	m.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = fmt.Sprintf("%2000d", i)
	for j := range 4 {
		m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{Manager: fmt.Sprintf("manager-%d", j),
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf("%1500d", i))})
	}
	return m
}

func bulkyNode(i int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: bulkyMeta("node", i)}
	n.Labels[labelProduct], n.Labels[labelCount] = "NVIDIA-H100-80GB-HBM3", "8"
	n.Labels[labelClique] = fmt.Sprintf("cluster.%d", i/18)
	n.Status.Allocatable = corev1.ResourceList{resourceGPU: resource.MustParse("8"), "cpu": resource.MustParse("96")}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for j := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/image-%d:%d", j, i)}})
	}
	return n
}

func bulkyPod(i int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: bulkyMeta("pod", i)}
	p.Namespace = "serving"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("model-%d-5d", i%100), Controller: ptr(true)}}
	p.Spec.NodeName = fmt.Sprintf("node-%05d", i%benchNodes)
	c := corev1.Container{Name: "engine", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{resourceGPU: resource.MustParse("1")}}}
	for j := range 30 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: fmt.Sprintf("%100d", i)})
	}
	p.Spec.Containers = []corev1.Container{c, c}
	p.Spec.Containers[1].Resources = corev1.ResourceRequirements{}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(t0)}}
	return p
}

// heap is what is reachable, in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// filled is an Observer that holds the cluster of the bar; objects are made one at a time, as a streamed list hands them
// over.
func filled(tb testing.TB) *Observer {
	models := make([]Model, 100)
	for i := range models {
		models[i] = Model{Name: fmt.Sprintf("model-%d", i)}
	}
	o, err := New(Clients{}, DefaultConfig(), models, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for _, k := range kinds {
		o.absent[k.id()] = false
		f := newFeed(k, gvrOf(k), "", time.Now)
		f.synced = true
		o.feeds[feedKey{k.id(), ""}] = f
	}
	add := func(id string, obj any) {
		if err := o.feeds[feedKey{id, ""}].Add(obj); err != nil {
			tb.Fatal(err)
		}
	}
	for i := range benchNodes {
		add(nodes, bulkyNode(i))
	}
	for i := range benchPods {
		add(pods, bulkyPod(i))
	}
	for i := range models {
		list, of := objects(tb, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: serving, name: model-%[1]d}
spec: {replicas: 50, template: {spec: {containers: []}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {namespace: serving, name: model-%[1]d-5d, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: model-%[1]d, uid: u, controller: true}]}
---%s`, i, scaledObjectFor(models[i].Name, "Deployment", models[i].Name, "")))
		for j, obj := range list {
			add(of[j].id(), obj)
		}
	}
	return o
}

// TestMemory holds the kept copy far below the daemon's 512 MiB: 7 MiB were measured, and the limit leaves a factor for
// other allocators and Go versions.
func TestMemory(t *testing.T) {
	const limit = 32.0
	before := heap()
	o := filled(t)
	used := heap() - before
	t.Logf("%d pods and %d nodes: %.1f MiB", benchPods, benchNodes, used)
	if used > limit {
		t.Errorf("%d pods and %d nodes take %.1f MiB, allowed are %.0f", benchPods, benchNodes, used, limit)
	}
	obs, err := o.Observe(t.Context(), t0)
	if err != nil || obs.Models[7].Replicas.Ready != benchPods/100 {
		t.Errorf("got %+v, %v", obs.Models[7], err)
	}
}

func BenchmarkObserve(b *testing.B) {
	before := heap()
	o := filled(b)
	b.ReportMetric(heap()-before, "MiB")
	for b.Loop() {
		if _, err := o.Observe(b.Context(), t0); err != nil {
			b.Fatal(err)
		}
	}
}
