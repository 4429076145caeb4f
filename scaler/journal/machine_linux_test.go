package journal

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs f on a thread of its own without root's permission to ignore permissions. The thread is not given back:
// it ends with the goroutine.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			// The raw call changes this thread only; the kernel takes its file capabilities with the user id.
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0); errno != 0 {
				t.Errorf("setfsuid: %v", errno)
				return
			}
		}
		f()
	}()
	<-done
}

// Directories and files without permission are ErrUnavailable with the path and the reason, and nothing is set aside.
func TestPermissions(t *testing.T) {
	dir, _ := written(t)
	path := filepath.Join(dir, fileName)
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) { // so that nobody gets there
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name            string
		dir, file, lock os.FileMode
	}{
		{"read-only directory", 0o555, 0o444, 0o644},
		{"directory that may not be entered", 0o600, 0o666, 0o666},
		{"read-only file", 0o777, 0o444, 0o666},
		{"file that may not be read", 0o777, 0o000, 0o666},
	} {
		if err := errors.Join(os.Chmod(path, test.file), os.Chmod(filepath.Join(dir, lockName), test.lock), os.Chmod(dir, test.dir)); err != nil {
			t.Fatal(err)
		}
		asNobody(t, func() {
			j, report, err := Open(dir, Options{}, monday, nil)
			if j != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), dir) || report.Aside != "" {
				t.Errorf("%s: report %+v, error %v; must be ErrUnavailable and name the directory", test.name, report, err)
			}
		})
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The CLI of somebody who may only read works on a journal that was closed in order.
func TestReadWithoutWritePermission(t *testing.T) {
	dir, last := written(t)
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, fileName), 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	asNobody(t, func() {
		r, err := OpenReadOnly(dir)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		if got := mustLast(t, r); asJSON(t, got) != asJSON(t, last) {
			t.Error("the last decision is not what was written")
		}
	})
}

// tinyDisk mounts a file system of one size, or skips where that is not allowed.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mounting a small disk: %v: this test needs root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}

// A disk that is really full.
func TestDiskFull(t *testing.T) {
	disk := tinyDisk(t, "3m")
	j, _ := mustOpen(t, filepath.Join(disk, "journal"), Options{})
	ballast := filepath.Join(disk, "ballast")
	fillAndRecover(t, j, func() {
		if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o644); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

// Opening on a full or read-only disk is ErrUnavailable; with room it works.
func TestOpenOnFullDisk(t *testing.T) {
	disk := tinyDisk(t, "256k")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 300<<10), 0o644); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	dir := filepath.Join(disk, "journal")
	if _, _, err := Open(dir, Options{}, monday, nil); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), disk) {
		t.Errorf("full disk: error is %v, must be ErrUnavailable and name it", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	j, report := mustOpen(t, dir, Options{})
	if report.Aside != "" || !report.Created {
		t.Errorf("report is %+v: what could not be made must not be in the way", report)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("remounting read-only: %v", err)
	}
	if _, _, err := Open(dir, Options{}, monday, nil); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only disk: error is %v, must be ErrUnavailable and say so", err)
	}
	r, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatalf("reading on a read-only disk: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
