package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
)

// replay makes two candidates out of what really followed: the errors of the last value, and those of the mixture's own
// median, after origins drawn as for the paths (near this time of day on earlier days, and of the last hours). Where the
// other candidates have one distribution that widens and narrows, these have the one of this hour: what comes of 08:55
// is not what comes of 03:00. Their quantiles stand for a centre each.
type replay struct {
	errs [][]float64 // per band, of the draws
}

const (
	replayDraws = 48
	replayLast  = 0 // errors of the last value
	replayOwn   = 1 // errors of the median, in spreads
	replays     = 2
)

func newReplay(bands int) replay {
	r := replay{errs: make([][]float64, bands)}
	for j := range r.errs {
		r.errs[j] = make([]float64, 0, replayDraws)
	}
	return r
}

// replay fills the replayed quantiles of an origin whose experts have spoken.
func (m *mixture) replayErrors(o *origin) {
	last := m.past.n - 1
	rng := rand.New(rand.NewPCG(0, 0x7265706c6179)) // "replay": the same draw at every step
	clock := BlockClock{Last: m.past.timeAt(last), Step: m.past.clock.step, Steps: min(m.past.n, len(m.past.fine)), Location: m.past.clock.loc}
	ages := DrawBlocks(rng, clock, replayDraws, m.horizon).Ages
	for kind := range replays {
		for j := range m.replay.errs {
			m.replay.errs[j] = m.replay.errs[j][:0]
		}
		for _, age := range ages {
			if kind == replayLast {
				m.lastErrors(last - age)
			} else {
				m.ownErrors(last - age)
			}
		}
		for j := range m.bands {
			m.replayBand(o, kind, j)
		}
	}
}

// lastErrors adds the errors of the last value that followed step i.
func (m *mixture) lastErrors(i int) {
	level := m.past.carried(i, 3)
	if math.IsNaN(level) || i+m.horizon >= m.past.n {
		return
	}
	for j, k := range m.knots {
		if z := m.past.at(i + k); !math.IsNaN(z) {
			m.replay.errs[j] = append(m.replay.errs[j], z-level)
		}
	}
	if peak, ok := m.past.highest(i+1, i+m.horizon); ok {
		j := len(m.bands) - 1
		m.replay.errs[j] = append(m.replay.errs[j], peak-level)
	}
}

// ownErrors adds the errors, in spreads, of the median of the mixture that followed the kept forecast nearest to step i.
func (m *mixture) ownErrors(i int) {
	t := &m.errors
	e := t.find(i)
	if e < 0 || t.at[e]+m.horizon >= m.past.n {
		return
	}
	at := t.at[e]
	for j, k := range m.knots {
		if z, ok := m.past.measured(at + k); ok {
			median := float64(t.centre[e*t.bands+j]) + m.seasons.shape(m.seasons.place(&m.past.clock, at+k))
			m.replay.errs[j] = append(m.replay.errs[j], (z-median)/float64(t.spread[e*t.bands+j]))
		}
	}
	if peak, ok := m.past.highest(at+1, at+m.horizon); ok {
		j := len(m.bands) - 1
		m.replay.errs[j] = append(m.replay.errs[j], (peak-float64(t.centre[e*t.bands+j]))/float64(t.spread[e*t.bands+j]))
	}
}

// replayMin is how many errors make a distribution.
const replayMin = 12

// replayBand makes quantiles of the errors collected for band j.
func (m *mixture) replayBand(o *origin, kind, j int) {
	c := j*m.candidates + m.candidates - replays + kind
	errs := m.replay.errs[j]
	if len(errs) < replayMin {
		o.centres[c] = float32(math.NaN())
		return
	}
	slices.Sort(errs)
	centre, unit := o.level, 1.0
	if kind == replayOwn {
		unit = float64(o.spread[j])
		centre = m.band(o, j).median(o.centres[j*m.candidates:(j+1)*m.candidates], unit, m.reach())
	}
	out := o.replayed[(j*replays+kind)*gridLen : (j*replays+kind+1)*gridLen]
	for p, level := range grid {
		out[p] = float32(m.sane(centre + unit*quantileSorted(level, errs)))
	}
	o.centres[c] = out[gridMedian]
}

// median is that of the candidates other than the replays.
func (b *band) median(centres []float32, spread float64, r reach) float64 {
	at := gridMedian * b.candidates
	sum, weights := 0.0, 0.0
	for c, centre := range centres[:b.candidates-replays] {
		if centre == centre {
			w := float64(b.weight[at+c])
			sum += w * grown(r.hold(float64(centre)+spread*float64(b.offset[at+c])))
			weights += w
		}
	}
	if weights == 0 {
		return float64(centres[expertLast])
	}
	return shrunk(sum / weights)
}
