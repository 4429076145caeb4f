package planner

import (
	"slices"
	"time"
)

// PlanView is the published plan of one model as the dashboard and `forewarm ask` read it.
type PlanView struct {
	// At is when the Decision was made, Version counts the Decisions of this process or cluster.
	At      time.Time `json:"at"`
	Version int64     `json:"version"`
	// Stale is set when the plan is older than a fresh one may be; AgeSeconds is its age.
	Stale      bool          `json:"stale"`
	AgeSeconds float64       `json:"age_seconds"`
	Model      ModelDecision `json:"model"`
	Gaps       []Gap         `json:"gaps,omitempty"`
	Shortfalls []Shortfall   `json:"shortfalls,omitempty"`
	// Slots is what the free GPUs of each pool are worth to the model.
	Slots []ModelSlots `json:"slots,omitempty"`
	// Buffers is the room that is kept for the model in each pool.
	Buffers []BufferTarget `json:"buffers,omitempty"`
}

// ClusterView is the published plan of what the models share.
type ClusterView struct {
	At      time.Time      `json:"at"`
	Version int64          `json:"version"`
	Pools   []PoolTarget   `json:"pools"`
	Buffers []BufferTarget `json:"buffers"`
	Quotas  []QuotaTarget  `json:"quotas"`
	// Order is what the plan changes, in the order in which it is to be carried out.
	Order []Change `json:"order"`
	// Stock are the offers that had no node lately.
	Stock []StockMemory `json:"stock"`
}

// Cluster is what the models share of a Decision. Its lists are empty, not nil.
func (d *Decision) Cluster() ClusterView {
	return ClusterView{
		At:      d.At,
		Pools:   append([]PoolTarget{}, d.Pools...),
		Buffers: append([]BufferTarget{}, d.Buffers...),
		Quotas:  append([]QuotaTarget{}, d.Quotas...),
		Order:   append([]Change{}, d.Order...),
		Stock:   append([]StockMemory{}, d.Memory.Stock...),
	}
}

// View cuts one model out of a Decision; ok is false when the Decision does not have it.
func (d *Decision) View(model string) (v PlanView, ok bool) {
	md := d.Model(model)
	if md == nil {
		return PlanView{}, false
	}
	v = PlanView{At: d.At, Model: *md}
	for _, g := range d.Gaps {
		if g.Model == model || g.Model == "" {
			v.Gaps = append(v.Gaps, g)
		}
	}
	for _, s := range d.Shortfalls {
		if s.Model == model {
			v.Shortfalls = append(v.Shortfalls, s)
		}
	}
	for _, s := range d.Slots {
		if slices.Contains(s.Models, model) {
			v.Slots = append(v.Slots, s)
		}
	}
	for _, b := range d.Buffers {
		if b.Model == model {
			v.Buffers = append(v.Buffers, b)
		}
	}
	return v, true
}
