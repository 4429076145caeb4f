package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
)

// replay makes a candidate out of what really followed: the errors of the last value after origins drawn as for the
// paths (near this time of day on earlier days, and of the last hours). Where the other candidates have one distribution
// that widens and narrows, this one has that of the hour: what comes of 08:55 is not what comes of 03:00. Its quantiles
// stand for a centre each.
type replay struct {
	errs [][]float64 // per band, of the draws
}

const (
	replayDraws = 40
	// replayMin is how many errors make a distribution.
	replayMin = 12
)

func newReplay(bands int) replay {
	r := replay{errs: make([][]float64, bands)}
	for j := range r.errs {
		r.errs[j] = make([]float64, 0, replayDraws)
	}
	return r
}

// replayErrors fills the replayed quantiles of an origin.
func (m *mixture) replayErrors(o *origin) {
	last := m.past.n - 1
	rng := rand.New(rand.NewPCG(m.seed, 0x7265706c6179)) // "replay": the same draw at every step
	clock := BlockClock{Last: m.past.timeAt(last), Step: m.past.clock.step, Steps: min(m.past.n, len(m.past.fine)), Location: m.past.clock.loc}
	for j := range m.replay.errs {
		m.replay.errs[j] = m.replay.errs[j][:0]
	}
	for _, age := range DrawBlocks(rng, clock, replayDraws, m.horizon).Ages {
		m.lastErrors(last - age)
	}
	for j := range m.bands {
		m.replayBand(o, j)
	}
}

// lastErrors adds the errors of the last value that followed step i.
func (m *mixture) lastErrors(i int) {
	level := m.past.carried(i, 3)
	if math.IsNaN(level) || i+m.horizon >= m.past.n {
		return
	}
	for j, k := range m.knots {
		if z, ok := m.past.measured(i + k); ok {
			m.replay.errs[j] = append(m.replay.errs[j], z-level)
		}
	}
	if peak, ok := m.past.highest(i+1, i+m.horizon); ok {
		j := len(m.bands) - 1
		m.replay.errs[j] = append(m.replay.errs[j], peak-level)
	}
}

// replayBand makes quantiles of the errors collected for band j.
func (m *mixture) replayBand(o *origin, j int) {
	c := (j+1)*m.candidates - 1
	errs := m.replay.errs[j]
	if len(errs) < replayMin {
		o.centres[c] = float32(math.NaN())
		return
	}
	slices.Sort(errs)
	out := o.replayed[j*gridLen : (j+1)*gridLen]
	for p, level := range grid {
		out[p] = float32(m.sane(o.level + quantileSorted(level, errs)))
	}
	o.centres[c] = out[gridMedian]
}

// take puts the p-th replayed quantile in the place of the replay's centre, which is the last.
func take(p int, centres, replayed []float32) {
	if c := len(centres) - 1; centres[c] == centres[c] {
		centres[c] = replayed[p]
	}
}
