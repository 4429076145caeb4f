package forecast

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// csvLineMax bounds a line, in bytes: a longer one is no table, and would be held in memory whole.
const csvLineMax = 1 << 20

// utf8Reader hands on text and notes the lines that are not UTF-8. It skips a byte order mark.
type utf8Reader struct {
	r        *bufio.Reader
	line     int // of the next byte, from 1
	column   int // bytes of that line seen
	cut      []byte
	bad      []int // lines, up to problemsMax
	badCount int
	wide     bool // begins like UTF-16
}

func newUTF8Reader(r io.Reader) *utf8Reader {
	u := &utf8Reader{r: bufio.NewReaderSize(r, 1<<16), line: 1}
	if head, _ := u.r.Peek(3); bytes.Equal(head, []byte("\ufeff")) {
		_, _ = u.r.Discard(len(head)) // what was peeked at can be discarded
	} else if len(head) >= 2 {
		u.wide = head[0] == 0xff && head[1] == 0xfe || head[0] == 0xfe && head[1] == 0xff
	}
	return u
}

// Read implements io.Reader.
func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.check(p[:n])
	if u.column > csvLineMax {
		return n, fmt.Errorf("line %d: longer than %d bytes", u.line, csvLineMax)
	}
	if errors.Is(err, io.EOF) && len(u.cut) > 0 {
		u.note(u.line)
		u.cut = nil
	}
	return n, err
}

// check looks at one more piece of the text. A character that the piece cuts in two is kept until the next.
func (u *utf8Reader) check(piece []byte) {
	text := piece
	if len(u.cut) > 0 {
		text = append(u.cut, piece...)
	}
	whole := len(text)
	for i := max(0, whole-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
			break
		}
	}
	u.cut = append([]byte(nil), text[whole:]...)
	text = text[:whole]
	allValid := utf8.Valid(text)
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if !allValid && !utf8.Valid(line) {
			u.note(u.line)
		}
		u.column += len(line)
		if ended {
			u.line++
			u.column = 0
		}
		text = rest
	}
}

func (u *utf8Reader) note(line int) {
	if n := len(u.bad); n > 0 && u.bad[n-1] == line {
		return
	}
	if u.badCount++; u.badCount <= problemsMax {
		u.bad = append(u.bad, line)
	}
}

// err reports the lines that are not UTF-8.
func (u *utf8Reader) err() error {
	if u.badCount == 0 {
		return nil
	}
	if u.wide {
		return errors.New("line 1: UTF-16 text, must be UTF-8")
	}
	var errs []error
	for _, line := range u.bad {
		errs = append(errs, fmt.Errorf("line %d: not UTF-8 text", line))
	}
	if more := u.badCount - len(u.bad); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more lines", more))
	}
	return errors.Join(errs...)
}
