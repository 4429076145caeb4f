package prom

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// kubeWorld makes kubeFacts of samples, as observeKube does.
func kubeWorld(samples []sampleJSON) *kubeFacts {
	f := &kubeFacts{map[string]float64{}, map[string]string{}, map[string]*pod{}, map[string]bool{}}
	for _, s := range samples {
		m := model.Metric{}
		for k, v := range s.Metric {
			m[model.LabelName(k)] = model.LabelValue(v)
		}
		var v float64
		fmt.Sscan(s.Value[1].(string), &v)
		switch s.Metric["__name__"] {
		case "was_ready":
			f.pod(m).wasReady = true
		case "ended":
			f.pod(m).ended = true
		default:
			f.add(m, v)
		}
	}
	return f
}

// podSamples are the series of one pod of the ReplicaSet rs.
func podSamples(name string, created float64, ready bool) []sampleJSON {
	out := []sampleJSON{
		kubeSample("kube_pod_owner", 1, "pod", name, "owner_kind", "ReplicaSet", "owner_name", "rs"),
		kubeSample("kube_pod_created", created, "pod", name, "uid", "uid-"+name),
	}
	if ready {
		out = append(out, kubeSample("kube_pod_status_ready", 1, "pod", name, "condition", "true"))
	}
	return out
}

func TestReplicas(t *testing.T) {
	chat := []Workload{{"llm", "Deployment", "chat-70b"}}
	set := []Workload{{"llm", "StatefulSet", "s"}}
	setSamples := []sampleJSON{
		kubeSample("kube_statefulset_replicas", 2, "statefulset", "s"),
		kubeSample("kube_statefulset_status_replicas_ready", 2, "statefulset", "s"),
		kubeSample("kube_pod_owner", 1, "pod", "s-0", "owner_kind", "StatefulSet", "owner_name", "s"),
		kubeSample("kube_pod_owner", 1, "pod", "s-1", "owner_kind", "StatefulSet", "owner_name", "s"),
		kubeSample("kube_pod_owner", 1, "pod", "s-0-1", "owner_kind", "StatefulSet", "owner_name", "s-0"),
		kubeSample("kube_pod_created", 1.7e9, "pod", "s-0"),
		kubeSample("kube_pod_created", 1.7e9, "pod", "s-1"),
		kubeSample("kube_pod_status_ready", 1, "pod", "s-0", "condition", "true"),
		kubeSample("kube_pod_status_ready", 1, "pod", "s-1", "condition", "true"),
		kubeSample("kube_pod_deletion_timestamp", 1.7e9, "pod", "s-1"),
	}
	tests := map[string]struct {
		workloads []Workload
		samples   []sampleJSON
		want      string // ready/starting/leaving/desired/broken
		err       string
	}{
		"one ready": {chat, healthyKube(), "1/[]/0/1/[]", ""},
		"starting, oldest first": {chat, slices.Concat(healthyKube(), podSamples("pod-c", 1.7e9+60, false),
			podSamples("pod-b", 1.7e9+120, false)), "1/[uid-pod-c uid-pod-b]/0/1/[]", ""},
		"leaving counts nowhere": {chat, slices.Concat(healthyKube(), podSamples("pod-b", 1.7e9, false),
			[]sampleJSON{kubeSample("kube_pod_deletion_timestamp", 1, "pod", "pod-b")}), "1/[]/1/1/[]", ""},
		"broken is not starting": {chat, slices.Concat(healthyKube(), podSamples("pod-b", 1.7e9, false),
			[]sampleJSON{kubeSample("was_ready", 1, "pod", "pod-b")}), "1/[]/0/1/[llm/pod-b]", ""},
		"evicted is nothing": {chat, slices.Concat(healthyKube(), podSamples("pod-b", 1.7e9, false),
			[]sampleJSON{kubeSample("ended", 1, "pod", "pod-b")}), "1/[]/0/1/[]", ""},
		"another's pod": {chat, slices.Concat(healthyKube(), []sampleJSON{
			kubeSample("kube_pod_owner", 1, "pod", "x", "owner_kind", "ReplicaSet", "owner_name", "other")}), "1/[]/0/1/[]", ""},
		"ready set pod that leaves":    {set, setSamples, "1/[]/1/2/[]", ""},
		"leaders of a group":           {[]Workload{{"llm", "LeaderWorkerSet", "s"}}, setSamples, "1/[]/1/2/[]", ""},
		"two workloads":                {append(chat, set...), append(healthyKube(), setSamples...), "2/[]/1/3/[]", ""},
		"one of two workloads absent":  {append(chat, set...), healthyKube(), "", "kube_statefulset_replicas of StatefulSet llm/s is absent"},
		"no status":                    {chat, healthyKube()[:1], "", "kube_deployment_status_replicas_ready of Deployment llm/chat-70b is absent"},
		"ready without pods":           {chat, healthyKube()[:2], "", "no pod of Deployment llm/chat-70b"},
		"scaled to zero":               {chat, []sampleJSON{kubeSample("kube_deployment_spec_replicas", 0, "deployment", "chat-70b"), kubeSample("kube_deployment_status_replicas_ready", 0, "deployment", "chat-70b")}, "0/[]/0/0/[]", ""},
		"NaN":                          {chat, append(healthyKube(), kubeSample("kube_deployment_spec_replicas", math.NaN(), "deployment", "chat-70b")), "", "different values"},
		"half a replica":               {chat, append(healthyKube()[1:], kubeSample("kube_deployment_spec_replicas", 0.5, "deployment", "chat-70b")), "", "expected a count"},
		"two clusters":                 {chat, append(healthyKube(), kubeSample("kube_deployment_status_replicas_ready", 4, "deployment", "chat-70b")), "", "kube_matchers"},
		"two kube-state-metrics":       {chat, append(healthyKube(), healthyKube()...), "1/[]/0/1/[]", ""},
		"one pod name in two clusters": {chat, slices.Concat(healthyKube(), podSamples("pod-a", 1.6e9, true)), "", "reported twice"},
		"start of unknown age": {chat, slices.Concat(healthyKube(), []sampleJSON{
			kubeSample("kube_pod_owner", 1, "pod", "pod-b", "owner_kind", "ReplicaSet", "owner_name", "rs")}), "", "unknown time"},
		"exported labels": {chat, exported(healthyKube()), "1/[]/0/1/[]", ""},
	}
	for name, tt := range tests {
		r, broken, err := kubeWorld(tt.samples).replicas(tt.workloads)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || r != nil {
				t.Errorf("%s: %+v, %v, want an error about %q", name, r, err, tt.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var starting []string
		for _, s := range r.Starting {
			starting = append(starting, s.ID)
		}
		if got := fmt.Sprintf("%d/%v/%d/%d/%v", r.Ready, starting, r.Leaving, *r.Desired, broken); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// exported renames labels as a scrape without honor_labels does.
func exported(samples []sampleJSON) []sampleJSON {
	for _, s := range samples {
		for _, l := range []string{"namespace", "pod"} {
			if v, ok := s.Metric[l]; ok {
				s.Metric["exported_"+l], s.Metric[l] = v, "monitoring"
			}
		}
	}
	return samples
}
