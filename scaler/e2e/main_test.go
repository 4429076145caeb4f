//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// contSignal lets a stopped process go on.
const contSignal = syscall.SIGCONT

// TestMain ends the shared control plane after the cases.
func TestMain(m *testing.M) {
	code := m.Run()
	if c := theCluster.cluster; c != nil {
		if err := c.stop(); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: stopping: %v\n", err)
			code = max(code, 1)
		}
	}
	if os.Getenv("FOREWARM_E2E_LOGS") == "" {
		if err := os.RemoveAll(runFolder()); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
