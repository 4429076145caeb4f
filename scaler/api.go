package scaler

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"forewarm/planner"
)

// API serves the plan to people and tools:
//
//	GET /healthz            200 while the process lives
//	GET /readyz             200 as soon as specs can be answered; a stale plan is not unready
//	GET /api/plan           every model's planner.PlanView, {"version", "at", "models": […]}
//	GET /api/plan?model=M   one model's planner.PlanView
//	GET /api/cluster        what the models share: nodes, buffers, quotas, and the order of changes, a planner.ClusterView
//	GET /api/starts?model=M a model's lead times and newest cold starts with their phases, a StartsView
//	GET /api/status         how each part of the tick went last
//	GET /                   the plan as a plain text table
type API struct {
	Loop  *Loop
	Now   func() time.Time
	Ready func() bool
	// StaleAfter is the age beyond which a plan is called stale.
	StaleAfter time.Duration
}

// Register adds the routes to mux.
func (a *API) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /api/plan", a.plan)
	mux.HandleFunc("GET /api/cluster", a.cluster)
	mux.HandleFunc("GET /api/starts", a.starts)
	mux.HandleFunc("GET /api/status", a.status)
	mux.HandleFunc("GET /{$}", a.table)
}

func (a *API) readyz(w http.ResponseWriter, _ *http.Request) {
	if !a.Ready() {
		http.Error(w, "not ready: the KEDA endpoint does not answer yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *API) plan(w http.ResponseWriter, r *http.Request) {
	p := a.Loop.Plan()
	if p == nil {
		http.Error(w, "no plan has been made yet", http.StatusServiceUnavailable)
		return
	}
	model := r.URL.Query().Get("model")
	if model == "" {
		views := make([]planner.PlanView, 0, len(p.Decision.Models))
		for i := range p.Decision.Models {
			v, _ := a.view(p, p.Decision.Models[i].Name)
			views = append(views, v)
		}
		writeJSON(w, map[string]any{"version": p.Version, "at": p.Decision.At, "models": views})
		return
	}
	v, ok := a.view(p, model)
	if !ok {
		http.Error(w, fmt.Sprintf("model %q is not planned; known are %s", model, strings.Join(names(p), ", ")), http.StatusNotFound)
		return
	}
	writeJSON(w, v)
}

func (a *API) cluster(w http.ResponseWriter, _ *http.Request) {
	p := a.Loop.Plan()
	if p == nil {
		http.Error(w, "no plan has been made yet", http.StatusServiceUnavailable)
		return
	}
	v := p.Decision.Cluster()
	v.Version = p.Version
	writeJSON(w, v)
}

func (a *API) view(p *Plan, model string) (planner.PlanView, bool) {
	v, ok := p.Decision.View(model)
	age := a.Now().Sub(p.Decision.At)
	v.Version, v.AgeSeconds, v.Stale = p.Version, age.Seconds(), age > a.StaleAfter
	return v, ok
}

func (a *API) starts(w http.ResponseWriter, r *http.Request) {
	p := a.Loop.Plan()
	if p == nil {
		http.Error(w, "no plan has been made yet", http.StatusServiceUnavailable)
		return
	}
	model := r.URL.Query().Get("model")
	v, ok := a.Loop.Starts(model)
	if !ok {
		http.Error(w, fmt.Sprintf("model %q is not planned; known are %s", model, strings.Join(names(p), ", ")), http.StatusNotFound)
		return
	}
	writeJSON(w, v)
}

func (a *API) status(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"now": a.Now(), "parts": a.Loop.Status()})
}

// table is the plan for a terminal: curl is enough at three in the morning.
func (a *API) table(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p := a.Loop.Plan()
	if p == nil {
		fmt.Fprintln(w, "no plan has been made yet")
		return
	}
	fmt.Fprintf(w, "plan %d of %s, %s old\n\n", p.Version, p.Decision.At.Format(time.DateTime),
		a.Now().Sub(p.Decision.At).Round(time.Second))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MODEL\tREPLICAS\tSERVING\tWARM\tANSWER\tAUTHORITY\tLEAD\tHELD")
	for i := range p.Decision.Models {
		m := &p.Decision.Models[i]
		lead := "unknown"
		if m.Lead != nil {
			lead = m.Lead.Time.Round(time.Second).String()
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", m.Name, countText(m.Replicas), m.Serving, m.Warm,
			countText(m.Answer), m.Authority, lead, m.Held)
	}
	_ = tw.Flush() // the reader has gone; there is nobody to tell
}

func countText(n *int) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func names(p *Plan) []string {
	out := make([]string, 0, len(p.Decision.Models))
	for i := range p.Decision.Models {
		out = append(out, p.Decision.Models[i].Name)
	}
	sort.Strings(out)
	return out
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // the reader has gone; there is nobody to tell
}
