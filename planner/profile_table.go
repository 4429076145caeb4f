package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// RateTable is a profile by measurement alone: the requests per second that one replica carries within its SLO, for
// requests of a number of prompt tokens and a number of completion tokens. PerSecond[i][k] belongs to Prompts[i] and
// Completions[k].
//
// Between the measured sizes the time per request, 1/rate, is interpolated linearly, which is exact as long as a request
// costs a sum of its tokens; beyond them it is extended along the last two sizes and never falls below what the nearest
// size costs.
type RateTable struct {
	Prompts     []Tokens        `json:"prompt_tokens" yaml:"prompt_tokens"`
	Completions []Tokens        `json:"completion_tokens" yaml:"completion_tokens"`
	PerSecond   [][]RequestRate `json:"requests_per_s" yaml:"requests_per_s"`
	// Requests is the mix that is sized for where the real one is not known. Its spreads are not used.
	Requests RequestMix `json:"requests" yaml:"requests"`
}

// Validate reports every field out of range: sizes ascend, at least two of each, one positive rate for each pair.
func (t *RateTable) Validate() error {
	var errs []error
	sizes := func(key string, v []Tokens) {
		if len(v) < 2 || len(v) > 1000 {
			errs = append(errs, fmt.Errorf("profile.table.%s has %d sizes: 2 to 1000 are allowed", key, len(v)))
		}
		for i := range v {
			if !(v[i] >= 1 && v[i] <= 1e8) || i > 0 && !(v[i] > v[i-1]) {
				errs = append(errs, fmt.Errorf("profile.table.%s[%d] is %v: ascending numbers of 1 to 1e+08 tokens are allowed", key, i, v[i]))
			}
		}
	}
	sizes("prompt_tokens", t.Prompts)
	sizes("completion_tokens", t.Completions)
	if len(t.PerSecond) != len(t.Prompts) {
		errs = append(errs, fmt.Errorf("profile.table.requests_per_s has %d rows: %d are allowed, one for each of prompt_tokens",
			len(t.PerSecond), len(t.Prompts)))
	}
	for i, row := range t.PerSecond {
		if len(row) != len(t.Completions) {
			errs = append(errs, fmt.Errorf("profile.table.requests_per_s[%d] has %d rates: %d are allowed, one for each of completion_tokens",
				i, len(row), len(t.Completions)))
		}
		for k, v := range row {
			if !(v > 0) || math.IsInf(float64(v), 0) {
				errs = append(errs, fmt.Errorf("profile.table.requests_per_s[%d][%d] is %v: a positive, finite number is allowed", i, k, float64(v)))
			}
		}
	}
	if err := t.Requests.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("profile.table: %w", err))
	}
	return errors.Join(errs...)
}

// rates are the rates of prompts and completions alone whose sum carries requests of the mean size at the table's rate.
// The split is by how the time per request grows with either size.
func (t *RateTable) rates(m RequestMix) Profile {
	i, k := segment(t.Prompts, m.Prompt), segment(t.Completions, m.Completion)
	time := func(i, k int) float64 { return 1 / float64(t.PerSecond[i][k]) } // replica-seconds a request
	p0, p1, c0, c1 := float64(t.Prompts[i]), float64(t.Prompts[i+1]), float64(t.Completions[k]), float64(t.Completions[k+1])
	u, v := (float64(m.Prompt)-p0)/(p1-p0), (float64(m.Completion)-c0)/(c1-c0)
	at := (1-u)*(1-v)*time(i, k) + u*(1-v)*time(i+1, k) + (1-u)*v*time(i, k+1) + u*v*time(i+1, k+1)
	u, v = min(max(u, 0), 1), min(max(v, 0), 1)
	nearest := (1-u)*(1-v)*time(i, k) + u*(1-v)*time(i+1, k) + (1-u)*v*time(i, k+1) + u*v*time(i+1, k+1)
	if m.Prompt >= t.Prompts[0] && m.Completion >= t.Completions[0] {
		at = max(at, nearest)
	} else {
		at = nearest // smaller requests than any measured cost as much as the smallest
	}
	perPrompt := ((1-v)*(time(i+1, k)-time(i, k)) + v*(time(i+1, k+1)-time(i, k+1))) / (p1 - p0)
	perCompletion := ((1-u)*(time(i, k+1)-time(i, k)) + u*(time(i+1, k+1)-time(i+1, k))) / (c1 - c0)
	prompt, completion := max(perPrompt*float64(m.Prompt), 0), max(perCompletion*float64(m.Completion), 0)
	if prompt+completion == 0 {
		prompt, completion = 1, 1 // a table that grows with nothing: half each
	}
	least := 1e-6 * (prompt + completion)
	prompt, completion = max(prompt, least), max(completion, least)
	scale := (prompt + completion) / at
	return Profile{
		Prompt:     TokenRate(float64(m.Prompt) * scale / prompt),
		Completion: TokenRate(float64(m.Completion) * scale / completion),
	}
}

// segment is the index of the pair of neighbouring sizes that v lies between, or the pair nearest to it.
func segment(sizes []Tokens, v Tokens) int {
	i, found := slices.BinarySearch(sizes, v)
	if !found {
		i--
	}
	return min(max(i, 0), len(sizes)-2)
}
