package kube

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"forewarm/coldstart/evidence"
)

// object is the identity of a kept object. It is all that a store of client-go asks of one.
type object struct {
	namespace, name string
}

// GetObjectMeta makes every kept object one that client-go can key.
func (o object) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}
}

func (o object) String() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

func objectOf(m metav1.Object) object {
	return object{strings.Clone(m.GetNamespace()), strings.Clone(m.GetName())}
}

// reference names an object of the same namespace by kind and name.
type reference struct {
	group, kind, name string
}

// controller returns the owner that controls an object, or the zero reference.
func controller(m metav1.Object) reference {
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return reference{}
	}
	group, _, slash := strings.Cut(ref.APIVersion, "/")
	if !slash {
		group = ""
	}
	return reference{strings.Clone(group), strings.Clone(ref.Kind), strings.Clone(ref.Name)}
}

// The resources that are GPUs, or parts of them.
const (
	resourceGPU       = "nvidia.com/gpu"
	resourceMIGPrefix = "nvidia.com/mig-"
	resourceAMD       = "amd.com/gpu"
	// sharedSuffix is what the device plugin appends to a resource whose shares it renames (renameByDefault).
	sharedSuffix = ".shared"
)

// isGPU reports whether a resource is counted in GPUs or MIG devices.
func isGPU(resource string) bool {
	plain := strings.TrimSuffix(resource, sharedSuffix)
	return plain == resourceGPU || plain == resourceAMD || strings.HasPrefix(plain, resourceMIGPrefix)
}

// amounts are numbers of devices by resource.
type amounts map[string]int

// devices picks the GPU resources out of a list; nil when there is none.
func devices(list corev1.ResourceList) amounts {
	var out amounts
	for name, q := range list {
		if !isGPU(string(name)) {
			continue
		}
		if out == nil {
			out = amounts{}
		}
		out[strings.Clone(string(name))] = int(q.Value())
	}
	return out
}

// pod is what is kept of a pod.
type pod struct {
	object
	uid     string
	created time.Time
	owner   reference
	node    string
	gpus    amounts // requested; nil when none
	claims  []string

	// Only of pods that request GPUs: what decides whether they may be moved.
	labels       map[string]string
	priority     *int
	doNotDisrupt bool

	leaving, ended, failed bool
	ready                  bool
	wasReady               bool // not ready now, and the conditions tell that it was before
	crashed                bool // not ready now, and its engine ended too late for that to be part of the start

	// The times the conditions tell; zero is unknown.
	readyAt, scheduledAt, startedAt time.Time

	// downloads are the runs of init containers that fetch weights.
	downloads []period

	// The container that serves (the first that asks for GPUs, else the first), its image, and when its newest and its last
	// run but one began; zero is unknown.
	engine, image   string
	runAt, lostRun  time.Time
	engineRestarted bool
	backingOff      bool // the kubelet cannot run the engine's container, and tries again and again

	// group is the replica that the pod is part of when a replica has several pods; empty when the pod is one. Of
	// groupSize, 0 is unknown.
	group     string
	groupSize int
	rayHead   bool
}

// The labels and annotations of pods that are part of a group. Of LeaderWorkerSet: sigs.k8s.io/lws api/leaderworkerset/v1;
// of Ray: ray-operator/controllers/ray/utils/constant.go.
const (
	lwsName         = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup        = "leaderworkerset.sigs.k8s.io/group-index"
	lwsSize         = "leaderworkerset.sigs.k8s.io/size"
	rayNodeType     = "ray.io/node-type"
	rayReplicaGroup = "ray.io/worker-group-replica-name"

	// annotationDoNotDisrupt is true, or a duration: Karpenter's pkg/apis/v1/labels.go.
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// podFacts converts a pod.
func podFacts(p *corev1.Pod) *pod {
	out := &pod{
		object: objectOf(p), uid: strings.Clone(string(p.UID)), created: p.CreationTimestamp.UTC(), owner: controller(p),
		node: strings.Clone(p.Spec.NodeName), gpus: requested(&p.Spec), leaving: p.DeletionTimestamp != nil,
		ended:   p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		failed:  p.Status.Phase == corev1.PodFailed,
		rayHead: p.Labels[rayNodeType] == "head",
	}
	if len(out.gpus) > 0 {
		out.labels = cloned(p.Labels)
		disrupt, set := p.Annotations[annotationDoNotDisrupt]
		out.doNotDisrupt = set && disrupt != "false"
		if p.Spec.Priority != nil {
			n := int(*p.Spec.Priority)
			out.priority = &n
		}
	}
	for _, c := range p.Status.ResourceClaimStatuses {
		if c.ResourceClaimName != nil {
			out.claims = append(out.claims, strings.Clone(*c.ResourceClaimName))
		}
	}
	out.readConditions(p)
	out.readEngine(p)
	out.readGroup(p)
	return out
}

func (out *pod) readEngine(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if i == 0 || devices(c.Resources.Requests) != nil {
			out.engine, out.image = strings.Clone(c.Name), strings.Clone(c.Image)
		}
		if devices(c.Resources.Requests) != nil {
			break
		}
	}
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		if s.Name != out.engine {
			continue
		}
		out.engineRestarted = s.RestartCount > 0
		out.backingOff = s.State.Waiting != nil && evidence.BacksOff(s.State.Waiting.Reason)
		out.crashed = !out.ready && lastCrash(s).Sub(out.startable()) > retryWithin
		if s.State.Running != nil {
			out.runAt = s.State.Running.StartedAt.UTC()
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			out.lostRun = t.StartedAt.UTC()
		}
	}
	for i := range p.Status.InitContainerStatuses {
		s := &p.Status.InitContainerStatuses[i]
		if t := s.State.Terminated; t != nil && evidence.FetchesWeights(s.Name) && t.FinishedAt.After(t.StartedAt.Time) {
			out.downloads = append(out.downloads, period{t.StartedAt.UTC(), t.FinishedAt.UTC()})
		}
	}
}

// period is a stretch of time.
type period struct{ from, to time.Time }

// retryWithin is how long after a pod was bound to its node a restart of its engine still counts as part of its start:
// later, it is a crash of a replica that served.
const retryWithin = time.Hour

// startable is when the pod could begin to start: bound to a node, since it may wait for hours for one, else created.
func (out *pod) startable() time.Time {
	if out.scheduledAt.After(out.created) {
		return out.scheduledAt
	}
	return out.created
}

// lastCrash is the latest time that tells of an ended run of a container, or zero when none has ended.
func lastCrash(s *corev1.ContainerStatus) time.Time {
	var last time.Time
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.UTC()
		}
	}
	if s.RestartCount > 0 && s.State.Running != nil && s.State.Running.StartedAt.After(last) {
		last = s.State.Running.StartedAt.UTC()
	}
	return last
}

func (out *pod) readConditions(p *corev1.Pod) {
	var notReadySince time.Time
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		at, is := c.LastTransitionTime.UTC(), c.Status == corev1.ConditionTrue
		switch {
		case c.Type == corev1.PodReady && is:
			out.ready, out.readyAt = true, at
		case c.Type == corev1.PodReady:
			notReadySince = at
		case c.Type == corev1.PodScheduled && is:
			out.scheduledAt = at
		}
	}
	restarted := false
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		if s.State.Running != nil && (out.startedAt.IsZero() || s.State.Running.StartedAt.Before(&metav1.Time{Time: out.startedAt})) {
			out.startedAt = s.State.Running.StartedAt.UTC()
		}
		restarted = restarted || s.RestartCount > 0
	}
	if restarted {
		out.startedAt = time.Time{} // of the last attempt, not of this start
	}
	// The kubelet sets Ready=False before it starts the containers and moves the time only when the status changes: a
	// later time means that it was True in between.
	out.wasReady = !out.ready && !restarted && !out.startedAt.IsZero() && notReadySince.After(out.startedAt.Add(time.Second))
}

func (out *pod) readGroup(p *corev1.Pod) {
	if set := p.Labels[lwsName]; set != "" {
		out.group = strings.Clone(set + "-" + p.Labels[lwsGroup])
		// A size that is not a number is unknown; the model's own is used then.
		out.groupSize, _ = strconv.Atoi(p.Annotations[lwsSize])
	} else if g := p.Labels[rayReplicaGroup]; g != "" {
		out.group = strings.Clone(g)
	}
}

// requested is what the scheduler reserves for a pod: the larger of what its containers and sidecars ask for together
// and of what any init container asks for beside the sidecars started before it.
func requested(spec *corev1.PodSpec) amounts {
	out := amounts{}
	for i := range spec.Containers {
		for r, n := range devices(spec.Containers[i].Resources.Requests) {
			out[r] += n
		}
	}
	sidecars, peak := amounts{}, amounts{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		for r, n := range devices(c.Resources.Requests) {
			peak[r] = max(peak[r], sidecars[r]+n)
			if sidecar {
				sidecars[r] += n
			}
		}
	}
	for r, n := range sidecars {
		out[r] += n
	}
	for r, n := range peak {
		out[r] = max(out[r], n)
	}
	for r, n := range out {
		if n <= 0 {
			delete(out, r)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
