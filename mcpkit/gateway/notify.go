package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/internal/jsonline"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// The lists that can change.
const (
	toolList = iota
	resourceList
	promptList
	lists
)

var listNames = [lists]string{"tools", "resources", "prompts"}

// levels of log messages, the least severe first (2025-11-25,
// server/utilities/logging).
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const noLogs = 1 << 10 // above every level

// ear is what one client hears unasked.
type ear struct {
	view  *View
	out   Stream
	tag   []byte // the id of the request that opened the stream, under the stateless protocol
	hears [lists]bool

	mu      sync.Mutex
	level   int               // of log messages
	watches map[string]func() // by the URI as the client knows it; ends the watch
}

// hear adds an ear; false: there are too many.
func (g *Gateway) hear(e *ear) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.ears) >= g.o.Limits.Listeners {
		return false
	}
	g.ears[e] = true
	return true
}

// forget removes an ear and ends its watches.
func (g *Gateway) forget(e *ear) {
	g.mu.Lock()
	delete(g.ears, e)
	g.mu.Unlock()
	e.mu.Lock()
	watches := e.watches
	e.watches = nil
	e.mu.Unlock()
	for _, end := range watches {
		end()
	}
}

// send is false where the client takes no more.
func (e *ear) send(method string, params []byte) bool {
	if e.out == nil {
		return true
	}
	if e.tag != nil {
		params = with(params, "_meta", append(append([]byte(`{"`+keySubscription+`":`), e.tag...), '}'))
	}
	return e.out.Send(notification(method, params))
}

// Observe takes what the platform observed. It does not wait.
func (g *Gateway) Observe(_ context.Context, s signal.Signal) error {
	switch s.Kind {
	case signal.CapabilityChanged:
		if c, ok := s.Data.(*signal.Capability); ok {
			g.mark(s.Server, slices.Index(listNames[:], c.List))
		}
	case signal.ServerStarted, signal.ServerStopped, signal.ServerCrashed, signal.ServerPermanentlyFailed:
		g.mark(s.Server, toolList, resourceList, promptList)
	case signal.Notification:
		if s.Method == "notifications/message" {
			g.message(s.Server, s.Params)
		}
	}
	return nil
}

// mark notes that lists of a server changed.
func (g *Gateway) mark(server string, which ...int) {
	g.mu.Lock()
	for _, i := range which {
		if i < 0 {
			continue
		}
		if g.changed[i] == nil {
			g.changed[i] = map[string]bool{}
		}
		g.changed[i][server] = true
	}
	g.mu.Unlock()
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// gatherTime is how long changes are gathered before clients are told.
const gatherTime = 50 * time.Millisecond

// Run tells clients of changes until ctx ends.
func (g *Gateway) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.news:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gatherTime):
		}
		g.tell()
	}
}

// tell sends list_changed to everybody who can see a server whose list changed.
func (g *Gateway) tell() {
	g.mu.Lock()
	changed := g.changed
	g.changed = [lists]map[string]bool{}
	ears := make([]*ear, 0, len(g.ears))
	for e := range g.ears {
		ears = append(ears, e)
	}
	g.mu.Unlock()
	for i, servers := range changed {
		for _, e := range ears {
			if !e.hears[i] {
				continue
			}
			for server := range servers {
				if e.view.server(server, g.alias(server)) {
					e.send("notifications/"+listNames[i]+"/list_changed", []byte("{}"))
					break
				}
			}
		}
	}
}

// enter counts a call in flight at a server, so that what the server logs
// meanwhile can be told to be about it. The function it returns ends that.
func (g *Gateway) enter(r *request, server string) func() {
	g.mu.Lock()
	if g.busy[server] == nil {
		g.busy[server] = map[*View]int{}
	}
	g.busy[server][r.c.view]++
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.busy[server][r.c.view]--; g.busy[server][r.c.view] == 0 {
			delete(g.busy[server], r.c.view)
		}
	}
}

// message passes a server's log message on to those who asked for messages of its
// level. A message does not say which call it is about, so while several clients
// have calls at the server none of them gets it.
func (g *Gateway) message(server string, params []byte) {
	name, _ := text(jsonline.Get(params, "level"))
	level := slices.Index(levels, name)
	if level < 0 {
		return
	}
	g.mu.Lock()
	busy := g.busy[server]
	var ears []*ear
	for e := range g.ears {
		if _, mine := busy[e.view]; len(busy) == 0 || len(busy) == 1 && mine {
			ears = append(ears, e)
		}
	}
	g.mu.Unlock()
	for _, e := range ears {
		e.mu.Lock()
		wanted := level >= e.level
		e.mu.Unlock()
		if wanted && e.view.server(server, g.alias(server)) {
			e.send("notifications/message", params)
		}
	}
}

// setLevel asks for log messages of a level and above.
func (r *request) setLevel(ctx context.Context) ([]byte, *Error) {
	name, _ := text(r.p.level)
	level := slices.Index(levels, name)
	if level < 0 {
		return nil, &Error{Code: codeInvalidParams, Message: "there is no such level of log messages"}
	}
	e := r.c.ear
	e.mu.Lock()
	e.level = level
	e.mu.Unlock()
	return r.reply(nil, 0), nil
}

const methodListen = "subscriptions/listen"

// listen opens a stream of what the client asks to hear (2026-07-28,
// subscriptions/listen). It ends with the request.
func (r *request) listen(ctx context.Context) ([]byte, *Error) {
	var want struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}
	if r.p.notifications == nil || json.Unmarshal(r.p.notifications, &want) != nil {
		return nil, &Error{Code: codeInvalidParams, Message: "params names no notifications to listen for"}
	}
	e := &ear{view: r.c.view, out: r.out, tag: r.ID, hears: [lists]bool{want.Tools, want.Resources, want.Prompts}, level: noLogs}
	agreed, _ := json.Marshal(want) // booleans and strings always marshal
	if !e.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), agreed...), '}')) {
		return nil, &Error{Code: codeInternal, Message: "the stream is closed"}
	}
	if !r.c.g.hear(e) {
		return nil, &Error{Code: codeBusy, Message: "the gateway has too many listeners"}
	}
	defer r.c.g.forget(e)
	<-ctx.Done()
	b := append([]byte(`{"jsonrpc":"2.0","id":`), r.ID...)
	b = append(append(b, `,"result":{"resultType":"complete","_meta":{"`+keySubscription+`":`...), r.ID...)
	return append(b, "}}}"...), nil
}
