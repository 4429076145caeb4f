package planner

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"forewarm/coldstart"
	"forewarm/forecast"
)

func (w *scenario) forecast(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	if d.HasArg("unknown") {
		m.state.Forecast = nil
		return ""
	}
	f := &Forecast{
		Prompt:     forecast.Ensemble{Start: w.now, Step: time.Minute},
		Completion: forecast.Ensemble{Start: w.now, Step: time.Minute},
		Method:     "scenario", MayShrink: !d.HasArg("noauthority"), Authority: "the scenario says so",
	}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		fields := strings.Fields(line)
		at := slices.Index(fields, "completion")
		if len(fields) < 5 || at < 0 || fields[1] != "prompt" {
			d.Fatalf(t, "%q: N prompt SERIES completion SERIES is needed", line)
		}
		prompt, completion := parseSeries(t, d, fields[2:at]), parseSeries(t, d, fields[at+1:])
		for range int(parseFloat(t, d, fields[0])) {
			f.Prompt.Paths = append(f.Prompt.Paths, prompt)
			f.Completion.Paths = append(f.Completion.Paths, completion)
		}
	}
	m.state.Forecast = f
	return fmt.Sprintf("%d paths of %d minutes\n", len(f.Prompt.Paths), f.Prompt.Steps())
}

func (w *scenario) coverage(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	f := *m.state.Forecast
	f.Coverage = nil
	if !d.HasArg("unknown") {
		f.Coverage = &ForecastCoverage{}
		n := int(parseFloat(t, d, textArg(t, d, "forecasts", "")))
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			fields := strings.Fields(line)
			c := forecast.Coverage{Forecasts: n}
			for _, at := range fields[1:] {
				level, share, _ := strings.Cut(at, ":")
				c.Peak = append(c.Peak, forecast.Covered{P: parseFloat(t, d, level), Share: parseFloat(t, d, share)})
			}
			if fields[0] == "prompt" {
				f.Coverage.Prompt = c
			} else {
				f.Coverage.Completion = c
			}
		}
	}
	m.state.Forecast = &f
	return ""
}

func (w *scenario) history(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	series := map[string][]float64{}
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		fields := strings.Fields(line)
		series[fields[0]] = parseSeries(t, d, fields[1:])
	}
	n := len(series["prompt"])
	if series["requests"] == nil {
		series["requests"] = slices.Repeat([]float64{math.NaN()}, n)
	}
	grid := func(name string) forecast.Series {
		return forecast.Series{Start: w.now.Add(-time.Duration(n) * time.Minute), Step: time.Minute, Values: series[name]}
	}
	if m.tracker == nil {
		m.tracker = w.newTracker(t, d, m, textArg(t, d, "method", "auto"))
	}
	obs := Observation{At: w.now, Models: []ModelObservation{{Name: m.state.Name,
		Load: LoadHistory{Prompt: grid("prompt"), Completion: grid("completion"), Requests: grid("requests")}}}}
	s := m.tracker.State(obs, Memory{})
	m.state.Forecast, m.load = s.Models[0].Forecast, s.Models[0].Load
	var b strings.Builder
	for _, g := range s.Gaps {
		if g.Fact == "load" || g.Fact == "forecast" {
			fmt.Fprintf(&b, "gap: %s: %s\n", g.Fact, g.Detail)
		}
	}
	return b.String()
}

func (w *scenario) events(t *testing.T, d *datadriven.TestData) string {
	var events []forecast.Event
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		fields := strings.Fields(line)
		at, err := time.Parse("15:04", fields[1])
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		e := forecast.Event{Name: fields[0], Duration: parseDuration(t, d, strings.TrimPrefix(fields[2], "for="))}
		e.Start = time.Date(w.now.Year(), w.now.Month(), w.now.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
		if _, err := fmt.Sscanf(fields[3], "×%g", &e.Multiplier); err != nil {
			d.Fatalf(t, "%v", err)
		}
		events = append(events, e)
	}
	c, err := forecast.NewCalendar(events)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	w.calendar = c
	return ""
}

func (w *scenario) newTracker(t *testing.T, d *datadriven.TestData, m *scenarioModel, method string) *Tracker {
	tracker, err := NewTracker(TrackerConfig{
		Step: time.Minute, Horizon: 30 * time.Minute, Interval: 15 * time.Second, Paths: 100, Method: method, Seed: 1,
		Models: []TrackedModel{{Name: m.state.Name, Shape: m.state.Shape, Profile: m.state.Profile}},
		Ledger: &coldstart.Ledger{}, Events: w.calendar,
	})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return tracker
}

func (w *scenario) state() State {
	s := State{Now: w.now, Interval: 15 * time.Second, Inventory: w.inventory, Memory: w.memory, Gaps: w.gaps,
		Quotas: w.quotas, Evidence: w.cluster}
	slices.Sort(w.names)
	for _, name := range w.names {
		m := w.models[name].state
		m.Load = w.models[name].load
		s.Models = append(s.Models, m)
	}
	return s
}

func (w *scenario) decideOnce(t *testing.T, d *datadriven.TestData) Decision {
	t.Helper()
	s := w.state()
	out, err := Decide(s, w.policy)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	w.records = append(w.records, Recorded{State: s, Policy: w.policy})
	w.memory = out.Memory
	return out
}

func (w *scenario) decide(t *testing.T, d *datadriven.TestData) string {
	out := w.decideOnce(t, d)
	var b strings.Builder
	for _, m := range out.Models {
		b.WriteString(brief(m))
		if !d.HasArg("brief") {
			for _, s := range m.Steps {
				b.WriteString(stepText(s))
			}
		}
		if d.HasArg("admission") {
			b.WriteString(admissionText(m.Admission))
		}
	}
	for _, s := range out.Shortfalls {
		fmt.Fprintf(&b, "shortfall: %s %s", s.Model, s.Cause)
		if s.Replicas > 0 {
			fmt.Fprintf(&b, " %d", s.Replicas)
		}
		fmt.Fprintf(&b, ": %s\n", s.Why)
	}
	for _, p := range out.Pools {
		fmt.Fprintf(&b, "pool: %s should have %d nodes, %s\n", p.Pool, p.Nodes, p.Why)
	}
	if d.HasArg("writes") {
		writeTargets(&b, &out)
	}
	return b.String()
}

func admissionText(a *Admission) string {
	if a == nil {
		return "  no word on admission\n"
	}
	return fmt.Sprintf("  admit %.2f requests/s, queue %s; %s (%s): %s\n", float64(a.Load.Requests), countText(a.QueueDepth), a.Cause,
		a.Owner, a.Why)
}

func brief(m ModelDecision) string {
	if m.Replicas == nil {
		return fmt.Sprintf("%s: no number, KEDA is told %s\n", m.Name, countText(m.Answer))
	}
	s := fmt.Sprintf("%s: plan %d = %d serving + %d warm, KEDA is told %s", m.Name, *m.Replicas, m.Serving, m.Warm, countText(m.Answer))
	if m.Held != "" {
		s += "; held: " + m.Held
	}
	return s + "\n"
}

func stepText(s Step) string {
	line := fmt.Sprintf("  %-7s %3s  %s", s.Stage, countText(s.Replicas), s.Why)
	if s.BoundBy != "" {
		line += "; bound by " + s.BoundBy
	}
	if s.Rejected != "" {
		line += "; rejected: " + s.Rejected
	}
	return line + "\n"
}

func countText(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func (w *scenario) watch(t *testing.T, d *datadriven.TestData) string {
	m := w.named(t, d)
	every := parseDuration(t, d, textArg(t, d, "every", "15s"))
	end := w.now.Add(parseDuration(t, d, textArg(t, d, "for", "")))
	var b strings.Builder
	last := ""
	for ; !w.now.After(end); w.now = w.now.Add(every) {
		m.follow()
		m.loadFromForecast(w.now)
		starts := d.HasArg("starts")
		if starts {
			m.arrive(w.now, parseDuration(t, d, textArg(t, d, "starts", "")))
		}
		out := w.decideOnce(t, d)
		plan := *out.Model(m.state.Name)
		r := m.state.Replicas
		line := fmt.Sprintf("plan %s, %d ready", countText(plan.Replicas), r.Ready)
		if len(r.Starting) > 0 {
			line += fmt.Sprintf(" + %d starting", len(r.Starting))
		}
		if line != last {
			fmt.Fprintf(&b, "%s load %.0f + %.0f: %s; %s\n", w.now.Format(time.TimeOnly), float64(m.load.Prompt),
				float64(m.load.Completion), line, reason(plan))
			last = line
		}
		if starts && plan.Replicas != nil {
			m.obey(*plan.Replicas, w.now)
		}
	}
	return b.String()
}

// reason is the Step that set the plan.
func reason(m ModelDecision) string {
	why := ""
	for _, s := range m.Steps {
		if (s.Stage == StageWarm || s.Stage == StageGuard) && s.Replicas != nil && !strings.HasPrefix(s.Why, "authority") {
			why = s.Why
		}
	}
	return why
}

// follow detaches the replicas from the State of the last Decision, which must not change after the fact.
func (m *scenarioModel) follow() {
	r := *m.state.Replicas
	r.Starting = slices.Clone(r.Starting)
	m.state.Replicas = &r
}

func (m *scenarioModel) loadFromForecast(now time.Time) {
	f := m.state.Forecast
	k := min(int(now.Sub(f.Prompt.Start)/f.Prompt.Step), f.Prompt.Steps()-1)
	m.load = &ObservedLoad{At: now, Load: Load{Prompt: TokenRate(f.Prompt.Paths[0][k]), Completion: TokenRate(f.Completion.Paths[0][k])}}
}

func (m *scenarioModel) arrive(now time.Time, after time.Duration) {
	r := m.state.Replicas
	before := len(r.Starting)
	r.Starting = slices.DeleteFunc(r.Starting, func(s StartingReplica) bool { return now.Sub(s.Since) >= after })
	r.Ready += before - len(r.Starting)
}

func (m *scenarioModel) obey(plan int, now time.Time) {
	m.follow()
	r := m.state.Replicas
	for r.supply() < plan {
		id := fmt.Sprintf("pod-%d-%d", now.Unix(), len(r.Starting))
		r.Starting = append(r.Starting, StartingReplica{ID: id, Since: now, Path: coldstart.WarmNode})
	}
	for r.supply() > plan && len(r.Starting) > 0 {
		r.Starting = r.Starting[:len(r.Starting)-1]
	}
	r.Ready = min(r.Ready, max(plan, 0))
}

// parseSeries reads the series shorthand described at TestScenarios.
func parseSeries(t *testing.T, d *datadriven.TestData, fields []string) []float64 {
	t.Helper()
	var out []float64
	for _, f := range fields {
		values, count, ok := strings.Cut(f, "x")
		n := 1
		if ok {
			n = int(parseFloat(t, d, count))
		}
		if values == "_" {
			out = append(out, slices.Repeat([]float64{math.NaN()}, n)...)
			continue
		}
		at := strings.IndexAny(values[1:], "+-") + 1
		start, step := values, 0.0
		if at > 0 {
			start, step = values[:at], parseFloat(t, d, values[at:])
		}
		for i := range n {
			out = append(out, parseFloat(t, d, start)+float64(i)*step)
		}
	}
	return out
}

func parseFloat(t *testing.T, d *datadriven.TestData, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func parseDuration(t *testing.T, d *datadriven.TestData, s string) time.Duration {
	t.Helper()
	v, err := time.ParseDuration(s)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}
