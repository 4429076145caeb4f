//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// prometheus is Debian's Prometheus scraping the emulator of one case.
type prometheus struct {
	url     string
	process *process
}

// pastSeries is history that Prometheus has from before the test: a counter that a model server exposed.
type pastSeries struct {
	name, labels string
	// rate is the increase per second at a time.
	rate     func(time.Time) float64
	from, to time.Time
}

// startPrometheus scrapes an exporter at an interval. Series of the past are backfilled as blocks, at the same interval.
func startPrometheus(w *waiter, scrape time.Duration, target string, past ...pastSeries) *prometheus {
	t := w.t
	t.Helper()
	for _, needed := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Fatalf("%v: apt-get install prometheus", err)
		}
	}
	folder := t.TempDir()
	data, config := filepath.Join(folder, "data"), filepath.Join(folder, "prometheus.yml")
	if len(past) > 0 {
		w.must(backfill(folder, data, scrape, past))
	}
	w.must(os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: %v, scrape_timeout: %v}
scrape_configs:
- job_name: emulator
  honor_labels: true
  static_configs: [{targets: [%q]}]
`, scrape, scrape, target), 0o600))
	address := freeAddress()
	process, err := startProcess("prometheus-"+t.Name(), "prometheus", nil, "--config.file="+config,
		"--storage.tsdb.path="+data, "--web.listen-address="+address, "--log.level=warn")
	w.must(err)
	t.Cleanup(func() {
		if err := process.stop(); err != nil {
			t.Error(err)
		}
	})
	w.watch(process)
	p := &prometheus{url: "http://" + address, process: process}
	w.until(30*time.Second, "Prometheus to be ready", answers(http.DefaultClient, p.url+"/-/ready"))
	return p
}

// backfill writes the past as OpenMetrics text and makes blocks of it.
func backfill(folder, data string, scrape time.Duration, past []pastSeries) error {
	text := filepath.Join(folder, "past.om")
	file, err := os.Create(text)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	for _, s := range past {
		total := 0.0
		for at := s.from; at.Before(s.to); at = at.Add(scrape) {
			fmt.Fprintf(out, "%s{%s} %g %d\n", s.name, s.labels, total, at.Unix())
			total += s.rate(at) * scrape.Seconds()
		}
	}
	fmt.Fprintln(out, "# EOF")
	if err := out.Flush(); err != nil {
		return err
	}
	// One block: by default promtool reads the whole text once for every two hours.
	log, err := exec.Command("promtool", "tsdb", "create-blocks-from", "--max-block-duration=768h", "--quiet", "openmetrics",
		text, data).CombinedOutput()
	if err != nil {
		return fmt.Errorf("promtool: %w\n%s", err, log)
	}
	return nil
}

// has is a probe for any result of a PromQL expression.
func (p *prometheus) has(promql string) probe {
	return func() (bool, string) {
		resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(promql))
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		var answer struct {
			Error string
			Data  struct{ Result []json.RawMessage }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return false, err.Error()
		}
		return len(answer.Data.Result) > 0, fmt.Sprintf("%d series match %s %s", len(answer.Data.Result), promql, answer.Error)
	}
}

// startPrometheusOf scrapes the emulator and waits until a model's Deployment is reported, so that a forewarmd that is
// started next sees it in its first tick.
func startPrometheusOf(w *waiter, e *emulator, scrape time.Duration, past ...pastSeries) *prometheus {
	w.t.Helper()
	p := startPrometheus(w, scrape, e.address, past...)
	for _, m := range e.models {
		w.until(20*time.Second, "Prometheus to know the replicas of "+m.name,
			p.has(fmt.Sprintf("kube_deployment_spec_replicas{namespace=%q,deployment=%q}", m.namespace, m.name)))
	}
	return p
}
