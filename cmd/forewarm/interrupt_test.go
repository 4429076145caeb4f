package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
)

// TestMain lets the test binary stand in for forewarm, so that tests can start the real program and send it signals.
func TestMain(m *testing.M) {
	if os.Getenv("FOREWARM_TEST_AS_PROGRAM") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestCtrlCKeepsWhatIsDone interrupts a backtest of many origins once it has written some: it ends with exit code 1, the
// table of the origins done, whole rows in the predictions file, and nothing else.
func TestCtrlCKeepsWhatIsDone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals on windows")
	}
	series, out := writeSeries(t, 40_000, time.Minute, false), filepath.Join(t.TempDir(), "out.csv")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "backtest", "--series", series, "--test", "20d", "--stride", "1m", "--horizon", "30m", "--predictions", out)
	cmd.Env = append(os.Environ(), "FOREWARM_TEST_AS_PROGRAM=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for written := int64(0); written < 20_000; {
		select {
		case err := <-ended:
			t.Fatalf("ended before it was interrupted: %v\n%s%s", err, stdout.String(), stderr.String())
		case <-time.After(5 * time.Millisecond):
		}
		if info, err := os.Stat(out); err == nil {
			written = info.Size()
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v, want exit code 1\n%s", err, stderr.String())
	}
	for _, want := range []string{"interrupted: these are the ", "auto peak", "snaive", "auto at the end: "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, stdout.String())
		}
	}
	if got := stderr.String(); !strings.Contains(got, "interrupted; the scores are of the origins done, their predictions are in "+out) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("stderr %q", got)
	}
	perOrigin := len(forecast.Names()) * (30 + 1) // steps and the peak
	if rows := readPredictions(t, out); len(rows) == 0 || len(rows)%perOrigin != 0 {
		t.Errorf("%d rows, want whole origins of %d", len(rows), perOrigin)
	}
}
