package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/console"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
)

func (c *cli) authCommand() *cobra.Command {
	return group("auth", "Log in to remote servers, and out", `Remote MCP servers may want to know on whose behalf the platform comes. A server
that does waits in the state needs_auth until somebody has logged in with
"platform auth login"; then it is connected by itself.

What is issued is kept in DATA/auth for the platform alone, one file for each
server and issuer. No running platform is needed.`,
		c.authLogin(), c.authStatus(), c.authLogout())
}

// source is where a verb finds manifests.
type source struct {
	config string
	dirs   []string
}

func (s *source) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&s.config, "config", "", "configuration file (default platform.yaml, if there is one)")
	cmd.Flags().StringArrayVar(&s.dirs, "manifests", nil, "folder or file with manifests; may be repeated (default those of the running platform)")
	return cmd
}

// logins reads the manifests: those that are named, else those of the platform
// that runs on the data folder, else those that one would be started with. What
// the redactor learns of secrets is kept out of what is shown.
func (c *cli) logins(cmd *cobra.Command, src *source, secrets *redact.Redactor) (*daemon.Logins, error) {
	o := daemon.Defaults()
	if err := c.settings(cmd, &o, src.config, src.dirs); err != nil {
		return nil, err
	}
	if len(src.dirs) == 0 && src.config == "" {
		if running := c.runningManifests(cmd.Context()); len(running) > 0 {
			o.Manifests = running
		}
	}
	var mu sync.Mutex
	var known []string
	return daemon.OpenLogins(o, slog.New(slog.DiscardHandler), func(values ...string) {
		mu.Lock()
		defer mu.Unlock()
		known = append(known, values...)
		secrets.Set(known)
	})
}

// runningManifests are the files that the running platform's servers come from;
// none where no platform runs.
func (c *cli) runningManifests(ctx context.Context) (files []string) {
	for _, s := range c.runningServers(ctx) {
		if _, err := os.Stat(s.Manifest); err == nil && !slices.Contains(files, s.Manifest) { // built-in ones are no files
			files = append(files, s.Manifest)
		}
	}
	return files
}

// runningServers are the running platform's servers; none where no platform runs.
func (c *cli) runningServers(ctx context.Context) []control.Server {
	client, err := c.dial()
	if err != nil {
		return nil
	}
	defer client.Close()
	servers, err := client.Servers(ctx)
	if err != nil {
		return nil
	}
	return servers
}

// safely takes secrets out of an error for people, and keeps its hint.
func safely(err error, secrets *redact.Redactor) error {
	if err == nil {
		return nil
	}
	text, hits := secrets.String(err.Error())
	if len(hits) == 0 {
		return err
	}
	if h, ok := errors.AsType[*hinted](err); ok {
		return &hinted{errors.New(text), h.hint}
	}
	return errors.New(text)
}

// atServer makes a verb of what it does with the authorization of the server that is
// its argument.
func (c *cli) atServer(src *source, do func(ctx context.Context, client *auth.Client, m *manifest.Manifest) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, a []string) error {
		secrets := redact.New(nil)
		logins, err := c.logins(cmd, src, secrets)
		if err != nil {
			return err
		}
		client, m, err := logins.Client(a[0])
		if err != nil {
			return err
		}
		defer client.Close()
		return safely(do(cmd.Context(), client, m), secrets)
	}
}

func (c *cli) authLogin() *cobra.Command {
	var src source
	var scopes []string
	var port int
	var timeout time.Duration
	cmd := c.jsonFlag(src.flags(&cobra.Command{
		Use:   "login SERVER",
		Short: "Log in to a remote server with a browser",
		Long: `Log in to a remote server. The address to open is printed; nothing is opened by
itself. After the login the browser comes back to a port of this machine.

Where the browser runs on another machine, over ssh for example, it ends at an
address that it cannot open: paste that address into the terminal. With --json
each step is one line of JSON.`,
		Args: args(cobra.ExactArgs(1)),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return &usageError{fmt.Errorf("--timeout must be more than 0, not %s", timeout), cmd}
			}
			if port < 0 || port > math.MaxUint16 {
				return &usageError{fmt.Errorf("--port is from 1 to %d, not %d", math.MaxUint16, port), cmd}
			}
			return nil
		},
		RunE: c.atServer(&src, func(whole context.Context, client *auth.Client, m *manifest.Manifest) error {
			ctx, cancel := context.WithTimeoutCause(whole, timeout, fmt.Errorf("nobody has finished the login within %v", timeout))
			defer cancel()
			err := c.login(ctx, client, m.Package, cmp.Or(port, m.MCP.Auth.RedirectPort), scopes)
			if err != nil && whole.Err() == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return err
		}),
	}))
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "scope to ask for besides; may be repeated")
	cmd.Flags().IntVar(&port, "port", 0, "port of this machine that the browser comes back to (default any)")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait for the person")
	return cmd
}

// login runs one login from the address to the tokens.
func (c *cli) login(ctx context.Context, client *auth.Client, server string, port int, scopes []string) error {
	l, err := listenFor(port, client.RedirectPort())
	if err != nil {
		return &hinted{err, "choose another with --port, or end what uses it"}
	}
	defer l.Close()
	redirect := fmt.Sprintf("http://127.0.0.1:%d/callback", l.Addr().(*net.TCPAddr).Port)
	login, err := client.Begin(ctx, redirect, scopes)
	if err != nil {
		return err
	}
	if c.json {
		if err := c.printJSON(map[string]any{"step": "open", "server": server, "url": login.URL, "redirect_uri": redirect, "issuer": login.Issuer, "scopes": login.Scopes}); err != nil {
			return err
		}
	} else {
		c.out.Printf("Log in to %s at %s.\nOpen this address in a browser:\n\n  %s\n\n", console.Safe(server), console.Safe(login.Issuer), console.Safe(login.URL))
		c.out.Printf("%s\n", c.out.Paint(console.Dim, "If the browser is on another machine, paste the address that it ends at here."))
	}
	if err := c.finish(ctx, l, login); err != nil {
		return err
	}
	status, err := client.Status()
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(struct {
			Step string `json:"step"`
			auth.Status
		}{"done", status})
	}
	c.out.Printf("%s logged in to %s", c.out.Paint(console.Green, "✓"), console.Safe(server))
	if len(status.Scopes) > 0 {
		c.out.Printf(" (%s)", console.Safe(strings.Join(status.Scopes, " ")))
	}
	c.out.Printf("\n")
	return nil
}

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
func (c *cli) finish(ctx context.Context, l net.Listener, login *auth.Login) error {
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
	if c.in != nil {
		go c.pasted(ctx, login, tell) // ends with the input: a read of a terminal cannot be called off
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
func (c *cli) pasted(ctx context.Context, login *auth.Login, tell func(error)) {
	lines := bufio.NewScanner(c.in)
	for lines.Scan() && ctx.Err() == nil {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		err := answer(ctx, login, lines.Text())
		if p, ok := errors.AsType[*pasteError](err); ok {
			c.complain(p.Error(), "paste the whole address that the browser ended at")
			continue
		}
		tell(err)
		return
	}
}

// pasteError is a paste that finishes no login.
type pasteError struct{ error }

func answer(ctx context.Context, login *auth.Login, text string) error {
	q, err := auth.ParseAnswer(text)
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

func (c *cli) authStatus() *cobra.Command {
	var src source
	return c.jsonFlag(src.flags(&cobra.Command{
		Use:   "status [SERVER]",
		Short: "Show what there is to authorize with",
		Long: `Show for one remote server or for all what there is to authorize with. Nothing is
asked of any server: whether one without a login needs any, only a platform that
runs can tell (not_needed). The exit code is 3 where somebody must log in.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			secrets := redact.New(nil)
			logins, err := c.logins(cmd, &src, secrets)
			if err != nil {
				return err
			}
			servers := a
			if len(servers) == 0 {
				servers = logins.Remote()
			}
			ready := map[string]bool{}
			for _, s := range c.runningServers(cmd.Context()) {
				ready[s.Name] = s.Phase == "ready"
			}
			all := []auth.Status{}
			for _, server := range servers {
				client, _, err := logins.Client(server)
				if err != nil {
					return err
				}
				defer client.Close()
				status, err := client.Status()
				if err != nil {
					return safely(err, secrets)
				}
				if status.State == "needs_auth" && ready[status.Server] { // it does without
					status.State = "not_needed"
				}
				all = append(all, status)
			}
			if err := c.showAuth(all); err != nil {
				return err
			}
			if slices.ContainsFunc(all, func(s auth.Status) bool { return s.State == "needs_auth" }) {
				return errFindings
			}
			return nil
		},
	}))
}

func (c *cli) showAuth(all []auth.Status) error {
	if c.json {
		return c.printJSON(map[string]any{"servers": all})
	}
	if len(all) == 0 {
		c.out.Printf("no server is remote\n")
		return nil
	}
	now := time.Now()
	var rows [][]console.Cell
	for _, s := range all {
		style, expires, note := console.Green, "", ""
		switch {
		case s.State == "needs_auth":
			style, note = console.Yellow, "platform auth login "+s.Server
		case len(s.Wanted) > 0:
			style, note = console.Yellow, "the server also wants "+strings.Join(s.Wanted, " ")+": log in again"
		}
		if s.Expires.After(now) {
			expires = "in " + console.Age(s.Expires.Sub(now))
		} else if !s.Expires.IsZero() {
			expires = "over"
		}
		if s.Renews && expires != "" {
			expires += ", renewed"
		}
		rows = append(rows, []console.Cell{
			{Text: s.Server}, {Text: s.Type}, {Text: s.State, Style: style}, {Text: s.Issuer}, {Text: strings.Join(s.Scopes, " ")}, {Text: expires}, {Text: note},
		})
	}
	c.out.Table([]string{"SERVER", "TYPE", "STATE", "ISSUER", "SCOPES", "EXPIRES", "NOTE"}, rows)
	return nil
}

func (c *cli) authLogout() *cobra.Command {
	var src source
	return c.jsonFlag(src.flags(&cobra.Command{
		Use:   "logout SERVER",
		Short: "Give back and forget what a server's issuer has issued",
		Long: `Ask the issuer to revoke the tokens of a server, where it offers that, and remove
them from this machine in any case.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: c.atServer(&src, func(ctx context.Context, client *auth.Client, m *manifest.Manifest) error {
			revoked, err := client.Logout(ctx)
			if err != nil {
				return &hinted{err, "what was stored is removed where it could be; the issuer may still take the tokens until they expire"}
			}
			if c.json {
				return c.printJSON(map[string]any{"server": m.Package, "revoked": revoked})
			}
			c.out.Printf("logged out of %s; %d tokens revoked\n", console.Safe(m.Package), revoked)
			return nil
		}),
	}))
}
