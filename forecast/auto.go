package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Auto is a mixture of the other forecasters that follows whichever has done best lately, without a human choosing.
//
// Every few updates it scores the forecasts that have just matured: each expert's paths as they would have been drawn
// then, by the pinball loss of step quantiles over Options.Horizon and of quantiles of the peak over it. An expert's
// weight is its exponentially discounted loss to the power −lossPower, which is free of the unit; one whose newest losses
// are gross beside the best loses its weight at once, so that a new level is followed within two scored origins. Paths
// are allotted to experts by weight in a fixed pattern: path i changes hands only when a weight moves past its place.
type Auto struct {
	opts    Options
	h       *history
	experts []method
	sampler sampler
	score   autoScore
}

// NewAuto returns an unfitted Auto.
func NewAuto(opts Options) *Auto { return &Auto{opts: opts} }

const (
	// The order of the experts; on equal evidence an earlier one goes first.
	expertLast = iota
	expertSeasonal
	expertDrift
	expertCount
)

const (
	// scorePaths is the number of paths that a scored forecast is made of.
	scorePaths = 40
	// lossPower makes weights out of losses: an expert with a tenth more loss gets less than half the weight.
	lossPower = 10
	// scoreSpan is the time over which scores are forgotten (to 1/e), kept within scoreOriginsMin and -Max origins.
	scoreSpan       = 1 * day
	scoreOriginsMin = 50
	scoreOriginsMax = 300
	// grossOrigins is the number of newest origins that say whether an expert is out of its depth: when its loss there is
	// above grossLoss times the best expert's, on geometric average, its weight falls by that excess to the power
	// grossPower. The slow scores alone would follow an expert that was right for a week through the first hours of a new
	// level. grossMost bounds what one origin can say.
	grossOrigins = 2
	grossLoss    = 3
	grossMost    = 1000
	grossPower   = 20
	// scoreBurnIn is how many origins teach the weights before the mixture itself is scored.
	scoreBurnIn = 10
	// warmOriginsMax is how many origins of the history's tail are scored by Fit.
	warmOriginsMax = 300
)

// scoreQuantiles are the quantiles that experts are scored on: the middle, and the upper ones that plans are made with.
var scoreQuantiles = []float64{0.1, 0.5, 0.8, 0.95}

// autoScore is what Auto remembers of matured forecasts.
type autoScore struct {
	stride int // updates between scored origins
	wait   int // updates until the next
	forget float64

	losses  [expertCount]float64 // discounted sums
	counted float64              // discounted number of origins in losses
	excess  [expertCount]float64 // mean logarithm of loss ÷ smallest loss over the newest grossOrigins
	weights [expertCount]float64 // from losses and excess
	learned int                  // origins that the weights come from

	// The record of the mixture begins when its weights have been learned from scoreBurnIn origins: before that it is an
	// even mixture, which says nothing about it. All are discounted sums over the origins since then.
	origins                  int
	weight                   float64
	mixture, naive, seasonal float64
}

// Name returns "auto".
func (a *Auto) Name() string { return nameAuto }

// Fit implements Forecaster. It fits every expert and warms the weights on the tail of s.
func (a *Auto) Fit(s Series) error {
	h, err := newHistory(s, a.opts.history())
	if err != nil {
		return err
	}
	a.h = h
	a.experts = []method{expertLast: lastValue{}, expertSeasonal: &seasonalNaive{}, expertDrift: &dampedDrift{}}
	for _, m := range a.experts {
		m.fit(h)
	}
	stride := max(1, a.opts.horizon()/2)
	span := float64(scoreSpan) / float64(h.clock.step) / float64(stride)
	a.score = autoScore{stride: stride, wait: stride}
	a.score.forget = 1 / min(scoreOriginsMax, max(scoreOriginsMin, span))
	a.score.reweigh()
	newest := h.last() - a.opts.horizon()
	for origin := max(newest/3, newest-warmOriginsMax*stride); origin <= newest; origin += stride {
		a.mature(origin)
	}
	return nil
}

// Update implements Forecaster. O(horizon), amortised, but for the trials of other parameters (see tuner).
func (a *Auto) Update(v float64, atLeast bool) {
	a.h.mustBeFitted()
	dropped := a.h.append(v, atLeast)
	for _, m := range a.experts {
		m.update(a.h, dropped)
	}
	if a.score.wait--; a.score.wait == 0 {
		a.score.wait = a.score.stride
		a.mature(a.h.last() - a.opts.horizon())
	}
}

// Sample implements Forecaster. O(paths·horizon).
func (a *Auto) Sample(horizon int, b Blocks) Ensemble {
	a.h.mustBeFitted()
	e := a.h.newEnsemble(horizon, b)
	for x, pick := range a.allot(len(b.Ages)) {
		a.sampler.sample(a.h, a.experts[x], a.h.last(), b.Ages, pick, e.Paths)
	}
	return e
}

// Weights returns the share of paths of each expert by name; they sum to one.
func (a *Auto) Weights() map[string]float64 {
	a.h.mustBeFitted()
	out := make(map[string]float64, expertCount)
	for x, m := range a.experts {
		out[m.name()] = a.score.weights[x]
	}
	return out
}

// Skill returns how the mixture has done against the naive methods.
func (a *Auto) Skill() Skill {
	a.h.mustBeFitted()
	s := &a.score
	if s.weight == 0 {
		return Skill{}
	}
	return Skill{
		Origins:      s.origins,
		Loss:         s.mixture / s.weight,
		LastLoss:     s.naive / s.weight,
		SeasonalLoss: s.seasonal / s.weight,
	}
}

// allot returns the paths of each expert. Path i sits at the bit-reversed fraction of i+1, so any run of paths is shared
// out by weight, and the place does not depend on the number of paths. No path sits at 0, where an expert of no weight
// would keep it.
func (a *Auto) allot(paths int) [expertCount][]int {
	var out [expertCount][]int
	for i := range paths {
		u, x := vanDerCorput(i+1), 0
		for sum := a.score.weights[0]; x < expertCount-1 && u >= sum; sum += a.score.weights[x] {
			x++
		}
		out[x] = append(out[x], i)
	}
	return out
}

// vanDerCorput returns the i-th element of the base-2 low-discrepancy sequence, in [0,1).
func vanDerCorput(i int) float64 {
	u, digit := 0.0, 0.5
	for ; i > 0; i >>= 1 {
		if i&1 == 1 {
			u += digit
		}
		digit /= 2
	}
	return u
}

// mature scores the forecasts made at origin, whose horizon has just been seen, and updates the weights. The mixture is
// scored with the weights that it had before.
func (a *Auto) mature(origin int) {
	if origin < 0 || math.IsNaN(a.h.carried[origin]) {
		return
	}
	horizon := a.opts.horizon()
	rng := rand.New(rand.NewPCG(a.opts.Seed, 0x6d6174757265)) // "mature": a stream of its own
	ages := DrawBlocks(rng, a.h.blockClock(origin), scorePaths, horizon).Ages
	all := everyPath(scorePaths)
	var paths [expertCount][][]float64
	var losses [expertCount]float64
	for x, m := range a.experts {
		paths[x] = newPaths(scorePaths, horizon)
		a.sampler.sample(a.h, m, origin, ages, all, paths[x])
		loss, ok := a.loss(paths[x], origin)
		if !ok {
			return
		}
		losses[x] = loss
	}
	mixed := make([][]float64, scorePaths)
	for x, pick := range a.allot(scorePaths) {
		for _, i := range pick {
			mixed[i] = paths[x][i]
		}
	}
	mixture, _ := a.loss(mixed, origin)
	a.score.add(losses, mixture)
}

// loss returns the mean pinball loss of paths forecast at origin, over up to four steps and the peak, and whether there
// was any step to score. Missing and clipped values are not scored; the peak is scored when all its steps are.
func (a *Auto) loss(paths [][]float64, origin int) (float64, bool) {
	e := Ensemble{Paths: paths}
	horizon := e.Steps()
	stride := max(1, horizon/4)
	sum, n := 0.0, 0
	for k := horizon - 1; k >= 0; k -= stride {
		if v, ok := a.h.scorable(origin + 1 + k); ok {
			sum += meanPinball(scoreQuantiles, e.sortedStep(k), v)
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	loss := sum / float64(n)
	peak := math.Inf(-1)
	for k := range horizon {
		v, ok := a.h.scorable(origin + 1 + k)
		if !ok {
			return 2 * loss, true // the peak is unknown: assume it did as the steps
		}
		peak = max(peak, v)
	}
	return loss + meanPinball(scoreQuantiles, e.sortedPeaks(0, horizon), peak), true
}

// add forgets a little, adds the losses of one origin, and recomputes the weights. The mean loss of the best expert is
// added to both sides of a ratio: where hardly anybody errs, as at night, being worse than that little is not gross.
func (s *autoScore) add(losses [expertCount]float64, mixture float64) {
	keep := 1 - s.forget
	s.counted = s.counted*keep + 1
	for x, l := range losses {
		s.losses[x] = s.losses[x]*keep + l
	}
	usual, least := slices.Min(s.losses[:])/s.counted, slices.Min(losses[:])
	for x, l := range losses {
		over := 0.0
		if l > least {
			over = math.Log(min(grossMost, (l+usual)/(least+usual)))
		}
		s.excess[x] += (over - s.excess[x]) / grossOrigins
	}
	if s.learned++; s.learned > scoreBurnIn {
		s.weight = s.weight*keep + 1
		s.mixture = s.mixture*keep + mixture
		s.naive = s.naive*keep + losses[expertLast]
		s.seasonal = s.seasonal*keep + losses[expertSeasonal]
		s.origins++
	}
	s.reweigh()
}

// reweigh sets weights from losses: (smallest loss ÷ loss)^lossPower, and less where the newest losses are gross,
// normalised. Experts without loss share all.
func (s *autoScore) reweigh() {
	least := slices.Min(s.losses[:])
	sum := 0.0
	for x, l := range s.losses {
		w := 1.0
		if l > least {
			w = math.Pow(least/l, lossPower)
		}
		if over := s.excess[x] - math.Log(grossLoss); over > 0 {
			w *= math.Exp(-grossPower * over)
		}
		s.weights[x] = w
		sum += w
	}
	for x := range s.weights {
		s.weights[x] /= sum
	}
}
