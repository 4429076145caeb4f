package planner

import (
	"math"
	"slices"
)

// FitReport is how well coefficients that were fitted on some of the runs predict the others. Errors are relative to the
// measured TPOT.
type FitReport struct {
	Groups []GroupFit `json:"groups"`
	// Pooled is over the runs of all groups that do not mostly wait, each predicted from the other concurrencies of its
	// group; Blind is the same for α + b·N, which knows no sizes; All includes the runs that mostly wait; Highest are the
	// runs at the highest concurrency of each group.
	Pooled  FitErrors `json:"pooled"`
	Blind   FitErrors `json:"blind"`
	All     FitErrors `json:"all"`
	Highest FitErrors `json:"highest"`
}

// GroupFit is one group.
type GroupFit struct {
	Group        string        `json:"group"` // the Setup in one line
	Setup        Setup         `json:"setup"`
	Coefficients *Coefficients `json:"coefficients"`   // of all its runs; nil with Why
	Why          string        `json:"why,omitempty"`  // why it has no coefficients or no held-out errors
	Date         string        `json:"date,omitempty"` // of its newest run, when known
	Errors       FitErrors     `json:"errors"`
	Blind        FitErrors     `json:"blind"`
	Runs         []RunFit      `json:"runs"`
}

// RunFit is one run and what the others predict for it; Predicted and Error are nil when they do not.
type RunFit struct {
	Line        int           `json:"line"`
	Concurrency float64       `json:"concurrency"`
	Prompt      Tokens        `json:"prompt_tokens"`
	Completion  Tokens        `json:"completion_tokens"`
	Measured    Milliseconds  `json:"tpot_ms"`
	Predicted   *Milliseconds `json:"predicted_ms"`
	Error       *float64      `json:"error"` // predicted/measured − 1
	// Waits marks a run that spends more than 15 % of its time before the first token; it is reported apart.
	Waits bool `json:"waits,omitempty"`
}

// FitErrors sums absolute relative errors up.
type FitErrors struct {
	Runs   int      `json:"runs"`
	Median *float64 `json:"median"` // nil of none
	P90    *float64 `json:"p90"`
}

func errorsOf(off []float64) FitErrors {
	e := FitErrors{Runs: len(off)}
	if len(off) > 0 {
		m, p := median(off), quantileOf(off, 0.9)
		e.Median, e.P90 = &m, &p
	}
	return e
}

// FitProfiles fits every group of the runs, and predicts each run from those of its group at other concurrencies.
func FitProfiles(runs []Measurement) FitReport {
	var report FitReport
	var pooled, blind, all, highest []float64
	for _, group := range bySetup(runs) {
		g, blinds := fitGroup(group)
		top := math.Inf(-1)
		for _, r := range g.Runs {
			if r.Error != nil && !r.Waits {
				top = max(top, r.Concurrency)
			}
		}
		var off []float64
		for _, r := range g.Runs {
			if r.Error == nil {
				continue
			}
			e := math.Abs(*r.Error)
			all = append(all, e)
			if r.Waits {
				continue
			}
			off = append(off, e)
			if r.Concurrency == top {
				highest = append(highest, e)
			}
		}
		g.Errors, g.Blind = errorsOf(off), errorsOf(blinds)
		pooled, blind = append(pooled, off...), append(blind, blinds...)
		report.Groups = append(report.Groups, g)
	}
	report.Pooled, report.Blind, report.All, report.Highest = errorsOf(pooled), errorsOf(blind), errorsOf(all), errorsOf(highest)
	return report
}

// fitGroup returns the fit of one group and the errors of α + b·N on the same runs.
func fitGroup(group []Measurement) (GroupFit, []float64) {
	g := GroupFit{Group: group[0].Setup.String(), Setup: group[0].Setup}
	var levels []float64
	for _, m := range group {
		levels = append(levels, m.Concurrency)
		g.Date = max(g.Date, m.Date)
	}
	slices.Sort(levels)
	held := map[float64]func(*Measurement) (own, blind *Milliseconds){}
	for _, level := range slices.Compact(levels) {
		held[level] = withoutLevel(group, level)
	}
	if c, err := FitCoefficients(group); err == nil {
		g.Coefficients = &c
	} else {
		g.Why = err.Error()
	}
	var blinds []float64
	for i := range group {
		m := &group[i]
		r := RunFit{Line: m.Line, Concurrency: m.Concurrency, Prompt: m.Prompt, Completion: m.Completion, Measured: m.TPOT, Waits: m.waits()}
		own, blind := held[m.Concurrency](m)
		if own != nil {
			e := float64(*own/m.TPOT) - 1
			r.Predicted, r.Error = own, &e
			if blind != nil && !r.Waits {
				blinds = append(blinds, math.Abs(float64(*blind/m.TPOT)-1))
			}
		} else if g.Why == "" {
			g.Why = "without one concurrency, the others do not identify the coefficients"
		}
		g.Runs = append(g.Runs, r)
	}
	return g, blinds
}

// withoutLevel fits the runs at other concurrencies and returns what they predict for a run, and what α + b·N does.
func withoutLevel(group []Measurement, level float64) func(*Measurement) (own, blind *Milliseconds) {
	others := slices.DeleteFunc(slices.Clone(group), func(m Measurement) bool { return m.Concurrency == level })
	c, err := FitCoefficients(others)
	if err != nil {
		return func(*Measurement) (own, blind *Milliseconds) { return nil, nil }
	}
	var rows [][]float64
	for _, m := range others {
		if !m.waits() {
			rows = append(rows, []float64{1 / float64(m.TPOT), m.Concurrency / float64(m.TPOT)})
		}
	}
	b := huberFit(rows)
	return func(m *Measurement) (own, blind *Milliseconds) {
		v, w := c.TPOT(m), Milliseconds(b[0]+b[1]*m.Concurrency)
		return &v, &w
	}
}
