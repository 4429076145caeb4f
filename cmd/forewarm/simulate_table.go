package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"forewarm/sim"
)

// simulation is what a run of simulate found.
type simulation struct {
	scenario sim.Scenario
	sets     []string
	scores   []sim.Score
	wall     time.Duration
}

// table prints the comparison. Its first lines do not depend on the machine; how long it took is the caller's to say.
func (r *simulation) table(out io.Writer) {
	s := r.scenario
	fmt.Fprintf(out, "%s: %s\n", s.Name, s.Description)
	fmt.Fprintf(out, "%s from %s, seed %d, profile wrong by up to %.0f %%, metrics %v old\n\n", s.Duration,
		s.World.Start.Format(time.RFC3339), s.Seed, 100*s.ProfileError, s.ScrapeLag)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\trequests\twithin SLO\tTTFT p50\tp99\tITL p99\trejected\tgave up\tlost\tSLO min lost\tGPU-hours\tof bound\tcost\t"+
		"starts\tchurn\t")
	for i := range r.scores {
		x := &r.scores[i]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t%d\t%.0f\t\n", x.Policy, x.Requests, percent(x.AttainedShare),
			seconds(x.TTFT.P50), seconds(x.TTFT.P99), seconds(x.ITL.P99), x.Rejected, x.TimedOut, x.Lost, x.MinutesBelowSLO,
			held(x), ratio(x), dollars(x.CostUSD), x.Starts, x.Churn)
	}
	w.Flush()
	fmt.Fprintln(out, "\nGPU-hours by cause:")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tserving\twarm\tstarting\tdraining\tothers\tfree\tall\t")
	for i := range r.scores {
		g := r.scores[i].GPUHours
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", r.scores[i].Policy, g.Serving, g.Warm, g.Starting, g.Draining,
			g.Others, g.Free, g.Serving+g.Warm+g.Starting+g.Draining+g.Others+g.Free)
	}
	w.Flush()
}

// held are the GPU-hours that replicas held, whatever they did.
func held(s *sim.Score) float64 {
	g := s.GPUHours
	return g.Serving + g.Warm + g.Starting + g.Draining
}

// ratio compares the GPU-hours held with the least that anybody needs for the same attainment.
func ratio(s *sim.Score) string {
	if s.LowerBound <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", held(s)/s.LowerBound)
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100**share)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }

func dollars(usd *float64) string {
	if usd == nil {
		return "no price"
	}
	return fmt.Sprintf("$%.0f", *usd)
}

type scoreJSON struct {
	Policy     string             `json:"policy"`
	Attainment *float64           `json:"slo_attainment"`
	TTFT       quantilesJSON      `json:"ttft_seconds"`
	ITL        quantilesJSON      `json:"itl_seconds"`
	Rejected   int64              `json:"rejected"`
	TimedOut   int64              `json:"timed_out"`
	Lost       int64              `json:"lost"`
	GPUHours   float64            `json:"gpu_hours"`
	ByCause    map[string]float64 `json:"gpu_hours_by_cause"`
	CostUSD    *float64           `json:"cost_usd"`
	Starts     int64              `json:"replica_starts"`
	Churn      float64            `json:"churn"`
	BelowSLO   int                `json:"minutes_below_slo"`
	// Ratio is GPU-hours over the lower bound for the same attainment; null without one.
	Ratio *float64 `json:"ratio_to_oracle"`
}

type quantilesJSON struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

type simulationJSON struct {
	Scenario string      `json:"scenario"`
	Set      []string    `json:"set,omitempty"` // what a sweep changed
	Seed     uint64      `json:"seed"`
	Requests int64       `json:"requests"`
	Wall     float64     `json:"wall_seconds"`
	Policies []scoreJSON `json:"policies"`
}

func (r *simulation) json() simulationJSON {
	out := simulationJSON{Scenario: r.scenario.Name, Set: r.sets, Seed: r.scenario.Seed, Wall: r.wall.Seconds(), Policies: []scoreJSON{}}
	quantiles := func(q sim.Quantiles) quantilesJSON {
		return quantilesJSON{q.P50.Seconds(), q.P95.Seconds(), q.P99.Seconds()}
	}
	for i := range r.scores {
		x := &r.scores[i]
		g := x.GPUHours
		out.Requests = x.Requests
		var toBound *float64
		if x.LowerBound > 0 {
			v := held(x) / x.LowerBound
			toBound = &v
		}
		out.Policies = append(out.Policies, scoreJSON{
			Policy: x.Policy, Attainment: x.AttainedShare, TTFT: quantiles(x.TTFT), ITL: quantiles(x.ITL),
			Rejected: x.Rejected, TimedOut: x.TimedOut, Lost: x.Lost, GPUHours: held(x),
			ByCause: map[string]float64{"serving": g.Serving, "warm": g.Warm, "starting": g.Starting, "draining": g.Draining,
				"others": g.Others, "unallocated": g.Free},
			CostUSD: x.CostUSD, Starts: x.Starts, Churn: x.Churn, BelowSLO: x.MinutesBelowSLO, Ratio: toBound,
		})
	}
	return out
}
