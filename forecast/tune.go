package forecast

import "math"

const (
	// tuneSpan is the time in which every choice of parameters is tried once after the fit.
	tuneSpan = 1 * day
	// tuneGain is the share of the error that another choice must save to replace the present one: two that are as good
	// must not take turns, since each turn moves the forecast.
	tuneGain = 0.02
)

// tuner goes on with what fit began: it takes up one choice of parameters at a time, evenly spread over tuneSpan, so that
// no update pays for a whole fit. Demand changes its habits within months of uptime; parameters must not stay those of
// the first day.
type tuner struct {
	choices int
	every   int // updates between two trials
	wait    int // updates until the next
	next    int // the choice to try then
}

func newTuner(h *history, choices int) tuner {
	every := max(1, int(tuneSpan/h.clock.step)/choices)
	return tuner{choices: choices, every: every, wait: every}
}

// due counts one update and reports whether a choice is to be tried now, and which.
func (t *tuner) due() (choice int, ok bool) {
	if t.wait--; t.wait > 0 {
		return 0, false
	}
	choice = t.next
	t.wait, t.next = t.every, (t.next+1)%t.choices
	return choice, true
}

// better reports whether a challenger's error is enough below that of the present choice on the same stretch.
func better(challenger, present float64) bool {
	return challenger < (1-tuneGain)*present && !math.IsInf(challenger, 0)
}
