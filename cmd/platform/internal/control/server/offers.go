package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

func (a *api) offerRoutes() []route {
	return []route{
		{"GET", "/v1/resources", a.list("resources", Backend.Resources)},
		{"GET", "/v1/resources/templates", a.list("templates", Backend.Templates)},
		{"POST", "/v1/resources/read", func(w http.ResponseWriter, r *http.Request) {
			var in control.ReadRequest
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
			var in control.Subscription
			if err := a.named(w, r, &in, &in.Server, &in.URI, "uri, of the resource,"); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Subscribe(r.Context(), in)
			respond(w, v, err)
		}},
		{"POST", "/v1/resources/unsubscribe", func(w http.ResponseWriter, r *http.Request) {
			var in control.Subscription
			err := a.named(w, r, &in, &in.Server, &in.URI, "uri, of the resource,")
			if err == nil && !a.b.Unsubscribe(in) {
				err = refuse(http.StatusNotFound, control.SubscriptionNotFound, "there is no subscription to %q of %q", in.URI, in.Server)
			}
			respond(w, map[string]any{"ok": true}, err)
		}},
		{"GET", "/v1/prompts", a.list("prompts", Backend.Prompts)},
		{"POST", "/v1/prompts/get", func(w http.ResponseWriter, r *http.Request) {
			var in control.PromptRequest
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
			var in control.CompletionRequest
			if err := a.named(w, r, &in, &in.Server, &in.Argument, "argument, to complete,"); err != nil {
				fail(w, err)
				return
			}
			v, err := a.b.Complete(r.Context(), in)
			respond(w, v, err)
		}},
		{"POST", "/v1/servers/{name}/log-level", func(w http.ResponseWriter, r *http.Request) {
			var in control.LogLevelRequest
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
func (a *api) list(name string, read func(Backend, context.Context, string) ([]control.Item, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		server := r.URL.Query().Get("server")
		if err := a.known(server); err != nil {
			fail(w, err)
			return
		}
		items, err := read(a.b, r.Context(), server)
		if items == nil {
			items = []control.Item{}
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
	data, _ := json.Marshal(control.Subscription{Server: server, URI: uri}) // strings always marshal
	alive := time.NewTicker(a.limits.alive)
	defer alive.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			err = out.write("event: %s\ndata: %s\n\n", control.UpdatedEvent, data)
		case <-alive.C:
			err = out.write(": alive\n\n")
		}
		if err != nil {
			return
		}
	}
}
