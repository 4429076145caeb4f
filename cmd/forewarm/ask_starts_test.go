package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"forewarm/coldstart"
)

func TestAskStarts(t *testing.T) {
	answer := map[string]any{"model": "chat-70b",
		"lead_times": []map[string]any{{"path": "cold_node", "basis": "measured", "samples": 14, "p50_seconds": 380.4, "p90_seconds": 450, "p99_seconds": 600,
			"failure_prob": 0.02, "shift": map[string]any{"starts": 3, "factor": 1.8}}},
		"starts": []coldstart.Sample{
			{ID: "b", Key: coldstart.Key{Model: "chat-70b"}, Started: askedAt, Total: time.Minute, Outcome: coldstart.Failed},
			{ID: "a", Key: coldstart.Key{Model: "chat-70b", Path: coldstart.ColdNode}, Started: askedAt, Total: 400 * time.Second, Outcome: coldstart.Served,
				Phases: map[coldstart.Phase]time.Duration{coldstart.NodeLaunch: 100 * time.Second, coldstart.ImagePull: 200 * time.Second}},
		}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/starts" || r.URL.Query().Get("model") != "chat-70b" {
			http.Error(w, fmt.Sprintf("model %q is not planned; known are chat-70b", r.URL.Query().Get("model")), http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer web.Close()
	ask := func(args ...string) (string, int) {
		var out bytes.Buffer
		code := run(context.Background(), append([]string{"ask", "127.0.0.1:1", "--starts", "--http", web.URL}, args...), &out, &out)
		return out.String(), code
	}
	text, code := ask("--model", "chat-70b")
	for _, want := range []string{"cold_node", "380s", "measured, 14 starts; the newest 3 took 1.8 times as long as those before", "served after 400.0s",
		"node_launch", "200.0s", "unattributed  100.0s"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("exit %d without %q:\n%s", code, want, text)
		}
	}
	if text, code = ask("--model", "chat-70b", "--format", "json"); code != 0 || !json.Valid([]byte(text)) {
		t.Errorf("exit %d: %s", code, text)
	}
	if text, code = ask("--model", "nobody"); code != 2 || !strings.Contains(text, "known are chat-70b") {
		t.Errorf("exit %d: %s", code, text)
	}
}
