package evidence

import (
	"bytes"
	"strconv"
	"time"

	"forewarm/coldstart"
)

// kind says what a line of a log is evidence of.
type kind uint8

const (
	part  kind = iota // a phase took so long and has just ended; several of one rank add up
	total             // the same for the whole phase of this rank; the parts are then in it
	begin             // a phase begins
	end               // a phase ends; how long it took is told by the last begin of the rank
	start             // the process begins: of a new attempt
	up                // the engine serves
	done              // the first request was answered
	other             // no phase: cache, capacity, version
	first             // the first line of the log that has a time
)

// A pattern is a message that is evidence. It begins with starts and contains has; the seconds are the number after
// number ("" where there is none).
type pattern struct {
	starts, has, number string
	kind                kind
	phase               coldstart.Phase
	ends                coldstart.Phase // a phase that is over with this line, beside what kind says
	engine              string
	compiled            coldstart.Cache // what the line says about the compile cache
	weights             coldstart.Cache // and about the weights
	also                *pattern        // the end of ends, nil for none
}

const (
	vllm   = "vllm"
	sglang = "sglang"
	tgi    = "tgi"
	llama  = "llama.cpp"
)

// patterns are the messages by engine, each as the engine's published source prints it. A message that two patterns fit
// belongs to the first. What is left out because no duration or no phase follows from it: vLLM's progress bars, "Using
// …" lines and worker handshakes; SGLang's "Memory pool end" and "Engine startup timings"; TGI's per-file downloads and
// "Cuda Graphs are enabled"; llama.cpp's tensor and context lines, and "HTTP server is listening" of 2024, which came
// before the load.
var patterns = []pattern{
	// vLLM 0.5 to 0.2x.
	{starts: "vLLM API server version", kind: start, engine: vllm},
	{starts: "Initializing a", has: "LLM engine (v", kind: start, engine: vllm},
	{starts: "Starting to load model", kind: begin, phase: coldstart.WeightLoad, engine: vllm},
	{starts: "Time spent downloading weights for", number: ": ", kind: part, phase: coldstart.WeightDownload, engine: vllm,
		weights: coldstart.NotCached},
	{starts: "Loading model weights took", kind: end, phase: coldstart.WeightLoad, engine: vllm},
	{starts: "Loading weights took", number: "took ", kind: part, phase: coldstart.WeightLoad, engine: vllm},
	{starts: "Model loading took", has: " and ", number: " and ", kind: total, phase: coldstart.WeightLoad, engine: vllm},
	{starts: "Model loading took", kind: end, phase: coldstart.WeightLoad, engine: vllm},
	{starts: "Memory profiling results:", number: "duration=", kind: part, phase: coldstart.WarmUp, engine: vllm},
	{starts: "Memory profiling takes", number: "takes ", kind: part, phase: coldstart.WarmUp, engine: vllm},
	{starts: "Initial profiling/warmup run took", number: "took ", kind: part, phase: coldstart.WarmUp, engine: vllm},
	{starts: "Dynamo bytecode transform time:", number: "time: ", kind: part, phase: coldstart.Compile, engine: vllm},
	{starts: "Compiling a graph for", number: "takes ", kind: part, phase: coldstart.Compile, engine: vllm,
		compiled: coldstart.NotCached},
	{starts: "Directly load the compiled graph", number: "took ", kind: part, phase: coldstart.Compile, engine: vllm,
		compiled: coldstart.Cached},
	{starts: "Directly load AOT compilation", kind: other, engine: vllm, compiled: coldstart.Cached},
	{starts: "torch.compile takes", number: "takes ", kind: total, phase: coldstart.Compile, engine: vllm},
	{starts: "torch.compile took", number: "took ", kind: total, phase: coldstart.Compile, engine: vllm},
	{starts: "torch.compile and initial profiling run took", number: "took ", kind: part, phase: coldstart.WarmUp, engine: vllm},
	{starts: "Graph capturing finished in", number: "in ", kind: part, phase: coldstart.GraphCapture, engine: vllm},
	{starts: "init engine (", number: ") took ", kind: total, phase: coldstart.WarmUp, engine: vllm},
	{starts: "# GPU blocks:", kind: other, engine: vllm},
	{starts: "# cuda blocks:", kind: other, engine: vllm},
	{starts: "GPU KV cache size:", kind: other, engine: vllm},

	// SGLang. Its web server is up before its warm-up request; "fired up" comes after it.
	{starts: "server_args=ServerArgs(", kind: start, engine: sglang},
	{starts: "Load weight begin", kind: begin, phase: coldstart.WeightLoad, engine: sglang},
	{starts: "Load weight end", has: "elapsed=", number: "elapsed=", kind: part, phase: coldstart.WeightLoad, engine: sglang},
	{starts: "Load weight end", kind: end, phase: coldstart.WeightLoad, engine: sglang},
	{starts: "Capture ", has: " graph begin", kind: begin, phase: coldstart.GraphCapture, engine: sglang},
	{starts: "Capture ", has: "elapsed: ", number: "elapsed: ", kind: part, phase: coldstart.GraphCapture, engine: sglang},
	{starts: "Capture ", has: "elapsed=", number: "elapsed=", kind: part, phase: coldstart.GraphCapture, engine: sglang},
	{starts: "The server is fired up and ready to roll", kind: up, ends: coldstart.WarmUp, engine: sglang},

	// TGI. A shard's time holds the start of its Python process and the load of the weights.
	{starts: "Args {", kind: start, engine: tgi},
	{starts: "Starting download process", kind: begin, phase: coldstart.WeightDownload, engine: tgi},
	{starts: "Files are already present on the host", kind: other, engine: tgi, weights: coldstart.Cached},
	{starts: "Successfully downloaded weights", kind: end, phase: coldstart.WeightDownload, engine: tgi,
		weights: coldstart.NotCached},
	{starts: "Shard ready in", number: "in ", kind: part, phase: coldstart.WeightLoad, engine: tgi},
	{starts: "Warming up model", kind: begin, phase: coldstart.WarmUp, engine: tgi},
	{starts: "Setting max batch total tokens", kind: end, phase: coldstart.WarmUp, engine: tgi},
	{starts: "Connected", kind: up, engine: tgi},

	// llama.cpp server, of 2025 on.
	{starts: "loading model", kind: begin, phase: coldstart.WeightLoad, engine: llama},
	{starts: "warming up the model with an empty run", kind: begin, phase: coldstart.WarmUp, ends: coldstart.WeightLoad, engine: llama},
	{starts: "model loaded", kind: end, phase: coldstart.WarmUp, ends: coldstart.WeightLoad, engine: llama},
	{starts: "server is listening on", kind: up, engine: llama},
	{starts: "listening on http", kind: up, engine: llama},

	// The web server of vLLM and SGLang (uvicorn).
	{starts: "Application startup complete", kind: up},
}

// byStart finds patterns by the first four bytes of their messages, which is what makes a gigabyte of log cheap.
var byStart = func() map[[4]byte][]*pattern {
	m := map[[4]byte][]*pattern{}
	for i := range patterns {
		p := &patterns[i]
		if p.ends != "" {
			p.also = &pattern{kind: end, phase: p.ends, engine: p.engine}
		}
		m[[4]byte([]byte(p.starts))] = append(m[[4]byte([]byte(p.starts))], p)
	}
	return m
}()

// match finds the pattern of a message.
func match(message []byte) *pattern {
	if len(message) < 4 {
		return nil
	}
	for _, p := range byStart[[4]byte(message)] {
		if hasPrefix(message, p.starts) && (p.has == "" || bytes.Contains(message, []byte(p.has))) {
			return p
		}
	}
	return nil
}

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// took reads the seconds of a message; ok is false when they are not there or absurd.
func (p *pattern) took(message []byte) (time.Duration, bool) {
	at := bytes.Index(message, []byte(p.number))
	if p.number == ": " { // after a model's name, which may have one
		at = bytes.LastIndex(message, []byte(p.number))
	}
	if at < 0 {
		return 0, false
	}
	return seconds(message[at+len(p.number):])
}

// durationMax is the longest a phase can be said to have taken.
const durationMax = 365 * 24 * time.Hour

// seconds reads a number with its unit: "5.12 seconds", "15 secs.", "22.9s", "350ms". No unit is seconds.
func seconds(b []byte) (time.Duration, bool) {
	n := 0
	for n < len(b) && n < 32 && (b[n] >= '0' && b[n] <= '9' || b[n] == '.') {
		n++
	}
	x, err := strconv.ParseFloat(string(bytes.TrimRight(b[:n], ".")), 64)
	if err != nil {
		return 0, false
	}
	unit := bytes.TrimLeft(b[n:], " ")
	switch {
	case hasPrefix(unit, "ms"):
		x /= 1e3
	case hasPrefix(unit, "µs"):
		x /= 1e6
	case hasPrefix(unit, "ns"):
		x /= 1e9
	}
	if !(x >= 0 && x <= durationMax.Seconds()) {
		return 0, false
	}
	return time.Duration(x*float64(time.Second) + .5), true
}

// between returns what stands between two texts, or "".
func between(b []byte, before, after string) string {
	_, rest, found := bytes.Cut(b, []byte(before))
	if !found {
		return ""
	}
	inside, _, found := bytes.Cut(rest, []byte(after))
	if !found || len(inside) > 256 {
		return ""
	}
	return string(inside)
}

// tokens reads "1,131,008 tokens" or a number of blocks.
func tokens(b []byte) int {
	n := 0
	for i, c := range bytes.TrimLeft(b, " ") {
		switch {
		case c >= '0' && c <= '9' && i < 15:
			n = n*10 + int(c-'0')
		case c == ',':
		default:
			return n
		}
	}
	return n
}
