// Command forewarm is the offline side of forewarm: it forecasts, backtests, fits replica physics, replays recorded
// decisions, takes replica starts apart and asks a running forewarmd what it plans and why. It links no Kubernetes client.
//
// Exit codes: 0 done, 1 a check found something or the work was interrupted, 2 bad usage or bad input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones on machines and in containers that have none

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends even what hangs
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCmd()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 1
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(stderr, "forewarm: %v\n", err)
		return 1
	default:
		fmt.Fprintf(stderr, "forewarm: %v\n", err)
		return 2
	}
}

// errFound is returned by a command that printed something that needs attention.
var errFound = errors.New("a check found something")

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "forewarm",
		Short: "Plan GPU capacity for LLM serving ahead of the burst",
		Long: `forewarm plans GPU capacity for LLM serving ahead of the burst.

Offline: forecast and backtest a demand series, fit the physics of replicas, replay a recorded State, take replica
starts apart.
Online: ask a running forewarmd what it plans for a model, and why.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newForecastCmd(), newBacktestCmd(), newDecideCmd(), newExplainCmd(), newAskCmd(), newColdstartCmd(),
		newProfileCmd(), newSimulateCmd())
	return root
}
