package kube

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// Severity says how much a finding matters.
type Severity string

// The severities. Info needs nobody's attention.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is something about the cluster that a person should know or repair.
type Finding struct {
	Severity Severity
	// Model is empty for what concerns the whole cluster.
	Model string
	// Subject is a short stable name: "permission", "scaledobject", "tolerance", "paused", "fallback", "knative",
	// "replicas", "inventory", "quotas", "objects", "absent".
	Subject string
	Text    string
	Remedy  string
}

// Limits are what Check compares a model's autoscaler with.
type Limits struct {
	// ReplicasMax is the largest plan that is allowed, 0 is no limit.
	ReplicasMax int
	// NeedsSibling is set when the answer is a mere minimum, so that another trigger must decide.
	NeedsSibling bool
}

// steplessMax is the largest count from which the HPA still follows a step of one replica: the step, 1/count, must exceed
// the tolerance. With the default of 0.1 it is 9.
func steplessMax(tolerance float64) int {
	if tolerance <= 0 {
		return math.MaxInt
	}
	return int(math.Ceil(1/tolerance)) - 1
}

// Check reports, in a fixed order, missing permissions, what could not be read, models without an autoscaler or with one
// that cannot follow the plan, and the kinds that are not installed. It waits for the first lists until ctx ends; Run
// must be running. It returns an error only when the API server cannot be asked at all.
func (o *Observer) Check(ctx context.Context, now time.Time, limits map[string]Limits) ([]Finding, error) {
	late := o.Wait(ctx)
	o.mu.Lock()
	problem, feeds := o.problem, len(o.feeds)
	o.mu.Unlock()
	if feeds == 0 {
		return nil, fmt.Errorf("asking the API server: %w", errors.Join(problem, late))
	}
	out := o.permissions(context.WithoutCancel(ctx))
	w := o.world(now)
	for _, k := range kinds {
		if why := w.unknown[k.id()]; why != "" {
			out = append(out, Finding{Error, "", "objects", why, "grant list and watch, or repair the API server"})
		}
	}
	out = append(out, o.unread()...)
	targets := w.targets(o.models)
	owned := w.owned(targets)
	for _, m := range o.models {
		out = append(out, w.checkModel(m, targets[m.Name], owned, limits[m.Name])...)
	}
	out = append(out, w.checkStrangers(o.models)...)
	out = append(out, w.checkNodes()...)
	for _, a := range o.Absences() {
		out = append(out, Finding{Info, "", "absent", a.Kind + " are not installed: " + a.Without, ""})
	}
	return out, nil
}

// checkTimeout bounds all questions about permissions together.
const checkTimeout = 20 * time.Second

// permissions asks the API server what this process may do, for every kind that it follows.
func (o *Observer) permissions(ctx context.Context) []Finding {
	o.mu.Lock()
	feeds := make([]*feed, 0, len(o.feeds))
	for _, f := range o.feeds {
		feeds = append(feeds, f)
	}
	o.mu.Unlock()
	slices.SortFunc(feeds, func(a, b *feed) int {
		return strings.Compare(a.kind.id()+" "+a.namespace, b.kind.id()+" "+b.namespace)
	})
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var out []Finding
	for _, f := range feeds {
		var denied []string
		for _, verb := range []string{"list", "watch"} {
			ok, err := mayI(ctx, o.clients.Kube, verb, f.gvr, f.namespace)
			if err != nil {
				return append(out, Finding{Warning, "", "permission", "permissions cannot be asked for: " + err.Error(),
					"allow selfsubjectaccessreviews, which every user may create by default"})
			}
			if !ok {
				denied = append(denied, verb)
			}
		}
		if len(denied) > 0 {
			where := "all namespaces"
			if f.namespace != "" {
				where = "namespace " + f.namespace
			}
			out = append(out, Finding{Error, "", "permission",
				fmt.Sprintf("%s of %s in %s is not allowed", strings.Join(denied, " and "), f.kind.id(), where),
				"bind a ClusterRole that allows it"})
		}
	}
	if o.cfg.StartLogs {
		out = append(out, o.logPermission(ctx)...)
	}
	return out
}

// logPermission asks for the right that only Config.StartLogs needs.
func (o *Observer) logPermission(ctx context.Context) []Finding {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "pods", Subresource: "log"}}}
	answer, err := o.clients.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil || answer.Status.Allowed {
		return nil // a server that cannot be asked has been reported
	}
	return []Finding{{Error, "", "permission", "get of pods/log in all namespaces is not allowed, but kubernetes.start_logs is set",
		"bind the ClusterRole of configs/rbac-start-logs.yaml, or set start_logs: false"}}
}

func mayI(ctx context.Context, c kubernetes.Interface, verb string, gvr schema.GroupVersionResource, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: gvr.Group, Version: gvr.Version,
			Resource: gvr.Resource, Namespace: namespace}}}
	answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// unread lists objects that could not be understood.
func (o *Observer) unread() []Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Finding
	for _, f := range o.feeds {
		f.mu.Lock()
		for key, err := range f.unread {
			out = append(out, Finding{Warning, "", "objects", fmt.Sprintf("%s %s is not understood: %v", f.kind.id(), key, err),
				"report it with the object"})
		}
		f.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// checkModel reports what keeps one model's plan from being carried out.
func (w *world) checkModel(m Model, t target, owned map[Workload][]*pod, l Limits) []Finding {
	var out []Finding
	find := func(s Severity, subject, remedy, format string, args ...any) {
		out = append(out, Finding{s, m.Name, subject, fmt.Sprintf(format, args...), remedy})
	}
	if w.why(scaledObjects) == "" {
		switch len(t.by) {
		case 0:
			find(Error, "scaledobject", "add a trigger of type external with metadata model: "+m.Name,
				"no ScaledObject names the model: nothing acts on its plan")
		case 1:
		default:
			find(Error, "scaledobject", "name the model in one of them",
				"%d ScaledObjects name the model, and each is scaled to its whole plan: %s", len(t.by), namesOf(t.by))
		}
	}
	knative := false
	for _, wl := range t.workloads {
		if w.isKnative(wl, owned[wl]) {
			knative = true
			find(Error, "knative", "serve the model in KServe's standard (raw Deployment) mode",
				"%s is scaled by Knative: KEDA cannot act on the plan", wl)
		}
	}
	for _, s := range t.by {
		w.checkScaledObject(s, l, find)
	}
	if len(t.workloads) == 0 || knative || w.why(ownerKinds...) != "" {
		return out // said already, here or for the whole cluster
	}
	if f := w.replicas(m, t, owned, func(string) bool { return false }); f.problem != "" {
		severity := Warning
		if f.replicas == nil {
			severity = Error
		}
		find(severity, "replicas", "check the scale target and the pods", "%s", f.problem)
	}
	return out
}

func namesOf(list []*scaledObject) string {
	var names []string
	for _, s := range list {
		names = append(names, s.String())
	}
	return summary(names)
}

// checkScaledObject reports settings that keep KEDA from following the plan.
func (w *world) checkScaledObject(s *scaledObject, l Limits, find func(s Severity, subject, remedy, format string, args ...any)) {
	largest := kedaMax
	if s.max != nil {
		largest = *s.max
	}
	if l.ReplicasMax > largest {
		find(Warning, "scaledobject", "raise maxReplicaCount or lower replicas_max", "%s allows %d replicas, the policy %d",
			s.object, largest, l.ReplicasMax)
	}
	if t := w.tolerance(s); largest > steplessMax(t) {
		remedy := `set advanced.horizontalPodAutoscalerConfig.behavior.scaleUp.tolerance: "0"`
		text := "%s: plans above %d move in steps of more than one replica, because the HPA ignores changes within %.0f %%"
		if s.tolerance != nil && *s.tolerance < t {
			text += "; the ScaledObject asks for less, but the API server does not keep it (feature gate HPAConfigurableTolerance)"
			remedy = "turn the feature gate on, or expect the steps"
		}
		find(Warning, "tolerance", remedy, text, s.object, steplessMax(t), t*100)
	}
	switch {
	case s.paused:
		find(Warning, "paused", "remove the annotation to let the plan act", "%s is paused: its HPA is gone and nothing acts on the plan", s.object)
	case s.noOut:
		find(Warning, "paused", "remove the annotation to let the plan act", "%s may not scale out", s.object)
	case s.noScaleIn:
		find(Info, "paused", "", "%s may not scale in", s.object)
	}
	if l.NeedsSibling && s.siblings == 0 {
		find(Error, "scaledobject", "add a reactive trigger, or set authority: act",
			"%s has no trigger beside forewarm's, and the authority answers the minimum: nothing would scale the model", s.object)
	}
	if s.fallback == nil {
		find(Warning, "fallback", "set fallback with behavior: currentReplicasIfHigher and replicas of at least 1",
			"%s has no fallback: when no plan can be trusted the replicas stay as they are", s.object)
	} else if s.fallback.Replicas == 0 {
		find(Error, "fallback", "set fallback.replicas to at least 1", "the fallback of %s is 0 replicas", s.object)
	}
}

// groupKnative is the API group of the objects that Knative scales.
const groupKnative = "serving.knative.dev"

// isKnative reports whether a workload, or an owner or a pod of it, is Knative's to scale.
func (w *world) isKnative(wl Workload, owned []*pod) bool {
	x := w.workloads[wl]
	if x != nil && x.knative() {
		return true
	}
	yes := false
	look := func(r reference) { yes = yes || r.group == groupKnative }
	if x != nil {
		w.chain(x.namespace, x.owner, look)
	}
	if len(owned) > 0 {
		w.chain(wl.Namespace, owned[0].owner, look)
	}
	return yes
}

// checkStrangers reports ScaledObjects whose model nobody plans: KEDA gets an error for them.
func (w *world) checkStrangers(models []Model) []Finding {
	known := map[string]bool{}
	for _, m := range models {
		known[m.Name] = true
	}
	var out []Finding
	for _, s := range w.scaledObjects {
		for _, m := range s.models {
			if !known[m] {
				out = append(out, Finding{Warning, "", "scaledobject",
					fmt.Sprintf("%s asks an external scaler for model %q, which is not configured here", s.object, m),
					"add the model, or ignore this when another scaler answers it"})
			}
		}
	}
	return out
}

// checkNodes reports nodes whose GPUs cannot be judged.
func (w *world) checkNodes() []Finding {
	var bare, short []string
	used := w.requested()
	for _, n := range w.nodes {
		if _, ok := n.gpus[resourceGPU]; ok && n.labels[labelCount] == "" {
			bare = append(bare, n.name)
		}
		for res, have := range n.gpus {
			if over := used[n.name][res] - have; over > 0 {
				short = append(short, fmt.Sprintf("%s (%d of %s)", n.name, over, res))
			}
		}
	}
	var out []Finding
	if len(bare) > 0 {
		out = append(out, Finding{Warning, "", "inventory",
			fmt.Sprintf("%d GPU nodes have no label %s, so product, NVLink domain and sharing are not known: %s", len(bare), labelCount, summary(bare)),
			"run GPU feature discovery"})
	}
	if len(short) > 0 {
		out = append(out, Finding{Warning, "", "inventory",
			fmt.Sprintf("pods hold more GPUs than %d nodes have to give, as after a device turned unhealthy: %s", len(short), summary(short)),
			"look at the devices of these nodes"})
	}
	return out
}
