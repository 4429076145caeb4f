//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// runFolder holds the state and logs of one run of the tests. TestMain removes it unless a person named it.
var runFolder = sync.OnceValue(func() string {
	if kept := os.Getenv("FOREWARM_E2E_LOGS"); kept != "" {
		folder, err := filepath.Abs(kept)
		if err == nil {
			err = os.MkdirAll(folder, 0o755)
		}
		if err != nil {
			panic(fmt.Sprintf("e2e: FOREWARM_E2E_LOGS: %v", err))
		}
		return folder
	}
	folder, err := os.MkdirTemp("", "forewarm-e2e-")
	if err != nil {
		panic(fmt.Sprintf("e2e: %v", err))
	}
	return folder
})

// process is a program that was started and has not been waited for by anyone else.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	exited  chan struct{} // closed when it ended
}

// spawn runs functions on one thread that lives as long as the tests: the kernel kills a child with Pdeathsig when the
// thread that started it ends, and the Go runtime ends threads as it likes.
var spawn = sync.OnceValue(func() chan<- func() {
	todo := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range todo {
			f()
		}
	}()
	return todo
})

// startProcess starts a program with its output in a log of the run folder; the log of an earlier process of the same
// name is kept above it.
func startProcess(name, path string, env []string, args ...string) (*process, error) {
	p := &process{name: name, logPath: filepath.Join(runFolder(), name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Dir = runFolder()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	spawn() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log; whoever needs it alive asks running
		close(p.exited)
	}()
	return p, nil
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal sends a signal to the process; one that has ended is no error.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s to %s (%d): %w", s, p.name, p.cmd.Process.Pid, err)
	}
	return nil
}

const (
	// stopGrace is how long a process may take to end on SIGTERM. Some never do once what they talk to is gone.
	stopGrace = 8 * time.Second
	killGrace = 5 * time.Second
)

// stop ends the process, by SIGTERM and after stopGrace by SIGKILL, and waits until it has ended.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopGrace):
	}
	return p.kill()
}

// kill ends the process at once and waits until it has ended.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(killGrace):
		return fmt.Errorf("%s (%d) is still there %s after SIGKILL", p.name, p.cmd.Process.Pid, killGrace)
	}
}

// logTail is the end of the process's log.
func (p *process) logTail() string {
	const lines = 40
	data, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freeAddress returns a loopback address whose port was free a moment ago.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("e2e: no free port: %v", err))
	}
	defer l.Close()
	return l.Addr().String()
}

// portOf is the port of an address of freeAddress.
func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(fmt.Sprintf("e2e: %v", err))
	}
	return port
}
