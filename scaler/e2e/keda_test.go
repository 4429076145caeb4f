//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// kedaEnv is what a KEDA process outside of a cluster must be told.
var kedaEnv = []string{"WATCH_NAMESPACE=", "POD_NAMESPACE=keda", "KEDA_CLUSTER_OBJECT_NAMESPACE=keda"}

// startKEDA installs KEDA's CRDs and starts its operator and its metrics adapter, which the API server reaches through a
// Service of type ExternalName. The HPA controller is allowed to read external metrics, as KEDA's chart does it.
func (c *cluster) startKEDA() error {
	if err := c.installKEDA(); err != nil {
		return err
	}
	metrics, health, service := freeAddress(), freeAddress(), freeAddress()
	certs := filepath.Join(c.folder, "keda")
	empty := filepath.Join(c.folder, "no-ca")
	if err := os.MkdirAll(empty, 0o700); err != nil {
		return err
	}
	env := append(slices.Clone(kedaEnv), "KUBECONFIG="+c.kubeconfig)
	err := c.start("keda-operator", env, "--metrics-bind-address="+metrics, "--health-probe-bind-address="+health,
		"--metrics-service-bind-address="+service, "--cert-dir="+certs, "--ca-dir="+empty, "--enable-cert-rotation=false",
		"--leader-elect=false", "--zap-log-level=info")
	if err != nil {
		return err
	}
	ready := answers(http.DefaultClient, "http://"+health+"/readyz")
	if err := poll(60*time.Second, "the KEDA operator to be ready", ready); err != nil {
		return err
	}
	adapter, extra := freeAddress(), freeAddress()
	err = c.start("keda-adapter", env, "--bind-address=127.0.0.1", "--secure-port="+portOf(adapter), "--port="+portOf(extra),
		"--metrics-service-address="+service, "--metrics-service-grpc-authority="+kedaAuthority, "--cert-dir="+certs,
		"--tls-cert-file="+filepath.Join(certs, "tls.crt"), "--tls-private-key-file="+filepath.Join(certs, "tls.key"),
		"--authentication-kubeconfig="+c.kubeconfig, "--authorization-kubeconfig="+c.kubeconfig,
		"--lister-kubeconfig="+c.kubeconfig)
	if err != nil {
		return err
	}
	ca := base64.StdEncoding.EncodeToString(c.certs.ca.pem)
	if err := c.client.apply(fmt.Sprintf(externalMetricsYAML, portOf(adapter), ca)); err != nil {
		return err
	}
	return poll(60*time.Second, "the external metrics API to be available", func() (bool, string) {
		o, err := c.client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io")
		if err != nil {
			return false, err.Error()
		}
		status, message := o.condition("Available")
		return status == "True", message
	})
}

// externalMetricsYAML takes the adapter's port and the authority of its certificate.
const externalMetricsYAML = `
apiVersion: v1
kind: Service
metadata: {name: keda-metrics-apiserver, namespace: keda}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  service: {name: keda-metrics-apiserver, namespace: keda, port: %s}
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  caBundle: %s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: keda-external-metrics-reader}
rules: [{apiGroups: [external.metrics.k8s.io], resources: ['*'], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: keda-hpa-controller-external-metrics}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: keda-external-metrics-reader}
subjects: [{kind: ServiceAccount, name: horizontal-pod-autoscaler, namespace: kube-system}]
`

// installKEDA applies the CRDs out of KEDA's module, with the two patches that its own kustomization applies.
func (c *cluster) installKEDA() error {
	module, err := moduleFolder(toolsModule, "github.com/kedacore/keda/v2")
	if err != nil {
		return err
	}
	if err := c.client.apply("{apiVersion: v1, kind: Namespace, metadata: {name: keda}}"); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRD in KEDA's module (%v)", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		patch := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "keda.sh_"), "s.yaml") + "_patch.yaml"
		if err := patchFile(crd, filepath.Join(module, "config", "crd", "patches", patch)); err != nil {
			return err
		}
		if err := c.client.applyObject(crd); err != nil {
			return err
		}
	}
	return poll(30*time.Second, "ScaledObjects to be served", func() (bool, string) {
		_, err := c.client.get("/apis/keda.sh/v1alpha1/scaledobjects")
		return err == nil, fmt.Sprint(err)
	})
}

// patchFile applies a JSON patch file (RFC 6902, add and remove only) to an object; a file that is not there is none.
func patchFile(o map[string]any, path string) error {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := yaml.Unmarshal(data, &operations); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, op := range operations {
		steps := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		if _, err := patched(o, steps, op.Op, op.Value); err != nil {
			return fmt.Errorf("%s: %s %s: %w", path, op.Op, op.Path, err)
		}
	}
	return nil
}

// patched returns node with the value at the end of the steps added or removed.
func patched(node any, steps []string, op string, value any) (any, error) {
	key, last := steps[0], len(steps) == 1
	switch n := node.(type) {
	case map[string]any:
		switch {
		case last && op == "add":
			n[key] = value
		case last && op == "remove":
			delete(n, key)
		case last:
			return nil, fmt.Errorf("operation %q is not known", op)
		default:
			child, err := patched(n[key], steps[1:], op, value)
			if err != nil {
				return nil, err
			}
			n[key] = child
		}
		return n, nil
	case []any:
		if last && key == "-" && op == "add" {
			return append(n, value), nil
		}
		i, err := strconv.Atoi(key)
		if err != nil || last || i >= len(n) {
			return nil, fmt.Errorf("list position %q is not known", key)
		}
		child, err := patched(n[i], steps[1:], op, value)
		n[i] = child
		return n, err
	}
	return nil, fmt.Errorf("nothing at %q", key)
}

// externalMetric asks the external metrics API for the metric of a trigger of a ScaledObject as the HPA controller does.
func (c *cluster) externalMetric(namespace, name string, trigger int) (float64, error) {
	hpa, err := c.client.get(hpaPath(namespace, name))
	if err != nil {
		return 0, err
	}
	prefix, metric := fmt.Sprintf("s%d-", trigger), ""
	for _, m := range hpa.list("spec", "metrics") {
		if n := m.text("external", "metric", "name"); strings.HasPrefix(n, prefix) {
			metric = n
		}
	}
	if metric == "" {
		return 0, fmt.Errorf("the HPA of %s/%s has no metric of trigger %d", namespace, name, trigger)
	}
	o, err := c.client.get("/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/" + metric +
		"?labelSelector=scaledobject.keda.sh%2Fname%3D" + name)
	if err != nil {
		return 0, err
	}
	return quantity(o.text("items", 0, "value"))
}

// quantity reads a Kubernetes quantity without unit or in thousandths.
func quantity(s string) (float64, error) {
	scale := 1.0
	if whole, ok := strings.CutSuffix(s, "m"); ok {
		s, scale = whole, 1e-3
	}
	v, err := strconv.ParseFloat(s, 64)
	return v * scale, err
}

// hpaSyncs is how many times the HPA controller has reconciled any HPA.
func (c *cluster) hpaSyncs() (float64, error) {
	return scrapeSum(c.client.unverified(), "https://"+c.managers+"/metrics",
		"horizontal_pod_autoscaler_controller_reconciliations_total")
}

func hpaPath(namespace, name string) string {
	return "/apis/autoscaling/v2/namespaces/" + namespace + "/horizontalpodautoscalers/keda-hpa-" + name
}

func scaledObjectPath(namespace, name string) string {
	return "/apis/keda.sh/v1alpha1/namespaces/" + namespace + "/scaledobjects/" + name
}

func deploymentPath(namespace, name string) string {
	return "/apis/apps/v1/namespaces/" + namespace + "/deployments/" + name
}
