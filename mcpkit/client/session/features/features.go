// Package features asks one server for what it offers: calls of its tools, its
// resources, prompts, completions and log messages, and all pages of its lists. What
// the server says is fresh for a while is kept that long. The package bounds how many
// calls are in flight and how long lists get. It neither agrees on a version nor
// receives what the server says of its own accord; the session tells it what of that
// makes an answer stale.
//
//	c := features.New(options)
//	result, err := c.Call(ctx, features.CallRequest{Tool: "get_weather", Arguments: args})
package features

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aurorabot-dev/platform/internal/jsontext"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/asking"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/toolcall"
)

// Options configure a Client. All fields are required but those that may be nil.
type Options struct {
	Server string // its name, for messages
	Conn   *rpc.Conn
	Agreed *handshake.Agreement // filled before the first request
	// Questions are what the server asks in the middle of a call; nil where the client
	// offers no answers.
	Questions *asking.Questions
	// Tools is told of each reading of the list of tools, and says for each tool why
	// the wire cannot carry calls of it, or ""; nil where the wire can carry all.
	Tools func(list []json.RawMessage) (unfit []string)
	// Report is told what the server does wrong: a code, what it is in words, and
	// the beginning of what it sent.
	Report func(code, detail string, sample []byte)
	Ended  <-chan struct{} // closed when no request can succeed any more
	Crash  string          // code of the fault of calls that then wait
	Log    *slog.Logger

	CallTimeout time.Duration // for a place among the calls in flight
	MaxInFlight int           // calls at once, others wait
	MaxTools    int           // items of one list
	MaxPages    int           // of one list
	MaxLine     int           // bytes of one list
	ListTimeout time.Duration // for all pages of one list
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	o     Options
	slots chan struct{} // one taken by each call
	cache cache
}

// New makes a Client.
func New(o Options) *Client { return &Client{o: o, slots: make(chan struct{}, o.MaxInFlight)} }

// Result is the answer to a call.
type Result struct {
	Raw json.RawMessage // the JSON-RPC result, byte for byte but for invalid UTF-8
}

// NeedsInput reports whether the request is not over: the server wants answers to
// the inputRequests in the result.
func (r *Result) NeedsInput() bool {
	return jsontext.String(jsontext.Get(r.Raw, "resultType")) == toolcall.InputRequired
}

// Member is the raw value of a member of the result, such as
// structuredContent; nil where there is none.
func (r *Result) Member(name string) json.RawMessage { return jsontext.Get(r.Raw, name) }

// With is what a request may carry beside its own parameters. The zero value
// carries nothing.
type With struct {
	// Meta is an object for _meta, such as traceparent. The names that belong to
	// the session (progressToken, io.modelcontextprotocol/…) are left out.
	Meta json.RawMessage
	// InputResponses and RequestState answer an earlier result that asked for
	// input (2026-07-28, multi round-trip requests).
	InputResponses, RequestState json.RawMessage
	// Capabilities is the ClientCapabilities object of a client further away, for
	// whom the request is made. Under the stateless protocol it stands in for the
	// session's own, as far as [Config].Relay lets it.
	Capabilities json.RawMessage
	// Anew asks the server also where an earlier answer is still fresh.
	Anew bool
}

// fill completes a request whose own parameters are params.
func (c *Client) fill(m *rpc.Request, params []byte, w With) *fault.Error {
	responses, err := object("inputResponses", w.InputResponses, false)
	if err != nil {
		return err
	}
	params = append(params, responses...)
	if state := bytes.TrimSpace(w.RequestState); len(state) > 0 && string(state) != "null" {
		if !jsontext.Valid(state) {
			return fault.New(fault.InvalidArguments, "requestState is no valid JSON")
		}
		params = append(append(params, `,"requestState":`...), rpc.OneLine(state)...)
	}
	m.Params = params
	if meta := bytes.TrimSpace(w.Meta); len(meta) > 0 && string(meta) != "null" {
		var ok bool
		if m.Meta, ok = rpc.Members(meta, rpc.ReservedMeta); !ok {
			return fault.New(fault.InvalidArguments, "_meta is no JSON object")
		}
	}
	m.Asker = c.o.Agreed.Metadata.MembersFor(w.Capabilities)
	return nil
}

// object is the member name with the object raw, led by a comma; {} stands in
// for what is absent where it must be there.
func object(name string, raw json.RawMessage, must bool) ([]byte, *fault.Error) {
	raw, err := given(name, raw, must)
	if raw == nil {
		return nil, err
	}
	b := make([]byte, 0, len(name)+4+len(raw))
	return append(append(append(append(b, `,"`...), name...), `":`...), rpc.OneLine(raw)...), nil
}

// given is the object raw, checked; {} stands in for what is absent where it must
// be there, else nothing does.
func given(name string, raw json.RawMessage, must bool) (json.RawMessage, *fault.Error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		if !must {
			return nil, nil
		}
		return json.RawMessage("{}"), nil
	case !jsontext.IsObject(raw):
		return nil, fault.New(fault.InvalidArguments, "%s is no JSON object", name)
	}
	return raw, nil
}

// ListResources is every resource of the server as raw objects. Lists and
// resources that the server says are fresh for a while (2026-07-28, ttlMs) are
// not asked for again until then, or until it says that they changed.
func (c *Client) ListResources(ctx context.Context) ([]json.RawMessage, error) {
	return c.list(ctx, c.o.Agreed.Capabilities.Resources != nil, "resources/list", "resources")
}

// ListResourceTemplates is every resource template of the server as raw objects.
func (c *Client) ListResourceTemplates(ctx context.Context) ([]json.RawMessage, error) {
	return c.list(ctx, c.o.Agreed.Capabilities.Resources != nil, methodTemplates, "resourceTemplates")
}

// ListPrompts is every prompt of the server as raw objects.
func (c *Client) ListPrompts(ctx context.Context) ([]json.RawMessage, error) {
	return c.list(ctx, c.o.Agreed.Capabilities.Prompts != nil, "prompts/list", "prompts")
}

// ReadResource is the result of resources/read, which may ask for input.
func (c *Client) ReadResource(ctx context.Context, uri string, w With) (*Result, error) {
	if c.o.Agreed.Capabilities.Resources == nil {
		return nil, c.notOffered("resources")
	}
	plain := len(w.InputResponses) == 0 && w.Capabilities == nil
	if !w.Anew && plain {
		if kept, ok := c.cache.get(methodRead + uri); ok {
			return &Result{Raw: kept[0]}, nil
		}
	}
	gen := c.cache.now()
	res, err := c.Request(ctx, methodRead, `"uri":`+rpc.Quote(uri), w)
	if err == nil && plain && !res.NeedsInput() {
		c.cache.put(gen, methodRead+uri, []json.RawMessage{res.Raw}, c.fresh(res.Raw))
	}
	return res, err
}

// GetPrompt is the result of prompts/get, which may ask for input.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string, w With) (*Result, error) {
	if c.o.Agreed.Capabilities.Prompts == nil {
		return nil, c.notOffered("prompts")
	}
	args, err := json.Marshal(arguments)
	if err != nil || arguments == nil {
		args = []byte("{}")
	}
	return c.Request(ctx, "prompts/get", `"name":`+rpc.Quote(name)+`,"arguments":`+string(args), w)
}

// Complete is the result of completion/complete: values for an argument of the
// prompt or resource template that ref names, an object with type and name or
// uri. known are the arguments that are set already
// (2025-11-25, server/utilities/completion).
func (c *Client) Complete(ctx context.Context, ref json.RawMessage, argument, value string, known map[string]string) (*Result, error) {
	if c.o.Agreed.Capabilities.Completions == nil {
		return nil, fault.New(fault.Protocol, "server %s offers no completion", c.o.Server)
	}
	arg, _ := json.Marshal(map[string]string{"name": argument, "value": value}) // strings always marshal
	reference, bad := object("ref", ref, true)
	if bad != nil {
		return nil, bad
	}
	params := `"argument":` + string(arg) + string(reference)
	if len(known) > 0 {
		set, _ := json.Marshal(known)
		params += `,"context":{"arguments":` + string(set) + `}`
	}
	return c.Request(ctx, "completion/complete", params, With{})
}

// LogLevels are the levels of log messages, the least severe first
// (2025-11-25, server/utilities/logging).
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// SetLogLevel asks the server for log messages of a level and above. Under the
// stateless protocol every later request says so instead (2026-07-28, SEP-2577).
func (c *Client) SetLogLevel(ctx context.Context, level string) error {
	if c.o.Agreed.Capabilities.Logging == nil {
		return fault.New(fault.Protocol, "server %s offers no log messages", c.o.Server)
	}
	if c.o.Agreed.Stateless() {
		c.o.Agreed.Metadata.SetLogLevel(level)
		return nil
	}
	_, err := c.Request(ctx, "logging/setLevel", `"level":`+rpc.Quote(level), With{})
	return err
}

// Capabilities says which of resources, subscriptions to them, prompts,
// completions and logging the server offers.
func (c *Client) Capabilities() Capabilities {
	return Capabilities{
		Tools: c.o.Agreed.Capabilities.Tools != nil, Resources: c.o.Agreed.Capabilities.Resources != nil, Prompts: c.o.Agreed.Capabilities.Prompts != nil,
		Subscribe: c.o.Agreed.Capabilities.Resources != nil && c.o.Agreed.Capabilities.Resources.Subscribe, Completions: c.o.Agreed.Capabilities.Completions != nil, Logging: c.o.Agreed.Capabilities.Logging != nil,
	}
}

// ListChanged is told of a notification that a list has changed, by its method:
// answers that are kept are asked for anew.
func (c *Client) ListChanged(method string) { c.cache.listChanged(method) }

// ResourceChanged is told that the resource uri has changed.
func (c *Client) ResourceChanged(uri string) { c.cache.drop(methodRead + uri) }

// ChangesMissed is told that any list and any resource may have changed.
func (c *Client) ChangesMissed() { c.cache.drop("") }

// Capabilities are what a server offers.
type Capabilities struct{ Tools, Resources, Subscribe, Prompts, Completions, Logging bool }

// Request is the result of another request, whose own parameters are params: members
// of an object, without braces.
func (c *Client) Request(ctx context.Context, method, params string, w With) (*Result, error) {
	m := rpc.Request{Method: method, OnProgress: func(json.RawMessage) {}} // progress buys time
	if err := c.fill(&m, []byte(params), w); err != nil {
		return nil, err
	}
	res, err := c.o.Conn.Do(ctx, m)
	if err != nil {
		return nil, err
	}
	return &Result{Raw: res}, nil
}

func (c *Client) notOffered(what string) error {
	return fault.New(fault.Protocol, "server %s offers no %s", c.o.Server, what)
}
