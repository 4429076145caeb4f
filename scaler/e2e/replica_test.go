//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// balancer plays the Service in front of two forewarmds: each connection goes to the next one that accepts it.
type balancer struct {
	listener net.Listener
	backends []string
	wg       sync.WaitGroup

	mu    sync.Mutex
	next  int
	conns map[net.Conn]bool
}

// startBalancer forwards connections until the test ends.
func startBalancer(t *testing.T, backends ...string) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, backends: backends, conns: map[net.Conn]bool{}}
	b.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			b.wg.Go(func() { b.forward(conn) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		for c := range b.conns {
			_ = c.Close() // ends the copying; the other side may have closed it already
		}
		b.mu.Unlock()
		b.wg.Wait()
	})
	return b
}

func (b *balancer) address() string { return b.listener.Addr().String() }

// forward carries one connection to a backend, both ways, until either side ends it.
func (b *balancer) forward(client net.Conn) {
	b.track(client)
	defer b.drop(client)
	backend, err := b.dial()
	if err != nil {
		return // the client sees a closed connection, as from a Service without endpoints
	}
	b.track(backend)
	defer b.drop(backend)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, backend}, {backend, client}} {
		b.wg.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // ends with whichever side ends first
			done <- struct{}{}
		})
	}
	<-done
}

func (b *balancer) track(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns[c] = true
}

func (b *balancer) drop(c net.Conn) {
	_ = c.Close() // it may be closed already
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, c)
}

func (b *balancer) dial() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for range b.backends {
		b.next++
		conn, err := net.Dial("tcp", b.backends[b.next%len(b.backends)])
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// TestOneOfTwoKilled runs forewarmd twice, as in production, and kills the one that KEDA speaks to: nothing changes, and
// the other one's plan goes on being followed.
func TestOneOfTwoKilled(t *testing.T) {
	k := newCase(t, shippedNamespace)
	k.deploy(shippedName, 2, 0, 0)
	e := startEmulator(t, k.client, &emulatedModel{name: shippedName, namespace: shippedNamespace})
	p := startPrometheusOf(k.waiter, e, gaugeScrape)
	configuration := settings{prometheus: p.url, scrape: gaugeScrape,
		models: []modelSettings{{name: shippedName, namespace: shippedNamespace, policy: shippedPolicy}}}.text()
	daemons := []*daemon{startDaemon(k.waiter, configuration), startDaemon(k.waiter, configuration)}
	front := startBalancer(t, daemons[0].keda, daemons[1].keda)
	k.scale(shippedName, shippedScaledObject(k, front.address(), p))
	e.wait(shippedName, 25)
	for _, d := range daemons {
		k.until(30*time.Second, "5 replicas by either plan", k.follows(d, shippedName, func(plan int) bool { return plan == 5 }))
	}

	spoken, other := daemons[0], daemons[1]
	k.until(20*time.Second, "KEDA to speak to one of them", func() (bool, string) {
		a, errA := daemons[0].metric("forewarm_keda_requests_total", "GetMetrics")
		b, errB := daemons[1].metric("forewarm_keda_requests_total", "GetMetrics")
		if b > a {
			spoken, other = daemons[1], daemons[0]
		}
		return errA == nil && errB == nil && a+b > 0, fmt.Sprint(a, b, errA, errB)
	})
	k.must(spoken.process.kill())
	k.nothingChanges(shippedName, 5)
	if fell, message := k.fellBack(); fell {
		t.Errorf("the fallback is in force: %s", message)
	}
	for trigger, want := range []float64{5, 25} {
		k.until(20*time.Second, fmt.Sprintf("trigger %d to answer %g", trigger, want), k.metricIs(trigger, want))
	}
	e.wait(shippedName, 40)
	k.until(30*time.Second, "8 replicas by the remaining plan",
		k.follows(other, shippedName, func(plan int) bool { return plan == 8 }))
}
