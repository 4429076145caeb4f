//go:build e2e

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// component is one program that is built from a module of pinned tools.
type component struct {
	name   string
	pkg    string
	module string // folder of the tools module, from this package
}

const (
	toolsModule = "tools"
	kueueModule = "tools/kueue" // does not build beside Kubernetes 1.36
)

// components are built one by one: two of the main packages are both called kwok.
var components = []component{
	{"etcd", "go.etcd.io/etcd/server/v3", toolsModule},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", toolsModule},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", toolsModule},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", toolsModule},
	{"kwok", "sigs.k8s.io/kwok/cmd/kwok", toolsModule},
	{"keda-operator", "github.com/kedacore/keda/v2/cmd/operator", toolsModule},
	{"keda-adapter", "github.com/kedacore/keda/v2/cmd/adapter", toolsModule},
	{"karpenter-kwok", "sigs.k8s.io/karpenter/kwok", toolsModule},
	{"kueue", "sigs.k8s.io/kueue/cmd/kueue", kueueModule},
}

// buildFlags: the Kubernetes programs refuse each other without a version. Symbols are dropped, which halves the cache.
var buildFlags = []string{"-buildvcs=false", "-ldflags",
	"-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 " +
		"-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"}

// buildEnv makes the cached binaries independent of a C compiler and of a workspace around this repository.
var buildEnv = []string{"CGO_ENABLED=0", "GOWORK=off"}

func goCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	return cmd
}

// cacheFolder holds the binaries of one state of a tools module.
func cacheFolder(module string) (string, error) {
	root := os.Getenv("FOREWARM_E2E_CACHE")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no place for the binaries: %w; name one in FOREWARM_E2E_CACHE", err)
		}
		root = filepath.Join(user, "forewarm-e2e")
	}
	key := sha256.New()
	fmt.Fprintln(key, runtime.Version(), runtime.GOARCH, buildFlags, buildEnv)
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		key.Write(data)
	}
	folder := filepath.Join(root, hex.EncodeToString(key.Sum(nil))[:16])
	return folder, os.MkdirAll(folder, 0o755)
}

// program returns the path of a component's binary, building it when the cache does not have it. Another run that builds
// the same is waited for.
func program(name string) (string, error) {
	for _, c := range components {
		if c.name == name {
			return c.build()
		}
	}
	return "", fmt.Errorf("component %q is not known", name)
}

func (c component) build() (string, error) {
	folder, err := cacheFolder(c.module)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, c.name)
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	started := time.Now()
	fmt.Fprintf(os.Stderr, "e2e: building %s\n", c.name)
	args := append([]string{"build"}, buildFlags...)
	out, err := goCommand(c.module, append(args, "-o", path+".new", c.pkg)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", c.name, err, out)
	}
	fmt.Fprintf(os.Stderr, "e2e: built %s in %.0f s\n", c.name, time.Since(started).Seconds())
	return path, os.Rename(path+".new", path)
}

// moduleFolder returns where the files of a module of the tools are, fetching it when only its binary is cached.
func moduleFolder(module, path string) (string, error) {
	cmd := goCommand(module, "mod", "download", "-json", path)
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); err != nil || jsonErr != nil {
		return "", fmt.Errorf("finding module %s: %w", path, errors.Join(err, jsonErr, errors.New(answer.Error)))
	}
	return answer.Dir, nil
}

// daemonProgram builds the forewarmd of this checkout, once a run.
var daemonProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(runFolder(), "forewarmd")
	out, err := goCommand("../..", "build", "-buildvcs=false", "-o", path, "./cmd/forewarmd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building forewarmd: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return path, nil
})
