package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"forewarm/coldstart"
	"forewarm/planner"
)

// text explains the answers to a person.
func (a *asked) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s\n", a.Model, a.headline(), a.activity())
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	if a.Value != nil {
		line("KEDA sees", "metric %s = %v, target %v → the HPA wants %d", a.Metric, *a.Value, a.Target, *a.HPAWants)
	} else {
		line("KEDA sees", "metric %s, target %v, and no value → the HPA keeps what runs, or the ScaledObject's fallback decides",
			a.Metric, a.Target)
	}
	for _, e := range a.Errors {
		line("refused", "%s", e)
	}
	if a.Plan != nil {
		planLines(line, a.Plan)
		b.WriteString(steps(a.Plan.Model.Steps))
	}
	if a.Note != "" {
		line("note", "%s", a.Note)
	}
	return b.String()
}

// headline says the plan, and what KEDA is told when that is another number.
func (a *asked) headline() string {
	told := "no number for KEDA"
	if a.Value != nil {
		told = fmt.Sprintf("KEDA is told %v", *a.Value)
	}
	switch {
	case a.Plan == nil && a.Value != nil:
		return plural(*a.Value, "replica")
	case a.Plan == nil:
		return told
	case a.Plan.Model.Replicas == nil:
		return "no trustworthy plan, " + told
	}
	m := a.Plan.Model
	plan := fmt.Sprintf("%s (%d serving + %d warm)", plural(float64(*m.Replicas), "replica"), m.Serving, m.Warm)
	if a.Value != nil && *a.Value == float64(*m.Replicas) {
		return plan
	}
	return fmt.Sprintf("planned are %s, %s (authority %s)", plan, told, m.Authority)
}

func (a *asked) activity() string {
	switch {
	case a.Active == nil:
		return "activity unknown"
	case *a.Active:
		return "active"
	}
	return "not active"
}

func plural(n float64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%v %ss", n, noun)
}

// planLines prints what the plan rests on.
func planLines(line func(label, format string, args ...any), v *planner.PlanView) {
	age := time.Duration(v.AgeSeconds * float64(time.Second)).Round(time.Second)
	stale := ""
	if v.Stale {
		stale = ", stale"
	}
	line("plan", "version %d of %s, %s old%s", v.Version, v.At.Format(time.RFC3339), short(age), stale)
	if l := v.Model.Lead; l != nil {
		basis := fmt.Sprintf("%s, %s", l.Basis, plural(float64(l.Samples), "start"))
		if l.Basis == coldstart.Stated {
			basis = "stated, not measured"
		}
		line("lead time", "%s, q%.4g of %s (%s)", short(l.Time), 100*l.Quantile, orUnknown(string(l.Path)), basis)
	} else {
		line("lead time", "unknown")
	}
	if p := v.Model.Peak; p != nil {
		line("forecast", "p%.4g peak %s, %s to %s", 100*p.Quantile, p.Load, p.From.Format(time.TimeOnly),
			p.To.Format(time.TimeOnly))
		if p.Coverage != nil {
			line("coverage", "%s", coverageLine(p))
		}
	} else {
		line("forecast", "none")
	}
	if v.Model.Held != "" {
		line("held", "%s", v.Model.Held)
	}
	if a := v.Model.Admission; a != nil {
		line("short", "%s", a)
	}
	for _, g := range v.Gaps {
		line("missing", "%s since %s%s", g.Fact, g.Since.Format(time.TimeOnly), prefixed(": ", g.Detail))
	}
	for _, s := range v.Shortfalls {
		count := ""
		if s.Replicas > 0 {
			count = " of " + plural(float64(s.Replicas), "replica")
		}
		line("shortfall", "%s%s%s: %s", s.Cause, count, ownedBy(s.Owner), s.Why)
	}
}

// coverageLine says how often the service level has held, and what came of it.
func coverageLine(p *planner.Peak) string {
	c := p.Coverage
	text := fmt.Sprintf("p%.4g of the peak held for %s of %d forecasts", 100*c.Stated, c.Shares(), c.Forecasts)
	if p.Quantile > c.Stated {
		return text + fmt.Sprintf(": too rarely, so p%.4g is planned for", 100*p.Quantile)
	}
	return text
}

// stepWidth is where the reasons are wrapped, and stepIndent where they begin.
const (
	stepWidth  = 110
	stepIndent = "           "
)

// steps prints each Step as "stage reason", wrapped.
func steps(all []planner.Step) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("  why\n")
	for _, s := range all {
		why := s.Why
		if s.Replicas != nil {
			why = fmt.Sprintf("%d: %s", *s.Replicas, why)
		}
		why += prefixed("; bound by ", s.BoundBy) + prefixed("; rejected: ", s.Rejected)
		fmt.Fprintf(&b, "    %-6s %s\n", s.Stage, wrap(why, stepWidth-len(stepIndent), "\n"+stepIndent))
	}
	return b.String()
}

// wrap breaks a text at spaces into lines of at most width characters; a longer word stays whole.
func wrap(text string, width int, separator string) string {
	var lines []string
	current := ""
	for _, word := range strings.Fields(text) {
		if current != "" && utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, current)
			current = ""
		}
		if current != "" {
			current += " "
		}
		current += word
	}
	return strings.Join(append(lines, current), separator)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// ownedBy is who can remedy something, as it is printed behind it.
func ownedBy(o planner.Owner) string {
	if o == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", o)
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown start path"
	}
	return s
}

// short prints whole seconds without trailing zero units: 5m, not 5m0s.
func short(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
