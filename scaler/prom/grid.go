package prom

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"forewarm/forecast"
	"forewarm/planner"
)

// grid is a stretch of whole steps: step i covers [start+i·step, +step) and is read at its end.
type grid struct {
	start time.Time
	step  time.Duration
	n     int
}

// newGrid returns the whole steps of [from, to), aligned to the epoch.
func newGrid(from, to time.Time, step time.Duration) grid {
	start := time.Unix(0, from.UnixNano()-from.UnixNano()%int64(step)).UTC()
	if start.Before(from) {
		start = start.Add(step)
	}
	return grid{start, step, max(0, int(to.Sub(start)/step))}
}

// end is the instant at which step i is read.
func (g grid) end(i int) time.Time { return g.start.Add(time.Duration(i+1) * g.step) }

// slice is steps [lo, hi).
func (g grid) slice(lo, hi int) grid {
	return grid{g.start.Add(time.Duration(lo) * g.step), g.step, hi - lo}
}

// columns are the values of expressions on a grid, by key. A step without a value is NaN.
type columns map[string][]float64

// column returns the values of a key, all missing when the answer had none.
func (c columns) column(key string, n int) []float64 {
	if v, ok := c[key]; ok {
		return v
	}
	return missing(n)
}

// paste puts the columns of a part of the grid, which begins at step lo, in their place.
func (c columns) paste(part columns, g grid, lo int) {
	for key, values := range part {
		if c[key] == nil {
			c[key] = missing(g.n)
		}
		copy(c[key][lo:], values)
	}
}

func missing(n int) []float64 {
	return slices.Repeat([]float64{math.NaN()}, n)
}

// decode places the answer to a combined query on the grid, each sample by its own time, in whatever order they come.
// Infinite and negative values are missing: no rate or count is one. A step that was answered twice with different
// values is missing. A sample between two steps, or a series without key, is an error: the answer is not to our query.
func decode(m model.Matrix, g grid) (columns, error) {
	out := columns{}
	first := model.TimeFromUnixNano(g.end(0).UnixNano())
	stepMillis := int64(g.step / time.Millisecond)
	for _, series := range m {
		key := string(series.Metric[factLabel])
		if key == "" {
			return nil, fmt.Errorf("a series %v in the answer bears no %s", series.Metric, factLabel)
		}
		column, again := out[key]
		if !again {
			column = missing(g.n)
			out[key] = column
		}
		var clash []int
		seen := make([]bool, g.n)
		for _, p := range series.Values {
			offset := int64(p.Timestamp - first)
			i := int(offset / stepMillis)
			if offset < 0 || offset%stepMillis != 0 || i >= g.n {
				return nil, fmt.Errorf("%s: a sample at %v is off the grid of %d steps of %v from %v", key,
					p.Timestamp.Time().UTC(), g.n, g.step, g.start)
			}
			v := float64(p.Value)
			if math.IsInf(v, 0) || v < 0 {
				v = math.NaN()
			}
			if (seen[i] || (again && !math.IsNaN(column[i]))) && !same(column[i], v) {
				clash = append(clash, i)
			}
			seen[i], column[i] = true, v
		}
		for _, i := range clash {
			column[i] = math.NaN()
		}
	}
	return out, nil
}

func same(a, b float64) bool { return a == b || (math.IsNaN(a) && math.IsNaN(b)) }

// byKey reads the answer to a combined instant query. Values that are not finite are kept, for the caller to report.
func byKey(v model.Vector) map[string]float64 {
	out := map[string]float64{}
	for _, s := range v {
		out[string(s.Metric[factLabel])] = float64(s.Value)
	}
	return out
}

// load makes a LoadHistory of the columns whose keys begin with prefix, by the rules of the package comment. It also
// says where the values come from and how many steps are lower bounds because replicas went unseen.
func (r *resolved) load(c columns, prefix string, g grid) (h planner.LoadHistory, from string, unseen int) {
	fromGateway, fromReplicas := r.covered(c, prefix, g)
	waiting, queue := c.column(prefix+keyWaiting, g.n), c.column(prefix+keyQueue, g.n)
	reporting, ready := c.column(prefix+keyReporting, g.n), c.column(prefix+keyReady, g.n)
	var usedGateway, usedReplicas bool
	partly := make([]bool, g.n) // replicas went unseen and the value is theirs
	series := func(f Fact) forecast.Series {
		out := forecast.Series{Start: g.start, Step: g.step, Values: missing(g.n)}
		gateway, served := c.column(prefix+"gateway."+string(f), g.n), c.column(prefix+"served."+string(f), g.n)
		for i := range out.Values {
			bound := waiting[i] > 0 || queue[i] > 0
			switch {
			case fromGateway[i] && !math.IsNaN(gateway[i]):
				out.Values[i], usedGateway = gateway[i], true
			case fromReplicas[i] && !math.IsNaN(served[i]):
				out.Values[i], usedReplicas = served[i], true
				if ready[i] > 0 && !(reporting[i] >= ready[i]) {
					bound, partly[i] = true, true
				}
			default:
				continue
			}
			if bound {
				if out.AtLeast == nil {
					out.AtLeast = make([]bool, g.n)
				}
				out.AtLeast[i] = true
			}
		}
		return out
	}
	h = planner.LoadHistory{Prompt: series(FactPrompt), Completion: series(FactCompletion)}
	from = loadSource(usedGateway, usedReplicas) // of tokens, which decide
	h.Requests = series(FactRequests)
	for _, p := range partly {
		if p {
			unseen++
		}
	}
	return h, from, unseen
}

// covered reports, for each step, whether the gateway's and the replicas' counters missed no scrape.
func (r *resolved) covered(c columns, prefix string, g grid) (gateway, replicas []bool) {
	gateway, replicas = make([]bool, g.n), make([]bool, g.n)
	fill := func(out []bool, src *source, key string) {
		if !src.known() {
			return
		}
		samples, need := c.column(prefix+key, g.n), float64(src.need())
		for i := range out {
			out[i] = samples[i] >= need
		}
	}
	fill(gateway, r.gateway, keyGatewayCover)
	fill(replicas, r.served, keyServedCover)
	return gateway, replicas
}

func loadSource(gateway, replicas bool) string {
	switch {
	case gateway && replicas:
		return "arrivals at the gateway, served tokens where it has none"
	case gateway:
		return "arrivals at the gateway"
	case replicas:
		return "served tokens"
	}
	return ""
}
