package keda

import (
	"context"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// service answers KEDA's calls from the board. It embeds the Unsafe interface on purpose: when KEDA adds a call, this
// stops compiling, whereas the Unimplemented one would make KEDA fall back silently (C1).
type service struct {
	pb.UnsafeExternalScalerServer
	*Server
}

// GetMetricSpec answers one spec with the constant target 1 for whatever model is named, planned or not.
func (s service) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	return s.spec(ref)
}

// StreamMetricSpec sends what GetMetricSpec answers, once: the target is constant. The stream stays open, because KEDA
// reconnects to a closed one.
func (s service) StreamMetricSpec(
	ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.GetMetricSpecResponse],
) error {
	spec, err := s.spec(ref)
	if err != nil {
		return err
	}
	if err := stream.Send(spec); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// GetMetrics answers exactly one value, the wanted number of replicas: the HPA would add up several (C10).
func (s service) GetMetrics(_ context.Context, req *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	t, b, e, err := s.lookup(req.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	if !namesMetric(req.GetMetricName(), e.metric) {
		return nil, status.Errorf(codes.InvalidArgument, "metric %s is not one of model %s: %q is allowed",
			quote(req.GetMetricName()), quote(t.model), e.metric)
	}
	replicas, err := s.trusted(t, b, e)
	if err != nil {
		return nil, err
	}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{
		MetricName: req.GetMetricName(),
		// KEDA reads the float only when it is above 0 and the integer otherwise, and releases before 2.17 have no float
		// (C9): both say the same.
		MetricValue:      int64(replicas),
		MetricValueFloat: float64(replicas),
	}}}, nil
}

// IsActive reports whether any replica is wanted. Without a trustworthy number it repeats the last known one, and it is
// an error when there never was one: a false would scale to zero (C13).
func (s service) IsActive(_ context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	t, b, e, err := s.lookup(ref)
	if err != nil {
		return nil, err
	}
	active, err := s.active(t, b, e)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: active}, nil
}

// StreamIsActive sends true as long as IsActive would answer it: when the stream opens, when it becomes so, and again at
// every interval. It sends false only for a fresh plan that wants no replica, once; while nothing is known it is silent.
// It ends cleanly (EOF) with the connection's age, because only that resets KEDA's reconnect backoff
// (runStreamIsActive, pkg/scalers/external_scaler.go).
func (s service) StreamIsActive(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	repeat := time.NewTicker(s.cfg.StreamInterval)
	defer repeat.Stop()
	said, saidActive, due := false, false, true
	for {
		t, b, e, err := s.lookup(ref)
		if err != nil {
			return err
		}
		if active, err := s.active(t, b, e); err == nil {
			news := !said || active != saidActive
			if active && (news || due) || !active && news && s.fresh(b) {
				if err := stream.Send(&pb.IsActiveResponse{Result: active}); err != nil {
					return err
				}
				said, saidActive = true, active
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-b.replaced:
			due = false
		case <-repeat.C:
			due = true
		}
	}
}

func (s service) spec(ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	t, problems := readTrigger(ref.GetScalerMetadata())
	if t.model == "" {
		return nil, status.Error(codes.InvalidArgument, invalidTrigger(problems))
	}
	if e := s.board.Load().entries[t.model]; e != nil {
		return e.spec, nil
	}
	return metricSpec(MetricName(t.model)), nil
}

// lookup reads the trigger and finds its model on the newest board.
func (s service) lookup(ref *pb.ScaledObjectRef) (trigger, *board, *entry, error) {
	b := s.board.Load()
	t, problems := readTrigger(ref.GetScalerMetadata())
	if len(problems) > 0 {
		return t, b, nil, status.Error(codes.InvalidArgument, invalidTrigger(problems))
	}
	e := b.entries[t.model]
	if e == nil {
		return t, b, nil, status.Error(codes.NotFound, b.unknownModel(t.model))
	}
	return t, b, e, nil
}

// trusted is the number to answer, or UNAVAILABLE with the reason why no number can be trusted.
func (s service) trusted(t trigger, b *board, e *entry) (int, error) {
	maxAge, limit := s.cfg.MaxPlanAge, "max_plan_age of the server"
	if t.planAgeMax > 0 && t.planAgeMax < maxAge {
		maxAge, limit = t.planAgeMax, keyPlanAgeMax+" of the trigger"
	}
	now := s.now()
	switch b.condition(now, s.cfg.StaleAfter, maxAge) {
	case PlanNone:
		return 0, status.Error(codes.Unavailable, "no plan has been made yet")
	case PlanOld:
		return 0, status.Errorf(codes.Unavailable, "the newest plan, made at %s, is %s old: %s allows %s",
			b.at.UTC().Format(time.RFC3339), shortDuration(b.age(now)), limit, shortDuration(maxAge))
	}
	if e.answer == nil {
		return 0, status.Errorf(codes.Unavailable, "model %s: %s", quote(t.model), e.missing)
	}
	return max(*e.answer, t.replicasMin), nil
}

func (s service) active(t trigger, b *board, e *entry) (bool, error) {
	replicas, err := s.trusted(t, b, e)
	switch {
	case err == nil:
	case e.last != nil:
		replicas = max(*e.last, t.replicasMin)
	default:
		return false, err
	}
	return replicas > 0, nil
}

func (s service) fresh(b *board) bool {
	return b.condition(s.now(), s.cfg.StaleAfter, s.cfg.MaxPlanAge) == PlanFresh
}
