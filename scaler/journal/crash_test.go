package journal

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
	"forewarm/planner"
)

// childDir makes the test binary, run again, append to the journal in that directory until it is killed.
const childDir = "FOREWARM_JOURNAL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := appendForever(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// numbered is a Decision from which its number, and with it its whole content, can be told.
func numbered(n int) planner.Decision {
	at := monday.Add(time.Duration(n) * tick)
	d := planner.Decision{At: at, Memory: planner.Memory{At: at, Unbroken: monday}}
	for i := range 5 {
		name, replicas := fmt.Sprintf("m%d", i), n+i
		d.Models = append(d.Models, planner.ModelDecision{Name: name, Replicas: &replicas, Answer: &replicas,
			Steps: []planner.Step{{Stage: planner.StageWarm, Replicas: &replicas, Why: strings.Repeat(fmt.Sprintf("%d ", n), 200)}}})
		d.Memory.Models = append(d.Memory.Models, planner.ModelMemory{Name: name, Replicas: replicas})
	}
	return d
}

// numberedStart is a start with all that a row of the ledger holds, from which its number can be told.
func numberedStart(n int) coldstart.Sample {
	pull := time.Duration(n) * time.Millisecond
	return coldstart.Sample{ID: strconv.Itoa(n), Started: monday, Total: time.Minute + pull, Outcome: coldstart.Served,
		Key: coldstart.Key{Model: "m0", Shape: "4x1/H100", Path: coldstart.WarmNode, Engine: "vllm 0.11.0", Image: coldstart.NotCached, Compile: coldstart.Cached},
		Phases: map[coldstart.Phase]time.Duration{coldstart.ImagePull: pull, coldstart.Compile: 20 * time.Second,
			coldstart.Unattributed: 40 * time.Second},
		Sources: map[coldstart.Phase]coldstart.Source{coldstart.ImagePull: coldstart.FromEvents, coldstart.Compile: coldstart.FromLogs,
			coldstart.Unattributed: coldstart.FromNothing}}
}

// appendForever is the child: it prints the number of each Decision once Append has returned.
func appendForever(dir string) error {
	j, report, err := Open(dir, Options{}, monday, nil)
	if err != nil {
		return err
	}
	if report.Aside != "" {
		return fmt.Errorf("the journal was set aside: %s", report.Why)
	}
	ctx := context.Background()
	n := 0
	if d, ok, err := j.Last(ctx); err != nil {
		return err
	} else if ok {
		n = *d.Models[0].Replicas
	}
	for {
		n++
		d := numbered(n)
		if err := j.AddStarts(ctx, []coldstart.Sample{numberedStart(n)}); err != nil {
			return err
		}
		if err := j.Append(ctx, planner.State{Now: d.At, Interval: tick}, planner.Policy{}, d); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// A process that is killed with SIGKILL while it appends has lost nothing that it reported as recorded: Decisions with
// their Steps, the Memory, States and starts are there, the file is sound, and the next process goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 5 {
		reported := runAndKill(t, dir, 5+20*round)
		j, report := mustOpen(t, dir, Options{})
		if report.Aside != "" || report.Created {
			t.Fatalf("round %d: report is %+v, must be of a sound journal", round, report)
		}
		checkNumbered(t, j, reported)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runAndKill runs the child until it has reported that many more Decisions, kills it and returns the last number it
// reported.
func runAndKill(t *testing.T, dir string, reports int) int {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	last, lines := 0, bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if n == reports { // go on reading: what it says until it is dead counts too
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || stderr.Len() > 0 {
		t.Fatalf("the child ended by itself: %v %s", err, stderr.String())
	}
	return last
}

func checkNumbered(t *testing.T, j *Journal, reported int) {
	t.Helper()
	ctx := context.Background()
	integrity(t, j.Reader)
	last := mustLast(t, j.Reader)
	newest := *last.Models[0].Replicas
	if newest < reported || newest > reported+1 {
		t.Fatalf("the last decision is number %d, the child reported %d", newest, reported)
	}
	if want := numbered(newest); asJSON(t, last) != asJSON(t, want) {
		t.Fatalf("the last decision is %s, was %s", asJSON(t, last), asJSON(t, want))
	}
	n := 0
	for v, err := range j.Decisions(ctx, "m3", time.Time{}, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if want := numbered(n); asJSON(t, v.Model) != asJSON(t, want.Models[3]) {
			t.Fatalf("decision %d is %s, was %s", n, asJSON(t, v.Model), asJSON(t, want.Models[3]))
		}
	}
	if n != newest {
		t.Fatalf("%d decisions, the last is number %d", n, newest)
	}
	starts, err := j.Starts(ctx)
	if err != nil || len(starts) < reported {
		t.Fatalf("%d starts, error %v; the child reported %d", len(starts), err, reported)
	}
	byID := map[string]coldstart.Sample{}
	for _, s := range starts {
		byID[s.ID] = s
	}
	for n := 1; n <= reported; n++ { // every start that was reported is there, whole
		if got, want := asJSON(t, byID[strconv.Itoa(n)]), asJSON(t, numberedStart(n)); got != want {
			t.Fatalf("start %d is %s, was %s", n, got, want)
		}
	}
	at := numbered(reported).At // every target changes every time, so every State was due
	if _, _, d, err := j.StateAt(ctx, at); err != nil || asJSON(t, d) != asJSON(t, numbered(reported)) {
		t.Fatalf("state of %s: error %v, decision %s", at, err, asJSON(t, d))
	}
}
