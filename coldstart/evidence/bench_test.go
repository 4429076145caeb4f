package evidence

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
)

// bigLog is a log of n bytes: starts of an engine, each followed by what a busy one logs for hours. It is made as it is
// read, so that it takes no memory of its own.
type bigLog struct {
	left  int64
	block []byte
	at    int
}

func newBigLog(n int64) *bigLog {
	var b bytes.Buffer
	b.WriteString("2026-03-02T09:15:00.000000000Z (APIServer pid=1) INFO 03-02 09:15:00 [api_server.py:1839] vLLM API server version 0.11.0\n")
	b.WriteString("2026-03-02T09:15:24.000000000Z (EngineCore_DP0 pid=90) INFO 03-02 09:15:24 [default_loader.py:267] Loading weights took 3.50 seconds\n")
	b.WriteString("2026-03-02T09:15:40.000000000Z (APIServer pid=1) INFO:     Application startup complete.\n")
	for i := 0; b.Len() < 16<<20; i++ {
		fmt.Fprintf(&b, "2026-03-02T09:16:%02d.000000000Z (APIServer pid=1) INFO:     10.0.%d.9:41000 - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n", i%60, i%256)
		if i%20 == 0 {
			fmt.Fprintf(&b, "2026-03-02T09:16:%02d.000000000Z (APIServer pid=1) INFO 03-02 09:16:00 [loggers.py:123] Engine 000: Avg prompt throughput: 4031.2 tokens/s, Avg generation throughput: 1203.5 tokens/s, Running: 48 reqs, Waiting: 0 reqs, GPU KV cache usage: 31.4%%, Prefix cache hit rate: 12.0%%\n", i%60)
		}
	}
	return &bigLog{left: n, block: b.Bytes()}
}

func (l *bigLog) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), l.left)], l.block[l.at:])
	l.at = (l.at + n) % len(l.block)
	l.left -= int64(n)
	return n, nil
}

// BenchmarkReadLog reads a gigabyte of log per operation, a start every 16 MiB. The bar is 10 s and 64 MiB; heap-MiB is
// the growth of the heap over the 16 MiB that make the log.
func BenchmarkReadLog(b *testing.B) {
	const size = 1 << 30
	log := newBigLog(0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.SetBytes(size)
	for b.Loop() {
		log.left, log.at = size, 0
		logs, err := ReadLog(log, "big.log")
		if err != nil {
			b.Fatal(err)
		}
		if starts, notes := Starts(&Cluster{}, logs, Options{}); len(starts) == 0 {
			b.Fatal(starts, notes)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapSys)-int64(before.HeapSys))/(1<<20), "heap-MiB")
}
