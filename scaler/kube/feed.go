package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// feed keeps the objects of one kind, in one namespace or in all, up to date. It is the store that a reflector fills,
// and knows whether what it holds can be trusted.
type feed struct {
	kind      *kind
	gvr       schema.GroupVersionResource
	namespace string
	now       func() time.Time
	stop      context.CancelFunc
	settled   chan struct{} // closed when the first list has come or failed
	settle    sync.Once

	mu     sync.Mutex
	items  map[string]any
	unread map[string]error // objects that could not be converted
	synced bool
	err    error     // of the latest list or watch, nil when it works
	broken time.Time // since when it does not
}

var _ cache.TransformingStore = (*feed)(nil)

func newFeed(k *kind, gvr schema.GroupVersionResource, namespace string, now func() time.Time) *feed {
	return &feed{kind: k, gvr: gvr, namespace: namespace, now: now, settled: make(chan struct{}),
		items: map[string]any{}, unread: map[string]error{}}
}

// run lists and watches until ctx ends.
func (f *feed) run(ctx context.Context, c Clients) {
	source := f.kind.source(c, f.gvr, f.namespace)
	r := cache.NewReflectorWithOptions(&observedSource{source, f}, f.kind.expect, f,
		cache.ReflectorOptions{Name: f.kind.id(), TypeDescription: f.kind.id()})
	r.RunWithContext(ctx)
}

// unknown says why the feed's objects are not known at now; empty when they are.
func (f *feed) unknown(now time.Time, staleAfter time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.synced && f.err != nil:
		return fmt.Sprintf("%s cannot be read: %v", f.kind.id(), f.err)
	case !f.synced:
		return f.kind.id() + " have not been read yet"
	case f.err != nil && now.Sub(f.broken) > staleAfter:
		return fmt.Sprintf("%s are not followed since %s: %v", f.kind.id(), f.broken.UTC().Format(time.RFC3339), f.err)
	}
	return ""
}

// outcome notes how a list or watch call went.
func (f *feed) outcome(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	if err != nil && f.err == nil {
		f.broken = f.now()
	}
	f.err = err
	f.mu.Unlock()
	if err != nil {
		f.settle.Do(func() { close(f.settled) })
	}
}

// Transformer converts objects before client-go keeps any of them.
func (f *feed) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		converted, err := f.kind.convert(obj)
		if err != nil || converted == nil {
			return obj, nil //nolint:nilerr // put reports it with the object's key, and the others must still come
		}
		return converted, nil
	}
}

// put converts and keeps one object. One that cannot be read is remembered as such and takes nothing from the others.
func (f *feed) put(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	converted, err := f.kind.convert(obj)
	if err != nil {
		delete(f.items, key)
		f.unread[key] = err
		return nil
	}
	delete(f.unread, key)
	if converted == nil {
		delete(f.items, key)
		return nil
	}
	f.items[key] = converted
	return nil
}

// Add keeps a new object.
func (f *feed) Add(obj any) error { return f.Update(obj) }

// Update keeps a changed object.
func (f *feed) Update(obj any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.put(obj)
}

// Delete forgets an object.
func (f *feed) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.items, key)
	delete(f.unread, key)
	return nil
}

// Replace keeps a whole list and nothing else.
func (f *feed) Replace(list []any, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items, f.unread = make(map[string]any, len(list)), map[string]error{}
	for _, obj := range list {
		if err := f.put(obj); err != nil {
			return err
		}
	}
	f.synced, f.err = true, nil
	f.settle.Do(func() { close(f.settled) })
	return nil
}

// Resync does nothing: there is nothing to be told again.
func (f *feed) Resync() error { return nil }

// listed appends the feed's objects of one converted type.
func listed[F any](f *feed, to []*F) []*F {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, item := range f.items {
		if o, ok := item.(*F); ok {
			to = append(to, o)
		}
	}
	return to
}

// observedSource tells a feed how the calls to the API server go. A watch that was opened works until it ends: the
// connection is probed by HTTP/2 pings of client-go.
type observedSource struct {
	cache.ListerWatcher
	feed *feed
}

func (s *observedSource) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s *observedSource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext lists and notes a failure; a success counts when the list has been kept.
func (s *observedSource) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := cache.ToListerWatcherWithContext(s.ListerWatcher).ListWithContext(ctx, o)
	if err != nil {
		s.feed.outcome(err)
	}
	return list, err
}

// WatchWithContext opens a watch and notes how that went.
func (s *observedSource) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := cache.ToListerWatcherWithContext(s.ListerWatcher).WatchWithContext(ctx, o)
	s.feed.outcome(err)
	return w, err
}

// IsWatchListSemanticsUnSupported passes on what the client says, which client-go asks by this name.
func (s *observedSource) IsWatchListSemanticsUnSupported() bool {
	u, ok := s.ListerWatcher.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && u.IsWatchListSemanticsUnSupported()
}
