package sim

import (
	"math"
	"time"
)

// levelKnot is the step of the level's autoregression; between two knots the logarithm is interpolated.
const levelKnot = 10 * time.Minute

// levelBlockKnots is how many knots are worked out at a time: a week.
const levelBlockKnots = 1008

// levelPath is one realisation of Level: an autoregression that can be entered anywhere. Each knot's innovation is a
// sub-stream; a block starts from zero so many knots early that what is cut off is below levelForgotten, and then
// settles into the path that any other start would give, up to that share.
type levelPath struct {
	level  Level
	seed   uint64
	rho    float64 // correlation from knot to knot
	warmUp int
	block  int64 // index of the block in values
	values []float64
}

const levelForgotten = 1e-6

func newLevelPath(l Level, seed uint64) levelPath {
	p := levelPath{level: l, seed: seed}
	p.rho = math.Pow(l.HourCorrelation, levelKnot.Hours())
	if p.rho > 0 {
		p.warmUp = int(math.Ceil(math.Log(levelForgotten) / math.Log(p.rho)))
	}
	return p
}

// factor is the level at t, around 1.
func (p *levelPath) factor(t time.Time) float64 {
	if p.level.Sigma == 0 {
		return 1
	}
	x := float64(t.UnixNano()) / float64(levelKnot)
	knot := math.Floor(x)
	share := x - knot
	return math.Exp((1-share)*p.at(int64(knot)) + share*p.at(int64(knot)+1))
}

func (p *levelPath) at(knot int64) float64 {
	block := floorDiv(knot, levelBlockKnots)
	if p.values == nil || block != p.block {
		// A block carries one knot of the next one: interpolation at its end would otherwise work out blocks in turns.
		first := block * levelBlockKnots
		if p.values != nil && knot == (p.block+1)*levelBlockKnots {
			return p.values[levelBlockKnots]
		}
		p.fill(first)
		p.block = block
	}
	return p.values[knot-p.block*levelBlockKnots]
}

func (p *levelPath) fill(first int64) {
	p.values = p.values[:0]
	r := newStream(p.seed)
	innovation := p.level.Sigma * math.Sqrt(1-p.rho*p.rho)
	x := 0.0
	for k := first - int64(p.warmUp); k <= first+levelBlockKnots; k++ {
		r.seek(p.seed, purposeLevel, uint64(k))
		x = p.rho*x + innovation*r.NormFloat64()
		if k >= first {
			p.values = append(p.values, x)
		}
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// clientBlock is the stretch over which a client's switching is drawn at a time: four weeks of Unix time.
const clientBlock = 28 * 24 * time.Hour

// clientPath is one realisation of a Client: on and off times in alternation. Each block starts in a state drawn from the
// long-run share, so that it can be entered without the past; the exponential law has no memory of a run's age.
type clientPath struct {
	client Client
	onRate float64
	seed   uint64
	block  int64
	known  bool
	first  bool    // on at the start of the block
	turns  []int64 // Unix nanoseconds at which it switches, ascending
	from   int     // turns before the last time asked: queries mostly move forward
}

func newClientPath(c Client, requests float64, seed uint64) clientPath {
	return clientPath{client: c, seed: seed, onRate: c.Share * requests * float64(c.On+c.Off) / float64(c.On)}
}

// rate is what the client asks for at t, in requests/s.
func (p *clientPath) rate(t time.Time) float64 {
	if p.client.Off == 0 {
		return p.onRate
	}
	now := t.UnixNano()
	if block := floorDiv(now, int64(clientBlock)); !p.known || block != p.block {
		p.fill(block)
	}
	for p.from > 0 && p.turns[p.from-1] > now {
		p.from--
	}
	for p.from < len(p.turns) && p.turns[p.from] <= now {
		p.from++
	}
	if p.first == (p.from%2 == 0) {
		return p.onRate
	}
	return 0
}

func (p *clientPath) fill(block int64) {
	r := newStream(p.seed, uint64(block))
	p.block, p.known, p.from, p.turns = block, true, 0, p.turns[:0]
	p.first = r.Float64() < float64(p.client.On)/float64(p.client.On+p.client.Off)
	at, end := block*int64(clientBlock), (block+1)*int64(clientBlock)
	for on := p.first; at < end; on = !on {
		mean := p.client.Off
		if on {
			mean = p.client.On
		}
		at += max(1, int64(float64(mean)*r.ExpFloat64()))
		p.turns = append(p.turns, at)
	}
}
