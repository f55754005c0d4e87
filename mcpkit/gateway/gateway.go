// Package gateway is the platform as one MCP server: every tool, resource and
// prompt of the servers behind it, for any MCP host, through the same gate as all
// other calls. It speaks both eras of the protocol, the one with sessions
// (2025-03-26 to 2025-11-25) and the stateless one (2026-07-28), request by request,
// over whatever carries whole messages: package stdio is one carrier, package
// streamable is the other. It neither runs servers nor knows HTTP.
//
//	g := gateway.New(gateway.Options{Host: host, Version: "1.0"})
//	go g.Run(ctx)
//	err := stdio.Serve(ctx, g, &view.View{}, os.Stdin, os.Stdout)
//
// # Names
//
// Tools are named weather__get_weather, as hosts lead such names by words of their own;
// prompts are weather__forecast; the URI of a resource, and the pattern of a
// template, is led by mcp+weather+. All of these map back by table. A [view.View]
// with Only set shows one server under its own names.
//
// # Results
//
// A server's result is passed on byte for byte, except for secrets that the gate
// takes out and for the few members that differ at each hop: the names and URIs
// above, and resultType and serverInfo under 2026-07-28.
//
// # Questions
//
// A server that asks for input, and a policy that asks a person, reach the
// client's user: by a request to the client under the older revisions, by an
// input_required result under 2026-07-28. A call whose question the client cannot
// show fails, and the failure says how else to answer.
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

	"github.com/aurorabot-dev/platform/mcpkit/catalog"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/notify"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/pending"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/question"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Host is what a Gateway needs of the gate; *host.Host is one.
type Host interface {
	Table() *catalog.Table
	Call(ctx context.Context, c host.Call) (*host.Result, error)
}

// Options say how a Gateway works. Host and Offers are required.
type Options struct {
	Host   Host
	Offers *offers.Reader // for all but tools
	// Servers returns the servers that can be called now. nil stands for none.
	Servers func() []view.Server
	// Settled, if set, is closed when the servers that are started with the
	// platform are ready or have failed: lists wait for that, four seconds at most.
	Settled   <-chan struct{}
	Approvals question.Approver // nil: clients' users answer nothing
	Logger    *slog.Logger      // nil discards
	Version   string            // of the platform, as clients are told; "0"
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

// Gateway serves any number of clients. It is safe for concurrent use.
type Gateway struct {
	o       Options
	servers *view.Directory
	hub     *notify.Hub
	pending *pending.Store
	seal    pending.Sealer
	self    []byte        // serverInfo
	slots   chan struct{} // one for each request that is being answered
}

// New makes a Gateway.
func New(o Options) *Gateway {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	servers := view.NewDirectory(o.Servers, o.Settled)
	g := &Gateway{
		o: o, servers: servers,
		hub:     notify.NewHub(o.Offers, servers, notify.Limits{Subscribers: o.Limits.Listeners, Watches: o.Limits.Subscriptions}, o.Logger),
		pending: pending.NewStore(o.Limits.Parked),
		seal:    pending.NewSealer(),
		slots:   make(chan struct{}, o.Limits.Requests),
	}
	g.self, _ = json.Marshal(map[string]string{ // strings always marshal
		"name": "aurora-platform", "title": "Aurora Platform", "version": cmp.Or(o.Version, "0"),
	})
	return g
}

// Observe takes what the platform observed. It does not wait.
func (g *Gateway) Observe(_ context.Context, s signal.Signal) error {
	g.hub.Observe(s)
	return nil
}

// Run tells clients of changes until ctx ends, and then ends the calls that go on
// without a request.
func (g *Gateway) Run(ctx context.Context) {
	defer g.pending.Close()
	g.hub.Run(ctx)
}

// Only is the view of one server under its own names that v allows, or nil where v
// shows no ready server with that name or alias; it waits for servers that are
// being started. The same arguments give the same view.
func (g *Gateway) Only(ctx context.Context, v *view.View, server string) *view.View {
	return g.servers.Only(ctx, v, server)
}
