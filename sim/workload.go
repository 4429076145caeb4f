package sim

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"forewarm/planner"
)

// Workload describes what clients ask of one model: how many requests when, how they come in, and how long they are.
// It is a description; Generator is one seeded realisation.
//
// The expected rate at local wall-clock time t is
//
//	Requests · (1 − Σ shares) · Day(t) · Weekend? · Π bursts(t) · level(t)  +  Σ clients that are on
//
// so everyday users follow the day and the bursts, heavy clients only their own switch.
type Workload struct {
	// Requests is the mean over a working day without its bursts.
	Requests planner.RequestRate `yaml:"requests_per_s"`
	// Timezone is the IANA name of the wall clock that the day, the weekend and the bursts live in; empty is UTC.
	Timezone string `yaml:"timezone"`
	// Day is the load of a working day by local hour, in any unit: only ratios to the mean count. The value is that of
	// the middle of the hour; between two middles it is interpolated. Empty means constant.
	Day []float64 `yaml:"day"`
	// Weekend is the factor on Saturday and Sunday; nil means 1 (0 is a silent weekend).
	Weekend *float64 `yaml:"weekend"`
	// Bursts multiply the everyday load on working days.
	Bursts []Burst `yaml:"bursts"`
	// Level is the slow noise of the everyday load.
	Level Level `yaml:"level"`
	// Table is recorded demand in place of Day and Weekend; bursts and level apply on top of it.
	Table *RateTable `yaml:"table"`
	// Trace is recorded requests, in place of everything else but the timezone.
	Trace *TraceSpec `yaml:"trace"`
	// Holidays are dates, such as 2026-05-01, that are like a Sunday: the weekend's factor, no bursts.
	Holidays []string `yaml:"holidays"`
	// Clients are the heavy ones; all others are together.
	Clients []Client `yaml:"clients"`
	// ArrivalCV is the coefficient of variation of the Gamma-distributed inter-arrival times within a minute: 1 is a
	// Poisson process, more comes in trains.
	ArrivalCV  float64 `yaml:"arrival_cv"`
	Prompt     Lengths `yaml:"prompt"`
	Completion Lengths `yaml:"completion"`
}

// Burst is a rise at a fixed local time on working days: from its start the everyday load climbs within Rise to Multiple
// times what it would be, stays for Hold and is back after Fall. Both flanks are smoothsteps. Each day's multiple has its
// excess over 1 scaled by exp(N(0, Sigma)), and each day's start is moved by N(0, Jitter).
type Burst struct {
	At       time.Duration `yaml:"at"` // wall clock since local midnight
	Rise     time.Duration `yaml:"rise"`
	Hold     time.Duration `yaml:"hold"`
	Fall     time.Duration `yaml:"fall"`
	Multiple float64       `yaml:"multiple"`
	Sigma    float64       `yaml:"sigma"`
	Jitter   time.Duration `yaml:"jitter"`
	// On are the only dates, such as 2026-03-02, on which it comes, working days or not; none is every working day.
	On []string `yaml:"on"`
}

// Level is a slow multiplicative noise: the logarithm is a first-order autoregression with standard deviation Sigma whose
// correlation after one hour is HourCorrelation. The zero value is no noise.
type Level struct {
	Sigma           float64 `yaml:"sigma"`
	HourCorrelation float64 `yaml:"hour_correlation"`
}

// Client is one heavy client: it carries Share of Requests on average, and does so in plateaus: on for exponentially
// distributed times of mean On, off for mean Off. While it is on its rate is Share·Requests·(On+Off)/On. Off 0 means
// always on.
type Client struct {
	Name  string        `yaml:"name"`
	Share float64       `yaml:"share"`
	On    time.Duration `yaml:"on"`
	Off   time.Duration `yaml:"off"`
}

// Everyone is the Client of a Request that no heavy client sent.
const Everyone = "everyone"

// Limits on what a Workload may ask, so that a slip of the unit is an error and not an endless run.
const (
	requestRateMax = 1e6
	clientsMax     = 1000
	burstsMax      = 100
)

// Validate reports every field out of range, all at once, each with its key, the value and what is allowed.
func (w Workload) Validate() error {
	var p problems
	if w.Trace != nil {
		return w.validateTrace()
	}
	p.within("requests_per_s", float64(w.Requests), 0, requestRateMax)
	if w.Timezone == "Local" { // known to LoadLocation, but it would make the demand depend on the machine
		p.add("timezone is %q: an IANA time zone name is allowed", w.Timezone)
	} else if _, err := time.LoadLocation(w.Timezone); err != nil {
		p.add("timezone is %q: an IANA time zone name is allowed: %v", w.Timezone, err)
	}
	w.validateDay(&p)
	for i, b := range w.Bursts {
		p.nest(fmt.Sprintf("bursts[%d]", i), b.validate())
	}
	if w.Table != nil {
		p.nest("table", w.Table.validate())
		if len(w.Day) > 0 || w.Weekend != nil || len(w.Holidays) > 0 {
			p.add("table is there beside day, weekend or holidays: a table has its own days")
		}
	}
	for i, day := range w.Holidays {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			p.add("holidays[%d] is %q: a date such as 2026-05-01 is allowed", i, day)
		}
	}
	if len(w.Bursts) > burstsMax {
		p.add("bursts has %d entries: at most %d are allowed", len(w.Bursts), burstsMax)
	}
	p.within("level.sigma", w.Level.Sigma, 0, 2)
	p.within("level.hour_correlation", w.Level.HourCorrelation, 0, 0.999)
	w.validateClients(&p)
	p.within("arrival_cv", w.ArrivalCV, 0.1, 50)
	p.nest("prompt", w.Prompt.Validate())
	p.nest("completion", w.Completion.Validate())
	return p.err()
}

func (w Workload) validateTrace() error {
	var p problems
	p.nest("trace", w.Trace.validate())
	if _, err := time.LoadLocation(w.Timezone); err != nil || w.Timezone == "Local" {
		p.add("timezone is %q: an IANA time zone name is allowed", w.Timezone)
	}
	alone := Workload{Timezone: w.Timezone, Trace: w.Trace}
	if !reflect.DeepEqual(w, alone) {
		p.add("trace is there beside other demand: only timezone is allowed")
	}
	return p.err()
}

func (w Workload) validateDay(p *problems) {
	if n := len(w.Day); n != 0 && n != 24 {
		p.add("day has %d values: none or 24, one per local hour, are allowed", n)
	}
	sum := 0.0
	for h, v := range w.Day {
		p.within(fmt.Sprintf("day[%d]", h), v, 0, 1e9)
		sum += v
	}
	if len(w.Day) > 0 && sum == 0 {
		p.add("day is zero at every hour: at least one positive value is needed")
	}
	if w.Weekend != nil {
		p.within("weekend", *w.Weekend, 0, 100)
	}
}

func (w Workload) validateClients(p *problems) {
	if len(w.Clients) > clientsMax {
		p.add("clients has %d entries: at most %d are allowed", len(w.Clients), clientsMax)
	}
	sum, seen := 0.0, map[string]bool{Everyone: true}
	for i, c := range w.Clients {
		key := fmt.Sprintf("clients[%d]", i)
		if c.Name == "" || seen[c.Name] {
			p.add("%s.name is %q: a name that is not empty, not repeated and not %q is allowed", key, c.Name, Everyone)
		}
		seen[c.Name] = true
		sum += c.Share
		p.within(key+".share", c.Share, 0, 1)
		p.duration(key+".on", c.On, time.Minute, 8760*time.Hour)
		p.duration(key+".off", c.Off, 0, 8760*time.Hour)
	}
	if sum > 1 {
		p.add("clients: the shares add up to %v: at most 1 is allowed", sum)
	}
}

func (b Burst) validate() error {
	var p problems
	p.duration("at", b.At, 0, 24*time.Hour-time.Nanosecond)
	p.duration("rise", b.Rise, 0, 12*time.Hour)
	p.duration("hold", b.Hold, 0, 12*time.Hour)
	p.duration("fall", b.Fall, 0, 12*time.Hour)
	p.within("multiple", b.Multiple, 0, 1000)
	p.within("sigma", b.Sigma, 0, 2)
	p.duration("jitter", b.Jitter, 0, 2*time.Hour)
	for i, day := range b.On {
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			p.add("on[%d] is %q: a date such as 2026-05-01 is allowed", i, day)
		}
	}
	return p.err()
}

// problems collects everything wrong with an input.
type problems struct{ errs []error }

func (p *problems) add(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// within demands lo ≤ v ≤ hi; NaN is outside.
func (p *problems) within(key string, v, lo, hi float64) {
	if !(v >= lo && v <= hi) {
		p.add("%s is %v: %v to %v are allowed", key, v, lo, hi)
	}
}

func (p *problems) count(key string, v, lo, hi int) {
	if v < lo || v > hi {
		p.add("%s is %d: %d to %d are allowed", key, v, lo, hi)
	}
}

func (p *problems) duration(key string, v, lo, hi time.Duration) {
	if v < lo || v > hi {
		p.add("%s is %v: %v to %v are allowed", key, v, lo, hi)
	}
}

// nest adds each problem of a part under the part's key.
func (p *problems) nest(key string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			p.errs = append(p.errs, fmt.Errorf("%s.%w", key, e))
		}
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s.%w", key, err))
}

func (p *problems) err() error { return errors.Join(p.errs...) }
