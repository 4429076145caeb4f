package configs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"forewarm/sim"
)

// Scenario reads a scenario for the simulator, strictly, over sim.DefaultScenario. Each set is path=value: the path names
// keys with dots between them, entries of a list by index or by their name; the value is YAML. name is used in errors.
// Ranges are checked by sim.Scenario.Validate.
func Scenario(name string, data []byte, sets []string) (sim.Scenario, error) {
	s := sim.DefaultScenario()
	if err := Decode(name, data, &s); err != nil { // before the sets, so that lines are those of the file
		return sim.Scenario{}, err
	}
	if len(sets) == 0 {
		return s, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return sim.Scenario{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(doc.Content) == 0 {
		return sim.Scenario{}, fmt.Errorf("%s: empty, there is nothing to set", name)
	}
	var errs []error
	for _, set := range sets {
		if err := setPath(doc.Content[0], set); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return sim.Scenario{}, err
	}
	data, err := yaml.Marshal(&doc)
	if err != nil {
		return sim.Scenario{}, fmt.Errorf("%s: %w", name, err)
	}
	s = sim.DefaultScenario()
	if err := Decode(name+" with "+strings.Join(sets, ", "), data, &s); err != nil {
		return sim.Scenario{}, err
	}
	return s, nil
}

// setPath changes one value of a document.
func setPath(at *yaml.Node, set string) error {
	path, text, ok := strings.Cut(set, "=")
	if !ok || path == "" {
		return fmt.Errorf("set %q: path=value is allowed, such as seed=2", set)
	}
	var value yaml.Node
	if err := yaml.Unmarshal([]byte(text), &value); err != nil || len(value.Content) != 1 {
		return fmt.Errorf("set %q: the value must be YAML, such as 5, 30s or [a, b]", set)
	}
	keys := strings.Split(path, ".")
	for i, key := range keys {
		if at.Kind == yaml.AliasNode { // a copy: whoever else uses the anchor keeps its values
			*at = clone(at.Alias)
		}
		next, err := child(at, key, i == len(keys)-1)
		if err != nil {
			return fmt.Errorf("set %q: %s: %w", set, strings.Join(keys[:i+1], "."), err)
		}
		at = next
	}
	anchor := at.Anchor
	*at = *value.Content[0]
	at.Anchor = anchor
	return nil
}

// clone copies a tree, without its anchors.
func clone(n *yaml.Node) yaml.Node {
	out := *n
	out.Anchor, out.Content = "", nil
	for _, c := range n.Content {
		x := clone(c)
		out.Content = append(out.Content, &x)
	}
	return out
}

// child is the value of a key, or the entry of a list. A key that is not there is added: the strict reading that follows
// refuses one that nobody reads.
func child(n *yaml.Node, key string, last bool) (*yaml.Node, error) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1], nil
			}
		}
		added := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if last {
			added = &yaml.Node{Kind: yaml.ScalarNode}
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, added)
		return added, nil
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], nil
		}
		var names []string
		for i, c := range n.Content {
			name := strconv.Itoa(i)
			for k := 0; k+1 < len(c.Content) && c.Kind == yaml.MappingNode; k += 2 {
				if c.Content[k].Value == "name" {
					name = c.Content[k+1].Value
				}
			}
			if name == key {
				return c, nil
			}
			names = append(names, name)
		}
		return nil, fmt.Errorf("there is no entry %q: %s are allowed", key, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("%q is a single value and has no keys", n.Value)
}
