package forecast

import "math"

// band aggregates the experts for one knot (or the peak), each quantile apart, as CRPS learning does (Berrisch and Ziel,
// CRPS learning, Journal of Econometrics 2023): expert e's p-quantile is its centre plus an offset of its own, in units
// of a common spread, and the mixture's is their mean by weights that are learned for that p.
//
// Weights are those of ML-Poly on the linearised pinball loss (Gaillard, Stoltz, van Erven, A second-order bound with
// excess losses, COLT 2014; the default of R's opera), which has no learning rate to choose: the weight of an expert is
// its positive regret times a rate that falls with the squares seen. Regret is forgotten exponentially, and a fixed
// share is spread evenly (Herbster and Warmuth 1998), so that weights recover when the regime changes.
type band struct {
	candidates int
	seen       int
	// Per grid quantile and candidate.
	offset, regret, square, weight []float32
	recent                         []float32 // per candidate: mean log of error ÷ smallest error over the last few
	damp                           []float32 // per candidate: 1, near 0 for one that is out of its depth, 0 for a mute one
	mute                           []bool
	ys                             []float64 // scratch
	conformal                      [gridLen]conformal
	scale                          leastSquares // log error ÷ usual error, by mood
	usual                          float64      // mean absolute error of the median
	stake                          float64      // mean absolute error of the median, in the caller's unit
	best                           float64      // mean of the smallest absolute error of an expert
	covered                        [gridLen]float64
	// holds is true for the peak: held makes its quantiles hold as often as stated, in spreads.
	holds bool
	held  [gridLen]float32
}

const (
	regretKeep  = 0.999 // what one observation leaves of regrets and squares
	fixedShare  = 0.01
	usualTeach  = 0.002      // the least that one observation teaches the usual error
	offsetTeach = 1.0 / 1200 // the least that one observation teaches an offset
	shock       = 0.25
	errorFloor  = 0.02 // in usual errors: keeps the logarithm of no error finite
	doubtShare  = 1.5  // regrets that far below zero, in their standard deviations, are still taken for chance
	tailStepMax = 0.15 // the most that one observation moves an offset, in spreads
	heldRate    = 0.004
	heldFrom    = 600 // forecasts: what the first ones missed is not made up for later
	spreadRange = 20  // how far the spread may leave the usual error, either way
)

func newBand(candidates int, mute []bool) band {
	n := gridLen * candidates
	flat := make([]float32, 4*n)
	b := band{candidates: candidates, mute: mute, offset: flat[:n], regret: flat[n : 2*n], square: flat[2*n : 3*n], weight: flat[3*n:],
		recent: make([]float32, candidates), damp: make([]float32, candidates), ys: make([]float64, candidates), scale: newLeastSquares(moods, 3000, 20)}
	for c := range b.damp {
		if !mute[c] {
			b.damp[c] = 1
		}
	}
	for p, level := range grid {
		for c := range candidates {
			b.offset[p*candidates+c] = float32(laplaceQuantile(level))
			if c == candidates-1 {
				b.offset[p*candidates+c] = 0
			}
			b.weight[p*candidates+c] = b.damp[c]
		}
	}
	return b
}

// laplaceQuantile is the quantile of errors that have a Laplace distribution with mean absolute value 1: the guess before
// any was seen.
func laplaceQuantile(p float64) float64 {
	if p < 0.5 {
		return math.Log(2 * p)
	}
	return -math.Log(2 * (1 - p))
}

// spread returns the usual error in a mood.
func (b *band) spread(mood []float32) float64 {
	var x [moods]float64
	for i, v := range mood {
		x[i] = float64(v)
	}
	return max(spreadFloor, b.usual*math.Exp(clamp(b.scale.dot(x[:]), math.Log(spreadRange))))
}

// spreadFloor keeps divisions by the spread of a constant series finite.
const spreadFloor = 1e-7

// mix returns the p-th grid quantile from the candidates that have a centre and a say: the mean of theirs, in the caller's
// unit.
func (b *band) mix(p int, centres []float32, spread float64, r reach) float64 {
	at := p * b.candidates
	sum, weights := 0.0, 0.0
	for c, centre := range centres {
		if w := float64(b.weight[at+c]); centre == centre && w > weightLeast {
			sum += w * grown(r.hold(float64(centre)+spread*float64(b.offset[at+c])))
			weights += w
		}
	}
	if weights == 0 {
		return float64(centres[expertLast]) + spread*float64(b.offset[at+expertLast]) // nobody else is awake
	}
	return shrunk(sum / weights)
}

// weightLeast is the weight up to which a candidate is left out: fixed share alone gives nobody a say.
const weightLeast = 0.002

// mixInto returns the mean of all, however small their weight, and fills ys with the candidates' own quantiles; all are in
// units of squash.
func (b *band) mixInto(p int, centres []float32, spread float64, r reach, ys []float64) float64 {
	at := p * b.candidates
	sum, weights := 0.0, 0.0
	for c, centre := range centres {
		if centre != centre {
			continue
		}
		ys[c] = grown(r.hold(float64(centre) + spread*float64(b.offset[at+c])))
		w := float64(b.weight[at+c])
		sum += w * ys[c]
		weights += w
	}
	if weights == 0 {
		return ys[expertLast] // nobody else is awake
	}
	return sum / weights
}

// reach bounds quantiles to what demand could be believed to do.
type reach struct{ low, high float64 }

func (r reach) hold(z float64) float64 { return max(r.low, min(r.high, z)) }

// grown and shrunk convert between the scale of squash and the caller's unit, in units of squash.
func grown(z float64) float64 {
	if z < 0 {
		return 1 - math.Exp(-z)
	}
	return math.Exp(z) - 1
}

func shrunk(y float64) float64 {
	if y < 0 {
		return -math.Log1p(-y)
	}
	return math.Log1p(y)
}

// learn takes in that z came of the origin's forecast. Losses are counted in the caller's unit, where an error at high
// demand costs more than the same at night.
func (b *band) learn(o *origin, j int, z float64, r reach) {
	b.seen++
	spread := float64(o.spread[j])
	centres := o.centres[j*b.candidates : (j+1)*b.candidates]
	b.outOfDepth(centres, z)
	teach := max(offsetTeach, 1/float64(b.seen+20))
	replayed := o.replayed[j*gridLen : (j+1)*gridLen]
	for p, level := range grid {
		take(p, centres, replayed)
		b.learnQuantile(p, level, centres, spread, z, r, teach)
		b.conformal[p].learn(level, (z-float64(o.raw[j*gridLen+p]))/spread, teach)
		hit := 0.0
		if z <= float64(o.final[j*gridLen+p]) {
			hit = 1
		}
		b.covered[p] += max(0.001, 1/float64(b.seen)) * (hit - b.covered[p])
		if b.holds && b.seen > heldFrom {
			b.held[p] += float32(heldRate * (level - hit))
		}
	}
	median := float64(o.final[j*gridLen+gridMedian])
	b.learnSpread(o, j, math.Abs(z-median))
	b.stake += max(usualTeach, 1/float64(b.seen+5)) * (math.Abs(grown(z)-grown(median)) - b.stake)
}

func (b *band) learnQuantile(p int, level float64, centres []float32, spread, z float64, reach reach, teach float64) {
	at := p * b.candidates
	ys := b.ys[:len(centres)]
	q := b.mixInto(p, centres, spread, reach, ys)
	slope := -level
	if grown(z) < q {
		slope = 1 - level
	}
	stake := max(b.stake, spreadFloor)
	tail := min(tailStepMax, teach/min(level, 1-level))
	sum, damped := 0.0, 0.0
	for c, centre := range centres {
		if centre != centre {
			b.weight[at+c] = 0
			continue
		}
		r := float32(clamp(slope*(q-ys[c])/stake, 10))
		regret, square := b.regret[at+c]*regretKeep+r, b.square[at+c]*regretKeep+r*r
		b.regret[at+c], b.square[at+c] = regret, square
		step := level
		if z <= float64(centre)+spread*float64(b.offset[at+c]) {
			step = level - 1
		}
		b.offset[at+c] += float32(tail * step * max(1, 0.5*math.Abs(float64(b.offset[at+c]))))
		doubt := doubtShare * float32(math.Sqrt(float64(1+square)))
		w := max(0, regret+doubt) / (1 + square) * b.damp[c]
		b.weight[at+c] = w
		sum += float64(w)
		damped += float64(b.damp[c])
	}
	for c, centre := range centres {
		if centre != centre {
			continue
		}
		even := 0.0
		if damped > 0 {
			even = float64(b.damp[c]) / damped
		}
		if sum > 0 {
			b.weight[at+c] = float32((1-fixedShare)*float64(b.weight[at+c])/sum + fixedShare*even)
		} else {
			b.weight[at+c] = float32(even)
		}
	}
}

// outOfDepth notes which experts have just erred grossly beside the best: regrets alone would follow an expert that was
// right for a week through the first hours of a new level.
func (b *band) outOfDepth(centres []float32, z float64) {
	least := math.Inf(1)
	for _, centre := range centres {
		if e := math.Abs(z - float64(centre)); e < least {
			least = e
		}
	}
	b.best += max(0.005, 1/float64(b.seen)) * (least - b.best)
	base := max(b.usual, spreadFloor)
	for c, centre := range centres {
		if centre != centre {
			continue
		}
		over := math.Log((math.Abs(z-float64(centre)) + base) / (least + base))
		b.recent[c] += float32((min(over, 7) - float64(b.recent[c])) / 4)
		if b.mute[c] {
			continue
		}
		b.damp[c] = 1
		if over := float64(b.recent[c]) - logGrossLoss; over > 0 {
			b.damp[c] = float32(math.Exp(-grossPower * over))
		}
	}
}

const (
	logGrossLoss = 1.1 // three times the best expert's error
	grossPower   = 10
)

// learnSpread takes in an absolute error of the median.
func (b *band) learnSpread(o *origin, j int, e float64) {
	var x [moods]float64
	for i := range x {
		x[i] = float64(o.mood[j*moods+i])
	}
	if b.usual > 0 {
		// The mean of the logarithm of a Laplace error is that of its size, less Euler's constant.
		usual := max(b.usual, spreadFloor)
		y := clamp(math.Log((e+errorFloor*usual)/usual)+0.5772, 20)
		b.scale.add(x[:], y, 1)
		if b.seen%8 == 0 {
			var scratch [moods * (moods + 1) / 2]float64
			b.scale.solve(scratch[:])
		}
	}
	if b.seen > 30 {
		e = min(e, 5*b.usual+shock) // a new level is one shock, not a new size of errors
	}
	b.usual += max(usualTeach, 1/float64(b.seen+5)) * (e - b.usual)
}

// correction is the conformal correction of the p-th grid quantile, in spreads: that of the least loss, and for the peak
// the integral of what still was held too often or too seldom (the I of conformal PID control, see conformal), because a
// plan is sized on it and the least loss hardly notices a quantile that holds 92 % instead of 90 %.
func (b *band) correction(p int) float64 { return b.conformal[p].correction() + float64(b.held[p]) }
