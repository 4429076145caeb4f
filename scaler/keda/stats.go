package keda

import (
	"sync/atomic"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc/codes"
)

// Stats is what the endpoint has done since it was made. It imports no metrics library: whoever exports the figures
// reads them here.
type Stats struct {
	// Requests holds one count for each pair of method and code seen, in a fixed order. A stream counts when it ends.
	Requests []RequestCount
	// LastRequest is when KEDA last called (for a stream: when it opened or ended); zero when it never did.
	LastRequest time.Time
	// Streams is the number of streams open now.
	Streams int
	// Condition is that of the published plan under the server's own limits; PlanAt is when it was made, zero when it
	// never was.
	Condition Condition
	PlanAt    time.Time
	// Models is the number of models that are configured or planned.
	Models int
}

// RequestCount counts the calls of one method that ended with one code.
type RequestCount struct {
	Method string // such as "GetMetrics"
	Code   string // gRPC's name, such as "OK" or "Unavailable"
	Count  uint64
}

// Stats returns the figures of this moment.
func (s *Server) Stats() Stats {
	b := s.board.Load()
	return Stats{
		Requests:    s.calls.counts(),
		LastRequest: s.calls.lastTime(),
		Streams:     int(s.streams.Load()),
		Condition:   b.condition(s.now(), s.cfg.StaleAfter, s.cfg.MaxPlanAge),
		PlanAt:      b.at,
		Models:      len(b.names),
	}
}

// methods are KEDA's calls; health and reflection are not counted.
var methods = [...]string{"GetMetricSpec", "GetMetrics", "IsActive", "StreamIsActive", "StreamMetricSpec"}

// methodIndex maps the full method, as interceptors see it, to its place in methods.
var methodIndex = func() map[string]int {
	index := map[string]int{}
	for i, m := range methods {
		index["/"+pb.ExternalScaler_ServiceDesc.ServiceName+"/"+m] = i
	}
	return index
}()

// codesCount is the number of gRPC codes, which count from OK (0) to Unauthenticated (16).
const codesCount = int(codes.Unauthenticated) + 1

// calls counts without a lock.
type calls struct {
	count [len(methods)][codesCount]atomic.Uint64
	last  atomic.Int64 // Unix nanoseconds, 0 for never
}

// seen notes that a call of KEDA's began or ended.
func (c *calls) seen(fullMethod string, now time.Time) {
	if _, ok := methodIndex[fullMethod]; ok {
		c.last.Store(now.UnixNano())
	}
}

// ended counts a call. A code beyond gRPC's own counts as Unknown, as gRPC's documentation asks.
func (c *calls) ended(fullMethod string, code codes.Code, now time.Time) {
	i, ok := methodIndex[fullMethod]
	if !ok {
		return
	}
	if int(code) >= codesCount {
		code = codes.Unknown
	}
	c.count[i][code].Add(1)
	c.last.Store(now.UnixNano())
}

func (c *calls) counts() []RequestCount {
	var out []RequestCount
	for i, m := range methods {
		for code := range codesCount {
			if n := c.count[i][code].Load(); n > 0 {
				out = append(out, RequestCount{Method: m, Code: codes.Code(code).String(), Count: n})
			}
		}
	}
	return out
}

func (c *calls) lastTime() time.Time {
	ns := c.last.Load()
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
