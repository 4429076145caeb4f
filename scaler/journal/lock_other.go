//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import (
	"errors"
	"os"
	"runtime"
)

// lockDir refuses: without flock two writers could not be kept apart. Reading works on every system.
func lockDir(dir string) (*os.File, error) {
	return nil, unavailable(dir, errors.New("writing a journal is not supported on "+runtime.GOOS))
}
