package kube

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// The values of Config.Enabled.
const (
	EnabledAuto = "auto" // when there is a configuration: in a pod, or a kubeconfig that is named
	EnabledTrue = "true"
	// EnabledFalse leaves the cluster alone.
	EnabledFalse = "false"
)

// Config says which cluster to observe and how.
type Config struct {
	// Enabled is auto, true or false. With auto a missing configuration is no error.
	Enabled string `yaml:"enabled"`
	// Kubeconfig is a file; empty means the configuration of the pod this runs in.
	Kubeconfig string `yaml:"kubeconfig"`
	// Context is one of the file's contexts; empty means its current one.
	Context string `yaml:"context"`
	// Namespaces restricts the ScaledObjects and workloads that are looked at; empty means all. Pods are watched in all
	// namespaces whatever is said here, because any pod may hold a GPU.
	Namespaces []string `yaml:"namespaces"`
	// Rediscover is how often kinds that were not installed are looked for again.
	Rediscover time.Duration `yaml:"rediscover"`
	// StaleAfter is how long a broken watch may last before its facts are unknown.
	StaleAfter time.Duration `yaml:"stale_after"`
	// StartLogs reads the log of the engine's container once, when a replica has become ready: how long weights, compilation
	// and graphs took is nowhere else. It needs the right to read pods/log, which the role of everything else does not have.
	StartLogs bool `yaml:"start_logs"`
}

// DefaultConfig returns the settings of an empty configuration.
func DefaultConfig() Config {
	return Config{Enabled: EnabledAuto, Namespaces: []string{}, Rediscover: 5 * time.Minute, StaleAfter: time.Minute}
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate reports every problem at once, each with key, value and what is allowed.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains([]string{EnabledAuto, EnabledTrue, EnabledFalse}, c.Enabled) {
		bad("enabled: %q, allowed are auto, true, false", c.Enabled)
	}
	if c.Context != "" && c.Kubeconfig == "" {
		bad("context: %q without kubeconfig, allowed is a context of the file that kubeconfig names", c.Context)
	}
	for i, ns := range c.Namespaces {
		if !namespaceName.MatchString(ns) {
			bad("namespaces[%d]: %q, allowed is a Kubernetes namespace", i, ns)
		}
		if slices.Contains(c.Namespaces[:i], ns) {
			bad("namespaces[%d]: %q is there already, allowed once", i, ns)
		}
	}
	if c.Rediscover < 10*time.Second || c.Rediscover > 24*time.Hour {
		bad("rediscover: %v, allowed is 10s to 24h", c.Rediscover)
	}
	if c.StaleAfter < 10*time.Second || c.StaleAfter > 10*time.Minute {
		bad("stale_after: %v, allowed is 10s to 10m", c.StaleAfter)
	}
	return errors.Join(errs...)
}

// Model is one model to observe.
type Model struct {
	Name string
	// Pods is how many pods one replica has, for owners that do not say it themselves (Ray worker groups). At least 1.
	Pods int
	// Workloads are used while no ScaledObject names the model.
	Workloads []Workload
}

// Workload is a scalable object. For a LeaderWorkerSet one replica is one group.
type Workload struct {
	Namespace, Kind, Name string
}

// String is the workload as messages show it, such as "Deployment serving/chat-70b".
func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }
