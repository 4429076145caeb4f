//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// installObserved serves the kinds that forewarm observes and whose controllers do not run here: those of Karpenter and
// Kueue out of their modules, and small definitions of our own for LeaderWorkerSet, KServe and Ray. Kueue's have no
// conversion by webhook then, which matters only to objects that were written in another version than they are read in.
func (c *cluster) installObserved() error {
	var files []string
	for _, from := range []struct{ module, path, pattern string }{
		{toolsModule, "sigs.k8s.io/karpenter", "pkg/apis/crds/*.yaml"},
		{kueueModule, "sigs.k8s.io/kueue", "config/components/crd/bases/*.yaml"},
	} {
		folder, err := moduleFolder(from.module, from.path)
		if err != nil {
			return err
		}
		found, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(from.pattern)))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no CRD in %s (%v)", from.path, err)
		}
		files = append(files, found...)
	}
	var names []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if err := c.client.applyObject(crd); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		names = append(names, object(crd).text("metadata", "name"))
	}
	for _, own := range []struct{ group, version, kind, plural string }{
		{"leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"},
		{"serving.kserve.io", "v1beta1", "InferenceService", "inferenceservices"},
		{"ray.io", "v1", "RayCluster", "rayclusters"},
		{"ray.io", "v1", "RayService", "rayservices"},
	} {
		if err := c.client.apply(fmt.Sprintf(anyCRD, own.group, own.version, own.kind, own.plural, strings.ToLower(own.kind))); err != nil {
			return err
		}
		names = append(names, own.plural+"."+own.group)
	}
	return poll(60*time.Second, "the kinds to be served", func() (bool, string) {
		for _, name := range names {
			o, err := c.client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + name)
			if err != nil {
				return false, err.Error()
			}
			if status, message := o.condition("Established"); status != "True" {
				return false, name + ": " + message
			}
		}
		return true, ""
	})
}

// anyCRD takes group, version, kind, plural and singular of a kind whose fields are not checked.
const anyCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[4]s, singular: %[5]s, listKind: %[3]sList}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// observerConfig is a kubeconfig with the rights of configs/rbac.yaml, applied literally, and no others.
func (c *cluster) observerConfig() (string, error) {
	role, err := os.ReadFile("../../configs/rbac.yaml")
	if err != nil {
		return "", err
	}
	const account = "{apiVersion: v1, kind: Namespace, metadata: {name: forewarm}}\n---\n" +
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: forewarmd, namespace: forewarm}}\n---\n"
	if err := c.client.apply(account + string(role)); err != nil {
		return "", err
	}
	token, err := c.client.create("/api/v1/namespaces/forewarm/serviceaccounts/forewarmd/token",
		object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600}})
	if err != nil {
		return "", err
	}
	const name = "observer.kubeconfig"
	return filepath.Join(c.folder, name), writeFile(c.folder, name, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: forewarmd, user: {token: %q}}]
contexts: [{name: e2e, context: {cluster: e2e, user: forewarmd}}]
current-context: e2e
`, c.client.base, c.certs.file("ca.crt"), token.text("status", "token")))
}
