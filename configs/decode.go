// Package configs reads configuration files strictly and holds the embedded examples.
//
// A file with a key that nobody reads, a duration without a unit or a number of the wrong kind is refused with every
// problem at once, each with its line, the key and what is allowed. Defaults are those of the packages that own the
// settings; this package adds none.
package configs

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Example returns an embedded example by its file name, such as "forewarmd.yaml".
func Example(name string) ([]byte, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		names, _ := fs.Glob(files, "*.yaml")
		return nil, fmt.Errorf("no example %q; there are %s", name, strings.Join(names, ", "))
	}
	return data, nil
}

// Decode reads one YAML document into v, which holds the defaults. name is used in errors, which list every problem of
// the document's form at once; ranges are checked by whoever owns v.
func Decode(name string, data []byte, v any) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil // an empty document changes nothing
	}
	var form *yaml.TypeError
	if err != nil && !errors.As(err, &form) {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: one YAML document is allowed, more follows", name)
	}
	return formError(name, form, fractions(data, reflect.TypeOf(v)), hints(data, reflect.TypeOf(v)))
}

// ErrForm marks an error about keys and values of the wrong form, after which everything else of the document has been
// decoded all the same.
var ErrForm = errors.New("wrong form")

// formProblems are all problems of a document's form, a line each.
type formProblems struct{ error }

// Is makes it an ErrForm.
func (formProblems) Is(target error) bool { return target == ErrForm }

// formError turns the decoder's messages into one line a problem: file:line: what, and what is allowed.
func formError(name string, form *yaml.TypeError, more []string, hints map[string]string) error {
	var errs []error
	if form != nil {
		more = append(form.Errors, more...)
	}
	for _, e := range more {
		errs = append(errs, problem(name, e, hints))
	}
	if err := errors.Join(errs...); err != nil {
		return formProblems{err}
	}
	return nil
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.+) not found in type .+$`)
	wrongType    = regexp.MustCompile("^line (\\d+): cannot unmarshal (!!\\w+) (?:`(.*)` )?into (.+)$")
	otherLine    = regexp.MustCompile(`^line (\d+): (.*)$`)
)

func problem(name, message string, hints map[string]string) error {
	if m := unknownField.FindStringSubmatch(message); m != nil {
		if near := hints[hintKey(m[1], m[2])]; near != "" {
			return fmt.Errorf("%s:%s: unknown key %q (did you mean %q?)", name, m[1], m[2], near)
		}
		return fmt.Errorf("%s:%s: unknown key %q", name, m[1], m[2])
	}
	if m := wrongType.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s:%s: %s is not %s", name, m[1], given(m[2], m[3]), wanted(m[4]))
	}
	if m := otherLine.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("%s:%s: %s", name, m[1], m[2])
	}
	return fmt.Errorf("%s: %s", name, message)
}

func given(tag, value string) string {
	switch tag {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	default:
		return fmt.Sprintf("%q", value)
	}
}

func wanted(goType string) string {
	switch strings.TrimPrefix(goType, "*") {
	case "time.Duration":
		return "a duration: a number with a unit is allowed, such as 30s, 5m or 1h30m"
	case "int", "int64", "uint64":
		return "a whole number"
	case "float64", "planner.TokenRate", "planner.RequestRate", "planner.Tokens", "planner.Ratio", "planner.Milliseconds":
		return "a number"
	case "bool":
		return "true or false"
	case "string", "planner.Authority":
		return "a text"
	}
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	default:
		return "a mapping of keys to values"
	}
}
