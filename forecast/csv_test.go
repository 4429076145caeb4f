package forecast

import (
	"errors"
	"fmt"
	"io"
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
		{"huge", "t_s,v\n0,1\n1,1\n2,1\n99999999999,2\n", CSVOptions{}, []string{"line 5"}},
		{"cells", "t_s,v\n0,1,2\n60\n", CSVOptions{}, []string{"line 2: 3 cells, must be 2", "line 3: 1 cells"}},
		{"quotes", "t_s,v\n0,\"1\n", CSVOptions{}, []string{"reading csv", "line"}},
		{"UTF-8", "t_s,v\n0,1\n1,\xff\n", CSVOptions{}, []string{"line 3: not UTF-8"}},
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
