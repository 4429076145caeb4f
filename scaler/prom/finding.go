package prom

import "fmt"

// Severity says what a Finding means for the plan.
type Severity string

// The severities: an error leaves a model without a fact it needs, a warning makes one doubtful, info is for people.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is something about the metrics that a person should know, and what to do about it.
type Finding struct {
	Severity Severity `json:"severity"`
	// Model is empty when the whole server is concerned.
	Model string `json:"model,omitempty"`
	// Subject is a short stable name: "series", "names", "overlap", "scrape_interval", "arrivals", "replicas", "server".
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"`
}

// String prints one line.
func (f Finding) String() string {
	who := f.Model
	if who == "" {
		who = "server"
	}
	s := fmt.Sprintf("%s: %s: %s: %s", f.Severity, who, f.Subject, f.Text)
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}
