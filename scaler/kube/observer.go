package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"forewarm/coldstart"
	"forewarm/planner"
)

// Observer keeps the cluster's facts. Its methods are safe for concurrent use, Observe apart, which is for one caller.
type Observer struct {
	cfg     Config
	clients Clients
	models  []Model
	log     *slog.Logger
	now     func() time.Time

	starts *startWatch
	logs   *startLogs
	gaps   map[gapKey]time.Time

	mu         sync.Mutex
	feeds      map[feedKey]*feed
	absent     map[string]bool // by kind
	problem    error           // of the latest discovery
	discovered chan struct{}   // closed when it has been tried once
	discover   sync.Once
	running    sync.WaitGroup
	life       context.Context // of Run, nil before
}

type feedKey struct{ kind, namespace string }

type gapKey struct{ model, fact string }

// Absence is a kind that is not installed in the cluster, and what is not known for that reason.
type Absence struct {
	Kind, Without string
}

// New returns an Observer that has not started. It validates cfg.
func New(clients Clients, cfg Config, models []Model, log *slog.Logger) (*Observer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o := &Observer{cfg: cfg, clients: clients, models: models, log: log, now: time.Now, starts: newStartWatch(),
		gaps: map[gapKey]time.Time{}, feeds: map[feedKey]*feed{}, absent: map[string]bool{},
		discovered: make(chan struct{})}
	o.logs = newStartLogs(log, time.Now)
	if cfg.StartLogs {
		o.logs.readsFrom(clients.Kube)
	}
	return o, nil
}

// AskForAnswers makes starts end with the first answer that f tells of, if it comes soon after readiness. It is called
// before Run.
func (o *Observer) AskForAnswers(f FirstAnswer) { o.logs.answer = f }

// TakeOver makes o go on with what another Observer of the same cluster has watched, which must not be asked any more
// once o is: a start under way at the change is told when it ends, and one that has ended is told by o. It is called before
// the first Observe of o. What the other one still reads about a start when its Run ends (its log, its first answer) is cut
// short: that start is told without it.
func (o *Observer) TakeOver(from *Observer) {
	o.starts = from.starts
	o.logs.takeOver(from.logs)
}

// discoverRetry is how soon a discovery that failed is tried again.
const discoverRetry = 10 * time.Second

// Run looks for the kinds and follows them until ctx ends; then it returns nil. An API server that cannot be reached is
// no error: the facts are unknown, and it is tried again.
func (o *Observer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer o.running.Wait()
	defer cancel()
	o.mu.Lock()
	o.life = ctx
	o.mu.Unlock()
	for {
		wait := o.cfg.Rediscover
		if err := o.lookForKinds(ctx); err != nil {
			wait = min(wait, discoverRetry)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// lookForKinds starts the feeds of kinds that have appeared and ends those of kinds that are gone.
func (o *Observer) lookForKinds(ctx context.Context) error {
	found, err := servedKinds(o.clients.Kube.Discovery())
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.discover.Do(func() { close(o.discovered) })
	if err != nil && (o.problem == nil || o.problem.Error() != err.Error()) {
		o.log.Error("the API server's kinds cannot be discovered", "error", err)
	}
	o.problem = err
	for _, k := range kinds {
		s, asked := found[k.id()]
		if !asked {
			continue // its group did not answer: what was known stays
		}
		if was, known := o.absent[k.id()]; !known || was != !s.served {
			o.log.Info("kind looked for", "kind", k.id(), "served", s.served, "version", s.gvr.Version)
		}
		o.absent[k.id()] = !s.served
		for _, ns := range o.namespacesOf(k) {
			key := feedKey{k.id(), ns}
			f := o.feeds[key]
			if f != nil && (!s.served || f.gvr != s.gvr) {
				f.stop()
				delete(o.feeds, key)
				f = nil
			}
			if f == nil && s.served && ctx.Err() == nil {
				o.feeds[key] = o.follow(ctx, k, s.gvr, ns)
			}
		}
	}
	return err
}

func (o *Observer) follow(ctx context.Context, k *kind, gvr schema.GroupVersionResource, namespace string) *feed {
	f := newFeed(k, gvr, namespace, o.now)
	ctx, f.stop = context.WithCancel(ctx)
	o.running.Go(func() { f.run(ctx, o.clients) })
	return f
}

func (o *Observer) namespacesOf(k *kind) []string {
	if k.everywhere || len(o.cfg.Namespaces) == 0 {
		return []string{""}
	}
	return o.cfg.Namespaces
}

// served says whether and as what a kind is offered.
type served struct {
	served bool
	gvr    schema.GroupVersionResource
}

// servedKinds asks the API server which kinds it serves. A kind is left out of the answer when its group could not be
// asked: that is not the same as absent.
func servedKinds(api discovery.DiscoveryInterface) (map[string]served, error) {
	groups, err := api.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("discovering API groups: %w", err)
	}
	offered := map[string][]string{} // group → versions, the preferred one first
	for i := range groups.Groups {
		g := &groups.Groups[i]
		versions := []string{g.PreferredVersion.Version}
		for _, v := range g.Versions {
			versions = append(versions, v.Version)
		}
		offered[g.Name] = versions
	}
	out := map[string]served{}
	var errs []error
	lists := map[schema.GroupVersion]map[string]bool{}
	for _, k := range kinds {
		s, err := k.find(api, offered[k.group], lists)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out[k.id()] = s
	}
	return out, errors.Join(errs...)
}

// find looks for the kind in the versions that its group offers, the known ones first.
func (k *kind) find(api discovery.DiscoveryInterface, offered []string, lists map[schema.GroupVersion]map[string]bool) (served, error) {
	var order []string
	for _, v := range append(slices.Clone(k.versions), offered...) {
		if v != "" && slices.Contains(offered, v) && !slices.Contains(order, v) {
			order = append(order, v)
		}
	}
	for _, v := range order {
		gv := schema.GroupVersion{Group: k.group, Version: v}
		if lists[gv] == nil {
			list, err := api.ServerResourcesForGroupVersion(gv.String())
			if err != nil {
				return served{}, fmt.Errorf("discovering %s: %w", gv, err)
			}
			lists[gv] = map[string]bool{}
			for i := range list.APIResources {
				lists[gv][list.APIResources[i].Name] = true
			}
		}
		if lists[gv][k.resource] {
			return served{true, gv.WithResource(k.resource)}, nil
		}
	}
	return served{}, nil
}

// Wait returns when every kind has been looked for and its first list has come or failed, or with ctx's error.
func (o *Observer) Wait(ctx context.Context) error {
	select {
	case <-o.discovered:
	case <-ctx.Done():
		return ctx.Err()
	}
	o.mu.Lock()
	feeds := make([]*feed, 0, len(o.feeds))
	for _, f := range o.feeds {
		feeds = append(feeds, f)
	}
	o.mu.Unlock()
	for _, f := range feeds {
		select {
		case <-f.settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Absences returns the kinds that are not installed, sorted.
func (o *Observer) Absences() []Absence {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []Absence
	for _, k := range kinds {
		if o.absent[k.id()] {
			out = append(out, Absence{k.id(), k.without})
		}
	}
	slices.SortFunc(out, func(a, b Absence) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

// Observe returns the facts of every model and of the hardware at now. Load and signals are left to other sources. What
// is not known is nil with a Gap. It returns an error only when nothing is known yet.
func (o *Observer) Observe(_ context.Context, now time.Time) (planner.Observation, error) {
	w := o.world(now)
	if reason := w.nothing(); reason != "" {
		return planner.Observation{}, fmt.Errorf("observing the cluster: %s", reason)
	}
	obs := planner.Observation{At: now}
	open := map[gapKey]bool{}
	add := func(model, fact, detail string) {
		if detail != "" {
			obs.Gaps = append(obs.Gaps, o.gap(open, now, model, fact, detail))
		}
	}
	targets := w.targets(o.models)
	owned := w.owned(targets)
	o.starts.begin(now)
	for _, m := range o.models {
		found := w.replicas(m, targets[m.Name], owned, o.starts.wasReady)
		mo := planner.ModelObservation{Name: m.Name, Replicas: found.replicas, Actuator: w.actuator(m.Name)}
		add(m.Name, "replicas", found.problem)
		mo.Starts = o.told(m.Name, o.starts.look(m.Name, w, found, now))
		obs.Models = append(obs.Models, mo)
	}
	o.starts.end()
	var problem string
	obs.Inventory, problem = w.inventory(o.models, targets)
	add("", "inventory", problem)
	obs.Quotas, problem = w.quotas(targets, obs.Inventory)
	add("", "quotas", problem)
	obs.Cohorts, problem = w.sharedQuotas(obs.Inventory)
	add("", "cohorts", problem)
	for key := range o.gaps {
		if !open[key] {
			delete(o.gaps, key)
		}
	}
	return obs, nil
}

// told is what can be told of a model's starts now: those that have ended, or with logs those whose log has been read.
func (o *Observer) told(model string, ended []ended) []coldstart.Sample {
	o.mu.Lock()
	life := o.life
	o.mu.Unlock()
	if life != nil && life.Err() == nil {
		return o.logs.through(model, ended, func(f func(context.Context)) { o.running.Go(func() { f(life) }) })
	}
	var out []coldstart.Sample
	for _, e := range ended {
		out = append(out, e.Sample)
	}
	return out
}

// gap returns a Gap that is open since the first time it was seen in a row.
func (o *Observer) gap(open map[gapKey]bool, now time.Time, model, fact, detail string) planner.Gap {
	key := gapKey{model, fact}
	open[key] = true
	if _, ok := o.gaps[key]; !ok {
		o.gaps[key] = now
	}
	return planner.Gap{Model: model, Fact: fact, Since: o.gaps[key], Detail: detail}
}

// summary joins reasons, a few of them in full.
func summary(reasons []string) string {
	const shown = 3
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	if len(reasons) > shown {
		reasons = append(slices.Clone(reasons[:shown]), fmt.Sprintf("and %d more", len(reasons)-shown))
	}
	return strings.Join(reasons, "; ")
}
