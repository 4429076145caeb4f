package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"forewarm/forecast"
)

// readPredictions checks every row of a predictions file and returns them.
func readPredictions(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	if got := strings.Join(rows[0][:5], ","); got != "origin,time,step,actual,model" {
		t.Fatalf("header %s", got)
	}
	for _, row := range rows[1:] {
		last := math.Inf(-1)
		for _, cell := range row[5:] {
			q, err := strconv.ParseFloat(cell, 64)
			if err != nil || math.IsNaN(q) || math.IsInf(q, 0) || q < last {
				t.Fatalf("quantiles are missing or cross: %v", row)
			}
			last = q
		}
	}
	return rows[1:]
}

func TestBacktestPredictions(t *testing.T) {
	series := writeSeries(t, 6*144, 10*time.Minute, false)
	out := filepath.Join(t.TempDir(), "out.csv")
	text, err := execute(newBacktestCmd(), "--series", series, "--horizon", "30m", "--test", "3d", "--predictions", out,
		"--quantiles", "0.05,0.5,0.95", "--models", "auto,last")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fitted on 3d (432 steps of 10m, 8 missing), 144 origins, horizon 30m", "(9 skipped: missing)",
		"auto steps", "last peak"} {
		if !strings.Contains(text, want) {
			t.Errorf("output does not say %q:\n%s", want, text)
		}
	}
	rows := readPredictions(t, out)
	if len(rows) != 144*2*4 {
		t.Fatalf("%d rows, want 144 origins × 2 models × (3 steps + peak)", len(rows))
	}
	if got := strings.Join(rows[0][:3], ","); got != "2024-01-03T23:50:00Z,2024-01-04T00:00:00Z,1" {
		t.Errorf("first row %s", got)
	}
	missing := 0
	for _, row := range rows {
		if row[2] != "peak" && row[3] == "" {
			missing++
		}
	}
	if missing != 9*2 {
		t.Errorf("%d rows without an actual value, want 18", missing)
	}
}

func TestBacktestJSONAndDeterminism(t *testing.T) {
	series := writeSeries(t, 5*144, 10*time.Minute, false)
	run := func() map[string]any {
		text, err := execute(newBacktestCmd(), "--series", series, "--test", "1d", "--format", "json")
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if s, ok := got["seconds"].(float64); !ok || s <= 0 {
			t.Errorf("seconds %v", got["seconds"])
		}
		costs, ok := got["costs"].([]any)
		if !ok || len(costs) != len(got["models"].([]any)) || !(costs[0].(map[string]any)["fit_seconds"].(float64) > 0) {
			t.Errorf("costs %v", got["costs"])
		}
		delete(got, "seconds")
		delete(got, "costs")
		return got
	}
	a, b := run(), run()
	first, _ := json.Marshal(a)
	second, _ := json.Marshal(b)
	if string(first) != string(second) || len(a["models"].([]any)) != len(forecast.Names()) {
		t.Errorf("two runs differ:\n%s\n%s", first, second)
	}
}

func TestBacktestOriginsFile(t *testing.T) {
	series := writeSeries(t, 5*144, 10*time.Minute, false)
	dir := t.TempDir()
	origins, out := filepath.Join(dir, "origins.txt"), filepath.Join(dir, "out.csv")
	write := func(text string) {
		if err := os.WriteFile(origins, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# two mornings\n2024-01-05 09:00:00\n\n2024-01-05T12:00:00Z\n")
	args := []string{"--series", series, "--test", "1d", "--models", "auto", "--predictions", out, "--origins", origins}
	if _, err := execute(newBacktestCmd(), args...); err != nil {
		t.Fatal(err)
	}
	if rows := readPredictions(t, out); len(rows) != 2*2 || rows[2][0] != "2024-01-05T12:00:00Z" {
		t.Errorf("rows %v", rows)
	}
	write("soon\nlater\n")
	if _, err := execute(newBacktestCmd(), args...); err == nil || !strings.Contains(err.Error(), "origins.txt: line 1") ||
		!strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v", err)
	}
	write("2024-01-02 09:00:00\n")
	if _, err := execute(newBacktestCmd(), args...); err == nil || !strings.Contains(err.Error(), "outside the test span") {
		t.Errorf("error %v", err)
	}
	if _, err := execute(newBacktestCmd(), append(args, "--stride", "1h")...); err == nil {
		t.Error("--stride and --origins together gave no error")
	}
}

func TestBacktestErrors(t *testing.T) {
	series := writeSeries(t, 288, 10*time.Minute, false)
	for _, c := range []struct{ args, want string }{
		{"--test 3d", "288 steps of 10m0s (48h0m0s)"},
		{"--test 1d --stride 7m", "--stride is 7m, must be a multiple of the step"},
		{"--test 1d --models auto,prophet,last,last", `unknown forecaster "prophet"`},
		{"--test 1d --models last,last", `"last" is named twice`},
		{"--test 1d --predictions " + filepath.Join(series, "x.csv"), "--predictions"},
		{"--test 1d --predictions /dev/full", "/dev/full"},
		{"--test 1d --format svg", "must be one of table, json"},
		{"--test 1d --origins nowhere.txt", "nowhere.txt"},
	} {
		if strings.Contains(c.args, "/dev/full") {
			if _, err := os.Stat("/dev/full"); err != nil {
				continue
			}
		}
		_, err := execute(newBacktestCmd(), append([]string{"--series", series}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v does not say %q", c.args, err, c.want)
		}
	}
}

// TestBacktestInterruptedKeepsItsRows cancels the command before its first row: the file is there, and says so.
func TestBacktestInterruptedKeepsItsRows(t *testing.T) {
	series, out := writeSeries(t, 5*144, 10*time.Minute, false), filepath.Join(t.TempDir(), "out.csv")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cmd := newBacktestCmd()
	cmd.SetContext(ctx)
	_, err := execute(cmd, "--series", series, "--test", "1d", "--predictions", out)
	if !errors.Is(err, errInterrupted) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run without a row left a file: %v", err)
	}
}

// TestPredictionsSpareOtherFiles: a run that cannot start leaves an older file as it is, and none writes over its
// input.
func TestPredictionsSpareOtherFiles(t *testing.T) {
	series := filepath.Join(t.TempDir(), "series.csv")
	if err := os.WriteFile(series, []byte("t_s,v\n0,1\n60,2\n120,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	older := filepath.Join(t.TempDir(), "older.csv")
	if err := os.WriteFile(older, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{older, series} {
		before, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := execute(newBacktestCmd(), "--series", series, "--test", "1d", "--predictions", out); err == nil {
			t.Errorf("predictions to %s: no error", out)
		}
		if after, err := os.ReadFile(out); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s was changed to %q, %v", out, after, err)
		}
	}
	if _, err := newPredictionSink(series, series, seriesInput{}, nil); err == nil || !strings.Contains(err.Error(), "which is the series") {
		t.Errorf("the series as predictions file: %v", err)
	}
}

// TestSinkHandsOverEveryOrigin: rows are in the file before the run ends.
func TestSinkHandsOverEveryOrigin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	in := seriesInput{loc: time.UTC}
	sink, err := newPredictionSink(path, "series.csv", in, []float64{0.5})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{1, 0} {
		if err := sink.add(forecast.Prediction{Step: step, Actual: math.NaN(), Model: "last", Quantiles: []float64{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if rows := readPredictions(t, path); len(rows) != 2 || rows[1][2] != "peak" {
		t.Errorf("rows before the end: %v", rows)
	}
	if err := sink.close(); err != nil {
		t.Fatal(err)
	}
}

// demandColumns lists the numeric columns of a series file, its rule for rows that were not collected, and its span.
func demandColumns(t *testing.T, path string) (columns []string, missingWhere string, s forecast.Series) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(string(data), "\n")
	columns = strings.Split(strings.TrimSpace(header), ",")[1:]
	if slices.Contains(columns, "gap") {
		missingWhere = "gap=1"
	}
	s, err = forecast.ReadCSV(strings.NewReader(string(data)), forecast.CSVOptions{Column: columns[0]})
	if err != nil {
		t.Fatal(err)
	}
	return columns, missingWhere, s
}

// TestBacktestOnRealDemand runs the documented command on every demand file. Every column of every file, with all
// models and windows that do not overlap, when FOREWARM_ALL_COLUMNS is set; else a few columns and origins.
func TestBacktestOnRealDemand(t *testing.T) {
	files, err := filepath.Glob("../../../shared/data/demand/*.csv")
	if err != nil || len(files) == 0 {
		t.Skip("no demand data beside the repository (../shared/data/demand): the real-data backtest is not run")
	}
	all := os.Getenv("FOREWARM_ALL_COLUMNS") != ""
	for _, path := range files {
		columns, missingWhere, s := demandColumns(t, path)
		for i, column := range columns {
			if !all && i%24 != 0 {
				continue
			}
			t.Run(filepath.Base(path)+"/"+column, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "out.csv")
				args := []string{"--series", path, "--column", column, "--horizon", max(10*time.Minute, s.Step).String(), "--test", "3d",
					"--predictions", out}
				if missingWhere != "" && column != "gap" {
					args = append(args, "--missing-where", missingWhere)
				}
				if !all {
					args = append(args, "--models", "auto", "--stride", "2h")
				}
				_, err := execute(newBacktestCmd(), args...)
				if s.End().Sub(s.Start) < 3*24*time.Hour {
					if !errors.Is(err, forecast.ErrShortHistory) || !strings.Contains(err.Error(), "needs") {
						t.Errorf("a file of %v gave %v", s.End().Sub(s.Start), err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if rows := readPredictions(t, out); len(rows) < 36 {
					t.Errorf("%d rows", len(rows))
				}
			})
		}
	}
}
