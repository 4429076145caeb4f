//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outageCase is the shipped ScaledObject on a plan of 5 replicas, driven by the queue; the sibling trigger asks for the
// same.
func outageCase(t *testing.T, change func(*settings)) (*kase, *emulator, *daemon) {
	k := newCase(t, shippedNamespace)
	k.deploy(shippedName, 2, 0, 0)
	e := startEmulator(t, k.client, &emulatedModel{name: shippedName, namespace: shippedNamespace})
	p := startPrometheusOf(k.waiter, e, gaugeScrape)
	s := settings{prometheus: p.url, scrape: gaugeScrape,
		models: []modelSettings{{name: shippedName, namespace: shippedNamespace, policy: shippedPolicy}}}
	change(&s)
	d := startDaemon(k.waiter, s.text())
	k.scale(shippedName, shippedScaledObject(k, d.keda, p))
	return k, e, d
}

// metricFails is a probe for the HPA's view of a trigger being an error.
func (k *kase) metricFails(trigger int) probe {
	return func() (bool, string) {
		v, err := k.cluster.externalMetric(k.namespace, shippedName, trigger)
		return err != nil, fmt.Sprint(v)
	}
}

// metricIs is a probe for the HPA's view of a trigger.
func (k *kase) metricIs(trigger int, want float64) probe {
	return func() (bool, string) {
		v, err := k.cluster.externalMetric(k.namespace, shippedName, trigger)
		return err == nil && v == want, fmt.Sprint(v, err)
	}
}

// fellBack reports whether KEDA's fallback is in force.
func (k *kase) fellBack() (bool, string) {
	o, err := k.client.get(scaledObjectPath(k.namespace, shippedName))
	if err != nil {
		return false, err.Error()
	}
	status, message := o.condition("Fallback")
	return status == "True", message
}

// TestDaemonKilled is forewarmd gone as a whole. The replicas hold, but nothing else works either: KEDA asks the dead
// trigger for its spec first, so neither the fallback (keda#8056) nor the sibling trigger (keda#5914) acts, however long
// the queue. Both come back with forewarmd.
func TestDaemonKilled(t *testing.T) {
	k, e, d := outageCase(t, func(*settings) {})
	e.wait(shippedName, 25)
	k.until(30*time.Second, "5 replicas by the plan", k.follows(d, shippedName, func(plan int) bool { return plan == 5 }))

	k.must(d.process.kill())
	e.wait(shippedName, 50) // 10 replicas, if anybody asked
	k.until(30*time.Second, "forewarm's metric to fail", k.metricFails(0))
	k.until(30*time.Second, "the sibling's metric to fail with it", k.metricFails(1))
	k.until(30*time.Second, "the HPA to say that it cannot scale", func() (bool, string) {
		o, err := k.client.get(hpaPath(k.namespace, shippedName))
		if err != nil {
			return false, err.Error()
		}
		status, message := o.condition("ScalingActive")
		return status == "False" && strings.HasPrefix(message, "FailedGetExternalMetric"), status + " " + message
	})
	k.nothingChanges(shippedName, 5) // more than the failure threshold of 3
	if fell, message := k.fellBack(); fell {
		t.Errorf("the fallback is in force (%s): KEDA has changed, and the README's advice with it", message)
	}
	if n := k.replicas(shippedName); n != 5 {
		t.Errorf("%d replicas while forewarmd is gone, want the 5 that ran", n)
	}

	d.start()
	k.until(30*time.Second, "10 replicas after forewarmd is back", k.wants(shippedName, 10))
}

// TestDaemonHung is forewarmd stopped (SIGSTOP): its port still accepts, nobody answers, and KEDA has no deadline. The
// same holds as when it is gone, and it recovers by itself.
func TestDaemonHung(t *testing.T) {
	k, e, d := outageCase(t, func(*settings) {})
	e.wait(shippedName, 25)
	k.until(30*time.Second, "5 replicas by the plan", k.follows(d, shippedName, func(plan int) bool { return plan == 5 }))

	k.must(d.process.signal(syscall.SIGSTOP))
	e.wait(shippedName, 50)
	_, err := k.cluster.externalMetric(k.namespace, shippedName, 0)
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("the trigger of a hung forewarmd: %v, want no answer within %s", err, requestTimeout)
	}
	// The sibling's hangs as well, or KEDA has no metric at all while the first call is given up.
	if v, err := k.cluster.externalMetric(k.namespace, shippedName, 1); err == nil {
		t.Errorf("the sibling of a hung forewarmd answers %v, want nothing", v)
	}
	if fell, message := k.fellBack(); fell {
		t.Errorf("the fallback is in force: %s", message)
	}
	if n := k.replicas(shippedName); n != 5 {
		t.Errorf("%d replicas while forewarmd hangs, want the 5 that ran", n)
	}

	k.must(d.process.signal(contSignal))
	k.until(60*time.Second, "10 replicas after forewarmd goes on", k.wants(shippedName, 10))
}

// TestStaleBrain is the failure that forewarm's front is built for: the plan grows too old while the endpoint is alive.
// GetMetricSpec is still answered and GetMetrics is an error, so the fallback counts, and the sibling trigger scales up
// alone. The brain is stale because its next tick is five minutes away and its plan is good for ten seconds.
func TestStaleBrain(t *testing.T) {
	fresh := ""
	k, e, d := outageCase(t, func(s *settings) {
		fresh = s.text()
		s.tick, s.planAge = "5m", "10s"
	})
	k.until(20*time.Second, "the only plan", d.answersWith(shippedName, 2))
	k.until(30*time.Second, "KEDA's fallback to be in force", k.fellBack)
	k.until(30*time.Second, "the 4 replicas of the fallback", k.wants(shippedName, 4))
	if n, err := d.answered(shippedName); err != nil || n != 2 {
		t.Errorf("the stale plan says %d (%v), want the 2 that it was made with", n, err)
	}
	refused, err := d.metric("forewarm_keda_requests_total", `code="Unavailable"`, `method="GetMetrics"`)
	if err != nil || refused == 0 {
		t.Errorf("%v calls of GetMetrics were refused with UNAVAILABLE (%v), want some", refused, err)
	}
	e.wait(shippedName, 40)
	k.until(30*time.Second, "the sibling's metric", k.metricIs(1, 40))
	k.until(30*time.Second, "8 replicas by the sibling trigger", k.wants(shippedName, 8))

	k.must(d.process.stop())
	d.configure(fresh)
	d.start()
	k.until(30*time.Second, "the fallback to end", func() (bool, string) {
		fell, message := k.fellBack()
		return !fell, message
	})
	e.wait(shippedName, 55)
	k.until(30*time.Second, "11 replicas by the new plan", k.follows(d, shippedName, func(plan int) bool { return plan == 11 }))
}
