package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"forewarm/configs"
	"forewarm/planner"
	"forewarm/scaler/journal"
)

type decideFlags struct {
	state, policy, journal, at, format string
}

func newDecideCmd() *cobra.Command {
	var f decideFlags
	cmd := &cobra.Command{
		Use:   "decide (--state STATE.json | --journal DIR [--at TIME]) [--policy POLICY.yaml]",
		Short: "Replay a recorded State and explain the Decision",
		Long: `Replay a recorded State through the planner and explain the Decision.

The State comes from a file, or out of a journal together with the policy it was decided under: the newest one, or the
newest at or before --at. With --policy another policy is tried on the same facts: a YAML file with the keys seed,
defaults and models (a mapping of names), as --format policy prints it.`,
		Example: `  forewarm decide --state state.json --policy policy.yaml
  forewarm decide --journal /var/lib/forewarm --at 2026-03-02T09:15:00+01:00 --format json
  forewarm decide --journal /var/lib/forewarm --format policy > policy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd)
		},
	}
	cmd.Flags().StringVar(&f.state, "state", "", "State as JSON, - for standard input (configs/examples has some)")
	cmd.Flags().StringVar(&f.policy, "policy", "", "policy as YAML; the journal's own, or the defaults, without it")
	cmd.Flags().StringVar(&f.journal, "journal", "", "data directory of forewarmd")
	cmd.Flags().StringVar(&f.at, "at", "", "RFC 3339 time; the newest State at or before it")
	cmd.Flags().StringVar(&f.format, "format", "text", "text, json (the Decision), state (the State as JSON) or policy (the policy as YAML)")
	cmd.MarkFlagsMutuallyExclusive("state", "journal")
	cmd.MarkFlagsOneRequired("state", "journal")
	return cmd
}

func (f *decideFlags) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"text", "json", "state", "policy"}, f.format) {
		return fmt.Errorf("--format is %q: text, json, state or policy are allowed", f.format)
	}
	state, policy, recorded, err := f.inputs(cmd)
	if err != nil {
		return err
	}
	switch f.format {
	case "state":
		return printJSON(cmd.OutOrStdout(), state)
	case "policy":
		return configs.WritePolicy(cmd.OutOrStdout(), policy)
	}
	d, err := planner.Decide(state, policy)
	if err != nil {
		return err
	}
	if f.format == "json" {
		return printJSON(cmd.OutOrStdout(), d)
	}
	printDecision(cmd.OutOrStdout(), &d)
	if f.policy == "" && f.journal == "" {
		fmt.Fprintln(cmd.OutOrStdout(), "\ndecided under the built-in default policy: --policy names another")
	}
	if recorded != nil {
		return compare(cmd.OutOrStdout(), &d, recorded)
	}
	return nil
}

// compare says whether the replay is what the daemon decided then, and returns errFound when it is not. It differs only
// when another version or another kind of machine recorded it.
func compare(w io.Writer, replayed, recorded *planner.Decision) error {
	a, err := json.Marshal(replayed)
	if err != nil {
		return err
	}
	b, err := json.Marshal(recorded)
	if err != nil {
		return err
	}
	if bytes.Equal(a, b) {
		fmt.Fprintln(w, "\nthe same Decision as recorded")
		return nil
	}
	fmt.Fprintln(w, "\nNOT the Decision that was recorded: it was made by another version or on another kind of machine")
	return errFound
}

// inputs returns what to decide on; recorded is what the daemon decided then, nil when that is not known or another
// policy is tried.
func (f *decideFlags) inputs(cmd *cobra.Command) (planner.State, planner.Policy, *planner.Decision, error) {
	policy := planner.Policy{Defaults: planner.DefaultModelPolicy()}
	var state planner.State
	var recorded *planner.Decision
	var err error
	if f.journal != "" {
		state, policy, recorded, err = f.fromJournal(cmd)
	} else {
		state, err = f.fromFile(cmd.InOrStdin())
	}
	if err != nil || f.policy == "" {
		return state, policy, recorded, err
	}
	data, err := os.ReadFile(f.policy)
	if err != nil {
		return planner.State{}, planner.Policy{}, nil, err
	}
	policy, err = configs.ReadPolicy(f.policy, data)
	return state, policy, nil, err
}

func (f *decideFlags) fromFile(stdin io.Reader) (planner.State, error) {
	if f.at != "" {
		return planner.State{}, errors.New("--at belongs to --journal: a state file holds one State")
	}
	if f.state == "-" {
		return planner.ReadState(stdin)
	}
	file, err := os.Open(f.state)
	if err != nil {
		return planner.State{}, err
	}
	defer file.Close()
	s, err := planner.ReadState(file)
	if err != nil {
		return planner.State{}, fmt.Errorf("%s: %w", f.state, err)
	}
	return s, nil
}

func (f *decideFlags) fromJournal(cmd *cobra.Command) (s planner.State, p planner.Policy, d *planner.Decision, err error) {
	// The last year a journal can hold: the newest State.
	at := time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)
	if f.at != "" {
		if at, err = time.Parse(time.RFC3339, f.at); err != nil {
			return s, p, nil, fmt.Errorf("--at is %q: a time like 2026-03-02T09:15:00+01:00 is allowed", f.at)
		}
	}
	j, err := journal.OpenReadOnly(f.journal)
	if err != nil {
		return s, p, nil, err
	}
	defer j.Close()
	s, p, recorded, err := j.StateAt(cmd.Context(), at)
	return s, p, &recorded, err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printDecision explains a Decision to a person.
func printDecision(w io.Writer, d *planner.Decision) {
	fmt.Fprintf(w, "decision of %s\n", d.At.Format(time.RFC3339))
	for i := range d.Models {
		printModel(w, &d.Models[i])
	}
	for _, s := range d.Shortfalls {
		fmt.Fprintf(w, "\nshortfall %s: %s", s.Model, s.Cause)
		if s.Replicas > 0 {
			fmt.Fprintf(w, ", %d replicas", s.Replicas)
		}
		fmt.Fprintf(w, "%s: %s\n", ownedBy(s.Owner), s.Why)
	}
	for _, s := range d.Slots {
		fmt.Fprintf(w, "\nslots in pool %s for %s: %s\n", s.Pool, strings.Join(s.Models, ", "), s)
	}
	printTargets(w, d)
	for _, g := range d.Gaps {
		fmt.Fprintf(w, "\nmissing %s %s: %s\n", strings.TrimSpace(g.Model), g.Fact, g.Detail)
	}
}

// printTargets prints what the models share: nodes, the room kept in them, quotas, and in which order all of it changes.
func printTargets(w io.Writer, d *planner.Decision) {
	for _, p := range d.Pools {
		fmt.Fprintf(w, "\npool %s: %d nodes (%s; by %s)\n", p.Pool, p.Nodes, p.Why, p.By)
	}
	for _, b := range d.Buffers {
		fmt.Fprintf(w, "\nbuffer in pool %s: room for %d of %s (%s)\n", b.Pool, b.Replicas, b.Model, b.Why)
	}
	for _, q := range d.Quotas {
		fmt.Fprintf(w, "\nquota %s, flavor %s: %d GPUs, now %d (%s)\n", q.Queue, q.Flavor, q.Nominal, q.Now, q.Why)
	}
	for _, s := range d.Memory.Stock {
		fmt.Fprintf(w, "\nno stock for pool %s %s %s: %d failed, the last at %s\n", s.Pool, s.Type, s.Zone, s.Failures,
			s.Last.Format(time.RFC3339))
	}
	for i, c := range d.Order {
		if i == 0 {
			fmt.Fprintln(w, "\nto be changed, in this order:")
		}
		fmt.Fprintf(w, "  %d. %s %s: %d -> %d\n", i+1, c.Kind, c.Name, c.From, c.To)
	}
}

func printModel(w io.Writer, m *planner.ModelDecision) {
	if m.Replicas == nil {
		fmt.Fprintf(w, "\n%s: no trustworthy number\n", m.Name)
	} else {
		fmt.Fprintf(w, "\n%s: %d replicas (%d serving + %d warm)\n", m.Name, *m.Replicas, m.Serving, m.Warm)
	}
	if a := m.Admission; a != nil {
		fmt.Fprintf(w, "  short: %s (%s): %s", a.Cause, a.Owner, a.Why)
		if a.QueueDepth != nil {
			fmt.Fprintf(w, "; admit %.3g requests/s and let at most %d wait", float64(a.Load.Requests), *a.QueueDepth)
		}
		fmt.Fprintln(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range m.Steps {
		count := ""
		if s.Replicas != nil {
			count = fmt.Sprint(*s.Replicas)
		}
		why := s.Why
		if s.BoundBy != "" {
			why += " [bound by " + s.BoundBy + "]"
		}
		if s.Rejected != "" {
			why += " [rejected: " + s.Rejected + "]"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", s.Stage, count, why)
	}
	tw.Flush()
}
