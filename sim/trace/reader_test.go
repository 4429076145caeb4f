package trace

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestReader runs testdata/reader: what each form reads as, and what is wrong with bad ones.
//
//	read [model=M]               reads the input as a trace; \x00, \xff and \xef\xbb\xbf are bytes
func TestReader(t *testing.T) {
	datadriven.RunTest(t, "testdata/reader", func(t *testing.T, d *datadriven.TestData) string {
		var model string
		d.MaybeScanArgs(t, "model", &model)
		input := strings.NewReplacer(`\x00`, "\x00", `\xff`, "\xff", `\xef\xbb\xbf`, "\xef\xbb\xbf").Replace(d.Input)
		r, err := NewReader(strings.NewReader(input), model)
		if err != nil {
			return err.Error() + "\n"
		}
		var b strings.Builder
		for {
			q, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return b.String() + err.Error() + "\n"
			}
			fmt.Fprintf(&b, "%s %d %d\n", q.At.UTC().Format("2006-01-02 15:04:05.999"), q.Prompt, q.Completion)
		}
		if r.Skipped() > 0 {
			fmt.Fprintf(&b, "%d without tokens left out\n", r.Skipped())
		}
		return b.String()
	})
}

// Whatever the bytes, reading ends: in order, with tokens that are believable, or with an error.
func FuzzReader(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,4808,10\n")
	f.Add("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n")
	f.Add(`{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}` + "\n")
	f.Add("t_s,prompt_tokens,completion_tokens\n0,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := NewReader(strings.NewReader(text), "")
		if err != nil {
			return
		}
		for last := int64(-1 << 62); ; {
			q, err := r.Next()
			if err != nil {
				return
			}
			if q.Prompt < 1 || q.Prompt > tokensMax || q.Completion < 1 || q.Completion > tokensMax {
				t.Fatalf("tokens of %+v", q)
			}
			if at := q.At.Unix(); at < last {
				t.Fatalf("%v after %d", q.At, last)
			} else {
				last = at
			}
		}
	})
}
