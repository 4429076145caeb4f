package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"forewarm/configs"
	"forewarm/sim"
)

type simulateFlags struct {
	scenario, format string
	policies, set    []string
	seed             uint64
}

func newSimulateCmd() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f SCENARIO.yaml [--policy a,b,c] [--set path=value]... [--seed N] [--format table|json]",
		Short: "Replay a scenario under several policies and compare them",
		Long: `Replay a scenario request by request through router, replicas, autoscaler and scheduler, once under each policy, and
compare what it was like: SLO attainment, time to first token, GPU-hours and cost.

The policy forewarm is the production planner. Policies see what a metrics store would show, as old as the scenario's
scrape lag, and a profile of the replicas that is wrong by its profile_error.`,
		Example: `  forewarm simulate -f configs/scenarios/monday-0915.yaml
  forewarm simulate -f monday-0915.yaml --policy forewarm,keda-queue --set world.models.chat-70b.workload.requests_per_s=5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd)
		},
	}
	cmd.Flags().StringVarP(&f.scenario, "file", "f", "", "scenario as YAML")
	cmd.Flags().StringSliceVar(&f.policies, "policy", nil, "policies in place of the scenario's: "+sim.PolicyNames)
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "path=value, changes a value of the scenario; lists by index or name")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "seed in place of the scenario's")
	cmd.Flags().StringVar(&f.format, "format", "table", "table or json")
	_ = cmd.MarkFlagRequired("file")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	if !slices.Contains([]string{"table", "json"}, f.format) {
		return fmt.Errorf("--format is %q: table or json are allowed", f.format)
	}
	s, err := f.read(cmd)
	if err != nil {
		return err
	}
	started := time.Now()
	scores, err := replayAll(cmd.Context(), s)
	if err != nil && len(scores) == 0 {
		return err
	}
	result := simulation{scenario: s, scores: scores, wall: time.Since(started)}
	if f.format == "json" {
		return errors.Join(printJSON(cmd.OutOrStdout(), result.json()), err)
	}
	result.table(cmd.OutOrStdout())
	return err
}

// read is the scenario with what the flags change in it.
func (f *simulateFlags) read(cmd *cobra.Command) (sim.Scenario, error) {
	data, err := os.ReadFile(f.scenario)
	if err != nil {
		return sim.Scenario{}, err
	}
	s, err := configs.Scenario(f.scenario, data, f.set)
	if err != nil {
		return sim.Scenario{}, err
	}
	if len(f.policies) > 0 {
		s.Policies = f.policies
	}
	if cmd.Flags().Changed("seed") {
		s.Seed = f.seed
	}
	if err := s.Validate(); err != nil {
		return sim.Scenario{}, fmt.Errorf("%s: %s", f.scenario, strings.ReplaceAll(err.Error(), "\n", "\n"+f.scenario+": "))
	}
	return s, nil
}

// replayAll replays a scenario under each of its policies, on all cores. Scores are in the order of the policies. When
// ctx ends, those that were done come with an error.
func replayAll(ctx context.Context, s sim.Scenario) ([]sim.Score, error) {
	scores := make([]sim.Score, len(s.Policies))
	errs := make([]error, len(s.Policies))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, name := range s.Policies {
		spec, err := sim.ParsePolicy(name)
		if err != nil {
			return nil, err
		}
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			scores[i], errs[i] = sim.Replay(ctx, s, spec)
		})
	}
	wg.Wait()
	done := scores[:0]
	for i := range scores {
		if errs[i] == nil {
			done = append(done, scores[i])
		}
	}
	err := errors.Join(errs...)
	if errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return done, err
}
