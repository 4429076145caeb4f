package configs

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"forewarm/forecast"
)

// fractions finds numbers with a fraction where v wants a whole number, which the YAML decoder would cut off without a
// word. The messages have the decoder's own form.
func fractions(data []byte, v reflect.Type) []string {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil || len(document.Content) == 0 {
		return nil // whatever is wrong, the decoder says it
	}
	return fractionsOf(document.Content[0], v)
}

func fractionsOf(n *yaml.Node, t reflect.Type) (found []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return fractionsOf(n.Alias, t)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!float" && whole(t.Kind()):
		return []string{fmt.Sprintf("line %d: cannot unmarshal !!float `%s` into int", n.Line, n.Value)}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, e := range n.Content {
			found = append(found, fractionsOf(e, t.Elem())...)
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if field, ok := fieldType(t, n.Content[i].Value); ok {
				found = append(found, fractionsOf(n.Content[i+1], field)...)
			}
		}
	}
	return found
}

func whole(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Int64 || k >= reflect.Uint && k <= reflect.Uint64
}

// hints finds keys that v does not have and that look like one it has, by line and key.
func hints(data []byte, v reflect.Type) map[string]string {
	var document yaml.Node
	found := map[string]string{}
	if err := yaml.Unmarshal(data, &document); err == nil && len(document.Content) > 0 {
		hintsOf(document.Content[0], v, found)
	}
	return found
}

func hintsOf(n *yaml.Node, t reflect.Type, found map[string]string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, e := range n.Content {
			hintsOf(e, t.Elem(), found)
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if field, ok := fieldType(t, key.Value); ok {
				hintsOf(n.Content[i+1], field, found)
			} else if near := forecast.Nearest(key.Value, keys(t)); near != "" {
				found[hintKey(fmt.Sprint(key.Line), key.Value)] = near
			}
		}
	}
}

func hintKey(line, key string) string { return line + ": " + key }

// keys lists the keys of a struct.
func keys(t reflect.Type) (out []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case options == "inline":
			out = append(out, keys(f.Type)...)
		case name != "" && name != "-":
			out = append(out, name)
		}
	}
	return out
}

// fieldType is the type that a key of t is decoded into.
func fieldType(t reflect.Type, key string) (reflect.Type, bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), true
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == key {
				return f.Type, true
			}
			if options == "inline" {
				if inner, ok := fieldType(f.Type, key); ok {
					return inner, true
				}
			}
		}
	}
	return nil, false
}
