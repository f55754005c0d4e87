package control

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Offers is what servers offer beside tools: resources, prompts, completion and
// log messages. Nothing of it is read unless it is asked for by name.
type Offers interface {
	// Resources, Templates and Prompts list those of one server or of all.
	Resources(ctx context.Context, server string) ([]Item, error)
	Templates(ctx context.Context, server string) ([]Item, error)
	Prompts(ctx context.Context, server string) ([]Item, error)
	ReadResource(ctx context.Context, r ReadRequest, trace signal.Trace) (*ReadResponse, error)
	// Watch tells of changes until the function it returns is called.
	Watch(ctx context.Context, server, uri string) (changed <-chan struct{}, stop func(), err error)
	// Subscribe has changes delivered to the inbox, until Unsubscribe or the end of
	// the platform. Unsubscribe reports whether there was a subscription.
	Subscribe(ctx context.Context, s Subscription) (Subscription, error)
	Unsubscribe(s Subscription) bool
	Subscriptions() []Subscription
	GetPrompt(ctx context.Context, r PromptRequest, trace signal.Trace) (*host.Prompt, error)
	Complete(ctx context.Context, r CompletionRequest) (json.RawMessage, error)
	SetLogLevel(ctx context.Context, server, level string) error
}

// Item is an entry of a server's list as the server wrote it, without secrets.
type Item struct {
	Server string          `json:"server"`
	Item   json.RawMessage `json:"item"` // an MCP Resource, ResourceTemplate or Prompt
}

// ReadRequest asks for one resource.
type ReadRequest struct {
	Server   string `json:"server"` // name or alias
	URI      string `json:"uri"`
	Fresh    bool   `json:"fresh,omitempty"` // ask the server also where an earlier answer is still good
	Entrance string `json:"entrance,omitempty"`
}

// ReadResponse is what was read.
type ReadResponse struct {
	CallID   string          `json:"call_id"`
	Server   string          `json:"server"`
	URI      string          `json:"uri"`
	Size     int64           `json:"size"`   // of the result, bytes
	SHA256   string          `json:"sha256"` // of the result
	Flags    []string        `json:"flags,omitempty"`
	Artifact any             `json:"artifact,omitempty"`
	Result   json.RawMessage `json:"result"` // the MCP ReadResourceResult
}

// Subscription is a resource whose changes are delivered to the inbox.
type Subscription struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
}

// PromptRequest asks for the expansion of one prompt.
type PromptRequest struct {
	Server    string            `json:"server"` // name or alias
	Prompt    string            `json:"prompt"`
	Arguments map[string]string `json:"arguments,omitempty"`
	Entrance  string            `json:"entrance,omitempty"`
}

// CompletionRequest asks for values of an argument of a prompt or of a template.
type CompletionRequest struct {
	Server    string            `json:"server"` // name or alias
	Prompt    string            `json:"prompt,omitempty"`
	Template  string            `json:"template,omitempty"`
	Argument  string            `json:"argument"`
	Value     string            `json:"value,omitempty"`
	Arguments map[string]string `json:"arguments,omitempty"` // those that are set already
}

// LogLevelRequest asks for a server's log messages of a level and above.
type LogLevelRequest struct {
	Level string `json:"level"`
}

// Codes of this part of the API.
const (
	PromptNotFound       = host.PromptNotFound
	InputNotFound        = host.InputNotFound
	SubscriptionNotFound = "subscription_not_found"
)

func (a *api) offerRoutes() []route {
	return []route{
		{"GET", "/v1/resources", a.list("resources", Backend.Resources)},
		{"GET", "/v1/resources/templates", a.list("templates", Backend.Templates)},
		{"POST", "/v1/resources/read", func(w http.ResponseWriter, r *http.Request) {
			var in ReadRequest
			if err := a.named(w, r, &in, &in.Server, &in.URI, "uri, of the resource to read,"); err != nil {
				fail(w, err)
				return
			}
			if err := entrance(&in.Entrance); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.ReadResource(r.Context(), in, trace(r))
			respond(w, v, err)
		}},
		{"GET", "/v1/resources/watch", a.watch},
		{"GET", "/v1/resources/subscriptions", func(w http.ResponseWriter, r *http.Request) {
			reply(w, map[string]any{"subscriptions": a.b.Subscriptions()})
		}},
		{"POST", "/v1/resources/subscribe", func(w http.ResponseWriter, r *http.Request) {
			var in Subscription
			if err := a.named(w, r, &in, &in.Server, &in.URI, "uri, of the resource,"); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Subscribe(r.Context(), in)
			respond(w, v, err)
		}},
		{"POST", "/v1/resources/unsubscribe", func(w http.ResponseWriter, r *http.Request) {
			var in Subscription
			err := a.named(w, r, &in, &in.Server, &in.URI, "uri, of the resource,")
			if err == nil && !a.b.Unsubscribe(in) {
				err = refuse(http.StatusNotFound, SubscriptionNotFound, "there is no subscription to %q of %q", in.URI, in.Server)
			}
			respond(w, map[string]any{"ok": true}, err)
		}},
		{"GET", "/v1/prompts", a.list("prompts", Backend.Prompts)},
		{"POST", "/v1/prompts/get", func(w http.ResponseWriter, r *http.Request) {
			var in PromptRequest
			if err := a.named(w, r, &in, &in.Server, &in.Prompt, "prompt, to expand,"); err != nil {
				fail(w, err)
				return
			}
			if err := entrance(&in.Entrance); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.GetPrompt(r.Context(), in, trace(r))
			respond(w, v, err)
		}},
		{"POST", "/v1/completions", func(w http.ResponseWriter, r *http.Request) {
			var in CompletionRequest
			if err := a.named(w, r, &in, &in.Server, &in.Argument, "argument, to complete,"); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Complete(r.Context(), in)
			respond(w, v, err)
		}},
		{"POST", "/v1/servers/{name}/log-level", func(w http.ResponseWriter, r *http.Request) {
			var in LogLevelRequest
			err := a.known(r.PathValue("name"))
			if err == nil {
				err = a.decode(w, r, &in)
			}
			if err == nil {
				err = a.b.SetLogLevel(r.Context(), r.PathValue("name"), in.Level)
			}
			respond(w, map[string]any{"ok": true}, err)
		}},
	}
}

// list answers with one server's list, or all servers'.
func (a *api) list(name string, read func(Backend, context.Context, string) ([]Item, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		server := r.URL.Query().Get("server")
		if err := a.known(server); err != nil {
			fail(w, err)
			return
		}
		items, err := read(a.b, r.Context(), server)
		if items == nil {
			items = []Item{}
		}
		respond(w, map[string]any{name: items}, err)
	}
}

// named reads a request that names a server and one thing of it.
func (a *api) named(w http.ResponseWriter, r *http.Request, into any, server, thing *string, what string) error {
	if err := a.decode(w, r, into); err != nil {
		return err
	}
	switch {
	case *server == "":
		return bad("server is missing")
	case *thing == "":
		return bad("%s is missing", what)
	}
	return a.known(*server)
}

// entrance completes and checks the word for where a request came in.
func entrance(word *string) error {
	if *word == "" {
		*word = "api"
	}
	if !entranceForm().MatchString(*word) {
		return bad("entrance has 1 to 32 of a-z 0-9 _ - and begins with a letter")
	}
	return nil
}

// trace is the caller's (W3C Trace Context and Baggage).
func trace(r *http.Request) signal.Trace {
	return signal.Trace{Parent: r.Header.Get("traceparent"), State: r.Header.Get("tracestate"), Baggage: r.Header.Get("baggage")}
}

// updatedEvent is the event of a watch: the resource may be another now.
const updatedEvent = "updated"

// watch answers GET /v1/resources/watch: Server-Sent Events, one after each
// change of a resource until the client leaves. What is not read in time is one
// event. The content is not read.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	server, uri := q.Get("server"), q.Get("uri")
	if server == "" || uri == "" {
		fail(w, bad("server and uri, which to watch, are needed"))
		return
	}
	if err := a.known(server); err != nil {
		fail(w, err)
		return
	}
	ctx, end, err := a.streams.begin(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	defer end()
	changed, stop, err := a.b.Watch(ctx, server, uri)
	if err != nil {
		fail(w, err)
		return
	}
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &stream{w: w, flush: http.NewResponseController(w).Flush}
	if err := out.write("retry: 1000\n: watching\n\n"); err != nil || r.Method == http.MethodHead {
		return
	}
	data, _ := json.Marshal(Subscription{server, uri}) // strings always marshal
	alive := time.NewTicker(a.limits.alive)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			err = out.write("event: %s\ndata: %s\n\n", updatedEvent, data)
		case <-alive.C:
			err = out.write(": alive\n\n")
		}
		if err != nil {
			return
		}
	}
}

// Resources lists resources, of one server or of all.
func (c *Client) Resources(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Resources []Item }
	return r.Resources, c.get(ctx, "/v1/resources?"+url.Values{"server": {server}}.Encode(), &r)
}

// Templates lists resource templates, of one server or of all.
func (c *Client) Templates(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Templates []Item }
	return r.Templates, c.get(ctx, "/v1/resources/templates?"+url.Values{"server": {server}}.Encode(), &r)
}

// ReadResource reads one resource.
func (c *Client) ReadResource(ctx context.Context, r ReadRequest) (*ReadResponse, error) {
	var res ReadResponse
	return &res, c.post(ctx, "/v1/resources/read", r, &res)
}

// Watch calls changed after each change of a resource, until it returns an error
// or ctx ends.
func (c *Client) Watch(ctx context.Context, server, uri string, changed func() error) error {
	return c.stream(ctx, "/v1/resources/watch?"+url.Values{"server": {server}, "uri": {uri}}.Encode(), func(line string) error {
		if line == "event: "+updatedEvent {
			return changed()
		}
		return nil
	})
}

// Subscribe has changes of a resource delivered to the inbox.
func (c *Client) Subscribe(ctx context.Context, s Subscription) error {
	return c.post(ctx, "/v1/resources/subscribe", s, nil)
}

// Unsubscribe ends that.
func (c *Client) Unsubscribe(ctx context.Context, s Subscription) error {
	return c.post(ctx, "/v1/resources/unsubscribe", s, nil)
}

// Subscriptions lists the resources whose changes are delivered to the inbox.
func (c *Client) Subscriptions(ctx context.Context) ([]Subscription, error) {
	var r struct{ Subscriptions []Subscription }
	return r.Subscriptions, c.get(ctx, "/v1/resources/subscriptions", &r)
}

// Prompts lists prompts, of one server or of all.
func (c *Client) Prompts(ctx context.Context, server string) ([]Item, error) {
	var r struct{ Prompts []Item }
	return r.Prompts, c.get(ctx, "/v1/prompts?"+url.Values{"server": {server}}.Encode(), &r)
}

// GetPrompt expands a prompt.
func (c *Client) GetPrompt(ctx context.Context, r PromptRequest) (*host.Prompt, error) {
	var p host.Prompt
	return &p, c.post(ctx, "/v1/prompts/get", r, &p)
}
