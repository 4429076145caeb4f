package prom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"forewarm/planner"
)

// responseBytesMax bounds one answer: 11,000 points of 300 series are about 100 MB.
const responseBytesMax = 256 << 20

// client asks the server. Every method bounds its query by the timeout and treats a warning as a partial answer.
type client struct {
	api     v1.API
	timeout time.Duration
}

func newClient(cfg Config) (*client, error) {
	transport, err := config.NewRoundTripperFromConfig(cfg.HTTP, "forewarm", config.WithUserAgent("forewarm"))
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	c, err := api.NewClient(api.Config{Address: cfg.URL, RoundTripper: limitedTransport{transport}})
	if err != nil {
		return nil, fmt.Errorf("url %q: %w", cfg.URL, err)
	}
	return &client{api: v1.NewAPI(partialClient{c}), timeout: cfg.QueryTimeout}, nil
}

// limitedTransport refuses to read more of an answer than responseBytesMax.
type limitedTransport struct{ next http.RoundTripper }

func (t limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, responseBytesMax)
	}
	return resp, err
}

// partialClient refuses answers that VictoriaMetrics' cluster version marks as partial; its mark is not among the
// fields that client_golang decodes.
type partialClient struct{ api.Client }

// partialMark stands in the first bytes of such an answer, before the data.
var partialMark = []byte(`"isPartial":true`)

func (c partialClient) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	resp, body, err := c.Client.Do(ctx, r)
	if err == nil && bytes.Contains(body[:min(len(body), 256)], partialMark) {
		return resp, nil, fmt.Errorf("%w: the server marked it isPartial", planner.ErrPartial)
	}
	return resp, body, err
}

// matrix evaluates a range query at from, from+step, …, to.
func (c *client) matrix(ctx context.Context, query string, from, to time.Time, step time.Duration) (model.Matrix, error) {
	return ask[model.Matrix](ctx, c, "range query", func(ctx context.Context) (model.Value, v1.Warnings, error) {
		v, w, _, err := c.api.QueryRange(ctx, query, v1.Range{Start: from, End: to, Step: step}, v1.WithTimeout(c.timeout))
		return v, w, err
	})
}

// vector evaluates an instant query.
func (c *client) vector(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	return ask[model.Vector](ctx, c, "query", c.instant(query, at))
}

// samples evaluates a range selector at one instant: the raw samples with their own timestamps.
func (c *client) samples(ctx context.Context, query string, at time.Time) (model.Matrix, error) {
	return ask[model.Matrix](ctx, c, "query", c.instant(query, at))
}

func (c *client) instant(query string, at time.Time) func(context.Context) (model.Value, v1.Warnings, error) {
	return func(ctx context.Context) (model.Value, v1.Warnings, error) {
		v, w, _, err := c.api.Query(ctx, query, at, v1.WithTimeout(c.timeout))
		return v, w, err
	}
}

// metricNames returns the names of the metrics that a set of selectors matches in a range of time.
func (c *client) metricNames(ctx context.Context, selectors []string, from, to time.Time) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	values, warnings, _, err := c.api.LabelValues(ctx, model.MetricNameLabel, selectors, from, to)
	if err = answerErr("label values", warnings, err); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, v := range values {
		names[string(v)] = true
	}
	return names, nil
}

// ask runs one query and checks that the answer is whole and of the expected kind.
func ask[T model.Value](ctx context.Context, c *client, what string,
	run func(context.Context) (model.Value, v1.Warnings, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var zero T
	v, warnings, err := run(ctx)
	if err = answerErr(what, warnings, err); err != nil {
		return zero, err
	}
	typed, ok := v.(T)
	if !ok {
		return zero, fmt.Errorf("%s: the answer is a %T, expected a %T", what, v, zero)
	}
	return typed, nil
}

// answerErr turns what client_golang returned into one error: the server's own words are in Detail for plain HTTP
// errors, and a warning makes the answer partial.
func answerErr(what string, warnings v1.Warnings, err error) error {
	var apiErr *v1.Error
	switch {
	case errors.As(err, &apiErr) && apiErr.Detail != "":
		return fmt.Errorf("%s: %w (%s)", what, err, firstLine(apiErr.Detail))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: answer cut short: %w", what, err)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case len(warnings) > 0:
		return fmt.Errorf("%s: %w: %s", what, planner.ErrPartial, strings.Join(warnings, "; "))
	}
	return nil
}

// firstLine keeps an error readable when a proxy answers with a page.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	const lineMax = 200
	if len(s) > lineMax {
		s = strings.ToValidUTF8(s[:lineMax], "") + "…"
	}
	return s
}

// splittable reports whether the server refused the query itself, so that a smaller one may pass: too many samples, too
// long, or one bad part among many.
func splittable(err error) bool {
	var apiErr *v1.Error
	if !errors.As(err, &apiErr) {
		return false
	}
	switch apiErr.Type {
	case v1.ErrBadData, v1.ErrExec, v1.ErrTimeout:
		return true
	case v1.ErrClient: // 413 and 414, from a proxy in between
		return strings.Contains(apiErr.Msg, "413") || strings.Contains(apiErr.Msg, "414")
	}
	return false
}
