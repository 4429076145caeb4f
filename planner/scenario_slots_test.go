package planner

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// nodeFact sets what a node has beside its free GPUs.
func nodeFact(t *testing.T, d *datadriven.TestData, n *Node, key, value string) {
	t.Helper()
	switch key {
	case "only-for":
		n.OnlyFor = strings.Split(value, ",")
	case "cpu":
		cpu := MilliCPU(parseFloat(t, d, value))
		n.FreeCPU = &cpu
	case "pods":
		pods := int(parseFloat(t, d, value))
		n.FreePods = &pods
	case "pinned":
		for i := range n.Tenants {
			if n.Tenants[i].Pod == value {
				n.Tenants[i].Pinned = "its disruption budget allows none"
				return
			}
		}
		d.Fatalf(t, "no tenant %q on node %q", value, n.Name)
	case "tenant":
		parts := strings.Split(value, ":")
		tenant := Tenant{Pod: parts[0]}
		for i, part := range parts[1:] {
			switch i {
			case 0:
				tenant.GPUs = int(parseFloat(t, d, part))
			case 1:
				tenant.Model = part
			case 2:
				priority, err := strconv.Atoi(part)
				if err != nil {
					d.Fatalf(t, "tenant priority: %v", err)
				}
				tenant.Priority = &priority
			}
		}
		n.Tenants = append(n.Tenants, tenant)
	default:
		d.Fatalf(t, "unknown node key %q", key)
	}
}

func (w *scenario) slots(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	for _, s := range w.decideOnce(t, d).Slots {
		fmt.Fprintf(&b, "%s in %s: %s\n", strings.Join(s.Models, ", "), s.Pool, s)
	}
	if b.Len() == 0 {
		return "nothing is known about slots"
	}
	return b.String()
}
