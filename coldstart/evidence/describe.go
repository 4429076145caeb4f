package evidence

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// describedTime is how kubectl describe prints times.
const describedTime = "Mon, 02 Jan 2006 15:04:05 -0700"

// columns are at least two spaces apart.
var columns = regexp.MustCompile(` {2,}|\t+`)

// ReadDescribe adds what `kubectl describe pod` printed, of one pod or several. Its events have ages only; the time at
// which it was printed is at, or, when at is zero, follows from an event whose time the text has elsewhere: the start of
// a container, or of the pod. Ages lose precision as they grow (seconds below ten minutes, then minutes), so times in
// the text itself go before them. A description tells neither when a pod was created nor when it became ready: its start
// counts from its first event to what its log says. An error names the line.
func (c *Cluster) ReadDescribe(r io.Reader, name string, at time.Time) error {
	d := description{cluster: c, name: name, at: at}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for n := 1; lines.Scan(); n++ {
		d.line(n, strings.TrimRight(lines.Text(), " \r"))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	d.close()
	if d.err == nil && d.pods == 0 {
		return fmt.Errorf("%s: no pod in it: want the output of kubectl describe pod", name)
	}
	return d.err
}

// A description is the text of one pod after the other.
type description struct {
	cluster *Cluster
	name    string
	at      time.Time
	pods    int
	err     error

	pod     *pod
	isPod   bool   // it has containers
	section string // the key at the left edge that is being read
	status  *containerStatus
	spec    *container
	initial bool   // the container is an init container
	list    string // the key in a container that is being read
	started time.Time
	ages    []agedEvent
}

// An agedEvent is an event with ages instead of times.
type agedEvent struct {
	line        int
	reason      string
	message     string
	container   string
	last, first time.Duration
	grain       time.Duration // what the age of last is rounded down to
}

func (d *description) fail(n int, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s:%d: %s", d.name, n, fmt.Sprintf(format, args...))
	}
}

func (d *description) line(n int, text string) {
	trimmed := strings.TrimLeft(text, " ")
	indent := len(text) - len(trimmed)
	key, value, _ := strings.Cut(trimmed, ":")
	value = strings.TrimSpace(value)
	if indent == 0 && trimmed != "" {
		if key == "Name" {
			d.close()
			d.pod = &pod{described: true}
			d.pod.Metadata.Name = value
		}
		d.top(n, key, value)
		return
	}
	if d.pod == nil || trimmed == "" {
		return
	}
	switch d.section {
	case "Labels":
		d.label(trimmed)
	case "Containers", "Init Containers":
		d.inContainer(n, indent, key, value, trimmed)
	case "Events":
		d.event(n, trimmed)
	}
}

// top reads a key at the left edge.
func (d *description) top(n int, key, value string) {
	if d.pod == nil {
		return
	}
	d.section, d.status, d.spec, d.list = key, nil, nil, ""
	m := &d.pod.Metadata
	switch key {
	case "Namespace":
		m.Namespace = value
	case "Node":
		if node, _, _ := strings.Cut(value, "/"); node != "<none>" {
			d.pod.Spec.NodeName = node
		}
	case "Start Time":
		d.started = d.time(n, value)
	case "Status":
		d.pod.Status.Phase, _, _ = strings.Cut(value, " ")
	case "Labels":
		d.label(value)
	case "Containers":
		d.isPod = true
	case "Init Containers":
		d.initial = true
	}
	if key == "Containers" {
		d.initial = false
	}
}

func (d *description) label(text string) {
	if name, value, ok := strings.Cut(text, "="); ok {
		if d.pod.Metadata.Labels == nil {
			d.pod.Metadata.Labels = map[string]string{}
		}
		d.pod.Metadata.Labels[name] = value
	}
}

// inContainer reads a line of a container: its name is indented by two, its keys by four, their values by six.
func (d *description) inContainer(n, indent int, key, value, trimmed string) {
	switch {
	case indent == 2:
		d.container(key)
	case d.spec == nil:
	case indent == 4:
		d.list = key
		switch key {
		case "Image":
			d.spec.Image = value
		case "State":
			d.status.State = stateOf(value)
		case "Last State":
			d.status.LastState = stateOf(value)
		case "Ready":
			d.status.Ready = value == "True"
		case "Restart Count":
			d.status.RestartCount, _ = strconv.Atoi(value) // not a number: as good as none
		}
	default:
		d.inList(n, key, value, trimmed)
	}
}

func (d *description) container(name string) {
	specs, statuses := &d.pod.Spec.Containers, &d.pod.Status.ContainerStatuses
	if d.initial {
		specs, statuses = &d.pod.Spec.InitContainers, &d.pod.Status.InitContainerStatuses
	}
	*specs = append(*specs, container{Name: name})
	*statuses = append(*statuses, containerStatus{Name: name})
	d.spec, d.status, d.list = &(*specs)[len(*specs)-1], &(*statuses)[len(*statuses)-1], ""
}

func stateOf(value string) containerState {
	var s containerState
	switch value {
	case "Running":
		s.Running = &struct {
			StartedAt time.Time `json:"startedAt"`
		}{}
	case "Terminated":
		s.Terminated = &struct {
			StartedAt  time.Time `json:"startedAt"`
			FinishedAt time.Time `json:"finishedAt"`
			Reason     string    `json:"reason"`
		}{}
	case "Waiting":
		s.Waiting = &struct {
			Reason string `json:"reason"`
		}{}
	}
	return s
}

// inList reads what is indented below a key of a container.
func (d *description) inList(n int, key, value, trimmed string) {
	switch d.list {
	case "Args":
		d.spec.Args = append(d.spec.Args, trimmed)
	case "Command":
		d.spec.Command = append(d.spec.Command, trimmed)
	case "Environment":
		d.spec.Env = append(d.spec.Env, envVar{Name: key, Value: value})
	case "Limits", "Requests":
		if d.spec.Resources.Limits == nil {
			d.spec.Resources.Limits = map[string]any{}
		}
		d.spec.Resources.Limits[key] = value
	case "State":
		d.inState(n, &d.status.State, key, value)
	case "Last State":
		d.inState(n, &d.status.LastState, key, value)
	}
}

func (d *description) inState(n int, s *containerState, key, value string) {
	switch {
	case key == "Started" && s.Running != nil:
		s.Running.StartedAt = d.time(n, value)
	case key == "Started" && s.Terminated != nil:
		s.Terminated.StartedAt = d.time(n, value)
	case key == "Finished" && s.Terminated != nil:
		s.Terminated.FinishedAt = d.time(n, value)
	case key == "Reason" && s.Waiting != nil:
		s.Waiting.Reason = value
	}
}

func (d *description) time(n int, value string) time.Time {
	t, err := time.Parse(describedTime, value)
	if err != nil {
		d.fail(n, "time %q: want one such as %q", value, describedTime)
	}
	return t.UTC()
}

// aged matches "3m10s" and "12s (x4 over 9m1s)".
var aged = regexp.MustCompile(`^(\S+)(?: \(x\d+ over (\S+)\))?$`)

// event reads a row of the table of events.
func (d *description) event(n int, trimmed string) {
	f := columns.Split(trimmed, 5)
	if len(f) < 5 || f[0] == "Type" || strings.HasPrefix(f[0], "----") {
		return
	}
	age := aged.FindStringSubmatch(f[2])
	if age == nil {
		d.fail(n, "age %q of event %s: want one such as 3m10s or 12s (x4 over 9m1s)", f[2], f[1])
		return
	}
	last, grain, ok := parseAge(age[1])
	first, _, okFirst := parseAge(cmp.Or(age[2], age[1]))
	if !ok || !okFirst {
		return // <unknown>, <invalid>: an event without a time
	}
	e := agedEvent{line: n, reason: f[1], message: f[4], last: last, first: first, grain: grain}
	if rest, found := strings.CutPrefix(e.message, "spec.containers{"); found {
		e.container, e.message, _ = strings.Cut(rest, "}: ")
	} else if rest, found := strings.CutPrefix(e.message, "spec.initContainers{"); found {
		e.container, e.message, _ = strings.Cut(rest, "}: ")
	}
	d.ages = append(d.ages, e)
}

// parseAge reads an age as kubectl prints it: units of y, d, h, m and s, the larger first.
func parseAge(s string) (age, grain time.Duration, ok bool) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'y': 365 * 24 * time.Hour}
	n, digits := time.Duration(0), 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= '0' && c <= '9' && digits < 6 {
			n, digits = n*10+time.Duration(c-'0'), digits+1
			continue
		}
		unit, known := units[s[i]]
		if !known || digits == 0 || n*unit/max(unit, 1) != n || age > durationMax*100 {
			return 0, 0, false
		}
		age, grain, n, digits = age+n*unit, unit, 0, 0
	}
	return age, grain, s != "" && digits == 0 && age >= 0
}

// close ends a pod: its events get times.
func (d *description) close() {
	p := d.pod
	d.pod, d.section = nil, ""
	defer func() { d.isPod, d.initial, d.started, d.ages = false, false, time.Time{}, nil }()
	if p == nil || !d.isPod {
		return
	}
	d.pods++
	if !d.started.IsZero() {
		p.Status.Conditions = append(p.Status.Conditions, condition{"PodScheduled", "True", d.started})
		p.Metadata.CreationTimestamp = d.started
		d.cluster.seen(d.started)
	}
	printed := d.printed(p)
	if printed.IsZero() && len(d.ages) > 0 {
		d.fail(d.ages[0].line, "event %s of pod %s has an age only, and nothing in the text tells when it was printed: give that time",
			d.ages[0].reason, p.Metadata.key())
		return
	}
	d.cluster.seen(printed)
	for _, a := range d.ages {
		e := event{Reason: a.reason, Message: a.message, FirstTimestamp: printed.Add(-a.first), LastTimestamp: printed.Add(-a.last)}
		e.InvolvedObject = reference{Kind: "Pod", Namespace: p.Metadata.Namespace, Name: p.Metadata.Name}
		if c := p.containerOf(a); c != "" {
			e.InvolvedObject.FieldPath = "spec.containers{" + c + "}"
		}
		d.cluster.events = append(d.cluster.events, e)
		p.Metadata.CreationTimestamp = earlier(p.Metadata.CreationTimestamp, e.FirstTimestamp)
	}
	d.cluster.pods = append(d.cluster.pods, p)
}

// containerOf is the container that an event is about: by name, else by its image.
func (p *pod) containerOf(a agedEvent) string {
	if a.container != "" {
		return a.container
	}
	words := strings.Fields(a.message)
	for _, c := range append(append([]container{}, p.Spec.InitContainers...), p.Spec.Containers...) {
		if strings.Contains(a.message, strconv.Quote(c.Image)) || len(words) > 0 && words[len(words)-1] == c.Name {
			return c.Name
		}
	}
	return ""
}

// printed is when the text was printed: as given, else by the event with the finest age among those whose time the text
// has: "Started" of a container that runs and was never restarted, "Scheduled" of a pod with a start time.
func (d *description) printed(p *pod) time.Time {
	if !d.at.IsZero() {
		return d.at
	}
	var best time.Time
	grain := time.Duration(0)
	for _, a := range d.ages {
		known := time.Time{}
		if a.reason == "Scheduled" {
			known = d.started
		}
		for _, s := range p.Status.ContainerStatuses {
			if a.reason == "Started" && s.State.Running != nil && p.containerOf(a) == s.Name {
				known = s.State.Running.StartedAt
			}
		}
		if !known.IsZero() && (best.IsZero() || a.grain < grain) {
			best, grain = known.Add(a.last), a.grain
		}
	}
	return best
}
