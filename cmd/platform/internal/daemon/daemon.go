// Package daemon makes a running platform of its parts: the wiring in one
// function, reload and shutdown.
//
//	o := settings.Defaults()
//	err := o.ReadConfig(settings.DefaultConfig, false) // platform.yaml, if it is there
//	err = daemon.Run(ctx, o, log, daemon.Hooks{})      // until ctx ends
//
// Below it, package settings has what can be set, servers what is made of
// manifests and its state, backend what answers the local API, authority the way to
// remote servers, teardown the end of all in order, and check tries out what is
// configured without a platform. What the parts do is in their packages; how any of
// it is shown to people, in the verbs.
package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/outbox"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/authority"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/backend"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/metrics"
	"github.com/aurorabot-dev/platform/mcpkit/artifact"
	"github.com/aurorabot-dev/platform/mcpkit/client"
	"github.com/aurorabot-dev/platform/mcpkit/client/session/handshake"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/manifest"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/redact"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Hooks let whoever starts a platform watch it. All are optional and must not block.
type Hooks struct {
	// Up is called once, when the API answers and the servers are being started.
	Up func(p *Platform, faults []error)
	// Settled is called once, when every server is ready or has failed to start.
	Settled func(p *Platform)
	// Signal sees everything that is observed, as the bridge does.
	Signal func(signal.Signal)
	// Reload makes the platform read its settings, its policy and its manifests again.
	Reload <-chan os.Signal
	// Settings are where the settings are read again; nil: nowhere.
	Settings *settings.Source
}

// Platform is a running platform. Its Backend answers the local API.
type Platform struct {
	*backend.Backend
	o       settings.Options
	log     *slog.Logger
	layout  settings.Layout
	socket  string
	started time.Time

	redactor  *redact.Redactor
	secrets   *authority.Secrets
	artifacts *artifact.Store
	bus       eventBus
	busErr    func() error // why the bus does not get on, or nil
	busCounts func() metrics.Bus
	metrics   *metrics.Metrics
	history   *history.Index
	bridge    *bridge.Bridge
	manager   *client.Manager
	kit       *serverkit.Kit
	authority *authority.Authority
	connector *servers.Connector
	servers   *servers.Directory
	gate      *policy.Gate
	host      *host.Host
	offers    *offers.Reader
	gateway   *gateway.Gateway
	settled   chan struct{} // closed once each server of the start is ready or has failed
	problems  []string      // found at start

	everything view.View // what this user's own programs see
	gatewayURL string    // empty: it is not open over HTTP

	mu          sync.Mutex
	live        settings.Options              // the settings in force, as far as they can be changed
	settings    []string                      // what of the settings is not in force, and why
	manifests   map[string]*manifest.Manifest // by package, as they run
	faults      []error                       // of the last load
	policyFault error                         // why the policy file is not in force
	rules       *rules.Rules                  // of the policy file
	strangers   map[string]*manifest.Fault    // servers that are not the apps whose names they bear
}

// Run runs a platform until ctx ends, then takes it down within the shutdown
// bound. It returns nil after a clean end.
func Run(ctx context.Context, o settings.Options, log *slog.Logger, hooks Hooks) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Data, err = filepath.Abs(o.Data); err != nil {
		return fmt.Errorf("finding the data folder: %w", err)
	}
	p := &Platform{o: o, live: o, layout: settings.Layout{Data: o.Data}, started: time.Now(), manifests: make(map[string]*manifest.Manifest), settled: make(chan struct{})}
	p.everything.Approve = true
	p.redactor = redact.New(nil)
	p.secrets = authority.NewSecrets(p.redactor)
	p.log = slog.New(p.redactor.Handler(log.Handler()))
	down := &teardown.Stack{Log: p.log}
	defer func() {
		live := p.options()
		err = errors.Join(err, down.Run(context.WithoutCancel(ctx), live.Shutdown()))
	}()

	if p.problems, err = p.layout.Make(); err != nil {
		return err
	}
	unlock, err := p.layout.Lock()
	if err != nil {
		return err
	}
	down.Add("lock", func(context.Context) error { unlock(); return nil })

	if p.artifacts, err = artifact.Open(p.layout.Artifacts(), artifact.Options{}); err != nil {
		return err
	}
	if err := p.openBus(ctx, down); err != nil {
		return err
	}
	p.history = history.Start(history.Options{Path: p.layout.History(), Bus: p.o.Bus, Journal: p.bus.Journal(), Logger: p.log})
	down.Add("history", p.history.Close)
	for _, problem := range p.problems {
		p.log.Warn("data folder", "problem", problem)
	}

	store := artifactStore{p.artifacts}
	p.bridge = bridge.New(bridge.Options{
		Bus: p.bus, Logger: p.log, Store: store, Routes: o.Routes(),
		Redact: p.redactJSON, RedactText: p.redactText,
	})
	down.Add("bridge", p.closeBridge)
	p.metrics = metrics.New(metrics.Sources{
		Version: settings.BuildVersion().Version, Events: p.bridge.Counts, Bus: p.busMetrics, Servers: p.serverMetrics,
	})
	sink := p.metrics.Watch(tee(tee(p.bridge, hooks.Signal), p.tellGateway))

	eras, err := handshake.OpenEras(filepath.Join(p.layout.State(), "eras.json"))
	if err != nil {
		p.log.Warn("what was known of the servers' protocol eras is lost", "error", err)
		eras = handshake.NewEras()
	}
	if p.manager, err = client.New(client.Options{
		Sink: sink, Logger: p.log, Eras: eras, Name: "aurora-platform", Version: settings.Version,
	}); err != nil {
		return err
	}
	down.Add("sessions", p.manager.Close)
	if p.authority, err = authority.New(o, p.log, p.secrets.Learn); err != nil {
		return err
	}
	p.connector = &servers.Connector{Layout: p.layout, Private: o.Private(), Authority: p.authority, Manager: p.manager, Log: p.log}
	if p.kit, err = serverkit.New(serverkit.Options{
		Sink: sink, Logger: p.log, LogDir: p.layout.Logs(),
		Redact: p.redactText, AdoptOrphans: true, SpawnsPerMinute: o.SpawnsPerMinute,
	}); err != nil {
		return err
	}
	down.Add("servers", p.kit.Shutdown)
	p.servers = &servers.Directory{Kit: p.kit, Manager: p.manager, Manifests: p.running}
	if err := p.openPolicy(ctx, down); err != nil {
		return err
	}
	p.host = host.New(host.Options{
		Client: p.manager, Sink: sink, Gate: p.gate, Down: p.servers.Down, Room: p.room, Logger: p.log, Prefix: o.Tool.Prefix, Profile: o.Tool.Profile,
		Redact: p.redactResult, Store: store, MaxPreview: o.Call.MaxPreview, MaxResult: o.Call.MaxResult,
	})
	p.offers = offers.New(offers.Options{
		Client: p.manager, Sink: sink, Gate: p.gate, Logger: p.log, Redact: p.redactResult, Store: store, MaxResult: o.Call.MaxResult,
	})

	if err := p.openGateway(ctx, down); err != nil {
		return err
	}
	p.Backend = backend.New(backend.Options{
		Layout: p.layout, Started: p.started, Logger: p.log, Servers: p.servers, Host: p.host, Offers: p.offers, Gate: p.gate,
		Gateway: p.gateway, View: &p.everything, Journal: p.bus.Journal(), History: p.history, Events: p.bridge.Counts,
		Degraded: p.degraded, Problems: p.problemsNow,
	})
	if err := p.openAPI(ctx, down); err != nil {
		return err
	}
	p.retain(ctx, down)
	p.watchLogins(ctx, down)
	p.watch(ctx, hooks.Reload, hooks.Settings, down)
	p.Reload()
	if err := p.openOutbox(ctx, sink, down); err != nil {
		return err
	}
	p.log.Info("platform is up", "data", o.Data, "socket", p.socket, "servers", len(p.manifests))
	if hooks.Up != nil {
		hooks.Up(p, p.Faults())
	}
	p.settle(ctx, hooks.Settled, down)
	<-ctx.Done()
	live := p.options()
	p.log.Info("shutting down", "bound", live.Shutdown())
	return nil
}

// settle waits until each server of the start is ready or has failed once, and
// tells.
func (p *Platform) settle(ctx context.Context, tell func(*Platform), down *teardown.Stack) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.kit.Wait(ctx) != nil {
			return
		}
		close(p.settled)
		if tell != nil {
			tell(p)
		}
	}()
	down.Add("settled", func(context.Context) error { stop(); <-done; return nil })
}

// awaitTool returns when there is a tool of that name, or the platform has
// settled without it.
func (p *Platform) awaitTool(ctx context.Context, name string) {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := p.host.Table().Resolve(name); err == nil || fault.From(err).Code != fault.ToolNotFound {
			return
		}
		select {
		case <-p.settled:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// watchLogins has servers connected that people log in to.
func (p *Platform) watchLogins(ctx context.Context, down *teardown.Stack) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); p.authority.Run(ctx, p.kit) }()
	down.Add("logins", func(context.Context) error { stop(); <-done; p.authority.Close(); return nil })
}

// openAPI answers the local API from here on.
func (p *Platform) openAPI(ctx context.Context, down *teardown.Stack) error {
	socket, moved, err := endpoint.Listen(p.o.Data)
	if err != nil {
		return err
	}
	p.socket = socket.Addr().String()
	if moved {
		p.log.Warn("the data folder's path is too long for a socket; it is elsewhere", "socket", p.socket)
	}
	tcp, token, err := endpoint.ListenTCP(p.o.Data, p.o.API.Listen)
	if err != nil {
		socket.Close()
		return err
	}
	if tcp != nil {
		p.log.Info("the API is also open over TCP", "address", tcp.Addr().String())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(ctx, server.Options{
			Backend: p.Backend, Logger: p.log, Socket: socket, TCP: tcp, Token: token, Grace: 2 * time.Second,
			Metrics: p.metrics,
		})
	}()
	down.Add("api", func(context.Context) error { stop(); return <-done })
	return nil
}

// openOutbox carries out the calls that a Brain asks for with files.
func (p *Platform) openOutbox(ctx context.Context, sink signal.Sink, down *teardown.Stack) error {
	x, err := outbox.New(outbox.Options{Dir: p.layout.Outbox(), Caller: p.host, Answer: p.host.AnswerInput, Sink: sink, Logger: p.log, Ready: p.awaitTool})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx)) // for a cause of its own
	done := make(chan struct{})
	go func() { defer close(done); x.Run(ctx) }()
	down.Add("outbox", func(context.Context) error {
		stop(fault.New(fault.Interrupted, "the platform shut down during the call"))
		<-done
		return nil
	})
	return nil
}

// artifactStore lets the bridge and the host keep what is large.
type artifactStore struct{ s *artifact.Store }

func (a artifactStore) Put(ctx context.Context, data []byte, mediaType string) (any, error) {
	return a.s.Put(ctx, bytes.NewReader(data), mediaType)
}

func (p *Platform) redactJSON(b []byte) []byte {
	out, _ := p.redactor.JSON(b)
	return out
}

func (p *Platform) redactResult(b []byte) ([]byte, []string) {
	out, hits := p.redactor.JSON(b)
	return out, hits.Rules()
}

func (p *Platform) redactText(s string) string {
	out, _ := p.redactor.String(s)
	return out
}

// tee shows every signal to see before it goes on to next.
func tee(next signal.Sink, see func(signal.Signal)) signal.Sink {
	if see == nil {
		return next
	}
	return signal.SinkFunc(func(ctx context.Context, s signal.Signal) error {
		see(s)
		return next.Observe(ctx, s)
	})
}
