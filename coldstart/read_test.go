package coldstart

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

const twoLines = `{"id":"a","model":"chat","shape":"4x1/H200","path":"warm_node","started":"2026-03-02T09:00:00Z","total_seconds":214.5,"outcome":"served","phases":{"image_pull":93.5,"weight_load":0.000000001}}

{"model":"chat","started":"2026-03-02T18:00:00+09:00","total_seconds":600,"outcome":"pending"}
`

func TestReadSamples(t *testing.T) {
	want := []Sample{
		{ID: "a", Key: chat, Started: t0, Total: 214500 * time.Millisecond, Outcome: Served,
			Phases: map[Phase]time.Duration{ImagePull: 93500 * time.Millisecond, WeightLoad: 1}},
		{ID: "record-2", Key: Key{Model: "chat"}, Started: t0, Total: 10 * time.Minute, Outcome: Pending},
	}
	lines := strings.Split(strings.TrimSpace(twoLines), "\n\n")
	for name, in := range map[string]string{
		"lines":          twoLines,
		"crlf and a BOM": "\xef\xbb\xbf" + strings.ReplaceAll(twoLines, "\n", "\r\n"),
		"no last break":  strings.TrimSpace(twoLines),
		"array":          " \n[" + strings.Join(lines, ",\n") + "]\n",
	} {
		got, err := ReadSamples(strings.NewReader(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range got {
			got[i].Started = got[i].Started.UTC()
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestReadSamplesErrors(t *testing.T) {
	const ok = `{"id":"a","model":"m","started":"2026-03-02T09:00:00Z","total_seconds":1}`
	tests := []struct {
		name, in string
		want     []string
	}{
		{"empty", " \n", []string{"no record"}},
		{"empty array", "[]", []string{"no record"}},
		{"not an object", "7\nnull\n\"x\"", []string{"line 1: \"7\": want a JSON object", "line 2: null", "line 3:"}},
		{"each line", ok + "\n{\n\n" + ok + "\n{}", []string{
			"line 2: \"{\": want a JSON object", "line 4: id \"a\": given before on line 1", "line 5: model is missing",
			"line 5: started is missing", "line 5: total_seconds is missing",
		}},
		{"each field", `{"id":1,"model":null,"shape":[],"path":"hot","started":"yesterday","total_seconds":"5m","outcome":"lost","phase":{},"total_ns":5,"phases":{"image_pull":"1m"}}`,
			[]string{`field "phase": want one of id, model`, `field "total_ns"`, "id 1: want a string", "model null", "shape []",
				`path "hot"`, `started "yesterday": want an RFC 3339`, `total_seconds "5m": want a number`, "phases {"}},
		{"values", `{"id":"a","model":"m","started":"2026-03-02T09:00:00Z","total_seconds":-1,"phases":{"image_pull":null,"weight_load":1e300}}`,
			[]string{"total_seconds -1: want 0 to 31536000", "phases image_pull null", "phases weight_load 1e+300"}},
		{"phases over total", `{"model":"m","started":"2026-03-02T09:00:00Z","total_seconds":1,"phases":{"imagepull":1,"weight_load":1}}`,
			[]string{`phase "imagepull": want one of`, "phases sum to 2s"}},
		{"bad outcome with phases", `{"id":"","model":"m","started":"2026-03-02T09:00:00Z","total_seconds":1,"outcome":"ok"}`,
			[]string{`outcome "ok": want "served"`, "id is empty"}},
		{"array lines", "[\n" + ok + ",\n\n {\"model\":\"m\"},\n 5\n]", []string{"line 4: started is missing", "line 5: \"5\""}},
		{"array torn", "[\n" + ok + ",\n{\"model\":", []string{"line 3: not JSON, the rest of the array is not read"}},
		{"array not closed", "[" + ok, []string{"the array does not end"}},
		{"after the array", "[" + ok + "]\n{}", []string{"line 2: \"{}\" after the array"}},
		{"not UTF-8", "{\"model\":\"\xff\"}", []string{"line 1: not valid UTF-8"}},
		{"many", strings.Repeat("{}\n", 100), []string{"line 1:", "and 250 more problems"}},
	}
	for _, tc := range tests {
		got, err := ReadSamples(strings.NewReader(tc.in))
		if got != nil {
			t.Errorf("%s: samples in spite of problems", tc.name)
		}
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: missing %q in:\n%v", tc.name, want, err)
			}
		}
	}
	broken := errors.New("disk on fire")
	if _, err := ReadSamples(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a failing reader: %v", err)
	}
}

// FuzzReadSamples: whatever is read without an error can be added to a ledger, estimated from and written again.
func FuzzReadSamples(f *testing.F) {
	f.Add(twoLines)
	f.Add("[" + strings.Join(strings.Split(strings.TrimSpace(twoLines), "\n\n"), ",") + "]")
	f.Add("[\n,")
	f.Add("{\"model\":\"m\"}\n[]")
	f.Fuzz(func(t *testing.T, in string) {
		samples, err := ReadSamples(strings.NewReader(in))
		if (err == nil) != (len(samples) > 0) {
			t.Fatalf("%d samples with error %v", len(samples), err)
		}
		var l Ledger
		for _, s := range samples {
			if err := l.Add(s); err != nil {
				t.Fatalf("read but refused: %v", err)
			}
		}
		data, err := l.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back Ledger
		if err := back.UnmarshalJSON(data); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		for _, s := range samples {
			lt := back.Estimate(s.Key, s.Started)
			requireValid(t, lt)
			if !reflect.DeepEqual(lt, l.Estimate(s.Key, s.Started)) {
				t.Fatalf("%v: another estimate after a snapshot", s.Key)
			}
		}
	})
}

// FuzzSnapshot: what is accepted is written stably and gives valid estimates.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(`{"version":1,"samples":[{"id":"a","key":{"model":"m"},"started":"2026-03-02T09:00:00Z","total_ns":5,"outcome":"served"}],"stated":[{"key":{"model":"m"},"lead_time":{"basis":"stated","from":{"model":""},"samples":0,"support_ns":[5],"cdf":[0.5],"tail_ns":7}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var l, back Ledger
		if l.UnmarshalJSON(data) != nil {
			return
		}
		once, err := l.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := back.UnmarshalJSON(once); err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		twice, err := back.MarshalJSON()
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
		requireValid(t, l.Estimate(Key{Model: "m"}, t0))
	})
}
