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
	"sort"
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
	columnsFlag = flag.Int("columns", 8, "columns of a wide table that every method runs on; later ones are left out")
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
	sort.SliceStable(cases, func(i, j int) bool { return cases[i].Main && !cases[j].Main })
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

// cost is the processor time of ours on one series.
type cost struct {
	fit, roll          time.Duration
	updates, forecasts int
}

// runOurs fits auto on the first half of a case and rolls it through the other.
func runOurs(t *testing.T, c Case, origins []int, horizon int) (Predictions, cost) {
	t.Helper()
	f, err := forecast.New("auto", forecast.Options{Horizon: horizon, Seed: *seedFlag})
	if err != nil {
		t.Fatal(err)
	}
	begin := cpu(t)
	if err := f.Fit(c.FitPart()); err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	fitted := cpu(t)
	p := Roll(c, f, origins, horizon, *pathsFlag, *seedFlag)
	done := cost{fit: fitted - begin, roll: cpu(t) - fitted, forecasts: len(origins)}
	done.updates = origins[len(origins)-1] - c.Split + 1
	return p, done
}

// TestCalibration prints how well the quantiles of the peak hold, beside two baselines.
func TestCalibration(t *testing.T) {
	var rows []CalibrationRow
	for _, c := range loadCases(t) {
		if c.Coarse || !c.Main {
			continue
		}
		ours, spent := runOurs(t, c, c.Dense, c.Short)
		rows = append(rows, NewCalibrationRow(c, ours, rand.New(rand.NewPCG(*seedFlag, 1))))
		t.Logf("%s: fit %v, %d updates and %d forecasts in %v", c.Name, spent.fit.Round(time.Millisecond), spent.updates,
			spent.forecasts, spent.roll.Round(time.Millisecond))
	}
	var out bytes.Buffer
	WriteCalibration(&out, rows)
	fmt.Println(out.String())
}
