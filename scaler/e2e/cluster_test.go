//go:build e2e

package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cluster is a running control plane with KEDA.
type cluster struct {
	folder     string
	certs      *pki
	kubeconfig string
	client     *client
	managers   string // address of the controller manager

	mu        sync.Mutex
	processes []*process // in the order of their start
}

// theCluster is started by the first case that needs it and serves all cases of a run, each in a namespace of its own.
var theCluster struct {
	once sync.Once
	*cluster
	err error
}

// sharedCluster returns the control plane of this run.
func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	theCluster.once.Do(func() {
		from := time.Now()
		theCluster.cluster, theCluster.err = startCluster()
		t.Logf("control plane up in %.1f s", time.Since(from).Seconds())
	})
	if theCluster.err != nil {
		t.Fatalf("starting the control plane: %v", theCluster.err)
	}
	return theCluster.cluster
}

// startCluster starts the API server, and then at once whatever needs only that. What was started stays in the processes
// of the cluster also when another part fails, so that stop can end it.
func startCluster() (*cluster, error) {
	c := &cluster{folder: filepath.Join(runFolder(), "cluster")}
	if err := os.RemoveAll(c.folder); err != nil { // of an earlier run with the same FOREWARM_E2E_LOGS
		return c, err
	}
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return c, err
	}
	for _, parts := range [][]func() error{{c.prepare}, {c.startAPI}, {c.startControllers, c.startKwok, c.startKEDA}} {
		errs := make([]error, len(parts))
		var wg sync.WaitGroup
		for i, start := range parts {
			wg.Go(func() { errs[i] = start() })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return c, fmt.Errorf("%w\n%s", err, c.logs())
		}
	}
	return c, nil
}

func (c *cluster) logs() string {
	var b strings.Builder
	for _, p := range c.processes {
		fmt.Fprintf(&b, "--- log of %s (running: %v)\n%s\n", p.name, p.running(), p.logTail())
	}
	return b.String()
}

// stop ends the processes in the reverse order of their start: controllers, then the API server, then etcd. The API
// server hangs in its shutdown when etcd has gone first.
func (c *cluster) stop() error {
	var errs []error
	for _, p := range slices.Backward(c.processes) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// start builds and starts a component.
func (c *cluster) start(name string, env []string, args ...string) error {
	path, err := program(name)
	if err != nil {
		return err
	}
	p, err := startProcess(name, path, env, args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return nil
}

// process returns a started component.
func (c *cluster) process(name string) *process {
	for _, p := range c.processes {
		if p.name == name {
			return p
		}
	}
	panic(fmt.Sprintf("e2e: %s was not started", name))
}

func (c *cluster) prepare() error {
	for _, needed := range components { // before anything runs: a cold build takes minutes
		if needed.module == toolsModule && needed.name != "karpenter-kwok" {
			if _, err := needed.build(); err != nil {
				return err
			}
		}
	}
	if _, err := daemonProgram(); err != nil {
		return err
	}
	var err error
	c.certs, err = newPKI(c.folder)
	return err
}

// startAPI starts etcd and the API server and waits until it is ready.
func (c *cluster) startAPI() error {
	etcd, peer, api := freeAddress(), freeAddress(), freeAddress()
	err := c.start("etcd", nil, "--data-dir", filepath.Join(c.folder, "etcd"), "--listen-client-urls=http://"+etcd,
		"--advertise-client-urls=http://"+etcd, "--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer,
		"--initial-cluster=default=http://"+peer, "--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return err
	}
	if err := poll(30*time.Second, "etcd to be healthy", answers(http.DefaultClient, "http://"+etcd+"/health")); err != nil {
		return err
	}
	f := c.certs.file
	err = c.start("kube-apiserver", nil, "--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+portOf(api),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file="+f("apiserver.crt"), "--tls-private-key-file="+f("apiserver.key"), "--client-ca-file="+f("ca.crt"),
		"--cert-dir="+filepath.Join(c.folder, "apiserver"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file="+f("sa.key"),
		"--service-account-key-file="+f("sa.pub"),
		// aggregation: the API server shows KEDA's adapter the front proxy's certificate
		"--requestheader-client-ca-file="+f("front-proxy-ca.crt"), "--requestheader-allowed-names="+frontProxyName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+f("front-proxy.crt"), "--proxy-client-key-file="+f("front-proxy.key"),
		"--enable-priority-and-fairness=false", "--delete-collection-workers=16")
	if err != nil {
		return err
	}
	if c.client, err = newClient(api, c.certs); err != nil {
		return err
	}
	c.kubeconfig = filepath.Join(c.folder, "kubeconfig")
	if err := writeFile(c.folder, "kubeconfig", []byte(kubeconfig(api, c.certs))); err != nil {
		return err
	}
	return poll(60*time.Second, "the API server to be ready", answers(c.client.http, c.client.base+"/readyz"))
}

func kubeconfig(api string, certs *pki) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: admin, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: e2e, context: {cluster: e2e, user: admin}}]
current-context: e2e
`, api, certs.file("ca.crt"), certs.file("admin.crt"), certs.file("admin.key"))
}

// startControllers starts the controller manager, with the HPA controller at a test's pace, and the scheduler.
func (c *cluster) startControllers() error {
	c.managers = freeAddress()
	scheduler := freeAddress()
	common := func(address string) []string {
		return []string{"--kubeconfig=" + c.kubeconfig, "--authentication-kubeconfig=" + c.kubeconfig,
			"--authorization-kubeconfig=" + c.kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + portOf(address),
			"--cert-dir=" + filepath.Join(c.folder, "serving-"+portOf(address)), "--leader-elect=false",
			// hundreds of nodes that appear at once are written to one by one
			"--kube-api-qps=500", "--kube-api-burst=1000"}
	}
	err := c.start("kube-controller-manager", nil, append(common(c.managers),
		"--service-account-private-key-file="+c.certs.file("sa.key"), "--root-ca-file="+c.certs.file("ca.crt"),
		"--use-service-account-credentials=true",
		// kwok's nodes are new when pods come: eviction by a stale view of their taints is not what is tested
		"--controllers=*,-taint-eviction-controller",
		// a thousand nodes would renew their leases every ten seconds: here no node fails by itself
		"--node-monitor-grace-period=1h",
		"--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-downscale-stabilization=10s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=1s")...)
	if err != nil {
		return err
	}
	if err := c.start("kube-scheduler", nil, common(scheduler)...); err != nil {
		return err
	}
	if err := poll(60*time.Second, "the default service account", func() (bool, string) {
		_, err := c.client.get("/api/v1/namespaces/default/serviceaccounts/default")
		return err == nil, fmt.Sprint(err)
	}); err != nil {
		return err
	}
	anonymous := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the scheduler signs its own certificate
	return poll(60*time.Second, "the scheduler to be healthy", answers(anonymous, "https://"+scheduler+"/healthz"))
}

// answers is a probe for a URL that answers 200.
func answers(client *http.Client, url string) probe {
	return func() (bool, string) {
		resp, err := client.Get(url)
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, resp.Status
	}
}

const (
	// The annotations of a pod that delay its start and its end, as kwok's own general stages call them.
	startDelay = "pod-ready.stage.kwok.x-k8s.io/delay"
	stopDelay  = "pod-delete.stage.kwok.x-k8s.io/delay"

	// nodeName is the only node; it holds whatever the cases run.
	nodeName = "kwok-gpu-0"
)

const nodeYAML = `
apiVersion: v1
kind: Node
metadata:
  name: kwok-gpu-0
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {kubernetes.io/hostname: kwok-gpu-0, kubernetes.io/os: linux, kubernetes.io/arch: amd64, type: kwok}
`

const nodeStatus = `{"status": {
  "allocatable": {"cpu": "512", "memory": "4Ti", "pods": "500", "nvidia.com/gpu": "512"},
  "capacity": {"cpu": "512", "memory": "4Ti", "pods": "500", "nvidia.com/gpu": "512"}}}`

// initializeStage makes nodes ready, but for those with notReadyAnnotation.
const initializeStage = "node/fast/node-initialize.yaml"

// startKwok starts kwok with its own fast stages, whose delays are taken from pods' annotations, and makes a node.
func (c *cluster) startKwok() error {
	module, err := moduleFolder(toolsModule, "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	var config strings.Builder
	for _, stage := range []struct{ file, annotation string }{ // the annotation delays the stage
		{initializeStage, ""}, {"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml", ""},
		{"pod/fast/pod-ready.yaml", startDelay}, {"pod/fast/pod-delete.yaml", stopDelay},
	} {
		data, err := os.ReadFile(filepath.Join(module, "kustomize", "stage", filepath.FromSlash(stage.file)))
		if err != nil {
			return err
		}
		text := string(data)
		if stage.annotation != "" {
			delay := fmt.Sprintf("  delay:\n    durationMilliseconds: 0\n    durationFrom:\n"+
				"      expressionFrom: '.metadata.annotations[%q]'\n  next:\n", stage.annotation)
			if strings.Count(text, "  next:\n") != 1 {
				return fmt.Errorf("stage %s has no single next", stage.file)
			}
			text = strings.Replace(text, "  next:\n", delay, 1)
		}
		if stage.file == initializeStage {
			const all = "    matchExpressions:\n"
			if strings.Count(text, all) != 1 {
				return fmt.Errorf("stage %s has no single list of expressions", stage.file)
			}
			text = strings.Replace(text, all, all+fmt.Sprintf("    - {key: '.metadata.annotations[%q]', operator: DoesNotExist}\n",
				notReadyAnnotation), 1)
		}
		config.WriteString(text + "\n---\n")
	}
	if err := writeFile(c.folder, "kwok.yaml", []byte(config.String())); err != nil {
		return err
	}
	err = c.start("kwok", nil, "--kubeconfig="+c.kubeconfig, "--config="+filepath.Join(c.folder, "kwok.yaml"),
		"--manage-all-nodes=true", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=1200", "--cidr=10.244.0.0/16")
	if err != nil {
		return err
	}
	node := "/api/v1/nodes/" + nodeName
	if err := errors.Join(c.client.apply(nodeYAML), c.client.merge(node+"/status", nodeStatus)); err != nil {
		return err
	}
	return poll(60*time.Second, "the node to be ready", func() (bool, string) {
		o, err := c.client.get(node)
		if err != nil {
			return false, err.Error()
		}
		status, message := o.condition("Ready")
		return status == "True" && len(o.list("spec", "taints")) == 0, message
	})
}
