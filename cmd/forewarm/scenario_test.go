package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestScenarios runs testdata/scenarios/*, each in a directory of its own.
//
//	file NAME                    writes the input to a file; \xNN is a byte, \n and \t are what they are in Go
//	rows NAME step=S n=N [value=V,V…] [daily]   writes a table t_s,v of N rows, S seconds apart, whose values repeat V,V…
//	                             (0 at first; with daily a day's shape times V); an empty V is an empty cell
//	copy PATH                    copies a file of the repository, named from its root, under its last name
//	forewarm ARGS                runs a command line and prints what it wrote and its exit code. Times that it took are
//	                             replaced by T, and their lines lose their columns
//
// `go test ./cmd/forewarm -run TestScenarios -rewrite` writes the golden text anew; commit only differences you can
// explain.
func TestScenarios(t *testing.T) {
	files, err := filepath.Abs("testdata/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	datadriven.Walk(t, files, func(t *testing.T, path string) {
		t.Chdir(t.TempDir())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "file":
				return scenarioFile(t, d)
			case "copy":
				return scenarioCopy(t, d, files)
			case "rows":
				return scenarioRows(t, d)
			case "forewarm":
				return scenarioRun(t, d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func scenarioCopy(t *testing.T, d *datadriven.TestData, files string) string {
	path := d.CmdArgs[0].Key
	data, err := os.ReadFile(filepath.Join(files, "../../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Base(path), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

func scenarioFile(t *testing.T, d *datadriven.TestData) string {
	text := d.Input + "\n"
	if strings.Contains(text, `\`) {
		unquoted, err := strconv.Unquote(`"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(text) + `"`)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		text = unquoted
	}
	if d.Input == "" {
		text = ""
	}
	if err := os.WriteFile(d.CmdArgs[0].Key, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

func scenarioRows(t *testing.T, d *datadriven.TestData) string {
	var step, n int
	d.ScanArgs(t, "step", &step)
	d.ScanArgs(t, "n", &n)
	values := []string{"0"}
	if d.HasArg("value") {
		var list string
		d.ScanArgs(t, "value", &list)
		values = strings.Split(list, ",")
	}
	var b strings.Builder
	b.WriteString("t_s,v\n")
	for i := range n {
		v := values[i%len(values)]
		if number, err := strconv.ParseFloat(v, 64); err == nil && d.HasArg("daily") {
			hour := i * step / 3600 % 24
			v = fmt.Sprint(number * float64(1+min(hour, 24-hour)))
		}
		fmt.Fprintf(&b, "%d,%s\n", i*step, v)
	}
	if err := os.WriteFile(d.CmdArgs[0].Key, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return ""
}

var tookTime = regexp.MustCompile(` *\b[0-9.]+(ns|µs|ms|s)\b|[0-9.]+ s$`)

// scenarioRun takes the line apart by itself: datadriven gives commas and = a meaning.
func scenarioRun(t *testing.T, d *datadriven.TestData) string {
	data, err := os.ReadFile(strings.Split(d.Pos, ":")[0])
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(strings.Split(d.Pos, ":")[1])
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(data), "\n")[number-1]
	var out, messages bytes.Buffer
	code := run(context.Background(), strings.Fields(line)[1:], &out, &messages)
	text := out.String()
	if strings.Contains(line, "backtest") {
		lines := strings.Split(text, "\n")
		for i := range lines {
			replaced := tookTime.ReplaceAllString(lines[i], " T")
			if replaced != lines[i] || strings.Contains(lines[i], "fit") {
				replaced = strings.Join(strings.Fields(replaced), " ") // columns are as wide as the times are long
			}
			lines[i] = replaced
		}
		text = strings.Join(lines, "\n")
	}
	text += messages.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return fmt.Sprintf("%sexit code %d", strings.ReplaceAll(text, "\n\n", "\n"), code)
}
