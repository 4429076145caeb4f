package main

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"forewarm/sim"
)

// html writes the comparison as one page that needs no network: the table, and for each policy demand and replicas by
// state over time, requests waiting, and GPU-hours by cause.
func (r *simulation) html(out io.Writer) error {
	var table strings.Builder
	r.table(&table)
	page := struct {
		Title, About, Table string
		Policies            []policyPage
	}{Title: r.scenario.Name, About: r.scenario.Description, Table: table.String()}
	most, waiting, hours := 1.0, 1.0, 1.0
	for i := range r.scores {
		for _, m := range r.scores[i].Timeline {
			most = max(most, float64(m.Need), float64(m.Ready+m.Starting+m.Pending))
			waiting = max(waiting, float64(m.Waiting))
		}
		hours = max(hours, held(&r.scores[i]))
	}
	for i := range r.scores {
		page.Policies = append(page.Policies, newPolicyPage(&r.scores[i], r.scenario.World.Start.Location(), most, waiting, hours))
	}
	return simulationPage.Execute(out, page)
}

// policyPage is one policy's plots: SVG paths and bars in a box of plotWidth by plotHeight. All policies share the scales,
// so that they can be compared.
type policyPage struct {
	Name, Need, Ready, Coming, Waiting string
	Most, MostWaiting                  string
	From, To                           string
	Causes                             []causeBar
}

type causeBar struct {
	Name, Color, Hours string
	X, Width           float64
}

const (
	plotWidth  = 720.0
	plotHeight = 120.0
)

func newPolicyPage(s *sim.Score, loc *time.Location, most, waiting, hours float64) policyPage {
	p := policyPage{Name: s.Policy, Most: fmt.Sprintf("%.0f", most), MostWaiting: fmt.Sprintf("%.0f", waiting)}
	if n := len(s.Timeline); n > 0 {
		p.From, p.To = s.Timeline[0].At.In(loc).Format("Mon 15:04"), s.Timeline[n-1].At.In(loc).Format("Mon 15:04 -07:00")
	}
	p.Need = stepPath(s.Timeline, most, func(m sim.Moment) int { return m.Need })
	p.Ready = stepPath(s.Timeline, most, func(m sim.Moment) int { return m.Ready })
	p.Coming = stepPath(s.Timeline, most, func(m sim.Moment) int { return m.Ready + m.Starting + m.Pending })
	p.Waiting = stepPath(s.Timeline, waiting, func(m sim.Moment) int { return m.Waiting })
	g, x := s.GPUHours, 0.0
	for _, c := range []causeBar{
		{Name: "serving", Color: "#2b7a4b", Width: g.Serving}, {Name: "warm", Color: "#d9a441", Width: g.Warm},
		{Name: "starting", Color: "#b5493a", Width: g.Starting}, {Name: "draining", Color: "#777777", Width: g.Draining},
	} {
		c.Hours = fmt.Sprintf("%.1f", c.Width)
		c.X, c.Width = x, c.Width/hours*plotWidth
		x += c.Width
		p.Causes = append(p.Causes, c)
	}
	return p
}

// stepPath is a staircase, as SVG path data. Long timelines are thinned to the largest value of each pixel.
func stepPath(ms []sim.Moment, most float64, of func(sim.Moment) int) string {
	var b strings.Builder
	per := max(1, int(math.Ceil(float64(len(ms))/plotWidth)))
	for i := 0; i < len(ms); i += per {
		top := 0
		for _, m := range ms[i:min(i+per, len(ms))] {
			top = max(top, of(m))
		}
		x, y := float64(i)/float64(len(ms))*plotWidth, plotHeight*(1-float64(top)/most)
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f %.1f", x, y)
		} else {
			fmt.Fprintf(&b, "H%.1fV%.1f", x, y)
		}
	}
	fmt.Fprintf(&b, "H%.1f", plotWidth)
	return b.String()
}

var simulationPage = template.Must(template.New("simulation").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222 }
pre { font: 12px/1.4 ui-monospace, monospace; overflow-x: auto }
svg { background: #f7f7f5; display: block; margin: 0 0 .3em } path { fill: none; stroke-width: 1.5 }
.need { stroke: #222; stroke-dasharray: 4 3 } .ready { stroke: #2b7a4b } .coming { stroke: #d9a441 } .waiting { stroke: #b5493a }
.key { color: #666 }
</style>
<h1>{{.Title}}</h1>
<p>{{.About}}</p>
<pre>{{.Table}}</pre>
{{range .Policies}}<h2>{{.Name}}</h2>
<svg width="720" height="120" role="img" aria-label="replicas of {{.Name}}"><path class="coming" d="{{.Coming}}"/>
<path class="ready" d="{{.Ready}}"/><path class="need" d="{{.Need}}"/></svg>
<p class="key">replicas, 0 to {{.Most}}, {{.From}} to {{.To}}: ready (green), with starting and pending ones (yellow), needed (dashed)</p>
<svg width="720" height="120" role="img" aria-label="requests waiting under {{.Name}}"><path class="waiting" d="{{.Waiting}}"/></svg>
<p class="key">requests waiting, 0 to {{.MostWaiting}}</p>
<svg width="720" height="16" role="img" aria-label="GPU-hours of {{.Name}}">{{range .Causes}}<rect x="{{.X}}" width="{{.Width}}" height="16" fill="{{.Color}}"/>{{end}}</svg>
<p class="key">GPU-hours:{{range .Causes}} {{.Name}} {{.Hours}}{{end}}</p>
{{end}}</html>
`))
