package sim

// routers are the ways to spread requests over replicas; empty is least-outstanding.
var routers = []string{"", leastOutstanding, roundRobin, randomTwo, prefixAffine}

const (
	leastOutstanding = "least-outstanding"
	roundRobin       = "round-robin"
	randomTwo        = "random-two"    // the less loaded of two drawn at random (Mitzenmacher 2001)
	prefixAffine     = "prefix-affine" // rendezvous hashing of the client, passed over while a replica is overloaded
)

// affineOverload is how far above the mean a replica may be loaded before the next of a client's replicas is taken, as in
// consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, SODA 2018).
const affineOverload = 1.25

// router spreads a model's requests.
type router struct {
	kind   string
	last   int // round-robin: index of the one taken last
	random *stream
	open   []*replica
	ready  int // replicas ready at the last pick
}

func newRouter(kind string, seed uint64) router {
	return router{kind: kind, random: newStream(seed)}
}

// pick is the ready replica with room that takes a client's next request; nil when none has room.
func (t *router) pick(replicas []*replica, client string) *replica {
	if t.kind == "" || t.kind == leastOutstanding {
		return t.least(replicas)
	}
	t.open, t.ready = t.open[:0], 0
	for _, r := range replicas {
		if r.state != ready {
			continue
		}
		t.ready++
		if !r.server.full() {
			t.open = append(t.open, r)
		}
	}
	if len(t.open) == 0 {
		return nil
	}
	switch t.kind {
	case roundRobin:
		t.last++
		return t.open[t.last%len(t.open)]
	case randomTwo:
		a, b := t.open[t.random.IntN(len(t.open))], t.open[t.random.IntN(len(t.open))]
		if b.server.load() < a.server.load() {
			return b
		}
		return a
	}
	return t.affine(client)
}

// least is the replica with the fewest requests, the oldest of equals.
func (t *router) least(replicas []*replica) *replica {
	var best *replica
	least := 0
	t.ready = 0
	for _, r := range replicas {
		if r.state != ready {
			continue
		}
		t.ready++
		if load := r.server.load(); (best == nil || load < least) && !r.server.full() {
			best, least = r, load
		}
	}
	return best
}

// affine is the replica with the highest hash for the client among those that are not overloaded.
func (t *router) affine(client string) *replica {
	total := 1
	for _, r := range t.open {
		total += r.server.load()
	}
	bound := affineOverload * float64(total) / float64(len(t.open))
	var best *replica
	var highest uint64
	for _, r := range t.open {
		if float64(r.server.load()) > bound {
			continue
		}
		if h := mix(nameSeed(client), r.number); best == nil || h > highest {
			best, highest = r, h
		}
	}
	return best
}
