package kube

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload is what is kept of an object that runs pods, directly or through objects that it owns.
type workload struct {
	object
	kind  string
	owner reference
	// replicas is what its scale asks for; nil when the kind has no such number.
	replicas *int
	// surge is how many replicas beyond that a rollout under way may run; nil while there is none.
	surge *int
	// queue is the Kueue LocalQueue that it is admitted through, empty for none.
	queue string
	// demands are those of its pods; nil when the object has no pod template of its own.
	demands *demands
	// mode is the deployment mode of an InferenceService.
	mode string
}

// demands are what a pod asks of its node beside GPUs.
type demands struct {
	tolerations []corev1.Toleration
	selector    map[string]string
}

// labelQueue puts a workload under a Kueue LocalQueue of its namespace.
const labelQueue = "kueue.x-k8s.io/queue-name"

func deploymentFacts(d *appsv1.Deployment) *workload {
	w := appFacts("Deployment", d, d.Spec.Replicas, &d.Spec.Template)
	w.surge = surgeOf(d, *w.replicas)
	return w
}

// surgeOf is a Deployment's maxSurge, 25 % rounded up unless it says otherwise, while it has pods of an older template;
// nil while it has none, or when it replaces them in another way. Too few pods of the newest one are no sign of a rollout:
// that is so after every scale-up.
func surgeOf(d *appsv1.Deployment, replicas int) *int {
	if d.Status.Replicas <= d.Status.UpdatedReplicas || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	most := intstr.FromString("25%")
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		most = *u.MaxSurge
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, replicas, true)
	if err != nil || n <= 0 {
		return nil // the API server refuses what is neither a count nor a percentage
	}
	return &n
}

func statefulSetFacts(s *appsv1.StatefulSet) *workload {
	return appFacts("StatefulSet", s, s.Spec.Replicas, &s.Spec.Template)
}

func appFacts(kind string, m metav1.Object, replicas *int32, template *corev1.PodTemplateSpec) *workload {
	n := 1 // the API server's default
	if replicas != nil {
		n = int(*replicas)
	}
	queue := m.GetLabels()[labelQueue]
	if queue == "" {
		queue = template.Labels[labelQueue]
	}
	return &workload{object: objectOf(m), kind: kind, owner: controller(m), replicas: &n, queue: strings.Clone(queue),
		demands: demandsOf(&template.Spec)}
}

func demandsOf(spec *corev1.PodSpec) *demands {
	d := &demands{selector: cloned(spec.NodeSelector)}
	for _, t := range spec.Tolerations {
		d.tolerations = append(d.tolerations, corev1.Toleration{Key: strings.Clone(t.Key), Operator: t.Operator,
			Value: strings.Clone(t.Value), Effect: t.Effect})
	}
	return d
}

// replicaSetFacts keeps only whom a ReplicaSet belongs to.
func replicaSetFacts(m *metav1.PartialObjectMetadata) *workload {
	return &workload{object: objectOf(m), kind: "ReplicaSet", owner: controller(m)}
}

// customFacts converts a workload of a kind that is read by field: LeaderWorkerSet, RayCluster, RayService,
// InferenceService.
func customFacts(u *unstructured.Unstructured) (*workload, error) {
	w := &workload{object: objectOf(u), kind: u.GetKind(), owner: controller(u), queue: strings.Clone(u.GetLabels()[labelQueue])}
	var err error
	switch w.kind {
	case "LeaderWorkerSet":
		n := 1 // the API server's default
		if v, ok, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); ok {
			n = int(v)
		}
		w.replicas = &n
		w.demands, err = templateDemands(u.Object, "spec", "leaderWorkerTemplate", "workerTemplate", "spec")
	case "RayCluster":
		err = w.readRayGroups(u)
	case "InferenceService":
		w.mode = u.GetAnnotations()["serving.kserve.io/deploymentMode"]
		if w.mode == "" {
			w.mode, _, _ = unstructured.NestedString(u.Object, "status", "deploymentMode")
		}
		w.mode = strings.Clone(w.mode)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", w.kind, w.object, err)
	}
	return w, nil
}

// readRayGroups adds up the workers of all groups; in each worker group a replica may have several hosts, which are its
// pods.
func (w *workload) readRayGroups(u *unstructured.Unstructured) error {
	groups, _, err := unstructured.NestedSlice(u.Object, "spec", "workerGroupSpecs")
	if err != nil {
		return err
	}
	n := 0
	for i, g := range groups {
		group, ok := g.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.workerGroupSpecs[%d] is no object", i)
		}
		replicas, _, err := unstructured.NestedInt64(group, "replicas")
		if err != nil {
			return fmt.Errorf("spec.workerGroupSpecs[%d]: %w", i, err)
		}
		n += int(replicas)
		if w.demands == nil {
			if w.demands, err = templateDemands(group, "template", "spec"); err != nil {
				return err
			}
		}
	}
	w.replicas = &n
	return nil
}

func templateDemands(obj map[string]any, path ...string) (*demands, error) {
	spec, err := templateSpec(obj, path...)
	if err != nil || spec == nil {
		return nil, err
	}
	return demandsOf(spec), nil
}

// templateSpec reads a pod's spec inside of an object that is read by field; nil when there is none.
func templateSpec(obj map[string]any, path ...string) (*corev1.PodSpec, error) {
	m, ok, err := unstructured.NestedMap(obj, path...)
	if err != nil || !ok {
		return nil, err
	}
	var spec corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &spec); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(path, "."), err)
	}
	return &spec, nil
}

// knative reports whether an InferenceService is scaled by Knative; when its mode is not stated the cluster's default
// decides, which is not known here.
func (w *workload) knative() bool { return w.mode == "Serverless" || w.mode == "Knative" }
