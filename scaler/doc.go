// Package scaler is the live loop: observe → Decide → record → publish → apply, every tick.
//
// It decides nothing itself. A Source brings facts (the live readers or the simulated cluster), planner.Tracker turns
// them into a State, planner.Decide into a Decision; the Loop carries it to whoever serves and writes it. The Loop fails
// static: a source that cannot be read leads to a State full of gaps, on which Decide holds; a Decide that fails leaves
// the last plan in place to age; a journal that cannot be written is a condition, not an end.
//
// What the forecasters have learned outlives the process (Snapshots): a restart reads the load since, not weeks of it.
//
// It knows no client library but the one it exports its own metrics with: Prometheus, KEDA and SQLite are adapters in
// the folders below, wired together in cmd/forewarmd.
package scaler
