package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"forewarm/planner"
)

// inventory is the GPU hardware; nil with the reason when nodes, pods or claims are unknown, since free GPUs are then.
// An inventory with a problem is right as far as it goes.
//
// A pool is the nodes of one group (NodePool, node group) that have the same product; nodes without a group are grouped
// by product. A node with several kinds of GPU resources (MIG strategy mixed) is in one pool for each. Devices that are
// handed out by DRA count like those of the device plugin, on nodes that have none of the latter.
func (w *world) inventory(models []Model, targets map[string]target) (*planner.Inventory, string) {
	if why := w.why(nodes, pods, resourceSlices, resourceClaims); why != "" {
		return nil, why
	}
	used, byDRA, asked, tenants := w.requested(), w.draUnits(), w.demands(models, targets), w.holders(targets)
	all := poolSet{}
	for _, n := range w.nodes {
		only, open := n.allowed(asked)
		domain := w.domain(n)
		for res := range n.gpus {
			unit, strategy := w.unit(n, res, used[n.name][res])
			unit.Usable, unit.OnlyFor, unit.Domain = open && strategy == "", only, domain
			unit.Zone = n.labels[corev1.LabelTopologyZone]
			if strategy == "" {
				unit.Tenants = tenants[res][n.name]
			}
			all.add(poolKey{first(n.labels, poolLabels), n.product(res), strategy}, res, unit)
		}
		if len(n.gpus) == 0 {
			for product, unit := range byDRA[n.name] {
				unit.Usable, unit.OnlyFor, unit.Domain = open, only, domain
				unit.Zone = n.labels[corev1.LabelTopologyZone]
				all.add(poolKey{first(n.labels, poolLabels), product, ""}, resourceGPU, unit)
			}
		}
	}
	return &planner.Inventory{Pools: w.pools(all), Buffers: w.spare()}, w.why(nodePools, nodeClaims, topologies, buffers)
}

// spare are the buffers of the cluster.
func (w *world) spare() []planner.Buffer {
	var out []planner.Buffer
	for _, b := range w.buffers {
		out = append(out, planner.Buffer{Namespace: b.namespace, Name: b.name, Wanted: b.wanted, Replicas: b.replicas, Fits: b.fits})
	}
	return out
}

// requested adds up what bound pods that have not ended hold, by node. Terminating pods hold theirs until they are gone.
func (w *world) requested() map[string]amounts {
	used := map[string]amounts{}
	for _, p := range w.pods {
		if p.node == "" || p.ended {
			continue
		}
		for r, n := range p.gpus {
			if used[p.node] == nil {
				used[p.node] = amounts{}
			}
			used[p.node][r] += n
		}
	}
	return used
}

// unit is what a node has of one resource. Of a shared resource the devices are counted, not the shares, and those are
// free of which certainly no share is in use: whether two shares in use are of one device or of two is not visible.
func (w *world) unit(n *node, res string, used int) (planner.Node, string) {
	if strategy := n.sharing(res); strategy != "" {
		gpus := n.whole(res)
		return planner.Node{Name: n.name, GPUs: gpus, FreeGPUs: max(0, gpus-used)}, strategy
	}
	gpus := n.gpus[res]
	return planner.Node{Name: n.name, GPUs: gpus, FreeGPUs: max(0, gpus-used)}, ""
}

// modelDemands is what one model's pods ask of a node.
type modelDemands struct {
	model string
	demands
}

// demands collects what the models ask for, sorted by name.
func (w *world) demands(models []Model, targets map[string]target) []modelDemands {
	out := make([]modelDemands, len(models))
	for i, m := range models {
		out[i] = modelDemands{m.Name, w.demandsOf(targets[m.Name])}
	}
	slices.SortFunc(out, func(a, b modelDemands) int { return cmp.Compare(a.model, b.model) })
	return out
}

// demandsOf is what the pods of a model's first workload with a template ask for. Where no template is known they are
// taken to tolerate nothing.
func (w *world) demandsOf(t target) demands {
	for _, wl := range t.workloads {
		if x := w.workloads[wl]; x != nil && x.demands != nil {
			return *x.demands
		}
		for _, child := range w.children[wl] {
			if child.demands != nil {
				return *child.demands
			}
		}
	}
	return demands{}
}

// allowed says whether any model's pods may be bound to the node, and to which models that is restricted; nil means all.
func (n *node) allowed(by []modelDemands) (only []string, usable bool) {
	if !n.open() {
		return nil, false
	}
	if len(by) == 0 {
		return nil, n.tolerated(nil)
	}
	for i := range by {
		if n.tolerated(by[i].tolerations) && n.selected(by[i].selector) {
			only = append(only, by[i].model)
		}
	}
	if len(only) == len(by) {
		return nil, true
	}
	return only, len(only) > 0
}

// domain is the node's NVLink domain (ClusterUUID.CliqueID), else its narrowest domain in the first Topology whose labels
// it carries; empty when it is in none.
func (w *world) domain(n *node) string {
	if c := n.labels[labelClique]; c != "" {
		return c
	}
	for _, t := range w.topologies {
		if d, ok := t.domain(n.labels); ok {
			return d
		}
	}
	return ""
}

// draUnits is what the nodes have by DRA, by node and product. Of each pool of devices only the newest generation counts.
func (w *world) draUnits() map[string]map[string]planner.Node {
	newest := map[string]int64{}
	for _, s := range w.slices {
		newest[s.pool] = max(newest[s.pool], s.generation)
	}
	taken := map[string]bool{}
	for _, c := range w.claims {
		for _, d := range c.devices {
			taken[d] = true
		}
	}
	out := map[string]map[string]planner.Node{}
	for _, s := range w.slices {
		if s.node == "" || s.generation != newest[s.pool] {
			continue
		}
		units := out[s.node]
		if units == nil {
			units = map[string]planner.Node{}
			out[s.node] = units
		}
		for device, product := range s.products {
			u := units[product]
			u.Name = s.node
			u.GPUs++
			if !taken[s.pool+"/"+device] {
				u.FreeGPUs++
			}
			units[product] = u
		}
	}
	return out
}

type poolKey struct{ group, product, sharing string }

type poolParts struct {
	res   string
	nodes []planner.Node
}

type poolSet map[poolKey]*poolParts

func (s poolSet) add(key poolKey, res string, n planner.Node) {
	p := s[key]
	if p == nil {
		p = &poolParts{res: res}
		s[key] = p
	}
	p.nodes = append(p.nodes, n)
}

// pools makes the planner's pools, sorted by name. A group with one product bears the group's name, so that it is that
// of the NodePool; with several the product is added.
func (w *world) pools(all poolSet) []planner.Pool {
	perGroup := map[string]int{}
	for key := range all {
		perGroup[key.group]++
	}
	out := make([]planner.Pool, 0, len(all))
	named := map[string]bool{}
	for key, parts := range all {
		p := planner.Pool{Name: key.name(perGroup[key.group]), Product: key.product, Sharing: key.sharing, Nodes: parts.nodes}
		slices.SortFunc(p.Nodes, func(a, b planner.Node) int { return cmp.Compare(a.Name, b.Name) })
		for _, n := range p.Nodes {
			p.GPUsPerNode = max(p.GPUsPerNode, n.GPUs)
		}
		w.growth(&p, key.group, parts.res)
		named[key.group] = true
		out = append(out, p)
	}
	for key, np := range w.nodePools {
		name := key.name
		if named[name] || np.gpus == 0 || np.product == "" {
			continue // what it would launch is not pinned down, and nothing is there to show it
		}
		p := planner.Pool{Name: name, Product: np.product, GPUsPerNode: np.gpus, Nodes: []planner.Node{}}
		w.growth(&p, name, resourceGPU)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b planner.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (k poolKey) name(products int) string {
	switch {
	case k.group == "" && k.product == "":
		return "unlabelled"
	case k.group == "":
		return k.product
	case products == 1:
		return k.group
	case k.product == "":
		return k.group + "/unlabelled"
	}
	return k.group + "/" + k.product
}

// growth says what can still be launched into a pool, and what is on its way.
func (w *world) growth(p *planner.Pool, group, res string) {
	for _, c := range w.nodeClaims {
		if group == "" || c.pool != group || c.initialized || c.deleting {
			continue
		}
		at, listed := slices.BinarySearchFunc(p.Nodes, c.node, func(n planner.Node, name string) int { return cmp.Compare(n.Name, name) })
		if listed {
			p.Nodes[at].Launching = !p.Nodes[at].Usable
		} else {
			p.Launching++
		}
	}
	np := w.nodePools[object{name: group}]
	if np == nil || p.GPUsPerNode == 0 {
		return
	}
	p.Group, p.Static, p.Spot = group, np.static, np.spot
	if most, ok := np.limits["nodes"]; ok && np.static {
		n := int(most.Value())
		p.NodesMax = &n
	}
	var like *node
	for _, n := range p.Nodes {
		if n.GPUs == p.GPUsPerNode {
			like = w.byNode[n.Name]
			break
		}
	}
	p.Launchable = np.launchable(res, p.GPUsPerNode, like)
}
