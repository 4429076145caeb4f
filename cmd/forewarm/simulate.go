package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"forewarm/configs"
	"forewarm/sim"
)

type simulateFlags struct {
	scenario, trace, format, find, until, out string
	policies, set, sweep                      []string
	seed                                      uint64
	seeds                                     int
}

func newSimulateCmd() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f SCENARIO.yaml [--policy a,b,c] [--set path=value]... [--sweep path=a,b]... [--seeds N]",
		Short: "Replay a scenario under several policies and compare them",
		Long: `Replay a scenario request by request through router, replicas, autoscaler and scheduler, once under each policy, and
compare what it was like: SLO attainment, time to first token, GPU-hours and cost.

The policy forewarm is the production planner. Policies see what a metrics store would show, as old as the scenario's
scrape lag, and a profile of the replicas that is wrong by its profile_error. "of bound" is GPU-hours over the least that
anybody would need for the same attainment who knew the future and could split replicas.

--sweep replays every combination of values, --seeds so many seeds with 95 % confidence intervals and differences under
the same seeds. --find is the least whole number for a path with which the first policy meets --until.`,
		Example: `  forewarm simulate -f configs/scenarios/monday-0915.yaml
  forewarm simulate -f monday-0915.yaml --policy forewarm,kpa --seeds 10
  forewarm simulate -f monday-0915.yaml --policy forewarm --sweep world.models.chat-70b.workload.requests_per_s=2,4,8
  forewarm simulate -f monday-0915.yaml --policy fixed:8 --find world.models.chat-70b.replicas_max --until 'slo_attainment>=0.99'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.scenario, "file", "f", "", "scenario as YAML")
	flags.StringVar(&f.trace, "trace", "", "requests in place of the model's: a trace that begins with the world (one model only)")
	flags.StringSliceVar(&f.policies, "policy", nil, "policies in place of the scenario's: "+sim.PolicyNames)
	flags.StringArrayVar(&f.set, "set", nil, "path=value, changes a value of the scenario; lists by index or name")
	flags.StringArrayVar(&f.sweep, "sweep", nil, "path=value,value: a replay for each; several make a grid")
	flags.StringVar(&f.find, "find", "", "path of a whole number to find, with --until")
	flags.StringVar(&f.until, "until", "", "measure>=value or measure<=value that --find is to reach")
	flags.Uint64Var(&f.seed, "seed", 0, "seed in place of the scenario's")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds, counting up from the first")
	flags.StringVar(&f.format, "format", "table", "table, json or html (one page with plots, no network)")
	flags.StringVar(&f.out, "out", "", "file for the result; the table is printed all the same")
	_ = cmd.MarkFlagRequired("file")
	cmd.MarkFlagsRequiredTogether("find", "until")
	cmd.MarkFlagsMutuallyExclusive("find", "sweep")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"table", "json", "html"}, f.format) {
		return fmt.Errorf("--format is %q: table, json or html are allowed", f.format)
	}
	if f.format != "table" && f.find != "" || f.format == "html" && (len(f.sweep) > 0 || f.seeds > 1) {
		return fmt.Errorf("--format is %s: html is of one scenario and seed, and --find prints a table", f.format)
	}
	if f.seeds < 1 || f.seeds > seedsMax {
		return fmt.Errorf("--seeds is %d: 1 to %d are allowed", f.seeds, seedsMax)
	}
	data, err := os.ReadFile(f.scenario)
	if err != nil {
		return err
	}
	if f.find != "" {
		return f.runFind(cmd, data)
	}
	combos, err := grid(f.sweep)
	if err != nil {
		return err
	}
	var variants []*variant
	for _, sets := range combos {
		v, err := f.variant(cmd, data, sets)
		if err != nil {
			return err
		}
		variants = append(variants, v)
	}
	started := time.Now()
	err = f.replay(cmd, variants)
	return errors.Join(f.write(cmd, variants, time.Since(started)), err)
}

// write prints the result, or with --out the table and writes the result to the file: what goes wrong there takes nothing
// away from what is shown.
func (f *simulateFlags) write(cmd *cobra.Command, variants []*variant, wall time.Duration) error {
	if f.out == "" {
		return f.print(cmd.OutOrStdout(), f.format, variants, wall)
	}
	if err := f.print(cmd.OutOrStdout(), "table", variants, wall); err != nil {
		return err
	}
	file, err := os.Create(f.out)
	if err != nil {
		return err
	}
	return errors.Join(f.print(file, f.format, variants, wall), file.Close())
}

func (f *simulateFlags) print(out io.Writer, format string, variants []*variant, wall time.Duration) error {
	one := func() *simulation {
		return &simulation{scenario: variants[0].scenario, scores: finished(variants[0].scores[0]), wall: wall}
	}
	switch {
	case format == "html":
		return one().html(out)
	case format == "json":
		for _, v := range variants {
			for i := range v.scores {
				r := simulation{scenario: v.scenario, sets: v.sets, scores: finished(v.scores[i]), wall: wall}
				r.scenario.Seed += uint64(i)
				if err := printJSON(out, r.json()); err != nil { // one document a variant and seed
					return err
				}
			}
		}
	case len(variants) == 1 && f.seeds == 1:
		one().table(out)
	default:
		s := variants[0].scenario
		fmt.Fprintf(out, "%s: %s\n%v, seeds %d to %d\n", s.Name, s.Description, s.Duration, s.Seed, s.Seed+uint64(f.seeds)-1)
		gridTable(out, variants, f.seeds)
	}
	return nil
}

// finished leaves out the scores of policies that were interrupted.
func finished(scores []sim.Score) []sim.Score {
	return slices.DeleteFunc(slices.Clone(scores), func(s sim.Score) bool { return s.Policy == "" })
}

// replay replays variants under a progress bar.
func (f *simulateFlags) replay(cmd *cobra.Command, variants []*variant) error {
	total := 0
	for _, v := range variants {
		total += f.seeds * len(v.scenario.Policies)
	}
	bar := newBar(cmd.ErrOrStderr(), total)
	bar.Describe("simulate")
	err := replayGrid(cmd.Context(), variants, f.seeds, func() { _ = bar.Add(1) })
	_ = bar.Finish()
	return err
}

func (f *simulateFlags) runFind(cmd *cobra.Command, data []byte) error {
	goal, err := parseGoal(f.until)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	var best *variant
	var invalid error
	n, err := find(func(n int) (bool, error) {
		v, err := f.variant(cmd, data, []string{fmt.Sprintf("%s=%d", f.find, n)})
		if errors.Is(err, errScenario) { // too small for what else the scenario says, perhaps
			fmt.Fprintf(out, "%s=%d: not a valid scenario\n", f.find, n)
			invalid = err
			return false, nil
		}
		if err != nil {
			return false, err
		}
		v.scenario.Policies = v.scenario.Policies[:1]
		if err := f.replay(cmd, []*variant{v}); err != nil {
			return false, err
		}
		met := goal.met(v)
		if met {
			best = v
		}
		fmt.Fprintf(out, "%s=%d: %s %s, %s\n", f.find, n, goal.measure.head, interval(v.values(0, goal.measure), goal.measure.format),
			map[bool]string{true: "reached", false: "missed"}[met])
		return met, nil
	})
	if errors.Is(err, errNotFound) && best == nil && invalid != nil {
		err = fmt.Errorf("%w; %w", err, invalid)
	}
	if err != nil {
		return fmt.Errorf("--find %s --until %s: %w", f.find, f.until, err)
	}
	fmt.Fprintf(out, "\nthe least %s that reaches %s is %d\n\n", f.find, f.until, n)
	gridTable(out, []*variant{best}, 1)
	return nil
}

// replaceDemand lets the trace of --trace ask in place of the scenario's clients.
func (f *simulateFlags) replaceDemand(s *sim.Scenario) error {
	if n := len(s.World.Models); n != 1 {
		return fmt.Errorf("--trace: %s has %d models: one is allowed; name a trace for each in workload.trace", f.scenario, n)
	}
	path, err := filepath.Abs(f.trace)
	if err != nil {
		return fmt.Errorf("--trace: %w", err)
	}
	w := &s.World.Models[0].Workload
	*w = sim.Workload{Timezone: w.Timezone, Trace: &sim.TraceSpec{File: path, Begin: s.World.Start, Scale: 1}}
	return nil
}

// errScenario marks a scenario whose values are out of range.
var errScenario = errors.New("scenario")

// scenarioError is all that is wrong with a scenario's values, a line each.
type scenarioError string

func (e scenarioError) Error() string        { return string(e) }
func (e scenarioError) Is(target error) bool { return target == errScenario }

// variant is the scenario with what the flags and the sets change in it.
func (f *simulateFlags) variant(cmd *cobra.Command, data []byte, sets []string) (*variant, error) {
	s, err := configs.Scenario(f.scenario, data, slices.Concat(f.set, sets))
	if err != nil {
		return nil, err
	}
	if len(f.policies) > 0 {
		s.Policies = f.policies
	}
	if cmd.Flags().Changed("seed") {
		s.Seed = f.seed
	}
	if f.trace != "" {
		if err := f.replaceDemand(&s); err != nil {
			return nil, err
		}
	}
	if err := s.Validate(); err != nil {
		where := f.scenario
		if len(sets) > 0 {
			where += " with " + strings.Join(sets, ", ")
		}
		return nil, fmt.Errorf("%s: %w", where, scenarioError(strings.ReplaceAll(err.Error(), "\n", "\n"+where+": ")))
	}
	if err := loadDemand(&s, filepath.Dir(f.scenario)); err != nil {
		return nil, fmt.Errorf("%s: %w", f.scenario, err)
	}
	return &variant{sets: sets, scenario: s}, nil
}
