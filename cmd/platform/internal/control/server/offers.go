package server

import (
	"context"
	"net/http"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/calls"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// offerRoutes are the part of the API for what servers offer beside tools.
func (a *api) offerRoutes() []route {
	return []route{
		{"GET", "/v1/resources", a.list("resources", Backend.Resources)},
		{"GET", "/v1/resources/templates", a.list("templates", Backend.Templates)},
		{"POST", "/v1/resources/read", reading(a, control.ReadRequest{}, func(r *http.Request, in *control.ReadRequest) (any, error) {
			if err := a.named(in.Server, in.URI, "uri, of the resource to read,"); err != nil {
				return nil, err
			}
			if err := calls.Entrance(&in.Entrance); err != nil {
				return nil, err
			}
			return a.b.ReadResource(r.Context(), *in, trace(r))
		})},
		{"GET", "/v1/resources/watch", a.watch},
		{"GET", "/v1/resources/subscriptions", answering(func(*http.Request) (any, error) {
			return map[string]any{"subscriptions": a.b.Subscriptions()}, nil
		})},
		{"POST", "/v1/resources/subscribe", reading(a, control.Subscription{}, func(r *http.Request, in *control.Subscription) (any, error) {
			if err := a.named(in.Server, in.URI, "uri, of the resource,"); err != nil {
				return nil, err
			}
			return a.b.Subscribe(r.Context(), *in)
		})},
		{"POST", "/v1/resources/unsubscribe", reading(a, control.Subscription{}, func(_ *http.Request, in *control.Subscription) (any, error) {
			if err := a.named(in.Server, in.URI, "uri, of the resource,"); err != nil {
				return nil, err
			}
			if !a.b.Unsubscribe(*in) {
				return nil, httpjson.Refuse(http.StatusNotFound, control.SubscriptionNotFound, "there is no subscription to %q of %q", in.URI, in.Server)
			}
			return done, nil
		})},
		{"GET", "/v1/prompts", a.list("prompts", Backend.Prompts)},
		{"POST", "/v1/prompts/get", reading(a, control.PromptRequest{}, func(r *http.Request, in *control.PromptRequest) (any, error) {
			if err := a.named(in.Server, in.Prompt, "prompt, to expand,"); err != nil {
				return nil, err
			}
			if err := calls.Entrance(&in.Entrance); err != nil {
				return nil, err
			}
			return a.b.GetPrompt(r.Context(), *in, trace(r))
		})},
		{"POST", "/v1/completions", reading(a, control.CompletionRequest{}, func(r *http.Request, in *control.CompletionRequest) (any, error) {
			if err := a.named(in.Server, in.Argument, "argument, to complete,"); err != nil {
				return nil, err
			}
			return a.b.Complete(r.Context(), *in)
		})},
		{"POST", "/v1/servers/{name}/log-level", a.logLevel},
	}
}

// logLevel answers POST /v1/servers/{name}/log-level. That there is no such server
// is found before the body is read.
func (a *api) logLevel(w http.ResponseWriter, r *http.Request) {
	var in control.LogLevelRequest
	name := r.PathValue("name")
	err := a.known(name)
	if err == nil {
		err = a.decode(w, r, &in)
	}
	if err == nil {
		err = a.b.SetLogLevel(r.Context(), name, in.Level)
	}
	httpjson.Respond(w, done, err)
}

// list answers with one server's list, or all servers'.
func (a *api) list(name string, read func(Backend, context.Context, string) ([]control.Item, error)) http.HandlerFunc {
	return answering(func(r *http.Request) (any, error) {
		server := r.URL.Query().Get("server")
		if err := a.known(server); err != nil {
			return nil, err
		}
		items, err := read(a.b, r.Context(), server)
		if items == nil {
			items = []control.Item{}
		}
		return map[string]any{name: items}, err
	})
}

// named says what is wrong with a request for one thing of a server.
func (a *api) named(server, thing, what string) error {
	switch {
	case server == "":
		return httpjson.Bad("server is missing")
	case thing == "":
		return httpjson.Bad("%s is missing", what)
	}
	return a.known(server)
}

// trace is the caller's (W3C Trace Context and Baggage).
func trace(r *http.Request) signal.Trace {
	return signal.Trace{Parent: r.Header.Get("traceparent"), State: r.Header.Get("tracestate"), Baggage: r.Header.Get("baggage")}
}

// watch answers GET /v1/resources/watch until the client leaves.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	server, uri := q.Get("server"), q.Get("uri")
	if server == "" || uri == "" {
		httpjson.Fail(w, httpjson.Bad("server and uri, which to watch, are needed"))
		return
	}
	if err := a.known(server); err != nil {
		httpjson.Fail(w, err)
		return
	}
	ctx, end, err := a.streams.Begin(r.Context())
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	defer end()
	changed, stop, err := a.b.Watch(ctx, server, uri)
	if err != nil {
		httpjson.Fail(w, err)
		return
	}
	defer stop()
	stream.Watch(ctx, w, r, control.Subscription{Server: server, URI: uri}, changed, a.limits.alive)
}
