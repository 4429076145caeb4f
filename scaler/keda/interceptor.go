package keda

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unary bounds, guards and counts a call. The call runs in a goroutine of its own: only so can the answer be in time
// whatever the call hangs on, and a hanging scaler freezes its ScaledObject (C3).
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, call grpc.UnaryHandler) (any, error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	type result struct {
		response any
		err      error
	}
	done := make(chan result, 1) // buffered, so that a call that ends too late does not leak its goroutine
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: s.panicked(info.FullMethod, p)}
			}
			done <- r
		}()
		r.response, r.err = call(bounded, req)
	}()
	var r result
	select {
	case r = <-done:
	case <-bounded.Done():
		r.err = status.Errorf(codes.Unavailable, "not answered within the server's deadline, %s", shortDuration(s.cfg.Deadline))
		if ctx.Err() != nil { // the client's own deadline or cancellation
			r.err = status.FromContextError(ctx.Err()).Err()
		}
	}
	s.calls.ended(info.FullMethod, status.Code(r.err), s.now())
	return r.response, r.err
}

// stream bounds, guards and counts a stream. Its context is done when the stream has lived long enough or the server
// stops; the call then returns and the client sees a clean end.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, call grpc.StreamHandler) (err error) {
	s.calls.seen(info.FullMethod, s.now())
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p)
		}
		s.calls.ended(info.FullMethod, status.Code(err), s.now())
	}()
	defer s.streams.Add(-1)
	if open := s.streams.Add(1); open > streamsMax {
		return status.Errorf(codes.ResourceExhausted, "%d streams are open: %d are allowed", open, streamsMax)
	}
	ctx, cancel := context.WithTimeout(ss.Context(), s.streamLife())
	defer cancel()
	defer context.AfterFunc(s.running, cancel)()
	return call(srv, boundStream{ServerStream: ss, ctx: ctx})
}

// boundStream is a stream with another context.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the bounded context.
func (b boundStream) Context() context.Context { return b.ctx }

// panicked logs a panic with its stack and turns it into INTERNAL, so that one bad call does not take down the answers
// of all ScaledObjects.
func (s *Server) panicked(method string, p any) error {
	s.log.Error("call panicked",
		slog.String("method", method), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	return status.Errorf(codes.Internal, "%s failed: the server's log has the details", method)
}
