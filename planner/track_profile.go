package planner

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// EngineLook is what the engines of a model's replicas said of themselves over the last step, for learning what their
// iterations cost. The sums are over all replicas. NaN is unknown, and leaves the look out.
type EngineLook struct {
	Running Ratio        // sequences in the batches, summed
	Prompt  TokenRate    // prompt tokens arriving, summed, prefix hits included
	KVUsage Ratio        // mean share of the KV cache in use
	ITL     Milliseconds // mean time between tokens
}

// profileLearner follows one model's engines.
type profileLearner struct {
	learner *Learner
	// ready and readySince are the replicas at the last look and since when none was added: those of a model are looked at
	// together, so that one fresh replica spoils the look.
	ready      int
	readySince time.Time
	last       time.Time
	drift      string
}

// learnProfile takes in a look at the engines, at most one per step. It only learns from replicas that have all been ready
// for longer than the learner's warm-up, as far as the Tracker itself has seen.
func (t *Tracker) learnProfile(m *trackedModel, look *ModelObservation, now time.Time) {
	l := m.engines
	if l == nil || look.Replicas == nil {
		return
	}
	if l.readySince.IsZero() || look.Replicas.Ready > l.ready {
		l.readySince = now
	}
	l.ready = look.Replicas.Ready
	mix := m.sizes.mix()
	if look.Engine == nil || mix == nil || l.ready < 1 || now.Sub(l.last) < t.cfg.Step {
		return
	}
	p, n := m.Profile.Physics, float64(l.ready)
	hit := float64(p.PrefixHit.At(math.MaxFloat64/2, l.ready))
	lesson := l.learner.Learn(EngineSample{
		Age:      now.Sub(l.readySince),
		Running:  look.Engine.Running / Ratio(n),
		KVTokens: Tokens(look.Engine.KVUsage) * p.KVTokens,
		ITL:      look.Engine.ITL,
		Prompt:   look.Engine.Prompt * TokenRate((1-hit)/n),
		Requests: *mix,
	})
	if lesson.Used {
		l.last = now
	}
	if lesson.Drift {
		l.drift = fmt.Sprintf("; learned anew since %s: %s", now.UTC().Format(time.RFC3339), lesson.Why)
	}
}

// profile is the model's profile, with what its iterations were learned to cost once there are enough samples.
func (m *trackedModel) profile() *Profile {
	l := m.engines
	if l == nil || l.learner.Published == [4]float64{1, 1, 1, 1} {
		return m.Profile
	}
	learned := l.learner.Physics()
	if learned.Validate() != nil {
		return m.Profile // at the edge of what is plausible the measured profile stands
	}
	return &Profile{Physics: &learned, Source: fmt.Sprintf("%s; costs of an iteration learned from the engines: α %.2f, β_p %.2f, β_d %.2f, γ %.2f times that%s",
		m.Profile.Source, l.learner.Published[0], l.learner.Published[1], l.learner.Published[2], l.learner.Published[3], l.drift)}
}

// newProfileLearner starts from the profile; nil when nothing is to be learned. A profile without physics has no costs.
func newProfileLearner(m TrackedModel) (*profileLearner, error) {
	if m.Learn == nil {
		return nil, nil
	}
	if m.Profile == nil || m.Profile.Physics == nil {
		return nil, errors.New("its profile is to be learned and has no physics to start from")
	}
	learner, err := NewLearner(*m.Profile.Physics, *m.Learn)
	if err != nil {
		return nil, err
	}
	return &profileLearner{learner: learner}, nil
}
