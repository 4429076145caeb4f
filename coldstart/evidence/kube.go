package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Cluster is what dumps of a cluster say: its pods, events, nodes and NodeClaims. The zero Cluster is empty.
type Cluster struct {
	pods   []*pod
	events []event
	nodes  map[string]*node
	claims []*claim
	newest time.Time // the latest time in any of them: it cannot be older than that
}

// meta is what is read of an object's metadata.
type meta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
	DeletionTimestamp time.Time         `json:"deletionTimestamp"`
}

func (m meta) key() string { return m.Namespace + "/" + m.Name }

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// when is the time at which a condition became true; zero when it is not true.
func when(of []condition, name string) time.Time {
	for _, c := range of {
		if c.Type == name && c.Status == "True" {
			return c.LastTransitionTime
		}
	}
	return time.Time{}
}

type pod struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		NodeName       string      `json:"nodeName"`
		InitContainers []container `json:"initContainers"`
		Containers     []container `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase                 string            `json:"phase"`
		Conditions            []condition       `json:"conditions"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
	} `json:"status"`

	described bool // from text: it has no creation time and no conditions with times
}

type container struct {
	Name      string   `json:"name"`
	Image     string   `json:"image"`
	Command   []string `json:"command"`
	Args      []string `json:"args"`
	Env       []envVar `json:"env"`
	Resources struct {
		Limits   map[string]any `json:"limits"`
		Requests map[string]any `json:"requests"`
	} `json:"resources"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type containerStatus struct {
	Name         string         `json:"name"`
	Ready        bool           `json:"ready"`
	RestartCount int            `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Running *struct {
		StartedAt time.Time `json:"startedAt"`
	} `json:"running"`
	Terminated *struct {
		StartedAt  time.Time `json:"startedAt"`
		FinishedAt time.Time `json:"finishedAt"`
		Reason     string    `json:"reason"`
	} `json:"terminated"`
}

// event is an event of either API group: core (involvedObject, message, first and last time) or events.k8s.io (regarding,
// note, eventTime and a series).
type event struct {
	InvolvedObject reference `json:"involvedObject"`
	Regarding      reference `json:"regarding"`
	Reason         string    `json:"reason"`
	Message        string    `json:"message"`
	Note           string    `json:"note"`
	EventTime      time.Time `json:"eventTime"`
	FirstTimestamp time.Time `json:"firstTimestamp"`
	LastTimestamp  time.Time `json:"lastTimestamp"`
	DeprecatedLast time.Time `json:"deprecatedLastTimestamp"`
	DeprecatedOnce time.Time `json:"deprecatedFirstTimestamp"`
	Series         *struct {
		LastObservedTime time.Time `json:"lastObservedTime"`
	} `json:"series"`
}

type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	FieldPath string `json:"fieldPath"`
}

// settle makes one shape of both API groups.
func (e *event) settle() {
	if e.InvolvedObject.Name == "" {
		e.InvolvedObject = e.Regarding
	}
	if e.Message == "" {
		e.Message = e.Note
	}
	for _, t := range []time.Time{e.DeprecatedOnce, e.EventTime} {
		if e.FirstTimestamp.IsZero() {
			e.FirstTimestamp = t
		}
	}
	last := []time.Time{e.DeprecatedLast, e.EventTime, e.FirstTimestamp}
	if e.Series != nil {
		last = append(last, e.Series.LastObservedTime)
	}
	for _, t := range last {
		if t.After(e.LastTimestamp) {
			e.LastTimestamp = t
		}
	}
}

// container is the name in "spec.containers{vllm}", "" when the event is about the pod.
func (e *event) container() string {
	_, name, found := strings.Cut(strings.TrimSuffix(e.InvolvedObject.FieldPath, "}"), "{")
	if !found {
		return ""
	}
	return name
}

type node struct {
	Metadata meta `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// claim is a NodeClaim of Karpenter.
type claim struct {
	Metadata meta `json:"metadata"`
	Status   struct {
		NodeName   string      `json:"nodeName"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// documentMax bounds a single object, and what of a list does not say what it is.
const documentMax = 64 << 20

// ReadJSON adds what `kubectl get … -o json` printed: Lists or single objects, several of them one after the other, of
// Pods, Events (of both API groups), Nodes and NodeClaims. Objects of other kinds are skipped. Times that a pod does not
// have are left unknown. An error names the document and item that cannot be read; what stood before it was added.
func (c *Cluster) ReadJSON(r io.Reader, name string) error {
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		err := c.document(d)
		if errors.Is(err, io.EOF) {
			if n == 1 {
				return fmt.Errorf("%s: empty: want the output of kubectl get -o json", name)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: document %d, byte %d: %w", name, n, d.InputOffset(), err)
		}
	}
}

// document reads one top-level object field by field, so that a list of any length is read item by item.
func (c *Cluster) document(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%v: want a JSON object", t)
	}
	fields := map[string]json.RawMessage{}
	var kindless []json.RawMessage
	size := 0
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return unexpected(err)
		}
		if key == "items" {
			if kindless, err = c.items(d, kindOf(fields)); err != nil {
				return err
			}
			continue
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return unexpected(err)
		}
		if size += len(raw); size > documentMax {
			return fmt.Errorf("an object of more than %d MiB", documentMax>>20)
		}
		fields[fmt.Sprint(key)] = raw
	}
	if _, err := d.Token(); err != nil {
		return unexpected(err)
	}
	kind := kindOf(fields)
	for i, raw := range kindless {
		if err := c.object(strings.TrimSuffix(kind, "List"), raw); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	switch kind {
	case "Pod", "Event", "Node", "NodeClaim":
		whole, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		return c.object(kind, whole)
	}
	return nil
}

// unexpected is the error of a document that breaks off.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func kindOf(fields map[string]json.RawMessage) string {
	var kind string
	if json.Unmarshal(fields["kind"], &kind) != nil {
		return ""
	}
	return kind
}

// items reads the items of a list whose kind may be known already ("PodList") or come later; those whose kind is not
// known yet are returned.
func (c *Cluster) items(d *json.Decoder, list string) (kindless []json.RawMessage, err error) {
	t, err := d.Token()
	if err != nil {
		return nil, unexpected(err)
	}
	if t == nil { // null: an empty list
		return nil, nil
	}
	if t != json.Delim('[') {
		return nil, fmt.Errorf("items is %v: want a list", t)
	}
	size := 0
	for i := 0; d.More(); i++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, unexpected(err))
		}
		var own struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(raw, &own); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		kind := own.Kind
		if kind == "" && list != "" && list != "List" {
			kind = strings.TrimSuffix(list, "List")
		}
		if kind == "" {
			if size += len(raw); size > documentMax {
				return nil, fmt.Errorf("items[%d]: more than %d MiB of items without a kind before the list's own", i, documentMax>>20)
			}
			kindless = append(kindless, bytes.Clone(raw))
			continue
		}
		if err := c.object(kind, raw); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	_, err = d.Token()
	return kindless, unexpected(err)
}

// object adds one object.
func (c *Cluster) object(kind string, raw []byte) error {
	switch kind {
	case "Pod":
		p := &pod{}
		if err := json.Unmarshal(raw, p); err != nil {
			return fmt.Errorf("pod %q: %w", p.Metadata.Name, err)
		}
		if p.Metadata.Name == "" {
			return errors.New("pod without a name")
		}
		c.pods = append(c.pods, p)
		c.seen(p.Metadata.CreationTimestamp)
		for _, x := range p.Status.Conditions {
			c.seen(x.LastTransitionTime)
		}
	case "Event":
		var e event
		if err := json.Unmarshal(raw, &e); err != nil {
			return fmt.Errorf("event: %w", err)
		}
		e.settle()
		c.events = append(c.events, e)
		c.seen(e.LastTimestamp)
	case "Node":
		n := &node{}
		if err := json.Unmarshal(raw, n); err != nil {
			return fmt.Errorf("node %q: %w", n.Metadata.Name, err)
		}
		if c.nodes == nil {
			c.nodes = map[string]*node{}
		}
		c.nodes[n.Metadata.Name] = n
	case "NodeClaim":
		n := &claim{}
		if err := json.Unmarshal(raw, n); err != nil {
			return fmt.Errorf("nodeclaim %q: %w", n.Metadata.Name, err)
		}
		c.claims = append(c.claims, n)
		c.seen(n.Metadata.CreationTimestamp)
		for _, x := range n.Status.Conditions {
			c.seen(x.LastTransitionTime)
		}
	}
	return nil
}

func (c *Cluster) seen(t time.Time) {
	if t.After(c.newest) {
		c.newest = t
	}
}
