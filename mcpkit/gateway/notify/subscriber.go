package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// Subscriber is a session, a stream or a call for which a client hears of changes
// and of log messages.
type Subscriber struct {
	view    *view.View
	out     rpc.Stream
	tag     []byte // the id of the request that opened the stream, under the stateless protocol
	changes [lists]bool

	// Of a call in flight: the server whose log messages are heard, and the session
	// that does not hear them a second time.
	about   string
	session *Subscriber

	mu      sync.Mutex
	removed bool
	level   int               // of log messages
	watches map[string]func() // each ends a watch, by the URI that the client knows
}

// NewSubscriber makes a Subscriber that hears of nothing yet. What it hears goes to
// out; nil drops it.
func NewSubscriber(v *view.View, out rpc.Stream) *Subscriber {
	return &Subscriber{view: v, out: out, level: noLogs}
}

// HearLists has a subscriber that is not added yet hear of changes of all lists.
func (s *Subscriber) HearLists() { s.changes = [lists]bool{true, true, true} }

// send sends a notification. It reports false where the client takes no more.
func (s *Subscriber) send(method string, params []byte) bool {
	if s.out == nil {
		return true
	}
	if s.tag != nil {
		params = rpc.With(params, "_meta", append(append([]byte(`{"`+rpc.KeySubscription+`":`), s.tag...), '}'))
	}
	return s.out.Send(rpc.Notification(method, params))
}

// end ends the watches; there will be no others.
func (s *Subscriber) end() {
	s.mu.Lock()
	watches := s.watches
	s.watches, s.removed = nil, true
	s.mu.Unlock()
	for _, end := range watches {
		end()
	}
}

// Unwatch ends the watch of the resource with a URI, if there is one.
func (s *Subscriber) Unwatch(uri string) {
	s.mu.Lock()
	end := s.watches[uri]
	delete(s.watches, uri)
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

// Watch has a subscriber hear of changes of the resource that its client knows by
// uri. The function it returns begins that; it is nil where the subscriber hears of
// the changes already.
func (h *Hub) Watch(ctx context.Context, s *Subscriber, uri string, from view.Origin) (begin func(), _ *rpc.Error) {
	s.mu.Lock()
	_, already := s.watches[uri]
	full := len(s.watches) >= h.limits.Watches
	s.mu.Unlock()
	switch {
	case already:
		return nil, nil
	case full:
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: fmt.Sprintf("a client may subscribe to %d resources", h.limits.Watches)}
	}
	w, err := h.host.WatchResource(ctx, from.Server, from.Name, false)
	if err != nil {
		return nil, rpc.ErrorOf(err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	begin = sync.OnceFunc(func() {
		go func() {
			defer close(ended)
			params := append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}')
			for {
				select {
				case <-w.Changed():
					s.send("notifications/resources/updated", params)
				case <-over:
					return
				}
			}
		}()
	})
	end := sync.OnceFunc(func() {
		begin() // so that there is an end to wait for
		close(over)
		<-ended
		w.Close()
	})
	s.mu.Lock()
	_, already = s.watches[uri]
	late := already || s.removed
	if !late {
		if s.watches == nil {
			s.watches = map[string]func(){}
		}
		s.watches[uri] = end
	}
	s.mu.Unlock()
	if late {
		end()
		return nil, nil
	}
	return begin, nil
}

// Listen answers subscriptions/listen: it opens the stream of what the client asks
// to hear and holds it until ctx ends (2026-07-28, subscriptions/listen).
func (h *Hub) Listen(ctx context.Context, v *view.View, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	var want struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}
	if m.Members.Notifications == nil || json.Unmarshal(m.Members.Notifications, &want) != nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "params names no notifications to listen for"}
	}
	s := NewSubscriber(v, out)
	s.tag, s.changes = m.ID, [lists]bool{want.Tools, want.Resources, want.Prompts}
	defer h.Remove(s)
	var begin []func()
	agreed := want.URIs[:0]
	for _, uri := range want.URIs {
		from, err := h.servers.Resource(v, uri)
		if err != nil {
			continue
		}
		w, err := h.Watch(ctx, s, uri, from)
		if err != nil {
			h.log.Debug("a resource cannot be subscribed to", "uri", uri, "error", err.Message)
			continue
		}
		if agreed = append(agreed, uri); w != nil {
			begin = append(begin, w)
		}
	}
	want.URIs = agreed
	honoured, _ := json.Marshal(want) // booleans and strings always marshal
	if !s.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), honoured...), '}')) {
		return nil, &rpc.Error{Code: rpc.CodeInternal, Message: "the stream is closed"}
	}
	if !h.Add(s) {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many listeners"}
	}
	for _, begin := range begin {
		begin()
	}
	<-ctx.Done()
	return rpc.Result(m.ID, append(append([]byte(`{"resultType":"complete","_meta":{"`+rpc.KeySubscription+`":`), m.ID...), "}}"...)), nil
}
