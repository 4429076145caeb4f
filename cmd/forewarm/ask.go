package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"forewarm/planner"
)

type askFlags struct {
	model, http, format                   string
	tlsCA, tlsCert, tlsKey, tlsServerName string
	timeout                               time.Duration
	starts                                bool
	address, planURL, startsURL           string // derived by check
}

func newAskCmd() *cobra.Command {
	var f askFlags
	cmd := &cobra.Command{
		Use:   "ask ADDR --model M",
		Short: "Ask a running forewarmd what it tells KEDA about a model, and why",
		Long: `Ask a running forewarmd what it tells KEDA about a model, and why.

ADDR is the KEDA endpoint, host:port. The same calls are made as KEDA makes for the HPA: GetMetricSpec, GetMetrics and
IsActive. The reason comes from the daemon's HTTP port; without it the answers are printed alone.`,
		Example: `  forewarm ask 127.0.0.1:6000 --model chat-70b
  forewarm ask 127.0.0.1:6000 --model chat-70b --starts
  forewarm ask forewarm.forewarm:6000 --model chat-70b --tls-ca ca.pem --tls-cert me.pem --tls-key me-key.pem`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments: one ADDR is needed, as in forewarm ask localhost:6000 --model chat-70b", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().StringVar(&f.model, "model", "", "name of the model, as the plan has it")
	cmd.Flags().StringVar(&f.http, "http", "", "HTTP address of the daemon, host:port or URL (default: ADDR's host, port 8080)")
	cmd.Flags().StringVar(&f.tlsCA, "tls-ca", "",
		"PEM file of the authorities that may have signed the daemon's certificate; turns TLS on")
	cmd.Flags().StringVar(&f.tlsCert, "tls-cert", "", "PEM file of the client certificate, for mutual TLS; turns TLS on")
	cmd.Flags().StringVar(&f.tlsKey, "tls-key", "", "PEM file of the client certificate's key")
	cmd.Flags().StringVar(&f.tlsServerName, "tls-server-name", "",
		"name in the daemon's certificate when it is not ADDR's host (a port-forward)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Second, "how long the answers may take in all")
	cmd.Flags().StringVar(&f.format, "format", "text", "text or json")
	cmd.Flags().BoolVar(&f.starts, "starts", false, "show the model's lead times and its last cold start instead, phase by phase")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return cmd
}

func (f *askFlags) run(cmd *cobra.Command, address string) error {
	if err := f.check(address); err != nil {
		return err
	}
	secured, err := f.tls()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	if f.starts {
		return f.printStarts(ctx, secured, cmd.OutOrStdout())
	}
	asked, err := f.askKEDA(ctx, secured)
	if err != nil {
		return err
	}
	asked.Plan, asked.Note = f.reason(ctx, secured)
	if f.format == "json" {
		if err := printJSON(cmd.OutOrStdout(), asked); err != nil {
			return err
		}
	} else if _, err := io.WriteString(cmd.OutOrStdout(), asked.text()); err != nil {
		return err
	}
	return asked.refused
}

// check reports every unusable argument at once and derives the addresses.
func (f *askFlags) check(address string) error {
	var errs []error
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		errs = append(errs, fmt.Errorf("ADDR is %q: host:port is allowed, such as 127.0.0.1:6000", address))
	}
	host = cmp.Or(host, "127.0.0.1")
	f.address = net.JoinHostPort(host, port)
	if f.model == "" {
		errs = append(errs, errors.New("--model is missing: the name of a model is needed"))
	}
	if f.timeout <= 0 || f.timeout > 10*time.Minute {
		errs = append(errs, fmt.Errorf("--timeout is %s: above 0 and at most 10m are allowed", f.timeout))
	}
	if f.format != "text" && f.format != "json" {
		errs = append(errs, fmt.Errorf("--format is %q: text or json are allowed", f.format))
	}
	base := f.http
	if base == "" {
		base = net.JoinHostPort(host, "8080")
	}
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("--http is %q: host:port or an http or https URL is allowed", f.http))
		return errors.Join(errs...)
	}
	u.RawQuery = url.Values{"model": {f.model}}.Encode()
	f.planURL, f.startsURL = u.JoinPath("api", "plan").String(), u.JoinPath("api", "starts").String()
	return errors.Join(errs...)
}

// tls is the configuration that the flags ask for; nil is plaintext.
func (f *askFlags) tls() (*tls.Config, error) {
	if f.tlsCA == "" && f.tlsCert == "" && f.tlsServerName == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.tlsServerName}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: no PEM certificate in it", f.tlsCA)
		}
	}
	if f.tlsCert != "" {
		cert, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w", f.tlsCert, f.tlsKey, err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// asked is what the daemon answered. A pointer is nil when that call was refused.
type asked struct {
	Model    string   `json:"model"`
	Metric   string   `json:"metric"`
	Target   float64  `json:"target"`
	Value    *float64 `json:"value"`
	HPAWants *int     `json:"hpa_wants"`
	Active   *bool    `json:"active"`
	// Errors are the refusals, "CALL: CODE: sentence".
	Errors []string `json:"errors,omitempty"`
	// Plan is nil when it could not be read, and Note then says why.
	Plan *planner.PlanView `json:"plan"`
	Note string            `json:"note,omitempty"`

	refused error
}

// askKEDA makes the three calls of an HPA poll. A daemon that is not there is an error; a call that it refuses is kept,
// so that the reason can be printed beside it.
func (f *askFlags) askKEDA(ctx context.Context, secured *tls.Config) (*asked, error) {
	creds := insecure.NewCredentials()
	if secured != nil {
		creds = credentials.NewTLS(secured)
	}
	// "passthrough" leaves the address as typed; a name that does not resolve is then told by the dialer.
	conn, err := grpc.NewClient("passthrough:///"+f.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, fmt.Errorf("ADDR %s: %w", f.address, err)
	}
	defer conn.Close()
	client := pb.NewExternalScalerClient(conn)
	object := &pb.ScaledObjectRef{Name: "forewarm-ask", ScalerMetadata: map[string]string{"model": f.model}}

	specs, err := client.GetMetricSpec(ctx, object)
	if err != nil {
		return nil, f.unreachable(err)
	}
	if len(specs.MetricSpecs) != 1 {
		return nil, fmt.Errorf("%s answers %d metric specs: a forewarmd answers one", f.address, len(specs.MetricSpecs))
	}
	a := &asked{Model: f.model, Metric: specs.MetricSpecs[0].MetricName}
	a.Target = kedaReads(specs.MetricSpecs[0].TargetSizeFloat, specs.MetricSpecs[0].TargetSize)
	if a.Target <= 0 {
		return nil, fmt.Errorf("%s answers a target of %v: above 0 is allowed", f.address, a.Target)
	}
	if values, err := client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: object, MetricName: a.Metric}); err != nil {
		a.refuse("GetMetrics", err)
	} else {
		a.count(values)
	}
	if active, err := client.IsActive(ctx, object); err != nil {
		a.refuse("IsActive", err)
	} else {
		a.Active = &active.Result
	}
	return a, nil
}

// count does the HPA's arithmetic for an AverageValue target: the sum of all values over the target, rounded up.
func (a *asked) count(values *pb.GetMetricsResponse) {
	sum := 0.0
	for _, v := range values.MetricValues {
		sum += kedaReads(v.MetricValueFloat, v.MetricValue)
	}
	wants := int(math.Ceil(sum / a.Target))
	a.Value, a.HPAWants = &sum, &wants
}

// kedaReads is how KEDA reads a pair of fields: the float when it is above 0, else the integer.
func kedaReads(float float64, integer int64) float64 {
	if float > 0 {
		return float
	}
	return float64(integer)
}

func (a *asked) refuse(call string, err error) {
	refusal := fmt.Errorf("%s: %s: %s", call, status.Code(err), status.Convert(err).Message())
	a.Errors = append(a.Errors, refusal.Error())
	a.refused = errors.Join(a.refused, refusal)
}

// unreachable words a failure of the first call. UNAVAILABLE and DEADLINE_EXCEEDED mean that nobody answered: forewarmd
// always answers the spec.
func (f *askFlags) unreachable(err error) error {
	s := status.Convert(err)
	if s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded {
		hint := "ADDR is forewarmd's KEDA endpoint, its --listen or keda.listen"
		if f.tlsCA == "" && f.tlsCert == "" && f.tlsServerName == "" {
			hint += "; an endpoint with TLS needs --tls-ca"
		}
		return fmt.Errorf("nothing answers at %s within %s: %s (%s)", f.address, f.timeout, s.Message(), hint)
	}
	return fmt.Errorf("GetMetricSpec: %s: %s", s.Code(), s.Message())
}

// planBytesMax bounds the answer of the HTTP port; a view of one model is a few kilobytes.
const planBytesMax = 4 << 20

// reason reads the plan of the model; the note says why there is none. It is never an error: the KEDA answers stand
// without it.
func (f *askFlags) reason(ctx context.Context, secured *tls.Config) (*planner.PlanView, string) {
	note := func(why any) (*planner.PlanView, string) {
		return nil, fmt.Sprintf("no reason: %s: %v (--http names the daemon's HTTP address)", f.planURL, why)
	}
	var view planner.PlanView
	if err := fetch(ctx, secured, f.planURL, &view); err != nil {
		return note(err)
	}
	if view.Model.Name != f.model {
		return note(fmt.Sprintf("it is about model %q", view.Model.Name))
	}
	return &view, ""
}

// fetch reads one JSON answer of the daemon's HTTP port.
func fetch(ctx context.Context, secured *tls.Config, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: secured}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		var wrapped *url.Error // repeats the address
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, planBytesMax))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.200s", response.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, into)
}
