package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
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

// subscriber is what one client hears unasked.
type subscriber struct {
	view    *View
	out     rpc.Stream
	tag     []byte // the id of the request that opened the stream, under the stateless protocol
	changes [lists]bool
	about   string      // of a call in flight: the server whose log messages are heard,
	of      *subscriber // and the session's or request's subscriber

	mu      sync.Mutex
	removed bool              // it was forgotten
	level   int               // of log messages
	watches map[string]func() // by the URI as the client knows it; ends the watch
}

// add adds a subscriber; false: there are too many.
func (g *Gateway) add(e *subscriber) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.subscribers) >= g.o.Limits.Listeners {
		return false
	}
	g.subscribers[e] = true
	return true
}

// remove removes a subscriber and ends its watches.
func (g *Gateway) remove(e *subscriber) {
	g.mu.Lock()
	delete(g.subscribers, e)
	g.mu.Unlock()
	e.mu.Lock()
	watches := e.watches
	e.watches, e.removed = nil, true
	e.mu.Unlock()
	for _, end := range watches {
		end()
	}
}

// send is false where the client takes no more.
func (e *subscriber) send(method string, params []byte) bool {
	if e.out == nil {
		return true
	}
	if e.tag != nil {
		params = rpc.With(params, "_meta", append(append([]byte(`{"`+rpc.KeySubscription+`":`), e.tag...), '}'))
	}
	return e.out.Send(rpc.Notification(method, params))
}

// Observe takes what the platform observed. It does not wait.
func (g *Gateway) Observe(_ context.Context, s signal.Signal) error {
	switch s.Kind {
	case signal.CapabilityChanged:
		if c, ok := s.Data.(*signal.Capability); ok {
			g.mark(s.Server, slices.Index(listNames[:], c.List))
		}
	case signal.ServerStarted:
		g.mu.Lock()
		delete(g.levels, s.Server) // it was asked as another process
		g.mu.Unlock()
		g.mark(s.Server, toolList, resourceList, promptList)
	case signal.ServerStopped, signal.ServerCrashed, signal.ServerPermanentlyFailed:
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

// Run tells clients of changes until ctx ends, and then ends what goes on for them.
func (g *Gateway) Run(ctx context.Context) {
	defer g.close()
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
		g.askForLogs(ctx)
	}
}

// askForLogs has servers that have started since log what somebody wants to hear.
func (g *Gateway) askForLogs(ctx context.Context) {
	g.mu.Lock()
	subscribers := slices.Collect(maps.Keys(g.subscribers))
	g.mu.Unlock()
	for _, e := range subscribers {
		if level := e.wants(); level < noLogs {
			g.ensureLevels(ctx, e.view, level)
		}
	}
}

// tell sends list_changed to everybody who can see a server whose list changed.
func (g *Gateway) tell() {
	g.mu.Lock()
	changed := g.changed
	g.changed = [lists]map[string]bool{}
	subscribers := slices.Collect(maps.Keys(g.subscribers))
	g.mu.Unlock()
	for i, servers := range changed {
		aliases := map[string]string{}
		for server := range servers {
			aliases[server] = g.alias(server)
		}
		for _, e := range subscribers {
			if !e.changes[i] {
				continue
			}
			for server, alias := range aliases {
				if e.view.server(server, alias) {
					e.send("notifications/"+listNames[i]+"/list_changed", []byte("{}"))
					break
				}
			}
		}
	}
}

// enter counts a call in flight at a server, so that what the server logs
// meanwhile can be told to be about it, and has that go to the call's stream where
// the client wants it. The function it returns ends that, once what was logged
// before the answer has come; it may be called again.
func (g *Gateway) enter(ctx context.Context, r *request, server string) func() {
	var during *subscriber
	level := r.c.subscriber.wants()
	if r.modern {
		level = noLogs
		if name, ok := rpc.Text(r.Members.Meta.Level); ok {
			if i := slices.Index(levels, name); i >= 0 {
				level = i
				g.ensureLevels(ctx, r.c.view, level)
			}
		}
	}
	if level < noLogs {
		during = &subscriber{view: r.c.view, out: r.out, level: level, about: server, of: r.c.subscriber}
	}
	g.mu.Lock()
	if g.busy[server] == nil {
		g.busy[server] = map[*View]int{}
	}
	g.busy[server][r.c.view]++
	if during != nil {
		g.subscribers[during] = true
	}
	g.mu.Unlock()
	return sync.OnceFunc(func() {
		if during != nil {
			ctx, cancel := context.WithTimeout(ctx, settleTime)
			g.o.Host.Settled(ctx, server)
			cancel()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.busy[server][r.c.view]--; g.busy[server][r.c.view] == 0 {
			delete(g.busy[server], r.c.view)
		}
		if during != nil {
			delete(g.subscribers, during)
		}
	})
}

// settleTime is how long an answer waits for log messages that came before it.
const settleTime = time.Second

// message passes a server's log message on to those who asked for messages of its
// level: on the stream of a call in flight at that server, else as what is said
// unasked. A message does not say which call it is about, so while several clients
// have calls at the server none of them gets it.
func (g *Gateway) message(server string, params []byte) {
	name, _ := rpc.Text(jsontext.Get(params, "level"))
	level := slices.Index(levels, name)
	if level < 0 {
		return
	}
	g.mu.Lock()
	busy := g.busy[server]
	told := map[*subscriber]bool{} // sessions that hear it on the stream of a call
	var subscribers []*subscriber
	for e := range g.subscribers {
		if e.about == server && !told[e.of] && len(busy) == 1 {
			told[e.of] = true
			subscribers = append(subscribers, e)
		}
	}
	for e := range g.subscribers {
		if _, mine := busy[e.view]; e.about == "" && !told[e] && (len(busy) == 0 || len(busy) == 1 && mine) {
			subscribers = append(subscribers, e)
		}
	}
	g.mu.Unlock()
	for _, e := range subscribers {
		if level >= e.wants() && e.view.server(server, g.alias(server)) {
			e.send("notifications/message", params)
		}
	}
}

// wants is the level of log messages that are heard.
func (e *subscriber) wants() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.level
}

// ensureLevels has the servers of a view log at least at a level.
func (g *Gateway) ensureLevels(ctx context.Context, v *View, level int) {
	var work sync.WaitGroup
	for name := range g.servers(v) {
		g.mu.Lock()
		now, asked := g.levels[name]
		enough := asked && now <= level
		if !enough {
			g.levels[name] = level
		}
		g.mu.Unlock()
		if enough {
			continue
		}
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, levelTime)
			defer cancel()
			if err := g.o.Host.SetLogLevel(ctx, name, levels[level]); err != nil {
				g.log.Debug("a server does not log", "server", name, "error", err)
			}
		})
	}
	work.Wait()
}

const levelTime = 5 * time.Second // for a server to take a level of log messages

// setLevel asks for log messages of a level and above.
func (r *request) setLevel(ctx context.Context) ([]byte, *rpc.Error) {
	name, _ := rpc.Text(r.Members.Level)
	level := slices.Index(levels, name)
	if level < 0 {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no such level of log messages"}
	}
	e := r.c.subscriber
	e.mu.Lock()
	e.level = level
	e.mu.Unlock()
	r.c.g.ensureLevels(ctx, r.c.view, level)
	return r.reply(nil, 0), nil
}

// subscribe has a session hear of changes of a resource.
func (r *request) subscribe(ctx context.Context) ([]byte, *rpc.Error) {
	from, err := r.resource(r.Members.URI)
	if err != nil {
		return nil, err
	}
	e := r.c.subscriber
	w, err := r.c.g.watch(ctx, e, r.Members.URI, from)
	if err != nil {
		return nil, err
	}
	if w != nil {
		w()
	}
	return r.reply(nil, 0), nil
}

func (r *request) unsubscribe() ([]byte, *rpc.Error) {
	e := r.c.subscriber
	e.mu.Lock()
	end := e.watches[r.Members.URI]
	delete(e.watches, r.Members.URI)
	e.mu.Unlock()
	if end != nil {
		end()
	}
	return r.reply(nil, 0), nil
}

// watch has a subscriber hear of changes of a resource. The function it returns begins
// that; it is nil where the subscriber hears of them already.
func (g *Gateway) watch(ctx context.Context, e *subscriber, uri string, from origin) (func(), *rpc.Error) {
	e.mu.Lock()
	_, already := e.watches[uri]
	full := len(e.watches) >= g.o.Limits.Subscriptions
	e.mu.Unlock()
	switch {
	case already:
		return nil, nil
	case full:
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: fmt.Sprintf("a client may subscribe to %d resources", g.o.Limits.Subscriptions)}
	}
	w, err := g.o.Host.WatchResource(ctx, from.server, from.name, false)
	if err != nil {
		return nil, rpc.ErrorOf(err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() {
		go func() {
			defer close(ended)
			params := append(append([]byte(`{"uri":`), rpc.Quote(uri)...), '}')
			for {
				select {
				case <-w.Changed():
					e.send("notifications/resources/updated", params)
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
	e.mu.Lock()
	_, already = e.watches[uri]
	late := already || e.removed
	if !late {
		if e.watches == nil {
			e.watches = map[string]func(){}
		}
		e.watches[uri] = end
	}
	e.mu.Unlock()
	if late {
		end()
		return nil, nil
	}
	return begin, nil
}

const methodListen = "subscriptions/listen"

// listen opens a stream of what the client asks to hear (2026-07-28,
// subscriptions/listen). It ends with the request.
func (r *request) listen(ctx context.Context) ([]byte, *rpc.Error) {
	var want struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}
	if r.Members.Notifications == nil || json.Unmarshal(r.Members.Notifications, &want) != nil {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "params names no notifications to listen for"}
	}
	e := &subscriber{view: r.c.view, out: r.out, tag: r.ID, changes: [lists]bool{want.Tools, want.Resources, want.Prompts}, level: noLogs}
	var begin []func()
	agreed := want.URIs[:0]
	for _, uri := range want.URIs {
		from, err := r.resource(uri)
		if err != nil {
			continue
		}
		w, err := r.c.g.watch(ctx, e, uri, from)
		if err != nil {
			r.c.g.log.Debug("a resource cannot be subscribed to", "uri", uri, "error", err.Message)
			continue
		}
		if agreed = append(agreed, uri); w != nil {
			begin = append(begin, w)
		}
	}
	want.URIs = agreed
	defer r.c.g.remove(e)
	honoured, _ := json.Marshal(want) // booleans and strings always marshal
	if !e.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), honoured...), '}')) {
		return nil, &rpc.Error{Code: rpc.CodeInternal, Message: "the stream is closed"}
	}
	if !r.c.g.add(e) {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many listeners"}
	}
	for _, begin := range begin {
		begin()
	}
	<-ctx.Done()
	b := append([]byte(`{"jsonrpc":"2.0","id":`), r.ID...)
	b = append(append(b, `,"result":{"resultType":"complete","_meta":{"`+rpc.KeySubscription+`":`...), r.ID...)
	return append(b, "}}}"...), nil
}
