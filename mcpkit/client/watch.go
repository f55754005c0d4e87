package client

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const maxWatched = 1000 // resources of one server

// Watch tells of changes of one resource until Close. It outlives the session:
// the next one of that server subscribes again and, as nobody knows what was
// missed, tells of a change. Its methods are safe for concurrent use.
type Watch struct {
	m           *Manager
	server, uri string
	deliver     bool
	c           chan struct{}
}

// Changed receives after each change; changes that come while nobody receives
// are one.
func (w *Watch) Changed() <-chan struct{} { return w.c }

// watches are the resources that somebody wants to hear of, by server.
type watches struct {
	mu sync.Mutex
	by map[string]map[string][]*Watch // server, URI
}

// Watch subscribes to a resource (2025-11-25, resources/subscribe; 2026-07-28,
// subscriptions/listen) and returns when the server has agreed. With deliver each
// change is also a signal that a Brain is to see; without, it is for the record
// alone. The error is a *fault.Error.
func (m *Manager) Watch(ctx context.Context, server, uri string, deliver bool) (*Watch, error) {
	s, err := m.Ready(server)
	if err != nil {
		return nil, err
	}
	if !s.Capabilities().Subscribe {
		return nil, fault.New(fault.Protocol, "server %s offers no subscriptions to resources", server)
	}
	w := &Watch{m, s.Server(), uri, deliver, make(chan struct{}, 1)}
	first, ok := m.watches.add(w)
	if !ok {
		return nil, fault.New(fault.Busy, "%d resources of server %s are watched already", maxWatched, server)
	}
	if first || s.Stateless() {
		if err := s.Subscribe(ctx, uri); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// Close ends the watch. The last one of a resource ends the subscription.
func (w *Watch) Close() {
	if !w.m.watches.remove(w) {
		return
	}
	if s := w.m.Session(w.server); s != nil {
		s.Unsubscribe(w.uri)
	}
}

// add reports whether w is the first of its resource, and false where there are
// too many.
func (t *watches) add(w *Watch) (first, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.by[w.server]
	if first = len(of[w.uri]) == 0; first && len(of) >= maxWatched {
		return first, false
	}
	if of == nil {
		if t.by == nil {
			t.by = map[string]map[string][]*Watch{}
		}
		of = map[string][]*Watch{}
		t.by[w.server] = of
	}
	of[w.uri] = append(of[w.uri], w)
	return first, true
}

// remove reports whether w was the last of its resource.
func (t *watches) remove(w *Watch) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.by[w.server]
	i := slices.Index(of[w.uri], w)
	if i < 0 {
		return false
	}
	if of[w.uri] = slices.Delete(of[w.uri], i, i+1); len(of[w.uri]) > 0 {
		return false
	}
	if delete(of, w.uri); len(of) == 0 {
		delete(t.by, w.server)
	}
	return true
}

// uris are the watched resources of a server, sorted.
func (t *watches) uris(server string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for uri := range t.by[server] {
		out = append(out, uri)
	}
	slices.Sort(out)
	return out
}

// wake tells the watches of a resource, or of one that it is part of
// (2025-11-25, server/resources: "this might be a sub-resource").
func (t *watches) wake(server, uri string) (watched, deliver bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, list := range t.by[server] {
		if uri != of && !strings.HasPrefix(uri, strings.TrimSuffix(of, "/")+"/") {
			continue
		}
		for _, w := range list {
			watched, deliver = true, deliver || w.deliver
			select {
			case w.c <- struct{}{}:
			default:
			}
		}
	}
	return watched, deliver
}
