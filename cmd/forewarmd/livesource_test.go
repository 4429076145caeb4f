package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"forewarm/coldstart"
	"forewarm/planner"
)

// look is a source that always sees the same.
type look struct {
	obs planner.Observation
	err error
}

func (l look) Observe(context.Context, time.Time) (planner.Observation, error) { return l.obs, l.err }

func (l look) History(context.Context, string, time.Time, time.Time) (planner.LoadHistory, error) {
	return planner.LoadHistory{}, l.err
}

func TestLiveSourceJoins(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 15, 0, 0, time.UTC)
	waiting := 3.0
	start := coldstart.Sample{ID: "s"}
	gap := func(model, fact, detail string) planner.Gap {
		return planner.Gap{Model: model, Fact: fact, Since: now, Detail: detail}
	}
	measured := planner.Observation{At: now, Models: []planner.ModelObservation{
		{Name: "a", LoadSource: "served tokens", Waiting: &waiting, Replicas: &planner.Replicas{Ready: 1}},
		{Name: "b", Replicas: &planner.Replicas{Ready: 2}},
		{Name: "c"},
	}, Gaps: []planner.Gap{gap("a", "replicas", "from metrics"), gap("c", "replicas", "no workload"), gap("a", "load", "late")}}
	seen := planner.Observation{At: now, Models: []planner.ModelObservation{
		{Name: "a", Replicas: &planner.Replicas{Ready: 5}, Starts: []coldstart.Sample{start}, Actuator: &planner.Actuator{ScaleUpTolerance: 0.1}},
		{Name: "b"},
		{Name: "c"},
	}, Inventory: &planner.Inventory{}, Quotas: []planner.Quota{{Queue: "q"}}, Gaps: []planner.Gap{gap("b", "replicas", "no ScaledObject")}}
	down := errors.New("connection refused")

	for _, tt := range []struct {
		name     string
		source   liveSource
		want     planner.Observation
		wantFail bool
	}{
		{name: "both: the cluster's replicas count, the metrics' where it knows none", source: liveSource{look{obs: measured}, look{obs: seen}},
			want: planner.Observation{At: now, Inventory: seen.Inventory, Quotas: seen.Quotas, Models: []planner.ModelObservation{
				{Name: "a", LoadSource: "served tokens", Waiting: &waiting, Replicas: &planner.Replicas{Ready: 5},
					Starts: []coldstart.Sample{start}, Actuator: seen.Models[0].Actuator},
				{Name: "b", Replicas: &planner.Replicas{Ready: 2}},
				{Name: "c"},
			}, Gaps: []planner.Gap{gap("c", "replicas", "no workload"), gap("a", "load", "late"),
				gap("b", "replicas", "not from the cluster: no ScaledObject")}}},
		{name: "no cluster: the metrics' replicas count", source: liveSource{look{obs: measured}, look{err: down}},
			want: planner.Observation{At: now, Models: measured.Models, Gaps: append(append([]planner.Gap{}, measured.Gaps...),
				gap("", "inventory", "connection refused"))}},
		{name: "no metrics: every model is blind", source: liveSource{look{err: down}, look{obs: seen}},
			want: planner.Observation{At: now, Models: seen.Models, Inventory: seen.Inventory, Quotas: seen.Quotas,
				Gaps: []planner.Gap{gap("b", "replicas", "no ScaledObject"), gap("", "observation", "connection refused"),
					gap("a", "waiting", "the metrics cannot be read"), gap("b", "waiting", "the metrics cannot be read"),
					gap("c", "waiting", "the metrics cannot be read")}}},
		{name: "neither", source: liveSource{look{err: down}, look{err: down}}, wantFail: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.source.Observe(t.Context(), now)
			if (err != nil) != tt.wantFail {
				t.Fatalf("got error %v", err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// clusterConfig is a configuration whose cluster is at url.
func clusterConfig(t *testing.T, url string) *config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + url +
		`"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseConfig("test.yaml", []byte(minimal+"  policy: {authority: act}\nkubernetes: {kubeconfig: "+file+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A check says what the cluster lacks: here an API server that serves no kind at all.
func TestCheckReportsTheCluster(t *testing.T) {
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer empty.Close()
	for _, tt := range []struct {
		name string
		cfg  *config
		want string
	}{
		{"an API server that serves nothing", clusterConfig(t, empty.URL), "error: server: cluster: asking the API server"},
		{"none", func() *config { c := clusterConfig(t, empty.URL); c.Kubernetes.Enabled = "false"; return c }(), "info: server: cluster: kubernetes.enabled is false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			if err := runCheck(t.Context(), tt.cfg, &out, slog.New(slog.DiscardHandler)); !errors.Is(err, errFound) {
				t.Errorf("got %v, want findings: there is no Prometheus either", err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("%q is not in\n%s", tt.want, out.String())
			}
		})
	}
}

// The daemon runs with a cluster that cannot be reached: everything it would tell is unknown, and the plan holds.
func TestLiveWithoutAPIServer(t *testing.T) {
	cfg := clusterConfig(t, "http://127.0.0.1:1")
	cfg.KEDA.Listen, cfg.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	d, err := newLive(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stop := runDaemon(t, d)
	defer stop()
	c := client(t, d.kedaListener.Addr().String())
	eventually(t, c, "m", "an honest error", func(_ float64, err error) bool {
		return status.Code(err) == codes.Unavailable && d.loop.Plan() != nil
	})
	if body := get(t, "http://"+d.httpListener.Addr().String()+"/api/status"); !strings.Contains(body, "observing the cluster") {
		t.Errorf("the status does not say that the cluster is not known:\n%s", body)
	}
}
