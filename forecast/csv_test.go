package forecast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestReadCSV(t *testing.T) {
	berlin := mustLocation(t, "Europe/Berlin")
	for _, c := range []struct {
		name, text string
		opts       CSVOptions
		start      time.Time
		step       time.Duration
		want       []float64
	}{
		{"plain", "time,value\n2024-01-01 00:00:00,1\n2024-01-01 00:01:00,2.5\n", CSVOptions{}, monday, time.Minute, []float64{1, 2.5}},
		{"byte order mark, CRLF", "\ufefftime,value\r\n2024-01-01 00:00:00,1\r\n2024-01-01 00:01:00,2\r\n", CSVOptions{}, monday,
			time.Minute, []float64{1, 2}},
		{"RFC 3339", "time_utc,v\n2024-01-01T01:00:00+01:00,1\n2024-01-01T00:00:10Z,2\n", CSVOptions{}, monday, 10 * time.Second,
			[]float64{1, 2}},
		{"fractions", "time,v\n2024-01-01 00:00:00.000,1\n2024-01-01 00:00:00.250,2\n", CSVOptions{}, monday, 250 * time.Millisecond,
			[]float64{1, 2}},
		{"seconds", "t_s,v\n0,1\n0.5,2\n", CSVOptions{}, time.Unix(0, 0), 500 * time.Millisecond, []float64{1, 2}},
		{"gaps", "t_s,v\n0,1\n60,\n120,3\n240,5\n", CSVOptions{}, time.Unix(0, 0), time.Minute, []float64{1, nan, 3, nan, 5}},
		{"local time", "time,v\n2024-01-01 01:00:00,1\n2024-01-01 02:00:00,2\n", CSVOptions{Location: berlin}, monday, time.Hour,
			[]float64{1, 2}},
		{"column", "t_s,a,b\n0,1,3\n1,2,4\n", CSVOptions{Column: "b"}, time.Unix(0, 0), time.Second, []float64{3, 4}},
		{"only numeric", "t_s,name,b\n0,x,3\n1,y,4\n", CSVOptions{}, time.Unix(0, 0), time.Second, []float64{3, 4}},
		{"named value", "t_s,a,value\n0,1,3\n1,2,4\n", CSVOptions{}, time.Unix(0, 0), time.Second, []float64{3, 4}},
		{"missing where", "t_s,v,gap\n0,1,0\n1,0,1\n2,3,1.0\n3,4,0\n", CSVOptions{MissingWhere: "gap=1"}, time.Unix(0, 0), time.Second,
			[]float64{1, nan, nan, 4}},
		{"autumn hour without a zone", "time,v\n2024-10-27 01:30:00,1\n2024-10-27 02:00:00,2\n2024-10-27 02:30:00,3\n" +
			"2024-10-27 03:00:00,4\n", CSVOptions{Location: berlin}, time.Date(2024, 10, 26, 23, 30, 0, 0, time.UTC), 30 * time.Minute,
			[]float64{1, nan, nan, 2, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ReadCSV(strings.NewReader(c.text), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Start.Equal(c.start) || s.Step != c.step || !sameValues(s.Values, c.want) {
				t.Errorf("start %v step %v values %v", s.Start, s.Step, s.Values)
			}
		})
	}
}

func TestReadCSVSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opts       CSVOptions
		want       []string
	}{
		{"empty", "", CSVOptions{}, []string{"line 1", "header"}},
		{"no rows", "time,value\n", CSVOptions{}, []string{"no rows"}},
		{"one row", "time,value\n2024-01-01 00:00:00,1\n", CSVOptions{}, []string{"line 2", "at least two"}},
		{"no time", "when,value\n1,2\n", CSVOptions{}, []string{`first column is "when"`, "t_s"}},
		{"all at once", "time,value\nyesterday,1\n2024-01-01 00:01:00,Inf\n2024-01-01 00:02:00,NaN\n2024-01-01 00:03:00,-4\n" +
			"2024-01-01 00:03:00,x\n2024-01-01 00:01:00,1\n", CSVOptions{}, []string{
			`line 2: time: "yesterday" is not a time`, `line 3: value is "Inf", must be finite`,
			`line 4: value is "NaN", must be a number, or empty`, `line 5: value is -4, demand must not be negative`,
			`line 6: time 2024-01-01 00:03:00 appears again, first in line 5`, `line 6: value is "x"`,
			`line 7: time 2024-01-01 00:01:00 is before that of line 6`}},
		{"mixed steps", "t_s,v\n0,1\n60,2\n120,3\n150,4\n", CSVOptions{}, []string{"line 5: time 150 is 30s off the grid of the step 1m0s"}},
		{"mixed steps with a zone", "time,v\n2024-01-01T00:00:00Z,1\n2024-01-01T00:01:00Z,2\n2024-01-01T00:02:00Z,3\n2024-01-01T00:02:30Z,4\n",
			CSVOptions{}, []string{"line 5: time 2024-01-01 00:02:30 +00:00 is 30s off the grid of the step 1m0s that most rows keep"}},
		{"too many steps", "t_s,v\n0,1\n1,1\n2,1\n5000000,2\n", CSVOptions{}, []string{"line 5: 5000000 is 5000001 steps of 1s after the first row"}},
		{"seconds beyond 64 bits", "t_s,v\n0,1\n9223372036854775808,1\n1e400,2\nNaN,2\n", CSVOptions{}, []string{
			`line 3: t_s: "9223372036854775808" is out of range, must be from -8500000000 to 8500000000 seconds`,
			`line 4: t_s: "1e400" is out of range`, `line 5: t_s: "NaN" is not a number of seconds`}},
		{"years beyond 64 bits", "time,v\n2024-01-01 00:00:00,1\n9999-01-01 00:00:00,2\n0001-01-01T00:00:00Z,3\n", CSVOptions{}, []string{
			`line 3: time: "9999-01-01 00:00:00" is out of range, must be from the year 1700 to 2250`, `line 4: time: "0001-01-01T00:00:00Z"`}},
		{"values beyond 64 bits", "t_s,v\n0,1\n1,1e400\n2,1e101\n3,-1e400\n", CSVOptions{}, []string{
			"line 3: v is 1e400, must be at most 1e+100", "line 4: v is 1e101, must be at most", "line 5: v is -1e400"}},
		{"one column", "t_s\n0\n1\n", CSVOptions{}, []string{"line 1: one column, must be a time and at least one value"}},
		{"long line", "t_s,v\n0,1\n" + strings.Repeat("1", csvLineMax+1<<17), CSVOptions{}, []string{"line 3: longer than"}},
		{"in the order of lines", "t_s,v\n0,x\n1\nsoon,1\n", CSVOptions{}, []string{"line 2: v is \"x\", must be a number, or empty when missing\nline 3: 1 cells, must be 2 as in the header\nline 4: t_s"}},
		{"cells", "t_s,v\n0,1,2\n60\n", CSVOptions{}, []string{"line 2: 3 cells, must be 2", "line 3: 1 cells"}},
		{"quotes", "t_s,v\n0,\"1\n", CSVOptions{}, []string{"reading csv", "line"}},
		{"UTF-8", "t_s,v\n0,1\n1,\xff\n", CSVOptions{}, []string{"line 3: not UTF-8"}},
		{"UTF-8 across reads", "t_s,v\n" + strings.Repeat("0,1\n", 1<<14) + "1,\xe4\xb8\n2,\xe4", CSVOptions{}, []string{
			"line 16386: not UTF-8 text\nline 16387: not UTF-8 text"}},
		{"UTF-16", string(utf16Text("t_s,v\n0,1\n1,2\n")), CSVOptions{}, []string{"line 1: UTF-16 text, must be UTF-8"}},
		{"near name", "t_s,prompt,rps\n0,1,2\n1,2,3\n", CSVOptions{Column: "promt"}, []string{`no column "promt" (did you mean "prompt"?)`}},
		{"far name", "t_s,prompt,rps\n0,1,2\n1,2,3\n", CSVOptions{Column: "xyz"}, []string{`no column "xyz", must be one of prompt, rps`}},
		{"which column", "t_s,a,b\n0,1,2\n1,2,3\n", CSVOptions{}, []string{"2 numeric columns, name one of a, b"}},
		{"twice", "t_s,a,a\n0,1,2\n1,2,3\n", CSVOptions{Column: "a"}, []string{`column "a" appears twice`}},
		{"rule", "t_s,v\n0,1\n1,1\n", CSVOptions{MissingWhere: "gap"}, []string{"must be column=value"}},
		{"rule column", "t_s,v\n0,1\n1,1\n", CSVOptions{MissingWhere: "gap=1"}, []string{`no column "gap"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadCSV(strings.NewReader(c.text), c.opts)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

// utf16Text is what some spreadsheets export.
func utf16Text(text string) []byte {
	out := []byte{0xff, 0xfe}
	for _, r := range text {
		out = binary.LittleEndian.AppendUint16(out, uint16(r))
	}
	return out
}

// TestReadCSVOneByteAtATime: how the bytes come changes nothing, also in the middle of a character.
func TestReadCSVOneByteAtATime(t *testing.T) {
	text := "\ufefft_s,größe,名\n0,1,a\n1,2,b\n"
	for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
		s, err := ReadCSV(r, CSVOptions{Column: "größe"})
		if err != nil || !sameValues(s.Values, []float64{1, 2}) {
			t.Errorf("%v, %v", s.Values, err)
		}
	}
}

func TestReadCSVCapsItsList(t *testing.T) {
	text := "t_s,v\n"
	for i := range 100 {
		text += fmt.Sprintf("%d,oops\n", i)
	}
	_, err := ReadCSV(strings.NewReader(text), CSVOptions{})
	if err == nil || strings.Count(err.Error(), "oops") != problemsMax || !strings.Contains(err.Error(), "and 80 more problems") {
		t.Errorf("error %v", err)
	}
}

func TestReadCSVReadError(t *testing.T) {
	broken := errors.New("disk on fire")
	if _, err := ReadCSV(iotest.ErrReader(broken), CSVOptions{}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// FuzzReadCSV: whatever the bytes, the reader gives a valid series or an error, and never a huge one from a small file.
func FuzzReadCSV(f *testing.F) {
	f.Add("time,value\n2024-01-01 00:00:00,1\n2024-01-01 00:01:00,\n", "", "")
	f.Add("t_s,a,gap\n0,1,0\n1e3,2,1\n", "a", "gap=1")
	f.Add("t_s,v\n0,1\n1e-9,2\n99999999999,3\n", "v", "v=3")
	f.Add("\ufefftime_utc,\"a\nb\"\n2024-01-01T00:00:00.5+01:00,0x1p4\n", "a\nb", "=")
	f.Fuzz(func(t *testing.T, text, column, where string) {
		s, err := ReadCSV(io.LimitReader(strings.NewReader(text), 1<<16), CSVOptions{Column: column, MissingWhere: where})
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil || s.Len() < 2 || s.Len() > csvStepsMax {
			t.Fatalf("%q gave %d steps, %v", text, s.Len(), err)
		}
		for _, v := range s.Values {
			if v < 0 {
				t.Fatalf("%q gave a negative value", text)
			}
		}
	})
}

// rowReader makes a table of rows 10 s apart, without holding it.
type rowReader struct {
	rows, next int
	rest       []byte
}

func (r *rowReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		switch {
		case r.next > r.rows:
			return 0, io.EOF
		case r.next == 0:
			r.rest = []byte("time,note,value\n")
		default:
			at := monday.Add(time.Duration(r.next) * 10 * time.Second)
			r.rest = fmt.Appendf(r.rest[:0], "%s,one of many,%d\n", at.Format(time.DateTime), r.next%1000)
		}
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestReadCSVStreams: what is kept of a row is its time and its value, not its text. Growing slices hold up to about
// three times what they end with.
func TestReadCSVStreams(t *testing.T) {
	const rows = 200_000
	var s Series
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, err := ReadCSV(&rowReader{rows: rows}, CSVOptions{})
	if err != nil || s.Len() != rows {
		t.Fatalf("%d rows, %v", s.Len(), err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := (after.HeapAlloc - before.HeapAlloc) / rows; kept > 32 {
		t.Errorf("%d bytes a row are kept, 8 are needed", kept)
	}
	runtime.KeepAlive(s)
}

func BenchmarkReadCSV(b *testing.B) {
	const rows = 100_000
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCSV(&rowReader{rows: rows}, CSVOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
