package sim

import (
	"errors"
	"fmt"
	"math"
	"time"

	"forewarm/forecast"
)

// RateTable is recorded demand as rates per step, which a Generator expands into seeded requests: their number in a
// minute is drawn with the rate as its mean and the workload's arrival_cv, their lengths from the workload's distributions,
// scaled to the step's mean where the table has tokens.
//
// A missing step continues the one before it: something was asked for then, and nobody knows how much. Before the first
// row and after the last nothing is asked for.
type RateTable struct {
	// File is a CSV as forewarm forecast reads it. Whoever loads the scenario fills Rates from it.
	File string `yaml:"file"`
	// Column holds the requests, in any unit when the workload's requests_per_s says what their mean is; else they are
	// requests/s. PromptColumn and CompletionColumn hold tokens per same unit of time and are optional, both or none.
	Column           string `yaml:"column"`
	PromptColumn     string `yaml:"prompt_column"`
	CompletionColumn string `yaml:"completion_column"`
	// MissingWhere, as column=value, marks rows that were not collected.
	MissingWhere string `yaml:"missing_where"`
	// Begin is when the first row happens in the world; without it, at its own time.
	Begin time.Time `yaml:"begin"`

	Rates, Prompt, Completion forecast.Series `yaml:"-"`
}

func (r *RateTable) validate() error {
	var p problems
	if r.File == "" {
		p.add("file is empty: a CSV file is needed")
	}
	if (r.PromptColumn == "") != (r.CompletionColumn == "") {
		p.add("prompt_column is %q and completion_column %q: both or none are allowed", r.PromptColumn, r.CompletionColumn)
	}
	return p.err()
}

// ErrRates marks a rate table that is not usable.
var ErrRates = errors.New("rate table")

// check reports what is wrong with the loaded rates: none, negative or gigantic ones.
func (r *RateTable) check() error {
	known := 0
	for i, v := range r.Rates.Values {
		if math.IsNaN(v) {
			continue
		}
		known++
		if v < 0 || v > 1e12 {
			return fmt.Errorf("%w %s: the rate at %s is %v: 0 to 1e12 are allowed", ErrRates, r.File,
				r.Rates.Start.Add(time.Duration(i)*r.Rates.Step).Format(time.RFC3339), v)
		}
	}
	if known == 0 {
		return fmt.Errorf("%w %s: no rates are known", ErrRates, r.File)
	}
	return nil
}

// tableRates is a loaded table on the world's clock, without missing steps.
type tableRates struct {
	start              int64 // Unix nanoseconds
	step               int64
	rates              []float64 // requests/s
	prompt, completion []float64 // factors on the workload's mean lengths; nil is 1
}

func newTableRates(r *RateTable, mean float64, promptMean, completionMean float64) (*tableRates, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	start := r.Rates.Start
	if !r.Begin.IsZero() {
		start = r.Begin
	}
	t := &tableRates{start: start.UnixNano(), step: int64(r.Rates.Step), rates: filled(r.Rates.Values)}
	if r.PromptColumn != "" {
		t.prompt = factors(filled(r.Prompt.Values), t.rates, promptMean)
		t.completion = factors(filled(r.Completion.Values), t.rates, completionMean)
	}
	if mean > 0 {
		sum := 0.0
		for _, v := range t.rates {
			sum += v
		}
		if sum == 0 {
			return nil, fmt.Errorf("%w %s: every rate is 0, which no factor makes %v requests/s", ErrRates, r.File, mean)
		}
		for i := range t.rates {
			t.rates[i] *= mean * float64(len(t.rates)) / sum
		}
	}
	return t, nil
}

// filled replaces missing values by the last one known, leading ones by the first.
func filled(values []float64) []float64 {
	out := make([]float64, len(values))
	last := math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) {
			last = v
			break
		}
	}
	for i, v := range values {
		if !math.IsNaN(v) {
			last = v
		}
		out[i] = last
	}
	return out
}

// factors are the mean lengths of each step over the usual one; a step without requests has 1.
func factors(tokens, rates []float64, mean float64) []float64 {
	out := make([]float64, len(rates))
	for i := range rates {
		out[i] = 1
		if rates[i] > 0 && i < len(tokens) && tokens[i] > 0 {
			out[i] = tokens[i] / rates[i] / mean
		}
	}
	return out
}

// at is the rate at an instant, and the factors on the lengths.
func (t *tableRates) at(now int64) (rate, prompt, completion float64) {
	i := floorDiv(now-t.start, t.step)
	if i < 0 || i >= int64(len(t.rates)) {
		return 0, 1, 1
	}
	prompt, completion = 1, 1
	if t.prompt != nil {
		prompt, completion = t.prompt[i], t.completion[i]
	}
	return t.rates[i], prompt, completion
}
