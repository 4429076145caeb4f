package kube

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"forewarm/planner"
)

// scaledObject is what is kept of a KEDA ScaledObject.
type scaledObject struct {
	object
	target reference
	// models are those that its external triggers name; a trigger without a model is none of ours.
	models []string
	// siblings is the number of triggers beside ours.
	siblings         int
	hpa              string
	min, max         *int // replicas; nil is KEDA's default
	tolerance        *float64
	paused           bool
	pausedAt         *int
	noScaleIn, noOut bool
	fallback         *planner.Fallback
}

// KEDA's annotations (apis/keda/v1alpha1/scaledobject_types.go in v2.21).
const (
	annotationPaused         = "autoscaling.keda.sh/paused"
	annotationPausedReplicas = "autoscaling.keda.sh/paused-replicas"
	annotationPausedScaleIn  = "autoscaling.keda.sh/paused-scale-in"
	annotationPausedScaleOut = "autoscaling.keda.sh/paused-scale-out"
)

// scaledObjectFacts converts a ScaledObject.
func scaledObjectFacts(u *unstructured.Unstructured) (*scaledObject, error) {
	s := &scaledObject{object: objectOf(u)}
	text := func(path ...string) string {
		v, _, _ := unstructured.NestedString(u.Object, path...)
		return strings.Clone(v)
	}
	group, _, slash := strings.Cut(text("spec", "scaleTargetRef", "apiVersion"), "/")
	if !slash {
		group = ""
	}
	s.target = reference{group, text("spec", "scaleTargetRef", "kind"), text("spec", "scaleTargetRef", "name")}
	if s.target.kind == "" {
		s.target.group, s.target.kind = "apps", "Deployment" // KEDA's default
	}
	s.hpa = text("status", "hpaName")
	if s.hpa == "" {
		s.hpa = text("spec", "advanced", "horizontalPodAutoscalerConfig", "name")
	}
	if s.hpa == "" {
		s.hpa = "keda-hpa-" + s.name
	}
	s.min, s.max = count(u.Object, "spec", "minReplicaCount"), count(u.Object, "spec", "maxReplicaCount")
	var err error
	s.tolerance, err = ratio(u.Object, "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleUp", "tolerance")
	if err != nil {
		return nil, fmt.Errorf("ScaledObject %s: %w", s.object, err)
	}
	s.readPaused(u.GetAnnotations())
	if behavior := text("spec", "fallback", "behavior"); behavior != "" || count(u.Object, "spec", "fallback", "replicas") != nil {
		s.fallback = &planner.Fallback{Behavior: behavior}
		if behavior == "" {
			s.fallback.Behavior = "static" // KEDA's default
		}
		if n := count(u.Object, "spec", "fallback", "replicas"); n != nil {
			s.fallback.Replicas = *n
		}
		if n := count(u.Object, "spec", "fallback", "failureThreshold"); n != nil {
			s.fallback.FailureThreshold = *n
		}
	}
	return s, s.readTriggers(u)
}

// readPaused follows KEDA: paused-replicas pauses whatever its value, and a switch that is not a boolean is on.
func (s *scaledObject) readPaused(annotations map[string]string) {
	on := func(key string) bool {
		v, ok := annotations[key]
		if !ok {
			return false
		}
		b, err := strconv.ParseBool(v)
		return err != nil || b
	}
	s.paused, s.noScaleIn, s.noOut = on(annotationPaused), on(annotationPausedScaleIn), on(annotationPausedScaleOut)
	if v, ok := annotations[annotationPausedReplicas]; ok {
		s.paused = true
		if n, err := strconv.ParseInt(v, 10, 32); err == nil && n >= 0 {
			at := int(n)
			s.pausedAt = &at
		}
	}
}

func (s *scaledObject) readTriggers(u *unstructured.Unstructured) error {
	triggers, _, err := unstructured.NestedSlice(u.Object, "spec", "triggers")
	if err != nil {
		return fmt.Errorf("ScaledObject %s: %w", s.object, err)
	}
	for _, t := range triggers {
		trigger, ok := t.(map[string]any)
		if !ok {
			continue // the API server refuses it
		}
		kind, _, _ := unstructured.NestedString(trigger, "type")
		model, _, _ := unstructured.NestedString(trigger, "metadata", "model")
		if (kind == "external" || kind == "external-push") && model != "" {
			if !slices.Contains(s.models, model) {
				s.models = append(s.models, strings.Clone(model))
			}
			continue
		}
		s.siblings++
	}
	return nil
}

// workload is the object that is scaled.
func (s *scaledObject) workload() Workload {
	return Workload{Namespace: s.namespace, Kind: s.target.kind, Name: s.target.name}
}

// count reads a number of at least 0; nil when it is absent or none.
func count(obj map[string]any, path ...string) *int {
	v, ok, err := unstructured.NestedInt64(obj, path...)
	if err != nil || !ok || v < 0 {
		return nil
	}
	n := int(v)
	return &n
}

// ratio reads a Kubernetes quantity, which is written as a string or a number; nil when it is absent.
func ratio(obj map[string]any, path ...string) (*float64, error) {
	v, ok, err := unstructured.NestedFieldNoCopy(obj, path...)
	if err != nil || !ok || v == nil {
		return nil, err
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return nil, fmt.Errorf("%s is %v: %w", strings.Join(path, "."), v, err)
	}
	f := q.AsApproximateFloat64()
	return &f, nil
}

// hpa is what is kept of a HorizontalPodAutoscaler.
type hpa struct {
	object
	scaleUpTolerance, scaleDownTolerance *float64
	scaleUp                              *planner.ScalingRules
	desired                              *int
}

// hpaFacts converts an HPA. A tolerance is there only when the API server keeps it (KEP-4951: alpha in Kubernetes 1.33,
// on by default from 1.35); with the gate off the field is dropped, and the ScaledObject's wish has no effect.
func hpaFacts(h *autoscalingv2.HorizontalPodAutoscaler) *hpa {
	out := &hpa{object: objectOf(h)}
	if b := h.Spec.Behavior; b != nil {
		out.scaleUpTolerance, out.scaleDownTolerance = toleranceOf(b.ScaleUp), toleranceOf(b.ScaleDown)
		out.scaleUp = scalingRules(b.ScaleUp)
	}
	// 0 until the controller has looked for the first time.
	if d := int(h.Status.DesiredReplicas); d > 0 {
		out.desired = &d
	}
	return out
}

func toleranceOf(r *autoscalingv2.HPAScalingRules) *float64 {
	if r == nil || r.Tolerance == nil {
		return nil
	}
	f := min(max(r.Tolerance.AsApproximateFloat64(), 0), toleranceMax)
	return &f
}

// scalingRules converts the policies that bound growth; nil stands for the HPA's defaults, which the API server may have
// written out, and for what the API does not allow.
func scalingRules(r *autoscalingv2.HPAScalingRules) *planner.ScalingRules {
	if r == nil || len(r.Policies) == 0 {
		return nil
	}
	out := &planner.ScalingRules{SmallestCounts: r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.MinChangePolicySelect}
	for _, p := range r.Policies {
		if p.Value <= 0 || p.PeriodSeconds <= 0 || p.PeriodSeconds > 3600 {
			return nil
		}
		policy := planner.ScalingPolicy{Period: time.Duration(p.PeriodSeconds) * time.Second}
		if p.Type == autoscalingv2.PercentScalingPolicy {
			policy.Percent = int(p.Value)
		} else {
			policy.Pods = int(p.Value)
		}
		out.Policies = append(out.Policies, policy)
	}
	if out.Default() {
		return nil
	}
	return out
}
