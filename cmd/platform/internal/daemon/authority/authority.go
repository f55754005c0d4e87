// Package authority authorizes the connections to remote servers: for a running
// platform, which has a server tried again once a person has helped, and for the
// verbs that log in and out. How a token is had is the business of package auth.
package authority

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/auth"
	"github.com/aurorabot-dev/platform/mcpkit/auth/tokens"
	"github.com/aurorabot-dev/platform/mcpkit/client/httpwire"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Authority authorizes the connections to remote servers, and has those tried
// again that wait for a person once one has helped.
type Authority struct {
	o      settings.Options
	log    *slog.Logger
	store  *tokens.Store
	secret func(...string)

	mu      sync.Mutex
	servers map[string]*authorized // by package
	wake    chan struct{}          // some server has begun to wait
}

// authorized is one server's authorization, which outlives its connections.
type authorized struct {
	m       *manifest.Manifest
	key     string // the state of the key that the manifest names
	client  *auth.Client
	waiting bool
}

// New opens the token store. Log and secret are as in auth.Options.
func New(o settings.Options, log *slog.Logger, secret func(...string)) (*Authority, error) {
	store, err := openTokens(&o)
	if err != nil {
		return nil, err
	}
	return &Authority{o: o, log: log, store: store, secret: secret, servers: map[string]*authorized{}, wake: make(chan struct{}, 1)}, nil
}

// Of is the authorization of a manifest's server, a new one where what it depends
// on has changed.
func (a *Authority) Of(m *manifest.Manifest) (httpwire.Authorizer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, key := a.servers[m.Package], KeyState(m)
	if s == nil || s.key != key || s.m != m && (s.m.MCP.URL != m.MCP.URL || s.m.AuthType() != m.AuthType() || s.m.Dir != m.Dir || !reflect.DeepEqual(s.m.MCP.Auth, m.MCP.Auth)) {
		cfg, err := config(&a.o, m)
		if err != nil {
			return nil, err
		}
		c, err := auth.New(cfg, auth.Options{Store: a.store, Logger: a.log, Secret: a.secret, Proxy: http.ProxyFromEnvironment})
		if err != nil {
			return nil, err
		}
		if s != nil {
			s.client.Close()
		}
		s = &authorized{client: c, key: key}
		a.servers[m.Package] = s
	}
	s.m = m
	return instructive{s.client, m.Package}, nil
}

// instructive makes of what only a person can mend a fault that says how.
type instructive struct {
	*auth.Client
	server string
}

func (i instructive) Authorize(ctx context.Context, r *http.Request) error {
	return i.instruct(i.Client.Authorize(ctx, r))
}

func (i instructive) Challenge(ctx context.Context, r *http.Response) (bool, error) {
	retry, err := i.Client.Challenge(ctx, r)
	return retry, i.instruct(err)
}

func (i instructive) instruct(err error) error {
	n, ok := errors.AsType[*auth.NeededError](err)
	switch {
	case !ok:
		return err
	case n.Login:
		return fault.New(fault.NeedsAuth, "%v; run: platform auth login %s", n, i.server)
	}
	return fault.New(fault.NeedsAuth, "%v; it must be mended in the manifest", n)
}

// Refused looks at why a server could not be connected. One that needs a person
// is watched from here on.
func (a *Authority) Refused(server string, err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.NeedsAuth {
		return
	}
	a.log.Warn("a server waits for a person", "server", server, "reason", f.Message)
	a.mu.Lock()
	if s := a.servers[server]; s != nil {
		s.waiting = true
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// helpPoll is how often it is looked whether a person has helped, while some
// server waits for one.
const helpPoll = time.Second

// Run starts servers that wait for a person once one has helped, until ctx ends.
func (a *Authority) Run(ctx context.Context, kit *serverkit.Kit) {
	var starting sync.WaitGroup
	defer starting.Wait()
	for {
		waiting := a.waiting()
		if len(waiting) == 0 {
			select {
			case <-a.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		phases := map[string]serverkit.Phase{}
		for _, s := range kit.Status() {
			phases[s.Name] = s.Phase
		}
		for name, client := range waiting {
			switch phases[name] { // others lead to one of these
			case serverkit.NeedsAuth:
				if client.Helped() {
					a.forget(name)
					a.log.Info("a server that waited for a person is tried again", "server", name)
					starting.Go(func() { _ = kit.Start(ctx, name) }) // how it went shows in its phase
				}
			case serverkit.Ready, serverkit.Stopped, serverkit.Disabled, serverkit.Failed, "":
				a.forget(name)
			}
		}
		select {
		case <-time.After(helpPoll):
		case <-ctx.Done():
			return
		}
	}
}

func (a *Authority) waiting() map[string]*auth.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := map[string]*auth.Client{}
	for name, s := range a.servers {
		if s.waiting {
			waiting[name] = s.client
		}
	}
	return waiting
}

func (a *Authority) forget(server string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.servers[server]; s != nil {
		s.waiting = false
	}
}

// Close ends idle connections to issuers.
func (a *Authority) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.servers {
		s.client.Close()
	}
}
