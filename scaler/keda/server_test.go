package keda

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
)

func TestStopEndsStreamsCleanlyAndSaysNotServing(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *harness) {
		h.publish("chat-70b", 5)
		active, err := h.client.StreamIsActive(soon(t), ref("chat-70b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := active.Recv(); err != nil {
			t.Fatal(err)
		}
		watch, err := healthpb.NewHealthClient(h.conn).Watch(soon(t), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("health is %v, %v before Stop", got, err)
		}
		if err := h.Stop(soon(t)); err != nil {
			t.Errorf("Stop: %v: nothing was under way but streams", err)
		}
		for err = nil; err == nil; {
			_, err = active.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v, want EOF", err)
		}
		got, err := h.health.Check(context.Background(), &healthpb.HealthCheckRequest{})
		if err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health after Stop is %v, %v", got, err)
		}
		_, err = h.client.GetMetricSpec(soon(t), ref("chat-70b"))
		wantCode(t, err, codes.Unavailable)
	})
}

func TestStopCutsWhatHangs(t *testing.T) {
	for _, c := range []struct {
		name  string
		grace time.Duration
		ctx   func() (context.Context, context.CancelFunc)
		want  string
	}{
		{"after stop_grace", 50 * time.Millisecond, func() (context.Context, context.CancelFunc) {
			return context.WithCancel(context.Background())
		}, "stop_grace"},
		{"when the context ends", time.Minute, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 50*time.Millisecond)
		}, "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Deadline, cfg.StopGrace = time.Minute, c.grace
			s, err := NewServer(cfg, nil, time.Now, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			impl := hanging{released: make(chan struct{}), begun: make(chan struct{}, 1)}
			defer close(impl.released)
			s.grpc = s.newGRPC(impl, nil)
			client := pb.NewExternalScalerClient(dial(t, serve(t, s.Serve, func() {}), insecure.NewCredentials()))
			ended := make(chan error, 1)
			go func() {
				_, err := client.GetMetrics(soon(t), metricsFor(ref("chat-70b")))
				ended <- err
			}()
			<-impl.begun
			ctx, cancel := c.ctx()
			defer cancel()
			if err := s.Stop(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Stop: %v, want an error about %s", err, c.want)
			}
			if status.Code(<-ended) != codes.Unavailable {
				t.Error("the hanging call was not cut")
			}
		})
	}
}

// panicking panics in a unary call and in a stream.
type panicking struct {
	pb.UnimplementedExternalScalerServer
}

func (panicking) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	panic("unary trouble")
}

func (panicking) StreamIsActive(*pb.ScaledObjectRef, grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	panic("stream trouble")
}

func TestAPanicIsOneFailedCall(t *testing.T) {
	h := start(t, plaintext)
	var log lockedBuffer
	h.Server.log = slog.New(slog.NewTextHandler(&log, nil))
	client := h.clientOf(t, panicking{})
	_, err := client.IsActive(soon(t), ref("chat-70b"))
	wantCode(t, err, codes.Internal, "IsActive")
	stream, err := client.StreamIsActive(soon(t), ref("chat-70b"))
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.Internal, "StreamIsActive")
	for _, want := range []string{"unary trouble", "stream trouble", "server_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
	}
	if h.Stats().Streams != 0 {
		t.Errorf("%d streams are counted open after the panic", h.Stats().Streams)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestAClientsOwnDeadlineIsNotTheServers(t *testing.T) {
	h := start(t, plaintext, func(c *Config) { c.Deadline = time.Minute })
	impl := hanging{released: make(chan struct{})}
	defer close(impl.released)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := h.unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/externalscaler.ExternalScaler/GetMetrics"},
		func(ctx context.Context, _ any) (any, error) { return impl.GetMetrics(ctx, nil) })
	wantCode(t, err, codes.DeadlineExceeded)
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	h := start(t, plaintext)
	h.streams.Store(streamsMax)
	defer h.streams.Store(0)
	stream, err := h.client.StreamIsActive(soon(t), ref("chat-70b"))
	if err == nil {
		_, err = stream.Recv()
	}
	wantCode(t, err, codes.ResourceExhausted, "8192 are allowed")
}

func TestMessagesAreBounded(t *testing.T) {
	h := start(t, plaintext)
	_, err := h.client.IsActive(soon(t), ref("chat-70b", "colour", strings.Repeat("x", messageBytesMax)))
	wantCode(t, err, codes.ResourceExhausted)
}

func TestReflectionListsTheService(t *testing.T) {
	h := start(t, plaintext)
	stream, err := reflectionpb.NewServerReflectionClient(h.conn).ServerReflectionInfo(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil || !strings.Contains(got.String(), "externalscaler.ExternalScaler") {
		t.Errorf("reflection lists %v, %v", got, err)
	}
}

func TestStatsCountByMethodAndCode(t *testing.T) {
	h := start(t, plaintext)
	if s := h.Stats(); len(s.Requests) != 0 || !s.LastRequest.IsZero() || s.Condition != PlanNone || !s.PlanAt.IsZero() ||
		s.Models != 2 {
		t.Errorf("at the start: %+v", s)
	}
	_, _ = poll(soon(t), h.client, ref("chat-70b"), 0)
	h.publish("third", 5)
	h.clock.advance(time.Second)
	_, _ = poll(soon(t), h.client, ref("third"), 0)
	want := []RequestCount{
		{"GetMetricSpec", "OK", 2}, {"GetMetrics", "OK", 1}, {"GetMetrics", "Unavailable", 1}, {"IsActive", "OK", 1},
	}
	s := h.Stats()
	if len(s.Requests) != len(want) {
		t.Fatalf("counts are %v, want %v", s.Requests, want)
	}
	for i := range want {
		if s.Requests[i] != want[i] {
			t.Errorf("count %d is %v, want %v", i, s.Requests[i], want[i])
		}
	}
	if !s.LastRequest.Equal(epoch.Add(time.Second)) || !s.PlanAt.Equal(epoch) || s.Condition != PlanFresh || s.Models != 3 {
		t.Errorf("stats are %+v", s)
	}
}

func TestMutualTLSRefusesStrangers(t *testing.T) {
	h := start(t, mutualTLS)
	other := newPKI(t)
	ours := &tls.Config{InsecureSkipVerify: true} // the test is about the server's check of the client
	for name, c := range map[string]credentials.TransportCredentials{
		"no certificate": credentials.NewTLS(ours),
		"another authority": credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{other.pair(t, "x")},
		}),
		"plaintext":          insecure.NewCredentials(),
		"an old TLS version": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}),
	} {
		_, err := pb.NewExternalScalerClient(dial(t, h.address, c)).GetMetricSpec(soon(t), ref("chat-70b"))
		if status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v, want a refused connection", name, err)
		}
	}
}

func TestOneWayTLSRefusesOldVersions(t *testing.T) {
	h := start(t, oneWayTLS)
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", h.address, &tls.Config{
			InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, NextProtos: []string{"h2"},
		})
		if (err == nil) != ok {
			t.Errorf("%s: %v, want accepted %v", tls.VersionName(version), err, ok)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestARotatedCertificateIsServedWithoutARestart(t *testing.T) {
	p := newPKI(t)
	files := p.serverFiles(t, "server")
	h := start(t, plaintext, func(c *Config) { c.TLS = files })
	serial := func() int64 {
		conn, err := tls.Dial("tcp", h.address, &tls.Config{RootCAs: p.pool(), NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	first := serial()
	later := time.Now().Add(time.Minute)
	if err := os.WriteFile(files.CertFile, []byte("half-written"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != first {
		t.Errorf("a file that does not load: serial %d, want the previous %d", got, first)
	}
	p.serverFiles(t, "server") // same files, next serial
	if err := os.Chtimes(files.CertFile, later, later); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != first+1 {
		t.Errorf("after the rotation: serial %d, want %d", got, first+1)
	}
}

func TestNewServerReportsWhatIsWrongAtOnce(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Deadline = 0
	cfg.TLS = TLS{CertFile: "none.pem", KeyFile: "none-key.pem", ClientCAFile: "none-ca.pem"}
	_, err := NewServer(cfg, nil, time.Now, slog.New(slog.DiscardHandler))
	for _, want := range []string{"deadline is 0s", "none.pem", "none-key.pem", "none-ca.pem"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not mention %q", err, want)
		}
	}
	p := newPKI(t)
	cfg = DefaultConfig()
	cfg.TLS = p.serverFiles(t, "server")
	cfg.TLS.ClientCAFile = cfg.TLS.KeyFile // PEM, but no certificate
	_, err = NewServer(cfg, nil, time.Now, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Errorf("a key as client CA: %v", err)
	}
}
