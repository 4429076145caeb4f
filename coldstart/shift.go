package coldstart

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// shiftUpMin and shiftUpProb decide that starts have become slower: from the second on, when chance explains it in
	// one of a hundred cases. A false alarm keeps a replica warm for a while, a missed one is a shortage.
	shiftUpMin  = 2
	shiftUpProb = 0.01
	// shiftDownMin and shiftDownProb decide that they have become faster: later and on stronger evidence, because a plan
	// that trusts it orders later.
	shiftDownMin  = 10
	shiftDownProb = 1e-4

	// shiftOldMin is how many starts before the change it takes to know what was usual, shiftOldMax how many are asked.
	shiftOldMin = 5
	shiftOldMax = 48
	// shiftNewMax is how far back a change is looked for; farther back the decay has done its work.
	shiftNewMax = 24

	// shiftSpreadMin is the least spread, of logarithms, that the usual starts are believed to have: five equal ones do
	// not make a sixth that took 2 s longer an event.
	shiftSpreadMin = 0.05

	// shiftAgree is the share of the newest starts that must lie, each by itself, on the side of the change by half of the
	// usual spread: one start that took ten times as long is an accident, however far it moves the mean.
	shiftAgree = 0.75

	// oldShareUp and oldShareDown are what the starts before a change weigh against those after it. After an improvement it
	// is so little because old starts, being slower, hold the upper quantiles by themselves.
	oldShareUp   = 0.5
	oldShareDown = 0.02
)

// shiftOf looks for a change in the level of the served starts, given newest first: for every number k of newest ones it
// compares the mean of the logarithms with that of the ones before (Student's t with their spread, n−1 degrees of
// freedom), and takes the k that chance explains least, if it explains it too little (shiftUpProb, shiftDownProb). The
// zero Shift is none. One start that took twice as long leaves it silent; two or three in a row do not. In a pool of several
// models or shapes each start is compared with what its own kind takes: that the slow model started last is no change.
func shiftOf(newestFirst []Sample) Shift {
	var logs []float64
	for _, s := range ownLevel(newestFirst) {
		if logs = append(logs, s); len(logs) == shiftNewMax+shiftOldMax {
			break
		}
	}
	best, bestProb := Shift{}, 1.0
	recent := 0.0
	for k := 1; k <= shiftNewMax && len(logs)-k >= shiftOldMin; k++ {
		recent += logs[k-1]
		if k < shiftUpMin {
			continue
		}
		old := logs[k:min(len(logs), k+shiftOldMax)]
		mean, spread := meanAndSpread(old)
		by := recent/float64(k) - mean
		n := float64(len(old))
		t := by / (max(spread, shiftSpreadMin) * math.Sqrt(1/float64(k)+1/n))
		prob := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Survival(math.Abs(t))
		significant := by > 0 && prob < shiftUpProb || by < 0 && k >= shiftDownMin && n >= shiftDownMin && prob < shiftDownProb
		if significant && prob < bestProb && agree(logs[:k], mean, max(spread, shiftSpreadMin)/2, by) {
			best, bestProb = Shift{Starts: k, Factor: math.Exp(by)}, prob
		}
	}
	return best
}

// ownLevel returns the logarithms of what the served samples took, in a pool of several kinds (models and shapes) each
// less the mean of its kind.
func ownLevel(samples []Sample) []float64 {
	type kind struct{ model, shape string }
	sums, counts := map[kind]float64{}, map[kind]int{}
	var logs []float64
	var of []kind
	for _, s := range samples {
		if s.Outcome != Served || s.Total <= 0 {
			continue
		}
		k, x := kind{s.Key.Model, s.Key.Shape}, math.Log(float64(s.Total))
		sums[k] += x
		counts[k]++
		logs, of = append(logs, x), append(of, k)
	}
	if len(counts) == 1 {
		return logs
	}
	for i, k := range of {
		logs[i] -= sums[k] / float64(counts[k])
	}
	return logs
}

// agree reports whether enough values lie beyond mean by more than least, in the direction of by.
func agree(values []float64, mean, least, by float64) bool {
	n := 0
	for _, v := range values {
		if (v-mean)*math.Copysign(1, by) > least {
			n++
		}
	}
	return float64(n) >= shiftAgree*float64(len(values))
}

// meanAndSpread returns the mean and the standard deviation (n−1) of at least two values.
func meanAndSpread(x []float64) (mean, spread float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		spread += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(spread / float64(len(x)-1))
}

// discountOld makes the starts before a shift weigh no more than their share of those after it. Pending starts keep their
// weight: that they are late is news whenever they began.
func (t *tally) discountOld() {
	if t.shift.Starts == 0 {
		return
	}
	after, before, seen := 0.0, 0.0, 0
	for _, o := range t.observations { // newest first
		if !o.served {
			continue
		}
		if seen < t.shift.Starts {
			after += o.weight
		} else {
			before += o.weight
		}
		seen++
	}
	share := oldShareUp
	if t.shift.Factor < 1 {
		share = oldShareDown
	}
	factor := min(1, share*after/before)
	seen = 0
	t.servedWeight = 0
	for i := range t.observations {
		o := &t.observations[i]
		if !o.served {
			continue
		}
		if seen++; seen > t.shift.Starts {
			o.weight *= factor
		}
		t.servedWeight += o.weight
	}
}
