package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat/distuv"

	"forewarm/forecast"
	"forewarm/sim"
)

// variant is a scenario with some of its values changed, and the scores of its policies, a list a seed.
type variant struct {
	sets     []string // as --set takes them
	scenario sim.Scenario
	scores   [][]sim.Score // by seed, then by policy; a missing one has no policy
}

// limits on what one run may be asked for, so that a slip is an error and not an endless run.
const (
	variantsMax = 1000
	seedsMax    = 1000
)

// grid makes the variants of --sweep: every combination of the values, the last path fastest.
func grid(sweeps []string) ([][]string, error) {
	combos := [][]string{nil}
	for _, sweep := range sweeps {
		path, list, ok := strings.Cut(sweep, "=")
		if !ok || path == "" || list == "" {
			return nil, fmt.Errorf("--sweep %q: path=value,value is allowed", sweep)
		}
		var next [][]string
		for _, c := range combos {
			for _, v := range strings.Split(list, ",") {
				next = append(next, append(c[:len(c):len(c)], path+"="+v))
			}
		}
		if len(next) > variantsMax {
			return nil, fmt.Errorf("--sweep makes %d combinations: up to %d are allowed", len(next), variantsMax)
		}
		combos = next
	}
	return combos, nil
}

// replayGrid replays every variant under its policies and n seeds on all cores; done is called, one call at a time, when a
// replay ends. Scores are where they belong whatever the order. When ctx ends, those that were done stay, with an error.
func replayGrid(ctx context.Context, variants []*variant, n int, done func()) error {
	var (
		free = make(chan struct{}, runtime.GOMAXPROCS(0))
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, v := range variants {
		v.scores = make([][]sim.Score, n)
		for i := range n {
			v.scores[i] = make([]sim.Score, len(v.scenario.Policies))
			for p, name := range v.scenario.Policies {
				spec, err := sim.ParsePolicy(name)
				if err != nil {
					return err
				}
				free <- struct{}{}
				wg.Go(func() {
					s := v.scenario
					s.Seed += uint64(i)
					score, err := sim.Replay(ctx, s, spec)
					mu.Lock()
					if v.scores[i][p] = score; err != nil {
						v.scores[i][p] = sim.Score{}
						errs = append(errs, err)
					}
					done()
					mu.Unlock()
					<-free
				})
			}
		}
	}
	wg.Wait()
	err := errors.Join(errs...)
	if errors.Is(err, context.Canceled) {
		return errInterrupted
	}
	return err
}

// measure is a figure of a score, by its name in the JSON.
type measure struct {
	name, head string
	of         func(*sim.Score) float64 // NaN when unknown
	format     string
}

var measures = []measure{
	{"slo_attainment", "within SLO, %", func(s *sim.Score) float64 {
		if s.AttainedShare == nil {
			return math.NaN()
		}
		return 100 * *s.AttainedShare
	}, "%.2f"},
	{"ttft_p50", "TTFT p50, s", func(s *sim.Score) float64 { return s.TTFT.P50.Seconds() }, "%.3g"},
	{"ttft_p99", "p99, s", func(s *sim.Score) float64 { return s.TTFT.P99.Seconds() }, "%.3g"},
	{"minutes_below_slo", "SLO min lost", func(s *sim.Score) float64 { return float64(s.MinutesBelowSLO) }, "%.3g"},
	{"gpu_hours", "GPU-hours", held, "%.1f"},
	{"ratio_to_oracle", "of bound", func(s *sim.Score) float64 {
		if s.LowerBound <= 0 {
			return math.NaN()
		}
		return held(s) / s.LowerBound
	}, "%.2f"},
	{"cost_usd", "cost, $", func(s *sim.Score) float64 {
		if s.CostUSD == nil {
			return math.NaN()
		}
		return *s.CostUSD
	}, "%.0f"},
	{"replica_starts", "starts", func(s *sim.Score) float64 { return float64(s.Starts) }, "%.3g"},
}

// gridTable prints a row for every variant and policy: means over the seeds with the half-width of their 95 % interval
// (Student's t), and against the first policy the mean difference of the paired seeds.
func gridTable(out io.Writer, variants []*variant, seeds int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "policy\t"
	for _, m := range measures {
		head += m.head + "\t"
	}
	for _, v := range variants {
		fmt.Fprintf(out, "\n%s\n", strings.Join(v.sets, ", "))
		fmt.Fprintln(w, head)
		for p, name := range v.scenario.Policies {
			row := name + "\t"
			for _, m := range measures {
				row += interval(v.values(p, m), m.format) + "\t"
			}
			fmt.Fprintln(w, row)
		}
		w.Flush()
		if seeds > 1 && len(v.scenario.Policies) > 1 {
			fmt.Fprintln(out)
			v.paired(out)
		}
	}
}

// values are one measure of a policy, by seed; NaN where there is none.
func (v *variant) values(policy int, m measure) []float64 {
	out := make([]float64, len(v.scores))
	for i := range v.scores {
		out[i] = math.NaN()
		if s := &v.scores[i][policy]; s.Policy != "" {
			out[i] = m.of(s)
		}
	}
	return out
}

// paired prints what each policy costs and attains beside the first one under the same seeds.
func (v *variant) paired(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "less %s, same seeds\twithin SLO, points\tGPU-hours\tSLO min lost\t\n", v.scenario.Policies[0])
	for p := 1; p < len(v.scenario.Policies); p++ {
		row := v.scenario.Policies[p] + "\t"
		for _, name := range []string{"slo_attainment", "gpu_hours", "minutes_below_slo"} {
			m, _ := measureNamed(name)
			diffs := v.values(p, m)
			for i, first := range v.values(0, m) {
				diffs[i] -= first
			}
			row += interval(diffs, "%+.4g") + "\t"
		}
		fmt.Fprintln(w, row)
	}
	w.Flush()
}

func measureNamed(name string) (measure, error) {
	var names []string
	for _, m := range measures {
		if m.name == name {
			return m, nil
		}
		names = append(names, m.name)
	}
	hint := ""
	if near := forecast.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", near)
	}
	return measure{}, fmt.Errorf("unknown measure %q%s: %s are allowed", name, hint, strings.Join(names, ", "))
}

// interval is the mean of the known values and half of its 95 % confidence interval; "-" when none is known, and only the
// value of one.
func interval(values []float64, format string) string {
	n, sum := 0, 0.0
	for _, x := range values {
		if !math.IsNaN(x) {
			n, sum = n+1, sum+x
		}
	}
	if n == 0 {
		return "-"
	}
	mean := sum / float64(n)
	if n == 1 {
		return fmt.Sprintf(format, mean)
	}
	squares := 0.0
	for _, x := range values {
		if !math.IsNaN(x) {
			squares += (x - mean) * (x - mean)
		}
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975)
	return fmt.Sprintf(format, mean) + " ± " + fmt.Sprintf("%.2g", t*math.Sqrt(squares/float64(n-1)/float64(n)))
}

// goal is what --until asks for.
type goal struct {
	measure measure
	atLeast bool
	value   float64
}

// parseGoal reads measure>=value or measure<=value.
func parseGoal(text string) (goal, error) {
	for _, op := range []string{">=", "<="} {
		name, number, ok := strings.Cut(text, op)
		if !ok {
			continue
		}
		m, err := measureNamed(strings.TrimSpace(name))
		if err != nil {
			return goal{}, fmt.Errorf("--until %q: %w", text, err)
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(value) {
			return goal{}, fmt.Errorf("--until %q: a number is allowed behind %s", text, op)
		}
		if m.name == "slo_attainment" {
			value *= 100 // a share, as in the JSON
		}
		return goal{m, op == ">=", value}, nil
	}
	return goal{}, fmt.Errorf("--until %q: measure>=value or measure<=value is allowed", text)
}

// met reports whether the mean over the seeds of the first policy reaches the goal. An unknown mean does not.
func (g goal) met(v *variant) bool {
	sum, n := 0.0, 0
	for _, x := range v.values(0, g.measure) {
		if math.IsNaN(x) {
			return false
		}
		sum, n = sum+x, n+1
	}
	if n == 0 {
		return false
	}
	if g.atLeast {
		return sum/float64(n) >= g.value
	}
	return sum/float64(n) <= g.value
}

// findMax is the largest value that --find tries.
const findMax = 1 << 16

// errNotFound is returned when no value reaches the goal.
var errNotFound = errors.New("no value reaches it")

// find is the least whole number from 1 on with which try reports true: it doubles and then bisects, so the goal should
// not be lost again further up.
func find(try func(n int) (bool, error)) (int, error) {
	lo, hi := 0, 1
	for {
		ok, err := try(hi)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if lo, hi = hi, 2*hi; hi > findMax {
			return 0, fmt.Errorf("%w up to %d", errNotFound, findMax)
		}
	}
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		ok, err := try(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, nil
}
