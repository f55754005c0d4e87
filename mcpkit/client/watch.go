package client

import (
	"context"

	"github.com/aurorabot-dev/platform/mcpkit/client/internal/watches"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

// Watch tells of changes of one resource until Close. It outlives the session:
// the next one of that server subscribes again and, as nobody knows what was
// missed, tells of a change. Its methods are safe for concurrent use.
type Watch struct {
	*watches.Entry
	m *Manager
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
	entry, first, ok := m.watches.Add(s.Server(), uri, deliver)
	if !ok {
		return nil, fault.New(fault.Busy, "%d resources of server %s are watched already", watches.MaxResources, server)
	}
	w := &Watch{entry, m}
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
	if !w.m.watches.Remove(w.Entry) {
		return
	}
	if s := w.m.Session(w.Server); s != nil {
		s.Unsubscribe(w.URI)
	}
}
