package prom

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"forewarm/coldstart"
)

const (
	// startsMetric is the histogram that forewarmd exports of starts that served, failedMetric that of those that failed.
	startsMetric = "forewarm_start_seconds_bucket"
	failedMetric = "forewarm_failed_start_seconds_bucket"
	// startsStep is how finely the past is read: when a start was matters by days.
	startsStep = time.Hour
	// startsMax is how many starts of a path are read back, the newest: as many as a ledger keeps of a key.
	startsMax = 200
)

// Starts reads a model's starts back from what a forewarmd exported between from and to: the classic buckets of
// forewarm_start_seconds, which end at the first answer, and of forewarm_failed_start_seconds. A start is known as well as
// its bucket, which is 30 % wide; those of one bucket are spread over it evenly. One that is longer than the last bucket
// is a lower bound, or failed at that age. Its time is that of the hour in which it was counted. Several forewarmd watch
// the same starts, so of each hour the one that counted most is believed. A process that began anew within an hour has
// counted what it has at its end: what it counted in that hour before is lost. Phases are not read back. No series is no
// error: nothing was exported yet.
func (s *Source) Starts(ctx context.Context, name string, from, to time.Time) ([]coldstart.Sample, error) {
	if _, err := s.model(name); err != nil {
		return nil, err
	}
	var out []coldstart.Sample
	for metric, outcome := range map[string]coldstart.Outcome{startsMetric: coldstart.Served, failedMetric: coldstart.Failed} {
		m, err := s.client.matrix(ctx, fmt.Sprintf("%s{model=%s}", metric, strconv.Quote(name)), from.Truncate(startsStep), to, startsStep)
		if err != nil {
			return nil, fmt.Errorf("starts of %s: %w", name, err)
		}
		for path, of := range bucketsByPath(m) {
			samples := of.samples(name, path, outcome)
			slices.SortFunc(samples, func(a, b coldstart.Sample) int {
				return cmp.Or(-a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
			})
			out = append(out, samples[:min(len(samples), startsMax)]...)
		}
	}
	slices.SortFunc(out, func(a, b coldstart.Sample) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// bucketTable counts starts by hour and by the upper bound of their bucket, per process that counted them.
type bucketTable map[string]map[model.Time]map[float64]float64

// bucketsByPath turns cumulative counters into what each process counted in each hour.
func bucketsByPath(m model.Matrix) map[coldstart.Path]bucketTable {
	totals := map[coldstart.Path]bucketTable{}
	for _, series := range m {
		bound, err := strconv.ParseFloat(string(series.Metric["le"]), 64)
		path := coldstart.Path(series.Metric["path"])
		if err != nil || math.IsNaN(bound) || path != coldstart.PathUnknown && !slices.Contains(coldstart.Paths(), path) && path != "unknown" {
			continue // not ours
		}
		if path == "unknown" {
			path = coldstart.PathUnknown
		}
		who := series.Metric.Clone()
		delete(who, "le")
		if totals[path] == nil {
			totals[path] = bucketTable{}
		}
		t := totals[path][who.String()]
		if t == nil {
			t = map[model.Time]map[float64]float64{}
			totals[path][who.String()] = t
		}
		for _, p := range series.Values {
			if t[p.Timestamp] == nil {
				t[p.Timestamp] = map[float64]float64{}
			}
			t[p.Timestamp][bound] = float64(p.Value)
		}
	}
	for _, of := range totals {
		for who, t := range of {
			of[who] = increases(t)
		}
	}
	return totals
}

// increases turns a process's counters, by time, into what it counted since the time before; at the first time that is all
// of it.
func increases(totals map[model.Time]map[float64]float64) map[model.Time]map[float64]float64 {
	out := map[model.Time]map[float64]float64{}
	var before map[float64]float64
	for _, at := range slices.Sorted(maps.Keys(totals)) {
		now := totals[at]
		out[at] = now
		if since := less(now, before); since != nil {
			out[at] = since
		}
		before = now
	}
	return out
}

// less is what cumulative buckets counted since before. It is nil when the process has begun anew in between, which one
// bucket alone need not show: when any has fallen, or has grown by less than one of shorter starts.
func less(now, before map[float64]float64) map[float64]float64 {
	out := map[float64]float64{}
	most := 0.0
	for _, bound := range slices.Sorted(maps.Keys(now)) {
		d := now[bound] - before[bound]
		if d < most {
			return nil
		}
		out[bound], most = d, d
	}
	return out
}

// samples makes a start of every count.
func (b bucketTable) samples(name string, path coldstart.Path, outcome coldstart.Outcome) []coldstart.Sample {
	type cell struct {
		at     model.Time
		lo, hi float64
	}
	counts := map[cell]float64{}
	for _, hours := range b {
		for at, cumulative := range hours {
			bounds := make([]float64, 0, len(cumulative))
			for bound := range cumulative {
				bounds = append(bounds, bound)
			}
			slices.Sort(bounds)
			lo, below := 0.0, 0.0
			for _, hi := range bounds {
				c := cell{at, lo, hi}
				counts[c] = max(counts[c], cumulative[hi]-below)
				lo, below = hi, max(below, cumulative[hi])
			}
		}
	}
	var out []coldstart.Sample
	for c, n := range counts {
		n := min(int(n+.5), startsMax)
		for i := range n {
			s := coldstart.Sample{ID: fmt.Sprintf("prometheus:%s:%s:%s:%d:%g:%d", name, path, outcome, c.at, c.lo, i),
				Key: coldstart.Key{Model: name, Path: path}, Outcome: outcome}
			if math.IsInf(c.hi, 1) {
				s.Total = seconds(c.lo)
				if outcome == coldstart.Served {
					s.Outcome = coldstart.Pending // a lower bound
				}
			} else {
				s.Total = seconds(c.lo + (c.hi-c.lo)*(float64(i)+.5)/float64(n))
			}
			s.Started = c.at.Time().UTC().Add(-s.Total)
			if s.Validate() == nil {
				out = append(out, s)
			}
		}
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
