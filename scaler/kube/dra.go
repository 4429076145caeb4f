package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// driverGPU is the DRA driver whose devices are read.
const driverGPU = "gpu.nvidia.com"

// resourceSlice is what is kept of a ResourceSlice of driverGPU: the devices of one node, by product.
type resourceSlice struct {
	object
	node, pool string
	generation int64
	products   map[string]string // device → product
}

// resourceSliceFacts converts a ResourceSlice; of another driver's nothing is kept.
func resourceSliceFacts(u *unstructured.Unstructured) (*resourceSlice, error) {
	s := &resourceSlice{object: objectOf(u)}
	if driver, _, _ := unstructured.NestedString(u.Object, "spec", "driver"); driver != driverGPU {
		return s, nil
	}
	text := func(path ...string) string {
		v, _, _ := unstructured.NestedString(u.Object, path...)
		return strings.Clone(v)
	}
	s.node, s.pool = text("spec", "nodeName"), text("spec", "pool", "name")
	s.generation, _, _ = unstructured.NestedInt64(u.Object, "spec", "pool", "generation")
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "devices")
	if err != nil {
		return nil, fmt.Errorf("ResourceSlice %s: %w", s.name, err)
	}
	s.products = map[string]string{}
	for _, item := range list {
		device, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(device, "name")
		// Until v1beta1 the attributes were one level down, under "basic".
		for _, under := range [][]string{{}, {"basic"}} {
			if p, ok := draProduct(device, under); ok {
				s.products[strings.Clone(name)] = p
			}
		}
	}
	return s, nil
}

// draProduct names a device as GPU feature discovery would: dashes for spaces, and -MIG-profile for a part of a GPU.
func draProduct(device map[string]any, under []string) (string, bool) {
	attribute := func(name string) string {
		v, _, _ := unstructured.NestedString(device, append(append([]string{}, under...), "attributes", name, "string")...)
		return v
	}
	kind, name := attribute("type"), strings.ReplaceAll(attribute("productName"), " ", "-")
	switch kind {
	case "gpu":
		return name, true
	case "mig":
		return name + "-MIG-" + attribute("profile"), true
	}
	return "", false
}

// resourceClaim is what is kept of a ResourceClaim: the devices of driverGPU that are allocated to it.
type resourceClaim struct {
	object
	devices []string // pool/device
}

func resourceClaimFacts(u *unstructured.Unstructured) (*resourceClaim, error) {
	c := &resourceClaim{object: objectOf(u)}
	results, _, err := unstructured.NestedSlice(u.Object, "status", "allocation", "devices", "results")
	if err != nil {
		return nil, fmt.Errorf("ResourceClaim %s: %w", c.object, err)
	}
	for _, item := range results {
		r, _ := item.(map[string]any)
		driver, _, _ := unstructured.NestedString(r, "driver")
		pool, _, _ := unstructured.NestedString(r, "pool")
		device, _, _ := unstructured.NestedString(r, "device")
		if admin, _, _ := unstructured.NestedBool(r, "adminAccess"); driver == driverGPU && !admin {
			c.devices = append(c.devices, strings.Clone(pool+"/"+device))
		}
	}
	return c, nil
}
