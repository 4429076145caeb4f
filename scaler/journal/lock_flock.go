//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockName is the file that the writing process holds locked. It is never removed: removing a lock file while another
// process opens it would let two processes hold "the" lock.
const lockName = "journal.lock"

// lockDir takes the writer's lock of a directory; closing the file, or the end of the process however it comes, lets it
// go. The file says who holds it, for people.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, unavailable(dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20)) // only names the process in the message
		closing := f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is written by process %q: one forewarmd per data directory", ErrLocked, dir,
				strings.TrimSpace(string(holder)))
		}
		return nil, unavailable(path, errors.Join(fmt.Errorf("locking: %w", err), closing))
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		return nil, unavailable(path, errors.Join(err, f.Close()))
	}
	return f, nil
}

func writePID(f *os.File) error {
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
