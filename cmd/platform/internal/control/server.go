package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
)

const (
	maxBody  = 16 << 20 // bytes of a request
	maxCalls = 512      // at once; more are answered with busy
)

// Serve answers the API on l until ctx ends, then lets running requests finish
// for at most grace. It closes l.
func Serve(ctx context.Context, l net.Listener, b Backend, log *slog.Logger, grace time.Duration) error {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	srv := &http.Server{
		Handler:           Handler(b),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving the local API: %w", err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(base, grace)
	defer cancel()
	time.AfterFunc(grace/2, stop) // streams end only when told to
	err := srv.Shutdown(deadline)
	if err != nil {
		srv.Close()
	}
	<-done
	return err
}

// Handler is the API as an http.Handler. Requests from pages of a browser are
// refused by their Origin.
func Handler(b Backend) http.Handler {
	a := api{b: b, calls: make(chan struct{}, maxCalls)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, r *http.Request) { reply(w, b.Version()) })
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { reply(w, b.Status()) })
	mux.HandleFunc("GET /v1/servers", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"servers": b.Servers()})
	})
	mux.HandleFunc("POST /v1/servers/{name}/{action}", a.act)
	mux.HandleFunc("GET /v1/servers/{name}/logs", a.logs)
	mux.HandleFunc("GET /v1/tools", a.tools)
	mux.HandleFunc("POST /v1/calls", a.call)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &statusError{http.StatusNotFound, fault.New("not_found", "there is no %s %s", r.Method, r.URL.Path)})
	})
	return http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(mux, maxBody))
}

type api struct {
	b     Backend
	calls chan struct{}
}

func (a *api) act(w http.ResponseWriter, r *http.Request) {
	name, action := r.PathValue("name"), r.PathValue("action")
	switch action {
	case "start", "stop", "restart":
	default:
		fail(w, &statusError{http.StatusNotFound, fault.New("not_found", "a server can be started, stopped or restarted, not %q", action)})
		return
	}
	if err := a.b.Act(r.Context(), name, action); err != nil {
		fail(w, err)
		return
	}
	reply(w, map[string]any{"ok": true, "server": name, "action": action})
}

func (a *api) tools(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("format") != "openai" {
		reply(w, map[string]any{"tools": a.b.Tools(q.Get("server"))})
		return
	}
	body, err := a.b.Export(q.Get("profile"), q.Get("server"))
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func (a *api) call(w http.ResponseWriter, r *http.Request) {
	select {
	case a.calls <- struct{}{}:
		defer func() { <-a.calls }()
	default:
		fail(w, fault.New(fault.Busy, "%d calls are running already", maxCalls).Retry())
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			err = &statusError{http.StatusRequestEntityTooLarge, fault.New("request_too_large", "a request may have %d bytes", maxBody)}
		}
		fail(w, err)
		return
	}
	var req CallRequest
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, fault.New(fault.InvalidArguments, "the request is no call: %v", err))
		return
	}
	if req.Entrance == "" {
		req.Entrance = "api"
	}
	res, err := a.b.Call(r.Context(), req)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, res)
}

func (a *api) logs(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil || n < 0 {
		n = 100
	}
	follow := r.URL.Query().Get("follow") == "true"
	out := http.NewResponseController(w)
	begun := false
	err = a.b.Logs(r.Context(), r.PathValue("name"), n, follow, func(line string) error {
		if !begun {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			begun = true
		}
		if _, err := io.WriteString(w, line+"\n"); err != nil {
			return err
		}
		if follow {
			return out.Flush()
		}
		return nil
	})
	if err != nil && !begun && r.Context().Err() == nil {
		fail(w, err)
	}
}

// statusError is a failure that is HTTP's own matter.
type statusError struct {
	status int
	fault  *fault.Error
}

func (e *statusError) Error() string { return e.fault.Error() }

// status maps failures to HTTP.
func status(f *fault.Error) int {
	switch f.Code {
	case fault.ToolNotFound, ServerNotFound:
		return http.StatusNotFound
	case fault.AmbiguousCall, fault.InvalidArguments, UnknownProfile:
		return http.StatusBadRequest
	case fault.Denied, fault.ApprovalRequired:
		return http.StatusForbidden
	case fault.Timeout:
		return http.StatusGatewayTimeout
	case fault.Busy:
		return http.StatusTooManyRequests
	case fault.ServerNotReady:
		return http.StatusServiceUnavailable
	case fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}

// Codes of the API beyond those of package fault.
const (
	ServerNotFound = "server_not_found"
	UnknownProfile = "unknown_profile"
)

func fail(w http.ResponseWriter, err error) {
	var se *statusError
	f, code := fault.From(err), 0
	if errors.As(err, &se) {
		f, code = se.fault, se.status
	} else {
		code = status(f)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(Problem{
		Title: http.StatusText(code), Status: code, Detail: f.Message,
		Code: f.Code, Message: f.Message, Retryable: f.Retryable, Outcome: string(f.Outcome),
		Candidates: f.Candidates, Data: f.Data,
	})
}

func reply(w http.ResponseWriter, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // results stay as their servers wrote them
	if err := enc.Encode(v); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body.Bytes())
}

// Listen opens the socket at path for its owner alone. The caller makes sure
// that no other platform uses it; what a dead one left is removed.
func Listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the old socket: %w", err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("opening the socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("protecting the socket: %w", err)
	}
	return l, nil
}
