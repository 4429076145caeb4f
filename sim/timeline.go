package sim

// actor is something that acts at instants: the clients of a model, a replica, a node, an autoscaler. It has one next
// instant, which moves whenever its circumstances change.
type actor struct {
	at   int64 // Unix nanoseconds, never when it waits for others
	id   uint64
	pos  int // in the timeline, -1 outside
	fire func()
}

// timeline is a heap of actors with the next instant in front. Ties go to the actor that was created first, so that the
// order of events does not depend on the heap's history.
type timeline struct {
	actors []*actor
	made   uint64
}

func (t *timeline) add(fire func()) *actor {
	t.made++
	return &actor{at: never, id: t.made, pos: -1, fire: fire}
}

// set moves an actor's next instant; never takes it out.
func (t *timeline) set(a *actor, at int64) {
	a.at = at
	switch {
	case at == never && a.pos >= 0:
		t.remove(a.pos)
	case at == never:
	case a.pos < 0:
		a.pos = len(t.actors)
		t.actors = append(t.actors, a)
		t.up(a.pos)
	default:
		t.down(a.pos)
		t.up(a.pos)
	}
}

// first is the actor with the next instant, nil when all wait.
func (t *timeline) first() *actor {
	if len(t.actors) == 0 {
		return nil
	}
	return t.actors[0]
}

func (t *timeline) remove(i int) {
	last := len(t.actors) - 1
	t.actors[i].pos = -1
	moved := t.actors[last]
	t.actors[last] = nil
	t.actors = t.actors[:last]
	if i == last {
		return
	}
	t.actors[i] = moved
	moved.pos = i
	t.down(i)
	t.up(moved.pos)
}

func (t *timeline) before(i, j int) bool {
	a, b := t.actors[i], t.actors[j]
	return a.at < b.at || a.at == b.at && a.id < b.id
}

func (t *timeline) swap(i, j int) {
	t.actors[i], t.actors[j] = t.actors[j], t.actors[i]
	t.actors[i].pos, t.actors[j].pos = i, j
}

func (t *timeline) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t *timeline) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t.actors) {
			return
		}
		if child+1 < len(t.actors) && t.before(child+1, child) {
			child++
		}
		if !t.before(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}
