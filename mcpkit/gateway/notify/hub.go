// Package notify tells clients of the gateway what they did not ask for at that
// moment: that lists changed, that resources changed, and what servers log.
//
//	hub := notify.NewHub(host, directory, notify.Limits{Subscribers: 1024, Watches: 100}, logger)
//	go hub.Run(ctx)
//	hub.Add(notify.NewSubscriber(v, stream))
//
// It learns of changes through [Hub.Observe]. It answers no request, except that
// [Hub.Listen] holds the stream of subscriptions/listen.
package notify

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Host is what a Hub needs of the gate.
type Host interface {
	WatchResource(ctx context.Context, server, uri string, deliver bool) (*client.Watch, error)
	SetLogLevel(ctx context.Context, server, level string) error
	Settled(ctx context.Context, server string)
}

// Limits bound what a Hub holds.
type Limits struct {
	Subscribers int
	Watches     int // of resources, of one subscriber
}

// Hub has the subscribers of all clients. It is safe for concurrent use.
type Hub struct {
	host    Host
	servers *view.Directory
	limits  Limits
	log     *slog.Logger
	news    chan struct{} // capacity 1: a list changed

	mu          sync.Mutex
	subscribers map[*Subscriber]bool
	busy        map[string]map[*view.View]int // calls in flight, by server
	changed     [lists]map[string]bool        // servers, by list
	levels      map[string]int                // the level that each server was asked to log at
}

// NewHub makes a Hub without subscribers.
func NewHub(host Host, servers *view.Directory, limits Limits, log *slog.Logger) *Hub {
	return &Hub{
		host: host, servers: servers, limits: limits, log: log, news: make(chan struct{}, 1),
		subscribers: map[*Subscriber]bool{}, busy: map[string]map[*view.View]int{}, levels: map[string]int{},
	}
}

// Add has a subscriber hear of changes; false: there are too many subscribers.
func (h *Hub) Add(s *Subscriber) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subscribers) >= h.limits.Subscribers {
		return false
	}
	h.subscribers[s] = true
	return true
}

// Remove removes a subscriber, added or not, and ends its watches.
func (h *Hub) Remove(s *Subscriber) {
	h.mu.Lock()
	delete(h.subscribers, s)
	h.mu.Unlock()
	s.end()
}

// Observe takes what the platform observed. It does not wait.
func (h *Hub) Observe(s signal.Signal) {
	switch s.Kind {
	case signal.CapabilityChanged:
		if c, ok := s.Data.(*signal.Capability); ok {
			h.mark(s.Server, slices.Index(listNames[:], c.List))
		}
	case signal.ServerStarted:
		h.mu.Lock()
		delete(h.levels, s.Server) // the process that was asked for a level is gone
		h.mu.Unlock()
		h.mark(s.Server, toolList, resourceList, promptList)
	case signal.ServerStopped, signal.ServerCrashed, signal.ServerPermanentlyFailed:
		h.mark(s.Server, toolList, resourceList, promptList)
	case signal.Notification:
		if s.Method == "notifications/message" {
			h.message(s.Server, s.Params)
		}
	}
}

// The lists that can change.
const (
	toolList = iota
	resourceList
	promptList
	lists
)

var listNames = [lists]string{"tools", "resources", "prompts"}

// mark notes that lists of a server changed.
func (h *Hub) mark(server string, which ...int) {
	h.mu.Lock()
	for _, i := range which {
		if i < 0 {
			continue
		}
		if h.changed[i] == nil {
			h.changed[i] = map[string]bool{}
		}
		h.changed[i][server] = true
	}
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// gatherTime is how long changes are gathered before clients are told.
const gatherTime = 50 * time.Millisecond

// Run tells clients of changes until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.news:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gatherTime):
		}
		h.tell()
		h.askForLogs(ctx)
	}
}

// tell sends list_changed to every subscriber that sees a server whose list changed.
func (h *Hub) tell() {
	h.mu.Lock()
	changed := h.changed
	h.changed = [lists]map[string]bool{}
	subscribers := slices.Collect(maps.Keys(h.subscribers))
	h.mu.Unlock()
	for i, servers := range changed {
		aliases := map[string]string{}
		for server := range servers {
			aliases[server] = h.servers.Alias(server)
		}
		for _, s := range subscribers {
			if !s.changes[i] {
				continue
			}
			for server, alias := range aliases {
				if s.view.Shows(server, alias) {
					s.send("notifications/"+listNames[i]+"/list_changed", []byte("{}"))
					break
				}
			}
		}
	}
}
