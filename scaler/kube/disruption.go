package kube

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"forewarm/planner"
)

// disruptionBudget is what is kept of a PodDisruptionBudget.
type disruptionBudget struct {
	object
	selector labels.Selector
	allowed  int // disruptions, as its controller computed them
}

// disruptionBudgetFacts converts a PodDisruptionBudget of policy/v1, where an empty selector selects every pod of the
// namespace and a missing one selects none. A selector that the API server would not take protects every pod.
func disruptionBudgetFacts(b *policyv1.PodDisruptionBudget) *disruptionBudget {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		selector = labels.Everything()
	}
	return &disruptionBudget{objectOf(b), selector, int(b.Status.DisruptionsAllowed)}
}

// holders finds the pods that hold units of a resource, by resource and node, sorted by name. Pods with devices of a
// ResourceClaim are not among them.
func (w *world) holders(targets map[string]target) map[string]map[string][]planner.Tenant {
	models := map[Workload]string{}
	for name, t := range targets {
		for _, wl := range t.workloads {
			models[wl] = name
		}
	}
	out := map[string]map[string][]planner.Tenant{}
	for _, p := range w.pods {
		if p.node == "" || p.ended || len(p.gpus) == 0 {
			continue
		}
		t := planner.Tenant{Pod: p.String(), Priority: p.priority, Pinned: w.pinned(p)}
		w.chain(p.namespace, p.owner, func(r reference) {
			if m, ok := models[Workload{p.namespace, r.kind, r.name}]; ok {
				t.Model = m
			}
		})
		for res, n := range p.gpus {
			if out[res] == nil {
				out[res] = map[string][]planner.Tenant{}
			}
			t.GPUs = n
			out[res][p.node] = append(out[res][p.node], t)
		}
	}
	return out
}

// pinned says why a pod may not be moved; empty when nothing forbids it. Karpenter's annotation may also be a duration,
// which counts as a prohibition here.
func (w *world) pinned(p *pod) string {
	switch {
	case p.leaving:
		return "is terminating"
	case p.doNotDisrupt:
		return "is annotated karpenter.sh/do-not-disrupt"
	case p.owner.kind == "":
		return "has no controller that would replace it"
	case p.owner.kind == "DaemonSet":
		return "belongs to a DaemonSet"
	}
	if why := w.unknown[disruptionBudgets]; why != "" {
		return why
	}
	for _, b := range w.budgets {
		if b.namespace == p.namespace && b.allowed < 1 && b.selector.Matches(labels.Set(p.labels)) {
			return "PodDisruptionBudget " + b.String() + " allows no disruption"
		}
	}
	return ""
}
