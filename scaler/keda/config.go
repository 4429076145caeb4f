package keda

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is how the endpoint listens and when it stops trusting a plan.
type Config struct {
	// Listen is the address host:port; an empty host means all interfaces. Loopback by default: without TLS the answers
	// can be read by whoever reaches the port.
	Listen string `yaml:"listen"`
	// TLS is off while its files are not named.
	TLS TLS `yaml:"tls"`
	// MaxPlanAge is the age from which a plan is not answered any more: GetMetrics then fails with UNAVAILABLE, which
	// counts towards the ScaledObject's fallback. 1s to 24h.
	MaxPlanAge time.Duration `yaml:"max_plan_age"`
	// StaleAfter is the age from which a plan is called stale; it is answered all the same until MaxPlanAge. 1s to
	// MaxPlanAge; three ticks by default.
	StaleAfter time.Duration `yaml:"stale_after"`
	// Deadline bounds each call that is not a stream. KEDA sets none and freezes the ScaledObject while it waits, so a
	// call that is not answered by then fails with UNAVAILABLE. 10ms to 1m.
	Deadline time.Duration `yaml:"deadline"`
	// StreamInterval is how often an open StreamIsActive repeats that a model is active, so that a message that KEDA
	// missed heals. 100ms to 10m.
	StreamInterval time.Duration `yaml:"stream_interval"`
	// MaxConnectionAge is how long a connection and a stream on it live. KEDA shares one connection among all
	// ScaledObjects; ending it now and then spreads the load over replicas that came later. 1s to 24h.
	MaxConnectionAge time.Duration `yaml:"max_connection_age"`
	// StopGrace caps how long Stop waits for calls under way before it cuts them. 0s to 5m; keep it below the pod's
	// termination grace period.
	StopGrace time.Duration `yaml:"stop_grace"`
}

// TLS names the PEM files of the endpoint's certificate. They are read again when they change, so that a rotated
// certificate needs no restart; files that do not load leave the previous ones in force.
type TLS struct {
	// CertFile and KeyFile are the server's certificate chain and private key; both or neither.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ClientCAFile turns on mutual TLS: a client must show a certificate that one of these authorities signed.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Enabled reports whether any file is named.
func (t TLS) Enabled() bool { return t != TLS{} }

// DefaultConfig serves on loopback without TLS: a plan is fresh for 45 s (three ticks) and answered for 5 minutes.
func DefaultConfig() Config {
	return Config{
		Listen:           "127.0.0.1:6000",
		MaxPlanAge:       5 * time.Minute,
		StaleAfter:       45 * time.Second,
		Deadline:         time.Second,
		StreamInterval:   15 * time.Second,
		MaxConnectionAge: 5 * time.Minute,
		StopGrace:        10 * time.Second,
	}
}

// Validate reports every value out of range, all at once, each with its key, the value and what is allowed. It reads no
// file; NewServer does.
func (c Config) Validate() error {
	var errs []error
	bad := func(key string, value any, allowed string) {
		errs = append(errs, fmt.Errorf("%s is %v: %s", key, value, allowed))
	}
	if !validAddress(c.Listen) {
		bad("listen", fmt.Sprintf("%q", c.Listen),
			"host:port with a port of 0 to 65535 is allowed, such as 127.0.0.1:6000 or :6000")
	}
	if c.TLS.Enabled() && c.TLS.CertFile == "" {
		bad("tls.cert_file", `""`, "a file is needed when another tls key is set")
	}
	if c.TLS.Enabled() && c.TLS.KeyFile == "" {
		bad("tls.key_file", `""`, "a file is needed when another tls key is set")
	}
	for _, d := range []struct {
		key      string
		v        time.Duration
		min, max time.Duration
	}{
		{"max_plan_age", c.MaxPlanAge, planAgeMin, planAgeMax},
		{"stale_after", c.StaleAfter, planAgeMin, planAgeMax},
		{"deadline", c.Deadline, 10 * time.Millisecond, time.Minute},
		{"stream_interval", c.StreamInterval, 100 * time.Millisecond, 10 * time.Minute},
		{"max_connection_age", c.MaxConnectionAge, time.Second, 24 * time.Hour},
		{"stop_grace", c.StopGrace, 0, 5 * time.Minute},
	} {
		if d.v < d.min || d.v > d.max {
			bad(d.key, d.v, fmt.Sprintf("%s to %s are allowed", shortDuration(d.min), shortDuration(d.max)))
		}
	}
	if c.StaleAfter > c.MaxPlanAge {
		bad("stale_after", c.StaleAfter, fmt.Sprintf("at most max_plan_age, %s, is allowed", shortDuration(c.MaxPlanAge)))
	}
	return errors.Join(errs...)
}

// planAgeMin and planAgeMax bound every plan age, in the configuration and in a trigger's metadata.
const (
	planAgeMin = time.Second
	planAgeMax = 24 * time.Hour
)

func validAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// shortDuration prints a duration without trailing zero units, whole seconds from one second on: 5m, not 5m0s.
func shortDuration(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
