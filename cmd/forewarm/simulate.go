package main

import (
	"errors"
	"fmt"
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
	scenario, format, find, until string
	policies, set, sweep          []string
	seed                          uint64
	seeds                         int
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
	flags.StringSliceVar(&f.policies, "policy", nil, "policies in place of the scenario's: "+sim.PolicyNames)
	flags.StringArrayVar(&f.set, "set", nil, "path=value, changes a value of the scenario; lists by index or name")
	flags.StringArrayVar(&f.sweep, "sweep", nil, "path=value,value: a replay for each; several make a grid")
	flags.StringVar(&f.find, "find", "", "path of a whole number to find, with --until")
	flags.StringVar(&f.until, "until", "", "measure>=value or measure<=value that --find is to reach")
	flags.Uint64Var(&f.seed, "seed", 0, "seed in place of the scenario's")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds, counting up from the first")
	flags.StringVar(&f.format, "format", "table", "table or json")
	_ = cmd.MarkFlagRequired("file")
	cmd.MarkFlagsRequiredTogether("find", "until")
	cmd.MarkFlagsMutuallyExclusive("find", "sweep")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"table", "json"}, f.format) {
		return fmt.Errorf("--format is %q: table or json are allowed", f.format)
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
	f.print(cmd, variants, time.Since(started))
	return err
}

func (f *simulateFlags) print(cmd *cobra.Command, variants []*variant, wall time.Duration) {
	out := cmd.OutOrStdout()
	switch {
	case f.format == "json":
		for _, v := range variants {
			for i := range v.scores {
				r := simulation{scenario: v.scenario, sets: v.sets, scores: finished(v.scores[i]), wall: wall}
				r.scenario.Seed += uint64(i)
				_ = printJSON(out, r.json()) // one document a variant and seed
			}
		}
	case len(variants) == 1 && f.seeds == 1:
		r := simulation{scenario: variants[0].scenario, scores: finished(variants[0].scores[0]), wall: wall}
		r.table(out)
	default:
		s := variants[0].scenario
		fmt.Fprintf(out, "%s: %s\n%v, seeds %d to %d\n", s.Name, s.Description, s.Duration, s.Seed, s.Seed+uint64(f.seeds)-1)
		gridTable(out, variants, f.seeds)
	}
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
