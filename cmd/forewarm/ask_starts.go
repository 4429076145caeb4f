package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"forewarm/coldstart"
	"forewarm/coldstart/evidence"
)

// askedStarts is what the daemon answers on /api/starts.
type askedStarts struct {
	Model     string `json:"model"`
	LeadTimes []struct {
		Path        coldstart.Path  `json:"path"`
		Basis       coldstart.Basis `json:"basis"`
		Samples     int             `json:"samples"`
		P50         float64         `json:"p50_seconds"`
		P90         float64         `json:"p90_seconds"`
		P99         float64         `json:"p99_seconds"`
		FailureProb float64         `json:"failure_prob"`
		Shift       coldstart.Shift `json:"shift,omitzero"`
		Borrowed    coldstart.Basis `json:"borrowed,omitempty"`
	} `json:"lead_times"`
	Starts []coldstart.Sample `json:"starts"`
}

// printStarts shows a model's lead times by path, its newest starts and the last one that served, phase by phase.
func (f *askFlags) printStarts(ctx context.Context, secured *tls.Config, w io.Writer) error {
	var a askedStarts
	if err := fetch(ctx, secured, f.startsURL, &a); err != nil {
		return fmt.Errorf("%s: %w (--http names the daemon's HTTP address)", f.startsURL, err)
	}
	if f.format == "json" {
		return printJSON(w, a)
	}
	_, err := io.WriteString(w, a.text())
	return err
}

func (a *askedStarts) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: lead times by start path\n\n", a.Model)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "PATH\tP50\tP90\tP99\tFAIL\tFROM\n")
	for _, l := range a.LeadTimes {
		from := fmt.Sprintf("%s, %s", l.Basis, plural(float64(l.Samples), "start"))
		if l.Borrowed != "" {
			from += ", topped up with " + string(l.Borrowed) + " ones"
		}
		if l.Shift.Starts > 0 {
			from += fmt.Sprintf("; the newest %d took %.1f times as long as those before", l.Shift.Starts, l.Shift.Factor)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.1f%%\t%s\n", l.Path, wholeSeconds(l.P50), wholeSeconds(l.P90), wholeSeconds(l.P99), 100*l.FailureProb, from)
	}
	t.Flush() // to a strings.Builder, which does not fail
	b.WriteByte('\n')
	for _, s := range a.Starts {
		if s.Outcome == coldstart.Served {
			b.WriteString("The last start that served:\n\n")
			drawn := inSequence(s)
			writeStart(&b, &drawn)
			return b.String()
		}
	}
	b.WriteString("No start has been watched yet.\n")
	return b.String()
}

func wholeSeconds(s float64) string { return fmt.Sprintf("%.0fs", s) }

// inSequence lays the phases of a start one after the other in their order: a Sample says how long each took, not when.
func inSequence(s coldstart.Sample) evidence.Start {
	out := evidence.Start{Sample: s, Pod: s.ID}
	out.Phases = s.Explained()
	out.Sources = map[coldstart.Phase]coldstart.Source{}
	at := time.Duration(0)
	for _, p := range coldstart.Phases() {
		d, ok := out.Phases[p]
		if !ok {
			continue
		}
		switch {
		case p == coldstart.Unattributed:
			out.Sources[p] = coldstart.FromNothing
		case s.Sources[p] != "":
			out.Sources[p] = s.Sources[p]
		default:
			out.Sources[p] = "recorded"
		}
		out.Segments = append(out.Segments, coldstart.Segment{Phase: p, From: at, To: at + d, Source: out.Sources[p]})
		at += d
	}
	return out
}
