package prom

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"forewarm/planner"
)

// kubeKind is how kube-state-metrics reports one kind of workload.
type kubeKind struct {
	label, desired, ready string
	// readyIncludesLeaving is set where the controller's count of ready replicas includes terminating pods.
	readyIncludesLeaving bool
}

var kubeKinds = map[string]kubeKind{
	"Deployment":      {"deployment", "kube_deployment_spec_replicas", "kube_deployment_status_replicas_ready", false},
	"StatefulSet":     {"statefulset", "kube_statefulset_replicas", "kube_statefulset_status_replicas_ready", true},
	"LeaderWorkerSet": {"statefulset", "kube_statefulset_replicas", "kube_statefulset_status_replicas_ready", true},
}

// kubeMetrics are read as they are; two more queries add what needs an expression.
var kubeMetrics = []string{
	"kube_deployment_spec_replicas", "kube_deployment_status_replicas_ready",
	"kube_statefulset_replicas", "kube_statefulset_status_replicas_ready",
	"kube_replicaset_owner", "kube_pod_owner", "kube_pod_created", "kube_pod_deletion_timestamp", "kube_pod_status_ready",
}

// readyMemory is how far back a pod that is not ready is known to have been ready: it is broken, not starting, and its
// age says nothing about how long a start takes.
const readyMemory = time.Hour

// kubeLabels is how kube-state-metrics' labels reached the server: scraped without honor_labels, its namespace is called
// exported_namespace.
type kubeLabels struct {
	exported bool
	set      matchers
}

// label returns the name to select a label by.
func (k kubeLabels) label(name string) string {
	if k.exported {
		return "exported_" + name
	}
	return name
}

// kubeLabels finds out under which label namespaces are kept, once every ResolveEvery.
func (s *Source) kubeLabels(ctx context.Context, now time.Time) (kubeLabels, error) {
	s.mu.Lock()
	cached, until := s.kube, s.kubeUntil
	s.mu.Unlock()
	if now.Before(until) {
		return cached, nil
	}
	k := kubeLabels{}
	if s.cfg.KubeMatchers != "" {
		k.set = mustParse([]string{s.cfg.KubeMatchers})[0]
	}
	if namespaces := s.namespaces(); len(namespaces) > 0 {
		byName := matcher{model.MetricNameLabel, "=~", "kube_deployment_spec_replicas|kube_statefulset_replicas"}
		sel := append(matchers{byName, {"exported_namespace", "=~", anyName(namespaces)}}, k.set...)
		v, err := s.client.vector(ctx, "count({"+sel.String()+"})", now)
		if err != nil {
			return k, fmt.Errorf("looking for kube-state-metrics: %w", err)
		}
		k.exported = len(v) > 0
	}
	s.mu.Lock()
	s.kube, s.kubeUntil = k, now.Add(s.cfg.ResolveEvery)
	s.mu.Unlock()
	return k, nil
}

// namespaces returns the namespaces of all workloads, sorted.
func (s *Source) namespaces() []string {
	var out []string
	for _, m := range s.models {
		for _, w := range m.Workloads {
			out = append(out, w.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// anyName is a regular expression for any of some Kubernetes names, in which only the dot is special.
func anyName(names []string) string { return strings.ReplaceAll(strings.Join(names, "|"), ".", `\.`) }

// kubeFacts is one look at kube-state-metrics.
type kubeFacts struct {
	counts   map[string]float64 // metric/namespace/name
	owners   map[string]string  // namespace/replicaset → deployment
	pods     map[string]*pod    // namespace/pod
	conflict map[string]bool    // keys of counts and pods that were reported with different values
}

type pod struct {
	namespace, name, uid string
	owner                string // kind/name
	created              float64
	ready, wasReady      bool
	leaving, ended       bool
}

// observeKube reads all namespaces that any model's workloads are in.
func (s *Source) observeKube(ctx context.Context, now time.Time) (*kubeFacts, error) {
	k, err := s.kubeLabels(ctx, now)
	if err != nil {
		return nil, err
	}
	facts := &kubeFacts{map[string]float64{}, map[string]string{}, map[string]*pod{}, map[string]bool{}}
	for chunk := range slices.Chunk(s.namespaces(), 50) {
		set := append(matchers{{k.label("namespace"), "=~", anyName(chunk)}}, k.set...)
		byName := matcher{model.MetricNameLabel, "=~", strings.Join(kubeMetrics, "|")}
		all := append(matchers{byName}, set...)
		condition := metric{"kube_pod_status_ready", matchers{{"condition", "=", "true"}}}
		phase := metric{"kube_pod_status_phase", matchers{{"phase", "=~", "Failed|Succeeded"}}}
		queries := []struct {
			promql string
			add    func(model.Metric, float64)
		}{
			{"{" + all.String() + "}", facts.add},
			{fmt.Sprintf("max_over_time(%s[%s]) == 1", condition.selector(set), promDuration(readyMemory)),
				func(m model.Metric, _ float64) { facts.pod(m).wasReady = true }},
			{phase.selector(set) + " == 1", func(m model.Metric, _ float64) { facts.pod(m).ended = true }},
		}
		for _, q := range queries {
			v, err := s.client.vector(ctx, q.promql, now)
			if err != nil {
				return nil, fmt.Errorf("reading kube-state-metrics: %w", err)
			}
			for _, sample := range v {
				q.add(sample.Metric, float64(sample.Value))
			}
		}
	}
	return facts, nil
}

// kubeLabel returns the object's own label where the server kept the scraped target's under the plain name.
func kubeLabel(m model.Metric, name string) string {
	if v, ok := m[model.LabelName("exported_"+name)]; ok {
		return string(v)
	}
	return string(m[model.LabelName(name)])
}

func (f *kubeFacts) pod(m model.Metric) *pod {
	key := kubeLabel(m, "namespace") + "/" + kubeLabel(m, "pod")
	p := f.pods[key]
	if p == nil {
		p = &pod{namespace: kubeLabel(m, "namespace"), name: kubeLabel(m, "pod"), created: math.NaN()}
		f.pods[key] = p
	}
	return p
}

// add takes one series of kubeMetrics.
func (f *kubeFacts) add(m model.Metric, v float64) {
	namespace := kubeLabel(m, "namespace")
	switch name := string(m[model.MetricNameLabel]); name {
	case "kube_replicaset_owner":
		f.owners[namespace+"/"+kubeLabel(m, "replicaset")] = string(m["owner_kind"]) + "/" + string(m["owner_name"])
	case "kube_pod_owner":
		f.pod(m).owner = string(m["owner_kind"]) + "/" + string(m["owner_name"])
	case "kube_pod_created":
		p := f.pod(m)
		if !math.IsNaN(p.created) && p.created != v {
			f.conflict[namespace+"/"+p.name] = true
		}
		p.created, p.uid = v, string(m["uid"])
	case "kube_pod_deletion_timestamp":
		f.pod(m).leaving = true
	case "kube_pod_status_ready":
		if m["condition"] == "true" && v == 1 {
			f.pod(m).ready = true
		}
	default:
		kind := "deployment"
		if strings.HasPrefix(name, "kube_statefulset") {
			kind = "statefulset"
		}
		key := name + "/" + namespace + "/" + kubeLabel(m, kind)
		if old, dup := f.counts[key]; dup && old != v {
			f.conflict[key] = true
		}
		f.counts[key] = v
	}
}

// count reads one number of replicas.
func (f *kubeFacts) count(name string, w Workload) (int, error) {
	key := name + "/" + w.Namespace + "/" + w.Name
	v, ok := f.counts[key]
	switch {
	case !ok:
		return 0, fmt.Errorf("%s of %s %s/%s is absent", name, w.Kind, w.Namespace, w.Name)
	case f.conflict[key]:
		return 0, fmt.Errorf("%s of %s/%s is reported with different values; select one cluster by kube_matchers",
			name, w.Namespace, w.Name)
	case math.IsNaN(v) || v < 0 || v > math.MaxInt32 || v != math.Trunc(v):
		return 0, fmt.Errorf("%s of %s/%s is %v, expected a count", name, w.Namespace, w.Name, v)
	}
	return int(v), nil
}

// replicas adds up the replicas of a model's workloads. An error means that they are not known; broken lists pods that
// were ready and are not, which are in no count.
func (f *kubeFacts) replicas(workloads []Workload) (sum *planner.Replicas, broken []string, err error) {
	sum = &planner.Replicas{}
	desired := 0
	for _, w := range workloads {
		kind := kubeKinds[w.Kind]
		want, err := f.count(kind.desired, w)
		if err != nil {
			return nil, nil, err
		}
		ready, err := f.count(kind.ready, w)
		if err != nil {
			return nil, nil, err
		}
		owned := f.owned(w)
		if len(owned) == 0 && ready > 0 {
			return nil, nil, fmt.Errorf("no pod of %s %s/%s is reported (kube_pod_owner, kube_replicaset_owner), %d are ready",
				w.Kind, w.Namespace, w.Name, ready)
		}
		desired += want
		for _, p := range owned {
			switch {
			case f.conflict[p.namespace+"/"+p.name]:
				return nil, nil, fmt.Errorf("pod %s/%s is reported twice; select one cluster by kube_matchers", p.namespace, p.name)
			case p.ended:
			case p.leaving:
				sum.Leaving++
				if p.ready && kind.readyIncludesLeaving {
					ready = max(0, ready-1)
				}
			case p.ready:
			case p.wasReady:
				broken = append(broken, p.namespace+"/"+p.name)
			case math.IsNaN(p.created) || math.IsInf(p.created, 0) || p.created <= 0:
				return nil, nil, fmt.Errorf("pod %s/%s is starting since an unknown time (kube_pod_created is %v)",
					p.namespace, p.name, p.created)
			default:
				sum.Starting = append(sum.Starting, planner.StartingReplica{ID: p.id(), Since: unixTime(p.created)})
			}
		}
		sum.Ready += ready
	}
	slices.SortFunc(sum.Starting, func(a, b planner.StartingReplica) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	slices.Sort(broken)
	sum.Desired = &desired
	return sum, broken, nil
}

// owned returns the pods of a workload, sorted by name.
func (f *kubeFacts) owned(w Workload) []*pod {
	var out []*pod
	for _, p := range f.pods {
		if p.namespace != w.Namespace {
			continue
		}
		owner := p.owner
		if rs, ok := strings.CutPrefix(owner, "ReplicaSet/"); ok {
			owner = f.owners[p.namespace+"/"+rs]
		}
		want := w.Kind + "/" + w.Name
		if w.Kind == "LeaderWorkerSet" {
			want = "StatefulSet/" + w.Name // of the leaders; the workers' sets bear the leaders' names
		}
		if owner == want {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int { return strings.Compare(a.name, b.name) })
	return out
}

func (p *pod) id() string {
	if p.uid != "" {
		return p.uid
	}
	return p.namespace + "/" + p.name
}

// unixTime converts a metric's seconds since the epoch.
func unixTime(seconds float64) time.Time {
	whole, frac := math.Modf(seconds)
	return time.Unix(int64(whole), int64(frac*1e9)).UTC()
}
