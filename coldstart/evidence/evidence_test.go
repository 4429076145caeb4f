package evidence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"forewarm/coldstart"
)

// TestScenarios reads evidence written by hand and prints the starts that follow from it. The commands:
//
//	log name=FILE            the lines of a log
//	kube                     the output of kubectl get -o json
//	describe [at=TIME]       the output of kubectl describe pod
//	starts [at=TIME]         what follows from all read since the last "starts"
//	order PHASE...           fails unless the phases are in this order in the last start
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var c Cluster
		var logs []*Log
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var at time.Time
			if d.HasArg("at") {
				var text string
				d.ScanArgs(t, "at", &text)
				var err error
				if at, err = time.Parse(time.RFC3339, text); err != nil {
					d.Fatalf(t, "%v", err)
				}
			}
			switch d.Cmd {
			case "log":
				var name string
				d.ScanArgs(t, "name", &name)
				read, err := ReadLog(strings.NewReader(d.Input+"\n"), name)
				if err != nil {
					return err.Error() + "\n"
				}
				logs = append(logs, read...)
				return ""
			case "kube":
				if err := c.ReadJSON(strings.NewReader(d.Input), d.Pos); err != nil {
					return strings.ReplaceAll(err.Error(), d.Pos, "input") + "\n"
				}
				return ""
			case "describe":
				if err := c.ReadDescribe(strings.NewReader(d.Input), "input", at); err != nil {
					return err.Error() + "\n"
				}
				return ""
			case "starts":
				starts, notes := Starts(&c, logs, Options{At: at})
				c, logs = Cluster{}, nil
				return printed(t, starts, notes)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// printed is a start as the golden files show it, and checks what holds for every start.
func printed(t *testing.T, starts []Start, notes []string) string {
	var b strings.Builder
	for _, s := range starts {
		checkStart(t, s)
		fmt.Fprintf(&b, "%s: %s: %s after %gs, began %s\n", s.Pod, s.Key, s.Outcome, s.Total.Seconds(),
			s.Started.Format("2006-01-02 15:04:05"))
		for _, g := range s.Segments {
			fmt.Fprintf(&b, "  %8.3f %8.3f  %s (%s)\n", g.From.Seconds(), (g.To - g.From).Seconds(), g.Phase, g.Source)
		}
		if s.KVTokens > 0 {
			fmt.Fprintf(&b, "  kv cache %d\n", s.KVTokens)
		}
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  note: %s\n", n)
		}
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// checkStart fails unless the start is valid, and its segments and its phases sum to its total exactly.
func checkStart(t testing.TB, s Start) {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Errorf("%s: %v", s.Pod, err)
	}
	at, sum := time.Duration(0), time.Duration(0)
	for _, g := range s.Segments {
		if g.From != at || g.To <= g.From {
			t.Errorf("%s: segment %+v after %v", s.Pod, g, at)
		}
		at = g.To
	}
	for p, d := range s.Phases {
		sum += d
		if s.Sources[p] == "" || (s.Sources[p] == coldstart.FromNothing) != (p == coldstart.Unattributed) {
			t.Errorf("%s: phase %s has source %q", s.Pod, p, s.Sources[p])
		}
	}
	if at != s.Total || sum != s.Total {
		t.Errorf("%s: segments end at %v, phases sum to %v: want %v", s.Pod, at, sum, s.Total)
	}
}

// The name of a file tells whose log it is: the longest name of a pod in it, whole, whatever the folder is called.
func TestLogsByFileName(t *testing.T) {
	var pods []*pod
	for _, name := range []string{"chat-1", "chat-10", "chat-1-b"} {
		p := &pod{}
		p.Metadata.Name = name
		pods = append(pods, p)
	}
	for file, want := range map[string]string{
		"chat-1.log": "chat-1", "chat-10.log": "chat-10", "logs/chat-10_vllm.log.1": "chat-10", "serve_chat-1_vllm.log": "chat-1",
		"chat-1-vllm.log": "chat-1", "chat-1-b.log": "chat-1-b", "chat-1": "chat-1", "chat-100.log": "", "mychat-1.log": "",
		"chat-1/engine.log": "", "chat-11 chat-1.log": "chat-1", "": "",
	} {
		var got []string
		used := map[*Log]bool{}
		logs := []*Log{{Name: file}}
		for _, p := range pods {
			if len(logsOf(p, pods, logs, used)) > 0 {
				got = append(got, p.Metadata.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is taken by %q: want %q", file, got, want)
		}
	}
}

// More evidence than is kept: the newest attempts are those that count, whole ones, and what is missing is said.
func TestTooMuchEvidence(t *testing.T) {
	attempt := func(day int, version string) string {
		at := func(s int) string {
			return time.Date(2026, 3, 2, 9, 0, s, 0, time.UTC).AddDate(0, 0, day).Format(time.RFC3339) + " "
		}
		return at(0) + "INFO [api_server.py:1] vLLM API server version " + version + "\n" +
			at(20) + "INFO [loader.py:1] Loading weights took 5.00 seconds\n" + at(40) + "INFO:     Application startup complete.\n"
	}
	var text strings.Builder
	const all = 2 * marksMax / 3
	for day := range all {
		text.WriteString(attempt(day-all, "0.10.0"))
	}
	text.WriteString(attempt(0, "0.11.0"))
	logs, err := ReadLog(strings.NewReader(text.String()), "engine.log")
	if err != nil {
		t.Fatal(err)
	}
	starts, notes := Starts(&Cluster{}, logs, Options{})
	if len(starts) < marksMax/6 || len(starts) > marksMax/3 || len(notes) != 1 || !strings.Contains(notes[0], "not kept") {
		t.Fatalf("%d starts of %d, notes %q", len(starts), all, notes)
	}
	for i, s := range starts {
		checkStart(t, s)
		want := "vllm 0.10.0"
		if i == len(starts)-1 {
			want = "vllm 0.11.0"
		}
		if s.Total != 40*time.Second || s.Key.Engine != want {
			t.Fatalf("start %d: %v of %s", i, s.Total, s.Key.Engine)
		}
	}
	// One attempt that never ends: its beginning is kept, and nothing fails.
	endless := strings.Repeat("2026-03-02T09:15:24Z INFO Loading weights took 3.50 seconds\n", marksMax+10)
	if logs, err = ReadLog(strings.NewReader(attempt(0, "0.11.0")[:90]+"\n"+endless), "engine.log"); err != nil || logs[0].Dropped < 10 {
		t.Errorf("%d lines dropped, %v", logs[0].Dropped, err)
	}
}
