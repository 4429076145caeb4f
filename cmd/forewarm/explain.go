package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"forewarm/coldstart"
	"forewarm/planner"
	"forewarm/scaler/journal"
)

type explainFlags struct {
	journal, model, at, format string
	window                     time.Duration
}

func newExplainCmd() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain --journal DIR --model M [--at TIME]",
		Short: "Say why a model has the replicas it has, and what would have prevented a shortage",
		Long: `Say why a model had the replicas it had at a time, and which one change would have prevented its shortage.

The States that the journal holds of the window before are replayed with one change at a time: higher limits, authority,
without a veto, more quota, a higher service level, each phase of a start made faster, more slots, an earlier start. The
first that leaves nothing short is named, with who can make it. Each State is decided anew as it was recorded; what a
change would have done to later States is not simulated.`,
		Example: `  forewarm explain --journal /var/lib/forewarm --model chat-70b --at 2026-03-02T09:20:00+01:00`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd)
		},
	}
	cmd.Flags().StringVar(&f.journal, "journal", "", "data directory of forewarmd")
	cmd.Flags().StringVar(&f.model, "model", "", "name of the model")
	cmd.Flags().StringVar(&f.at, "at", "", "RFC 3339 time; the newest State at or before it")
	cmd.Flags().DurationVar(&f.window, "window", 2*time.Hour, "how far back States are replayed; it must hold a start and the shortage")
	cmd.Flags().StringVar(&f.format, "format", "text", "text or json")
	return cmd
}

// explained is what explain answers.
type explained struct {
	Plan planner.PlanView `json:"plan"`
	planner.Explanation
}

func (f *explainFlags) run(cmd *cobra.Command) error {
	at, err := f.check()
	if err != nil {
		return err
	}
	j, err := journal.OpenReadOnly(f.journal)
	if err != nil {
		return err
	}
	defer j.Close()
	records, last, err := f.records(cmd.Context(), j, at)
	if err != nil {
		return err
	}
	view, ok := last.View(f.model)
	if !ok {
		return fmt.Errorf("--model is %q: the journal has no such model at %s; it has %s", f.model, last.At.Format(time.RFC3339), modelsOf(last))
	}
	starts, err := j.Starts(cmd.Context())
	if err != nil {
		return err
	}
	e, err := planner.Explain(f.model, records, removalsOf(f.model, starts, last.At))
	if err != nil {
		return err
	}
	if f.format == "json" {
		return printJSON(cmd.OutOrStdout(), explained{view, e})
	}
	fmt.Fprintf(cmd.OutOrStdout(), "decision of %s\n", view.At.Format(time.RFC3339))
	printModel(cmd.OutOrStdout(), &view.Model)
	printExplanation(cmd.OutOrStdout(), &e)
	return nil
}

// check reports every unusable flag at once.
func (f *explainFlags) check() (time.Time, error) {
	var errs []error
	// The last year a journal can hold: the newest State.
	at := time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
	if f.journal == "" {
		errs = append(errs, errors.New("--journal is missing: the data directory of forewarmd is needed"))
	}
	if f.model == "" {
		errs = append(errs, errors.New("--model is missing: the name of a model is needed"))
	}
	if f.at != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, f.at); err != nil {
			errs = append(errs, fmt.Errorf("--at is %q: a time like 2026-03-02T09:15:00+01:00 is allowed", f.at))
		}
	}
	if f.window < time.Minute || f.window > 48*time.Hour {
		errs = append(errs, fmt.Errorf("--window is %s: 1m to 48h are allowed", f.window))
	}
	if f.format != "text" && f.format != "json" {
		errs = append(errs, fmt.Errorf("--format is %q: text or json are allowed", f.format))
	}
	return at, errors.Join(errs...)
}

// records are the States of the window that ends at the newest one at or before a time, and the Decision of that one.
func (f *explainFlags) records(ctx context.Context, j *journal.Reader, at time.Time) ([]planner.Recorded, *planner.Decision, error) {
	s, p, last, err := j.StateAt(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	infos, err := j.States(ctx, s.Now.Add(-f.window), s.Now)
	if err != nil {
		return nil, nil, err
	}
	records := make([]planner.Recorded, 0, len(infos)+1)
	for _, info := range infos {
		before, policy, _, err := j.StateAt(ctx, info.At)
		if err != nil {
			return nil, nil, err
		}
		records = append(records, planner.Recorded{State: before, Policy: policy})
	}
	return append(records, planner.Recorded{State: s, Policy: p}), &last, nil
}

// removalsOf are the phases of a model's starts until a time that could be shorter.
func removalsOf(model string, starts []coldstart.Sample, until time.Time) []planner.Removal {
	byPath := map[coldstart.Path][]coldstart.Sample{}
	for _, s := range starts {
		if s.Key.Model == model && !s.Started.Add(s.Total).After(until) {
			byPath[s.Key.Path] = append(byPath[s.Key.Path], s)
		}
	}
	var out []planner.Removal
	for _, path := range coldstart.Paths() {
		out = append(out, planner.Removals(path, byPath[path])...)
	}
	return out
}

func modelsOf(d *planner.Decision) []string {
	var names []string
	for i := range d.Models {
		names = append(names, d.Models[i].Name)
	}
	slices.Sort(names)
	return names
}

func printExplanation(w io.Writer, e *planner.Explanation) {
	if e.Short == 0 {
		fmt.Fprintf(w, "\nno shortage: %s\n", e.Why)
		return
	}
	fmt.Fprintf(w, "\nshort of %s from %s to %s, %s (%s)\n  %s\n", plural(float64(e.Short), "replica"), e.From.Format(time.TimeOnly),
		e.To.Format(time.TimeOnly), e.Cause, e.Owner, e.Why)
	if e.Remedy != nil {
		fmt.Fprintf(w, "  what would have prevented it: %s: %s (%s)\n", e.Remedy.Kind, e.Remedy.What, e.Remedy.Owner)
	} else if len(e.Changes) > 0 {
		fmt.Fprintln(w, "  no single change of those replayed would have prevented it")
	}
	if len(e.Changes) == 0 {
		return
	}
	fmt.Fprintln(w, "  replayed with")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range e.Changes {
		left := "prevents it"
		if !c.Prevents {
			left = fmt.Sprintf("%d still short", c.Short)
		}
		fmt.Fprintf(tw, "    %s\t%s (%s)\t%s\n", c.Kind, c.What, c.Owner, left)
	}
	tw.Flush()
}
