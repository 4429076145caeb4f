package kube

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// FuzzConvert feeds any object to every kind that is read by field: what a server of another version sends may have any
// form, and must be read, left out or refused, with the same result when it comes again.
func FuzzConvert(f *testing.F) {
	for _, docs := range []string{deploymentYAML, scaledObjectFor("chat", "Deployment", "chat", ""), nodePoolYAML, draYAML} {
		for doc := range strings.SplitSeq(docs, "\n---\n") {
			data, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(`{"kind":"ClusterQueue","metadata":{"name":"q"},"spec":{"resourceGroups":[null,{"flavors":[3,{"resources":["x",{"name":"nvidia.com/gpu"}]}]}]}}`))
	f.Add([]byte(`{"kind":"RayCluster","metadata":{"name":"r"},"spec":{"workerGroupSpecs":[{"replicas":1.5}]}}`))
	f.Add([]byte(`{"kind":"Topology","metadata":{"name":"t"},"spec":{"levels":[[],{"nodeLabel":7}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		for _, k := range kinds {
			if _, byField := k.expect.(*unstructured.Unstructured); !byField {
				continue
			}
			var u unstructured.Unstructured
			if err := u.UnmarshalJSON(data); err != nil {
				return
			}
			converted, err := k.convert(&u)
			if err != nil {
				continue
			}
			again, err := k.convert(converted)
			if err != nil || again != converted {
				t.Errorf("%s: converting twice gives %v, %v", k.id(), again, err)
			}
		}
	})
}
