package planner

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

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

// poolFacts sets what a pool has beside its nodes.
func (w *scenario) poolFacts(t *testing.T, d *datadriven.TestData, p *Pool) {
	t.Helper()
	p.Spot, p.Static = d.HasArg("spot"), d.HasArg("static")
	p.Sharing, p.Group = textArg(t, d, "sharing", ""), textArg(t, d, "group", "")
	if d.HasArg("launching") {
		p.Launching = int(floatArg(t, d, "launching"))
	}
	if d.HasArg("nodes-max") {
		most := int(floatArg(t, d, "nodes-max"))
		p.NodesMax = &most
	}
	if d.HasArg("empty-cpu") {
		cpu := MilliCPU(floatArg(t, d, "empty-cpu"))
		p.Empty = &EmptyNode{CPU: &cpu}
	}
	offer := func(text string) Offer {
		kind, zone, _ := strings.Cut(text, "/")
		return Offer{Type: kind, Zone: zone}
	}
	for _, a := range d.CmdArgs {
		for _, v := range a.Vals {
			switch a.Key {
			case "failed":
				p.Failures = append(p.Failures, LaunchFailure{At: w.now.Add(-parseDuration(t, d, v))})
			case "failed-at":
				at, age, _ := strings.Cut(v, ":")
				p.Failures = append(p.Failures, LaunchFailure{Offer: offer(at), At: w.now.Add(-parseDuration(t, d, age))})
			case "offers":
				for _, o := range strings.Split(v, ",") {
					p.Offers = append(p.Offers, offer(o))
				}
			case "reservation":
				f := strings.Split(v, ":")
				p.Reservations = append(p.Reservations, Reservation{Name: "r", Nodes: int(parseFloat(t, d, f[0])),
					Used: int(parseFloat(t, d, f[1])), Start: w.now.Add(parseDuration(t, d, f[2])), End: w.now.Add(parseDuration(t, d, f[3]))})
			}
		}
	}
}

func (w *scenario) quota(t *testing.T, d *datadriven.TestData) string {
	q := Quota{Queue: d.CmdArgs[0].Key, Flavor: textArg(t, d, "flavor", ""), Nominal: int(floatArg(t, d, "nominal")),
		Used: int(floatArg(t, d, "used")), Cohort: textArg(t, d, "cohort", "")}
	limit := func(key string) *int {
		if !d.HasArg(key) {
			return nil
		}
		n := int(floatArg(t, d, key))
		return &n
	}
	q.LendingLimit, q.BorrowingLimit = limit("lending"), limit("borrowing")
	if n := limit("reserved"); n != nil {
		q.Reserved = *n
	}
	if n := limit("waiting"); n != nil {
		q.Waiting = *n
	}
	if d.HasArg("models") {
		q.Models = strings.Split(textArg(t, d, "models", ""), ",")
	}
	if d.HasArg("pools") {
		q.Pools = strings.Split(textArg(t, d, "pools", ""), ",")
	}
	for i := range w.quotas {
		if w.quotas[i].Queue == q.Queue && w.quotas[i].Flavor == q.Flavor {
			w.quotas[i] = q
			return ""
		}
	}
	w.quotas = append(w.quotas, q)
	return ""
}

func (w *scenario) launchesFailed(t *testing.T, d *datadriven.TestData) string {
	w.cluster = &ClusterEvidence{From: w.now.Add(-15 * time.Minute), To: w.now, LaunchesFailed: map[string]float64{}}
	for _, a := range d.CmdArgs {
		w.cluster.LaunchesFailed[a.Key] = parseFloat(t, d, a.Vals[0])
	}
	return ""
}

func (w *scenario) authority(t *testing.T, d *datadriven.TestData) string {
	w.policy.Pools = Authority(textArg(t, d, "pools", string(w.policy.Pools)))
	if !d.HasArg("quota") {
		return ""
	}
	q := DefaultQuotaPolicy()
	q.Authority, q.Donors = Authority(textArg(t, d, "quota", "")), map[string]int{}
	q.DrainTime = parseDuration(t, d, textArg(t, d, "drain", q.DrainTime.String()))
	if d.HasArg("donors") {
		for _, donor := range strings.Split(textArg(t, d, "donors", ""), ",") {
			queue, least, _ := strings.Cut(donor, ":")
			q.Donors[queue] = int(parseFloat(t, d, least))
		}
	}
	w.policy.Quota = &q
	return ""
}

// writeTargets prints what is to be written, as it is ordered.
func writeTargets(b *strings.Builder, d *Decision) {
	for _, x := range d.Buffers {
		fmt.Fprintf(b, "buffer: %d of %s in %s\n", x.Replicas, x.Model, x.Pool)
	}
	for _, q := range d.Quotas {
		fmt.Fprintf(b, "quota: %s/%s %d, %s\n", q.Queue, q.Flavor, q.Nominal, q.Why)
	}
	for i, c := range d.Order {
		fmt.Fprintf(b, "%d. %s %s %d -> %d\n", i+1, c.Kind, c.Name, c.From, c.To)
	}
	for _, m := range d.Memory.Stock {
		offer := ""
		if m.Offer != (Offer{}) {
			offer = fmt.Sprintf(" %s in %s", m.Type, m.Zone)
		}
		fmt.Fprintf(b, "stock: %s%s, %s, left alone until %s\n", m.Pool, offer, plural(m.Failures, "failure"),
			m.until().Format(time.TimeOnly))
	}
}
