package sim

import (
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"forewarm/planner"
)

// testMonday is a Monday, 00:00 UTC.
var testMonday = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)

func chatWorkload() Workload { return DemoWorld().Models[0].Workload }

// flatWorkload has no season, burst, noise or heavy client.
func flatWorkload(rate float64, cv float64) Workload {
	w := chatWorkload()
	w.Requests, w.ArrivalCV = planner.RequestRate(rate), cv
	w.Day, w.Weekend, w.Bursts, w.Level, w.Clients, w.Timezone = nil, nil, nil, Level{}, nil, ""
	return w
}

// reporter is what *testing.T, *testing.B and *rapid.T share.
type reporter interface {
	Helper()
	Fatal(args ...any)
}

func mustGenerator(t reporter, w Workload, seed uint64) *Generator {
	t.Helper()
	g, err := NewGenerator(w, seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// History must be the sum of Requests for any workload, seed and stretch of time, whatever was asked before: this is what
// lets a planner learn from a month that nobody simulated and then meet the same process.
func TestHistoryIsTheSumOfRequests(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := chatWorkload()
		w.Requests = planner.RequestRate(rapid.Float64Range(0, 6).Draw(rt, "rate"))
		w.ArrivalCV = rapid.SampledFrom([]float64{0.4, 1, 1.03, 7.26}).Draw(rt, "cv")
		w.Bursts = append(slices.Clone(w.Bursts), Burst{At: 7 * time.Hour, Hold: 8 * time.Hour, Multiple: 1.2,
			PromptMultiple: rapid.SampledFrom([]float64{0, 0.5, 3}).Draw(rt, "prompt multiple")})
		seed := rapid.Uint64().Draw(rt, "seed")
		from := testMonday.Add(time.Duration(rapid.IntRange(-40_000, 40_000).Draw(rt, "minute")) * time.Minute)
		step := rapid.SampledFrom([]time.Duration{15 * time.Second, time.Minute, 5 * time.Minute}).Draw(rt, "step")
		to := from.Add(20 * time.Minute)
		g := mustGenerator(rt, w, seed)
		var sums [3][]float64
		for i := range sums {
			sums[i] = make([]float64, 20*time.Minute/step)
		}
		last := from
		for r := range g.Requests(from, to) {
			if r.At.Before(last) || r.Prompt < 1 || r.Completion < 1 {
				rt.Fatalf("request %+v after %v", r, last)
			}
			last = r.At
			i := int(r.At.Sub(from) / step)
			sums[0][i] += float64(r.Prompt)
			sums[1][i] += float64(r.Completion)
			sums[2][i]++
		}
		h, err := mustGenerator(rt, w, seed).History(from, to, step)
		if err != nil {
			rt.Fatal(err)
		}
		for k, values := range [][]float64{h.Prompt.Values, h.Completion.Values, h.Requests.Values} {
			for i, v := range values {
				if got := v * step.Seconds(); math.Abs(got-sums[k][i]) > 1e-6*(1+sums[k][i]) {
					rt.Fatalf("series %d step %d: history has %v, the requests make %v", k, i, got, sums[k][i])
				}
			}
		}
	})
}

// Over a day the realised counts must follow the rates that Rate announces, in every hour.
func TestRateIsTheMeanOfHistory(t *testing.T) {
	g := mustGenerator(t, chatWorkload(), 3)
	h, err := g.History(testMonday, testMonday.Add(24*time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for hour, got := range h.Requests.Values {
		var want float64
		for m := range 60 {
			want += float64(g.Rate(testMonday.Add(time.Duration(hour*60+m)*time.Minute+30*time.Second)).Requests) / 60
		}
		// Four standard deviations of a count with the workload's dispersion.
		tolerance := 4 * g.w.ArrivalCV * math.Sqrt(want*3600) / 3600
		if math.Abs(got-want) > tolerance {
			t.Errorf("hour %d: %.3f requests/s realised, %.3f ± %.3f expected", hour, got, want, tolerance)
		}
	}
}

func TestDayFollowsTheWallClock(t *testing.T) {
	w := chatWorkload()
	w.Level, w.Clients, w.Bursts = Level{}, nil, nil
	g := mustGenerator(t, w, 1)
	rate := func(s string) float64 {
		at, err := time.ParseInLocation("2006-01-02 15:04", s, g.loc)
		if err != nil {
			t.Fatal(err)
		}
		return float64(g.Rate(at).Requests)
	}
	if before, after := rate("2026-03-27 10:30"), rate("2026-03-30 10:30"); math.Abs(before-after) > 1e-9 {
		t.Errorf("10:30 has %.4f requests/s before the change to summer time and %.4f after", before, after)
	}
	if noon, morning := rate("2026-03-03 13:30"), rate("2026-03-03 10:30"); math.Abs(noon/morning-1.26/2.03) > 1e-9 {
		t.Errorf("the lunch dip is %.3f of the morning, the fitted one %.3f", noon/morning, 1.26/2.03)
	}
	if sat, fri := rate("2026-03-07 10:30"), rate("2026-03-06 10:30"); math.Abs(sat/fri-OfficeWeekend) > 1e-9 {
		t.Errorf("Saturday has %.3f of Friday, the fitted weekend is %.3f", sat/fri, OfficeWeekend)
	}
	var sum float64
	for m := range 1440 {
		sum += float64(g.Rate(testMonday.AddDate(0, 0, 1).Add(time.Duration(m)*time.Minute)).Requests) / 1440
	}
	if math.Abs(sum/float64(w.Requests)-1) > 0.001 {
		t.Errorf("the mean of a Tuesday is %.3f requests/s, %.3f was asked for", sum, float64(w.Requests))
	}
}

func TestMorningBurstRises(t *testing.T) {
	w := chatWorkload()
	w.Level, w.Clients, w.Day = Level{}, nil, nil
	g := mustGenerator(t, w, 5)
	var logs []float64
	for day := range 60 {
		midnight := time.Date(2026, time.March, 2+day, 0, 0, 0, 0, g.loc)
		var peak float64
		for m := 8 * 60; m < 11*60; m++ {
			peak = max(peak, float64(g.Rate(midnight.Add(time.Duration(m)*time.Minute)).Requests)/float64(w.Requests))
		}
		if isWeekend(midnight.Weekday()) {
			if peak > 1 {
				t.Errorf("%s has a burst of %.2f", midnight.Format("Mon 2006-01-02"), peak)
			}
			continue
		}
		logs = append(logs, math.Log(peak-1))
	}
	slices.Sort(logs)
	if median := 1 + math.Exp(logs[len(logs)/2]); math.Abs(median-3.4) > 0.3 {
		t.Errorf("the median burst is %.2f-fold, 3.4 was asked for", median)
	}
	// The form without jitter, against the figures that MorningBurst cites.
	b := MorningBurst()
	first := func(share float64) time.Duration {
		for s := time.Duration(0); ; s += time.Second {
			if b.height(s) >= share {
				return s
			}
		}
	}
	if rise := first(0.9) - first(0.1); rise < 5*time.Minute || rise > 8*time.Minute {
		t.Errorf("a tenth to nine tenths takes %v, the cited figure is 3 to 6.5 minutes and 7 for this form", rise)
	}
	if half := b.height(45 * time.Minute); math.Abs(half-0.5) > 0.05 {
		t.Errorf("after 45 minutes %.2f of the burst is left, half was cited", half)
	}
}

// A batch of long prompts is there on its dates only: more requests, longer prompts, the same completions; and a holiday has
// the weekend's load and no burst.
func TestDatedBatchAndHoliday(t *testing.T) {
	w := flatWorkload(50, 1)
	weekend := 0.5
	w.Weekend, w.Holidays = &weekend, []string{"2026-03-04"}
	w.Bursts = []Burst{{At: 9 * time.Hour, Hold: time.Hour, Multiple: 3},
		{At: 9 * time.Hour, Hold: time.Hour, Multiple: 1.2, PromptMultiple: 2.5, On: []string{"2026-03-03"}}}
	g := mustGenerator(t, w, 7)
	mix := g.mix()
	for day, want := range []struct{ requests, prompt float64 }{{150, 1}, {180, 2.5}, {25, 1}} {
		from := testMonday.Add(time.Duration(day)*24*time.Hour + 9*time.Hour)
		h, err := g.History(from, from.Add(time.Hour), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		requests := h.Requests.Values[0]
		prompt := h.Prompt.Values[0] / requests / float64(mix.Prompt)
		completion := h.Completion.Values[0] / requests / float64(mix.Completion)
		// 90,000 requests or more and a CV about 1: the means are good to a third of a percent.
		if math.Abs(requests/want.requests-1) > 0.02 || math.Abs(prompt/want.prompt-1) > 0.02 || math.Abs(completion-1) > 0.02 {
			t.Errorf("day %d: %.1f requests/s, prompts ×%.3f, completions ×%.3f, want %v", day, requests, prompt, completion, want)
		}
	}
}

func TestLevelNoiseHasItsMoments(t *testing.T) {
	p := newLevelPath(OfficeLevel(), 9)
	const n, hour = 50_000, 6
	var sum, squares, lagged float64
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = p.at(int64(i))
		sum += xs[i]
		squares += xs[i] * xs[i]
	}
	for i := hour; i < n; i++ {
		lagged += xs[i] * xs[i-hour]
	}
	if sd := math.Sqrt(squares / n); math.Abs(sd/0.088-1) > 0.05 {
		t.Errorf("standard deviation %.4f, fitted 0.088", sd)
	}
	if corr := lagged / squares; math.Abs(corr-0.73) > 0.03 {
		t.Errorf("correlation after an hour %.3f, fitted 0.73", corr)
	}
	// Entered elsewhere, the path is the same: a block warms up from its own past only.
	q := newLevelPath(OfficeLevel(), 9)
	for _, k := range []int64{30_000, 5, 1008, 1007, 49_999} {
		if d := math.Abs(q.at(k) - xs[k]); d != 0 {
			t.Errorf("knot %d differs by %v when entered directly", k, d)
		}
	}
}

func TestHeavyClientsCarryTheirShare(t *testing.T) {
	for _, client := range append(HeavyChatClients(), HeavyCodeClients()...) {
		p := newClientPath(client, 100, 4)
		const minutes = 2_000_000
		var sum float64
		turns, last := 0, -1.0
		for m := range int64(minutes) {
			r := p.rate(time.Unix(m*60, 0))
			sum += r / minutes
			if r != last {
				turns++
				last = r
			}
		}
		if got := sum / 100; math.Abs(got/client.Share-1) > 0.1 {
			t.Errorf("%s carries %.4f of all requests, its share is %.4f", client.Name, got, client.Share)
		}
		if got, want := float64(minutes)/float64(turns), (client.On+client.Off).Minutes()/2; math.Abs(got/want-1) > 0.15 {
			t.Errorf("%s switches every %.0f minutes, %.0f expected", client.Name, got, want)
		}
	}
	counts := map[string]int{}
	for r := range mustGenerator(t, chatWorkload(), 2).Requests(testMonday, testMonday.Add(6*time.Hour)) {
		counts[r.Client]++
	}
	if counts[Everyone] == 0 || len(counts) < 2 {
		t.Errorf("requests by client: %v: everyone and at least one heavy client expected", counts)
	}
}

func TestArrivalsHaveTheirDispersion(t *testing.T) {
	for _, cv := range []float64{0.5, 1, 1.03, 3, 7.26} {
		g := mustGenerator(t, flatWorkload(4, cv), 8)
		var gaps []float64
		counts := make([]float64, 600)
		var previous time.Time
		for r := range g.Requests(testMonday, testMonday.Add(600*time.Minute)) {
			counts[int(r.At.Sub(testMonday)/time.Minute)]++
			if r.At.Truncate(time.Minute).Equal(previous.Truncate(time.Minute)) {
				gaps = append(gaps, r.At.Sub(previous).Seconds())
			}
			previous = r.At
		}
		// A minute holds a bounded number of gaps, which limits how large one can be: for trains the measured figure is lower.
		if got := sd(gaps) / mean(gaps); got < 0.7*cv || got > 1.1*cv {
			t.Errorf("cv %v: inter-arrival times within minutes have %.3f", cv, got)
		}
		if got, want := sd(counts)*sd(counts)/mean(counts), cv*cv; math.Abs(got/want-1) > 0.3 {
			t.Errorf("cv %v: the counts' index of dispersion is %.3f, %.3f expected", cv, got, want)
		}
		if got := mean(counts); math.Abs(got/240-1) > 5*cv/math.Sqrt(240*600) {
			t.Errorf("cv %v: %.1f requests a minute, 240 expected", cv, got)
		}
	}
}

// Scaling a minute's lengths to its sums must leave their distribution alone: quantiles of busy minutes against those of
// quiet ones, whose lengths are their own draws, and against the mixture's moments.
func TestLengthsKeepTheirDistribution(t *testing.T) {
	services := map[string]func() (Lengths, Lengths, float64){"conversation": AzureConversation, "code": AzureCode}
	for name, lengths := range services {
		prompt, completion, _ := lengths()
		for _, rate := range []float64{0.5, 20} { // 30 and 1200 a minute
			w := flatWorkload(rate, 1)
			w.Prompt, w.Completion = prompt, completion
			var ps, cs []float64
			for r := range mustGenerator(t, w, 6).Requests(testMonday, testMonday.Add(time.Duration(60_000/rate)*time.Second)) {
				ps, cs = append(ps, float64(r.Prompt)), append(cs, float64(r.Completion))
			}
			for i, xs := range [][]float64{ps, cs} {
				l := []Lengths{prompt, completion}[i]
				wantMean, wantSD := l.Moments()
				if got := mean(xs); math.Abs(got/wantMean-1) > 0.04 {
					t.Errorf("%s[%d] at %v/s: mean %.1f, %.1f expected", name, i, rate, got, wantMean)
				}
				if got := sd(xs); math.Abs(got/wantSD-1) > 0.15 {
					t.Errorf("%s[%d] at %v/s: standard deviation %.1f, %.1f expected", name, i, rate, got, wantSD)
				}
			}
		}
	}
}

// The fitted figures against the data, where it is at hand.
func TestFitsMatchTheTraces(t *testing.T) {
	for _, c := range []struct {
		file                   string
		fitted                 func() (Lengths, Lengths, float64)
		promptTol, outputTol   float64 // relative, on quantiles
		promptMean, outputMean float64 // relative, on means
	}{
		{"conv", AzureConversation, 0.17, 0.08, 0.01, 0.01},
		{"code", AzureCode, 0.10, 0.12, 0.01, 0.06},
	} {
		prompts, completions, gapsCV := readTrace(t, c.file)
		prompt, completion, cv := c.fitted()
		w := flatWorkload(20, 1)
		w.Prompt, w.Completion = prompt, completion
		var ps, cs []float64
		for r := range mustGenerator(t, w, 11).Requests(testMonday, testMonday.Add(2*time.Hour)) {
			ps, cs = append(ps, float64(r.Prompt)), append(cs, float64(r.Completion))
		}
		compare := func(what string, got, want []float64, tolerance, meanTolerance float64, fit Lengths) {
			for _, p := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.95} {
				if g, q := quantile(got, p), quantile(want, p); math.Abs(g/q-1) > tolerance+1/q {
					t.Errorf("%s %s: quantile %v is %.0f, the trace has %.0f (tolerance %.0f %%)", c.file, what, p, g, q, 100*tolerance)
				}
			}
			if m, _ := fit.Moments(); math.Abs(m/mean(want)-1) > meanTolerance {
				t.Errorf("%s %s: fitted mean %.1f, the trace has %.1f", c.file, what, m, mean(want))
			}
		}
		compare("prompt", ps, prompts, c.promptTol, c.promptMean, prompt)
		compare("completion", cs, completions, c.outputTol, c.outputMean, completion)
		if math.Abs(gapsCV/cv-1) > 0.02 {
			t.Errorf("%s: the trace's inter-arrival CV within minutes is %.3f, fitted %.3f", c.file, gapsCV, cv)
		}
	}
}

// readTrace returns the lengths of a published trace and the coefficient of variation of its inter-arrival times over
// their minute's mean, pooled over minutes with at least 30.
func readTrace(t *testing.T, name string) (prompts, completions []float64, cv float64) {
	t.Helper()
	file := filepath.Join("..", "..", "shared", "data", "traces", "AzureLLMInferenceTrace_"+name+".csv")
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the Azure LLM inference trace is not at %s: the fitted constants were not compared with the data", file)
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := csv.NewReader(f)
	if _, err := rows.Read(); err != nil {
		t.Fatal(err)
	}
	minutes := map[int64][]float64{}
	var first, last time.Time
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse("2006-01-02 15:04:05.9999999", strings.TrimSpace(row[0]))
		p, err1 := strconv.ParseFloat(row[1], 64)
		c, err2 := strconv.ParseFloat(row[2], 64)
		if err := errors.Join(err, err1, err2); err != nil {
			t.Fatal(err)
		}
		prompts, completions = append(prompts, p), append(completions, c)
		if first.IsZero() {
			first = at
		} else {
			m := int64(last.Sub(first) / time.Minute)
			minutes[m] = append(minutes[m], at.Sub(last).Seconds())
		}
		last = at
	}
	var pooled []float64
	for _, gaps := range minutes {
		if m := mean(gaps); len(gaps) >= 30 && m > 0 {
			for _, g := range gaps {
				pooled = append(pooled, g/m)
			}
		}
	}
	return prompts, completions, sd(pooled)
}

// readSeries calls each with the values of a demand series, or skips the test when the data is not at hand.
func readSeries(t *testing.T, name string, each func(at time.Time, v float64)) {
	t.Helper()
	file := filepath.Join("..", "..", "shared", "data", "demand", name)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the demand series is not at %s: the fitted constants were not compared with the data", file)
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		at, err := time.Parse("2006-01-02 15:04:05", row[0])
		if err != nil {
			t.Fatal(err)
		}
		if row[1] == "" {
			continue
		}
		v, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		each(at, v)
	}
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x / float64(len(xs))
	}
	return sum
}

func sd(xs []float64) float64 {
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(xs)))
}

func quantile(xs []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return s[int(p*float64(len(s)-1))]
}

func BenchmarkFourWeeksOfHistory(b *testing.B) {
	for b.Loop() {
		g := mustGenerator(b, chatWorkload(), 1)
		if _, err := g.History(testMonday.Add(-DemoHistory), testMonday, time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
