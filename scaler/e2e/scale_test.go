//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The cluster of the bar of the daemon's memory.
const (
	largeNodes = 1000
	largePods  = 5000
	memoryMax  = 512 // MiB
)

// TestLargeCluster is forewarmd on 1,000 nodes with 5,000 pods, which it sees come: its resident memory stays below the
// bar at its highest.
func TestLargeCluster(t *testing.T) {
	k := newCase(t, "large")
	config, err := k.cluster.observerConfig()
	k.must(err)
	e := startEmulator(t, k.client, &emulatedModel{name: "absent", namespace: "elsewhere"})
	p := startPrometheus(k.waiter, gaugeScrape, e.address)
	d := startDaemon(k.waiter, settings{prometheus: p.url, scrape: gaugeScrape, kubeconfig: config,
		models: []modelSettings{{name: "absent", namespace: "elsewhere"}}}.text())
	holder, err := k.client.create("/api/v1/namespaces/"+k.namespace+"/configmaps", object{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"generateName": "holder-"}})
	k.must(err)
	t.Cleanup(func() {
		if err := k.client.removeAll("/api/v1/namespaces/"+k.namespace+"/pods", ""); err != nil {
			t.Error(err)
		}
		if err := k.client.removeAll("/api/v1/nodes", "fleet=observed"); err != nil {
			t.Error(err)
		}
	})
	large := nodeGroup{name: "large", nodes: largeNodes, labels: product(h100), devices: []device{
		whole(gpu, h100, h100, 8, pattern([]int{1, 1, 1, 1, 1}))}}
	var nodes, pods []string
	for i := range large.nodes {
		nodes = append(nodes, large.node(i))
		pods = append(pods, large.tenants(i, k.namespace, ownedBy(holder))...)
	}
	from := time.Now()
	k.must(k.client.createAll(append(nodes, pods...)))
	t.Logf("%d nodes and %d pods were made in %.1f s", len(nodes), len(pods), time.Since(from).Seconds())
	if len(pods) != largePods {
		t.Fatalf("%d pods, want %d", len(pods), largePods)
	}
	k.until(60*time.Second, "forewarmd to see every node ready and every pod's GPU", func() (bool, string) {
		free, err := d.metric("forewarm_pool_gpus", `state="free"`, `pool="`+h100+`"`)
		return err == nil && free == 3*largeNodes, fmt.Sprint(free, err)
	})
	peak, err := d.peakMemory()
	k.must(err)
	t.Logf("%d pods and %d nodes: %.0f MiB resident at most", largePods, largeNodes, peak)
	if peak > memoryMax {
		t.Errorf("forewarmd took %.0f MiB, allowed are %d", peak, memoryMax)
	}
}

// peakMemory is the largest resident size of the process so far, in MiB (proc(5), VmHWM).
func (d *daemon) peakMemory() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in\n%s", data)
}
