// Package watches knows which resources of which servers somebody wants to hear of. It
// outlives the sessions with the servers, and neither subscribes nor hears anything
// itself.
package watches

import (
	"slices"
	"strings"
	"sync"
)

// MaxResources is how many resources of one server can be watched.
const MaxResources = 1000

// Registry is all watches. Its zero value is ready for use, by several goroutines.
type Registry struct {
	mu sync.Mutex
	by map[string]map[string][]*Entry // server, URI
}

// Entry is a watch of one resource.
type Entry struct {
	Server, URI string
	deliver     bool
	changed     chan struct{}
}

// Changed receives after each change; changes that come while nobody receives are
// one.
func (w *Entry) Changed() <-chan struct{} { return w.changed }

// Add makes a watch of a resource. first reports whether the resource has no other,
// and ok is false where there are too many.
func (t *Registry) Add(server, uri string, deliver bool) (w *Entry, first, ok bool) {
	w = &Entry{Server: server, URI: uri, deliver: deliver, changed: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.by[w.Server]
	if first = len(of[w.URI]) == 0; first && len(of) >= MaxResources {
		return nil, first, false
	}
	if of == nil {
		if t.by == nil {
			t.by = map[string]map[string][]*Entry{}
		}
		of = map[string][]*Entry{}
		t.by[w.Server] = of
	}
	of[w.URI] = append(of[w.URI], w)
	return w, first, true
}

// Remove ends a watch, and reports whether it was the last of its resource.
func (t *Registry) Remove(w *Entry) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.by[w.Server]
	i := slices.Index(of[w.URI], w)
	if i < 0 {
		return false
	}
	if of[w.URI] = slices.Delete(of[w.URI], i, i+1); len(of[w.URI]) > 0 {
		return false
	}
	if delete(of, w.URI); len(of) == 0 {
		delete(t.by, w.Server)
	}
	return true
}

// URIs are the watched resources of a server, sorted.
func (t *Registry) URIs(server string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for uri := range t.by[server] {
		out = append(out, uri)
	}
	slices.Sort(out)
	return out
}

// Changed tells the watches of a resource, and those of a resource that it is part of
// (2025-11-25, server/resources: "this might be a sub-resource"), that it has changed.
// It reports whether there are any, and whether one of them is for delivery.
func (t *Registry) Changed(server, uri string) (watched, deliver bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, list := range t.by[server] {
		if uri != of && !strings.HasPrefix(uri, strings.TrimSuffix(of, "/")+"/") {
			continue
		}
		for _, w := range list {
			watched, deliver = true, deliver || w.deliver
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
	}
	return watched, deliver
}
