package planner

import (
	"errors"
	"fmt"
	"math"
	"time"

	"forewarm/forecast"
)

// TokenRate is a rate of tokens per second. Prompt and completion rates are different quantities and never added up.
type TokenRate float64

// RequestRate is a rate of requests per second.
type RequestRate float64

// Tokens is a number of tokens.
type Tokens float64

// Load is what clients ask of a model. Requests is informative and may be 0 when it is not measured; Prompt and
// Completion decide sizes.
type Load struct {
	Prompt     TokenRate   `json:"prompt_tokens_per_s"`
	Completion TokenRate   `json:"completion_tokens_per_s"`
	Requests   RequestRate `json:"requests_per_s,omitempty"`
}

// String prints the load as the Steps do.
func (l Load) String() string {
	return fmt.Sprintf("%.0f prompt + %.0f completion tok/s", float64(l.Prompt), float64(l.Completion))
}

// mixRequests is the rate of requests from which on the mean sizes of one step say something: at half of it a minute has
// 150 requests, and widely spread sizes move their mean by a fifth by chance.
const mixRequests RequestRate = 5

// mix is the mean sizes of the requests in the load; ok is false when they are unknown or too few to tell.
func (l Load) mix() (m RequestMix, ok bool) {
	if l.Requests < mixRequests || !l.finite() {
		return RequestMix{}, false
	}
	return RequestMix{Prompt: Tokens(max(1, float64(l.Prompt)/float64(l.Requests))),
		Completion: Tokens(max(1, float64(l.Completion)/float64(l.Requests)))}, true
}

// finite reports whether every part is a usable number: finite and not negative.
func (l Load) finite() bool {
	for _, v := range []float64{float64(l.Prompt), float64(l.Completion), float64(l.Requests)} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return true
}

// ObservedLoad is the newest known load of a model.
type ObservedLoad struct {
	Load
	// At is the end of the step the load was measured over.
	At time.Time `json:"at"`
	// LowerBound marks a throughput taken while requests waited: clients asked for at least this much.
	LowerBound bool `json:"lower_bound,omitempty"`
	// Source says where the rates come from, for people: "arrivals at the gateway", "served tokens".
	Source string `json:"source,omitempty"`
}

// LoadHistory is a stretch of load on one time grid, the form in which sources hand it over. The three series share
// Start, Step and length; NaN is missing. Requests may be all missing. AtLeast marks are per series (usually equal).
type LoadHistory struct {
	Prompt     forecast.Series `json:"prompt"`
	Completion forecast.Series `json:"completion"`
	Requests   forecast.Series `json:"requests"`
	// Borrowed says what of it is another model's (see Inherit and BorrowShape); empty when all is its own.
	Borrowed string `json:"borrowed,omitempty"`
	// ReadAgain is set while a similar model's shape is wanted and the own load is still too short to tell its size: read
	// again later, more can be had.
	ReadAgain bool `json:"-"`
}

// Validate reports every way in which the three series do not share a grid.
func (h LoadHistory) Validate() error {
	var errs []error
	p := h.Prompt
	for _, o := range []struct {
		name string
		forecast.Series
	}{{"prompt", h.Prompt}, {"completion", h.Completion}, {"requests", h.Requests}} {
		if !o.Start.Equal(p.Start) || o.Step != p.Step || len(o.Values) != len(p.Values) {
			errs = append(errs, fmt.Errorf("load history: %s has %d values of %v from %s, prompt has %d of %v from %s: "+
				"they must share a grid", o.name, len(o.Values), o.Step, o.Start.Format(time.RFC3339),
				len(p.Values), p.Step, p.Start.Format(time.RFC3339)))
		}
		if o.AtLeast != nil && len(o.AtLeast) != len(o.Values) {
			errs = append(errs, fmt.Errorf("load history: %s has %d lower-bound marks for %d values: none or one each are allowed",
				o.name, len(o.AtLeast), len(o.Values)))
		}
	}
	return errors.Join(errs...)
}
