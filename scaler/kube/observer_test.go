package kube

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"forewarm/coldstart"
)

// cluster is client-go's fake of an API server, in three views, as the Observer uses them.
type cluster struct {
	kube     *kubefake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient
	metadata *metadatafake.FakeMetadataClient
	missing  map[string]bool // kinds that are not installed
	offered  sync.Mutex      // guards what discovery offers
}

// newCluster serves every kind but the missing ones, with the objects of docs.
func newCluster(t *testing.T, docs string, missing ...string) *cluster {
	t.Helper()
	c := &cluster{missing: map[string]bool{}}
	var typed, byField, metadata []runtime.Object
	list, of := objects(t, docs)
	for i, obj := range list {
		switch o := obj.(type) {
		case *unstructured.Unstructured:
			byField = append(byField, o)
		case *metav1.PartialObjectMetadata:
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: of[i].group, Version: "v1", Kind: "ReplicaSet"})
			metadata = append(metadata, o)
		default:
			typed = append(typed, o)
		}
	}
	lists := map[schema.GroupVersionResource]string{}
	for _, k := range kinds {
		lists[gvrOf(k)] = k.resource + "List"
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c.kube = kubefake.NewClientset(typed...)
	c.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, byField...)
	c.metadata = metadatafake.NewSimpleMetadataClient(scheme, metadata...)
	for _, id := range missing {
		c.missing[id] = true
	}
	c.offer()
	return c
}

// offer makes discovery say what is installed.
func (c *cluster) offer() {
	byVersion := map[string]*metav1.APIResourceList{}
	var lists []*metav1.APIResourceList
	for _, k := range kinds {
		gv := gvrOf(k).GroupVersion().String()
		if byVersion[gv] == nil {
			byVersion[gv] = &metav1.APIResourceList{GroupVersion: gv}
			lists = append(lists, byVersion[gv])
		}
		if !c.missing[k.id()] {
			byVersion[gv].APIResources = append(byVersion[gv].APIResources, metav1.APIResource{Name: k.resource})
		}
	}
	c.offered.Lock()
	defer c.offered.Unlock()
	c.kube.Discovery().(*fakediscovery.FakeDiscovery).Resources = lists
}

func (c *cluster) clients() Clients {
	return Clients{lockedClient{c.kube, &c.offered}, c.dynamic, c.metadata}
}

// lockedClient lets a test change what is offered while an Observer asks: the fake itself takes no lock.
type lockedClient struct {
	*kubefake.Clientset
	offered *sync.Mutex
}

func (c lockedClient) Discovery() discovery.DiscoveryInterfaces {
	return lockedDiscovery{c.Clientset.Discovery(), c.offered}
}

type lockedDiscovery struct {
	discovery.DiscoveryInterfaces
	offered *sync.Mutex
}

func (d lockedDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	d.offered.Lock()
	defer d.offered.Unlock()
	return d.DiscoveryInterfaces.ServerGroups()
}

func (d lockedDiscovery) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	d.offered.Lock()
	defer d.offered.Unlock()
	return d.DiscoveryInterfaces.ServerResourcesForGroupVersion(gv)
}

// forbid makes listing a kind fail.
func (c *cluster) forbid(resource string) {
	refuse := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule allows it"))
	}
	c.kube.PrependReactor("list", resource, refuse)
	c.dynamic.PrependReactor("list", resource, refuse)
}

// observing runs an Observer inside a synctest bubble and hands it to f once its first lists have come or failed.
func observing(t *testing.T, c *cluster, models []Model, f func(t *testing.T, o *Observer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o, err := New(c.clients(), DefaultConfig(), models, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.Run(ctx) }()
		if err := o.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		f(t, o)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

var chat = []Model{{Name: "chat"}}

func chatDocs() string {
	return docs(deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), nodeYAML("gpu", time.Hour, h100, gpus8),
		podDocs(readyPod("chat-r", "ReplicaSet/chat-5d")))
}

func TestObserveFollowsTheCluster(t *testing.T) {
	c := newCluster(t, chatDocs())
	observing(t, c, chat, func(t *testing.T, o *Observer) {
		now := time.Now()
		obs, err := o.Observe(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		m := obs.Models[0]
		if len(obs.Gaps) != 0 || m.Replicas == nil || m.Replicas.Ready != 1 || m.Actuator == nil || obs.Inventory.Pools[0].Nodes[0].FreeGPUs != 8 {
			t.Fatalf("got %s", asJSON(t, obs))
		}
		// A pod comes, becomes ready, and another goes.
		list, _ := objects(t, podDoc{name: "chat-n", owner: "ReplicaSet/chat-5d", node: "gpu", gpus: 4}.yaml())
		p := list[0].(*corev1.Pod)
		p.CreationTimestamp = metav1.NewTime(now.Add(time.Second))
		pods := c.kube.CoreV1().Pods("serving")
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		obs, err = o.Observe(t.Context(), now.Add(15*time.Second))
		if err != nil || len(obs.Models[0].Replicas.Starting) != 1 || obs.Inventory.Pools[0].Nodes[0].FreeGPUs != 4 {
			t.Fatalf("the pod that came is not seen: %s, %v", asJSON(t, obs), err)
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(21 * time.Second))}}
		if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(t.Context(), "chat-r", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		obs, err = o.Observe(t.Context(), now.Add(30*time.Second))
		m = obs.Models[0]
		if err != nil || m.Replicas.Ready != 1 || len(m.Starts) != 1 || m.Starts[0].Total != 20*time.Second {
			t.Fatalf("the start is not seen: %s, %v", asJSON(t, obs), err)
		}
	})
}

// An Observer that takes over from another, as a changed configuration makes one do, tells the start that the other one saw
// begin, and the one that the other one had not told yet, each once; the starts of a model that is planned no more are
// forgotten.
func TestTakeOver(t *testing.T) {
	c := newCluster(t, chatDocs())
	observing(t, c, chat, func(t *testing.T, old *Observer) {
		now := time.Now()
		if _, err := old.Observe(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		list, _ := objects(t, podDoc{name: "chat-n", owner: "ReplicaSet/chat-5d", node: "gpu", gpus: 4}.yaml())
		p := list[0].(*corev1.Pod)
		p.CreationTimestamp = metav1.NewTime(now.Add(time.Second))
		pods := c.kube.CoreV1().Pods("serving")
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := old.Observe(t.Context(), now.Add(15*time.Second)); err != nil {
			t.Fatal(err)
		}
		old.logs.told["chat"] = []coldstart.Sample{{ID: "read meanwhile"}}
		old.starts.open["x"] = openStart{model: "no longer planned", since: now}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(21 * time.Second))}}
		if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		between, err := New(c.clients(), DefaultConfig(), chat, nil) // one that is replaced before it is asked
		if err != nil {
			t.Fatal(err)
		}
		o, err := New(c.clients(), DefaultConfig(), chat, nil)
		if err != nil {
			t.Fatal(err)
		}
		between.TakeOver(old)
		o.TakeOver(between)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- o.Run(ctx) }()
		if err := o.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"read meanwhile uid-chat-n", ""} {
			obs, err := o.Observe(t.Context(), now.Add(30*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, s := range obs.Models[0].Starts {
				told = append(told, s.ID)
			}
			if got := strings.Join(told, " "); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		if len(o.starts.open) != 0 {
			t.Errorf("open are %v", o.starts.open)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What is not installed is stated, needs no attention and makes nothing unknown; once it is installed it is followed.
func TestAbsentKindsAppear(t *testing.T) {
	c := newCluster(t, chatDocs(), nodePools, nodeClaims, clusterQueues, localQueues, topologies, scaledObjects)
	observing(t, c, chat, func(t *testing.T, o *Observer) {
		var absent []string
		for _, a := range o.Absences() {
			absent = append(absent, a.Kind)
		}
		if got, want := strings.Join(absent, " "), strings.Join([]string{clusterQueues, localQueues, nodeClaims, nodePools, scaledObjects, topologies}, " "); got != want {
			t.Errorf("absent are %s, want %s", got, want)
		}
		obs, err := o.Observe(t.Context(), time.Now())
		if err != nil || obs.Inventory == nil || obs.Quotas != nil || obs.Models[0].Actuator != nil {
			t.Fatalf("got %s, %v", asJSON(t, obs), err)
		}
		if len(obs.Gaps) != 1 || obs.Gaps[0].Fact != "replicas" {
			t.Errorf("got gaps %s, want only that no workload is known", asJSON(t, obs.Gaps))
		}
		c.missing = map[string]bool{}
		c.offer()
		time.Sleep(DefaultConfig().Rediscover + time.Second)
		synctest.Wait()
		obs, err = o.Observe(t.Context(), time.Now())
		if err != nil || len(obs.Gaps) != 0 || obs.Models[0].Replicas == nil || len(o.Absences()) != 0 {
			t.Errorf("what has been installed is not followed: %s, %v", asJSON(t, obs), err)
		}
		c.missing[scaledObjects] = true
		c.offer()
		time.Sleep(DefaultConfig().Rediscover + time.Second)
		synctest.Wait()
		if obs, err = o.Observe(t.Context(), time.Now()); err != nil || obs.Models[0].Actuator != nil || len(o.Absences()) != 1 {
			t.Errorf("what has been removed is still there: %s, %v", asJSON(t, obs), err)
		}
	})
}

// Facts that may not be read are unknown with the reason, and take nothing from the others.
func TestForbiddenKinds(t *testing.T) {
	for _, tt := range []struct {
		resource string
		unknown  []string // facts with a gap
	}{
		{"pods", []string{"replicas", "inventory"}},
		{"nodes", []string{"inventory"}},
		{"deployments", []string{"replicas"}},
		{"scaledobjects", []string{"replicas"}},
		{"clusterqueues", []string{"quotas"}},
	} {
		t.Run(tt.resource, func(t *testing.T) {
			c := newCluster(t, chatDocs())
			c.forbid(tt.resource)
			observing(t, c, chat, func(t *testing.T, o *Observer) {
				obs, err := o.Observe(t.Context(), time.Now())
				if err != nil {
					t.Fatal(err)
				}
				var facts []string
				for _, g := range obs.Gaps {
					facts = append(facts, g.Fact)
					if !strings.Contains(g.Detail, "no rule allows it") {
						t.Errorf("the gap of %s does not say why: %q", g.Fact, g.Detail)
					}
				}
				if got, want := strings.Join(facts, " "), strings.Join(tt.unknown, " "); got != want {
					t.Errorf("unknown are %q, want %q", got, want)
				}
				for _, fact := range tt.unknown {
					if fact == "replicas" && obs.Models[0].Replicas != nil || fact == "inventory" && obs.Inventory != nil {
						t.Errorf("%s are given although they are unknown", fact)
					}
				}
			})
		})
	}
}

// A watch that is broken for a moment changes nothing; after StaleAfter its facts are unknown, and known again once it
// works.
func TestBrokenWatch(t *testing.T) {
	f := newFeed(kindNamed(t, pods), gvrOf(kindNamed(t, pods)), "", func() time.Time { return t0 })
	stale := time.Minute
	if why := f.unknown(t0, stale); !strings.Contains(why, "not been read yet") {
		t.Errorf("before the first list: %q", why)
	}
	f.outcome(errors.New("connection refused"))
	if why := f.unknown(t0, stale); !strings.Contains(why, "cannot be read: connection refused") {
		t.Errorf("after a list that failed: %q", why)
	}
	if err := f.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	f.outcome(errors.New("connection refused"))
	f.outcome(context.Canceled) // at the end of the process
	if why := f.unknown(t0.Add(stale), stale); why != "" {
		t.Errorf("broken for a moment: %q", why)
	}
	if why := f.unknown(t0.Add(stale+time.Second), stale); !strings.Contains(why, "not followed since 2026-03-02T09:15:00Z") {
		t.Errorf("broken for long: %q", why)
	}
	f.outcome(nil)
	if why := f.unknown(t0.Add(time.Hour), stale); why != "" {
		t.Errorf("works again: %q", why)
	}
}

// An object that is not understood takes nothing from the others.
func TestUnreadableObject(t *testing.T) {
	k := kindNamed(t, clusterQueues)
	f := newFeed(k, gvrOf(k), "", time.Now)
	list, _ := objects(t, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: bad}
spec: {resourceGroups: [{flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: many}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: good}`)
	if err := f.Replace([]any{list[0], list[1]}, "1"); err != nil {
		t.Fatal(err)
	}
	if len(f.items) != 1 || f.unread["bad"] == nil || !strings.Contains(f.unread["bad"].Error(), "nominalQuota is many") {
		t.Errorf("kept %v, not understood %v", f.items, f.unread)
	}
	if err := f.Delete(list[0]); err != nil || len(f.unread) != 0 {
		t.Errorf("a deleted object is still complained about: %v, %v", f.unread, err)
	}
}

func TestCheck(t *testing.T) {
	const sibling = "  - {type: prometheus, metadata: {query: q}}\n"
	const soundEnd = sibling + "  maxReplicaCount: 20\n  fallback: {behavior: currentReplicasIfHigher, replicas: 2, failureThreshold: 3}\n" +
		`  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {tolerance: "0"}}}}`
	sound := docs(deploymentYAML, nodeYAML("gpu", time.Hour, h100, gpus8), scaledObjectFor("chat", "Deployment", "chat", soundEnd))
	const hpa = "\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {namespace: serving, name: keda-hpa-chat}\n" +
		"spec: {maxReplicas: 20, scaleTargetRef: {kind: Deployment, name: chat}}"
	for _, tt := range []struct {
		name, docs string
		missing    []string
		limits     Limits
		denied     string
		want       []string
	}{
		{name: "sound", docs: sound, limits: Limits{ReplicasMax: 20, NeedsSibling: true}},
		{name: "dead-band", docs: strings.Replace(sound, `tolerance: "0"`, `tolerance: 100m`, 1), want: []string{"warning tolerance plans above 9 move in steps"}},
		{name: "a tolerance that the API server drops", docs: sound + hpa, want: []string{"warning tolerance does not keep it"}},
		{name: "paused", docs: strings.Replace(sound, "name: chat}\nspec:\n  scale", "name: chat, annotations: {autoscaling.keda.sh/paused: x}}\nspec:\n  scale", 1),
			want: []string{"warning paused is paused"}},
		{name: "limit below the policy's", docs: sound, limits: Limits{ReplicasMax: 21}, want: []string{"warning scaledobject allows 20 replicas, the policy 21"}},
		{name: "nobody decides", docs: strings.Replace(sound, sibling, "", 1), limits: Limits{NeedsSibling: true}, want: []string{"error scaledobject nothing would scale the model"}},
		{name: "fallback to nothing", docs: strings.Replace(sound, "replicas: 2, f", "replicas: 0, f", 1), want: []string{"error fallback is 0 replicas"}},
		{name: "no ScaledObject", docs: deploymentYAML, want: []string{"error scaledobject no ScaledObject names the model"}},
		{name: "two ScaledObjects", docs: sound + "\n---" + strings.Replace(scaledObjectFor("chat", "Deployment", "chat", soundEnd), "name: chat}", "name: twin}", 1),
			want: []string{"error scaledobject 2 ScaledObjects name the model"}},
		{name: "another model", docs: sound + "\n---" + scaledObjectFor("other", "Deployment", "other", soundEnd), want: []string{`warning scaledobject for model "other", which is not configured`}},
		{name: "Knative", docs: docs(strings.Replace(deploymentYAML, "name: chat}", "name: chat, ownerReferences: [{apiVersion: serving.knative.dev/v1, kind: Revision, name: r, uid: u, controller: true}]}", 1),
			scaledObjectFor("chat", "Deployment", "chat", soundEnd)), want: []string{"error knative KEDA cannot act"}},
		{name: "no GPU feature discovery", docs: sound + "\n---\n" + nodeYAML("bare", time.Hour, "", gpus8), want: []string{"warning inventory 1 GPU nodes have no label"}},
		{name: "more held than there is", docs: sound + "\n---\n" + gpuPod("greedy", "gpu", 9).yaml(), want: []string{"warning inventory gpu (1 of nvidia.com/gpu)"}},
		{name: "absent", docs: sound, missing: []string{nodePools}, want: []string{"info absent nodepools.karpenter.sh are not installed"}},
		{name: "permission", docs: sound, denied: "nodes", want: []string{"error permission list and watch of nodes in all namespaces is not allowed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, tt.docs, tt.missing...)
			c.kube.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
				r.Status.Allowed = r.Spec.ResourceAttributes.Resource != tt.denied
				return true, r, nil
			})
			observing(t, c, chat, func(t *testing.T, o *Observer) {
				found, err := o.Check(t.Context(), time.Now(), map[string]Limits{"chat": tt.limits})
				if err != nil {
					t.Fatal(err)
				}
				if len(found) != len(tt.want) {
					t.Fatalf("found %s, want %q", asJSON(t, found), tt.want)
				}
				for i, f := range found {
					severity, rest, _ := strings.Cut(tt.want[i], " ")
					subject, text, _ := strings.Cut(rest, " ")
					if string(f.Severity) != severity || f.Subject != subject || !strings.Contains(f.Text, text) {
						t.Errorf("found %s, want %q", asJSON(t, f), tt.want[i])
					}
				}
			})
		})
	}
}

func TestCheckWithoutServer(t *testing.T) {
	c := newCluster(t, "")
	c.kube.PrependReactor("get", "group", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	observing(t, c, chat, func(t *testing.T, o *Observer) {
		if _, err := o.Check(t.Context(), time.Now(), nil); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
		if _, err := o.Observe(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
	})
}

func TestConfig(t *testing.T) {
	bad := Config{Enabled: "maybe", Context: "prod", Namespaces: []string{"Serving", "a", "a"}, Rediscover: time.Second, StaleAfter: time.Hour}
	err := bad.Validate()
	for _, want := range []string{`enabled: "maybe"`, `context: "prod" without kubeconfig`, `namespaces[0]: "Serving"`, `namespaces[2]: "a" is there already`,
		"rediscover: 1s", "stale_after: 1h0m0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	off := DefaultConfig()
	off.Enabled = EnabledFalse
	if _, err := Connect(off); !errors.Is(err, ErrNoCluster) {
		t.Errorf("turned off: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Connect(DefaultConfig()); !errors.Is(err, ErrNoCluster) {
		t.Errorf("auto outside a pod: %v", err)
	}
	on := DefaultConfig()
	on.Enabled = EnabledTrue
	if _, err := Connect(on); err == nil || errors.Is(err, ErrNoCluster) {
		t.Errorf("asked for and not there must be an error: %v", err)
	}
	on.Kubeconfig = t.TempDir() + "/none"
	if _, err := Connect(on); err == nil || !strings.Contains(err.Error(), on.Kubeconfig) {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
}
