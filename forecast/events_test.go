package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawCalendar draws a few events around the month after monday.
func drawCalendar(t *rapid.T, loc *time.Location) *Calendar {
	var events []Event
	for i := range rapid.IntRange(1, 4).Draw(t, "events") {
		start := monday.In(loc).Add(time.Duration(rapid.IntRange(-100, 700).Draw(t, "start")) * time.Hour)
		e := Event{Name: fmt.Sprint("e", i), Start: start, Duration: time.Duration(rapid.IntRange(1, 6000).Draw(t, "minutes")) * time.Minute}
		e.RampUp = time.Duration(rapid.Int64Range(0, int64(e.Duration)).Draw(t, "up"))
		e.RampDown = time.Duration(rapid.IntRange(0, 300).Draw(t, "down")) * time.Minute
		switch rapid.IntRange(0, 2).Draw(t, "effect") {
		case 0:
			e.Multiplier = rapid.Float64Range(0.01, 20).Draw(t, "multiplier")
		case 1:
			e.Learn = true
		case 2:
			like := time.Weekday(rapid.IntRange(0, 6).Draw(t, "like"))
			e.Like, e.Days, e.Duration, e.RampUp, e.Start = &like, rapid.IntRange(1, 3).Draw(t, "days"), 0, 0, midnight(start)
		}
		if rapid.Bool().Draw(t, "recurs") {
			e.Recurrence = "FREQ=DAILY;INTERVAL=" + fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "interval"))
		}
		events = append(events, e)
	}
	c, err := NewCalendar(events)
	if err != nil {
		t.Skip(err) // a start that the clock jumps over
	}
	return c
}

// drawEventful draws a history with noise, gaps and lower bounds.
func drawEventful(t *rapid.T, loc *time.Location) Series {
	step := time.Duration(rapid.SampledFrom([]int{5, 7, 10, 30, 60}).Draw(t, "step")) * time.Minute
	s := dailyDemand(int(20*day/step), step, loc, rapid.Uint64().Draw(t, "seed"))
	s.AtLeast = make([]bool, s.Len())
	for range rapid.IntRange(0, 4).Draw(t, "gaps") {
		from := rapid.IntRange(0, s.Len()-1).Draw(t, "from")
		for i := from; i < min(s.Len(), from+rapid.IntRange(1, 50).Draw(t, "length")); i++ {
			switch i % 3 {
			case 0:
				s.Values[i], s.AtLeast[i] = nan, false
			case 1:
				s.AtLeast[i] = true
			default:
				s.Values[i] = 0
			}
		}
	}
	return s
}

// TestLearnedHistoryKeepsWhatIsNoEvent: whatever the calendar, values outside of occurrences stay as they are, missing
// ones stay missing, known ones stay known and not negative; and the unit of the series does not matter.
func TestLearnedHistoryKeepsWhatIsNoEvent(t *testing.T) {
	berlin := mustLocation(t, "Europe/Berlin")
	rapid.Check(t, func(t *rapid.T) {
		loc := rapid.SampledFrom([]*time.Location{time.UTC, berlin}).Draw(t, "zone")
		c, s := drawCalendar(t, loc), drawEventful(t, loc)
		before := slices.Clone(s.Values)
		_, clean := Learn(s, c, "")
		if !sameValues(s.Values, before) {
			t.Fatal("the history was changed")
		}
		if err := clean.Validate(); err != nil {
			t.Fatal(err)
		}
		large := s
		large.Values = make([]float64, s.Len())
		for i, v := range s.Values {
			large.Values[i] = 1024 * v
		}
		_, cleanLarge := Learn(large, c, "")
		for i, v := range clean.Values {
			if math.IsNaN(v) != math.IsNaN(s.Values[i]) || v < 0 {
				t.Fatalf("step %d: %v became %v", i, s.Values[i], v)
			}
			if v != s.Values[i] && !math.IsNaN(v) && len(c.Occurrences("", s.TimeAt(i), s.TimeAt(i+1))) == 0 {
				t.Fatalf("step %d without an event: %v became %v", i, s.Values[i], v)
			}
			if d := math.Abs(cleanLarge.Values[i] - 1024*v); d > 1e-6*1024*v {
				t.Fatalf("step %d: %v, but %v with demand times 1024", i, v, cleanLarge.Values[i])
			}
		}
	})
}

// TestEffectsReachEveryPath: paths outside of occurrences are untouched, every path is multiplied by a positive number,
// and a series that comes jointly takes the sizes of the same occurrences.
func TestEffectsReachEveryPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, s := drawCalendar(t, time.UTC), drawEventful(t, time.UTC)
		seen := rapid.IntRange(1, s.Len()).Draw(t, "seen")
		e, _ := Learn(s.slice(0, seen), c, "")
		for i := seen; i < s.Len() && i < seen+50; i++ {
			e.Update(s.Values[i], s.lowerBound(i))
			seen = i + 1
		}
		ens := Ensemble{Start: s.TimeAt(seen), Step: s.Step, Paths: newPaths(20, 60)}
		for _, p := range ens.Paths {
			for k := range p {
				p[k] = 1
			}
		}
		out := e.Apply(ens)
		for k := range ens.Steps() {
			from, to := ens.Start.Add(time.Duration(k)*s.Step), ens.Start.Add(time.Duration(k+1)*s.Step)
			quiet := len(c.Occurrences("", from, to)) == 0
			for i, p := range out.Paths {
				if ens.Paths[i][k] != 1 {
					t.Fatal("the given ensemble was changed")
				}
				if quiet && p[k] != 1 || !(p[k] > 0) || math.IsInf(p[k], 0) {
					t.Fatalf("path %d step %d: factor %v, quiet %v", i, k, p[k], quiet)
				}
			}
		}
		if again := e.Apply(ens); fmt.Sprint(again) != fmt.Sprint(out) {
			t.Fatal("a second look gave other paths")
		}
	})
}

// TestWeightIsAreaAndTrapezoid: over any grid the weights sum up to the area of the trapezoid.
func TestWeightIsAreaAndTrapezoid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := time.Duration(rapid.Int64Range(1, int64(3*day)).Draw(t, "span"))
		o := Occurrence{Start: monday, End: monday.Add(span), rampUp: time.Duration(rapid.Int64Range(0, int64(span)).Draw(t, "up"))}
		down := time.Duration(rapid.Int64Range(0, int64(day)).Draw(t, "down"))
		o.Done = o.End.Add(down)
		step := time.Duration(rapid.Int64Range(int64(time.Minute), int64(10*time.Hour)).Draw(t, "step"))
		area := 0.0
		for at := monday.Add(-time.Duration(rapid.Int64Range(0, int64(step)).Draw(t, "before"))); at.Before(o.Done); at = at.Add(step) {
			area += o.Weight(at, at.Add(step)) * step.Seconds()
		}
		if want := (span - o.rampUp/2 + down/2).Seconds(); math.Abs(area-want) > 1e-6*(1+want) {
			t.Fatalf("area %v, want %v", area, want)
		}
	})
	o := Occurrence{Start: monday, End: monday.Add(time.Hour), Done: monday.Add(80 * time.Minute), rampUp: 10 * time.Minute}
	for minute, want := range map[int]float64{-1: 0, 5: 0.5, 10: 1, 59: 1, 70: 0.5, 80: 0} {
		at := monday.Add(time.Duration(minute) * time.Minute)
		if got := o.Weight(at, at.Add(time.Second)); math.Abs(got-want) > 0.002 {
			t.Errorf("minute %d: weight %v, want %v", minute, got, want)
		}
	}
}

// TestWithEventsForecastsTheLaunch: backtested on a year's first weeks with a launch a week at odd times, every method
// does better with the calendar than without it, and a calendar about another model changes nothing.
func TestWithEventsForecastsTheLaunch(t *testing.T) {
	step := 10 * time.Minute
	s := dailyDemand(int(35*day/step), step, time.UTC, 11)
	launch := Event{Name: "launch", Duration: 2 * time.Hour, Learn: true}
	for week := range 5 {
		at := monday.Add(time.Duration(week)*7*day + time.Duration(week)*(day+3*time.Hour) + 10*time.Hour)
		if week == 0 {
			launch.Start = at
		} else {
			launch.Also = append(launch.Also, at)
		}
		for i := range s.Values {
			if t := s.TimeAt(i); !t.Before(at) && t.Before(at.Add(2*time.Hour)) {
				s.Values[i] *= 3
			}
		}
	}
	mine, err := NewCalendar([]Event{launch})
	if err != nil {
		t.Fatal(err)
	}
	launch.Models = []string{"another"}
	others, err := NewCalendar([]Event{launch})
	if err != nil {
		t.Fatal(err)
	}
	run := func(c *Calendar) map[string]float64 {
		var models []Forecaster
		for _, m := range testModels(t, nameLast, nameSeasonal) {
			models = append(models, WithEvents(m, c, "chat"))
		}
		r, err := Backtest(s, models, BacktestConfig{Horizon: 6, Test: 16 * day, Quantiles: DefaultQuantiles()})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, m := range r.Models {
			out[m.Model] = *m.PeakWQL
		}
		return out
	}
	without, with := run(others), run(mine)
	for name, loss := range without {
		if !(with[name] < 0.9*loss) {
			t.Errorf("%s: peak WQL %.4f with the calendar, %.4f without", name, with[name], loss)
		}
	}
	if got := run(nil); fmt.Sprint(got) != fmt.Sprint(without) {
		t.Errorf("without a calendar %v, with one about another model %v", got, without)
	}
}

// TestPathsOfALearnedEventDiffer: past launches of ×2 and ×4 give paths of both kinds, not of ×3.
func TestPathsOfALearnedEventDiffer(t *testing.T) {
	c, err := NewCalendar([]Event{{Name: "x", Start: monday, Duration: time.Hour, Learn: true}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEffects(Series{Start: monday, Step: time.Minute}, c, "")
	e.past["x"] = []float64{math.Log(4), math.Log(2), math.Log(2), math.Log(4)}
	ens := e.Apply(Ensemble{Start: monday, Step: time.Minute, Paths: slices.Repeat([][]float64{{1}}, 81)})
	low, high := math.Pow(2, 0.8), math.Pow(4, 0.8)
	counts := map[bool]int{}
	for _, p := range ens.Paths {
		if math.Abs(p[0]-low) > 1e-9 && math.Abs(p[0]-high) > 1e-9 {
			t.Fatalf("factor %v, want %v or %v", p[0], low, high)
		}
		counts[p[0] > 2]++
	}
	if counts[true] < 35 || counts[false] < 35 {
		t.Errorf("%d paths of the large kind, %d of the small", counts[true], counts[false])
	}
}

// TestCalendarIsShared: under the race detector, several goroutines may ask one calendar.
func TestCalendarIsShared(t *testing.T) {
	c, err := NewCalendar([]Event{{Name: "x", Start: monday, Duration: time.Hour, Recurrence: "FREQ=DAILY;COUNT=9", Learn: true}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if n := len(c.Occurrences("", monday, monday.AddDate(0, 1, 0))); n != 9 {
				t.Errorf("%d occurrences, want 9", n)
			}
		})
	}
	wg.Wait()
}

func TestEventfulPanicsBeforeFit(t *testing.T) {
	c, err := NewCalendar([]Event{{Name: "x", Start: monday, Duration: time.Hour, Learn: true}})
	if err != nil {
		t.Fatal(err)
	}
	f := WithEvents(NewLastValue(Options{}), c, "").(*Eventful)
	if err := f.Fit(Series{Start: monday, Step: time.Minute}); err == nil {
		t.Error("an empty history was fitted")
	}
	for name, call := range map[string]func(){
		"update": func() { f.Update(1, false) },
		"sample": func() { f.Sample(1, Blocks{Ages: []int{0}}) },
		"ahead":  func() { f.Ahead(monday, monday) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "before a successful Fit") {
					t.Errorf("%s: %v", name, r)
				}
			}()
			call()
		}()
	}
}

// BenchmarkLearn is what a calendar adds to the fit of four weeks at one minute: a weekly event, daily ones and a
// holiday.
func BenchmarkLearn(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	sunday := time.Sunday
	c, err := NewCalendar([]Event{
		{Name: "weekly", Start: monday.Add(9 * time.Hour), Recurrence: "FREQ=WEEKLY", Duration: time.Hour, Multiplier: 2},
		{Name: "daily", Start: monday.Add(14 * time.Hour), Recurrence: "FREQ=DAILY", Duration: 2 * time.Hour, Learn: true},
		{Name: "holiday", Start: monday.Add(16 * day), Days: 1, Like: &sunday},
	})
	if err != nil {
		b.Fatal(err)
	}
	s := dailyDemand(28*1440, time.Minute, berlin, 1)
	b.ReportAllocs()
	for b.Loop() {
		Learn(s, c, "")
	}
}
