// Package backend answers the local API for a running platform: it is the
// [server.Backend] of the daemon. It starts nothing and keeps nothing but the
// subscriptions to resources; the parts of which it tells are made in package
// daemon.
package backend

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/aurorabot-dev/platform/bridge"
	"github.com/aurorabot-dev/platform/bridge/history"
	"github.com/aurorabot-dev/platform/bridge/journal"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/server"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/servers"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/stdio"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/host"
	"github.com/aurorabot-dev/platform/mcpkit/host/offers"
	"github.com/aurorabot-dev/platform/mcpkit/policy"
	"github.com/aurorabot-dev/platform/mcpkit/policy/rules"
	"github.com/aurorabot-dev/platform/mcpkit/serverkit"
)

// Options are the parts of the platform of which a Backend tells. All are required.
type Options struct {
	Layout  settings.Layout
	Started time.Time
	Logger  *slog.Logger

	Servers *servers.Directory
	Host    *host.Host
	Offers  *offers.Reader
	Gate    *policy.Gate
	Gateway *gateway.Gateway
	View    *view.View // what a client of the gateway sees that comes over the API
	Journal *journal.Journal
	History *history.Index
	Events  func() bridge.Counts

	// Degraded is why events do not get through, or nil.
	Degraded func() error
	// Problems are what a person should know of, in the order in which to show it.
	Problems func() []string
}

// Backend is the API's backend. Make it with New; it is safe for concurrent use.
type Backend struct {
	o    Options
	subs subscriptions
}

var _ server.Backend = (*Backend)(nil)

// New makes a Backend of the parts of a platform.
func New(o Options) *Backend { return &Backend{o: o} }

// Version says what runs.
func (b *Backend) Version() control.Version { return settings.BuildVersion() }

// Status is the platform as a whole.
func (b *Backend) Status() control.Status {
	c := b.o.Events()
	st := control.Status{
		Version: settings.BuildVersion(), PID: os.Getpid(), StartedAt: b.o.Started, Data: b.o.Layout.Data, Inbox: b.o.Layout.Inbox(),
		State: "ok", Problems: b.o.Problems(),
		Events: control.Events{Accepted: c.Accepted, Duplicate: c.Duplicate, Rejected: c.Rejected, Expired: c.Expired, Waiting: c.Waiting},
	}
	if b.o.Degraded() != nil {
		st.State = "degraded"
	}
	return st
}

// Servers is the state of each server by name.
func (b *Backend) Servers() []control.Server { return b.o.Servers.All() }

// Act starts, stops or restarts a server.
func (b *Backend) Act(ctx context.Context, name, action string) error {
	name = b.o.Servers.Name(name)
	var err error
	switch action {
	case "start":
		err = b.o.Servers.Kit.Start(ctx, name)
	case "stop":
		err = b.o.Servers.Kit.Stop(ctx, name)
	case "restart":
		err = b.o.Servers.Kit.Restart(ctx, name)
	}
	switch {
	case errors.Is(err, serverkit.ErrUnknownServer):
		return b.o.Servers.Unknown(name)
	case err == nil || ctx.Err() != nil:
		return err
	}
	return fault.New(fault.ServerNotReady, "%v", err) // it is disabled, or did not start
}

// Tools are the tool records, of one server or of all.
func (b *Backend) Tools(server string) []control.Tool {
	server = b.o.Servers.Name(server)
	table := b.o.Host.Table()
	out := []control.Tool{}
	for _, t := range table.Tools() {
		if server == "" || t.Source.Server == server {
			v := b.o.Gate.Engine.Judge(policy.Request{Tool: t})
			out = append(out, control.Tool{
				Tool: t, ExportName: table.ExportName(t.ID()), Risk: rules.RiskWord(v.Risk), Trust: v.Trust, Action: v.Action,
			})
		}
	}
	return out
}

// Export is the catalogue as function tools.
func (b *Backend) Export(profile, server string) ([]byte, error) {
	e, err := b.o.Host.Export(profile, b.o.Servers.Name(server))
	if err != nil {
		return nil, fault.New(control.UnknownProfile, "%v", err)
	}
	return e.JSON(), nil
}

// Call carries a call through the gate.
func (b *Backend) Call(ctx context.Context, r control.CallRequest) (*control.CallResponse, error) {
	res, err := b.o.Host.Call(ctx, host.Call{
		ID: r.ID, Name: r.Name, Arguments: r.Arguments, Entrance: r.Entrance, Trace: r.Trace, Progress: r.Progress,
		Timeout:    time.Duration(r.TimeoutMS) * time.Millisecond,
		Provenance: r.Provenance, IdempotencyKey: r.IdempotencyKey, Approval: r.Approval, ApprovedBy: r.ApprovedBy, Wait: r.Wait,
	})
	if err != nil {
		return nil, err
	}
	return &control.CallResponse{
		CallID: res.CallID, Server: res.Tool.Server, Tool: res.Name, IsError: res.IsError,
		DurationMS: res.Duration.Milliseconds(), WaitedMS: res.Waited.Milliseconds(),
		Result: res.Raw, Flags: res.Flags, Artifact: res.Artifact, Replayed: res.Replayed,
	}, nil
}

// Gateway serves one MCP host over a pair of pipes, with one server under its own
// names or, where server is empty, with all.
func (b *Backend) Gateway(ctx context.Context, server string) (func(ctx context.Context, in io.Reader, out io.Writer) error, error) {
	v := b.o.View
	if server != "" {
		name := b.o.Servers.Name(server)
		if v = b.o.Gateway.Only(ctx, v, name); v == nil {
			if b.o.Servers.Status(name) != nil {
				return nil, fault.New(fault.ServerNotReady, "server %s is not ready", server).Retry()
			}
			return nil, b.o.Servers.Unknown(server)
		}
	}
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		err := stdio.Serve(ctx, b.o.Gateway, v, in, out)
		if err != nil && !errors.Is(err, net.ErrClosed) {
			b.o.Logger.Info("a client of the gateway is gone", "error", err)
		}
		return err
	}, nil
}
