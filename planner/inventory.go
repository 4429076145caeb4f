package planner

import (
	"slices"
	"time"
)

// Inventory is the GPU hardware that replicas can be placed on. It has three states: a nil *Inventory in State is
// unknown, which is not empty; one older than inventoryMaxAge is stale, and neither is then asked for slots, so that
// nothing is said about them and the slowest start path counts.
type Inventory struct {
	// At is when all of it was last known to be so; zero is the State's own time.
	At    time.Time `json:"at,omitzero"`
	Pools []Pool    `json:"pools"` // sorted by name
	// Buffers are the CapacityBuffers that ask the node autoscaler for spare room, sorted by namespace and name.
	Buffers []Buffer `json:"buffers,omitempty"`
}

// Pool is a set of nodes with the same GPU product.
type Pool struct {
	Name    string `json:"name"`
	Product string `json:"product"`
	// GPUsPerNode is what a node that is launched into the pool brings.
	GPUsPerNode int `json:"gpus_per_node"`
	// Launchable is how many more nodes the pool's limits allow; nil is unknown.
	Launchable *int `json:"launchable,omitempty"`
	// Launching is how many nodes were ordered and are not among Nodes yet.
	Launching int `json:"launching,omitempty"`
	// Group names the pools that share Launchable, such as those of one NodePool with several products; empty for none.
	Group string `json:"group,omitempty"`
	// Spot is set when the provider may take the nodes away at any time: they hold no buffer.
	Spot bool `json:"spot,omitempty"`
	// Static is set when the pool has as many nodes as its replicas say, whatever pods wait. NodesMax is the limit on them;
	// nil is none.
	Static   bool `json:"static,omitempty"`
	NodesMax *int `json:"nodes_max,omitempty"`
	// Empty is what a node of the pool with only its daemons on it leaves for replicas; nil is unknown, and then its GPUs
	// alone decide.
	Empty *EmptyNode `json:"empty_node,omitempty"`
	// Offers are the kinds of node that may be launched into the pool; nil is unknown, and then a failure is the pool's.
	Offers []Offer `json:"offers,omitempty"`
	// Failures are launches that failed lately for lack of stock at the provider; none is none that was seen.
	Failures []LaunchFailure `json:"launch_failures,omitempty"`
	// Reservations, when there are any, are all that may be launched into the pool, within Launchable.
	Reservations []Reservation `json:"reservations,omitempty"`
	// Sharing is how the pool's GPUs are shared (time-slicing, mps); empty when every one goes to one pod. Nodes that
	// share are not Usable: a pod would get a share where it asks for a GPU.
	Sharing string `json:"sharing,omitempty"`
	// NoStock is set while launches fail for lack of capacity at the provider.
	NoStock bool   `json:"no_stock,omitempty"`
	Nodes   []Node `json:"nodes"` // sorted by name
}

// Node is one machine. FreeGPUs is allocatable minus the requests of every pod bound to it that has not ended;
// terminating pods still hold their GPUs. Invariant: 0 ≤ FreeGPUs ≤ GPUs.
type Node struct {
	Name string `json:"name"`
	// Domain is the NVLink or topology domain; empty when the node is its own domain.
	Domain string `json:"domain,omitempty"`
	// Zone is the provider's zone; empty is unknown.
	Zone     string `json:"zone,omitempty"`
	GPUs     int    `json:"gpus"`
	FreeGPUs int    `json:"free_gpus"`
	// FreeCPU, FreeMemory and FreePods are what else is left for pods; nil is unknown, and then GPUs alone decide.
	FreeCPU    *MilliCPU `json:"free_milli_cpu,omitempty"`
	FreeMemory *Bytes    `json:"free_memory_bytes,omitempty"`
	FreePods   *int      `json:"free_pods,omitempty"`
	// Usable is false while the node is not ready, is cordoned, or carries a taint that replicas do not tolerate.
	Usable bool `json:"usable"`
	// Launching is set while a node that was ordered is registered and takes no pods yet; it is not Usable.
	Launching bool `json:"launching,omitempty"`
	// Ends is when the node goes away, with the reservation it is of or because it is being disrupted; nil is not known to.
	Ends *time.Time `json:"ends,omitempty"`
	// OnlyFor names, sorted, the models whose pods may run on the node when its taints or their node selectors keep
	// others of the models away; empty means that all may.
	OnlyFor []string `json:"only_for,omitempty"`
	// Tenants are the pods that hold the GPUs, sorted by name; those of other resources of the same node are not among
	// them. Of a shared resource there are none, since which of them share a device is not visible.
	Tenants []Tenant `json:"tenants,omitempty"`
}

// EmptyNode is what a node has for replicas beside GPUs; nil is unknown.
type EmptyNode struct {
	CPU    *MilliCPU `json:"milli_cpu,omitempty"`
	Memory *Bytes    `json:"memory_bytes,omitempty"`
	Pods   *int      `json:"pods,omitempty"`
}

// Offer is a kind of node at a place.
type Offer struct {
	Type string `json:"type"`
	Zone string `json:"zone"`
}

// LaunchFailure is a launch that the provider had no node for. The Offer is empty when it is unknown.
type LaunchFailure struct {
	Offer
	At time.Time `json:"at"`
}

// Reservation is nodes that the provider keeps from Start to End; a zero End is open.
type Reservation struct {
	Name  string    `json:"name"`
	Nodes int       `json:"nodes"`
	Used  int       `json:"used_nodes"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
}

// inventoryMaxAge is how old an inventory may be before it is stale: as old as a plan may be (design §7).
const inventoryMaxAge = 5 * time.Minute

// stale says whether the inventory is too old to plan with.
func (inv *Inventory) stale(now time.Time) bool {
	return inv != nil && !inv.At.IsZero() && now.Sub(inv.At) > inventoryMaxAge
}

// ending are the nodes that are known to go away.
func (inv *Inventory) ending() []*Node {
	var out []*Node
	if inv == nil {
		return nil
	}
	for i := range inv.Pools {
		for k := range inv.Pools[i].Nodes {
			if n := &inv.Pools[i].Nodes[k]; n.Ends != nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// endsBy says whether the node is known to go away until t.
func (n *Node) endsBy(t time.Time) bool { return n.Ends != nil && !n.Ends.After(t) }

// emptyNode is a new node of the pool. It is kept for the models that all nodes of the pool are kept for: that comes from
// the pool's template.
func (p *Pool) emptyNode() nodeRoom {
	n := Node{FreeGPUs: p.GPUsPerNode}
	if p.Empty != nil {
		n.FreeCPU, n.FreeMemory, n.FreePods = p.Empty.CPU, p.Empty.Memory, p.Empty.Pods
	}
	for i := range p.Nodes {
		if len(p.Nodes[i].OnlyFor) == 0 {
			n.OnlyFor = nil
			break
		}
		n.OnlyFor = append(n.OnlyFor, p.Nodes[i].OnlyFor...)
	}
	slices.Sort(n.OnlyFor)
	n.OnlyFor = slices.Compact(n.OnlyFor)
	return roomOf(&n)
}

// MilliCPU is a thousandth of a CPU.
type MilliCPU int64

// Bytes is an amount of memory.
type Bytes int64

// Tenant is a pod that holds GPUs of a node: what a move that makes room would have to move.
type Tenant struct {
	Pod  string `json:"pod"` // namespace/name
	GPUs int    `json:"gpus"`
	// Model is the model that the pod serves; empty when it is none of ours.
	Model string `json:"model,omitempty"`
	// Priority is the pod's scheduling priority; nil is unknown. A pod of lower priority gives way to a replica.
	Priority *int `json:"priority,omitempty"`
	// Pinned says why the pod may not be moved, such as a PodDisruptionBudget that allows no disruption; empty when
	// nothing is known that forbids it.
	Pinned string `json:"pinned,omitempty"`
}

// Buffer is spare room that is kept free for pods to come: a CapacityBuffer, ours or anybody's.
type Buffer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Wanted is the number of chunks that the buffer asks for by count; nil when it asks in another way.
	Wanted *int `json:"wanted,omitempty"`
	// Replicas is the number of chunks that the autoscaler resolved it to; nil is unknown.
	Replicas *int `json:"replicas,omitempty"`
	// Fits is set while all of it fits on nodes that are there; that is no reservation. nil is unknown.
	Fits *bool `json:"fits,omitempty"`
}

// Quota is the GPU quota that a model's replicas are admitted under (a Kueue ClusterQueue and flavor).
type Quota struct {
	Queue   string `json:"queue"`
	Flavor  string `json:"flavor"`
	Nominal int    `json:"nominal_gpus"`
	// Used is what admitted workloads hold, borrowed quota included.
	Used int `json:"used_gpus"`
	// Reserved is what is promised to workloads, admitted or about to be: at least Used.
	Reserved int `json:"reserved_gpus,omitempty"`
	// Waiting is what the workloads that wait in the queue ask for of this resource. Which flavor they will get is open
	// until they are admitted, so that the same number stands at every flavor of the queue.
	Waiting int `json:"waiting_gpus,omitempty"`
	// Pools are the pools with nodes that the flavor's labels select, sorted; nil when that is unknown.
	Pools []string `json:"pools,omitzero"`
	// Resource is what is counted when that is not whole GPUs: a MIG profile's resource.
	Resource string `json:"resource,omitempty"`
	// Cohort is the set of queues that lend to each other, empty for none. The limits are nil where there is none.
	Cohort         string `json:"cohort,omitempty"`
	BorrowingLimit *int   `json:"borrowing_limit_gpus,omitempty"`
	LendingLimit   *int   `json:"lending_limit_gpus,omitempty"`
	// Models are those whose workloads are admitted through the queue, sorted.
	Models []string `json:"models,omitempty"`
}

// Cohort is a set of queues that lend to each other, as far as it has an object of its own.
type Cohort struct {
	Name string `json:"name"`
	// Parent is the cohort that it is part of, empty for none.
	Parent string `json:"parent,omitempty"`
	// Shared are quotas that belong to the cohort and to none of its queues: each has no Queue, and neither Used nor
	// Waiting.
	Shared []Quota `json:"shared,omitempty"`
}
