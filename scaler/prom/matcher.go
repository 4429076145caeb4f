package prom

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// matcher is one PromQL label matcher.
type matcher struct {
	label, op, value string
}

// String renders the matcher in PromQL, whose string escapes are Go's.
func (m matcher) String() string { return m.label + m.op + strconv.Quote(m.value) }

// matchers is a conjunction: one series must satisfy all.
type matchers []matcher

// String renders the set without braces.
func (ms matchers) String() string {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = m.String()
	}
	return strings.Join(parts, ",")
}

// without returns the set with the i-th matcher left out.
func (ms matchers) without(i int) matchers {
	return append(append(matchers{}, ms[:i]...), ms[i+1:]...)
}

// on returns the matchers on one label.
func (ms matchers) on(label string) matchers {
	var out matchers
	for _, m := range ms {
		if m.label == label {
			out = append(out, m)
		}
	}
	return out
}

var (
	labelName   = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`)
	metricName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
	errMatchers = errors.New("allowed is a list such as " + `model_name="chat-70b",namespace=~"llm-.*"`)
)

// parseMatchers reads a list of label matchers, with or without braces. At least one must exclude the empty string, as
// Prometheus demands; a matcher on the metric's own name is refused, because names are the resolver's to find.
func parseMatchers(s string) (matchers, error) {
	ms, err := scanMatchers(s)
	if err != nil {
		return nil, fmt.Errorf("%q: %w; %w", s, err, errMatchers)
	}
	for _, m := range ms {
		if !m.matches("") {
			return ms, nil
		}
	}
	return nil, fmt.Errorf("%q: no matcher that excludes the empty string, so it selects everything; %w", s, errMatchers)
}

// matches decides as Prometheus does; a label that is absent is the empty string.
func (m matcher) matches(value string) bool {
	switch m.op {
	case "=":
		return value == m.value
	case "!=":
		return value != m.value
	}
	matched := regexp.MustCompile("^(?s:" + m.value + ")$").MatchString(value) // compiled before by scanMatcher
	return matched == (m.op == "=~")
}

// scanMatchers is the grammar alone: an optionally braced list, a trailing comma allowed.
func scanMatchers(s string) (matchers, error) {
	rest := strings.TrimSpace(s)
	if strings.HasPrefix(rest, "{") {
		if !strings.HasSuffix(rest, "}") || len(rest) < 2 {
			return nil, errors.New("opening brace without a closing one")
		}
		rest = rest[1 : len(rest)-1]
	}
	var ms matchers
	for rest = strings.TrimSpace(rest); rest != ""; {
		m, tail, err := scanMatcher(rest)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
		rest = strings.TrimSpace(tail)
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return nil, fmt.Errorf("%q after %s, expected a comma", rest, m)
		}
		rest = strings.TrimSpace(rest[1:])
	}
	return ms, nil
}

func scanMatcher(s string) (m matcher, rest string, err error) {
	m.label = labelName.FindString(s)
	if m.label == "" {
		return m, "", fmt.Errorf("%q does not begin with a label name", s)
	}
	if m.label == "__name__" {
		return m, "", errors.New("matcher on __name__")
	}
	rest = strings.TrimSpace(s[len(m.label):])
	for _, op := range []string{"=~", "!~", "!=", "="} { // the longer first
		if strings.HasPrefix(rest, op) {
			m.op = op
			break
		}
	}
	if m.op == "" {
		return m, "", fmt.Errorf("label %s is followed by %q, expected =, !=, =~ or !~", m.label, rest)
	}
	rest = strings.TrimSpace(rest[len(m.op):])
	if m.value, rest, err = scanString(rest); err != nil {
		return m, "", fmt.Errorf("value of label %s: %w", m.label, err)
	}
	if m.op == "=~" || m.op == "!~" {
		if _, err := regexp.Compile("^(?s:" + m.value + ")$"); err != nil {
			return m, "", fmt.Errorf("value of label %s: %w", m.label, err)
		}
	}
	return m, rest, nil
}

// scanString reads one PromQL string literal: double-quoted, single-quoted or raw in backticks.
func scanString(s string) (value, rest string, err error) {
	if s == "" || !strings.ContainsRune("\"'`", rune(s[0])) {
		return "", "", fmt.Errorf("%q is not a quoted string", s)
	}
	quote := s[0]
	if quote == '`' {
		end := strings.IndexByte(s[1:], '`')
		if end < 0 {
			return "", "", fmt.Errorf("%q has no closing quote", s)
		}
		value = s[1 : end+1]
		if !utf8.ValidString(value) {
			return "", "", fmt.Errorf("%q is not UTF-8", s)
		}
		return value, s[end+2:], nil
	}
	var b strings.Builder
	for rest = s[1:]; rest != "" && rest[0] != quote; {
		r, multibyte, tail, err := strconv.UnquoteChar(rest, quote)
		if err != nil {
			return "", "", fmt.Errorf("%q: %w", s, err)
		}
		if r < 0x80 || !multibyte {
			b.WriteByte(byte(r))
		} else {
			b.WriteRune(r)
		}
		rest = tail
	}
	if rest == "" {
		return "", "", fmt.Errorf("%q has no closing quote", s)
	}
	if !utf8.ValidString(b.String()) {
		return "", "", fmt.Errorf("%q is not UTF-8", s)
	}
	return b.String(), rest[1:], nil
}

// metric is a metric name with matchers that belong to the fact, not to the model, such as the type of token counted.
type metric struct {
	name  string
	fixed matchers
}

// parseMetric reads a selector such as `tokens_total` or `tokens_total{type="input"}`.
func parseMetric(s string) (metric, error) {
	rest := strings.TrimSpace(s)
	m := metric{name: metricName.FindString(rest)}
	if m.name == "" {
		return m, fmt.Errorf("%q, allowed is a metric name with optional {label matchers}", s)
	}
	rest = strings.TrimSpace(rest[len(m.name):])
	if rest == "" {
		return m, nil
	}
	if rest[0] != '{' {
		return m, fmt.Errorf("%q: %q after the name, allowed are {label matchers}", s, rest)
	}
	fixed, err := scanMatchers(rest)
	if err != nil {
		return m, fmt.Errorf("%q: %w", s, err)
	}
	m.fixed = fixed
	return m, nil
}

// selector renders the metric restricted to a set of matchers.
func (m metric) selector(set matchers) string {
	all := append(append(matchers{}, m.fixed...), set...)
	return m.name + "{" + all.String() + "}"
}
