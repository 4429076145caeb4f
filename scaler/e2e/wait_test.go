//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pollInterval is how often a condition is looked at.
const pollInterval = 100 * time.Millisecond

// probe looks at a condition once: met or not, and what was seen, for the report when the deadline passes.
type probe func() (met bool, seen string)

// poll looks at a condition until it is met; the error tells what was wanted and what was seen last.
func poll(limit time.Duration, wanted string, condition probe) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		met, seen := condition()
		if met {
			return nil
		}
		select {
		case <-deadline.C:
			return fmt.Errorf("waited %s for %s; last seen: %s", limit, wanted, seen)
		case <-ticker.C:
		}
	}
}

// evidence is what a failed wait prints: objects by their paths and ends of logs, and whatever else a case has to show.
type evidence struct {
	paths     []string
	processes []*process
	notes     []func() string
}

// waiter waits on behalf of one case and knows what to print when a wait fails.
type waiter struct {
	t        *testing.T
	client   *client
	evidence evidence
}

// about adds objects to what a failed wait prints.
func (w *waiter) about(paths ...string) { w.evidence.paths = append(w.evidence.paths, paths...) }

// watch adds the log of a process to what a failed wait prints.
func (w *waiter) watch(p *process) { w.evidence.processes = append(w.evidence.processes, p) }

// note adds a text to what a failed wait prints.
func (w *waiter) note(f func() string) { w.evidence.notes = append(w.evidence.notes, f) }

// until waits for a condition and returns how long that took. A deadline that passes ends the test with the evidence.
func (w *waiter) until(limit time.Duration, wanted string, condition probe) time.Duration {
	w.t.Helper()
	from := time.Now()
	if err := poll(limit, wanted, condition); err != nil {
		w.fatalf("%v", err)
	}
	took := time.Since(from)
	w.t.Logf("%6.1f s: %s", took.Seconds(), wanted)
	return took
}

// fatalf ends the test with a message and the evidence.
func (w *waiter) fatalf(format string, args ...any) {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, format, args...)
	for _, path := range w.evidence.paths {
		o, err := w.client.get(path)
		if err != nil {
			fmt.Fprintf(&b, "\n--- %v", err)
			continue
		}
		fmt.Fprintf(&b, "\n--- %s\n%v", path, o)
	}
	for _, f := range w.evidence.notes {
		fmt.Fprintf(&b, "\n--- %s", f())
	}
	for _, p := range w.evidence.processes {
		fmt.Fprintf(&b, "\n--- log of %s (running: %v)\n%s", p.name, p.running(), p.logTail())
	}
	w.t.Fatal(b.String())
}

// must ends the test when an action failed.
func (w *waiter) must(err error) {
	w.t.Helper()
	if err != nil {
		w.fatalf("%v", err)
	}
}

// field is a probe for one number of an object.
func (w *waiter) field(want int, path string, fields ...any) probe {
	return func() (bool, string) {
		o, err := w.client.get(path)
		if err != nil {
			return false, err.Error()
		}
		got := o.number(fields...)
		return got == want, fmt.Sprintf("%v is %d", fields, got)
	}
}
