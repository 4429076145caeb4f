package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"forewarm/forecast"
)

// Inherit returns h with the load of the model that this one replaces in front of its own and, during the swap, added to
// it: see forecast.Series.Inherit. Both must have been read over the same grid.
func (h LoadHistory) Inherit(old LoadHistory, name string) (LoadHistory, error) {
	own := h.known()
	if own == h.Prompt.Len() && old.known() == old.Prompt.Len() {
		return h, nil // nobody knows anything
	}
	out, from := h, h.tail(own)
	var err error
	var b forecast.Borrowed
	if out.Prompt, b, err = from.Prompt.Inherit(old.Prompt); err == nil {
		if out.Completion, _, err = from.Completion.Inherit(old.Completion); err == nil {
			out.Requests, _, err = from.Requests.Inherit(old.Requests)
		}
	}
	if err != nil {
		return h, fmt.Errorf("the history of %s cannot be inherited: %w", name, err)
	}
	if b.Steps > 0 {
		out.Borrowed = fmt.Sprintf("of %s: %s", name, b)
	}
	return out, nil
}

// BorrowShape returns h with the load of a similar model, moved to its own size, in front, while its own is too short to
// show a day: see forecast.Series.BorrowShape. Requests are not borrowed. Both must have been read over the same grid.
func (h LoadHistory) BorrowShape(sibling LoadHistory, name string) (LoadHistory, error) {
	from := h.tail(h.known())
	if from.Prompt.Len() == 0 {
		h.ReadAgain = true
		return h, nil
	}
	prompt, b, errP := from.Prompt.BorrowShape(sibling.Prompt)
	completion, c, errC := from.Completion.BorrowShape(sibling.Completion)
	requests, _, errR := from.Requests.Inherit(unknownLike(sibling.Requests))
	if err := errors.Join(errP, errC, errR); err != nil {
		return h, fmt.Errorf("the shape of %s cannot be borrowed: %w", name, err)
	}
	if b.Steps == 0 || c.Steps == 0 {
		h.ReadAgain = time.Duration(from.Prompt.Len())*from.Prompt.Step < 2*24*time.Hour // else its own is long enough
		return h, nil
	}
	return LoadHistory{Prompt: prompt, Completion: completion, Requests: requests, Borrowed: fmt.Sprintf("of %s: prompt tokens %s; completion tokens %s", name, b, c)}, nil
}

// known is the first step of which either token rate is known; the length when none is.
func (h LoadHistory) known() int {
	i := 0
	for i < h.Prompt.Len() && math.IsNaN(h.Prompt.Values[i]) && math.IsNaN(h.Completion.Values[i]) {
		i++
	}
	return i
}

// tail returns h from step i on; all of it is empty when i is the length.
func (h LoadHistory) tail(i int) LoadHistory {
	n := h.Prompt.Len() - i
	return LoadHistory{Prompt: h.Prompt.Tail(n), Completion: h.Completion.Tail(n), Requests: h.Requests.Tail(n)}
}

// unknownLike is a series on the same grid of which nothing is known.
func unknownLike(s forecast.Series) forecast.Series {
	s.Values, s.AtLeast = slices.Repeat([]float64{math.NaN()}, s.Len()), nil
	return s
}
