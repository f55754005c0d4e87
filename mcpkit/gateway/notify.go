package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	about string // of a call in flight: the server whose log messages are heard,
	of    *ear   // and the session's or request's ear

	mu      sync.Mutex
	deaf    bool              // it was forgotten
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
	e.watches, e.deaf = nil, true
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
	ears := slices.Collect(maps.Keys(g.ears))
	g.mu.Unlock()
	for _, e := range ears {
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
	ears := slices.Collect(maps.Keys(g.ears))
	g.mu.Unlock()
	for i, servers := range changed {
		aliases := map[string]string{}
		for server := range servers {
			aliases[server] = g.alias(server)
		}
		for _, e := range ears {
			if !e.hears[i] {
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
	var hears *ear
	level := r.c.ear.wants()
	if r.modern {
		level = noLogs
		if name, ok := text(r.p.meta.level); ok {
			if i := slices.Index(levels, name); i >= 0 {
				level = i
				g.ensureLevels(ctx, r.c.view, level)
			}
		}
	}
	if level < noLogs {
		hears = &ear{view: r.c.view, out: r.out, level: level, about: server, of: r.c.ear}
	}
	g.mu.Lock()
	if g.busy[server] == nil {
		g.busy[server] = map[*View]int{}
	}
	g.busy[server][r.c.view]++
	if hears != nil {
		g.ears[hears] = true
	}
	g.mu.Unlock()
	return sync.OnceFunc(func() {
		if hears != nil {
			ctx, cancel := context.WithTimeout(ctx, settleTime)
			g.o.Host.Settled(ctx, server)
			cancel()
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.busy[server][r.c.view]--; g.busy[server][r.c.view] == 0 {
			delete(g.busy[server], r.c.view)
		}
		if hears != nil {
			delete(g.ears, hears)
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
	name, _ := text(jsonline.Get(params, "level"))
	level := slices.Index(levels, name)
	if level < 0 {
		return
	}
	g.mu.Lock()
	busy := g.busy[server]
	told := map[*ear]bool{} // sessions that hear it on the stream of a call
	var ears []*ear
	for e := range g.ears {
		if e.about == server && !told[e.of] && len(busy) == 1 {
			told[e.of] = true
			ears = append(ears, e)
		}
	}
	for e := range g.ears {
		if _, mine := busy[e.view]; e.about == "" && !told[e] && (len(busy) == 0 || len(busy) == 1 && mine) {
			ears = append(ears, e)
		}
	}
	g.mu.Unlock()
	for _, e := range ears {
		if level >= e.wants() && e.view.server(server, g.alias(server)) {
			e.send("notifications/message", params)
		}
	}
}

// wants is the level of log messages that are heard.
func (e *ear) wants() int {
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
	r.c.g.ensureLevels(ctx, r.c.view, level)
	return r.reply(nil, 0), nil
}

// subscribe has a session hear of changes of a resource.
func (r *request) subscribe(ctx context.Context) ([]byte, *Error) {
	from, err := r.resource(r.p.uri)
	if err != nil {
		return nil, err
	}
	e := r.c.ear
	w, err := r.c.g.watch(ctx, e, r.p.uri, from)
	if err != nil {
		return nil, err
	}
	if w != nil {
		w()
	}
	return r.reply(nil, 0), nil
}

func (r *request) unsubscribe() ([]byte, *Error) {
	e := r.c.ear
	e.mu.Lock()
	end := e.watches[r.p.uri]
	delete(e.watches, r.p.uri)
	e.mu.Unlock()
	if end != nil {
		end()
	}
	return r.reply(nil, 0), nil
}

// watch has an ear hear of changes of a resource. The function it returns begins
// that; it is nil where the ear hears of them already.
func (g *Gateway) watch(ctx context.Context, e *ear, uri string, from origin) (func(), *Error) {
	e.mu.Lock()
	_, already := e.watches[uri]
	full := len(e.watches) >= g.o.Limits.Subscriptions
	e.mu.Unlock()
	switch {
	case already:
		return nil, nil
	case full:
		return nil, &Error{Code: codeBusy, Message: fmt.Sprintf("a client may subscribe to %d resources", g.o.Limits.Subscriptions)}
	}
	w, err := g.o.Host.WatchResource(ctx, from.server, from.name, false)
	if err != nil {
		return nil, failure(err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() {
		go func() {
			defer close(ended)
			params := append(append([]byte(`{"uri":`), quote(uri)...), '}')
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
	late := already || e.deaf
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
	defer r.c.g.forget(e)
	honoured, _ := json.Marshal(want) // booleans and strings always marshal
	if !e.send("notifications/subscriptions/acknowledged", append(append([]byte(`{"notifications":`), honoured...), '}')) {
		return nil, &Error{Code: codeInternal, Message: "the stream is closed"}
	}
	if !r.c.g.hear(e) {
		return nil, &Error{Code: codeBusy, Message: "the gateway has too many listeners"}
	}
	for _, begin := range begin {
		begin()
	}
	<-ctx.Done()
	b := append([]byte(`{"jsonrpc":"2.0","id":`), r.ID...)
	b = append(append(b, `,"result":{"resultType":"complete","_meta":{"`+keySubscription+`":`...), r.ID...)
	return append(b, "}}}"...), nil
}
