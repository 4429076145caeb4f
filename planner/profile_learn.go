package planner

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// EngineSample is what one replica's engine metrics say of one scrape interval.
type EngineSample struct {
	// Age is how long the replica has been ready: the first minutes are of compiling, capturing and an empty prefix cache.
	Age time.Duration
	// Running is the mean number of sequences in the batch, KVTokens what they hold, ITL the mean time between tokens.
	Running  Ratio
	KVTokens Tokens
	ITL      Milliseconds
	// Prompt is the rate of prompt tokens computed (prefix hits taken off), Requests the mean sizes of the interval.
	Prompt   TokenRate
	Requests RequestMix
}

// known reports whether the sample says anything: NaN is unknown, and an engine without sequences has no ITL.
func (s *EngineSample) known() bool {
	for _, v := range []float64{float64(s.Running), float64(s.KVTokens), float64(s.ITL), float64(s.Prompt)} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return s.Running > 0 && s.ITL > 0 && s.Requests.Validate() == nil
}

// LearnerConfig is how a Learner learns; zero fields are replaced by the defaults in the comments.
type LearnerConfig struct {
	// WarmUp (5m): samples of younger replicas are left out.
	WarmUp time.Duration `json:"warm_up_ns"`
	// Forget (0.998) is the weight a sample keeps at the next one.
	Forget float64 `json:"forget"`
	// StepMax (0.05) is how far a coefficient may move at one sample, relative to itself.
	StepMax float64 `json:"step_max"`
	// Samples (40): before so many the physics stay as they were.
	Samples int `json:"samples"`
}

func (c LearnerConfig) withDefaults() LearnerConfig {
	if c.WarmUp == 0 {
		c.WarmUp = 5 * time.Minute
	}
	if c.Forget == 0 {
		c.Forget = 0.998
	}
	if c.StepMax == 0 {
		c.StepMax = 0.05
	}
	if c.Samples == 0 {
		c.Samples = 40
	}
	return c
}

// Learner learns the cost of a replica's iterations from engine metrics: recursive least squares on the relative error of
// the ITL, robust (Huber weights against a running scale), with forgetting. It starts from given physics, and what it
// publishes moves towards what it believes by small steps, so that no sample can make a capacity jump. It is a pure state
// machine; its exported fields are its whole state.
//
// Coefficients are held relative to those it started from, between a tenth and ten times of them.
type Learner struct {
	Start     Physics       `json:"start"`
	Config    LearnerConfig `json:"config"`
	Belief    [4]float64    `json:"belief"` // α, β_p, β_d, γ relative to Start
	Published [4]float64    `json:"published"`
	Cov       [4][4]float64 `json:"cov"`
	Scale     float64       `json:"scale"` // of relative errors
	Mix       RequestMix    `json:"mix"`   // that the beliefs rest on
	Used      int           `json:"used"`  // samples since the start or the last drift
	Sums      [2]float64    `json:"sums"`  // Page's sums of errors above and below
}

// Lesson is what a Learner made of one sample.
type Lesson struct {
	Used bool
	// Why says why the sample was left out, or what was noticed.
	Why string
	// Drift is set when the engine has become another one: an upgrade, other settings, another mix of requests. What was
	// believed before then counts little.
	Drift bool
}

// NewLearner starts from the physics of a profile or a prior.
func NewLearner(start Physics, cfg LearnerConfig) (*Learner, error) {
	cfg = cfg.withDefaults()
	err := start.Validate()
	if start.Prefill <= 0 || start.Decode <= 0 || start.Attention <= 0 {
		err = errors.Join(err, errors.New("planner: learning starts from positive coefficients, each is relative to its start"))
	}
	if cfg.WarmUp < 0 || !(cfg.Forget > 0.5 && cfg.Forget <= 1) || !(cfg.StepMax > 0 && cfg.StepMax <= 1) || cfg.Samples < 1 {
		err = errors.Join(err, fmt.Errorf("planner: learner: warm-up %v, forget %v, step %v, samples %d: at least 0, 0.5 to 1, above 0 to 1, "+
			"and at least 1 are allowed", cfg.WarmUp, cfg.Forget, cfg.StepMax, cfg.Samples))
	}
	if err != nil {
		return nil, err
	}
	l := &Learner{Start: start, Config: cfg, Belief: [4]float64{1, 1, 1, 1}, Published: [4]float64{1, 1, 1, 1}, Scale: 0.1,
		Mix: start.Requests}
	l.widen()
	return l, nil
}

const (
	priorVariance = 0.25    // of a relative coefficient: half of itself either way
	relativeLeast = 0.1     // bounds of a relative coefficient
	relativeMost  = 10      //
	huberAt       = 1.5     // scales at which an error begins to count linearly
	driftSlack    = 1       // scales that Page's sums let pass
	driftAt       = 12      // scales at which they call it a drift
	scaleForget   = 0.97    // of the running scale
	scaleLeast    = 0.01    // below it errors are noise of the metrics
	noiseVariance = 0.05e-2 // of a relative ITL, about 2 % squared
)

// widen forgets how sure it is, not what it believes.
func (l *Learner) widen() {
	l.Cov = [4][4]float64{}
	for i := range l.Cov {
		l.Cov[i][i] = priorVariance
	}
	l.Sums, l.Used = [2]float64{}, 0
}

// Physics are the published ones.
func (l *Learner) Physics() Physics {
	p := l.Start
	p.Iteration *= Milliseconds(l.Published[0])
	p.Prefill *= Milliseconds(l.Published[1])
	p.Decode *= Milliseconds(l.Published[2])
	p.Attention *= Milliseconds(l.Published[3])
	p.PrefillAttention *= Milliseconds(l.Published[3])
	p.Requests = l.Mix
	return p
}

// Learn takes one sample.
func (l *Learner) Learn(s EngineSample) Lesson {
	switch {
	case s.Age < l.Config.WarmUp:
		return Lesson{Why: fmt.Sprintf("the replica is %s old: the first %s are left out", shortDuration(s.Age), shortDuration(l.Config.WarmUp))}
	case !s.known():
		return Lesson{Why: "the sample has missing values"}
	}
	lesson := Lesson{Used: true}
	if s.Requests.moved(l.Mix) && l.Used >= l.Config.Samples {
		lesson.Drift, lesson.Why = true, fmt.Sprintf("requests moved from %s to %s", l.Mix, s.Requests)
		l.widen()
	}
	l.follow(s.Requests)
	x := l.terms(&s)
	off := 1 - dot(x[:], l.Belief[:])
	if l.drifted(off) {
		lesson.Drift, lesson.Why = true, fmt.Sprintf("the ITL has been off by more than %.0f %% in one direction", 100*l.Scale)
		l.widen()
	}
	l.update(x, off)
	l.Used++
	l.publish()
	return lesson
}

// follow moves the mix towards that of the sample: slowly while it is the same, at once after it moved.
func (l *Learner) follow(m RequestMix) {
	if m.moved(l.Mix) && l.Used == 0 {
		l.Mix = l.Mix.observed(&m)
		return
	}
	const share = 0.02
	l.Mix.Prompt += share * (m.Prompt - l.Mix.Prompt)
	l.Mix.Completion += share * (m.Completion - l.Mix.Completion)
}

// terms are the parts of the ITL that the start's coefficients make, relative to the measured ITL.
func (l *Learner) terms(s *EngineSample) [4]float64 {
	itl := float64(s.ITL)
	tokens := float64(s.Prompt) * itl / 1e3 // prefilled in an iteration
	pairs := tokens * float64(s.Requests.Prompt) / 2
	return [4]float64{
		float64(l.Start.Iteration) / itl,
		float64(l.Start.Prefill) * tokens / itl,
		float64(l.Start.Decode) * float64(s.Running) / itl,
		(float64(l.Start.Attention)*float64(s.KVTokens) + float64(l.Start.PrefillAttention)*pairs) / itl,
	}
}

// drifted is Page's test in both directions on the errors in scales.
func (l *Learner) drifted(off float64) bool {
	if l.Used < l.Config.Samples {
		return false
	}
	z := min(max(off/l.Scale, -4), 4) // one wild sample is no drift
	l.Sums[0] = max(0, l.Sums[0]+z-driftSlack)
	l.Sums[1] = max(0, l.Sums[1]-z-driftSlack)
	return max(l.Sums[0], l.Sums[1]) > driftAt
}

// update is one step of recursive least squares with a Huber weight.
func (l *Learner) update(x [4]float64, off float64) {
	weight := min(1, huberAt*l.Scale/max(math.Abs(off), 1e-12))
	var px [4]float64
	variance := noiseVariance / weight
	for i := range px {
		px[i] = dot(l.Cov[i][:], x[:])
		variance += x[i] * px[i]
	}
	for i := range l.Belief {
		l.Belief[i] = min(max(l.Belief[i]+px[i]/variance*off, relativeLeast), relativeMost)
		for k := range px {
			l.Cov[i][k] -= px[i] * px[k] / variance
		}
	}
	// Forgetting makes it less sure everywhere, but never less than at the start: directions that the load does not excite
	// would grow without end.
	for i := range l.Cov {
		grown := l.Cov[i][i] / l.Config.Forget
		limit := math.Sqrt(min(grown, priorVariance) / grown / l.Config.Forget)
		for k := range l.Cov {
			l.Cov[i][k] *= limit
			l.Cov[k][i] *= limit
		}
	}
	l.Scale = max(scaleLeast, math.Sqrt(scaleForget*l.Scale*l.Scale+(1-scaleForget)*min(off*off, 9*l.Scale*l.Scale)))
}

// publish moves what is published towards what is believed, by at most a step.
func (l *Learner) publish() {
	if l.Used < l.Config.Samples {
		return
	}
	for i := range l.Published {
		step := l.Config.StepMax * l.Published[i]
		l.Published[i] += min(max(l.Belief[i]-l.Published[i], -step), step)
	}
}
