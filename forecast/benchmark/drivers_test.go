//go:build peers

package benchmark

import (
	"bytes"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:embed drivers
var driverFiles embed.FS

var (
	methodsFlag = flag.String("methods", "", "run only methods whose name matches this `regexp`")
	budgetFlag  = flag.Duration("budget", time.Hour, "processor time that peers may use in this run; 0 uses only results that are cached")
	limitFlag   = flag.Duration("limit", time.Minute, "processor time of one fit of a peer")
)

// processLimit is the processor time after which a driver's process, which runs several methods, is stopped by the
// kernel. It is the last resort against code that -limit cannot interrupt.
const processLimit = 30 * time.Minute

// suite is how the methods of one suite are run.
type suite struct {
	name    string
	folder  string // of drivers
	main    string
	command []string
	instead []string // another command to try where the first one's libraries are not installed
	probe   []string // arguments of the command that succeed when the libraries are installed
	install string
}

var suites = []suite{
	{
		name: SuiteR, folder: "drivers/r", main: "main.R", command: []string{"Rscript", "--vanilla"},
		probe: []string{"-e", "stopifnot(packageVersion('forecast') >= '8.20')"}, install: "r-base-core r-cran-forecast",
	},
	{
		name: SuitePython, folder: "drivers/python", main: "main.py", command: []string{"python3"}, instead: []string{"/usr/bin/python3"},
		probe: []string{"-c", "import statsmodels.tsa.api"}, install: "python3-statsmodels",
	},
}

// find returns the command that has the suite's libraries, nil when none has.
func (s suite) find() []string {
	for _, command := range [][]string{s.command, s.instead} {
		if len(command) > 0 && exec.Command(command[0], append(slices.Clone(command[1:]), s.probe...)...).Run() == nil {
			return command
		}
	}
	return nil
}

// driver returns the text that a result of m depends on: the shared files and the method's own.
func (s suite) driver(t *testing.T, m Method) []byte {
	t.Helper()
	entries, err := fs.ReadDir(driverFiles, s.folder)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "method_") && strings.TrimSuffix(e.Name(), path.Ext(e.Name())) != "method_"+m.Name {
			continue
		}
		data, err := driverFiles.ReadFile(path.Join(s.folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, data...)
	}
	return text
}

// peers runs drivers and keeps their results.
type peers struct {
	cache   string              // folder
	drivers string              // folder with the drivers' files
	command map[string][]string // by suite; nil where its libraries are not installed
	spent   time.Duration
	methods *regexp.Regexp
}

func newPeers(t *testing.T) *peers {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	p := &peers{cache: filepath.Join(cache, "forewarm-peers"), drivers: t.TempDir(), command: map[string][]string{}}
	if p.methods, err = regexp.Compile(*methodsFlag); err != nil {
		t.Fatalf("-methods: %v", err)
	}
	if err := os.CopyFS(p.drivers, driverFiles); err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		if p.command[s.name] = s.find(); p.command[s.name] == nil {
			t.Logf("SKIPPED: the methods of %s are not installed (apt-get install --no-install-recommends %s); only results in %s are used",
				s.name, s.install, p.cache)
		}
	}
	return p
}

// results returns the result of each method of a suite on a case, by name, from the cache or by running the driver. A
// method that has not been run is left out.
func (p *peers) results(t *testing.T, s suite, c Case) map[string]Result {
	t.Helper()
	job := Job{Case: c, Paths: *pathsFlag, Seed: *seedFlag, Limit: *limitFlag}
	out := map[string]Result{}
	files := map[string]string{}
	var missing []Method
	for _, m := range Methods() {
		if m.Suite != s.name || !p.methods.MatchString(m.Name) || m.Slow && !c.Main {
			continue
		}
		name := fmt.Sprintf("%s-%s.csv", m.Name, job.Key(m, s.driver(t, m)))
		files[m.Name] = filepath.Join(p.cache, s.name, strings.ReplaceAll(c.Name, ":", "."), name)
		if r, err := readResult(files[m.Name]); err == nil {
			out[m.Name] = r
		} else if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, m)
		} else {
			t.Fatal(err)
		}
	}
	if len(missing) == 0 || p.command[s.name] == nil || p.spent >= *budgetFlag {
		return out
	}
	folder := p.run(t, s, job, missing)
	for _, m := range missing {
		result := filepath.Join(folder, m.Name+".csv")
		data, err := os.ReadFile(result)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
			data = fmt.Appendf(nil, "#status: its process used %v of processor time\n", processLimit)
		} else if err != nil {
			t.Fatal(err)
		}
		r, err := ReadResult(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s, %s: %v", c.Name, m.Name, err)
		}
		keep(t, files[m.Name], data)
		out[m.Name] = r
	}
	return out
}

func readResult(file string) (Result, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Result{}, err
	}
	r, err := ReadResult(bytes.NewReader(data))
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// keep writes a file of the cache, whole or not at all.
func keep(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".part", data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".part", file); err != nil {
		t.Fatal(err)
	}
}

// run runs a driver once for some methods of a case and returns the folder with what it wrote.
func (p *peers) run(t *testing.T, s suite, job Job, methods []Method) string {
	t.Helper()
	folder := t.TempDir()
	var series, origins bytes.Buffer
	if err := errors.Join(job.WriteSeries(&series), job.WriteOrigins(&origins),
		os.WriteFile(filepath.Join(folder, "series.csv"), series.Bytes(), 0o644),
		os.WriteFile(filepath.Join(folder, "origins.csv"), origins.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	var names []string
	settings := job.Settings()
	for _, m := range methods {
		names = append(names, m.Name)
		settings = append(settings, job.RefitSetting(m))
	}
	args := []string{"-n", "10", "sh", "-c", fmt.Sprintf(`ulimit -t %d; exec "$@"`, int(processLimit.Seconds())), "sh"}
	args = append(args, p.command[s.name]...)
	args = append(args, filepath.Join(p.drivers, s.folder, s.main), folder, strings.Join(names, ","))
	cmd := exec.Command("nice", append(args, settings...)...)
	// One thread: processor time is what is limited and stated.
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	p.spent += used
	t.Logf("%s: %s in %v of processor time, %v in all", job.Case.Name, strings.Join(names, ","),
		used.Round(time.Millisecond), p.spent.Round(time.Second))
	if err != nil && used < processLimit-time.Second {
		t.Fatalf("%s: %v\n%s", cmd, err, log.String())
	}
	return folder
}

// TestDriversSeeNothingAhead changes what follows an origin: what the drivers say until it must not change.
func TestDriversSeeNothingAhead(t *testing.T) {
	p := newPeers(t)
	rng := newRand(7)
	s := seriesOf(10*time.Minute, 6*144, func(i int) float64 {
		return 100 + 50*math.Sin(2*math.Pi*float64(i)/144) + 10*rng.NormFloat64()
	})
	s.Values[50] = math.NaN()
	c := mustCase(t, s, 6)
	changed := c
	changed.Series.Values = slices.Clone(s.Values)
	last := c.CompareShort[3]
	for i := last + 1; i < s.Len(); i++ {
		changed.Series.Values[i] = 1e6
	}
	for _, s := range suites {
		if p.command[s.name] == nil {
			continue
		}
		methods := slices.DeleteFunc(Methods(), func(m Method) bool {
			return m.Suite != s.name || !p.methods.MatchString(m.Name)
		})
		a := p.run(t, s, Job{Case: c, Paths: 50, Seed: 1, Limit: *limitFlag}, methods)
		b := p.run(t, s, Job{Case: changed, Paths: 50, Seed: 1, Limit: *limitFlag}, methods)
		for _, m := range methods {
			compareUntil(t, m, filepath.Join(a, m.Name+".csv"), filepath.Join(b, m.Name+".csv"), last)
		}
	}
}

// compareUntil holds two results of a method equal at every origin until last, and different somewhere after it.
func compareUntil(t *testing.T, m Method, fileA, fileB string, last int) {
	t.Helper()
	a, errA := readResult(fileA)
	b, errB := readResult(fileB)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a.Status != b.Status || !a.OK() {
		t.Logf("%s: %s", m.Name, a.Status)
		return
	}
	differs := false
	for interval, predictions := range a.Intervals {
		for origin, p := range predictions {
			same := fmt.Sprint(p) == fmt.Sprint(b.Intervals[interval][origin])
			if origin <= last && !same {
				t.Errorf("%s (%s) says another thing at %d when the future after %d is another", m.Name, interval, origin, last)
			}
			differs = differs || !same
		}
	}
	if !differs {
		t.Errorf("%s does not notice that the values after %d are others", m.Name, last)
	}
}
