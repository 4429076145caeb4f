// Package journal keeps on disk what a restart and an explanation need: every Decision with its Steps, the Memory that
// goes into the next one, States that replay to their Decision byte for byte, and cold-start samples. It decides nothing
// and reads no clock; the time of a record is the time of its Decision.
//
//	loop ── Append(State, Policy, Decision) ──▶ journal.db ──▶ Last, LastMemory          a restart
//	     ── AddStarts(samples) ───────────────▶            ──▶ DecisionAt, Decisions      explain, report
//	                                                       ──▶ StateAt                    decide, simulate
//
// One process writes (Open takes a lock on the directory), any number read beside it (OpenReadOnly takes none).
//
// # What is stored
//
// One SQLite file in WAL mode, schema version 1. A Decision is one row in ticks (all that is not about one model) and one
// row per 16 models in plans, so that one model is read without the others. Nearly every plan differs a little from the
// one before (the peak window moves with the clock, a load changes a digit) and little from what the same models said an
// hour ago. So rows come in groups of at most 240 ticks: the first row of a block in a group is stored whole, every later
// one is deflated with that first row as its preset dictionary. Reading a row never needs more than one other row, what is
// said again costs next to nothing, and groups are dropped whole.
//
// A State is stored at checkpoints and on every change of a target or an answer, one row per model, together with its
// Policy and the Memory of its Decision. Payloads are raw DEFLATE of JSON followed by the CRC-32 (IEEE, big endian) of
// that JSON: SQLite does not checksum its pages, and a flipped digit in a plan must not be believed.
//
// # Durability
//
// A Decision and its Memory are one transaction, a State is a second one: a State that cannot be stored never costs the
// Decision. Commits use synchronous=FULL. With NORMAL a power cut may lose the newest commits, that is the Memory that
// keeps a plan from shrinking after a restart; FULL costs one fsync per tick of 15 s, which nobody notices.
//
// # Limits
//
// Records go by age (Options.KeepDecisions, KeepStates, KeepStarts) and when the directory would outgrow
// Options.SizeMax: the oldest States first, then the oldest group of Decisions. The newest group, which holds the last
// Decision, and its Memory are never dropped; starts are only when they fill the cap by themselves. Age is counted from
// the newest Decision and at most one group goes per Append, so a clock that jumps ahead for a minute does not empty the
// journal. The file really shrinks (incremental vacuum).
//
// A file that is not a sound journal of this schema version is set aside under another name with its bytes untouched,
// the Report says why, and a fresh one is started.
//
// # Forecasters
//
// Snapshots keeps what forecasters have learned in plain files in a folder beside the journal: half a megabyte a model that
// is written anew every hour would only pass through the database, and losing one costs no more than reading a history.
package journal
