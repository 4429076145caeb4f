package keda

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// metricPrefix starts every metric name, so that an HPA's external metrics show whose they are.
const metricPrefix = "forewarm-"

// metricBodyMax bounds the readable part, which keeps the whole name, KEDA's index and the digest below 63 characters.
const metricBodyMax = 40

var (
	unfitRuns    = regexp.MustCompile(`[^a-z0-9]+`)
	digestEnding = regexp.MustCompile(`(^|-)[0-9a-f]{8}$`)
)

// MetricName is the name of a model's metric: "forewarm-" and the model's name in lower case, with runs of anything but
// letters and digits as one dash. It depends on the model alone, so all replicas of the endpoint agree and a restart
// changes nothing; the HPA finds a metric by name.
//
// When that loses something (chat.70b and chat-70b would be one), eight hexadecimal digits of the name's SHA-256 follow;
// they follow too when the plain name could be mistaken for such a one. Two models therefore share a name only when
// both the readable part and 32 bits of the digest agree. MetricName("chat-70b") is "forewarm-chat-70b".
func MetricName(model string) string {
	body := strings.Trim(unfitRuns.ReplaceAllString(strings.ToLower(model), "-"), "-")
	if len(body) > metricBodyMax {
		body = strings.TrimRight(body[:metricBodyMax], "-")
	}
	if body == model && !digestEnding.MatchString(body) {
		return metricPrefix + body
	}
	sum := sha256.Sum256([]byte(model))
	digest := hex.EncodeToString(sum[:4])
	if body == "" {
		return metricPrefix + digest
	}
	return metricPrefix + body + "-" + digest
}

var indexPrefix = regexp.MustCompile(`^s[0-9]+-`)

// namesMetric reports whether the metric that KEDA asks for is the one called want. KEDA strips the trigger's index
// ("s0-") before it calls (RemoveIndexFromMetricName, pkg/scalers/scaler.go:82); a person who copies the name out of an
// HPA does not.
func namesMetric(requested, want string) bool {
	return requested == want || indexPrefix.ReplaceAllString(requested, "") == want
}
