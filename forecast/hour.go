package forecast

import (
	"math"
	"time"
)

// restless is how the errors of a band are by the minute of the hour that its forecast was made in: how large relative to
// the usual, on which the spread is regressed, and to which side, by which the forecast is moved. Jobs start on the hour,
// by the quarter, at ten past: a window that begins with them is not like one that ends before, and a day has 24 of each,
// so this is known long before the minutes of a day are. It is conformal prediction by group (Mondrian: Vovk, Lindsay,
// Nouretdinov and Gammerman, 2003), with groups that share what they can.
type restless struct {
	ratio []float32 // per minute: mean of error ÷ usual error
	lean  []float32 // per minute: mean of error ÷ usual error, with its sign
	count []uint8
	mean  float64 // of ratio
	// How much of lean is believed is the regression of later errors on it.
	xy, xx, size float64
	seen         int
}

const (
	minuteBins   = 60 // of an hour; as many as there are steps when these are longer
	minuteStep   = 5 * time.Minute
	restlessGain = 0.02
	restlessMax  = 8 // usual errors that one error counts as, at most
	leanGain     = 1.0 / 72
	leanMax      = 3
	leanMemory   = 5000.0
	leanRidge    = 30 // observations of the usual size that count against lean
)

// minutesIn returns how many bins an hour has: one, which says nothing, for steps that are longer than minuteStep, over
// which the jobs of an hour average out.
func minutesIn(step time.Duration) int {
	if step > minuteStep {
		return 1
	}
	return min(minuteBins, int(time.Hour/step))
}

// bin returns where a place lies.
func (r *restless) bin(at place) int { return at.hour * len(r.ratio) / 3600 }

func newRestless(bins int) restless {
	r := restless{ratio: make([]float32, bins), lean: make([]float32, bins), count: make([]uint8, bins), mean: 1}
	for i := range r.ratio {
		r.ratio[i] = 1
	}
	return r
}

// learn takes in an error, in usual errors, of a forecast that was made in a bin and moved by shift.
func (r *restless) learn(bin int, e float64) {
	if len(r.ratio) == 1 {
		return
	}
	e = clamp(e, restlessMax)
	if r.count[bin] < math.MaxUint8 {
		r.count[bin]++
	}
	gain := max(restlessGain, 1/(float64(r.count[bin])+8))
	r.ratio[bin] += float32(gain * (math.Abs(e) - float64(r.ratio[bin])))
	r.mean += gain / float64(len(r.ratio)) * (math.Abs(e) - r.mean)

	r.seen++
	old := float64(r.lean[bin])
	e = clamp(e, leanMax) + r.shift(bin) // as if it had not been moved
	r.size += max(1/leanMemory, 1/float64(r.seen)) * (e*e - r.size)
	r.xy = r.xy*(1-1/leanMemory) + e*old
	r.xx = r.xx*(1-1/leanMemory) + old*old
	r.lean[bin] += float32(max(leanGain, 1/(float64(r.count[bin])+1)) * (e - old))
}

// shift returns by how many usual errors a forecast made in a bin is moved.
func (r *restless) shift(bin int) float64 {
	if r.xy <= 0 {
		return 0
	}
	return r.xy / (r.xx + leanRidge*r.size) * float64(r.lean[bin])
}

// mood returns the logarithm of a bin's usual error relative to that of all.
func (r *restless) mood(bin int) float64 {
	return math.Log((float64(r.ratio[bin]) + restFloor) / (r.mean + restFloor))
}

func (r *restless) code(c *coder) {
	c.singles(r.ratio)
	c.singles(r.lean)
	c.bytes(r.count)
	c.float(&r.mean, &r.xy, &r.xx, &r.size)
	c.whole(&r.seen)
}
