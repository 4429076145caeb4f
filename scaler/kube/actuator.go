package kube

import (
	"slices"

	"forewarm/planner"
)

// defaultTolerance is the HPA controller's. Its flag --horizontal-pod-autoscaler-tolerance cannot be seen from outside.
const defaultTolerance = 0.1

// toleranceMax is the largest that the planner takes; beyond it nothing is ever scaled.
const toleranceMax = 10

// actuator is how the autoscaler of a model is set up; nil when that is unknown, or no ScaledObject names the model. Of
// several ScaledObjects it is what holds for the least able: the widest dead-band, and any pause of one direction. The
// model as a whole is paused when all of them are.
func (w *world) actuator(model string) *planner.Actuator {
	if w.why(scaledObjects) != "" {
		return nil
	}
	var out *planner.Actuator
	for _, s := range w.scaledObjects {
		if !slices.Contains(s.models, model) {
			continue
		}
		a := w.settings(s)
		if out == nil {
			out = a
			continue
		}
		out.ScaleUpTolerance = max(out.ScaleUpTolerance, a.ScaleUpTolerance)
		out.Paused = out.Paused && a.Paused
		out.ScaleInPaused = out.ScaleInPaused || a.ScaleInPaused
		out.ScaleOutPaused = out.ScaleOutPaused || a.ScaleOutPaused
		out.ReplicasMin, out.ReplicasMax = plus(out.ReplicasMin, a.ReplicasMin), plus(out.ReplicasMax, a.ReplicasMax)
		// There is no one value.
		out.PausedAt, out.Fallback, out.ScaleDownTolerance, out.ScaleUp, out.HPADesired = nil, nil, nil, nil, nil
	}
	return out
}

// KEDA's defaults of the limits (apis/keda/v1alpha1/scaledobject_types.go).
const (
	kedaMin = 0
	kedaMax = 100
)

func (w *world) settings(s *scaledObject) *planner.Actuator {
	low, high := kedaMin, kedaMax
	if s.min != nil {
		low = *s.min
	}
	if s.max != nil {
		high = *s.max
	}
	a := &planner.Actuator{ScaleUpTolerance: min(w.tolerance(s), toleranceMax), Paused: s.paused, PausedAt: s.pausedAt,
		ScaleInPaused: s.noScaleIn, ScaleOutPaused: s.noOut, ReplicasMin: &low, ReplicasMax: &high}
	if h := w.hpaOf(s); h != nil {
		a.ScaleDownTolerance, a.ScaleUp, a.HPADesired = h.scaleDownTolerance, h.scaleUp, h.desired
	}
	if s.fallback != nil {
		f := *s.fallback
		a.Fallback = &f
	}
	return a
}

// tolerance is the dead-band that holds: that of the HPA as the API server keeps it, or while there is no HPA, what the
// ScaledObject asks for.
func (w *world) tolerance(s *scaledObject) float64 {
	wish := s.tolerance
	if h := w.hpaOf(s); h != nil {
		wish = h.scaleUpTolerance
	}
	if wish == nil || *wish < 0 {
		return defaultTolerance
	}
	return *wish
}

// hpaOf is the HPA that KEDA made of a ScaledObject; nil when there is none or it is unknown.
func (w *world) hpaOf(s *scaledObject) *hpa {
	if w.unknown[hpas] != "" {
		return nil
	}
	return w.hpas[object{s.namespace, s.hpa}]
}

func plus(a, b *int) *int {
	if a == nil || b == nil {
		return nil
	}
	n := *a + *b
	return &n
}
