//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// object is any object of the Kubernetes API.
type object map[string]any

// at walks into nested fields and list items; nil when a part of the way is missing.
func (o object) at(path ...any) any {
	var here any = map[string]any(o)
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := here.(map[string]any)
			here = m[s]
		case int:
			l, _ := here.([]any)
			if s >= len(l) {
				return nil
			}
			here = l[s]
		default:
			panic(fmt.Sprintf("e2e: %v is neither a field nor an index", step))
		}
	}
	return here
}

// text is the string at path, empty when it is absent.
func (o object) text(path ...any) string {
	s, _ := o.at(path...).(string)
	return s
}

// number is the number at path; an absent one is 0, as the API leaves zero counts out.
func (o object) number(path ...any) int {
	f, _ := o.at(path...).(float64)
	return int(f)
}

// list is the objects at path.
func (o object) list(path ...any) []object {
	var out []object
	items, _ := o.at(path...).([]any)
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// condition returns the status and message of a condition.
func (o object) condition(kind string) (status, message string) {
	for _, c := range o.list("status", "conditions") {
		if c.text("type") == kind {
			return c.text("status"), c.text("reason") + ": " + c.text("message")
		}
	}
	return "", "no condition " + kind
}

func (o object) String() string {
	if meta, ok := o.at("metadata").(map[string]any); ok {
		delete(meta, "managedFields") // long, and about who wrote what
	}
	out, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// client speaks to the API server as a cluster administrator.
type client struct {
	base string
	http *http.Client

	mu        sync.Mutex
	resources map[string]resource // by apiVersion/kind
}

type resource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced"`
}

// newClient speaks to an address with the certificate of the administrator.
func newClient(address string, certs *pki) (*client, error) {
	pair, err := tls.LoadX509KeyPair(certs.file("admin.crt"), certs.file("admin.key"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(certs.ca.cert)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}},
		Proxy:           nil, // loopback, whatever the environment says
	}
	return &client{base: "https://" + address, http: &http.Client{Transport: transport, Timeout: requestTimeout},
		resources: map[string]resource{}}, nil
}

// unverified is a client with the administrator's certificate for servers that sign their own.
func (c *client) unverified() *http.Client {
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.InsecureSkipVerify = true
	return &http.Client{Transport: transport, Timeout: requestTimeout}
}

// requestTimeout is how long one call may take; a hung scaler makes the metrics API hang as well.
const requestTimeout = 10 * time.Second

// statusError is an answer that is not a success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.message) }

// isNotFound reports whether the API server does not have what was asked for.
func isNotFound(err error) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == http.StatusNotFound
}

func (c *client) do(method, path, contentType string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= 300 {
		var status struct{ Message string }
		if json.Unmarshal(data, &status) != nil || status.Message == "" {
			status.Message = string(data)
		}
		return nil, fmt.Errorf("%s %s: %w", method, path, &statusError{resp.StatusCode, status.Message})
	}
	return data, nil
}

// get reads an object, or a list of them, by its path.
func (c *client) get(path string) (object, error) {
	data, err := c.do(http.MethodGet, path, "", nil)
	if err != nil {
		return nil, err
	}
	var o object
	return o, json.Unmarshal(data, &o)
}

// merge patches the object at path, or a subresource, with a JSON merge patch.
func (c *client) merge(path, patch string) error {
	_, err := c.do(http.MethodPatch, path, "application/merge-patch+json", []byte(patch))
	return err
}

// create posts an object to the path of its collection.
func (c *client) create(path string, o object) (object, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	data, err := c.do(http.MethodPost, path, "application/json", body)
	if err != nil {
		return nil, err
	}
	var made object
	return made, json.Unmarshal(data, &made)
}

// createYAML posts one YAML document.
func (c *client) createYAML(doc string) error {
	var o map[string]any
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
		return fmt.Errorf("%w in\n%s", err, doc)
	}
	path, err := c.path(object(o).text("apiVersion"), object(o).text("kind"), object(o).text("metadata", "namespace"), "")
	if err != nil {
		return err
	}
	_, err = c.create(strings.TrimSuffix(path, "/"), o)
	return err
}

// removeAll deletes a whole collection, pods without waiting for their end, and returns when it is empty. Thousands of
// objects take longer than one call may: what a call has not reached the next one deletes.
func (c *client) removeAll(path, labels string) error {
	selector := "labelSelector=" + url.QueryEscape(labels)
	return poll(60*time.Second, path+" to be empty", func() (bool, string) {
		_, err := c.do(http.MethodDelete, path+"?gracePeriodSeconds=0&"+selector, "", nil)
		o, listErr := c.get(path + "?limit=1&" + selector)
		return listErr == nil && len(o.list("items")) == 0, fmt.Sprint(err, listErr)
	})
}

// remove deletes the object at path; one that is not there is no error.
func (c *client) remove(path string) error {
	_, err := c.do(http.MethodDelete, path+"?propagationPolicy=Background", "", nil)
	if isNotFound(err) {
		return nil
	}
	return err
}

// apply applies every document of a YAML text server-side.
func (c *client) apply(text string) error {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o map[string]any // not an object: YAML would make every nested map one
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		if err := c.applyObject(o); err != nil {
			return err
		}
	}
}

func (c *client) applyObject(o object) error {
	path, err := c.path(o.text("apiVersion"), o.text("kind"), o.text("metadata", "namespace"), o.text("metadata", "name"))
	if err != nil {
		return err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = c.do(http.MethodPatch, path+"?fieldManager=e2e&force=true", "application/apply-patch+yaml", body)
	return err
}

// path is where an object lies, as the API server's discovery says.
func (c *client) path(apiVersion, kind, namespace, name string) (string, error) {
	prefix := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		prefix = "/api/" + apiVersion
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, known := c.resources[apiVersion+"/"+kind]
	if !known {
		list, err := c.get(prefix)
		if err != nil {
			return "", err
		}
		for _, item := range list.list("resources") {
			if !strings.Contains(item.text("name"), "/") { // not a subresource
				namespaced, _ := item.at("namespaced").(bool)
				c.resources[apiVersion+"/"+item.text("kind")] = resource{item.text("name"), item.text("kind"), namespaced}
			}
		}
		if r, known = c.resources[apiVersion+"/"+kind]; !known {
			return "", fmt.Errorf("%s does not serve %s", apiVersion, kind)
		}
	}
	if r.Namespaced {
		if namespace == "" {
			namespace = "default"
		}
		prefix += "/namespaces/" + namespace
	}
	return prefix + "/" + r.Name + "/" + url.PathEscape(name), nil
}

// scrapeSum adds up the samples of one metric that a process exposes, those whose labels hold every given part.
func scrapeSum(client *http.Client, url, metric string, parts ...string) (float64, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	sum := 0.0
lines:
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), metric)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(rest, part) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q: %w", url, line, err)
		}
		sum += v
	}
	return sum, nil
}
