package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Each component draws from a stream of its own, named by a purpose and numbers (a minute, a client, a replica), so that
// adding one draw somewhere does not reshuffle the rest and any part can be drawn again on its own.
const (
	purposeCount uint64 = iota + 1
	purposeLengths
	purposeArrivals
	purposeClients
	purposeSwitch
	purposeLevel
	purposeBurst
	purposeStart
	purposeNode
	purposeModel
	purposePastNode
	purposeProfile
	purposeRouter
	purposeTrace
)

// mix folds numbers into one seed with the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), so that
// neighbouring minutes give unrelated streams.
func mix(seed uint64, parts ...uint64) uint64 {
	for _, p := range parts {
		seed += 0x9e3779b97f4a7c15
		z := seed ^ p*0xd1342543de82ef95
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		seed = z ^ z>>31
	}
	return seed
}

// stream is a random stream that can be moved to another place without allocating.
type stream struct {
	src *rand.PCG
	*rand.Rand
}

func newStream(seed uint64, parts ...uint64) *stream {
	s := &stream{src: rand.NewPCG(0, 0)}
	s.Rand = rand.New(s.src)
	s.seek(seed, parts...)
	return s
}

// seek moves the stream to the start of the sub-stream that the parts name.
func (s *stream) seek(seed uint64, parts ...uint64) {
	m := mix(seed, parts...)
	s.src.Seed(m, mix(m, 1))
}

// Lognormal is a distribution of durations: Median times the exponential of a normal with standard deviation Sigma. The
// zero value is always 0. Start phases are right-skewed: a slow registry is minutes late, a fast one seconds early.
type Lognormal struct {
	Median time.Duration `yaml:"median"`
	Sigma  float64       `yaml:"sigma"`
}

// times is the distribution of a multiple.
func (l Lognormal) times(factor float64) Lognormal {
	return Lognormal{Median: time.Duration(float64(l.Median) * factor), Sigma: l.Sigma}
}

// draw returns one duration, 0 for the zero value.
func (l Lognormal) draw(r *rand.Rand) time.Duration {
	return time.Duration(float64(l.Median) * math.Exp(l.Sigma*r.NormFloat64()))
}
