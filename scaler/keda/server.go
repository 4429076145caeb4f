package keda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"forewarm/planner"
)

const (
	// connectionCallsMax is far above what KEDA needs: it sends the calls of all ScaledObjects through one connection, two
	// streams each with external-push, and a call beyond the limit would wait on its side without a deadline (C3, C12).
	connectionCallsMax = 16384
	// streamsMax leaves room for unary calls on a connection full of streams.
	streamsMax = 8192
	// messageBytesMax and headerBytesMax are far above a trigger's metadata.
	messageBytesMax = 64 << 10
	headerBytesMax  = 16 << 10
)

// Server is the endpoint. Make one with NewServer, then Serve; Publish each new plan.
type Server struct {
	cfg  Config
	now  func() time.Time
	log  *slog.Logger
	grpc *grpc.Server
	// health says SERVING from the start: the spec can be answered without a plan, and a stale plan is no reason to be
	// taken out of rotation, for then nobody would answer it (C4, C6).
	health *health.Server

	publishing sync.Mutex // serialises the writers of board, models and latest
	models     []string
	latest     *planner.Decision
	received   time.Time
	board      atomic.Pointer[board]

	running context.Context // done from Stop on
	halt    context.CancelFunc
	calls   calls
	streams atomic.Int64
}

// NewServer makes a server that answers for the configured models, and later for the planned ones too. now is the clock
// the age of a plan is measured by. It reads the TLS files and reports everything that is wrong with cfg at once.
func NewServer(cfg Config, models []string, now func() time.Time, log *slog.Logger) (*Server, error) {
	invalid := cfg.Validate()
	var creds credentials.TransportCredentials
	if cfg.TLS.CertFile != "" && cfg.TLS.KeyFile != "" {
		files, err := newTLSFiles(cfg.TLS, log)
		if err != nil {
			return nil, errors.Join(invalid, err)
		}
		creds = credentials.NewTLS(files.config())
	}
	if invalid != nil {
		return nil, invalid
	}
	s := &Server{cfg: cfg, now: now, log: log, health: health.NewServer(), models: slices.Clone(models)}
	s.running, s.halt = context.WithCancel(context.Background())
	s.board.Store(newBoard(nil, time.Time{}, s.models, nil))
	s.grpc = s.newGRPC(service{Server: s}, creds)
	return s, nil
}

// newGRPC makes the gRPC server around an implementation of KEDA's service; without credentials it speaks plaintext.
func (s *Server) newGRPC(impl pb.ExternalScalerServer, creds credentials.TransportCredentials) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.MaxConcurrentStreams(connectionCallsMax),
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.MaxSendMsgSize(messageBytesMax),
		grpc.MaxHeaderListSize(headerBytesMax),
		grpc.ConnectionTimeout(10 * time.Second), // TLS handshake and preface
		grpc.KeepaliveParams(keepalive.ServerParameters{
			// A stream that was opened just before the connection's age may live that long again; a connection that is cut
			// under a stream would leave KEDA's reconnect backoff growing to a minute.
			MaxConnectionAge:      s.cfg.MaxConnectionAge,
			MaxConnectionAgeGrace: s.cfg.MaxConnectionAge + 10*time.Second,
			Time:                  30 * time.Second,
			Timeout:               10 * time.Second,
		}),
		// KEDA sends no keepalive pings; a proxy between may.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
	if creds != nil {
		options = append(options, grpc.Creds(creds))
	}
	g := grpc.NewServer(options...)
	pb.RegisterExternalScalerServer(g, impl)
	s.health.SetServingStatus(pb.ExternalScaler_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(g, s.health)
	reflection.Register(g)
	return g
}

// Publish makes d the plan that is answered from now on, and wakes the streams. The order of the calls decides, not
// d.At: a leader whose clock was set back goes on publishing. The caller must not change d afterwards. A nil Decision is
// no plan and changes nothing: the previous one ages until it is too old.
func (s *Server) Publish(d *planner.Decision) {
	if d == nil {
		return
	}
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.latest, s.received = d, s.now()
	s.replaceBoard()
}

// SetModels makes these the configured models. A model that is neither configured nor in the plan is unknown, and its
// last known answer is forgotten.
func (s *Server) SetModels(models []string) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.models = slices.Clone(models)
	s.replaceBoard()
}

func (s *Server) replaceBoard() {
	old := s.board.Load()
	s.board.Store(newBoard(s.latest, s.received, s.models, old))
	close(old.replaced)
}

// Serve answers calls on l until Stop, and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving KEDA on %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop says NOT_SERVING, ends the streams cleanly so that KEDA reconnects elsewhere at once, and waits for calls under
// way. It cuts what is left when ctx is done or after the configured stop_grace, whichever is first, and then returns an
// error. A stopped server cannot serve again.
func (s *Server) Stop(ctx context.Context) error {
	s.health.Shutdown()
	s.halt()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	grace := time.NewTimer(s.cfg.StopGrace)
	defer grace.Stop()
	var cut error
	select {
	case <-done:
		return nil
	case <-grace.C:
		cut = fmt.Errorf("stopping the KEDA endpoint: calls were cut after stop_grace, %s", shortDuration(s.cfg.StopGrace))
	case <-ctx.Done():
		cut = fmt.Errorf("stopping the KEDA endpoint: calls were cut: %w", context.Cause(ctx))
	}
	s.grpc.Stop()
	<-done
	return cut
}

// streamLife is how long one stream may live: the connection's age less up to a tenth, so that streams that opened
// together do not all come back together.
func (s *Server) streamLife() time.Duration {
	return s.cfg.MaxConnectionAge - rand.N(s.cfg.MaxConnectionAge/10)
}
