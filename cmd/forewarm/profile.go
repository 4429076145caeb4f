package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"forewarm/configs"
	"forewarm/planner"
)

func newProfileCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Replica physics: what one replica of a model carries",
	}
	cmd.AddCommand(newProfileFitCmd())
	return cmd
}

// profileFitFlags are the flags of profile fit.
type profileFitFlags struct {
	data, format, cards, source, date string
	runs                              bool
}

func newProfileFitCmd() *cobra.Command {
	var f profileFitFlags
	cmd := &cobra.Command{
		Use:   "fit --data FILE.csv",
		Short: "Fit the cost of an iteration to measured runs, and show the error on runs it has not seen",
		Long: `Fit the cost of an iteration (fixed part, per prefill token, per sequence, per KV token) to the time per output token of
measured runs, one fit for each model, GPU, engine, version, precision and parallelism.

Each concurrency is held out in turn and predicted from the others; beside it stands what a line through the
concurrencies alone would say. Runs that spend more than 15 % of their time before the first token are reported apart:
their running batch is not their concurrency.

The file is CSV with the columns model_path, isl, osl, concurrency, ttft_ms and tpot_ms, and any of system, backend,
backend_version, precision, tp_size, pp_size, attention_dp_size, moe_ep_size and measured.

With --format profiles the groups whose precision, model and GPU are known from the cards become a catalogue of profiles.`,
		Example: `  forewarm profile fit --data runs.csv --runs
  forewarm profile fit --data runs.csv --format profiles --source "our load tests of 2026-03" > catalogue.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.data, "data", "", "CSV file of runs, - for standard input")
	cmd.Flags().StringVar(&f.format, "format", "table", "table, json or profiles (YAML)")
	cmd.Flags().BoolVar(&f.runs, "runs", false, "list every run in the table (json always does)")
	cmd.Flags().StringVar(&f.cards, "cards", "", "YAML file of model and GPU cards; the built-in ones without it")
	cmd.Flags().StringVar(&f.source, "source", "", "who measured the runs; needed for profiles")
	cmd.Flags().StringVar(&f.date, "date", "", "date of the fit for profiles (default: today)")
	_ = cmd.MarkFlagRequired("data")
	return cmd
}

func (f *profileFitFlags) run(cmd *cobra.Command) error {
	if err := checkFormat(f.format, "table", "json", "profiles"); err != nil {
		return err
	}
	if f.format == "profiles" && f.source == "" {
		return fmt.Errorf("--source is empty: profiles name who measured them")
	}
	runs, err := f.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	report := planner.FitProfiles(runs)
	switch f.format {
	case "json":
		return printJSON(cmd.OutOrStdout(), report)
	case "profiles":
		return f.printProfiles(cmd.OutOrStdout(), report)
	}
	return f.printTable(cmd.OutOrStdout(), report)
}

func (f *profileFitFlags) read(stdin io.Reader) ([]planner.Measurement, error) {
	in, name := stdin, "standard input"
	if f.data != "-" {
		file, err := os.Open(f.data)
		if err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		defer file.Close()
		in, name = file, f.data
	}
	runs, err := planner.ReadMeasurements(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return runs, nil
}

func (f *profileFitFlags) printTable(w io.Writer, r planner.FitReport) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "group\truns\tα ms\tβp µs\tβd µs\tγ ns\tmedian\tp90\tα+bN median\tp90\t")
	for _, g := range r.Groups {
		coefficients := "-\t-\t-\t-"
		if c := g.Coefficients; c != nil {
			coefficients = fmt.Sprintf("%.2f\t%.1f\t%.1f\t%.1f", float64(c.Iteration), 1e3*float64(c.Prefill), 1e3*float64(c.Decode),
				1e6*float64(c.Attention))
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", g.Group, len(g.Runs), coefficients, errorText(g.Errors), errorText(g.Blind), g.Why)
		if f.runs {
			printRuns(t, g.Runs)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nTPOT, each concurrency predicted from the others of its group")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "over\truns\tmedian\tp90\t")
	for _, row := range []struct {
		name string
		planner.FitErrors
	}{{"runs that do not mostly wait", r.Pooled}, {"the same by α+bN", r.Blind}, {"of them at the highest concurrency", r.Highest},
		{"all runs", r.All}} {
		fmt.Fprintf(t, "%s\t%d\t%s\t\n", row.name, row.Runs, errorText(row.FitErrors))
	}
	return t.Flush()
}

// printRuns lists the runs of a group, indented below it.
func printRuns(w io.Writer, runs []planner.RunFit) {
	for _, run := range runs {
		fmt.Fprintf(w, "  line %d: %.0f/%.0f tokens, %.0f at a time, TPOT %.2f ms", run.Line, float64(run.Prompt), float64(run.Completion),
			run.Concurrency, float64(run.Measured))
		if run.Predicted != nil {
			fmt.Fprintf(w, ", predicted %.2f ms, %+.1f %%", float64(*run.Predicted), 100**run.Error)
		} else {
			fmt.Fprint(w, ", not predicted")
		}
		if run.Waits {
			fmt.Fprint(w, " (waits)")
		}
		fmt.Fprintln(w)
	}
}

func errorText(e planner.FitErrors) string {
	if e.Median == nil {
		return "-\t-"
	}
	return fmt.Sprintf("%.1f %%\t%.1f %%", 100**e.Median, 100**e.P90)
}

func (f *profileFitFlags) printProfiles(w io.Writer, r planner.FitReport) error {
	cards, err := f.readCards()
	if err != nil {
		return err
	}
	date := f.date
	if date == "" {
		date = time.Now().Format(time.DateOnly)
	} else if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("--date is %q: a date like 2026-03-02 is allowed", date)
	}
	c := configs.CatalogueOf(r, cards, configs.Origin{Source: f.source, Date: date})
	if len(c.Profiles) == 0 {
		return fmt.Errorf("%s: no group has coefficients, a precision, and cards of its model and GPU: there is nothing to write", f.data)
	}
	fmt.Fprintf(w, "# Written by forewarm profile fit --format profiles; each group of numbers carries its source and date.\n")
	return configs.WriteCatalogue(w, c)
}

func (f *profileFitFlags) readCards() (configs.Cards, error) {
	if f.cards == "" {
		return configs.BuiltinCards()
	}
	data, err := os.ReadFile(f.cards)
	if err != nil {
		return configs.Cards{}, fmt.Errorf("--cards: %w", err)
	}
	return configs.ReadCards(f.cards, data)
}
