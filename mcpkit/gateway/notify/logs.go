package notify

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// levels of log messages, the least severe first (2025-11-25,
// server/utilities/logging).
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const noLogs = 1 << 10 // above every level

// SetLevel has a subscriber hear log messages of a level, given as JSON, and above.
// It reports false where there is no such level.
func (h *Hub) SetLevel(ctx context.Context, s *Subscriber, raw []byte) bool {
	level := levelOf(raw)
	if level == noLogs {
		return false
	}
	s.mu.Lock()
	s.level = level
	s.mu.Unlock()
	h.ensureLevels(ctx, s.view, level)
	return true
}

// levelOf is the level that a JSON value names, or noLogs.
func levelOf(raw []byte) int {
	name, _ := rpc.Text(raw)
	if i := slices.Index(levels, name); i >= 0 {
		return i
	}
	return noLogs
}

// logs is the least severe level of log messages that the subscriber hears.
func (s *Subscriber) logs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// levelTime is how long a server may take to accept a level of log messages.
const levelTime = 5 * time.Second

// ensureLevels has the servers of a view log at least at a level.
func (h *Hub) ensureLevels(ctx context.Context, v *view.View, level int) {
	var work sync.WaitGroup
	for name := range h.servers.Shown(v) {
		h.mu.Lock()
		now, asked := h.levels[name]
		enough := asked && now <= level
		if !enough {
			h.levels[name] = level
		}
		h.mu.Unlock()
		if enough {
			continue
		}
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, levelTime)
			defer cancel()
			if err := h.host.SetLogLevel(ctx, name, levels[level]); err != nil {
				h.log.Debug("a server does not log", "server", name, "error", err)
			}
		})
	}
	work.Wait()
}

// askForLogs has servers that have started since log what subscribers hear.
func (h *Hub) askForLogs(ctx context.Context) {
	h.mu.Lock()
	subscribers := slices.Collect(maps.Keys(h.subscribers))
	h.mu.Unlock()
	for _, s := range subscribers {
		if level := s.logs(); level < noLogs {
			h.ensureLevels(ctx, s.view, level)
		}
	}
}

// Call is a call of a client at a server, from [Hub.Enter] to Leave. While it is in
// flight, a log message of the server can be told to be about it.
type Call struct {
	hub    *Hub
	view   *view.View
	server string
	logs   *Subscriber // hears the log messages, if the client wants any
	left   bool
}

// Enter counts a call in flight at a server. Session is the subscriber of the
// call's session, or nil. The server's log messages go to the call's stream, from
// the level on that the request names in its _meta (raw, under the stateless
// protocol) or that the session asked for.
func (h *Hub) Enter(ctx context.Context, v *view.View, server string, out rpc.Stream, session *Subscriber, m *rpc.Message) Call {
	c := Call{hub: h, view: v, server: server}
	level := noLogs
	if !m.Stateless() {
		level = session.logs()
	} else if level = levelOf(m.Members.Meta.Level); level < noLogs {
		h.ensureLevels(ctx, v, level)
	}
	if level < noLogs {
		c.logs = &Subscriber{view: v, out: out, level: level, about: server, session: session}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[server] == nil {
		h.busy[server] = map[*view.View]int{}
	}
	h.busy[server][v]++
	if c.logs != nil {
		h.subscribers[c.logs] = true
	}
	return c
}

// settleTime is how long an answer waits for log messages that came before it.
const settleTime = time.Second

// Leave ends the call, once the log messages that came before the answer have been
// passed on. It may be called again.
func (c *Call) Leave(ctx context.Context) {
	if c.left {
		return
	}
	c.left = true
	h := c.hub
	if c.logs != nil {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		h.host.Settled(ctx, c.server)
		cancel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[c.server][c.view]--; h.busy[c.server][c.view] == 0 {
		delete(h.busy[c.server], c.view)
	}
	delete(h.subscribers, c.logs)
}

// message passes a server's log message on to those who asked for messages of its
// level: on the stream of a call in flight at that server, else to the subscribers
// of sessions and streams. A message does not say which call it is about, so that
// nobody hears it while several clients have calls at the server.
func (h *Hub) message(server string, params []byte) {
	level := levelOf(jsontext.Get(params, "level"))
	if level == noLogs {
		return
	}
	for _, s := range h.listeners(server) {
		if level >= s.logs() && s.view.Shows(server, h.servers.Alias(server)) {
			s.send("notifications/message", params)
		}
	}
}

// listeners are the subscribers that may hear what a server logs at the moment.
func (h *Hub) listeners(server string) []*Subscriber {
	h.mu.Lock()
	defer h.mu.Unlock()
	busy := h.busy[server]
	told := map[*Subscriber]bool{} // sessions that hear it on the stream of a call
	var out []*Subscriber
	for s := range h.subscribers {
		if s.about != server || len(busy) != 1 || s.session != nil && told[s.session] {
			continue
		}
		if s.session != nil {
			told[s.session] = true
		}
		out = append(out, s)
	}
	for s := range h.subscribers {
		if _, same := busy[s.view]; s.about == "" && !told[s] && (len(busy) == 0 || len(busy) == 1 && same) {
			out = append(out, s)
		}
	}
	return out
}
