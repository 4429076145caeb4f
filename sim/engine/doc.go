// Package engine is one replica of a model as a serving engine runs it: iterations of continuous batching with chunked
// prefill, KV blocks, a limit of sequences and preemption by recompute. It is what sim builds fleets of and what the
// closed form of planner is checked against.
//
// # The iteration
//
// With n sequences decoding that attend to K KV tokens, p prompt tokens being prefilled and q query-key pairs among
// them, one iteration takes
//
//	T = α + β_p·p + β_d·n + γ·K + δ·q
//
// picoseconds. All coefficients are whole picoseconds, so that sums are exact and two ways of adding them up are equal.
// A prefill of p tokens after s that are in cache already has q = p·s + p(p+1)/2 causal pairs.
//
// At each boundary between two iterations the engine, in this order,
//
//  1. hands out what the iteration made: one token to each sequence decoding, the first token to prompts whose prefill
//     ended; complete and cancelled requests leave;
//  2. makes room: while the KV blocks that the sequences decoding need now exceed what there is, the one admitted last
//     loses its blocks and goes back to the front of the queue. It will prefill its prompt and all it generated again;
//  3. continues the prompt that is being prefilled, with at most min(MaxBatchedTokens − n, Chunk) tokens;
//  4. admits waiting requests in order of arrival while tokens are left, fewer than MaxSequences run, and the blocks for
//     the whole context are free. Nobody overtakes, so who was just preempted stays out for this iteration: it would need
//     all the blocks that it gave.
//
// A request counts from the first boundary at or after its arrival, a cancellation likewise.
//
// # Runs
//
// Between two events nothing but the KV tokens changes, and those by n a step, so that m iterations take
//
//	S(m) = m·b + c·m(m−1)/2,  b = T of the first,  c = γ·n + δ·p²
//
// and are one step of the engine. A run ends at the earliest completion, at the last whole chunk of a prompt, where KV
// blocks run out, at a cancellation or a change of limits, and at an arrival that can be admitted. The last chunk of a prompt, or one that two
// prompts share, is a run of one. The tests hold a slow engine that takes the iterations one by one; both are equal to
// the picosecond.
//
// # What is not modelled
//
// Each sequence holds its whole context in blocks of its own, also the part that was found in the prefix cache. The
// prefix cache is a function of the prompt tokens served so far (Config.PrefixHalf), not a cache with contents. Speculative
// decoding, LoRA switching and host overheads that vary between iterations are not there; a constant one is part of α.
//
// References: Yu et al., Orca, OSDI 2022 (iteration-level scheduling); Kwon et al., PagedAttention, SOSP 2023 (blocks,
// recompute); Agrawal et al., Sarathi-Serve, OSDI 2024 (chunked prefill); Agrawal et al., Vidur, MLSys 2024.
package engine
