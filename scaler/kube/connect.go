package kube

import (
	"errors"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ErrNoCluster says that no cluster is to be observed: it is turned off, or none is configured and that is allowed.
var ErrNoCluster = errors.New("no cluster is configured")

// Clients are the three views of one API server that an Observer reads through: built-in kinds with their types, other
// kinds by field, and metadata alone.
type Clients struct {
	Kube     kubernetes.Interface
	Dynamic  dynamic.Interface
	Metadata metadata.Interface
}

// Connect makes the clients; it does not reach the server. It returns ErrNoCluster, wrapped, when the cluster is turned
// off, and with enabled auto when there is no configuration.
func Connect(cfg Config) (Clients, error) {
	if cfg.Enabled == EnabledFalse {
		return Clients{}, fmt.Errorf("kubernetes.enabled is false: %w", ErrNoCluster)
	}
	rc, err := restConfig(cfg)
	if err != nil {
		return Clients{}, err
	}
	rc.UserAgent = "forewarmd"
	// The first lists of two dozen kinds come at once; after that there are only watches.
	rc.QPS, rc.Burst = 50, 100
	metadataOnly, err := metadata.NewForConfig(rc)
	if err != nil {
		return Clients{}, fmt.Errorf("kubernetes: %w", err)
	}
	byField, err := dynamic.NewForConfig(rc)
	if err != nil {
		return Clients{}, fmt.Errorf("kubernetes: %w", err)
	}
	compact := rest.CopyConfig(rc)
	compact.ContentType = "application/vnd.kubernetes.protobuf"
	compact.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed, err := kubernetes.NewForConfig(compact)
	if err != nil {
		return Clients{}, fmt.Errorf("kubernetes: %w", err)
	}
	return Clients{Kube: typed, Dynamic: byField, Metadata: metadataOnly}, nil
}

func restConfig(cfg Config) (*rest.Config, error) {
	if cfg.Kubeconfig != "" {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: cfg.Kubeconfig}
		rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
			&clientcmd.ConfigOverrides{CurrentContext: cfg.Context}).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("kubernetes.kubeconfig %s: %w", cfg.Kubeconfig, err)
		}
		return rc, nil
	}
	rc, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		if cfg.Enabled == EnabledAuto {
			return nil, fmt.Errorf("kubernetes.enabled is auto, no kubeconfig is named and this is no pod: %w", ErrNoCluster)
		}
		return nil, errors.New("kubernetes.enabled is true, but no kubeconfig is named and this is no pod: name one")
	}
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	return rc, nil
}
