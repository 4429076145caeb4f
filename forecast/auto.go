package forecast

// Auto is a mixture of experts that follows whichever does best lately, per quantile and per step ahead, without a human
// choosing, and corrects what it says until its quantiles hold as often as they should: those of the steps over
// Options.Horizon, and those of the peak over it.
//
// Fit takes in a history; Update costs the same for every step, O(experts·quantiles·knots), but for the rare time when
// the series has grown or shrunk eightfold since the fit: then Auto fits itself anew to what it remembers. Memory is
// bounded: two days step by step, means of ten minutes before that (see Options.History).
type Auto struct {
	opts Options
	only string // the name of the only expert; empty for all
	m    *mixture
}

// NewAuto returns an unfitted Auto.
func NewAuto(opts Options) *Auto { return &Auto{opts: opts} }

// Name returns "auto", or the name of the only expert.
func (a *Auto) Name() string {
	if a.only != "" {
		return a.only
	}
	return nameAuto
}

// Fit implements Forecaster.
func (a *Auto) Fit(s Series) error {
	s, err := usable(s, a.opts.history())
	if err != nil {
		return err
	}
	m := newMixture(s, a.opts.horizon(), a.opts.history(), a.only)
	m.record = newRecord(m, s.Step)
	m.seed = a.opts.Seed
	m.fit(s)
	a.m = m
	return nil
}

// Update implements Forecaster.
func (a *Auto) Update(v float64, atLeast bool) {
	a.mustBeFitted()
	a.m.step(v, atLeast, true)
	if a.m.past.squash.stale(a.m.past.mean) {
		s := a.m.past.expand()
		m := newMixture(s, a.opts.horizon(), a.opts.history(), a.only)
		m.record = a.m.record
		m.seed = a.opts.Seed
		m.record.skip = 1 << 30
		m.fit(s)
		m.record.skip = 0
		a.m = m
	}
}

func (a *Auto) mustBeFitted() {
	if a.m == nil {
		panic("forecast: forecaster used before a successful Fit")
	}
}

// Sample implements Forecaster.
func (a *Auto) Sample(horizon int, b Blocks) Ensemble {
	a.mustBeFitted()
	b.mustBeUsable(horizon)
	e := Ensemble{Start: a.m.past.timeAt(a.m.past.n), Step: a.m.past.clock.step, Paths: newPaths(len(b.Ages), horizon)}
	if !a.m.past.varied {
		for _, path := range e.Paths { // nothing is known but one value: it comes back unrounded
			for k := range path {
				path[k] = a.m.past.first
			}
		}
		return e
	}
	a.m.sample(horizon, b, e.Paths)
	return e
}

// Weights returns the mean weight of each expert by name over all bands and quantiles, away from jumps; they sum to one
// once anything was learned.
func (a *Auto) Weights() map[string]float64 {
	a.mustBeFitted()
	out := map[string]float64{}
	for c := range a.m.candidates {
		sum := 0.0
		for j := range a.m.bands {
			for p := range grid {
				sum += float64(a.m.bands[j].weight[p*a.m.candidates+c])
			}
		}
		out[a.m.candidateName(c)] += sum / float64(gridLen*len(a.m.bands))
	}
	return out
}

func (m *mixture) candidateName(c int) string {
	switch {
	case c < len(m.experts):
		return m.experts[c].name()
	case c == len(m.experts):
		return namePeakRatio
	case c < len(m.experts)+1+len(regressionLevels):
		return nameQuantileRegression
	}
	return nameReplay
}

// Skill returns how the mixture has done against the naive methods.
func (a *Auto) Skill() Skill {
	a.mustBeFitted()
	return a.m.record.skill()
}

// Coverage is how often forecasts held that were made in advance, recent ones weighing more (over about a thousand
// steps): a fact that a plan can show beside its quantiles.
type Coverage struct {
	Steps []Covered `json:"steps"` // of single steps, over all knots of the horizon
	Peak  []Covered `json:"peak"`  // of the peak over the horizon
	// Forecasts is how many peaks have been seen.
	Forecasts int `json:"forecasts"`
}

// Covered is one quantile: P is the share of values at or below it that was promised, Share the one that came.
type Covered struct {
	P     float64 `json:"p"`
	Share float64 `json:"share"`
}

// Coverage returns how often the quantiles held on the series' own past: ascending in P, empty lists before any forecast
// has matured. Missing and clipped values do not count, and a peak counts when its whole window is known.
func (a *Auto) Coverage() Coverage {
	a.mustBeFitted()
	last := len(a.m.bands) - 1
	share := func(j, p int) (sum, n float64) { // both kinds of origins, by how many there were
		for _, b := range [2]*band{&a.m.bands[j], a.m.jumps[j]} {
			if b == nil {
				continue
			}
			sum += float64(b.seen) * b.covered[p]
			n += float64(b.seen)
		}
		return sum, n
	}
	out := Coverage{Steps: []Covered{}, Peak: []Covered{}}
	for p, level := range grid {
		sum, n := 0.0, 0.0
		for j := range last {
			s, k := share(j, p)
			sum, n = sum+s, n+k
		}
		if n > 0 {
			out.Steps = append(out.Steps, Covered{level, sum / n})
		}
		if s, k := share(last, p); k > 0 {
			out.Forecasts = int(k)
			out.Peak = append(out.Peak, Covered{level, s / k})
		}
	}
	return out
}
