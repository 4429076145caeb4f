package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// kind is one kind of object that is watched.
type kind struct {
	group, resource string
	// versions that are known, the one to prefer first; another one is taken when none of them is served.
	versions []string
	// everywhere is set for kinds without a namespace, and for those whose facts concern the whole cluster: pods, their
	// claims, events and disruption budgets, buffers and queues, which are watched in all.
	everywhere bool
	// without says what is not known when the kind is not installed.
	without string
	// expect is the Go type that the API client returns.
	expect runtime.Object
	// convert returns what is kept of an object; nil keeps nothing of it.
	convert func(any) (any, error)
	source  func(c Clients, gvr schema.GroupVersionResource, namespace string) cache.ListerWatcher
}

// id is the kind's name in messages and RBAC, such as "scaledobjects.keda.sh".
func (k *kind) id() string {
	return schema.GroupResource{Group: k.group, Resource: k.resource}.String()
}

// The names of the kinds as facts ask for them.
const (
	pods           = "pods"
	nodes          = "nodes"
	events         = "events"
	replicaSets    = "replicasets.apps"
	deployments    = "deployments.apps"
	statefulSets   = "statefulsets.apps"
	hpas           = "horizontalpodautoscalers.autoscaling"
	scaledObjects  = "scaledobjects.keda.sh"
	leaderSets     = "leaderworkersets.leaderworkerset.x-k8s.io"
	rayClusters    = "rayclusters.ray.io"
	rayServices    = "rayservices.ray.io"
	inferences     = "inferenceservices.serving.kserve.io"
	nodePools      = "nodepools.karpenter.sh"
	nodeClaims     = "nodeclaims.karpenter.sh"
	buffers        = "capacitybuffers.autoscaling.x-k8s.io"
	clusterQueues  = "clusterqueues.kueue.x-k8s.io"
	cohorts        = "cohorts.kueue.x-k8s.io"
	flavors        = "resourceflavors.kueue.x-k8s.io"
	quotaRequests  = "workloads.kueue.x-k8s.io"
	localQueues    = "localqueues.kueue.x-k8s.io"
	topologies     = "topologies.kueue.x-k8s.io"
	resourceSlices = "resourceslices.resource.k8s.io"
	resourceClaims = "resourceclaims.resource.k8s.io"
	// disruptionBudgets are watched in all namespaces, as pods are.
	disruptionBudgets = "poddisruptionbudgets.policy"
	withoutKueue      = "no quotas; replicas are placed as if nothing limited their admission"
	withoutNodePool   = "how many more nodes may be launched is unknown"
)

// kinds lists everything that is watched.
var kinds = []*kind{
	{group: "", resource: "pods", versions: []string{"v1"}, everywhere: true, expect: &corev1.Pod{}, convert: to(podFacts),
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.CoreV1().Pods(ns)
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	{group: "", resource: "nodes", versions: []string{"v1"}, everywhere: true, expect: &corev1.Node{}, convert: to(nodeFacts),
		source: func(c Clients, _ schema.GroupVersionResource, _ string) cache.ListerWatcher {
			api := c.Kube.CoreV1().Nodes()
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	{group: "", resource: "events", versions: []string{"v1"}, everywhere: true, expect: &corev1.Event{}, convert: startEventFacts,
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.CoreV1().Events(ns)
			return listWatch(c.Kube, aboutPods(api.List), aboutPods(api.Watch))
		}},
	{group: "apps", resource: "replicasets", versions: []string{"v1"}, expect: &metav1.PartialObjectMetadata{},
		convert: to(replicaSetFacts), source: metadataOnly},
	{group: "apps", resource: "deployments", versions: []string{"v1"}, expect: &appsv1.Deployment{}, convert: to(deploymentFacts),
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.AppsV1().Deployments(ns)
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	{group: "apps", resource: "statefulsets", versions: []string{"v1"}, expect: &appsv1.StatefulSet{}, convert: to(statefulSetFacts),
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.AppsV1().StatefulSets(ns)
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	{group: "autoscaling", resource: "horizontalpodautoscalers", versions: []string{"v2"},
		expect: &autoscalingv2.HorizontalPodAutoscaler{}, convert: to(hpaFacts),
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.AutoscalingV2().HorizontalPodAutoscalers(ns)
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	{group: "policy", resource: "poddisruptionbudgets", versions: []string{"v1"}, everywhere: true,
		expect: &policyv1.PodDisruptionBudget{}, convert: to(disruptionBudgetFacts),
		source: func(c Clients, _ schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Kube.PolicyV1().PodDisruptionBudgets(ns)
			return listWatch(c.Kube, api.List, api.Watch)
		}},
	custom("keda.sh", "scaledobjects", scaledObjectFacts, "no workload can be matched to a model and nothing acts on the plan",
		"v1alpha1"),
	custom("leaderworkerset.x-k8s.io", "leaderworkersets", customFacts, "no replicas of several pods by LeaderWorkerSet", "v1"),
	custom("ray.io", "rayclusters", customFacts, "no replicas in Ray worker groups", "v1"),
	custom("ray.io", "rayservices", customFacts, "no models served by RayService", "v1"),
	custom("serving.kserve.io", "inferenceservices", customFacts, "no models served by KServe", "v1beta1"),
	clusterWide(custom("karpenter.sh", "nodepools", nodePoolFacts, withoutNodePool, "v1")),
	clusterWide(custom("karpenter.sh", "nodeclaims", nodeClaimFacts, "nodes on their way are not seen", "v1")),
	clusterWide(custom("autoscaling.x-k8s.io", "capacitybuffers", bufferFacts, "no spare room is asked for by buffers",
		"v1beta1")),
	clusterWide(custom("kueue.x-k8s.io", "clusterqueues", clusterQueueFacts, withoutKueue, "v1beta2", "v1beta1")),
	clusterWide(custom("kueue.x-k8s.io", "localqueues", localQueueFacts, withoutKueue, "v1beta2", "v1beta1")),
	clusterWide(custom("kueue.x-k8s.io", "cohorts", cohortFacts, withoutKueue, "v1beta2", "v1beta1", "v1alpha1")),
	clusterWide(custom("kueue.x-k8s.io", "resourceflavors", flavorFacts, withoutKueue, "v1beta2", "v1beta1")),
	clusterWide(custom("kueue.x-k8s.io", "workloads", quotaRequestFacts, withoutKueue, "v1beta2", "v1beta1")),
	clusterWide(custom("kueue.x-k8s.io", "topologies", topologyFacts, "domains come from NVLink cliques alone",
		"v1beta2", "v1beta1", "v1alpha1")),
	clusterWide(custom("resource.k8s.io", "resourceslices", resourceSliceFacts, "no devices by dynamic resource allocation",
		"v1", "v1beta2", "v1beta1")),
	clusterWide(custom("resource.k8s.io", "resourceclaims", resourceClaimFacts, "no devices by dynamic resource allocation",
		"v1", "v1beta2", "v1beta1")),
}

// to adapts the conversion of one Go type; what is converted already passes, since client-go may convert twice.
func to[T any, F any](f func(*T) *F) func(any) (any, error) {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *T:
			return f(o), nil
		case *F:
			return o, nil
		}
		return nil, fmt.Errorf("a %T came, want %T", obj, (*T)(nil))
	}
}

// custom is a kind that is read by field.
func custom[F any](group, resource string, f func(*unstructured.Unstructured) (*F, error), without string, versions ...string) *kind {
	return &kind{group: group, resource: resource, versions: versions, without: without, expect: &unstructured.Unstructured{},
		convert: func(obj any) (any, error) {
			switch o := obj.(type) {
			case *unstructured.Unstructured:
				return f(o)
			case *F:
				return o, nil
			}
			return nil, fmt.Errorf("a %T came, want *unstructured.Unstructured", obj)
		},
		source: func(c Clients, gvr schema.GroupVersionResource, ns string) cache.ListerWatcher {
			api := c.Dynamic.Resource(gvr).Namespace(ns)
			return listWatch(c.Dynamic, api.List, api.Watch)
		}}
}

// aboutPods asks for the events about pods only: most events of a large cluster are about other kinds.
func aboutPods[R any](call func(context.Context, metav1.ListOptions) (R, error)) func(context.Context, metav1.ListOptions) (R, error) {
	return func(ctx context.Context, o metav1.ListOptions) (R, error) {
		o.FieldSelector = "involvedObject.kind=Pod"
		return call(ctx, o)
	}
}

func clusterWide(k *kind) *kind {
	k.everywhere = true
	return k
}

func metadataOnly(c Clients, gvr schema.GroupVersionResource, ns string) cache.ListerWatcher {
	api := c.Metadata.Resource(gvr).Namespace(ns)
	return listWatch(c.Metadata, api.List, api.Watch)
}

// listWatch makes a source of a client's two methods. client says whether it can stream lists.
func listWatch[L runtime.Object](client any, list func(context.Context, metav1.ListOptions) (L, error),
	look func(context.Context, metav1.ListOptions) (watch.Interface, error)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return list(ctx, o)
		},
		WatchFuncWithContext: look,
	}, client)
}
