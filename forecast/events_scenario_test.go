package forecast

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestEventScenarios runs testdata/events/*. Times are 2006-01-02T15:04 in the scenario's zone, UTC at first.
//
//	zone NAME
//	calendar                                  one event per line:
//	  NAME TIME [for=D] [days=N] [rrule=R] [also=TIME,…] [except=TIME,…] [up=D] [down=D] [×M | learn | like=DAY] [withdraw=D]
//	occurrences from=TIME to=TIME             what the calendar makes of it
//	demand start=TIME days=N step=D [noise=S] a working-day shape, 100 on average, weekends two fifths of it; what really
//	  TIME D ×M                               happens, whatever the calendar says: M times the demand for D from TIME on,
//	  TIME D gap                              or no values, or values clipped at C and marked as lower bounds
//	  TIME D clip=C
//	learn until=TIME                          reads the history up to a time
//	sizes                                     the multipliers of past occurrences, by name
//	clean from=TIME to=TIME                   how far demand, and demand without events, are from the truth without events
//	walk to=TIME every=D horizon=D            goes on value by value; prints the newest value and the median of the forecast
//	                                          at the horizon, both as multiples of the truth without events, and what is ahead
//
// `go test ./forecast -run TestEventScenarios -rewrite` writes the golden text anew; commit only differences you can
// explain.
func TestEventScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/events", func(t *testing.T, path string) {
		w := &eventScenario{loc: time.UTC}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t, w.d = t, d
			commands := map[string]func() string{
				"zone": w.zone, "calendar": w.setCalendar, "occurrences": w.occurrences, "demand": w.demand, "learn": w.learn,
				"sizes": w.sizes, "clean": w.clean, "walk": w.walk,
			}
			run := commands[d.Cmd]
			if run == nil {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			return run()
		})
	})
}

type eventScenario struct {
	t        *testing.T
	d        *datadriven.TestData
	loc      *time.Location
	calendar *Calendar
	series   Series
	truth    []float64 // without events
	learned  Series    // without events, as Learn returned it
	f        *Eventful
	seen     int
}

func (w *eventScenario) must(err error) {
	w.t.Helper()
	if err != nil {
		w.d.Fatalf(w.t, "%v", err)
	}
}

func (w *eventScenario) time(text string) time.Time {
	w.t.Helper()
	at, err := time.ParseInLocation("2006-01-02T15:04", text, w.loc)
	w.must(err)
	return at
}

func (w *eventScenario) duration(text string) time.Duration {
	w.t.Helper()
	d, err := time.ParseDuration(text)
	w.must(err)
	return d
}

func (w *eventScenario) arg(key string) string {
	w.t.Helper()
	var v string
	w.d.ScanArgs(w.t, key, &v)
	return v
}

func (w *eventScenario) zone() string {
	loc, err := time.LoadLocation(w.d.CmdArgs[0].Key)
	w.must(err)
	w.loc = loc
	return ""
}

func (w *eventScenario) setCalendar() string {
	var events []Event
	for _, line := range strings.Split(w.d.Input, "\n") {
		fields := strings.Fields(line)
		e := Event{Name: fields[0], Start: w.time(fields[1])}
		for _, f := range fields[2:] {
			w.eventField(&e, f)
		}
		events = append(events, e)
	}
	c, err := NewCalendar(events)
	if err != nil {
		return err.Error()
	}
	w.calendar = c
	return ""
}

func (w *eventScenario) eventField(e *Event, field string) {
	key, value, _ := strings.Cut(field, "=")
	switch key {
	case "for":
		e.Duration = w.duration(value)
	case "up":
		e.RampUp = w.duration(value)
	case "down":
		e.RampDown = w.duration(value)
	case "withdraw":
		e.WithdrawAfter = w.duration(value)
	case "rrule":
		e.Recurrence = value
	case "learn":
		e.Learn = true
	case "days":
		n, err := strconv.Atoi(value)
		w.must(err)
		e.Days = n
	case "also", "except":
		for _, text := range strings.Split(value, ",") {
			if key == "also" {
				e.Also = append(e.Also, w.time(text))
			} else {
				e.Except = append(e.Except, w.time(text))
			}
		}
	case "like":
		for d := time.Sunday; d <= time.Saturday; d++ {
			if d.String() == value {
				e.Like = &d
			}
		}
	default:
		m, err := strconv.ParseFloat(strings.TrimPrefix(field, "×"), 64)
		w.must(err)
		e.Multiplier = m
	}
}

func (w *eventScenario) occurrences() string {
	var b strings.Builder
	for _, o := range w.calendar.Occurrences("", w.time(w.arg("from")), w.time(w.arg("to"))) {
		fmt.Fprintf(&b, "%s %s to %s, over at %s\n", o.Name, o.Start.Format("Mon 2006-01-02 15:04 MST"),
			o.End.Format("Mon 15:04 MST"), o.Done.Format("Mon 15:04"))
	}
	return b.String()
}

// demand makes the series: a shape, noise that lasts, and what happens.
func (w *eventScenario) demand() string {
	step := w.duration(w.arg("step"))
	var days int
	noise := 0.05
	w.d.ScanArgs(w.t, "days", &days)
	w.d.MaybeScanArgs(w.t, "noise", &noise)
	rng := testRand(3)
	w.series = Series{Start: w.time(w.arg("start")), Step: step, Location: w.loc}
	w.truth = make([]float64, int(time.Duration(days)*day/step))
	lasting := 0.0
	for i := range w.truth {
		at := w.series.TimeAt(i).In(w.loc)
		hour := float64(at.Hour()) + float64(at.Minute())/60
		v := 125 + 75*math.Sin((hour-9)/24*2*math.Pi)
		if weekend(at.Weekday()) {
			v *= 0.4
		}
		keep := math.Exp(-float64(step) / float64(10*time.Minute))
		lasting = keep*lasting + math.Sqrt(1-keep*keep)*noise*rng.NormFloat64()
		w.truth[i] = v * math.Exp(lasting)
	}
	w.series.Values = append([]float64(nil), w.truth...)
	w.series.AtLeast = make([]bool, len(w.truth))
	if w.d.Input != "" {
		for _, line := range strings.Split(w.d.Input, "\n") {
			w.happens(strings.Fields(line))
		}
	}
	return ""
}

func (w *eventScenario) happens(fields []string) {
	from := w.time(fields[0])
	to := from.Add(w.duration(fields[1]))
	for i := range w.series.Values {
		if at := w.series.TimeAt(i); at.Before(from) || !at.Before(to) {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimPrefix(fields[2], "×"), "=")
		if key == "gap" {
			w.series.Values[i], w.series.AtLeast[i] = math.NaN(), false
			continue
		}
		if key == "clip" {
			most, err := strconv.ParseFloat(value, 64)
			w.must(err)
			if w.series.Values[i] > most {
				w.series.Values[i], w.series.AtLeast[i] = most, true
			}
			continue
		}
		m, err := strconv.ParseFloat(key, 64)
		w.must(err)
		w.series.Values[i] *= m
	}
}

func (w *eventScenario) index(at time.Time) int { return int(at.Sub(w.series.Start) / w.series.Step) }

func (w *eventScenario) learn() string {
	w.seen = w.index(w.time(w.arg("until")))
	past := w.series.slice(0, w.seen)
	_, w.learned = Learn(past, w.calendar, "")
	f, ok := WithEvents(NewSeasonalNaive(Options{}), w.calendar, "").(*Eventful)
	if !ok {
		w.d.Fatalf(w.t, "no event concerns the series")
	}
	w.must(f.Fit(past))
	w.f = f
	return ""
}

func (w *eventScenario) sizes() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, e := range w.calendar.events {
		if seen[e.Name] {
			continue
		}
		seen[e.Name] = true
		fmt.Fprintf(&b, "%s:", e.Name)
		for _, theta := range w.f.effects.past[e.Name] {
			if e.Like != nil {
				fmt.Fprintf(&b, " %.0f%%", 100*theta)
			} else {
				fmt.Fprintf(&b, " ×%.2f", math.Exp(theta))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (w *eventScenario) clean() string {
	n, with, without := 0, 0.0, 0.0
	for i := w.index(w.time(w.arg("from"))); i < w.index(w.time(w.arg("to"))); i++ {
		with += math.Abs(w.series.Values[i]/w.truth[i] - 1)
		without += math.Abs(w.learned.Values[i]/w.truth[i] - 1)
		n++
	}
	return fmt.Sprintf("demand is %.0f%% from the truth without events, what was learned from it %.0f%%",
		100*with/float64(n), 100*without/float64(n))
}

func (w *eventScenario) walk() string {
	var b strings.Builder
	to := w.index(w.time(w.arg("to")))
	every := int(w.duration(w.arg("every")) / w.series.Step)
	horizon := int(w.duration(w.arg("horizon")) / w.series.Step)
	for n := 0; w.seen <= to; n++ {
		if n%every == 0 {
			now := w.series.TimeAt(w.seen)
			e := w.f.Sample(horizon, blocksFor(w.series.slice(0, w.seen), 100, horizon))
			last := w.seen - 1
			came := fmt.Sprintf("×%.1f", w.series.Values[last]/w.truth[last])
			if math.IsNaN(w.series.Values[last]) {
				came = "missing"
			} else if w.series.AtLeast[last] {
				came = "at least " + came
			}
			fmt.Fprintf(&b, "%s demand %s, forecast ×%.2f", now.In(w.loc).Format("15:04"), came,
				e.Quantile(0.5, horizon-1)/w.truth[last+horizon])
			for _, a := range w.f.Ahead(now, now.Add(time.Duration(horizon)*w.series.Step)) {
				fmt.Fprintf(&b, "; %s ×%.2f from %s (%s)", a.Name, a.Multiplier, a.Start.In(w.loc).Format("Mon 15:04"), a.Why)
			}
			b.WriteString("\n")
		}
		w.f.Update(w.series.Values[w.seen], w.series.AtLeast[w.seen])
		w.seen++
	}
	return b.String()
}
