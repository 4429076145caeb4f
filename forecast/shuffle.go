package forecast

import (
	"math"
)

// templates are the errors that paths are made of: the centre and the spread of past forecasts, sparsely, from which the
// error trajectory that followed each of them is worked out when a path needs it.
//
// A path of the ensemble is a past error trajectory whose value at every step is replaced by the quantile, of the same
// rank, of the forecast: the ensemble then has the quantiles of the mixture and the ups and downs of the past (empirical
// copula coupling: Schefzik, Thorarinsdottir and Gneiting, Uncertainty quantification in complex simulation models
// using ensemble copula coupling, Statistical Science 2013; the Schaake shuffle of Clark et al. 2004).
type templates struct {
	every  int
	bands  int
	at     []int
	centre []float32 // per entry and band: the median, less the shape of the day but for the peak
	spread []float32
}

const templatesMax = 300

func newTemplates(m *mixture) templates {
	every := max(1, (len(m.past.fine)+templatesMax-1)/templatesMax)
	n := len(m.past.fine)/every + 1
	t := templates{every: every, bands: len(m.bands), at: make([]int, n), centre: make([]float32, n*len(m.bands)),
		spread: make([]float32, n*len(m.bands))}
	for i := range t.at {
		t.at[i] = -1
	}
	return t
}

func (t *templates) keep(m *mixture) {
	o := &m.now
	if o.at%t.every != 0 {
		return
	}
	e := o.at / t.every % len(t.at)
	t.at[e] = o.at
	for j, at := range m.places {
		t.centre[e*t.bands+j] = o.final[j*gridLen+gridMedian] - float32(m.seasons.shape(at))
		t.spread[e*t.bands+j] = o.spread[j]
	}
	peak := len(m.bands) - 1
	t.centre[e*t.bands+peak], t.spread[e*t.bands+peak] = o.final[peak*gridLen+gridMedian], o.spread[peak]
}

// folded returns an age within what is kept step by step, at the same time of day.
func (m *mixture) folded(age int) int {
	kept := min(m.past.n, len(m.past.fine)) - 1
	if age <= kept {
		return age
	}
	perDay := int(day / m.past.clock.step)
	if perDay < 1 || perDay+m.horizon > kept {
		return age % max(1, kept)
	}
	folded := age % perDay
	for back := age / perDay % 2; folded < m.horizon || back > 0 && folded+perDay <= kept; back-- {
		folded += perDay
	}
	return min(folded, kept)
}

// find returns the entry nearest to an origin, −1 when nothing near is kept.
func (t *templates) find(origin int) int {
	for _, o := range [2]int{origin - origin%t.every, origin - origin%t.every + t.every} {
		if o >= 0 {
			if e := o / t.every % len(t.at); t.at[e] == o {
				return e
			}
		}
	}
	return -1
}

// between says how a step lies between knots: a share of the knot before (none before the first) and of the knot after.
type between struct {
	low, high int
	share     float64 // of high
}

// placeSteps works out between which knots the steps of a horizon lie.
func (m *mixture) placeSteps(horizon int) []between {
	out := make([]between, horizon)
	j := 0
	for i := range out {
		k := i + 1
		for j < len(m.knots)-1 && k > m.knots[j] {
			j++
		}
		switch {
		case j == 0 || k >= m.knots[j]:
			out[i] = between{j, j, 1}
		default:
			lo, hi := float64(m.knots[j-1]), float64(m.knots[j])
			out[i] = between{j - 1, j, (float64(k) - lo) / (hi - lo)}
		}
	}
	return out
}

// sample makes n paths: see templates.
func (m *mixture) sample(horizon int, b Blocks, paths [][]float64) {
	n := len(paths)
	base, knots := m.baseline(horizon)
	steps := m.placeSteps(horizon)
	keys := m.trajectories(steps, b.Ages)
	ranks := newRanks(n)
	order, spare := make([]uint16, n), make([]uint16, n)
	values := make([]float64, n)
	var qs [gridLen]float64
	growth := m.growth()
	for k, at := range steps {
		shape, low, high := base[k], knots[at.low], knots[at.high]
		widen := 1.0
		if k >= m.horizon {
			widen = math.Pow(float64(k+1)/float64(m.horizon), growth)
		}
		for p := range qs {
			a := float64(m.now.final[at.low*gridLen+p]) - low
			c := float64(m.now.final[at.high*gridLen+p]) - high
			qs[p] = a + at.share*(c-a) + shape
		}
		for p := range qs {
			z := qs[gridMedian] + widen*(qs[p]-qs[gridMedian])
			if p != gridMedian {
				qs[p] = m.value(m.sane(z))
			}
		}
		qs[gridMedian] = m.value(m.sane(qs[gridMedian]))
		ranks.spread(&qs, m.past.nonNegative, values)
		sortKeys(keys[k*n:(k+1)*n], order, spare)
		for r, i := range order {
			paths[i][k] = values[r]
		}
	}
	if horizon >= m.horizon {
		m.imposePeak(paths, ranks, values, order, spare)
	}
}

// baseline returns what steps between knots are interpolated around, for every step and for the knots: the shape of the
// day, or for horizons of many days, between whose knots lie nights and weekends, what the last weeks did at that time.
func (m *mixture) baseline(horizon int) (steps, knots []float64) {
	last := m.past.n - 1
	at := func(k int) float64 { return m.seasons.shape(m.seasons.place(&m.past.clock, last+k)) }
	if m.horizon > openLong {
		week := func(k int) float64 { return m.week.reference(m, last+k, last) }
		whole := true
		for k := 1; k <= max(horizon, m.horizon); k++ {
			whole = whole && !math.IsNaN(week(k))
		}
		if whole {
			at = week
		}
	}
	steps, knots = make([]float64, horizon), make([]float64, len(m.knots))
	for k := range steps {
		steps[k] = at(k + 1)
	}
	for j, k := range m.knots {
		knots[j] = at(k)
	}
	return steps, knots
}

// growth is the power of the time ahead by which errors grow towards the end of the horizon: 0 for noise around a level,
// ½ for a random walk. Beyond the horizon they are taken to go on so.
func (m *mixture) growth() float64 {
	last := len(m.knots) - 1
	mid := last / 2
	a, b := float64(m.now.spread[mid]), float64(m.now.spread[last])
	if mid == last || b <= a {
		return 0
	}
	return min(1, math.Log(b/a)/math.Log(float64(m.knots[last])/float64(m.knots[mid])))
}

// trajectories returns, for every step and path, the error of the path's template as a sort key: 16 bits, in spreads.
func (m *mixture) trajectories(steps []between, ages []int) []uint16 {
	n := len(ages)
	keys := make([]uint16, len(steps)*n)
	t := &m.errors
	centres, spreads := make([]float64, len(m.knots)), make([]float64, len(m.knots))
	for i, age := range ages {
		e := t.find(m.past.n - 1 - m.folded(age))
		if e >= 0 {
			for j, k := range m.knots {
				centres[j] = float64(t.centre[e*t.bands+j]) + m.seasons.shape(m.seasons.place(&m.past.clock, t.at[e]+k))
				spreads[j] = float64(t.spread[e*t.bands+j])
			}
		}
		u := 0.0
		for k, at := range steps {
			if e >= 0 {
				if z := m.past.at(t.at[e] + 1 + k); !math.IsNaN(z) {
					centre := centres[at.low] + at.share*(centres[at.high]-centres[at.low])
					u = (z - centre) / (spreads[at.low] + at.share*(spreads[at.high]-spreads[at.low]))
				}
			}
			keys[k*n+i] = uint16((clamp(u, 8) + 8) * 4095)
		}
	}
	return keys
}

// sortKeys fills order with the indexes of keys, ascending and stable: a radix sort in two passes.
func sortKeys(keys []uint16, order, spare []uint16) {
	var low, high [257]uint16
	for _, k := range keys {
		low[k&255+1]++
		high[k>>8+1]++
	}
	for i := 1; i < 257; i++ {
		low[i] += low[i-1]
		high[i] += high[i-1]
	}
	for i, k := range keys {
		spare[low[k&255]] = uint16(i)
		low[k&255]++
	}
	for _, i := range spare {
		h := keys[i] >> 8
		order[high[h]] = i
		high[h]++
	}
}

// ranks places n equally likely values on the grid of quantiles: the r-th smallest of n is the quantile (r+1)/(n+1), in
// agreement with quantileSorted.
type ranks struct {
	below []int     // index of the grid quantile below; −1 and gridLen−1 are the tails
	share []float64 // of the way to the next; in a tail, multiples of the outermost interval
}

func newRanks(n int) ranks {
	r := ranks{below: make([]int, n), share: make([]float64, n)}
	j := -1
	for i := range n {
		p := float64(i+1) / float64(n+1)
		for j < gridLen-1 && p >= grid[j+1] {
			j++
		}
		r.below[i] = j
		switch {
		case j < 0:
			r.share[i] = math.Log(grid[0]/p) / math.Log(grid[1]/grid[0])
		case j == gridLen-1:
			r.share[i] = math.Log((1-grid[j])/(1-p)) / math.Log((1-grid[j-1])/(1-grid[j]))
		default:
			lo, hi := probit(grid[j]), probit(grid[j+1])
			r.share[i] = (probit(p) - lo) / (hi - lo)
		}
	}
	return r
}

// probit is the quantile function of the normal distribution: between grid quantiles its scale is the natural one.
func probit(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// spread fills values, ascending, with what the ranks are under the grid quantiles qs.
func (r *ranks) spread(qs *[gridLen]float64, nonNegative bool, values []float64) {
	for i, j := range r.below {
		switch {
		case j < 0:
			v := qs[0] - r.share[i]*(qs[1]-qs[0])
			if nonNegative {
				v = max(0, v)
			}
			values[i] = v
		case j == gridLen-1:
			values[i] = qs[j] + r.share[i]*(qs[j]-qs[j-1])
		default:
			values[i] = qs[j] + r.share[i]*(qs[j+1]-qs[j])
		}
	}
}

// imposeFrom is the quantile of the peak above which paths are moved, in full from the median on.
const imposeFrom = 0.2

// imposePeak moves the peaks of the paths over the mixture's horizon to the quantiles forecast for it, rank by rank. What
// a path has near its peak moves along, the rest stays.
func (m *mixture) imposePeak(paths [][]float64, ranks ranks, values []float64, order, spare []uint16) {
	var qs [gridLen]float64
	j := len(m.bands) - 1
	for p := range qs {
		qs[p] = m.value(m.sane(float64(m.now.final[j*gridLen+p])))
	}
	ranks.spread(&qs, m.past.nonNegative, values)
	peaks := make([]float64, len(paths))
	for i, path := range paths {
		peaks[i] = path[0]
		for _, v := range path[1:m.horizon] {
			peaks[i] = max(peaks[i], v)
		}
	}
	give := m.give()
	for i := range order {
		order[i] = uint16(i)
	}
	sortByPeak(order, peaks)
	for r, i := range order {
		// What the lowest paths do matters to nobody, and their steps are best left as they are.
		share := min(1, max(0, (float64(r+1)/float64(len(order)+1)-imposeFrom)/(0.5-imposeFrom)))
		values[r] = peaks[i] + share*(values[r]-peaks[i])
		bend(paths[i][:m.horizon], peaks[i], values[r], give)
	}
}

// give returns how unsure each step of the horizon is, the most unsure 1.
func (m *mixture) give() []float64 {
	out := make([]float64, m.horizon)
	most := 0.0
	for k, at := range m.placeSteps(m.horizon) {
		a, b := float64(m.now.spread[at.low]), float64(m.now.spread[at.high])
		out[k] = a + at.share*(b-a)
		most = max(most, out[k])
	}
	for k := range out {
		out[k] /= most
		out[k] *= out[k]
	}
	return out
}
