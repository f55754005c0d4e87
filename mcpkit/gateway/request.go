package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host/ask"
)

// request is one request that is being answered.
type request struct {
	*rpc.Message
	g         *Gateway
	view      *view.View
	conn      *Conn           // nil where the request belongs to no conversation
	out       rpc.Stream      // for what belongs to the request
	stateless bool            // the request speaks 2026-07-28
	caps      json.RawMessage // the client's capabilities; nil: not told
	end       ask.Far         // the client as servers are told of it; see far
	undecided bool            // the client's user was asked for an approval and gave no answer
}

// admit checks the revision that the request speaks, and finds the capabilities of
// its client.
func (r *request) admit() *rpc.Error {
	if r.stateless {
		version := r.Version()
		if !slices.Contains(rpc.Versions, version) || version < rpc.Stateless {
			return rpc.UnsupportedVersion(version)
		}
		if r.Members.Meta.Capabilities == nil || !jsontext.IsObject(r.Members.Meta.Capabilities) {
			return &rpc.Error{Code: rpc.CodeInvalidParams, Message: "_meta has no object " + rpc.KeyCapabilities}
		}
		r.caps = r.Members.Meta.Capabilities
		return nil
	}
	r.conn.mu.Lock()
	version := r.conn.version
	r.caps = r.conn.caps
	r.conn.mu.Unlock()
	if version == "" && r.Name() != "initialize" && r.Name() != "ping" {
		return &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "initialize comes first"}
	}
	return nil
}

// answer carries the request out.
func (r *request) answer(ctx context.Context) ([]byte, *rpc.Error) {
	if strings.HasSuffix(r.Name(), "/list") {
		r.g.servers.Await(ctx)
	}
	switch r.Name() {
	case "tools/call":
		return r.call(ctx)
	case "tools/list":
		page, err := r.view.Offer(r.g.o.Host.Table()).Page(r.Members.Cursor)
		return r.form(cacheable).Own(page), err
	case "resources/list":
		return r.list(ctx, view.Resources, r.g.o.Offers.Resources)
	case "resources/templates/list":
		return r.list(ctx, view.Templates, r.g.o.Offers.ResourceTemplates)
	case "resources/read":
		return r.read(ctx)
	case "prompts/list":
		return r.list(ctx, view.Prompts, r.g.o.Offers.Prompts)
	case "prompts/get":
		return r.get(ctx)
	case "completion/complete":
		return r.complete(ctx)
	}
	if r.stateless {
		switch r.Name() {
		case "server/discover":
			return r.discover(ctx), nil
		case rpc.MethodListen:
			return r.g.hub.Listen(ctx, r.view, r.Message, r.out)
		}
		return nil, errNoMethod
	}
	switch r.Name() {
	case "initialize":
		return r.initialize(ctx)
	case "ping":
		return r.done(), nil
	case "logging/setLevel":
		return r.setLevel(ctx)
	case "resources/subscribe":
		return r.subscribe(ctx)
	case "resources/unsubscribe":
		r.conn.subscriber.Unwatch(r.Members.URI)
		return r.done(), nil
	}
	return nil, errNoMethod
}

var errNoMethod = &rpc.Error{Code: rpc.CodeNoMethod, Message: "method not found"}

// cacheable marks results that say for how long they are good.
const cacheable = true

// form says how the request's result is written.
func (r *request) form(cacheable bool) rpc.Form {
	return rpc.Form{ID: r.ID, Stateless: r.stateless, Server: r.g.self, Cacheable: cacheable}
}

// done is the answer with an empty result.
func (r *request) done() []byte { return r.form(!cacheable).Own(nil) }

// capabilities are offered to every client.
const capabilities = `"capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
	`"prompts":{"listChanged":true},"completions":{},"logging":{}}`

// initialize opens a session (2025-11-25, basic/lifecycle).
func (r *request) initialize(ctx context.Context) ([]byte, *rpc.Error) {
	version, ok := rpc.Text(r.Members.Version)
	if !ok {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "initialize names no protocolVersion"}
	}
	if !slices.Contains(rpc.Versions, version) || version >= rpc.Stateless {
		version = rpc.Versions[1] // the newest with sessions
	}
	c := r.conn
	c.mu.Lock()
	again := c.version != ""
	if !again {
		c.version = version
		if jsontext.IsObject(r.Members.Capabilities) {
			c.caps = slices.Clone(r.Members.Capabilities)
		}
	}
	c.mu.Unlock()
	if again {
		return nil, &rpc.Error{Code: rpc.CodeInvalidRequest, Message: "the session is open already"}
	}
	c.subscriber.HearLists()
	if !r.g.hub.Add(c.subscriber) {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many sessions"}
	}
	b := append(append([]byte(`"protocolVersion":`), rpc.Quote(version)...), `,`+capabilities+`,"serverInfo":`...)
	return r.form(!cacheable).Own(r.g.servers.Introduce(ctx, append(b, r.g.self...), r.view)), nil
}

// discover tells which revisions are spoken and what is offered (2026-07-28,
// server/discover).
func (r *request) discover(ctx context.Context) []byte {
	versions, _ := json.Marshal(rpc.Versions) // strings always marshal
	b := append(append([]byte(`"supportedVersions":`), versions...), `,`+capabilities...)
	return r.form(cacheable).Own(r.g.servers.Introduce(ctx, b, r.view))
}

// setLevel has the session hear log messages of a level and above.
func (r *request) setLevel(ctx context.Context) ([]byte, *rpc.Error) {
	if !r.g.hub.SetLevel(ctx, r.conn.subscriber, r.Members.Level) {
		return nil, &rpc.Error{Code: rpc.CodeInvalidParams, Message: "there is no such level of log messages"}
	}
	return r.done(), nil
}

// subscribe has the session hear of changes of a resource.
func (r *request) subscribe(ctx context.Context) ([]byte, *rpc.Error) {
	from, err := r.g.servers.Resource(r.view, r.Members.URI)
	if err != nil {
		return nil, err
	}
	begin, err := r.g.hub.Watch(ctx, r.conn.subscriber, r.Members.URI, from)
	if err != nil {
		return nil, err
	}
	if begin != nil {
		begin()
	}
	return r.done(), nil
}
