package auth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/cli"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/issuer"
)

// listenFor listens on a port of this machine: the given one and no other, else
// the preferred one if it is free, else any.
func listenFor(fixed, preferred int) (net.Listener, error) {
	at := func(port int) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)) }
	if fixed != 0 {
		return at(fixed)
	}
	l, err := at(preferred)
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
		return at(0)
	}
	return l, err
}

// finish waits for the browser, or for a person who pastes where it ended, and
// finishes the login. What belongs to no login, or cannot be read, ends nothing.
func finish(ctx context.Context, c *cli.Env, l net.Listener, login *auth.Login) error {
	over := make(chan error)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tell := func(err error) {
		select {
		case over <- err:
		case <-ctx.Done():
		}
	}
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/callback" || r.Method != http.MethodGet || r.Host != l.Addr().String() {
				http.NotFound(w, r)
				return
			}
			err := login.Finish(ctx, r.URL.Query())
			page(w, err)
			_ = http.NewResponseController(w).Flush() // the terminal may be slow
			if !errors.Is(err, auth.ErrOtherLogin) {
				tell(err)
			}
		}),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if srv.Shutdown(stop) != nil { // lets the browser have its page
			srv.Close()
		}
		<-served
	}()
	if c.In != nil {
		go pasted(ctx, c, login, tell) // ends with the input: a read of a terminal cannot be called off
	}
	select {
	case err := <-over:
		return err
	case err := <-served:
		served <- err
		return fmt.Errorf("listening for the browser: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pasted reads what a person pastes, until one paste finishes the login.
func pasted(ctx context.Context, c *cli.Env, login *auth.Login, tell func(error)) {
	lines := bufio.NewScanner(c.In)
	for lines.Scan() && ctx.Err() == nil {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		err := answer(ctx, login, lines.Text())
		if p, ok := errors.AsType[*pasteError](err); ok {
			c.Complain(p.Error(), "paste the whole address that the browser ended at")
			continue
		}
		tell(err)
		return
	}
}

// pasteError is a paste that finishes no login.
type pasteError struct{ error }

func answer(ctx context.Context, login *auth.Login, text string) error {
	q, err := issuer.ParseAnswer(text)
	if err != nil {
		return &pasteError{err}
	}
	if len(q) == 1 && q.Has("code") && !strings.Contains(text, "code=") {
		err = login.FinishCode(ctx, q.Get("code"))
		if errors.Is(err, auth.ErrNotWhole) {
			return &pasteError{err}
		}
		return err
	}
	if err = login.Finish(ctx, q); errors.Is(err, auth.ErrOtherLogin) {
		return &pasteError{err}
	}
	return err
}

// page is what the browser shows in the end.
func page(w http.ResponseWriter, err error) {
	head, text, status := "Logged in", "You can close this window.", http.StatusOK
	switch {
	case errors.Is(err, auth.ErrOtherLogin):
		head, text, status = "Not this login", "This address belongs to another login.", http.StatusBadRequest
	case err != nil:
		head, text, status = "Not logged in", "The terminal says why.", http.StatusBadRequest
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>%[1]s</title><body style=\"font:18px sans-serif;margin:4em\"><h1>%[1]s</h1><p>%[2]s\n",
		html.EscapeString(head), html.EscapeString(text))
}
