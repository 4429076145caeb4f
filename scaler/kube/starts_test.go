package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"forewarm/coldstart"
)

// startYAML is a pod that was ordered 600 s ago, bound 400 s ago, whose engine runs since run and which is ready for 60 s.
func startYAML(restarts int, run time.Duration, more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  namespace: serving
  name: chat-a
  uid: uid-a
  creationTimestamp: %s
  ownerReferences: [{apiVersion: any/v1, kind: ReplicaSet, name: chat-5d, uid: u, controller: true}]
spec:
  nodeName: gpu
  containers:
  - {name: proxy, image: registry.example/proxy}
  - {name: vllm, image: "registry.example/vllm-openai:v0.11.0", resources: {requests: {nvidia.com/gpu: 4}}}
status:
  phase: Running
  conditions:
  - {type: PodScheduled, status: "True", lastTransitionTime: %s}
  - {type: Ready, status: "True", lastTransitionTime: %s}
  containerStatuses:
  - {name: proxy, restartCount: 0, state: {running: {startedAt: %s}}}
  - {name: vllm, restartCount: %d, state: {running: {startedAt: %s}}%s}`,
		stamp(600*time.Second), stamp(400*time.Second), stamp(60*time.Second), stamp(395*time.Second), restarts, stamp(run), more)
}

func eventYAML(name, reason, container, message string, first, last time.Duration) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Event
metadata: {namespace: serving, name: %s}
involvedObject: {kind: Pod, namespace: serving, name: chat-a, uid: uid-a, fieldPath: "spec.containers{%s}"}
reason: %s
message: %q
firstTimestamp: %s
lastTimestamp: %s`, name, container, reason, message, stamp(first), stamp(last))
}

func claimYAML(created, launched, registered, initialized time.Duration) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: h100-x, creationTimestamp: %s, labels: {karpenter.sh/nodepool: h100}}
status:
  nodeName: gpu
  conditions:
  - {type: Launched, status: "True", lastTransitionTime: %s}
  - {type: Registered, status: "True", lastTransitionTime: %s}
  - {type: Initialized, status: "True", lastTransitionTime: %s}`, stamp(created), stamp(launched), stamp(registered), stamp(initialized))
}

// initYAML is the status of an init container that has run; the first begins the list.
func initYAML(name string, from, to time.Duration) string {
	list := ""
	if name == "certs" {
		list = "  initContainerStatuses:\n"
	}
	return list + fmt.Sprintf("  - {name: %s, state: {terminated: {startedAt: %s, finishedAt: %s}}}\n", name, stamp(from), stamp(to))
}

// evictionYAML is a Kueue Workload that lost its quota to that of a pod, and the pod's.
func evictionYAML(pod string, at time.Duration) string {
	return fmt.Sprintf(`apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: batch, name: job-train, uid: uid-w1}
status:
  conditions:
  - type: Evicted
    status: "True"
    reason: Preempted
    lastTransitionTime: %s
    message: "Preempted to accommodate a workload (UID: uid-w2, JobUID: uid-x) due to reclamation within the cohort; preemptor path: /all/serving; preemptee path: /all/batch"
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  namespace: serving
  name: pod-chat
  uid: uid-w2
  ownerReferences: [{apiVersion: v1, kind: Pod, name: %s, uid: uid-x}]`, stamp(at), pod)
}

// servedStart is the start of chat-a in a world.
func servedStart(t *testing.T, list ...string) (*world, ended) {
	t.Helper()
	w := worldOf(t, docs(append([]string{deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", "")}, list...)...))
	targets := w.targets(chat)
	f := w.replicas(chat[0], targets["chat"], w.owned(targets), func(string) bool { return false })
	if len(f.each) != 1 {
		t.Fatalf("%d replicas: %s", len(f.each), f.problem)
	}
	e, ok := w.served("chat", &f.each[0])
	if !ok {
		t.Fatal("not a start")
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	sum := time.Duration(0)
	for _, d := range e.Phases {
		sum += d
	}
	if sum != e.Total {
		t.Errorf("phases sum to %v: want %v", sum, e.Total)
	}
	return w, e
}

func inSeconds(phases map[coldstart.Phase]time.Duration) string {
	var out []string
	for _, p := range coldstart.Phases() {
		if d, ok := phases[p]; ok {
			out = append(out, fmt.Sprintf("%s=%g", p, d.Seconds()))
		}
	}
	return strings.Join(out, " ")
}

// What the API tells about a start, source by source. Every start is ordered 600 s before now and ready after 540 s.
func TestStartPhases(t *testing.T) {
	const pulled = `Successfully pulled image "registry.example/vllm-openai:v0.11.0" in 1m39.5s (1m39.5s including waiting). Image size: 1 bytes.`
	oldNode := nodeYAML("gpu", 30*24*time.Hour, "", "")
	pull := []string{
		eventYAML("e1", "Pulling", "vllm", "Pulling image", 390*time.Second, 390*time.Second),
		eventYAML("e2", "Pulled", "vllm", pulled, 290*time.Second, 290*time.Second),
		eventYAML("e3", "Unhealthy", "vllm", "Readiness probe failed", 100*time.Second, 60*time.Second),
	}
	for _, tt := range []struct {
		name  string
		docs  []string
		path  coldstart.Path
		image coldstart.Cache
		want  string
	}{
		{"no event: how much of it is the pull is not known", []string{oldNode, startYAML(0, 280*time.Second, "")}, coldstart.WarmNode, "",
			"schedule=200 container_start=120 unattributed=220"},
		{"init containers: one fetches weights", append([]string{oldNode, strings.Replace(startYAML(0, 250*time.Second, ""), "  containerStatuses:",
			initYAML("certs", 390*time.Second, 385*time.Second)+initYAML("storage-initializer", 285*time.Second, 255*time.Second)+"  containerStatuses:", 1)},
			pull...), coldstart.WarmNode, coldstart.NotCached, "schedule=200 image_pull=99.5 container_start=20.5 weight_download=30 unattributed=190"},
		{"Kueue made batch work go", append([]string{oldNode, startYAML(0, 280*time.Second, ""), evictionYAML("chat-a", 450*time.Second)}, pull...),
			coldstart.ReclaimedNode, coldstart.NotCached, "schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"Kueue made batch work go for the whole workload", append([]string{oldNode, startYAML(0, 280*time.Second, ""),
			strings.Replace(evictionYAML("chat", 450*time.Second), "kind: Pod, name", "kind: Deployment, name", 1)}, pull...),
			coldstart.ReclaimedNode, coldstart.NotCached, "schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"Kueue made batch work go for another one", append([]string{oldNode, startYAML(0, 280*time.Second, ""), evictionYAML("chat-b", 450*time.Second)}, pull...),
			coldstart.WarmNode, coldstart.NotCached, "schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"Kueue made batch work go before it was ordered", append([]string{oldNode, startYAML(0, 280*time.Second, ""), evictionYAML("chat-a", 650*time.Second)}, pull...),
			coldstart.WarmNode, coldstart.NotCached, "schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"a pull, and probes that fail", append([]string{oldNode, startYAML(0, 280*time.Second, "")}, pull...), coldstart.WarmNode, coldstart.NotCached,
			"schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"an image that is there", []string{oldNode, startYAML(0, 380*time.Second, ""), eventYAML("e1", "Pulled", "vllm",
			`Container image "x" already present on machine and can be accessed by the pod`, 385*time.Second, 385*time.Second)},
			coldstart.WarmNode, coldstart.Cached, "schedule=200 container_start=20 unattributed=320"},
		{"a pull that backed off", []string{oldNode, startYAML(0, 200*time.Second, ""),
			eventYAML("e1", "Pulling", "vllm", "Pulling image", 390*time.Second, 250*time.Second),
			eventYAML("e2", "Pulled", "vllm", `Successfully pulled image "x" in 40s (40s including waiting)`, 205*time.Second, 205*time.Second)},
			coldstart.WarmNode, coldstart.NotCached, "schedule=200 image_pull=185 container_start=15 unattributed=140"},
		{"a node by Karpenter", append([]string{nodeYAML("gpu", 500*time.Second, "", ""), startYAML(0, 280*time.Second, ""),
			claimYAML(590*time.Second, 550*time.Second, 500*time.Second, 420*time.Second)}, pull...), coldstart.ColdNode, coldstart.NotCached,
			"node_launch=40 node_register=50 node_ready=80 schedule=30 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"a node that another one waited for first", []string{nodeYAML("gpu", 700*time.Second, "", ""), startYAML(0, 380*time.Second, ""),
			claimYAML(800*time.Second, 750*time.Second, 700*time.Second, 420*time.Second),
			eventYAML("e1", "Pulled", "vllm", "already present on machine", 385*time.Second, 385*time.Second)}, coldstart.ColdNode, coldstart.Cached,
			"node_ready=180 schedule=20 container_start=20 unattributed=320"},
		{"a node by another autoscaler", append([]string{nodeYAML("gpu", 500*time.Second, "", ""), startYAML(0, 280*time.Second, ""),
			eventYAML("e0", "TriggeredScaleUp", "", "pod triggered scale-up", 580*time.Second, 580*time.Second)}, pull...), coldstart.ColdNode, coldstart.NotCached,
			"node_launch=80 node_ready=30 schedule=90 image_pull=99.5 container_start=20.5 unattributed=220"},
		{"two failed runs, the first known by its event only", append([]string{oldNode, startYAML(2, 150*time.Second,
			fmt.Sprintf(", lastState: {terminated: {startedAt: %s, finishedAt: %s}}", stamp(230*time.Second), stamp(170*time.Second))),
			eventYAML("e4", "Started", "vllm", "Started container vllm", 280*time.Second, 150*time.Second)}, pull...), coldstart.WarmNode, coldstart.NotCached,
			"schedule=200 image_pull=99.5 container_start=20.5 retry=130 unattributed=90"},
		{"batch work had to go", append([]string{oldNode, startYAML(0, 280*time.Second, ""), `apiVersion: v1
kind: Event
metadata: {namespace: batch, name: p}
involvedObject: {kind: Pod, namespace: batch, name: train, uid: uid-t}
reason: Preempted
message: Preempted by pod uid-a on node gpu
eventTime: ` + t0.Add(-450*time.Second).Format("2006-01-02T15:04:05.000000Z07:00")}, pull...), coldstart.ReclaimedNode, coldstart.NotCached,
			"schedule=200 image_pull=99.5 container_start=20.5 unattributed=220"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, e := servedStart(t, tt.docs...)
			if got := inSeconds(e.Phases); got != tt.want || e.Key.Path != tt.path || e.Key.Image != tt.image || e.Key.Engine != "vllm 0.11.0" {
				t.Errorf("got  %s on %v\nwant %s on %s, image %q", got, e.Key, tt.want, tt.path, tt.image)
			}
		})
	}
}

// logOf is the log of chat-a's engine, which began 380 s ago.
func logOf() string {
	at := func(before time.Duration) string { return t0.Add(-before).Format(time.RFC3339Nano) }
	return at(370*time.Second) + " (APIServer pid=1) INFO 03-02 09:08:50 [api_server.py:1839] vLLM API server version 0.11.1\n" +
		at(300*time.Second) + " (EngineCore pid=9) INFO 03-02 09:10:00 [default_loader.py:267] Loading weights took 50.00 seconds\n" +
		at(200*time.Second) + " (EngineCore pid=9) INFO 03-02 09:11:40 [monitor.py:34] torch.compile takes 70.00 s in total\n" +
		at(190*time.Second) + " (EngineCore pid=9) INFO 03-02 09:11:50 [core.py:210] init engine (profile, create kv cache, warmup model) took 90.00 seconds\n" +
		at(70*time.Second) + " (APIServer pid=1) INFO:     Application startup complete.\n"
}

// A start is told once: at once when logs are not read, cannot be or are too many, else when its log has been read, with
// the phases inside the container and the path that they show.
func TestStartLogs(t *testing.T) {
	_, e := servedStart(t, nodeYAML("gpu", 30*24*time.Hour, "", ""), startYAML(0, 380*time.Second, ""),
		eventYAML("e1", "Pulled", "vllm", "already present on machine", 385*time.Second, 385*time.Second))
	failedStart := ended{Sample: coldstart.Sample{ID: "uid-f", Key: coldstart.Key{Model: "chat"}, Started: t0, Outcome: coldstart.Failed}, complete: true}
	asked := ""
	broken := errors.New("no right to read logs")
	for _, tt := range []struct {
		name string
		open func() (io.ReadCloser, error)
		want string
		path coldstart.Path
	}{
		{"read", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(logOf())), nil },
			"schedule=200 container_start=20 engine_bootstrap=30 weight_load=50 compile=70 warm_up=20 ready=10 unattributed=140", coldstart.CachedWeights},
		{"not allowed", func() (io.ReadCloser, error) { return nil, broken }, "schedule=200 container_start=20 unattributed=320", coldstart.WarmNode},
		{"of another program", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello\n")), nil },
			"schedule=200 container_start=20 unattributed=320", coldstart.WarmNode},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var logged strings.Builder
			l := newStartLogs(slog.New(slog.NewTextHandler(&logged, nil)), time.Now)
			l.open = func(_ context.Context, p *pod) (io.ReadCloser, error) {
				asked = p.String() + " " + p.engine
				return tt.open()
			}
			var running sync.WaitGroup
			spawn := func(f func(context.Context)) { running.Go(func() { f(t.Context()) }) }
			if got := l.through("chat", []ended{failedStart, e}, spawn); len(got) != 1 || got[0].ID != "uid-f" {
				t.Fatalf("told at once are %s: want the one that failed", asJSON(t, got))
			}
			running.Wait()
			if asked != "serving/chat-a vllm" {
				t.Errorf("the log of %q was asked for", asked)
			}
			if got := l.through("other", nil, spawn); len(got) != 0 {
				t.Errorf("another model got %s", asJSON(t, got))
			}
			got := l.through("chat", nil, spawn)
			if len(got) != 1 || inSeconds(got[0].Phases) != tt.want || got[0].Key.Path != tt.path || got[0].Validate() != nil {
				t.Fatalf("told later: %s\nwant %s on %s", asJSON(t, got), tt.want, tt.path)
			}
			if again := l.through("chat", nil, spawn); len(again) != 0 {
				t.Errorf("told twice: %s", asJSON(t, again))
			}
			if failed := strings.Contains(logged.String(), "no right to read logs"); failed != (tt.name == "not allowed") {
				t.Errorf("the log says %q", logged.String())
			}
		})
	}
}

// A first answer soon after readiness is told when the metrics have it, as a longer start; a late one, none, and one that
// cannot be asked for leave the start as it was told.
func TestFirstAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // readiness
		err   error
		want  string
	}{
		{"soon", 30 * time.Second, nil, "schedule=200 container_start=20 first_token=30 unattributed=320"},
		{"late", 3 * time.Minute, nil, ""},
		{"never", 0, nil, ""},
		{"unknown", 30 * time.Second, errors.New("the server is down"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, e := servedStart(t, nodeYAML("gpu", 30*24*time.Hour, "", ""), startYAML(0, 380*time.Second, ""),
				eventYAML("e1", "Pulled", "vllm", "already present on machine", 385*time.Second, 385*time.Second))
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := newStartLogs(slog.New(slog.DiscardHandler), func() time.Time { return t0.Add(time.Since(began)) })
				l.answer = func(_ context.Context, model, pod string, from, to time.Time) (time.Time, bool, error) {
					if model != "chat" || pod != "chat-a" || !from.Equal(e.Started.Add(e.Total)) || to.Sub(from) != answerWithin {
						t.Errorf("asked for %s of %s from %s to %s", pod, model, from, to)
					}
					return from.Add(tt.after), tt.after > 0, tt.err
				}
				spawn := func(f func(context.Context)) { go f(t.Context()) }
				if got := l.through("chat", []ended{e}, spawn); len(got) != 1 || got[0].Total != e.Total {
					t.Fatalf("told at once: %s", asJSON(t, got))
				}
				time.Sleep(time.Minute) // ready 60 s before: the metrics do not have it yet
				if got := l.through("chat", nil, spawn); len(got) != 0 {
					t.Errorf("told too early: %s", asJSON(t, got))
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				got := l.through("chat", nil, spawn)
				if tt.want == "" {
					if len(got) != 0 {
						t.Errorf("told again: %s", asJSON(t, got))
					}
					return
				}
				if len(got) != 1 || inSeconds(got[0].Phases) != tt.want || got[0].Total != e.Total+tt.after || got[0].Validate() != nil ||
					got[0].Sources[coldstart.FirstToken] != coldstart.FromMetrics {
					t.Errorf("got %s, want %s", asJSON(t, got), tt.want)
				}
			})
		})
	}
}

// With start_logs an Observer reads the log through the API; without, it asks for none.
func TestObserverReadsLogs(t *testing.T) {
	for _, on := range []bool{false, true} {
		c := newCluster(t, chatDocs())
		cfg := DefaultConfig()
		cfg.StartLogs = on
		o, err := New(c.clients(), cfg, chat, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (o.logs.open != nil) != on {
			t.Errorf("start_logs %t: there is a reader %t", on, o.logs.open != nil)
		}
		if !on {
			continue
		}
		stream, err := o.logs.open(t.Context(), &pod{object: object{"serving", "chat-r"}, engine: "vllm"})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(stream); err != nil || string(text) != "fake logs" { // what client-go's fake answers
			t.Errorf("got %q, %v", text, err)
		}
	}
}

// The role for logs is one of its own and allows nothing else.
func TestLogRole(t *testing.T) {
	data, err := os.ReadFile("../../configs/rbac-start-logs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(data), "\n---\n")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
		t.Fatal(err)
	}
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].Resources, []string{"pods/log"}) || !slices.Equal(role.Rules[0].Verbs, []string{"get"}) {
		t.Errorf("rules are %+v", role.Rules)
	}
}

// Events of other kinds and reasons are not kept, so that a busy cluster costs nothing.
func TestOtherEventsAreNotKept(t *testing.T) {
	w := worldOf(t, docs(eventYAML("a", "Pulling", "vllm", "x", time.Second, time.Second), eventYAML("b", "FailedScheduling", "", "x", time.Second, time.Second),
		strings.Replace(eventYAML("c", "Pulling", "vllm", "x", time.Second, time.Second), "kind: Pod,", "kind: Job,", 1)))
	if got := slices.Sorted(maps.Keys(w.events)); len(got) != 1 || len(w.events["uid-a"]) != 1 {
		t.Errorf("kept are %v", got)
	}
}

// A replica that waits for a node which is being launched is on the slow path before it is bound, by Karpenter's word or the
// cluster autoscaler's; one that waits for something else is on none yet.
func TestPathBeforeTheNode(t *testing.T) {
	pending := podDoc{name: "chat-a", owner: "ReplicaSet/chat-5d", created: 100 * time.Second}
	claim := func(created, initialized time.Duration) string {
		return strings.Replace(claimYAML(created, created, created, initialized), "nodeName: gpu", `nodeName: ""`, 1)
	}
	nominated := func(node string) string {
		return eventYAML("e1", "Nominated", "", "Pod should schedule on: "+node, 95*time.Second, 95*time.Second)
	}
	for why, tt := range map[string]struct {
		docs []string
		want coldstart.Path
	}{
		"nothing is said":                {nil, coldstart.PathUnknown},
		"a node of Karpenter's":          {[]string{claim(90*time.Second, 10*time.Second), nominated("nodeclaim/h100-x")}, coldstart.ColdNode},
		"two nodes of Karpenter's":       {[]string{claim(90*time.Second, 10*time.Second), nominated("nodeclaim/h100-x, node/gpu-2")}, coldstart.ColdNode},
		"a NodeClaim that is gone":       {[]string{nominated("nodeclaim/h100-y")}, coldstart.PathUnknown},
		"a node that is there":           {[]string{nominated("node/gpu-2")}, coldstart.PathUnknown},
		"one that was there before":      {[]string{claim(900*time.Second, 800*time.Second), nominated("nodeclaim/h100-x")}, coldstart.PathUnknown},
		"a node of another autoscaler's": {[]string{eventYAML("e1", "TriggeredScaleUp", "", "pod triggered scale-up", 95*time.Second, 95*time.Second)}, coldstart.ColdNode},
	} {
		t.Run(why, func(t *testing.T) {
			text := strings.ReplaceAll(docs(tt.docs...), "uid: uid-a,", "uid: uid-chat-a,")
			w := worldOf(t, docs(text, deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), podDocs(pending)))
			targets := w.targets(chat)
			f := w.replicas(chat[0], targets["chat"], w.owned(targets), func(string) bool { return false })
			if f.replicas == nil || len(f.replicas.Starting) != 1 {
				t.Fatalf("starting %s: %s", asJSON(t, f.replicas), f.problem)
			}
			if got := f.replicas.Starting[0].Path; got != tt.want {
				t.Errorf("path %q, want %q", got, tt.want)
			}
		})
	}
}

// A start for which Kueue made batch work go stays one on a reclaimed node when that work has quota again and Kueue says so
// no more.
func TestReclaimIsRemembered(t *testing.T) {
	s := newStartWatch()
	look := func(now time.Time, list ...string) []ended {
		w := worldOf(t, docs(append(list, deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), nodeYAML("gpu", 30*24*time.Hour, "", ""))...))
		targets := w.targets(chat)
		s.begin(now)
		defer s.end()
		return s.look("chat", w, w.replicas(chat[0], targets["chat"], w.owned(targets), s.wasReady), now)
	}
	starting := strings.Replace(startYAML(0, 280*time.Second, ""), `type: Ready, status: "True"`, `type: Ready, status: "False"`, 1)
	starting = strings.Replace(starting, stamp(60*time.Second), stamp(399*time.Second), 1) // not ready since it was bound
	if told := look(t0.Add(-70*time.Second), starting, evictionYAML("chat-a", 450*time.Second)); len(told) != 0 {
		t.Fatalf("told %v", told)
	}
	told := look(t0, startYAML(0, 280*time.Second, ""))
	if len(told) != 1 || told[0].Key.Path != coldstart.ReclaimedNode {
		t.Errorf("told %+v: want one start on a reclaimed node", told)
	}
}
