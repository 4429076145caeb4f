// Command forewarmd is the daemon: it watches the demand of each model, plans replicas ahead of the burst and answers
// KEDA's external scaler calls from the latest plan.
//
// Exit codes: 0 stopped by a signal or nothing found by --check, 1 --check found something, 2 bad usage or bad input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // time zones on machines and in containers that have none

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// gcPercent makes the process collect its garbage early: nearly all of its memory is forecasters that live as long as it
// does, and a tick leaves little behind. Measured on 1,000 models (BenchmarkFleet in planner): 720 MiB resident instead of
// 1,160, for about one collection more every half minute.
const gcPercent = 25

func main() {
	if os.Getenv("GOGC") == "" { // who sets it knows better
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends even what hangs
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errFound is returned by --check when it printed findings that need attention.
var errFound = errors.New("check found something")

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 1
	default:
		fmt.Fprintf(stderr, "forewarmd: %v\n", err)
		return 2
	}
}

type flags struct {
	config, dataDir, listen, httpListen, logLevel string
	demo, check                                   bool
	speed                                         float64
	seed                                          uint64
}

func newCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "forewarmd (--config FILE [--check] | --demo)",
		Short: "Keep GPU capacity for LLM serving warm before the burst arrives",
		Long: `forewarmd forecasts the tokens per second each model will be asked for, at the measured time that a replica
takes to start, and answers KEDA's external scaler calls with the replicas that must run by then.

--config runs it on a real Prometheus; --config with --check only reports what is wrong with the configuration and
which metrics it would read. --demo runs the same daemon over its own simulated cluster, sixty times as fast.`,
		Example: `  forewarmd --demo
  forewarmd --config /etc/forewarm/forewarmd.yaml --check
  forewarmd --config /etc/forewarm/forewarmd.yaml`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file")
	fs.BoolVar(&f.demo, "demo", false, "run over a simulated cluster")
	fs.BoolVar(&f.check, "check", false, "report findings about the configuration and the metrics, then exit")
	fs.StringVar(&f.dataDir, "data-dir", "", "journal directory; over data_dir of the configuration")
	fs.StringVar(&f.listen, "listen", "", "KEDA endpoint; over keda.listen, 127.0.0.1:6000 by default")
	fs.StringVar(&f.httpListen, "http-listen", "", "metrics and plan; over http.listen, 127.0.0.1:8080 by default")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.Float64Var(&f.speed, "speed", 60, "demo: how many times faster than the wall clock")
	fs.Uint64Var(&f.seed, "seed", 1, "demo: seed of the simulated world")
	cmd.MarkFlagsMutuallyExclusive("config", "demo")
	cmd.MarkFlagsMutuallyExclusive("check", "demo")
	cmd.MarkFlagsOneRequired("config", "demo")
	return cmd
}

func (f *flags) run(cmd *cobra.Command) error {
	log, err := f.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	klog.SetSlogLogger(log) // client-go's own messages go where all others go
	if f.demo {
		return runDemo(cmd.Context(), f, cmd.OutOrStdout(), log)
	}
	for _, name := range []string{"speed", "seed"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s belongs to --demo", name)
		}
	}
	read := func() (*config, error) {
		cfg, err := readConfig(f.config)
		if err == nil {
			f.override(cfg)
		}
		return cfg, err
	}
	cfg, err := read()
	if err != nil {
		return err
	}
	if f.check {
		return runCheck(cmd.Context(), cfg, cmd.OutOrStdout(), log)
	}
	return runLive(cmd.Context(), cfg, read, cmd.OutOrStdout(), log)
}

// override lays the flags over the configuration.
func (f *flags) override(cfg *config) {
	for _, o := range []struct {
		to   *string
		from string
	}{{&cfg.DataDir, f.dataDir}, {&cfg.KEDA.Listen, f.listen}, {&cfg.HTTP.Listen, f.httpListen}} {
		if o.from != "" {
			*o.to = o.from
		}
	}
}

func (f *flags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level is %q: debug, info, warn or error are allowed", f.logLevel)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}
