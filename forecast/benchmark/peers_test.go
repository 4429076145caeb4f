//go:build peers

package benchmark

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"forewarm/forecast"
)

// dataFolder holds the series, seen from this package; they are not part of the repository.
const dataFolder = "../../../shared/data/demand"

var (
	seriesFlag  = flag.String("series", "", "run only series whose name matches this `regexp`")
	originsFlag = flag.Int("origins", 40, "origins per series in the comparison with peers")
	columnsFlag = flag.Int("columns", 6, "columns of a wide table that every method runs on; later ones are left out")
	pathsFlag   = flag.Int("paths", forecast.DefaultPaths, "sample paths of ours per forecast")
	seedFlag    = flag.Uint64("seed", 1, "seed of ours and of the bootstrap")
)

// loadCases reads all cases, or skips the test when there is no data here.
func loadCases(t *testing.T) []Case {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataFolder, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no series in %s: nothing to compare on", dataFolder)
	}
	want, err := regexp.Compile(*seriesFlag)
	if err != nil {
		t.Fatalf("-series: %v", err)
	}
	var cases []Case
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		table, err := ReadTable(strings.TrimSuffix(filepath.Base(file), ".csv"), data, *columnsFlag, *originsFlag)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range table {
			if want.MatchString(c.Name) {
				cases = append(cases, c)
			}
		}
	}
	if len(cases) == 0 {
		t.Fatalf("-series %q matches no series", *seriesFlag)
	}
	order := func(c Case) int { return 2*one(!c.Main) + one(c.Coarse) }
	slices.SortStableFunc(cases, func(a, b Case) int { return order(a) - order(b) })
	return cases
}

// cpu returns the processor time that this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runOurs fits auto on the first half of a case and rolls it through the other.
func runOurs(t *testing.T, c Case, origins []int, horizon int) (Predictions, Cost) {
	t.Helper()
	f, err := forecast.New("auto", forecast.Options{Horizon: horizon, Seed: *seedFlag})
	if err != nil {
		t.Fatal(err)
	}
	p, cost, err := Run(c, f, origins, horizon, *pathsFlag, *seedFlag, func() time.Duration { return cpu(t) })
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return p, cost
}

// TestCalibration prints how well the quantiles of the peak hold, beside two baselines, and what ours costs.
func TestCalibration(t *testing.T) {
	var rows []CalibrationRow
	for _, c := range loadCases(t) {
		if c.Coarse || !c.Main {
			continue
		}
		ours, cost := runOurs(t, c, c.Dense, c.Short)
		row := NewCalibrationRow(c, ours, rand.New(rand.NewPCG(*seedFlag, 1)))
		row.Cost = cost
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("-series %q leaves no series as it was recorded", *seriesFlag)
	}
	var out bytes.Buffer
	WriteCalibration(&out, rows)
	fmt.Println(out.String())
}

var summaryFlag = flag.String("summary", "", "also write the scores of every method as CSV to this `file`")

// TestPeers prints ours beside the peers, series by series.
func TestPeers(t *testing.T) {
	p := newPeers(t)
	var report Report
	skipped := 0
	for _, c := range loadCases(t) {
		entry, any := Entry{Case: c, Results: map[string]map[string]Result{}}, false
		for _, s := range suites {
			entry.Results[s.name] = p.results(t, s, c)
			any = any || len(entry.Results[s.name]) > 0
		}
		if !any {
			skipped++
			continue
		}
		entry.Short, _ = runOurs(t, c, c.CompareShort, c.Short)
		entry.Long, _ = runOurs(t, c, c.CompareLong, c.Long)
		report.Entries = append(report.Entries, entry)
	}
	if skipped > 0 {
		t.Logf("%d series are left out: no peer has been run on them within the budget of %v", skipped, *budgetFlag)
	}
	var out bytes.Buffer
	report.Write(&out, *seedFlag)
	fmt.Println(out.String())
	if *summaryFlag != "" {
		var summary bytes.Buffer
		report.WriteSummary(&summary)
		if err := os.WriteFile(*summaryFlag, summary.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
