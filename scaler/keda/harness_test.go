package keda

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"forewarm/planner"
)

// epoch is when the tests' plans are made.
var epoch = time.Date(2026, 3, 2, 9, 5, 0, 0, time.UTC)

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// decision plans the given answers at a time; a negative one stands for "no number".
func decision(at time.Time, answers map[string]int) *planner.Decision {
	d := &planner.Decision{At: at}
	for name, n := range answers {
		m := planner.ModelDecision{Name: name, Authority: planner.Act}
		if n >= 0 {
			m.Replicas, m.Answer = &n, &n
		}
		d.Models = append(d.Models, m)
	}
	slices.SortFunc(d.Models, func(a, b planner.ModelDecision) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// harness is a server on a loopback port and a client of KEDA's stubs.
type harness struct {
	*Server
	clock   *clock
	address string
	conn    *grpc.ClientConn
	client  pb.ExternalScalerClient
}

// transport is how client and server speak.
type transport string

const (
	plaintext transport = "plaintext"
	oneWayTLS transport = "tls"
	mutualTLS transport = "mtls"
)

// eachTransport runs a test over plaintext, TLS and mutual TLS.
func eachTransport(t *testing.T, test func(t *testing.T, h *harness), change ...func(*Config)) {
	for _, tr := range []transport{plaintext, oneWayTLS, mutualTLS} {
		t.Run(string(tr), func(t *testing.T) { test(t, start(t, tr, change...)) })
	}
}

// start serves chat-70b and code-7b without a plan on a free loopback port until the test ends.
func start(t testing.TB, tr transport, change ...func(*Config)) *harness {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	cfg.StreamInterval = 100 * time.Millisecond
	cfg.StopGrace = 2 * time.Second
	creds := insecure.NewCredentials()
	if tr != plaintext {
		p := newPKI(t)
		cfg.TLS = p.serverFiles(t, "server")
		client := &tls.Config{RootCAs: p.pool()}
		if tr == mutualTLS {
			cfg.TLS.ClientCAFile = p.caFile
			client.Certificates = []tls.Certificate{p.pair(t, "keda-operator")}
		}
		creds = credentials.NewTLS(client)
	}
	for _, c := range change {
		c(&cfg)
	}
	h := &harness{clock: &clock{t: epoch}}
	s, err := NewServer(cfg, []string{"chat-70b", "code-7b"}, h.clock.now, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	h.Server = s
	h.address = serve(t, s.Serve, func() { s.halt(); s.grpc.Stop() })
	h.conn = dial(t, h.address, creds)
	h.client = pb.NewExternalScalerClient(h.conn)
	return h
}

// serve runs serve on a free loopback port, until stop at the end of the test, and returns the address.
func serve(t testing.TB, serve func(net.Listener) error, stop func()) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serving: %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t testing.TB, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	// The service config is KEDA's own: grpcConfig, pkg/scalers/external_scaler.go:72.
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ref is what KEDA sends for a ScaledObject whose trigger names a model: the whole metadata, scalerAddress included.
func ref(model string, more ...string) *pb.ScaledObjectRef {
	r := &pb.ScaledObjectRef{Name: "object", Namespace: "serving", ScalerMetadata: map[string]string{
		"scalerAddress": "forewarm.forewarm:6000", "model": model,
	}}
	for i := 0; i+1 < len(more); i += 2 {
		r.ScalerMetadata[more[i]] = more[i+1]
	}
	return r
}

func metricsFor(r *pb.ScaledObjectRef) *pb.GetMetricsRequest {
	return &pb.GetMetricsRequest{ScaledObjectRef: r, MetricName: MetricName(r.ScalerMetadata["model"])}
}

// polled is what one HPA poll comes to.
type polled struct {
	metric string // as the HPA names it
	sum    float64
	target float64
	active bool
}

// desired is the HPA's arithmetic for an AverageValue target (C21, C22).
func (p polled) desired() int { return int(math.Ceil(p.sum / p.target)) }

// poll does what KEDA does for one trigger on one HPA poll: GetMetricSpecForScaling and GetMetricsAndActivity of
// pkg/scalers/external_scaler.go, with the reading rules of its lines 206 and 247 ("the float if above 0, else the
// integer") and RemoveIndexFromMetricName and quantityFromFloat64 of pkg/scalers/scaler.go.
func poll(ctx context.Context, c pb.ExternalScalerClient, r *pb.ScaledObjectRef, triggerIndex int) (polled, error) {
	specs, err := c.GetMetricSpec(ctx, r)
	if err != nil {
		return polled{}, fmt.Errorf("GetMetricSpec: %w", err)
	}
	if len(specs.MetricSpecs) == 0 { // controllers/keda/hpa.go:275
		return polled{}, fmt.Errorf("no metric specs returned")
	}
	spec := specs.MetricSpecs[0]
	p := polled{metric: fmt.Sprintf("s%d-%s", triggerIndex, spec.MetricName), target: float64(spec.TargetSize)}
	if spec.TargetSizeFloat > 0 {
		p.target = spec.TargetSizeFloat
	}
	bare := regexp.MustCompile(`^s[0-9]+-`).ReplaceAllString(p.metric, "")
	values, err := c.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: r, MetricName: bare})
	if err != nil {
		return p, fmt.Errorf("GetMetrics: %w", err)
	}
	for _, v := range values.MetricValues {
		value := float64(v.MetricValue)
		if v.MetricValueFloat > 0 {
			value = v.MetricValueFloat
		}
		if math.IsNaN(value) || math.IsInf(value, 0) || value < 0 {
			value = 0
		}
		p.sum += value
	}
	active, err := c.IsActive(ctx, r)
	if err != nil { // the metric just fetched is thrown away
		return polled{metric: p.metric, target: p.target}, fmt.Errorf("IsActive: %w", err)
	}
	p.active = active.Result
	return p, nil
}

// soon bounds what a test waits for.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// pki is a certificate authority and its files.
type pki struct {
	dir    string
	caFile string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

func newPKI(t testing.TB) *pki {
	t.Helper()
	p := &pki{dir: t.TempDir()}
	p.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.caFile = p.write(t, "ca.pem", "CERTIFICATE", der)
	return p
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *pki) write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serverFiles issues a certificate for 127.0.0.1 under a name and returns its files.
func (p *pki) serverFiles(t testing.TB, name string) TLS {
	t.Helper()
	p.serial++
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + p.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, &key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return TLS{
		CertFile: p.write(t, name+".pem", "CERTIFICATE", der),
		KeyFile:  p.write(t, name+"-key.pem", "PRIVATE KEY", private),
	}
}

func (p *pki) pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	files := p.serverFiles(t, name)
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (p *pki) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.ca)
	return pool
}
