// Package trace reads request traces in the forms in which they are published, one request at a time.
//
//	azure      CSV TIMESTAMP,ContextTokens,GeneratedTokens (Azure/AzurePublicDataset, 2023 and 2024)
//	burstgpt   CSV Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type (HPMLL/BurstGPT), seconds
//	plain      CSV time,model,prompt_tokens,completion_tokens or t_s in place of time
//	mooncake   JSON lines with timestamp (ms), input_length, output_length (kvcache-ai/Mooncake)
//
// The form is told from the first line. Rows must be in order of time. A row without prompt or completion tokens (a failed
// request, as BurstGPT has them) asked for no work that anybody knows: it is left out and counted. Anything else that is
// wrong is an error with its line, the value and what is allowed; the first twenty come at once. Memory does not grow with
// the trace.
package trace
