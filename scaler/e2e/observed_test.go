//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler/kube"
)

// TestObserved reads the facts of a few hundred nodes, of pods that hold, held and are about to leave their GPUs, of
// models in every kind of workload, of their autoscalers and of quotas, with no more rights than configs/rbac.yaml gives.
// What is read must be what was made, field by field. HPAs are KEDA's own, made for a real forewarmd.
func TestObserved(t *testing.T) {
	k := newCase(t, "observed")
	k.must(k.cluster.installObserved())
	f := &observed{kase: k}
	t.Cleanup(f.clear)
	f.makeNodes()
	f.makeModels()
	f.makeQuotas()
	f.makePools()

	config, err := k.cluster.observerConfig()
	k.must(err)
	d := startDaemon(k.waiter, settings{prometheus: "http://" + freeAddress(), scrape: gaugeScrape, kubeconfig: config,
		models: []modelSettings{{name: "chat", namespace: k.namespace, policy: "replicas_min: 1"}, {name: "slow", namespace: k.namespace},
			{name: "set", namespace: k.namespace}}}.text())
	f.scaleModels(d.keda)

	observer := f.observe(config)
	var seen planner.Observation
	k.until(40*time.Second, "the facts to be those that were made", func() (bool, string) {
		var err error
		if seen, err = observer.Observe(t.Context(), time.Now()); err != nil {
			return false, err.Error()
		}
		want, err := f.expected()
		if err != nil {
			return false, err.Error()
		}
		different := firstDifference(factsOf(seen), want)
		return different == "", different
	})
	state := planner.State{Now: time.Now(), Interval: time.Second, Inventory: seen.Inventory, Quotas: seen.Quotas, Cohorts: seen.Cohorts}
	k.must(state.Validate())
	for _, absent := range observer.Absences() {
		t.Errorf("%s count as not installed", absent.Kind)
	}
	for _, g := range seen.Gaps {
		if g.Model != "knative" || !strings.Contains(g.Detail, "Knative") {
			t.Errorf("gap %+v", g)
		}
	}
	if len(seen.Gaps) != 1 {
		t.Errorf("%d gaps, want that of the model in Knative mode", len(seen.Gaps))
	}
}

// observed is the case with what it made.
type observed struct {
	*kase
	holder string // an owner reference to an object whose controller minds nothing
}

// facts are those that are compared.
type facts struct {
	Models    []modelFacts
	Inventory *planner.Inventory
	Quotas    []planner.Quota
	Cohorts   []planner.Cohort
}

type modelFacts struct {
	Name     string
	Replicas *planner.Replicas
	Actuator *planner.Actuator
}

func factsOf(o planner.Observation) facts {
	f := facts{Inventory: o.Inventory, Quotas: o.Quotas, Cohorts: o.Cohorts}
	for _, m := range o.Models {
		if m.Actuator != nil {
			m.Actuator.HPADesired = nil // the controller's own, at its own time
		}
		f.Models = append(f.Models, modelFacts{m.Name, m.Replicas, m.Actuator})
	}
	return f
}

// observe runs an Observer until the test ends.
func (f *observed) observe(config string) *kube.Observer {
	f.t.Helper()
	cfg := kube.DefaultConfig()
	cfg.Kubeconfig = config
	clients, err := kube.Connect(cfg)
	f.must(err)
	models := []kube.Model{{Name: "chat", Pods: 1}, {Name: "set", Pods: 1}, {Name: "slow", Pods: 1}}
	for _, m := range []struct{ name, kind string }{{"group", "LeaderWorkerSet"}, {"kserve", "InferenceService"},
		{"knative", "InferenceService"}, {"ray", "RayCluster"}} {
		models = append(models, kube.Model{Name: m.name, Pods: 2, Workloads: []kube.Workload{{Namespace: f.namespace, Kind: m.kind, Name: m.name}}})
	}
	slices.SortFunc(models, func(a, b kube.Model) int { return strings.Compare(a.Name, b.Name) })
	observer, err := kube.New(clients, cfg, models, nil)
	f.must(err)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- observer.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
	wait, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	f.must(observer.Wait(wait))
	return observer
}

// expected is what was made, with the identities that the API server and the scheduler chose.
func (f *observed) expected() (facts, error) {
	pods, err := f.podsOf("app in (chat, slow, set)")
	if err != nil {
		return facts{}, err
	}
	pools := map[string]*planner.Pool{}
	for i := range fleet {
		fleet[i].expected(f.namespace, pools)
	}
	f.expectedExtras(pools)
	slow := planner.Replicas{Desired: new(2)}
	for _, p := range pods {
		switch p.text("metadata", "labels", "app") {
		case "slow":
			created, err := time.Parse(time.RFC3339, p.text("metadata", "creationTimestamp"))
			if err != nil {
				return facts{}, err
			}
			slow.Starting = append(slow.Starting, planner.StartingReplica{ID: p.text("metadata", "uid"), Since: created.UTC(), Path: coldstart.WarmNode})
		case "chat":
			addTenant(pools["NVIDIA-H200"], p.text("spec", "nodeName"), planner.Tenant{Pod: f.namespace + "/" + p.text("metadata", "name"),
				GPUs: 1, Model: "chat", Priority: new(int), Pinned: "PodDisruptionBudget " + f.namespace + "/chat allows no disruption"})
		}
	}
	slices.SortFunc(slow.Starting, func(a, b planner.StartingReplica) int {
		return max(min(a.Since.Compare(b.Since)*2+strings.Compare(a.ID, b.ID), 1), -1)
	})
	return facts{
		Models: []modelFacts{
			{"chat", &planner.Replicas{Ready: 3, Desired: new(3)}, &planner.Actuator{ReplicasMin: new(2), ReplicasMax: new(12),
				Fallback: &planner.Fallback{Behavior: "currentReplicasIfHigher", Replicas: 3, FailureThreshold: 2}}},
			{"group", &planner.Replicas{Ready: 1, Desired: new(2), Leaving: 1}, nil},
			{"knative", nil, nil},
			{"kserve", &planner.Replicas{Ready: 2, Desired: new(2)}, nil},
			{"ray", &planner.Replicas{Ready: 1, Desired: new(1)}, nil},
			{"set", &planner.Replicas{Ready: 1, Desired: new(1)}, &planner.Actuator{ScaleInPaused: true, ReplicasMin: new(1),
				ReplicasMax: new(100), ScaleUpTolerance: 0.1}},
			{"slow", &slow, &planner.Actuator{Paused: true, PausedAt: new(2), ReplicasMin: new(0), ReplicasMax: new(100), ScaleUpTolerance: 0.1}},
		},
		Inventory: &planner.Inventory{Pools: inOrder(pools), Buffers: []planner.Buffer{
			{Namespace: f.namespace, Name: "chat-burst", Wanted: new(2), Replicas: new(2), Fits: new(true)}}},
		Quotas:  expectedQuotas(),
		Cohorts: []planner.Cohort{{Name: "gpus", Shared: []planner.Quota{{Flavor: "h100", Cohort: "gpus", Nominal: 24, Pools: []string{h100, "burst"}}}}},
	}, nil
}

// podsOf lists pods of the case's namespace.
func (f *observed) podsOf(labels string) ([]object, error) {
	o, err := f.client.get("/api/v1/namespaces/" + f.namespace + "/pods?labelSelector=" + strings.ReplaceAll(labels, " ", "%20"))
	return o.list("items"), err
}

// addTenant takes a tenant's GPUs from its node.
func addTenant(p *planner.Pool, node string, tenant planner.Tenant) {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Name == node {
			n.FreeGPUs -= tenant.GPUs
			n.Tenants = append(n.Tenants, tenant)
			slices.SortFunc(n.Tenants, func(a, b planner.Tenant) int { return strings.Compare(a.Pod, b.Pod) })
		}
	}
}

func expectedQuotas() []planner.Quota {
	pools := []string{h100, "burst"}
	return []planner.Quota{
		{Queue: "batch", Flavor: "h100", Nominal: 40, Used: 24, Reserved: 26, Waiting: 13, Cohort: "gpus", LendingLimit: new(40), Pools: pools},
		{Queue: "serving", Flavor: "h100", Nominal: 16, Used: 3, Reserved: 3, Cohort: "gpus", BorrowingLimit: new(24), Models: []string{"chat"}, Pools: pools},
		{Queue: "serving", Flavor: "mig", Resource: "nvidia.com/mig-3g.20gb", Nominal: 8, Cohort: "gpus", Models: []string{"chat"},
			Pools: []string{"g-mig/NVIDIA-A100-SXM4-40GB", "g-mig/NVIDIA-A100-SXM4-40GB-MIG-3g.20gb"}},
	}
}

// scaledObject is the ScaledObject of a model with forewarm as its only trigger, without the limit of the other cases.
func (f *observed) scaledObject(model, address, annotations, spec string) string {
	yaml := strings.Replace(external(f.kase, model, "external", address, spec), "  maxReplicaCount: 40\n", "", 1)
	return strings.Replace(yaml, "namespace: "+f.namespace+"}", "namespace: "+f.namespace+", annotations: {"+annotations+"}}", 1)
}

// scaleModels applies the ScaledObjects: one with limits, fallback and tolerance, one for a StatefulSet that may not
// shrink, and one that is paused at 2 replicas, for which KEDA makes no HPA.
func (f *observed) scaleModels(address string) {
	f.t.Helper()
	f.scale("chat", f.scaledObject("chat", address, "", `minReplicaCount: 2
  maxReplicaCount: 12
  fallback: {behavior: currentReplicasIfHigher, replicas: 3, failureThreshold: 2}
  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleUp: {tolerance: "0"}, scaleDown: {selectPolicy: Disabled}}}}`))
	f.scale("set", strings.Replace(f.scaledObject("set", address, "autoscaling.keda.sh/paused-scale-in: 'true'", "minReplicaCount: 1"),
		"scaleTargetRef: {name: set}", "scaleTargetRef: {kind: StatefulSet, name: set}", 1))
	f.must(f.client.apply(f.scaledObject("slow", address, "autoscaling.keda.sh/paused-replicas: '2'", "")))
	f.t.Cleanup(func() {
		if err := f.client.remove(scaledObjectPath(f.namespace, "slow")); err != nil {
			f.t.Error(err)
		}
	})
}

// clear removes what would be in the way of other cases: nodes that their pods could be bound to, pods, and pools.
func (f *observed) clear() {
	namespaced := "/namespaces/" + f.namespace + "/"
	for _, finalized := range []string{"leaving-0", "leaving-1", "going"} {
		_ = f.client.merge("/api/v1"+namespaced+"pods/"+finalized, `{"metadata": {"finalizers": null}}`) // it may not be there
	}
	for _, path := range []string{"/api/v1/nodes", "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1/nodeclaims",
		"/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "/apis/kueue.x-k8s.io/v1beta2/cohorts", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
		"/apis/kueue.x-k8s.io/v1beta2/topologies", "/apis/resource.k8s.io/v1/resourceslices"} {
		if err := f.client.removeAll(path, "fleet=observed"); err != nil {
			f.t.Error(err)
		}
	}
	for _, path := range []string{"/apis/apps/v1" + namespaced + "statefulsets", "/apis/apps/v1" + namespaced + "deployments", "/api/v1" + namespaced + "pods",
		"/apis/kueue.x-k8s.io/v1beta2" + namespaced + "localqueues", "/apis/kueue.x-k8s.io/v1beta2" + namespaced + "workloads",
		"/apis/autoscaling.x-k8s.io/v1beta1" + namespaced + "capacitybuffers", "/apis/policy/v1" + namespaced + "poddisruptionbudgets",
		"/apis/resource.k8s.io/v1" + namespaced + "resourceclaims"} {
		if err := f.client.removeAll(path, ""); err != nil {
			f.t.Error(err)
		}
	}
}
