package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"forewarm/planner"
)

var (
	testNow  = time.Date(2026, 3, 2, 9, 15, 10, 0, time.UTC)
	testFrom = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
)

// gapOf returns the detail of one open gap, "" when there is none.
func gapOf(obs planner.Observation, model, fact string) string {
	for _, g := range obs.Gaps {
		if g.Model == model && g.Fact == fact {
			return g.Detail
		}
	}
	return ""
}

func TestObserveHealthy(t *testing.T) {
	f := healthy()
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	obs, err := s.Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if len(obs.Gaps) != 0 {
		t.Errorf("gaps %v", obs.Gaps)
	}
	m := obs.Models[0]
	if p := m.Load.Prompt; p.Known() != 10 || p.Values[9] != 100 || p.AtLeast != nil {
		t.Errorf("prompt %+v", p)
	}
	if end := m.Load.Prompt.End(); !end.Equal(testNow.Truncate(time.Minute)) {
		t.Errorf("load ends at %v", end)
	}
	if m.Running == nil || *m.Running != 7 || m.Waiting == nil || *m.Waiting != 0 {
		t.Errorf("running %v waiting %v", m.Running, m.Waiting)
	}
	if m.Replicas == nil || m.Replicas.Ready != 1 || len(m.Replicas.Starting) != 0 {
		t.Errorf("replicas %+v", m.Replicas)
	}
	// A step that ended within ingest_delay is not read.
	obs, err = s.Observe(context.Background(), testNow.Truncate(time.Minute).Add(4*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if end := obs.Models[0].Load.Prompt.End(); !end.Equal(testNow.Truncate(time.Minute).Add(-time.Minute)) {
		t.Errorf("4 s after the minute the load ends at %v", end)
	}
}

// Every way in which the server can fail as a whole: an error when nothing is known, and no made-up number.
func TestServerFaults(t *testing.T) {
	status := func(code int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	faults := map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		"500":          {status(500, "out of memory"), "out of memory"},
		"422":          {status(422, `{"status":"error","errorType":"execution","error":"too many samples"}`), "too many samples"},
		"401":          {status(401, "Unauthorized"), "401"},
		"truncated":    {status(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{`), "bad_response"},
		"html":         {status(200, "<html>login</html>"), "bad_response"},
		"error in 200": {status(200, `{"status":"error","errorType":"internal","error":"shard lost"}`), "shard lost"},
		"vm partial":   {status(200, `{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}`), "partial"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // until the client gives up
		}, "deadline exceeded"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status":`)
		}, "unexpected EOF"},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.spoil = func(w http.ResponseWriter, r *http.Request, _, _ string) bool {
				fault.answer(w, r)
				return true
			}
			cfg := testConfig(f.start(t))
			if name == "slow" {
				cfg.QueryTimeout = 100 * time.Millisecond
			}
			s := newSource(t, cfg, simpleModel)
			if _, err := s.Observe(context.Background(), testNow); err == nil || !strings.Contains(err.Error(), fault.want) {
				t.Errorf("Observe: %v, want an error about %q", err, fault.want)
			}
			h, err := s.History(context.Background(), "chat-70b", testFrom, testNow)
			if err == nil || !strings.Contains(err.Error(), fault.want) || h.Prompt.Len() != 0 {
				t.Errorf("History: %d steps, %v, want an error about %q", h.Prompt.Len(), err, fault.want)
			}
			if _, err := s.Check(context.Background(), testNow); err == nil {
				t.Error("Check found nothing wrong")
			}
		})
	}
}

// The server is down at the start, comes up, goes down and comes up: gaps open and close, and keep their beginning.
func TestUnreachableAtStartAndLater(t *testing.T) {
	f := healthy()
	var down atomic.Bool
	down.Store(true)
	f.spoil = func(w http.ResponseWriter, _ *http.Request, _, _ string) bool {
		if down.Load() {
			panic(http.ErrAbortHandler) // the connection is closed without an answer
		}
		return false
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	if _, err := s.Observe(context.Background(), testNow); err == nil {
		t.Fatal("an unreachable server was observed")
	}
	down.Store(false)
	if obs, err := s.Observe(context.Background(), testNow.Add(15*time.Second)); err != nil || len(obs.Gaps) > 0 {
		t.Fatalf("after it came up: %v, gaps %v", err, obs.Gaps)
	}
	down.Store(true)
	if _, err := s.Observe(context.Background(), testNow.Add(30*time.Second)); err == nil {
		t.Fatal("an unreachable server was observed later")
	}
	down.Store(false)
	if obs, err := s.Observe(context.Background(), testNow.Add(45*time.Second)); err != nil || len(obs.Gaps) > 0 {
		t.Fatalf("after it came up again: %v, gaps %v", err, obs.Gaps)
	}

	unused := testConfig("http://127.0.0.1:1")
	if _, err := newSource(t, unused, simpleModel).Observe(context.Background(), testNow); err == nil {
		t.Error("a refused connection was observed")
	}
}

// Odd values in an otherwise good answer.
func TestOddValues(t *testing.T) {
	odd := testNow.Truncate(time.Minute) // the end of the newest step
	tests := map[string]struct {
		key, value string
		absent     bool
	}{
		"NaN":             {key: "served.prompt_tokens", value: "NaN"},
		"Inf":             {key: "served.prompt_tokens", value: "+Inf"},
		"negative":        {key: "served.prompt_tokens", value: "-3"},
		"step left out":   {key: "served.prompt_tokens", absent: true},
		"missed a scrape": {key: keyServedCover, value: "4"},
		"no samples":      {key: keyServedCover, absent: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.value = func(key string, at time.Time) (string, bool) {
				if strings.HasSuffix(key, tt.key) && at.Equal(odd) {
					return tt.value, !tt.absent
				}
				return steady(key, at)
			}
			s := newSource(t, testConfig(f.start(t)), simpleModel)
			obs, err := s.Observe(context.Background(), testNow)
			if err != nil {
				t.Fatal(err)
			}
			p := obs.Models[0].Load.Prompt
			if !math.IsNaN(p.Values[9]) || p.Known() != 9 {
				t.Errorf("prompt %v, want only the newest missing", p.Values)
			}
			if gapOf(obs, "chat-70b", "load") == "" {
				t.Errorf("no gap: %v", obs.Gaps)
			}
		})
	}
	for name, value := range map[string]string{"NaN": "NaN", "Inf": "Inf"} {
		t.Run("waiting "+name, func(t *testing.T) {
			f := healthy()
			f.value = func(key string, at time.Time) (string, bool) {
				if strings.HasSuffix(key, keyNow+string(FactWaiting)) {
					return value, true
				}
				return steady(key, at)
			}
			obs, err := newSource(t, testConfig(f.start(t)), simpleModel).Observe(context.Background(), testNow)
			if err != nil {
				t.Fatal(err)
			}
			if w := obs.Models[0].Waiting; w != nil || gapOf(obs, "chat-70b", "waiting") == "" {
				t.Errorf("waiting %v, gaps %v", w, obs.Gaps)
			}
		})
	}
}

func TestSaturationMarks(t *testing.T) {
	last := testNow.Truncate(time.Minute)
	for name, tt := range map[string]struct{ key, value string }{
		"requests waited":            {keyWaiting, "2"},
		"a replica went unseen":      {keyReady, "2"},
		"no replica was seen at all": {keyReporting, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.value = func(key string, at time.Time) (string, bool) {
				if strings.HasSuffix(key, "0."+tt.key) && at.Equal(last) {
					return tt.value, true
				}
				return steady(key, at)
			}
			obs, err := newSource(t, testConfig(f.start(t)), simpleModel).Observe(context.Background(), testNow)
			if err != nil {
				t.Fatal(err)
			}
			p := obs.Models[0].Load.Prompt
			for i, marked := range p.AtLeast {
				if marked != (i == 9) {
					t.Errorf("marks %v", p.AtLeast)
				}
			}
			if p.AtLeast == nil || p.Values[9] != 100 {
				t.Errorf("prompt %+v", p)
			}
		})
	}
}

// Where it cannot be learnt whether requests waited, a throughput is a lower bound: a step is read only once.
func TestSaturationUnknown(t *testing.T) {
	f := healthy()
	f.spoil = func(w http.ResponseWriter, _ *http.Request, path, query string) bool {
		if path != "/api/v1/query_range" || !strings.Contains(query, "max_over_time") {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"no such function"}`)
		return true
	}
	obs, err := newSource(t, testConfig(f.start(t)), simpleModel).Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	p := obs.Models[0].Load.Prompt
	if p.Known() != 10 || len(p.AtLeast) != 10 || slices.Contains(p.AtLeast, false) {
		t.Errorf("prompt %+v, want ten lower bounds", p)
	}
	if !strings.Contains(gapOf(obs, "chat-70b", "load"), "saturation is unknown") {
		t.Errorf("gaps %v", obs.Gaps)
	}
}

// When a model's values vanish, its names are looked up again at the next tick, long before they are old.
func TestRenameIsFollowed(t *testing.T) {
	f := healthy()
	var gone atomic.Bool
	f.value = func(key string, at time.Time) (string, bool) {
		if gone.Load() {
			return "", false
		}
		return steady(key, at)
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	for tick, want := range []struct {
		gone    bool
		lookups int
	}{{false, 1}, {false, 1}, {true, 1}, {true, 2}, {false, 3}, {false, 3}} {
		gone.Store(want.gone)
		if _, err := s.Observe(context.Background(), testNow.Add(time.Duration(tick)*15*time.Second)); err != nil {
			t.Fatal(err)
		}
		if n := f.asked(`last_over_time({__name__=~"llamacpp`); n != want.lookups {
			t.Errorf("tick %d: names were looked up %d times, want %d", tick, n, want.lookups)
		}
	}
}

// A model that is scaled to zero is known by its gateway alone: a failed look-up of names must not hide its queue, which
// is what wakes it.
func TestGatewayOutlivesAFailedLookUp(t *testing.T) {
	var fail atomic.Bool
	f := healthy()
	f.series = nil
	for _, name := range []string{"llm_d_epp_request_input_tokens_sum", "llm_d_epp_request_output_tokens_sum",
		"llm_d_epp_flow_control_queue_size"} {
		f.series = append(f.series, map[string]string{"__name__": name, "target_model_name": "chat-70b"})
	}
	f.value = func(key string, _ time.Time) (string, bool) {
		return "3", strings.HasSuffix(key, keyNowQueue)
	}
	f.spoil = func(w http.ResponseWriter, _ *http.Request, _, query string) bool {
		spoilt := fail.Load() && strings.HasPrefix(query, "last_over_time({__name__")
		if spoilt {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return spoilt
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	for _, failing := range []bool{false, true} {
		fail.Store(failing)
		obs, err := s.Observe(context.Background(), testNow)
		if err != nil {
			t.Fatal(err)
		}
		if m := obs.Models[0]; m.Waiting == nil || *m.Waiting != 3 {
			t.Errorf("look-up failing %v: waiting %v, gaps %v", failing, m.Waiting, obs.Gaps)
		}
	}
}

// A warning is a partial answer: its chunk is missing and the error says so, the rest is kept.
func TestHistoryWarning(t *testing.T) {
	f := healthy()
	f.spoil = func(w http.ResponseWriter, r *http.Request, path, _ string) bool {
		if path == "/api/v1/query_range" && r.Form.Get("start") == fmt.Sprint(testFrom.Add(31*time.Minute).Unix()) {
			fmt.Fprintf(w, `{"status":"success","warnings":["store gateway 3 is unavailable"],"data":{"resultType":"matrix","result":[`+
				`{"metric":{%q:"served.prompt_tokens"},"values":[[%d,"50"]]}]}}`, factLabel, testFrom.Add(31*time.Minute).Unix())
			return true
		}
		return false
	}
	cfg := testConfig(f.start(t))
	cfg.HistoryChunk = 30
	h, err := newSource(t, cfg, simpleModel).History(context.Background(), "chat-70b", testFrom, testNow)
	if !errors.Is(err, planner.ErrPartial) || !strings.Contains(err.Error(), "store gateway 3") {
		t.Fatalf("%v, want ErrPartial with the warning", err)
	}
	for i, v := range h.Prompt.Values {
		if missing := i >= 30 && i < 60; math.IsNaN(v) != missing {
			t.Errorf("step %d is %v, want missing %v", i, v, missing)
		}
	}
}

// A warning during Observe leaves the steps missing with a gap.
func TestObserveWarning(t *testing.T) {
	f := healthy()
	f.spoil = func(w http.ResponseWriter, _ *http.Request, path, _ string) bool {
		if path != "/api/v1/query_range" {
			return false
		}
		fmt.Fprint(w, `{"status":"success","warnings":["a shard is down"],"data":{"resultType":"matrix","result":[]}}`)
		return true
	}
	obs, err := newSource(t, testConfig(f.start(t)), simpleModel).Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if n := obs.Models[0].Load.Prompt.Known(); n != 0 || !strings.Contains(gapOf(obs, "chat-70b", "load"), "a shard is down") {
		t.Errorf("%d steps known, gaps %v", n, obs.Gaps)
	}
	if obs.Models[0].Replicas == nil {
		t.Error("replicas are lost with the load")
	}
}

// A server that refuses long ranges is asked for shorter ones; one that is down is not asked for every chunk.
func TestHistoryAdapts(t *testing.T) {
	f := healthy()
	f.spoil = func(w http.ResponseWriter, r *http.Request, path, _ string) bool {
		if path != "/api/v1/query_range" || f.seconds(r, "end")-f.seconds(r, "start") < 3600 {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`)
		return true
	}
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	h, err := s.History(context.Background(), "chat-70b", testNow.Add(-4*time.Hour), testNow)
	if err != nil || h.Prompt.Known() != 239 {
		t.Errorf("%d steps known of 239, %v", h.Prompt.Known(), err)
	}

	down := healthy()
	down.spoil = func(w http.ResponseWriter, _ *http.Request, path, _ string) bool {
		if path == "/api/v1/query_range" {
			w.WriteHeader(http.StatusBadGateway)
		}
		return path == "/api/v1/query_range"
	}
	cfg := testConfig(down.start(t))
	cfg.HistoryChunk = 10
	if _, err := newSource(t, cfg, simpleModel).History(context.Background(), "chat-70b", testFrom, testNow); err == nil {
		t.Error("no error")
	}
	if n := down.asked("query_range"); n != chunkFailuresMax {
		t.Errorf("a server that is down was asked %d times, want %d", n, chunkFailuresMax)
	}
}

func TestHistoryCancelled(t *testing.T) {
	f := healthy()
	ctx, cancel := context.WithCancel(context.Background())
	f.spoil = func(_ http.ResponseWriter, _ *http.Request, path, _ string) bool {
		if path == "/api/v1/query_range" {
			cancel()
		}
		return false
	}
	cfg := testConfig(f.start(t))
	cfg.HistoryChunk = 10
	_, err := newSource(t, cfg, simpleModel).History(ctx, "chat-70b", testFrom, testNow)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if n := f.asked("query_range"); n != 1 {
		t.Errorf("asked %d times after the cancellation, want 1", n)
	}
}

// One model that breaks its query takes nothing from the others.
func TestOneBadModel(t *testing.T) {
	f := healthy()
	f.series = append(vllmSeries("pod-a", "chat-70b"), vllmSeries("pod-b", "code-8b")...)
	f.spoil = func(w http.ResponseWriter, _ *http.Request, path, query string) bool {
		if path != "/api/v1/query_range" || !strings.Contains(query, "code-8b") {
			return false
		}
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"many-to-many matching"}`)
		return true
	}
	other := ModelConfig{Name: "code-8b", Matchers: []string{`model_name="code-8b"`}, Workloads: simpleModel.Workloads}
	obs, err := newSource(t, testConfig(f.start(t)), simpleModel, other).Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if n := obs.Models[0].Load.Prompt.Known(); n != 10 || gapOf(obs, "chat-70b", "load") != "" {
		t.Errorf("chat-70b: %d steps known, gaps %v", n, obs.Gaps)
	}
	if n := obs.Models[1].Load.Prompt.Known(); n != 0 || !strings.Contains(gapOf(obs, "code-8b", "load"), "many-to-many") {
		t.Errorf("code-8b: %d steps known, gaps %v", n, obs.Gaps)
	}
}

// No series is a gap and missing steps, never a load of zero; the names are looked up again at the next tick.
func TestNoSeries(t *testing.T) {
	f := healthy()
	f.series = nil
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	obs, err := s.Observe(context.Background(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if m := obs.Models[0]; m.Load.Prompt.Known() != 0 || m.Load.Prompt.Len() != 10 || m.Waiting != nil {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(gapOf(obs, "chat-70b", "load"), "no series matches") {
		t.Errorf("gaps %v", obs.Gaps)
	}
	h, err := s.History(context.Background(), "chat-70b", testFrom, testNow)
	if !errors.Is(err, planner.ErrPartial) || h.Prompt.Known() != 0 {
		t.Errorf("history: %d known, %v", h.Prompt.Known(), err)
	}
	f.series = vllmSeries("pod-a", "chat-70b")
	later := testNow.Add(15 * time.Second)
	if obs, err = s.Observe(context.Background(), later); err != nil || obs.Models[0].Load.Prompt.Known() != 10 {
		t.Errorf("after the series appeared: %d known, %v", obs.Models[0].Load.Prompt.Known(), err)
	}
}

// The gap of a lasting fault keeps its beginning.
func TestGapSince(t *testing.T) {
	f := healthy()
	f.kube = nil
	s := newSource(t, testConfig(f.start(t)), simpleModel)
	for i := range 3 {
		obs, err := s.Observe(context.Background(), testNow.Add(time.Duration(i)*15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(obs.Gaps) != 1 || !obs.Gaps[0].Since.Equal(testNow) || obs.Models[0].Replicas != nil {
			t.Errorf("tick %d: gaps %v, replicas %v", i, obs.Gaps, obs.Models[0].Replicas)
		}
	}
}
