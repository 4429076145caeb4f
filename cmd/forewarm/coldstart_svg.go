package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"forewarm/coldstart"
)

// The measures of the drawing, in pixels.
const (
	svgWidth  = 960
	svgLeft   = 20
	svgBar    = svgWidth - 2*svgLeft
	svgRow    = 62
	svgLegend = 20
)

// phaseColours follow the order of a start: nodes blue, pod green, engine orange to red, the unexplained grey.
var phaseColours = map[coldstart.Phase]string{
	coldstart.NodeLaunch: "#1f4e79", coldstart.NodeRegister: "#3a76ad", coldstart.NodeReady: "#7fb0da",
	coldstart.Schedule: "#8064a2", coldstart.ImagePull: "#2e7d32", coldstart.ContainerStart: "#81c784",
	coldstart.Retry: "#5d4037", coldstart.EngineBootstrap: "#c0a030", coldstart.WeightDownload: "#e0b000",
	coldstart.WeightLoad: "#f08c00", coldstart.EngineInit: "#e05a20", coldstart.Compile: "#d84315",
	coldstart.GraphCapture: "#b03a2e", coldstart.WarmUp: "#8e2430", coldstart.PodReady: "#607d8b",
	coldstart.FirstToken: "#00838f", coldstart.Unattributed: "#d0d0d0",
}

// svg draws every start as one bar on a common scale of seconds, segment by segment. The same starts give the same bytes.
func (r *startReport) svg(w io.Writer) error {
	longest := 1.0
	used := map[coldstart.Phase]bool{}
	for _, s := range r.starts {
		longest = max(longest, s.Total.Seconds())
		for p := range s.Phases {
			used[p] = true
		}
	}
	var b strings.Builder
	height := svgRow*len(r.starts) + svgLegend*(len(used)/4+1) + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="sans-serif" font-size="12">`+"\n", svgWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", svgWidth, height)
	for i, s := range r.starts {
		y := 20 + svgRow*i
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", svgLeft, y,
			escaped(fmt.Sprintf("%s  %s  %s %s", s.Pod, s.Key, s.Outcome, formatSeconds(s.Total))))
		for _, g := range s.Segments {
			x := svgLeft + svgBar*g.From.Seconds()/longest
			fmt.Fprintf(&b, `<rect x="%.2f" y="%d" width="%.2f" height="22" fill="%s"><title>%s</title></rect>`+"\n",
				x, y+8, svgBar*(g.To-g.From).Seconds()/longest, phaseColours[g.Phase],
				escaped(fmt.Sprintf("%s %s, from %s", g.Phase, formatSeconds(g.To-g.From), g.Source)))
		}
	}
	n := 0
	for _, p := range coldstart.Phases() {
		if !used[p] {
			continue
		}
		x, y := svgLeft+n%4*svgBar/4, 10+svgRow*len(r.starts)+svgLegend*(n/4+1)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-10, phaseColours[p], x+18, y, p)
		n++
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func escaped(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err) // a strings.Builder does not fail
	}
	return b.String()
}
