package planner

import "time"

// Memory is what Decide needs to know about its own past; it goes out with one Decision and comes in with the next
// State. It holds only what the guards need (below 4 KiB a model). The zero Memory is a first start: hold and grow only
// until a scale-down window has been watched.
type Memory struct {
	// At is when the Decision that wrote it was made; zero for none.
	At time.Time `json:"at"`
	// Unbroken is the start of the run of ticks without a break; a restart or a pause of several ticks starts it anew,
	// and nothing shrinks until a scale-down window has passed since.
	Unbroken time.Time     `json:"unbroken"`
	Models   []ModelMemory `json:"models,omitempty"` // sorted by Name
	// Stock are the offers that had no node lately, sorted by pool, type and zone.
	Stock []StockMemory `json:"stock,omitempty"`
	// Quotas are those that are not what they were before forewarm changed them.
	Quotas []QuotaMemory `json:"quotas,omitempty"`
}

// ModelMemory is the memory of one model.
type ModelMemory struct {
	Name string `json:"name"`
	// Replicas is the last plan.
	Replicas int `json:"replicas"`
	// Told is what KEDA was told where the HPA's dead-band made that more than Replicas; 0 is that it was not.
	Told int `json:"told,omitempty"`
	// Wanted are the recent wishes before the scale-down window was applied; Needed the recent replicas that the
	// offered load and queue asked for. Both keep only what can still be a maximum of the window: times ascend and
	// counts strictly descend.
	Wanted []Count `json:"wanted,omitempty"`
	Needed []Count `json:"needed,omitempty"`
	// Buffer is how many replicas beyond the plan had room kept for them by the last Decision.
	Buffer int `json:"buffer,omitempty"`
	// Buffers are the last Decision's BufferTargets, by pool.
	Buffers []PoolCount `json:"buffers,omitempty"`
}

// told is the number that the HPA last went to, as far as it followed.
func (m ModelMemory) told() int { return max(m.Replicas, m.Told) }

// PoolCount is a number of replicas in a pool.
type PoolCount struct {
	Pool     string `json:"pool"`
	Replicas int    `json:"replicas"`
}

// Count is a number of replicas at a time.
type Count struct {
	At       time.Time `json:"at"`
	Replicas int       `json:"replicas"`
}

// pushMax appends c to a queue that answers "the maximum since": entries older than from are dropped, and so are
// earlier ones that are not above c, since c outlives them. The result keeps times ascending, counts descending.
func pushMax(q []Count, c Count, from time.Time) []Count {
	out := make([]Count, 0, len(q)+1)
	for _, e := range q {
		if !e.At.Before(from) && e.Replicas > c.Replicas && !e.At.After(c.At) {
			out = append(out, e)
		}
	}
	out = append(out, c)
	for len(out) > queueMax {
		// Merge the two oldest into one that is as high and lasts as long as either: the bound on memory may only hold a
		// plan longer.
		out[1].Replicas = out[0].Replicas
		out = out[1:]
	}
	return out
}

// queueMax bounds a queue; with both queues full a model's memory stays below 4 KiB.
const queueMax = 24

// maxSince is the largest count in a pushMax queue at or after from; ok is false when there is none.
func maxSince(q []Count, from time.Time) (max int, ok bool) {
	for _, e := range q {
		if !e.At.Before(from) && (!ok || e.Replicas > max) {
			max, ok = e.Replicas, true
		}
	}
	return max, ok
}
