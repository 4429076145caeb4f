package coldstart

import (
	"fmt"
	"math"
	"time"
)

// weightsMax bounds the bytes of a model's weights: a hundred times the largest published.
const weightsMax = 200 << 40

// SetWeights files the bytes of a model's weights, which put it in a size class and give it a prior. bytes must be above
// 0 and at most 200 TiB.
func (l *Ledger) SetWeights(model string, bytes int64) error {
	if model == "" || bytes <= 0 || bytes > weightsMax {
		return fmt.Errorf("weights of model %q: %d bytes: want a model, and above 0 to %d bytes", model, bytes, int64(weightsMax))
	}
	if l.weights == nil {
		l.weights = map[string]int64{}
	}
	l.weights[model] = bytes
	return nil
}

// sizeOf is the size class of a model: its weights between two powers of two of GiB. "" when they are not known.
func (l *Ledger) sizeOf(model string) string {
	bytes := l.weights[model]
	if bytes <= 0 {
		return ""
	}
	low := math.Floor(math.Log2(float64(bytes) / (1 << 30)))
	if low < 0 {
		return "0-1GiB"
	}
	return fmt.Sprintf("%.0f-%.0fGiB", math.Exp2(low), math.Exp2(low+1))
}

// The parts of the prior. Each is the middle of published figures, in the logarithm (facts on start-up times by phase):
const (
	// priorNode: Karpenter's NodeClaim to scheduled 167 s, GKE's cluster autoscaler 3 to 8 min, driver and boot 2 to 8 min.
	priorNode = 200 * time.Second
	// priorEvict: the usual grace period of batch work, and its eviction.
	priorEvict = 60 * time.Second
	// priorImage: 101 s, 224 s, 4 to 6 min for images of 10 to 20 GB.
	priorImage = 200 * time.Second
	// priorEngine: bootstrap 46 to 74 s, and init with compilation and graphs 92 to 195 s; with caches 38 to 60 s.
	priorEngine       = 160 * time.Second
	priorEngineCached = 80 * time.Second
	// priorSourceRate: download and load together, 54 GB in 62 s, 140 GB in 214 s from plain storage.
	priorSourceRate = 0.75e9
	// priorDiskRate: load from the node's own disk or page cache, 70B in 27 to 84 s.
	priorDiskRate = 2.5e9
	// priorSpread is p95/p50: the figures that these are the middle of differ by two to three times either way.
	priorSpread = 2.2
)

// PriorByWeights returns the lead time that published figures suggest for a model whose weights have so many bytes: fixed
// parts for node, image and engine, and the weights at a rate. It is log-normal with p95/p50 of 2.2, has Basis Prior and
// is meant to be outweighed by the first few starts. PathUnknown counts as ColdNode. It panics if bytes is not positive.
//
// Example: 140 GB (a 70B model in bf16): cold node 12.4 min, warm node 9.1 min, cached weights 2.3 min.
func PriorByWeights(path Path, bytes int64) LeadTime {
	if bytes <= 0 {
		panic(fmt.Sprintf("coldstart: prior for weights of %d bytes", bytes))
	}
	at := func(rate float64) time.Duration { return scale(time.Second, float64(bytes)/rate) }
	median := map[Path]time.Duration{
		ColdNode:      priorNode + priorImage + priorEngine + at(priorSourceRate),
		ReclaimedNode: priorEvict + priorImage + priorEngine + at(priorSourceRate),
		WarmNode:      priorImage + priorEngine + at(priorSourceRate),
		CachedWeights: priorEngineCached + at(priorDiskRate),
	}
	median[PathUnknown] = median[ColdNode]
	lt := logNormal(min(median[path], totalMax), priorSpread)
	lt.Path, lt.Basis, lt.FailureProb = path, Prior, PriorFailureProb
	return lt
}
