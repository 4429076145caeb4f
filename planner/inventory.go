package planner

// Inventory is the GPU hardware that replicas can be placed on. A nil *Inventory in State is unknown, which is not
// empty: nothing is then said about slots.
type Inventory struct {
	Pools []Pool `json:"pools"` // sorted by name
}

// Pool is a set of nodes with the same GPU product.
type Pool struct {
	Name    string `json:"name"`
	Product string `json:"product"`
	// GPUsPerNode is what a node that is launched into the pool brings.
	GPUsPerNode int `json:"gpus_per_node"`
	// Launchable is how many more nodes the pool's limits allow; nil is unknown.
	Launchable *int `json:"launchable,omitempty"`
	// Launching is how many nodes were ordered and cannot take pods yet.
	Launching int `json:"launching,omitempty"`
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
	Domain   string `json:"domain,omitempty"`
	GPUs     int    `json:"gpus"`
	FreeGPUs int    `json:"free_gpus"`
	// Usable is false while the node is not ready, is cordoned, or carries a taint that replicas do not tolerate.
	Usable bool `json:"usable"`
	// OnlyFor names, sorted, the models whose pods may run on the node when its taints or their node selectors keep
	// others of the models away; empty means that all may.
	OnlyFor []string `json:"only_for,omitempty"`
}

// Quota is the GPU quota that a model's replicas are admitted under (a Kueue ClusterQueue and flavor).
type Quota struct {
	Queue   string `json:"queue"`
	Flavor  string `json:"flavor"`
	Nominal int    `json:"nominal_gpus"`
	Used    int    `json:"used_gpus"`
	// Resource is what is counted when that is not whole GPUs: a MIG profile's resource.
	Resource string `json:"resource,omitempty"`
	// Cohort is the set of queues that lend to each other, empty for none. The limits are nil where there is none.
	Cohort         string `json:"cohort,omitempty"`
	BorrowingLimit *int   `json:"borrowing_limit_gpus,omitempty"`
	LendingLimit   *int   `json:"lending_limit_gpus,omitempty"`
	// Models are those whose workloads are admitted through the queue, sorted.
	Models []string `json:"models,omitempty"`
}
