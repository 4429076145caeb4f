package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// podDoc writes a pod. More is YAML under metadata (two spaces in) and status conditions by name.
type podDoc struct {
	name, owner string // owner is kind/name, of an API that does not matter
	labels      string
	annotations string
	created     time.Duration // before t0
	node        string
	gpus        int
	resource    string // nvidia.com/gpu unless given
	deleted     bool
	phase       string
	conditions  map[string]time.Duration // True since so long before t0
	notReady    *time.Duration           // Ready=False since
	started     *time.Duration           // container running since
	restarts    int
	state       string // YAML of containerStatuses, instead of started
}

func stamp(before time.Duration) string { return t0.Add(-before).Format(time.RFC3339) }

func (p podDoc) yaml() string {
	var b strings.Builder
	kind, name, _ := strings.Cut(p.owner, "/")
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  namespace: serving\n  name: %s\n  uid: uid-%s\n  creationTimestamp: %s\n",
		p.name, p.name, stamp(p.created))
	if p.owner != "" {
		fmt.Fprintf(&b, "  ownerReferences: [{apiVersion: any/v1, kind: %s, name: %s, uid: u, controller: true}]\n", kind, name)
	}
	if p.deleted {
		fmt.Fprintf(&b, "  deletionTimestamp: %s\n", stamp(0))
	}
	fmt.Fprintf(&b, "  labels: {%s}\n  annotations: {%s}\nspec:\n  nodeName: %q\n", p.labels, p.annotations, p.node)
	resource := p.resource
	if resource == "" {
		resource = resourceGPU
	}
	fmt.Fprintf(&b, "  containers: [{name: engine, resources: {requests: {%s: %d}}}]\n", resource, p.gpus)
	phase := p.phase
	if phase == "" {
		phase = "Running"
	}
	fmt.Fprintf(&b, "status:\n  phase: %s\n  conditions:\n", phase)
	for name, since := range p.conditions {
		fmt.Fprintf(&b, "  - {type: %s, status: 'True', lastTransitionTime: %s}\n", name, stamp(since))
	}
	if p.notReady != nil {
		fmt.Fprintf(&b, "  - {type: Ready, status: 'False', lastTransitionTime: %s}\n", stamp(*p.notReady))
	}
	if p.state != "" {
		fmt.Fprintf(&b, "  containerStatuses: [{name: engine, restartCount: %d, %s}]\n", p.restarts, p.state)
	} else if p.started != nil {
		fmt.Fprintf(&b, "  containerStatuses: [{name: engine, restartCount: %d, state: {running: {startedAt: %s}}}]\n",
			p.restarts, stamp(*p.started))
	}
	return b.String()
}

func readyPod(name, owner string) podDoc {
	return podDoc{name: name, owner: owner, created: time.Hour, conditions: map[string]time.Duration{"Ready": 50 * time.Minute}}
}

func docs(list ...string) string { return strings.Join(list, "\n---\n") }

func podDocs(list ...podDoc) string {
	var out []string
	for _, p := range list {
		out = append(out, p.yaml())
	}
	return docs(out...)
}

const deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: serving, name: chat}
spec: {replicas: 4, template: {spec: {containers: []}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  namespace: serving
  name: chat-5d
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: chat, uid: u, controller: true}]`

func scaledObjectFor(model, kind, name, rest string) string {
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {namespace: serving, name: %[1]s}
spec:
  scaleTargetRef: {kind: %[2]s, name: %[3]s}
  triggers:
  - {type: external, metadata: {scalerAddress: "forewarmd:6000", model: %[1]s}}
%[4]s`, model, kind, name, rest)
}

func lookAt(t *testing.T, m Model, w *world) found {
	t.Helper()
	targets := w.targets([]Model{m})
	return w.replicas(m, targets[m.Name], w.owned(targets), func(string) bool { return false })
}

func TestReplicasByState(t *testing.T) {
	starting := podDoc{name: "chat-s", owner: "ReplicaSet/chat-5d", created: 90 * time.Second, node: "old",
		notReady: ptr(80 * time.Second), started: ptr(30 * time.Second)}
	cold := podDoc{name: "chat-c", owner: "ReplicaSet/chat-5d", created: 9 * time.Minute, node: "new"}
	pending := podDoc{name: "chat-p", owner: "ReplicaSet/chat-5d", created: 10 * time.Second, phase: "Pending"}
	leaving := readyPod("chat-l", "ReplicaSet/chat-5d")
	leaving.deleted = true
	lost := podDoc{name: "chat-x", owner: "ReplicaSet/chat-5d", created: time.Hour, notReady: ptr(time.Minute), started: ptr(58 * time.Minute)}
	done := readyPod("chat-d", "ReplicaSet/chat-5d")
	done.phase = "Succeeded"
	failed := podDoc{name: "chat-f", owner: "ReplicaSet/chat-5d", created: time.Hour, phase: "Failed"}
	stranger := readyPod("other", "ReplicaSet/other-7f")
	nodeDocs := docs(nodeYAML("old", 30*24*time.Hour, "", ""), nodeYAML("new", 2*time.Minute, "", ""))

	w := worldOf(t, deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), nodeDocs,
		podDocs(readyPod("chat-r", "ReplicaSet/chat-5d"), starting, cold, pending, leaving, lost, done, failed, stranger))
	got := lookAt(t, Model{Name: "chat"}, w)
	same(t, "replicas", got.replicas, planner.Replicas{Ready: 1, Leaving: 1, Desired: ptr(4), Starting: []planner.StartingReplica{
		{ID: "uid-chat-c", Since: t0.Add(-9 * time.Minute), Path: coldstart.ColdNode},
		{ID: "uid-chat-s", Since: t0.Add(-90 * time.Second), Path: coldstart.WarmNode},
		{ID: "uid-chat-p", Since: t0.Add(-10 * time.Second), Pending: true},
	}})
	if !strings.Contains(got.problem, "serving/chat-x") {
		t.Errorf("the pod that lost its readiness is not named: %q", got.problem)
	}
}

// A model is found through owners of any kind between the scale target and its pods.
func TestReplicasThroughOwners(t *testing.T) {
	lwsPod := func(name, group string, ready bool) podDoc {
		p := podDoc{name: name, owner: "StatefulSet/lws-" + group, created: time.Hour,
			labels:      "leaderworkerset.sigs.k8s.io/name: lws, leaderworkerset.sigs.k8s.io/group-index: '" + group + "'",
			annotations: "leaderworkerset.sigs.k8s.io/size: '2'"}
		if ready {
			p.conditions = map[string]time.Duration{"Ready": time.Minute}
		}
		return p
	}
	rayPod := func(name, kind string) podDoc {
		p := readyPod(name, "RayCluster/svc-raycluster-x")
		p.labels = "ray.io/node-type: " + kind
		return p
	}
	rayHosts := func(name, replica string) podDoc {
		p := rayPod(name, "worker")
		p.labels += ", ray.io/worker-group-replica-name: " + replica
		return p
	}
	lws := `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {namespace: serving, name: lws}
spec: {replicas: 3, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: []}}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: serving, name: lws-0, ownerReferences: [{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: lws, uid: u, controller: true}]}
spec: {replicas: 1, template: {spec: {containers: []}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: serving, name: lws-1, ownerReferences: [{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: lws, uid: u, controller: true}]}
spec: {replicas: 1, template: {spec: {containers: []}}}`
	ray := `
apiVersion: ray.io/v1
kind: RayService
metadata: {namespace: serving, name: svc}
---
apiVersion: ray.io/v1
kind: RayCluster
metadata: {namespace: serving, name: svc-raycluster-x, ownerReferences: [{apiVersion: ray.io/v1, kind: RayService, name: svc, uid: u, controller: true}]}
spec: {workerGroupSpecs: [{replicas: 2, template: {spec: {tolerations: [{key: gpus, operator: Exists}]}}}]}`
	kserve := deploymentYAML + `
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {namespace: serving, name: chat, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}`
	owned := strings.Replace(kserve, "name: chat}\nspec: {replicas: 4",
		"name: chat, ownerReferences: [{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, name: chat, uid: u, controller: true}]}\nspec: {replicas: 4", 1)
	for _, tt := range []struct {
		name    string
		m       Model
		docs    string
		ready   int
		start   int
		desired *int
		problem string
	}{
		{name: "LeaderWorkerSet: a replica is a group, ready with all of its pods", m: Model{Name: "chat"}, ready: 1, start: 1, desired: ptr(3),
			docs: docs(lws, scaledObjectFor("chat", "LeaderWorkerSet", "lws", ""),
				podDocs(lwsPod("lws-0", "0", true), lwsPod("lws-0-1", "0", true), lwsPod("lws-1", "1", true), lwsPod("lws-1-1", "1", false)))},
		{name: "Ray workers, not the head", m: Model{Name: "chat"}, ready: 2, desired: ptr(2),
			docs: docs(ray, scaledObjectFor("chat", "RayService", "svc", ""),
				podDocs(rayPod("head", "head"), rayPod("w1", "worker"), rayPod("w2", "worker")))},
		{name: "Ray replicas of two hosts", m: Model{Name: "chat", Pods: 2}, ready: 1, start: 1, desired: ptr(2),
			docs: docs(ray, scaledObjectFor("chat", "RayCluster", "svc-raycluster-x", ""),
				podDocs(rayHosts("w1", "a"), rayHosts("w2", "a"), rayHosts("w3", "b")))},
		{name: "KServe in standard mode", m: Model{Name: "chat"}, ready: 1, desired: ptr(4),
			docs: docs(owned, scaledObjectFor("chat", "InferenceService", "chat", ""), podDocs(readyPod("chat-r", "ReplicaSet/chat-5d")))},
		{name: "KServe with Knative", m: Model{Name: "chat"}, problem: "scaled by Knative",
			docs: docs(strings.Replace(owned, "RawDeployment", "Knative", 1), scaledObjectFor("chat", "InferenceService", "chat", ""))},
		{name: "configured, without a ScaledObject", ready: 1, desired: ptr(4),
			m:    Model{Name: "chat", Workloads: []Workload{{"serving", "Deployment", "chat"}}},
			docs: docs(deploymentYAML, podDocs(readyPod("chat-r", "ReplicaSet/chat-5d")))},
		{name: "no ScaledObject names the model", m: Model{Name: "chat"}, docs: deploymentYAML, problem: "no ScaledObject has"},
		{name: "the target does not exist", m: Model{Name: "chat"}, docs: scaledObjectFor("chat", "Deployment", "gone", ""),
			problem: "Deployment serving/gone does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lookAt(t, tt.m, worldOf(t, tt.docs))
			if tt.problem != "" {
				if got.replicas != nil || !strings.Contains(got.problem, tt.problem) {
					t.Fatalf("got %+v with %q, want unknown replicas with %q", got.replicas, got.problem, tt.problem)
				}
				return
			}
			if got.replicas == nil {
				t.Fatalf("replicas are unknown: %s", got.problem)
			}
			if r := got.replicas; r.Ready != tt.ready || len(r.Starting) != tt.start || asJSON(t, r.Desired) != asJSON(t, tt.desired) {
				t.Errorf("got %s, want %d ready, %d starting, desired %s", asJSON(t, r), tt.ready, tt.start, asJSON(t, tt.desired))
			}
		})
	}
}

// Unknown kinds on the way from pod to target make the replicas unknown: a chain that breaks would count none.
func TestReplicasUnknownWithoutOwners(t *testing.T) {
	w := worldOf(t, deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), podDocs(readyPod("chat-r", "ReplicaSet/chat-5d")))
	for _, k := range append([]string{scaledObjects}, ownerKinds...) {
		w.unknown[k] = k + " cannot be read"
		if got := lookAt(t, Model{Name: "chat"}, w); got.replicas != nil || !strings.Contains(got.problem, k) {
			t.Errorf("without %s: got %+v, %q", k, got.replicas, got.problem)
		}
		delete(w.unknown, k)
	}
}

// fromEvents are the sources of phases that the API tells, and of what is left.
func fromEvents(phases ...coldstart.Phase) map[coldstart.Phase]coldstart.Source {
	out := map[coldstart.Phase]coldstart.Source{coldstart.Unattributed: coldstart.FromNothing}
	for _, p := range phases {
		out[p] = coldstart.FromEvents
	}
	return out
}

func TestStarts(t *testing.T) {
	base := docs(deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""),
		nodeYAML("old", 30*24*time.Hour, "", ""), nodeYAML("new", 200*time.Second, "", ""))
	s, m := newStartWatch(), Model{Name: "chat"}
	step := func(now time.Time, list ...podDoc) []coldstart.Sample {
		w := worldOf(t, base, podDocs(list...))
		targets := w.targets([]Model{m})
		s.begin(now)
		f := w.replicas(m, targets["chat"], w.owned(targets), s.wasReady)
		var out []coldstart.Sample
		for _, e := range s.look("chat", w, f, now) {
			out = append(out, e.Sample)
		}
		s.end()
		return out
	}
	const rs = "ReplicaSet/chat-5d"
	old := readyPod("chat-old", rs)
	a := podDoc{name: "chat-a", owner: rs, created: 300 * time.Second, node: "new"}
	b := podDoc{name: "chat-b", owner: rs, created: 100 * time.Second, node: "old"}
	c := podDoc{name: "chat-c", owner: rs, created: 100 * time.Second}
	if got := step(t0.Add(-30*time.Second), old, a, b, c); len(got) != 0 {
		t.Fatalf("nothing has ended at the first look, and the replica that was ready was not watched: %s", asJSON(t, got))
	}
	a.conditions = map[string]time.Duration{"PodScheduled": 150 * time.Second, "PodReadyToStartContainers": 140 * time.Second,
		"Initialized": 145 * time.Second, "Ready": 20 * time.Second}
	a.started = ptr(80 * time.Second)
	c.phase = "Failed"
	quick := podDoc{name: "chat-q", owner: rs, created: 5 * time.Second, node: "old", conditions: map[string]time.Duration{"Ready": 5 * time.Second}}
	got := step(t0, old, a, c, quick)
	same(t, "starts", got, []coldstart.Sample{
		{ID: "uid-chat-a", Key: coldstart.Key{Model: "chat", Path: coldstart.ColdNode}, Started: t0.Add(-300 * time.Second),
			Total: 280 * time.Second, Outcome: coldstart.Served, Node: "new", Phases: map[coldstart.Phase]time.Duration{
				coldstart.NodeLaunch: 100 * time.Second, coldstart.NodeReady: 30 * time.Second, coldstart.Schedule: 20 * time.Second,
				coldstart.ContainerStart: 70 * time.Second, coldstart.Unattributed: 60 * time.Second},
			Sources: fromEvents(coldstart.NodeLaunch, coldstart.NodeReady, coldstart.Schedule, coldstart.ContainerStart)},
		// Deleted while it started: not a failure, but a bound from below.
		{ID: "uid-chat-b", Key: coldstart.Key{Model: "chat", Path: coldstart.WarmNode}, Started: t0.Add(-100 * time.Second),
			Total: 70 * time.Second, Outcome: coldstart.Pending},
		{ID: "uid-chat-c", Key: coldstart.Key{Model: "chat"}, Started: t0.Add(-100 * time.Second), Total: 100 * time.Second,
			Outcome: coldstart.Failed},
		// Ready in the second it was created: the API tells no finer time.
		{ID: "uid-chat-q", Key: coldstart.Key{Model: "chat", Path: coldstart.WarmNode}, Started: t0.Add(-5 * time.Second),
			Total: time.Second, Outcome: coldstart.Served, Node: "old", Phases: map[coldstart.Phase]time.Duration{coldstart.Unattributed: time.Second},
			Sources: fromEvents()},
	})
	for _, sample := range got {
		if err := sample.Validate(); err != nil {
			t.Error(err)
		}
	}
	if again := step(t0.Add(15*time.Second), old, a, quick); len(again) != 0 {
		t.Errorf("a start was reported twice: %s", asJSON(t, again))
	}
	a.conditions, a.notReady, a.started = nil, ptr(time.Second), nil
	if again := step(t0.Add(30*time.Second), old, a, quick); len(again) != 0 || len(s.open) != 0 {
		t.Errorf("a replica that lost its readiness is taken for a start: %s, %v", asJSON(t, again), s.open)
	}
}

// Whoever looks first, after a restart or a reload, at a replica that has served for days and whose engine has crashed
// does not take it for one that starts: neither while it is down nor when it is back. An engine that crashed within its
// start is starting still, also when the pod had waited for hours for its node.
func TestCrashedAtFirstLook(t *testing.T) {
	const day = 24 * time.Hour
	ended := func(start, end time.Duration) string {
		return fmt.Sprintf("{terminated: {exitCode: 1, startedAt: %s, finishedAt: %s}}", stamp(start), stamp(end))
	}
	down := map[string]string{
		"just ended":      "state: " + ended(3*day, 10*time.Second),
		"backing off":     "state: {waiting: {reason: CrashLoopBackOff}}, lastState: " + ended(3*day, time.Minute),
		"running again":   fmt.Sprintf("state: {running: {startedAt: %s}}, lastState: %s", stamp(5*time.Second), ended(3*day, time.Minute)),
		"its end unknown": fmt.Sprintf("state: {running: {startedAt: %s}}", stamp(5*time.Second)),
	}
	for name, state := range down {
		t.Run(name, func(t *testing.T) {
			p := podDoc{name: "chat-old", owner: "ReplicaSet/chat-5d", created: 3 * day, node: "old", restarts: 1, state: state,
				conditions: map[string]time.Duration{"PodScheduled": 3 * day}, notReady: ptr(10 * time.Second)}
			s := newStartWatch()
			f, told := lookWith(t, s, t0, p)
			if len(f.replicas.Starting) != 0 || len(told) != 0 || len(s.open) != 0 || !strings.Contains(f.problem, "chat-old") {
				t.Errorf("while it is down: starting %s, told %s, problem %q", asJSON(t, f.replicas.Starting), asJSON(t, told), f.problem)
			}
			p.notReady, p.conditions["Ready"] = nil, 0
			p.state = fmt.Sprintf("state: {running: {startedAt: %s}}", stamp(5*time.Second))
			if f, told = lookWith(t, s, t0.Add(15*time.Second), p); f.replicas.Ready != 1 || len(told) != 0 {
				t.Errorf("when it is back: %d ready, told %s", f.replicas.Ready, asJSON(t, told))
			}
		})
	}
	young := podDoc{name: "chat-a", owner: "ReplicaSet/chat-5d", created: 5 * time.Hour, node: "old", restarts: 1,
		conditions: map[string]time.Duration{"PodScheduled": 10 * time.Minute}, notReady: ptr(10 * time.Minute), state: down["running again"]}
	if f, _ := lookWith(t, newStartWatch(), t0, young); len(f.replicas.Starting) != 1 {
		t.Errorf("an engine that crashed within its start is not starting: %s", f.problem)
	}
}

// lookWith is one look at the replicas of chat, which are these pods.
func lookWith(t *testing.T, s *startWatch, now time.Time, list ...podDoc) (found, []coldstart.Sample) {
	t.Helper()
	w := worldOf(t, docs(deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), nodeYAML("old", 30*24*time.Hour, "", ""), podDocs(list...)))
	targets := w.targets([]Model{{Name: "chat"}})
	s.begin(now)
	f := w.replicas(Model{Name: "chat"}, targets["chat"], w.owned(targets), s.wasReady)
	if f.replicas == nil {
		t.Fatalf("replicas are unknown: %s", f.problem)
	}
	var told []coldstart.Sample
	for _, e := range s.look("chat", w, f, now) {
		told = append(told, e.Sample)
	}
	s.end()
	return f, told
}

// A pod of a Deployment that cannot start never has the phase Failed. After an hour its start has failed, is told once, and
// is no longer counted as starting; before, or while it waits for something that passes, it starts.
func TestBackOffIsAFailedStart(t *testing.T) {
	waiting := func(reason string) string { return "state: {waiting: {reason: " + reason + "}}" }
	for reason, want := range map[string]coldstart.Outcome{"CrashLoopBackOff": coldstart.Failed, "ImagePullBackOff": coldstart.Failed,
		"ErrImagePull": coldstart.Failed, "CreateContainerConfigError": coldstart.Failed, "ContainerCreating": ""} {
		t.Run(reason, func(t *testing.T) {
			p := podDoc{name: "chat-a", owner: "ReplicaSet/chat-5d", created: 3 * time.Hour, node: "old", phase: "Pending", state: waiting(reason),
				conditions: map[string]time.Duration{"PodScheduled": 50 * time.Minute}, notReady: ptr(50 * time.Minute)}
			s := newStartWatch()
			if f, told := lookWith(t, s, t0, p); len(f.replicas.Starting) != 1 || len(told) != 0 {
				t.Fatalf("after 50 min on its node: starting %s, told %s", asJSON(t, f.replicas.Starting), asJSON(t, told))
			}
			p.conditions["PodScheduled"] = 61 * time.Minute
			f, told := lookWith(t, s, t0, p)
			if want == "" {
				if len(f.replicas.Starting) != 1 || len(told) != 0 {
					t.Errorf("starting %s, told %s: want it starting", asJSON(t, f.replicas.Starting), asJSON(t, told))
				}
				return
			}
			if len(told) != 1 || told[0].Outcome != want || len(f.replicas.Starting) != 0 || !strings.Contains(f.problem, "chat-a") {
				t.Errorf("starting %s, told %s, problem %q: want it failed", asJSON(t, f.replicas.Starting), asJSON(t, told), f.problem)
			}
			if _, told := lookWith(t, s, t0, p); len(told) != 0 || len(s.open) != 0 {
				t.Errorf("told again: %s", asJSON(t, told))
			}
		})
	}
}

// While a Deployment has pods of an older template its surge is known, and not otherwise.
func TestSurgeOfARollout(t *testing.T) {
	for _, c := range []struct {
		name, spec, status string
		want               *int
	}{
		{"all pods are of the newest template", "", "{replicas: 4, updatedReplicas: 4}", nil},
		{"scaled up, pods to be made", "", "{replicas: 2, updatedReplicas: 2}", nil},
		{"by default a quarter, rounded up", "", "{replicas: 5, updatedReplicas: 1}", ptr(1)},
		{"a count", "strategy: {rollingUpdate: {maxSurge: 3}}, ", "{replicas: 5, updatedReplicas: 1}", ptr(3)},
		{"a percentage", "strategy: {rollingUpdate: {maxSurge: 60%}}, ", "{replicas: 5, updatedReplicas: 1}", ptr(3)},
		{"none", "strategy: {rollingUpdate: {maxSurge: 0}}, ", "{replicas: 5, updatedReplicas: 1}", nil},
		{"all at once", "strategy: {type: Recreate}, ", "{replicas: 5, updatedReplicas: 1}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := strings.Replace(deploymentYAML, "spec: {replicas: 4, template: {spec: {containers: []}}}",
				"spec: {replicas: 4, "+c.spec+"template: {spec: {containers: []}}}\nstatus: "+c.status, 1)
			got := lookAt(t, Model{Name: "chat"}, worldOf(t, doc, scaledObjectFor("chat", "Deployment", "chat", "")))
			same(t, "surge", got.replicas.MaxSurge, c.want)
		})
	}
}
