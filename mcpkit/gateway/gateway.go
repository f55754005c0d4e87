// Package gateway is the platform as one MCP server: every tool, resource and
// prompt of the servers behind it, for any MCP host, through the same gate as
// all other calls. It speaks both eras of the protocol, the one with sessions
// (2025-03-26 to 2025-11-25) and the stateless one (2026-07-28), request by
// request, over whatever carries whole messages: [Gateway.ServeStdio] is one way,
// package streamable is the other. It neither runs servers nor knows HTTP.
//
//	g := gateway.New(gateway.Options{Host: host, Version: "1.0"})
//	go g.Run(ctx)
//	err := g.ServeStdio(ctx, &gateway.View{}, os.Stdin, os.Stdout)
//
// # Names
//
// Tools have the names under which models know them, mcp__weather__get_weather;
// prompts are weather__forecast; the URI of a resource, and the pattern of a
// template, is led by mcp+weather+. All of these map back by table. A [View] with
// Only set shows one server under its own names.
//
// # Results
//
// What a server answered is passed on byte for byte, but for what the gate
// redacts and for the few members that the protocol wants of each hop: names
// and URIs above, and resultType and serverInfo under 2026-07-28.
//
// # Questions
//
// A server that asks for input, and a policy that asks a person, reach the
// client's user: as a request under the older revisions, as an input_required
// result under 2026-07-28. A client that cannot show a question gets a failed
// call that says how to answer otherwise.
//
// # Bounds
//
// Requests at once, questions, subscriptions and messages that wait for a slow
// client are bounded; see [Limits]. A client that does not read loses its stream.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/policy/approval"
)

// Host is what a Gateway needs of the gate; *host.Host is one.
type Host interface {
	Table() *catalog.Table
	Call(ctx context.Context, c host.Call) (*host.Result, error)
	Resources(ctx context.Context, server string) ([]host.Item, error)
	ResourceTemplates(ctx context.Context, server string) ([]host.Item, error)
	Prompts(ctx context.Context, server string) ([]host.Item, error)
	ReadResource(ctx context.Context, r host.Read) (*host.Resource, error)
	GetPrompt(ctx context.Context, x host.Expand) (*host.Prompt, error)
	Complete(ctx context.Context, c host.Completion) (json.RawMessage, error)
	WatchResource(ctx context.Context, server, uri string, deliver bool) (*client.Watch, error)
	SetLogLevel(ctx context.Context, server, level string) error
	Settled(ctx context.Context, server string)
}

// Server is a server that is ready.
type Server struct {
	Name, Alias string
	Version     string // of the protocol, that is spoken with it
}

// Approver takes people's answers to what the policy asks; *approval.Desk is one.
type Approver interface {
	Approve(ctx context.Context, id string, scope approval.Scope, actor string) (approval.Approval, error)
	Deny(ctx context.Context, id, actor, reason string) (approval.Approval, error)
}

// Options say how a Gateway works. Host is required.
type Options struct {
	Host Host
	// Servers are those that can be called now. nil knows of none.
	Servers func() []Server
	// Settled, if set, is closed when the servers that are started with the
	// platform are ready or have failed: lists wait for that, ten seconds at most.
	Settled   <-chan struct{}
	Approvals Approver     // nil: clients' users answer nothing
	Logger    *slog.Logger // nil discards
	Version   string       // what the platform calls its version; "0"
	Limits    Limits
}

// Limits bound what clients can ask for at once. Zero is the default.
type Limits struct {
	Requests      int // that are being answered, of all clients; 512. More are refused as busy.
	PerClient     int // of one connection or session; 128
	Subscriptions int // to resources, of one client; 100
	Listeners     int // sessions and streams that hear of changes; 1024
	Parked        int // calls that wait for a stateless client's answer; 64
}

func (l Limits) withDefaults() Limits {
	return Limits{
		cmp.Or(l.Requests, 512), cmp.Or(l.PerClient, 128), cmp.Or(l.Subscriptions, 100),
		cmp.Or(l.Listeners, 1024), cmp.Or(l.Parked, 64),
	}
}

// answerTime is how long a client's user may take to answer a question.
const answerTime = 10 * time.Minute

// Gateway serves any number of clients. It is safe for concurrent use.
type Gateway struct {
	o     Options
	log   *slog.Logger
	seal  sealer
	self  []byte // serverInfo
	slots chan struct{}
	news  chan struct{} // capacity 1: something changed

	mu          sync.Mutex
	subscribers map[*subscriber]bool
	busy        map[string]map[*View]int // calls in flight, by server
	changed     [lists]map[string]bool   // servers, by list
	only        map[onlyKey]*View
	parked      map[string]*parked // by the id in their clients' states
	alive       map[*parked]bool   // calls that go on without a request
	closed      bool
	work        sync.WaitGroup    // of alive
	prompts     map[string]origin // by the names that clients know them under
	levels      map[string]int    // of log messages, that servers were asked for
	aliases     map[string]string // of servers, as they were last
}

// New makes a Gateway.
func New(o Options) *Gateway {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	g := &Gateway{
		o: o, log: o.Logger, seal: newSealer(), slots: make(chan struct{}, o.Limits.Requests), news: make(chan struct{}, 1),
		subscribers: map[*subscriber]bool{}, busy: map[string]map[*View]int{}, only: map[onlyKey]*View{}, parked: map[string]*parked{}, alive: map[*parked]bool{}, levels: map[string]int{}, aliases: map[string]string{},
	}
	g.self, _ = json.Marshal(map[string]string{ // strings always marshal
		"name": "aurora-platform", "title": "Aurora Platform", "version": cmp.Or(o.Version, "0"),
	})
	return g
}

// alias is the alias of a server, or "". That of one that has stopped is what it
// was: who saw it by that is told that it is gone.
func (g *Gateway) alias(server string) string {
	if g.o.Servers == nil {
		return ""
	}
	for _, s := range g.o.Servers() {
		if s.Name != server {
			continue
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.aliases[server] = s.Alias
		return s.Alias
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.aliases[server]
}

// firstTime is how long a list waits for the servers that are being started.
const firstTime = 10 * time.Second

// await waits until the start of the platform has settled.
func (g *Gateway) await(ctx context.Context) {
	select {
	case <-g.o.Settled:
		return
	default:
	}
	if g.o.Settled == nil {
		return
	}
	t := time.NewTimer(firstTime)
	defer t.Stop()
	select {
	case <-g.o.Settled:
	case <-t.C:
	case <-ctx.Done():
	}
}
