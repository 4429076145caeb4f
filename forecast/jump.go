package forecast

import "math"

// Origins are of two kinds, and each has bands of its own: those after which earlier days jumped, up or down, and all
// others. Jumps are what a plan is made for, and they are a handful of origins a day: among the quiet ones they would
// neither decide a weight, nor a spread, nor a correction. What the experts have shown before other jumps does.

const (
	// jumpErrors and jumpLeast are how far, in usual errors and on the scale of squash, the level-adjusted earlier days must
	// lead away from the last value.
	jumpErrors = 5
	jumpLeast  = 0.25
	// jumpDoubt is how many forecasts before jumps count as much as the rule that holds before any was seen: the outer
	// quantiles reach to the highest and the lowest that the last value and the earlier days say. Raising in vain is
	// cheap, and a burst that was missed is not.
	jumpDoubt = 30.0
	// jumpCommon is the share of origins above which jumps are nothing special: where every morning rises the bands of all
	// origins know it, and know it sooner.
	jumpCommon = 0.15
	jumpMemory = 2000.0
	// places in mixture.experts
	expertDayLevel = 3
)

// seeJumps marks the bands for which earlier days say a jump.
func (m *mixture) seeJumps(o *origin) {
	last := len(m.bands) - 1
	o.jump[last] = false
	for j := range m.knots {
		o.jump[j] = m.jumpTo(j, float64(o.centres[j*m.candidates+expertDayLevel])-o.level)
		o.jump[last] = o.jump[last] || o.jump[j]
	}
	if !m.sought {
		share := 0.0
		if o.jump[last] {
			share = 1
		}
		m.jumpy += (share - m.jumpy) / min(jumpMemory, float64(m.seasons.learned+40))
	}
	if m.jumpy > jumpCommon {
		clear(o.jump)
	}
}

// jumpTo reports whether a rise, or a fall, until knot j is a jump; NaN is none.
func (m *mixture) jumpTo(j int, rise float64) bool {
	return math.Abs(rise) > max(jumpLeast, jumpErrors*m.bands[j].usual)
}

// band returns the band that forecasts and learns for origin o.
func (m *mixture) band(o *origin, j int) *band {
	if o.jump[j] {
		if m.jumps[j] == nil {
			b := newBand(m.candidates, m.mute)
			// Until a jump has been seen, errors are taken to be as large as elsewhere.
			b.usual, b.stake = m.bands[j].usual, m.bands[j].stake
			copy(b.scale.beta, m.bands[j].scale.beta)
			m.jumps[j] = &b
		}
		return m.jumps[j]
	}
	return &m.bands[j]
}

// envelop widens a quantile before a jump by the rule of jumpDoubt.
func (b *band) envelop(level, q float64, centres []float32) float64 {
	share := jumpDoubt / (jumpDoubt + float64(b.seen))
	bound := q
	for _, c := range [3]int{expertLast, expertSeasonal, expertDayLevel} {
		z := float64(centres[c])
		switch {
		case level >= 0.9 && z > bound, level <= 0.1 && z < bound:
			bound = z
		}
	}
	return q + share*(bound-q)
}

// jumped reports whether, a day before step i and over the horizon after it, demand jumped: a fit must look at such
// origins however sparsely it looks at others.
func (m *mixture) jumped(i int) bool {
	then := m.past.clock.sameTime(i, 1)
	if then < 0 {
		return false
	}
	level := m.past.at(then)
	for j, k := range m.knots {
		if m.jumpy <= jumpCommon && m.jumpTo(j, m.past.at(then+k)-level) {
			return true
		}
	}
	return false
}
