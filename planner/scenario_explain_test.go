package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"forewarm/coldstart"
)

// explain explains the newest shortage of the decisions so far.
func (w *scenario) explain(t *testing.T, d *datadriven.TestData) string {
	var removals []Removal
	for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		var path, phase, from, to string
		if line == "" {
			continue
		}
		if _, err := fmt.Sscan(line, &path, &phase, &from, &to); err != nil {
			d.Fatalf(t, "%q: PATH PHASE FROM TO is wanted: %v", line, err)
		}
		removals = append(removals, Removal{Path: coldstart.Path(path), Phase: coldstart.Phase(phase),
			From: parseDuration(t, d, from), To: parseDuration(t, d, to)})
	}
	e, err := Explain(d.CmdArgs[0].Key, w.records, removals)
	if err != nil {
		return err.Error() + "\n"
	}
	if d.HasArg("anew") {
		w.records = nil
	}
	var b strings.Builder
	if e.Short > 0 {
		fmt.Fprintf(&b, "short of %d from %s to %s: %s (%s)\n", e.Short, e.From.Format(time.TimeOnly), e.To.Format(time.TimeOnly), e.Cause, e.Owner)
	}
	b.WriteString(e.Why + "\n")
	for _, c := range e.Changes {
		left := fmt.Sprintf("%d still short", c.Short)
		if c.Prevents {
			left = "prevents it"
		}
		fmt.Fprintf(&b, "  %s: %s (%s): %s\n", c.Kind, c.What, c.Owner, left)
	}
	if e.Remedy != nil {
		fmt.Fprintf(&b, "remedy: %s\n", e.Remedy.Kind)
	}
	return b.String()
}
