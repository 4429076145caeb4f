package keda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// These tests hold the endpoint to the contract of KEDA 2.21 and the HPA, one test per numbered fact about them, over a
// real connection with KEDA's own stubs. Facts that no scaler can keep or break have no test here:
//
//	C14  KEDA's and the HPA's default intervals: settings of the ScaledObject
//	C15  when KEDA polls at all: decided in KEDA
//	C16  what fallback does: decided in KEDA; that an outage counts towards it is C6
//	C17  scalingModifiers: evaluated in KEDA; the example ScaledObject does not use them
//	C18  paused ScaledObjects: seen by the planner, which publishes another answer
//	C19  ownership of the HPA: the endpoint writes to no object
//	C23  the HPA's maximum over metrics: computed by the HPA; that an unknown is an error, which blocks scale-in, is C6
//	C24  the target's scale subresource: a property of the workload

func wantCode(t *testing.T, err error, code codes.Code, parts ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %v, want code %v", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(status.Convert(err).Message(), p) {
			t.Errorf("message %q does not mention %q", status.Convert(err).Message(), p)
		}
	}
}

// conditions are the rows of the condition table, each set up on a server that knows chat-70b and code-7b.
var conditions = []struct {
	name    string
	model   string
	set     func(h *harness)
	metrics codes.Code
	active  codes.Code
}{
	{"never made", "chat-70b", func(*harness) {}, codes.Unavailable, codes.Unavailable},
	{"fresh", "chat-70b", func(h *harness) { h.publish("chat-70b", 5) }, codes.OK, codes.OK},
	{"fresh zero", "chat-70b", func(h *harness) { h.publish("chat-70b", 0) }, codes.OK, codes.OK},
	{"no number", "chat-70b", func(h *harness) { h.publish("chat-70b", -1) }, codes.Unavailable, codes.Unavailable},
	{"not in the plan", "code-7b", func(h *harness) { h.publish("chat-70b", 5) }, codes.Unavailable, codes.Unavailable},
	{"stale", "chat-70b", func(h *harness) { h.publish("chat-70b", 5); h.clock.advance(time.Minute) }, codes.OK, codes.OK},
	{"old", "chat-70b", func(h *harness) { h.publish("chat-70b", 5); h.clock.advance(5 * time.Minute) },
		codes.Unavailable, codes.OK},
	{"unknown model", "chat-7b", func(h *harness) { h.publish("chat-70b", 5) }, codes.NotFound, codes.NotFound},
}

func (h *harness) publish(model string, replicas int) {
	h.Publish(decision(h.clock.now(), map[string]int{model: replicas}))
}

func TestC1_StreamMetricSpecEqualsGetMetricSpec(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *harness) {
		ctx := soon(t)
		stream, err := h.client.StreamMetricSpec(ctx, ref("chat-70b"))
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := stream.Recv() // at open, although no plan was ever made
		if err != nil {
			t.Fatal(err)
		}
		asked, err := h.client.GetMetricSpec(ctx, ref("chat-70b"))
		if err != nil {
			t.Fatal(err)
		}
		if len(pushed.MetricSpecs) == 0 || pushed.String() != asked.String() {
			t.Errorf("stream sent %v, GetMetricSpec answers %v", pushed, asked)
		}

		next := make(chan error, 1)
		go func() { _, err := stream.Recv(); next <- err }()
		h.publish("chat-70b", 7)
		select {
		case err := <-next:
			t.Errorf("stream did not stay open and silent: %v", err)
		case <-time.After(150 * time.Millisecond):
		}
	})
}

func TestC1_EveryCallIsImplemented(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 3)
	for _, m := range pb.ExternalScaler_ServiceDesc.Methods {
		var err error
		switch m.MethodName {
		case "IsActive":
			_, err = h.client.IsActive(soon(t), ref("chat-70b"))
		case "GetMetricSpec":
			_, err = h.client.GetMetricSpec(soon(t), ref("chat-70b"))
		case "GetMetrics":
			_, err = h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b")))
		default:
			t.Errorf("KEDA has a call %s that this test does not know", m.MethodName)
		}
		if err != nil {
			t.Errorf("%s: %v", m.MethodName, err)
		}
	}
	if n := len(pb.ExternalScaler_ServiceDesc.Streams); n != 2 {
		t.Errorf("KEDA has %d streams, this package tests 2", n)
	}
}

func TestC2_PollAndImmediateRetry(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *harness) {
		ctx := soon(t)
		for range 2 { // on an error KEDA rebuilds the scaler and asks again at once
			_, err := poll(ctx, h.client, ref("chat-70b"), 0)
			wantCode(t, errors.Unwrap(err), codes.Unavailable)
		}
		h.publish("chat-70b", 5)
		p, err := poll(ctx, h.client, ref("chat-70b"), 0)
		if err != nil || p.sum != 5 || p.target != 1 || !p.active || p.desired() != 5 {
			t.Errorf("poll gives %+v, %v; want 5 at target 1, active", p, err)
		}
	})
}

// hanging is an implementation that never answers by itself.
type hanging struct {
	pb.UnimplementedExternalScalerServer
	released chan struct{}
	begun    chan struct{} // told when a call begins, if not nil and free
}

func (h hanging) GetMetrics(context.Context, *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	select {
	case h.begun <- struct{}{}:
	default:
	}
	<-h.released // deaf to its context on purpose
	return nil, errors.New("released")
}

func TestC3_AHangingCallEndsAtTheServersDeadline(t *testing.T) {
	h := start(t, plaintext, func(c *Config) { c.Deadline = 50 * time.Millisecond })
	impl := hanging{released: make(chan struct{})}
	defer close(impl.released)
	client := h.clientOf(t, impl)

	begun := time.Now()
	_, err := client.GetMetrics(soon(t), metricsFor(ref("chat-70b"))) // KEDA sets no deadline of its own
	wantCode(t, err, codes.Unavailable, "deadline", "50ms")
	if took := time.Since(begun); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("answered after %v, the deadline is 50ms", took)
	}
}

// clientOf serves another implementation behind h's interceptors and options.
func (h *harness) clientOf(t *testing.T, impl pb.ExternalScalerServer) pb.ExternalScalerClient {
	t.Helper()
	g := h.newGRPC(impl, nil)
	return pb.NewExternalScalerClient(dial(t, serve(t, g.Serve, g.Stop), insecure.NewCredentials()))
}

func TestC4_SpecAndHealthDoNotNeedATrustworthyPlan(t *testing.T) {
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, plaintext)
			c.set(h)
			if _, err := h.client.GetMetricSpec(soon(t), ref(c.model)); err != nil {
				t.Errorf("GetMetricSpec: %v: KEDA would never ask for the metric and never count a failure", err)
			}
			for _, service := range []string{"", "externalscaler.ExternalScaler"} {
				got, err := healthpb.NewHealthClient(h.conn).Check(soon(t), &healthpb.HealthCheckRequest{Service: service})
				if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
					t.Errorf("health of %q is %v, %v: an unready front is a dead trigger", service, got, err)
				}
			}
		})
	}
}

func TestC5_AMistakeInTheMetadataDoesNotTakeDownTheSiblingTriggers(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 5)
	for _, r := range []*pb.ScaledObjectRef{
		ref("chat-70b", "minReplica", "3"), ref("chat-70b", "maxPlanAge", "soon"), ref("nobody"),
	} {
		if _, err := h.client.GetMetricSpec(soon(t), r); err != nil {
			t.Errorf("%v: GetMetricSpec: %v", r.ScalerMetadata, err)
		}
		_, err := h.client.GetMetrics(soon(t), metricsFor(r))
		if c := status.Code(err); c != codes.InvalidArgument && c != codes.NotFound {
			t.Errorf("%v: GetMetrics: %v: the mistake must be told here", r.ScalerMetadata, err)
		}
	}
	// Without a model there is no name to answer.
	_, err := h.client.GetMetricSpec(soon(t), &pb.ScaledObjectRef{})
	wantCode(t, err, codes.InvalidArgument, "model is missing")
}

func TestC6_NoTrustworthyPlanIsAnErrorOfGetMetricsOnly(t *testing.T) {
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, plaintext)
			c.set(h)
			_, err := h.client.GetMetrics(soon(t), metricsFor(ref(c.model)))
			wantCode(t, err, c.metrics)
			_, err = h.client.IsActive(soon(t), ref(c.model))
			wantCode(t, err, c.active)
			_, err = h.client.GetMetricSpec(soon(t), ref(c.model))
			wantCode(t, err, codes.OK)
		})
	}
}

func TestC7_NeverZeroSpecs(t *testing.T) {
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, plaintext)
			c.set(h)
			got, err := h.client.GetMetricSpec(soon(t), ref(c.model))
			if err != nil || len(got.MetricSpecs) != 1 {
				t.Fatalf("got %v, %v; want exactly one spec", got, err)
			}
			if name := got.MetricSpecs[0].MetricName; name != MetricName(c.model) {
				t.Errorf("metric is %q, want %q", name, MetricName(c.model))
			}
		})
	}
}

func TestC8_TheTargetIsConstant(t *testing.T) {
	for _, c := range conditions {
		t.Run(c.name, func(t *testing.T) {
			h := start(t, plaintext)
			c.set(h)
			got, err := h.client.GetMetricSpec(soon(t), ref(c.model, "minReplicas", "4"))
			if err != nil {
				t.Fatal(err)
			}
			if s := got.MetricSpecs[0]; s.TargetSize != 1 || s.TargetSizeFloat != 1 {
				t.Errorf("target is %d and %v, want 1 in both fields", s.TargetSize, s.TargetSizeFloat)
			}
		})
	}
}

func TestC9_BothFieldsSayTheSameAndUnknownIsNeverANumber(t *testing.T) {
	h := start(t, plaintext)
	for _, n := range []int{0, 1, 5, 999, 1_000_000} {
		h.publish("chat-70b", n)
		got, err := h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b")))
		if err != nil {
			t.Fatal(err)
		}
		v := got.MetricValues[0]
		if v.MetricValue != int64(n) || v.MetricValueFloat != float64(n) || math.Signbit(v.MetricValueFloat) {
			t.Errorf("answer %d gives integer %d and float %v", n, v.MetricValue, v.MetricValueFloat)
		}
		p, err := poll(soon(t), h.client, ref("chat-70b"), 0)
		if err != nil || p.sum != float64(n) || p.active != (n > 0) {
			t.Errorf("KEDA reads %+v, %v; want %d", p, err, n)
		}
	}
	bad := -3
	d := decision(epoch, map[string]int{"chat-70b": 1})
	d.Models[0].Answer = &bad
	h.Publish(d)
	_, err := h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b")))
	wantCode(t, err, codes.Unavailable, "-3")
}

func TestC10_ExactlyOneValueUnderTheNameAskedFor(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 5)
	for _, name := range []string{"forewarm-chat-70b", "s0-forewarm-chat-70b", "s12-forewarm-chat-70b"} {
		got, err := h.client.GetMetrics(soon(t), &pb.GetMetricsRequest{ScaledObjectRef: ref("chat-70b"), MetricName: name})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got.MetricValues) != 1 || got.MetricValues[0].MetricName != name {
			t.Errorf("%s: got %v, want one value of that name: the HPA adds up all it gets", name, got)
		}
	}
	for _, name := range []string{"", "forewarm-code-7b", "chat-70b", "sx-forewarm-chat-70b", "s0-s0-forewarm-chat-70b"} {
		_, err := h.client.GetMetrics(soon(t), &pb.GetMetricsRequest{ScaledObjectRef: ref("chat-70b"), MetricName: name})
		wantCode(t, err, codes.InvalidArgument, "forewarm-chat-70b", `"`+name+`"`)
	}
	for index := range 3 { // reordering triggers changes only KEDA's index
		p, err := poll(soon(t), h.client, ref("chat-70b"), index)
		if want := fmt.Sprintf("s%d-forewarm-chat-70b", index); err != nil || p.metric != want || p.sum != 5 {
			t.Errorf("trigger %d: %+v, %v; want metric %s = 5", index, p, err, want)
		}
	}
}

func TestC10_ModelsThatReadAlikeHaveMetricsOfTheirOwn(t *testing.T) {
	h := start(t, plaintext)
	alike := map[string]int{"chat-70b": 1, "chat.70b": 2, "Chat-70b": 3, "chat/70b": 4, "chat--70b": 5}
	h.Publish(decision(epoch, alike))
	owners := map[string]string{}
	for model, n := range alike {
		p, err := poll(soon(t), h.client, ref(model), 0)
		if err != nil || p.sum != float64(n) {
			t.Errorf("%s: %+v, %v; want %d", model, p, err, n)
		}
		if other := owners[p.metric]; other != "" {
			t.Errorf("%s and %s are both %s: KEDA needs unique names in one ScaledObject", model, other, p.metric)
		}
		owners[p.metric] = model
	}
}

func TestC11_KedaForwardsAllMetadata(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 5)
	all := ref("chat-70b", "enableTLS", "true", "unsafeSsl", "false", "caCert", "x", "tlsClientCert", "x", "tlsClientKey", "x",
		"tlsCertFile", "/x", "scalerAddressFromEnv", "x", "minReplicas", "2", "maxPlanAge", "90s")
	if p, err := poll(soon(t), h.client, all, 0); err != nil || p.sum != 5 {
		t.Errorf("KEDA's own keys: %+v, %v; want 5", p, err)
	}
	env := ref("chat-70b", "modelFromEnv", "chat-70b")
	delete(env.ScalerMetadata, "model") // KEDA forwards the key with its suffix and the resolved value
	request := &pb.GetMetricsRequest{ScaledObjectRef: env, MetricName: "forewarm-chat-70b"}
	if _, err := h.client.GetMetrics(soon(t), request); err != nil {
		t.Errorf("modelFromEnv: %v", err)
	}
	_, err := h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b", "minReplica", "3", "maxPlanAge", "5", "colour", "red")))
	wantCode(t, err, codes.InvalidArgument, `"minReplica" (value "3"), did you mean "minReplicas"?`,
		`maxPlanAge is "5": a duration of 1s to 24h is allowed`, `"colour" (value "red");`,
		"allowed keys are model, minReplicas, maxPlanAge")
	_, err = h.client.IsActive(soon(t), ref("chat-70b", "colour", "red"))
	wantCode(t, err, codes.InvalidArgument, "colour")
}

func TestC11_TheOverridesOnlyRaiseAndOnlyShorten(t *testing.T) {
	h := start(t, plaintext)
	for _, c := range []struct{ plan, min, want int }{{5, 2, 5}, {5, 7, 7}, {0, 1, 1}, {0, 0, 0}} {
		h.publish("chat-70b", c.plan)
		p, err := poll(soon(t), h.client, ref("chat-70b", "minReplicas", fmt.Sprint(c.min)), 0)
		if err != nil || p.sum != float64(c.want) || p.active != (c.want > 0) {
			t.Errorf("plan %d with minReplicas %d: %+v, %v; want %d", c.plan, c.min, p, err, c.want)
		}
	}
	h.clock.advance(2 * time.Minute)
	_, err := h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b", "maxPlanAge", "2m")))
	wantCode(t, err, codes.Unavailable, "2m old", "maxPlanAge of the trigger allows 2m")
	if _, err := h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b", "maxPlanAge", "121s"))); err != nil {
		t.Errorf("below maxPlanAge: %v", err)
	}
	h.clock.advance(3 * time.Minute)
	_, err = h.client.GetMetrics(soon(t), metricsFor(ref("chat-70b", "maxPlanAge", "24h")))
	wantCode(t, err, codes.Unavailable, "max_plan_age of the server allows 5m")
}

func TestC12_EveryReplicaServesTheSamePlan(t *testing.T) {
	d := decision(epoch, map[string]int{"chat-70b": 5, "a.b": 1, "a-b": 2})
	var seen []string
	for range 2 {
		h := start(t, plaintext)
		h.Publish(d)
		var all strings.Builder
		for _, m := range []string{"chat-70b", "a.b", "a-b"} {
			p, err := poll(soon(t), h.client, ref(m), 0)
			fmt.Fprintln(&all, p, err)
		}
		seen = append(seen, all.String())
	}
	if seen[0] != seen[1] {
		t.Errorf("two replicas with one plan answer differently:\n%s\n%s", seen[0], seen[1])
	}
}

// All ScaledObjects share one connection, with two streams each when they are external-push.
func TestC12_OneConnectionCarriesTheStreamsOfAllScaledObjects(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 5)
	ctx := soon(t)
	for range 300 {
		active, err := h.client.StreamIsActive(ctx, ref("chat-70b"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := active.Recv(); err != nil || !got.Result {
			t.Fatalf("StreamIsActive: %v, %v", got, err)
		}
		spec, err := h.client.StreamMetricSpec(ctx, ref("chat-70b"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spec.Recv(); err != nil {
			t.Fatalf("StreamMetricSpec: %v", err)
		}
	}
	if p, err := poll(ctx, h.client, ref("chat-70b"), 0); err != nil || p.sum != 5 {
		t.Errorf("with 600 streams open a poll gives %+v, %v", p, err)
	}
	if got := h.Stats().Streams; got != 600 {
		t.Errorf("%d streams are counted open, want 600", got)
	}
}

// A connection ends with its age and its streams end cleanly before: anything but EOF leaves KEDA's backoff growing.
func TestC12_ConnectionsAndStreamsEndWithTheirAge(t *testing.T) {
	h := start(t, plaintext, func(c *Config) { c.MaxConnectionAge = time.Second })
	h.publish("chat-70b", 5)
	active, err := h.client.StreamIsActive(soon(t), ref("chat-70b"))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := h.client.StreamMetricSpec(soon(t), ref("chat-70b"))
	if err != nil {
		t.Fatal(err)
	}
	for name, recv := range map[string]func() error{
		"StreamIsActive":   func() error { _, err := active.Recv(); return err },
		"StreamMetricSpec": func() error { _, err := spec.Recv(); return err },
	} {
		var err error
		for err == nil {
			err = recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s ended with %v, want EOF", name, err)
		}
	}
	if p, err := poll(soon(t), h.client, ref("chat-70b"), 0); err != nil || p.sum != 5 {
		t.Errorf("the next poll gives %+v, %v", p, err)
	}
}

func TestC13_IsActiveIsNeverAMadeUpFalse(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *harness) {
		active := func() (bool, error) {
			got, err := h.client.IsActive(soon(t), ref("chat-70b"))
			return got.GetResult(), err
		}
		_, err := active()
		wantCode(t, err, codes.Unavailable, "no plan")
		h.publish("chat-70b", -1)
		_, err = active()
		wantCode(t, err, codes.Unavailable, "no number")

		for _, last := range []int{5, 0} {
			h.publish("chat-70b", last)
			for _, pause := range []time.Duration{0, time.Minute, 24 * time.Hour} {
				h.clock.advance(pause)
				if got, err := active(); err != nil || got != (last > 0) {
					t.Errorf("%v after the plan of %d: %v, %v; want the last known answer", pause, last, got, err)
				}
			}
			h.publish("chat-70b", -1) // a newer plan without a number
			h.publish("code-7b", 1)   // and one without the model
			if got, err := active(); err != nil || got != (last > 0) {
				t.Errorf("without a number after %d: %v, %v; want the last known answer", last, got, err)
			}
		}
	})
}

// received collects what a StreamIsActive sends.
func received(t *testing.T, h *harness, r *pb.ScaledObjectRef) <-chan bool {
	t.Helper()
	stream, err := h.client.StreamIsActive(soon(t), r)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan bool, 1000)
	go func() {
		defer close(got)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			got <- m.Result
		}
	}()
	return got
}

func wantSent(t *testing.T, got <-chan bool, want bool) {
	t.Helper()
	select {
	case b, ok := <-got:
		if !ok || b != want {
			t.Fatalf("stream sent %v (open %v), want %v", b, ok, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("stream sent nothing, want %v", want)
	}
}

func wantSilence(t *testing.T, got <-chan bool, why string) {
	t.Helper()
	select {
	case b, ok := <-got:
		t.Fatalf("stream sent %v (open %v): %s", b, ok, why)
	case <-time.After(250 * time.Millisecond): // more than two intervals
	}
}

func TestC13_StreamIsActiveSendsTrueAtOpenOnChangeAndAgain(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *harness) {
		h.publish("chat-70b", 1)
		got := received(t, h, ref("chat-70b"))
		wantSent(t, got, true) // at open
		wantSent(t, got, true) // again
		wantSent(t, got, true)
	})
}

func TestC13_StreamIsActiveIsSilentUntilSomethingIsKnown(t *testing.T) {
	h := start(t, plaintext)
	got := received(t, h, ref("chat-70b"))
	wantSilence(t, got, "no plan was made")
	h.publish("chat-70b", -1)
	wantSilence(t, got, "the plan has no number")
	h.publish("chat-70b", 0)
	wantSent(t, got, false) // somebody decided it
	wantSilence(t, got, "false is not repeated")
	h.publish("chat-70b", 2)
	wantSent(t, got, true)
}

func TestC13_StreamIsActiveTellsAChangeAtOnce(t *testing.T) {
	h := start(t, plaintext, func(c *Config) { c.StreamInterval = 10 * time.Minute })
	h.publish("chat-70b", 0)
	got := received(t, h, ref("chat-70b"))
	wantSent(t, got, false)
	h.publish("chat-70b", 1)
	wantSent(t, got, true)
	h.publish("chat-70b", 2)
	wantSilence(t, got, "still active, and the interval is ten minutes")
	wantSent(t, received(t, h, ref("chat-70b")), true) // a new stream is told at open, not after the interval
}

func TestC13_StreamIsActiveSendsNoFalseFromAStalePlan(t *testing.T) {
	h := start(t, plaintext)
	h.publish("chat-70b", 0)
	h.clock.advance(time.Minute)
	wantSilence(t, received(t, h, ref("chat-70b")), "the plan is stale")
}

func TestC13_StreamsRefuseWhatTheyCannotAnswer(t *testing.T) {
	h := start(t, plaintext)
	for _, c := range []struct {
		r    *pb.ScaledObjectRef
		code codes.Code
	}{{ref("chat-7b"), codes.NotFound}, {ref("chat-70b", "colour", "red"), codes.InvalidArgument}} {
		stream, err := h.client.StreamIsActive(soon(t), c.r)
		if err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, c.code)
	}
	got, err := h.client.StreamIsActive(soon(t), ref("chat-70b"))
	if err != nil {
		t.Fatal(err)
	}
	h.waitForStreams(t, 1)
	h.SetModels([]string{"code-7b"}) // a model that goes away ends its stream
	_, err = got.Recv()
	wantCode(t, err, codes.NotFound, "code-7b")
}

func (h *harness) waitForStreams(t *testing.T, n int) {
	t.Helper()
	for ctx := soon(t); h.Stats().Streams != n; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d streams are open, want %d", h.Stats().Streams, n)
		}
	}
}

func TestC20_FifteenHundredScaledObjects(t *testing.T) {
	const objects = 1500
	h := start(t, plaintext)
	answers := map[string]int{}
	for i := range objects {
		answers[fmt.Sprintf("model-%d", i)] = i
	}
	h.Publish(decision(epoch, answers))
	ctx := soon(t)
	var polls sync.WaitGroup
	limit := make(chan struct{}, 64)
	for i := range objects {
		limit <- struct{}{}
		polls.Go(func() {
			defer func() { <-limit }()
			p, err := poll(ctx, h.client, ref(fmt.Sprintf("model-%d", i)), 0)
			if err != nil || p.sum != float64(i) || p.active != (i > 0) {
				t.Errorf("model-%d: %+v, %v", i, p, err)
			}
		})
	}
	polls.Wait()
	var total uint64
	for _, r := range h.Stats().Requests {
		total += r.Count
	}
	if total != 3*objects {
		t.Errorf("%d calls are counted, want %d", total, 3*objects)
	}
}

// The dead-band is cured by `tolerance` in the ScaledObject; the answer itself is the plan, neither padded up nor below.
func TestC21_TheAnswerIsThePlanAsItIs(t *testing.T) {
	h := start(t, plaintext)
	for _, sequence := range [][]int{{10, 11, 9}, {20, 22, 18, 21}, {50, 55, 54}} {
		for _, n := range sequence {
			h.publish("chat-70b", n)
			h.clock.advance(46 * time.Second) // stale: still the plan
			if p, err := poll(soon(t), h.client, ref("chat-70b"), 0); err != nil || p.sum != float64(n) {
				t.Errorf("plan %d is answered as %+v, %v", n, p, err)
			}
		}
	}
}

func TestC22_AverageValueGivesThePlannedReplicasWhateverRunsNow(t *testing.T) {
	h := start(t, plaintext)
	for n := range 60 {
		h.publish("chat-70b", n)
		p, err := poll(soon(t), h.client, ref("chat-70b"), 0)
		if err != nil || p.desired() != n {
			t.Errorf("plan %d: the HPA wants %d (%v)", n, p.desired(), err)
		}
	}
}

// Compile-time: the stubs are KEDA's.
var _ pb.ExternalScalerServer = service{}
var _ grpc.ServerStream = boundStream{}
