package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// execute runs one verb and returns what it printed.
func execute(cmd *cobra.Command, args ...string) (string, error) {
	var out, messages bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&messages)
	cmd.SilenceErrors = true
	err := cmd.Execute()
	return out.String(), err
}

// writeSeries writes n steps of a daily shape to a file.
func writeSeries(t *testing.T, n int, step time.Duration, seconds bool) string {
	t.Helper()
	var b strings.Builder
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	b.WriteString(map[bool]string{false: "time,value\n", true: "t_s,value\n"}[seconds])
	for i := range n {
		at := start.Add(time.Duration(i) * step)
		v := 100 + 50*math.Sin(at.Sub(start).Hours()/24*2*math.Pi) + 5*math.Sin(float64(i*i))
		text := at.Format(time.DateTime)
		if seconds {
			text = fmt.Sprint(int(at.Sub(start).Seconds()))
		}
		if i%50 == 49 {
			fmt.Fprintf(&b, "%s,\n", text)
		} else {
			fmt.Fprintf(&b, "%s,%.3f\n", text, v)
		}
	}
	path := filepath.Join(t.TempDir(), "series.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestForecastTable(t *testing.T) {
	path := writeSeries(t, 4*144, 10*time.Minute, false)
	out, err := execute(newForecastCmd(), "--series", path, "--horizon", "30m", "--quantiles", "0.5,0.9")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"576 steps of 10m up to 2024-01-04T23:50:00Z, 11 missing", "may shrink a plan: ", "quantiles have held: p50 ", "q0.9",
		"2024-01-05T00:20:00Z", "peak"} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not say %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\n"); n != 4+1+3+1 { // heading, header, steps, peak
		t.Errorf("%d lines:\n%s", n, out)
	}
}

func TestForecastCSVAndJSONAgree(t *testing.T) {
	path := writeSeries(t, 4*144, 10*time.Minute, true)
	args := []string{"--series", path, "--horizon", "1h", "--quantiles", "0.1,0.5,0.99", "--seed", "7", "--format"}
	text, err := execute(newForecastCmd(), append(args, "csv")...)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1+6+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if got := strings.Join(rows[0], ","); got != "time,step,q0.1,q0.5,q0.99" {
		t.Errorf("header %s", got)
	}
	if rows[1][0] != "345600" || rows[7][1] != "peak" { // a file in seconds is answered in seconds
		t.Errorf("first time %s, last step %s", rows[1][0], rows[7][1])
	}
	encoded, err := execute(newForecastCmd(), append(args, "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var got forecastJSON
	if err := json.Unmarshal([]byte(encoded), &got); err != nil {
		t.Fatal(err)
	}
	if got.Auto == nil || got.Auto.Reason == "" || got.Origin != "345000" || got.Missing != 11 {
		t.Errorf("json %+v", got)
	}
	for k, step := range got.Steps {
		for j, v := range step.Values {
			if fromCSV, err := strconv.ParseFloat(rows[k+1][2+j], 64); err != nil || fromCSV != v {
				t.Errorf("step %d: %v in json, %s in csv", step.Step, v, rows[k+1][2+j])
			}
			if j > 0 && v < step.Values[j-1] {
				t.Errorf("step %d: quantiles cross: %v", step.Step, step.Values)
			}
			if got.Peak[j] < v {
				t.Errorf("quantile %d of the peak, %v, is below that of step %d, %v", j, got.Peak[j], step.Step, v)
			}
		}
	}
}

// TestForecastSVG checks the chart by its properties: well-formed, the same bytes twice, a band for each pair of
// quantiles, and another picture for another forecast.
func TestForecastSVG(t *testing.T) {
	path := writeSeries(t, 4*144, 10*time.Minute, false)
	draw := func(args ...string) string {
		out, err := execute(newForecastCmd(), append([]string{"--series", path, "--horizon", "6h", "--format", "svg"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := draw()
	if first != draw() {
		t.Error("two runs drew different bytes")
	}
	if first == draw("--seed", "2") {
		t.Error("another seed drew the same chart")
	}
	for d := xml.NewDecoder(strings.NewReader(first)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
	for _, want := range []string{"q0.05 to q0.99", "q0.25 to q0.9", "median", "q0.99 of the peak", "auto forecast over 6h"} {
		if !strings.Contains(first, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	// Each band is filled once in the chart and once in the legend.
	const fill = "fill-opacity"
	if one, all := strings.Count(draw("--quantiles", "0.1,0.9"), fill), strings.Count(first, fill); one != 2 || all != 8 {
		t.Errorf("%d fills with four bands, %d with one", all, one)
	}
}

// TestAutoSaysNothingNewOfAConstant: of a constant, of zeros, of one known value and of two, the mixture forecasts that
// value at every quantile, up to the rounding of its scale.
func TestAutoSaysNothingNewOfAConstant(t *testing.T) {
	for text, want := range map[string]float64{
		strings.Repeat("42\n", 600): 42, strings.Repeat("0\n", 600): 0, "\n7\n\n\n": 7, "3\n3\n": 3,
	} {
		var b strings.Builder
		b.WriteString("t_s,v\n")
		for i, v := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			fmt.Fprintf(&b, "%d,%s\n", 600*i, v)
		}
		path := filepath.Join(t.TempDir(), "series.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := execute(newForecastCmd(), "--series", path, "--horizon", "30m", "--format", "json")
		if err != nil {
			t.Fatal(err)
		}
		var got forecastJSON
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		for _, step := range got.Steps {
			for j, v := range step.Values {
				if math.Abs(v-want) > 1e-5*(1+want) {
					t.Errorf("%d steps of %v: q%v of step %d is %v", got.Known, want, got.Quantiles[j], step.Step, v)
				}
			}
		}
	}
}

func TestForecastErrorsNameWhatIsAllowed(t *testing.T) {
	good := writeSeries(t, 3*144, 10*time.Minute, false)
	empty := filepath.Join(t.TempDir(), "empty.csv")
	if err := os.WriteFile(empty, []byte("time,value\n2024-01-01 00:00:00,\n2024-01-01 00:01:00,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"", "--series is missing"},
		{"--series nowhere.csv", "nowhere.csv"},
		{"--series " + good + " --format png", `--format is "png", must be one of table, json, csv, svg`},
		{"--series " + good + " --column load", good + `: line 1: no column "load", must be one of value`},
		{"--series " + good + " --horizon 1m", "--horizon is 1m, must be at least the step"},
		{"--series " + good + " --horizon 90000w", "not a duration"},
		{"--series " + good + " --horizon 900w", "must be at most"},
		{"--series " + good + " --horizon soon", "must be positive and written like"},
		{"--series " + good + " --timezone Mars", `--timezone "Mars"`},
		{"--series " + good + " --model prophet", `unknown forecaster "prophet", must be one of auto`},
		{"--series " + good + " --quantiles 0.9,0.5", "strictly ascending"},
		{"--series " + good + " --quantiles 0.5,high", `"high" is not a number`},
		{"--series " + good + " --paths 0", "--paths is 0, must be from 1"},
		{"--series " + empty, empty + ": forecast: history too short"},
		{"--series " + good + " extra", `unexpected argument "extra"; a series is named with --series extra`},
	} {
		_, err := execute(newForecastCmd(), strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v does not say %q", c.args, err, c.want)
		}
	}
}

func TestDefaultHorizonIsAtLeastOneStep(t *testing.T) {
	path := writeSeries(t, 200, time.Hour, false)
	out, err := execute(newForecastCmd(), "--series", path, "--format", "csv")
	if err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("%v, want a header, one step and a peak:\n%s", err, out)
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10m": 10 * time.Minute, "3d": 72 * time.Hour, "2w": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour,
		"1w1d": 8 * 24 * time.Hour, "1.5d": 36 * time.Hour, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
	} {
		got, err := parseSpan(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
		if back, err := parseSpan(formatSpan(got)); err != nil || back != got {
			t.Errorf("%q is written %q, which reads as %v, %v", text, formatSpan(got), back, err)
		}
	}
	for _, text := range []string{"", "0", "0d", "-1d", "-5m", "d", "3", "1d-1h", "1e3d", "NaNd", "infd", "1d1w", "5 m", "999999w"} {
		if got, err := parseSpan(text); err == nil || !strings.Contains(err.Error(), "must be positive and written like") {
			t.Errorf("%q gave %v, %v", text, got, err)
		}
	}
}
