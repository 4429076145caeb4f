package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"forewarm/coldstart"
	"forewarm/coldstart/evidence"
)

// startQuantiles are the quantiles of a path's distribution.
var startQuantiles = []float64{0.5, 0.9, 0.99}

// startsShown is how many starts, the newest, are drawn in the terminal.
const startsShown = 20

// barWidth is the width of a waterfall in characters.
const barWidth = 48

func (r *startReport) table(w io.Writer) error {
	var b strings.Builder
	for i := max(0, len(r.starts)-startsShown); i < len(r.starts); i++ {
		writeStart(&b, &r.starts[i])
	}
	if more := len(r.starts) - startsShown; more > 0 {
		fmt.Fprintf(&b, "%d starts before these are not drawn; they count below, and --format json has them\n\n", more)
	}
	r.writePaths(&b)
	r.writeWhatNext(&b)
	if len(r.starts) == 0 {
		b.WriteString("no start found\n")
	}
	for _, n := range r.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeStart prints one start: a row per phase, with a bar where it happened.
func writeStart(b *strings.Builder, s *evidence.Start) {
	total := formatSeconds(s.Total)
	switch s.Outcome {
	case coldstart.Pending:
		total = "not yet after " + total
	case coldstart.Failed:
		total = "failed after " + total
	default:
		total = "served after " + total
	}
	fmt.Fprintf(b, "%s  %s  %s, began %s\n", s.Pod, s.Key, total, s.Started.UTC().Format(time.RFC3339))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, p := range coldstart.Phases() {
		if d, ok := s.Phases[p]; ok {
			fmt.Fprintf(t, "  %s\t%s\t%.0f%%\t  |%s|  %s\n", p, formatSeconds(d), 100*float64(d)/float64(s.Total),
				bar(s.Segments, p, s.Total), s.Sources[p])
		}
	}
	t.Flush() // to a strings.Builder, which does not fail
	for _, n := range s.Notes {
		fmt.Fprintf(b, "  note: %s\n", n)
	}
	b.WriteByte('\n')
}

// bar draws the segments of one phase on the start's own scale; a segment too short to see is a thin line.
func bar(segments []coldstart.Segment, p coldstart.Phase, total time.Duration) string {
	cells := slices.Repeat([]rune{' '}, barWidth)
	fill := '█'
	if p == coldstart.Unattributed {
		fill = '░'
	}
	for _, s := range segments {
		if s.Phase != p {
			continue
		}
		from := int(float64(s.From) / float64(total) * barWidth)
		to := int(float64(s.To)/float64(total)*barWidth + .5)
		if to <= from && cells[min(from, barWidth-1)] == ' ' {
			cells[min(from, barWidth-1)] = '▏'
		}
		for i := from; i < min(to, barWidth); i++ {
			cells[i] = fill
		}
	}
	return string(cells)
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func (r *startReport) writePaths(b *strings.Builder) {
	if len(r.paths) == 0 {
		return
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "MODEL\tSHAPE\tPATH\tN\tSERVED\tPENDING\tFAILED\tP50\tP90\tP99\n")
	for _, p := range r.paths {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d", p.key.Model, cmp.Or(p.key.Shape, "-"), cmp.Or(string(p.key.Path), "unknown"),
			len(p.samples), p.outcomes[coldstart.Served], p.outcomes[coldstart.Pending], p.outcomes[coldstart.Failed])
		for _, q := range startQuantiles {
			if !p.lead.Known() {
				fmt.Fprint(t, "\t-")
				continue
			}
			fmt.Fprintf(t, "\t%s", formatSeconds(p.lead.Quantile(q)))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	b.WriteString("A quantile above 1-1/n is the longest start seen; starts that have not ended count as longer than they are.\n")
	for _, from := range r.bySource() {
		b.WriteString(from + "\n")
	}
}

// bySource says which phases came from where, over all starts.
func (r *startReport) bySource() []string {
	of := map[coldstart.Source]map[coldstart.Phase]time.Duration{}
	var total time.Duration
	for _, s := range r.starts {
		for p, d := range s.Phases {
			if of[s.Sources[p]] == nil {
				of[s.Sources[p]] = map[coldstart.Phase]time.Duration{}
			}
			of[s.Sources[p]][p] += d
			total += d
		}
	}
	var out []string
	for _, source := range slices.Sorted(maps.Keys(of)) {
		var names []string
		var sum time.Duration
		for _, p := range coldstart.Phases() {
			if d, ok := of[source][p]; ok {
				names, sum = append(names, string(p)), sum+d
			}
		}
		text := fmt.Sprintf("from %s (%.0f%% of the time): %s", source, 100*float64(sum)/float64(total), strings.Join(names, ", "))
		if source == coldstart.FromNothing {
			text = fmt.Sprintf("unattributed: %.0f%% of the time; no source explains it", 100*float64(sum)/float64(total))
		}
		out = append(out, text)
	}
	return out
}

// The JSON form of the verb.
type coldstartJSON struct {
	Starts   []startJSON  `json:"starts"`
	Paths    []pathJSON   `json:"paths"`
	WhatNext []savingJSON `json:"what_next,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
}

type startJSON struct {
	Pod      string            `json:"pod"`
	Model    string            `json:"model"`
	Path     coldstart.Path    `json:"path"`
	Total    float64           `json:"total_seconds"`
	Phases   []phaseJSON       `json:"phases"`
	Outcome  coldstart.Outcome `json:"outcome"`
	Started  time.Time         `json:"started"`
	Key      coldstart.Key     `json:"key"`
	Attempts int               `json:"attempts"`
	KVTokens int               `json:"kv_cache_tokens,omitempty"`
	Notes    []string          `json:"notes,omitempty"`
}

type phaseJSON struct {
	Phase   coldstart.Phase  `json:"phase"`
	Seconds float64          `json:"seconds"`
	Source  coldstart.Source `json:"source"`
}

type pathJSON struct {
	Model   string              `json:"model"`
	Shape   string              `json:"shape,omitempty"`
	Path    coldstart.Path      `json:"path"`
	N       int                 `json:"n"`
	Served  int                 `json:"served"`
	Pending int                 `json:"pending"`
	Failed  int                 `json:"failed"`
	P50     *float64            `json:"p50_seconds"` // null when none served
	P90     *float64            `json:"p90_seconds"`
	P99     *float64            `json:"p99_seconds"`
	Phases  []medianSecondsJSON `json:"phases"`
}

type medianSecondsJSON struct {
	Phase coldstart.Phase `json:"phase"`
	N     int             `json:"n"`
	P50   float64         `json:"p50_seconds"`
}

func (r *startReport) json() coldstartJSON {
	out := coldstartJSON{Starts: []startJSON{}, Paths: []pathJSON{}, WhatNext: r.savingsJSON(), Notes: r.notes}
	for _, s := range r.starts {
		j := startJSON{Pod: s.Pod, Model: s.Key.Model, Path: s.Key.Path, Total: s.Total.Seconds(), Phases: []phaseJSON{},
			Outcome: s.Outcome, Started: s.Started, Key: s.Key, Attempts: s.Attempts, KVTokens: s.KVTokens, Notes: s.Notes}
		for _, p := range coldstart.Phases() {
			if d, ok := s.Phases[p]; ok {
				j.Phases = append(j.Phases, phaseJSON{p, d.Seconds(), s.Sources[p]})
			}
		}
		out.Starts = append(out.Starts, j)
	}
	for _, p := range r.paths {
		j := pathJSON{Model: p.key.Model, Shape: p.key.Shape, Path: p.key.Path, N: len(p.samples), Served: p.outcomes[coldstart.Served],
			Pending: p.outcomes[coldstart.Pending], Failed: p.outcomes[coldstart.Failed], Phases: []medianSecondsJSON{}}
		if p.lead.Known() {
			for i, at := range []**float64{&j.P50, &j.P90, &j.P99} {
				x := p.lead.Quantile(startQuantiles[i]).Seconds()
				*at = &x
			}
		}
		for _, m := range coldstart.MedianPhases(p.samples) {
			j.Phases = append(j.Phases, medianSecondsJSON{m.Phase, m.Samples, m.Median.Seconds()})
		}
		out.Paths = append(out.Paths, j)
	}
	return out
}
