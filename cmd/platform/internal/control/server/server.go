// Package server answers the platform's local API, whose requests and answers
// package control describes. It admits requests, bounds what they may cost (see
// [limits]), reads them and writes what came of them; what they do is the
// [Backend]'s. For example:
//
//	socket, _, err := endpoint.Listen(data)
//	err = server.Serve(ctx, server.Options{Backend: b, Socket: socket, Grace: grace})
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/calls"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/guard"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/historyapi"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/httpjson"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server/stream"
	"github.com/aurorabot-dev/platform/internal/httpend"
)

// limits bound what clients can ask for at once. What exceeds one is answered
// with busy or request_too_large; connections wait to be accepted.
type limits struct {
	conns     int           // connections of each listener
	header    int           // bytes of a request's header
	body      int64         // bytes of a request's body
	calls     int           // calls that run
	streams   int           // event streams, followed logs and waits for a call's end
	lines     int           // lines of a log that are not followed
	kept      int           // finished asynchronous calls that can be asked for,
	keptBytes int           // their results together, though the last one is kept in any case,
	keep      time.Duration // and for how long
	stall     time.Duration // for a body to come, and for each write to be taken
	alive     time.Duration // after which a silent stream says that it is there
}

var defaultLimits = limits{
	conns: 1024, header: 64 << 10, body: 16 << 20, calls: 512, streams: 256, lines: 10_000,
	kept: 1000, keptBytes: 64 << 20, keep: 10 * time.Minute,
	stall: 30 * time.Second, alive: 15 * time.Second,
}

// Options say what is served and where. Backend and Socket are required.
type Options struct {
	Backend Backend
	Logger  *slog.Logger  // nil discards
	Socket  net.Listener  // protected by the mode of its file
	TCP     net.Listener  // on a loopback address; may be nil
	Token   string        // which every request over TCP must carry
	Grace   time.Duration // for what runs when the end comes
	Metrics http.Handler  // of GET /metrics; nil answers that it is not there
}

// Serve answers the API until ctx ends. Then streams end at once, calls that run
// have half of the grace to end by themselves and are cancelled after it, and
// connections have the whole, except that those on which no request has begun end
// at once. It closes the listeners and returns when nothing that it started runs
// any more.
func Serve(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return newAPI(o, defaultLimits).serve(ctx, o)
}

func (a *api) serve(ctx context.Context, o Options) error {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	srv := &http.Server{
		Handler:           a.guard,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    a.limits.header,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	unused := httpend.Track(srv)
	closed := make(chan struct{})
	// Whoever sees a stream end finds that nobody listens any more.
	srv.RegisterOnShutdown(func() { a.streams.Close(); close(closed) })
	ended := make(chan error, 2)
	listeners := 0
	for _, l := range []net.Listener{o.Socket, o.TCP} {
		if l != nil {
			listeners++
			go func() { ended <- srv.Serve(guard.Limit(l, a.limits.conns)) }()
		}
	}
	var failed error
	select {
	case err := <-ended:
		failed = fmt.Errorf("serving the local API: %w", err)
		listeners--
	case <-ctx.Done():
	}

	unused.Close()
	half := time.AfterFunc(o.Grace/2, func() { a.calls.Close(); stop() })
	defer half.Stop()
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	switch err := srv.Shutdown(whole); {
	case errors.Is(err, context.DeadlineExceeded): // such as a request that was never sent whole
		a.log.Info("clients that did not end were cut off", "after", o.Grace)
		srv.Close()
	case err != nil:
		srv.Close()
		failed = errors.Join(failed, fmt.Errorf("ending the local API: %w", err))
	}
	<-closed
	for range listeners {
		<-ended
	}
	a.guard.Wait()
	return failed
}

// api answers requests.
type api struct {
	b       Backend
	metrics http.Handler
	log     *slog.Logger
	limits  limits
	mux     httpjson.Mux
	calls   *calls.Registry
	streams *stream.Set
	guard   *guard.Guard // in front of the handlers; counts requests and asynchronous calls
}

func newAPI(o Options, lim limits) *api {
	a := &api{
		b: o.Backend, metrics: o.Metrics, log: o.Logger, limits: lim,
		calls:   calls.New(o.Backend, o.Logger, calls.Limits{Running: lim.calls, Kept: lim.kept, KeptBytes: lim.keptBytes, Keep: lim.keep}),
		streams: stream.NewSet(lim.streams),
	}
	a.guard = guard.New(&a.mux, guard.Options{Token: o.Token, Stall: lim.stall, Log: o.Logger})
	if a.metrics == nil {
		a.metrics = http.NotFoundHandler()
	}
	for _, r := range a.routes() {
		a.mux.HandleFunc(r.method+" "+r.path, r.answer)
	}
	return a
}

// route is one operation of the API.
type route struct {
	method, path string
	answer       http.HandlerFunc
}

func (a *api) routes() []route {
	var past []route
	for path, answer := range historyapi.Answers(a.b) {
		past = append(past, route{"GET", path, answering(answer)})
	}
	return append(slices.Concat(a.policyRoutes(), a.offerRoutes(), a.inputRoutes(), past), []route{
		{"GET", "/v1/version", func(w http.ResponseWriter, r *http.Request) { httpjson.Reply(w, a.b.Version()) }},
		{"GET", "/v1/status", func(w http.ResponseWriter, r *http.Request) { httpjson.Reply(w, a.b.Status()) }},
		{"GET", "/metrics", func(w http.ResponseWriter, r *http.Request) { a.metrics.ServeHTTP(w, r) }},
		{"GET", "/v1/openapi.json", a.openAPI},
		{"GET", "/v1/servers", a.servers},
		{"POST", "/v1/servers/{name}/{action}", a.act},
		{"GET", "/v1/servers/{name}/logs", a.logs},
		{"GET", "/v1/tools", a.tools},
		{"POST", "/v1/calls", a.call},
		{"GET", "/v1/calls/{id}", a.callState},
		{"DELETE", "/v1/calls/{id}", a.cancelCall},
		{"GET", "/v1/events", func(w http.ResponseWriter, r *http.Request) { a.streams.Events(w, r, a.b, a.limits.alive) }},
		{"POST", "/v1/history/rebuild", reading(a, struct{}{}, func(r *http.Request, _ *struct{}) (any, error) { return done, a.b.RebuildHistory(r.Context()) })},
		{"GET", "/v1/gateway", a.gateway},
	}...)
}

// done is the answer of a request that asks for nothing.
var done = map[string]any{"ok": true}

// answering makes a handler that answers with what read returns.
func answering(read func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r)
		httpjson.Respond(w, v, err)
	}
}

// reading makes a handler that reads the body over what in has already, and
// answers with what act returns.
func reading[T any](a *api, in T, act func(*http.Request, *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in := in // of this request
		if err := a.decode(w, r, &in); err != nil {
			httpjson.Fail(w, err)
			return
		}
		v, err := act(r, &in)
		httpjson.Respond(w, v, err)
	}
}

// decode reads a request's body.
func (a *api) decode(w http.ResponseWriter, r *http.Request, into any) error {
	return httpjson.Decode(w, r, httpjson.Bounds{Bytes: a.limits.body, Wait: a.limits.stall}, into)
}
