package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/control/endpoint"
	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/stdio"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// Gateway says how other MCP hosts reach the platform over HTTP. Over a pipe they
// reach it with "platform gateway" in any case.
type Gateway struct {
	// Listen is a host:port. Empty means none. Beyond loopback there must be tokens.
	Listen string `json:"listen,omitempty"`
	// Tokens is a file with the tokens that clients must bring. Empty means that
	// every program of this machine may come, but no page in a browser.
	Tokens string `json:"tokens,omitempty"`
	// Hosts are names, without port, by which clients reach Listen beside
	// loopback's. Origins are those of pages that may use it.
	Hosts   []string `json:"hosts,omitempty"`
	Origins []string `json:"origins,omitempty"`
}

func (g Gateway) check() error {
	if g.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(g.Listen); err != nil {
		return fmt.Errorf("gateway.listen: %q is not host:port", g.Listen)
	}
	if err := endpoint.CheckAddress(g.Listen); err != nil && g.Tokens == "" {
		return fmt.Errorf("gateway.listen: %w, or name a file of tokens in gateway.tokens", err)
	}
	return nil
}

// openGateway serves other MCP hosts from here on.
func (p *Platform) openGateway(ctx context.Context, down *teardown) error {
	o := p.o.Gateway
	p.gateway = gateway.New(gateway.Options{
		Host: p.host, Servers: p.gatewayServers, Settled: p.settled, Approvals: p.gate.Approvals, Logger: p.log, Version: version,
	})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); p.gateway.Run(running) }()
	down.add("gateway", func(context.Context) error { stop(); <-done; return nil })
	if o.Listen == "" {
		return nil
	}
	h := streamable.Options{Gateway: p.gateway, Logger: p.log, Rules: access.Rules{Hosts: o.Hosts, Origins: o.Origins}}
	if o.Tokens == "" {
		h.Open = &p.everything
	} else {
		tokens, err := access.OpenTokens(o.Tokens, p.log)
		if err != nil {
			return err
		}
		h.Tokens = tokens.View
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("opening the gateway's address: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); o.Tokens == "" && (!ok || !at.IP.IsLoopback()) { // localhost may be anything
		l.Close()
		return fmt.Errorf("opening the gateway's address: %s is not on loopback", l.Addr())
	}
	p.log.Info("the gateway is open", "url", "http://"+l.Addr().String()+streamable.Path)
	p.gatewayURL = "http://" + l.Addr().String() + streamable.Path
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 1)
	go func() { failed <- streamable.Serve(serving, l, streamable.New(h)) }()
	down.add("gateway over http", func(context.Context) error { end(); return <-failed })
	return nil
}

// gatewayServers are the servers that can be called now.
func (p *Platform) gatewayServers() []view.Server {
	infos := p.manager.Infos()
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]view.Server, len(infos))
	for i, info := range infos {
		out[i].Name, out[i].Version = info.Server, info.ProtocolVersion
		if m := p.manifests[info.Server]; m != nil {
			out[i].Alias = m.Alias
		}
	}
	return out
}

// tellGateway shows the gateway what is observed.
func (p *Platform) tellGateway(s signal.Signal) {
	if p.gateway != nil {
		p.gateway.Observe(context.Background(), s) // it does not wait
	}
}

// Gateway serves one MCP host over a pair of pipes, with one server under its own
// names or, where server is empty, with all.
func (p *Platform) Gateway(ctx context.Context, server string) (func(ctx context.Context, in io.Reader, out io.Writer) error, error) {
	v := &p.everything
	if server != "" {
		if v = p.gateway.Only(ctx, v, p.serverName(server)); v == nil {
			if p.kitStatus(p.serverName(server)) != nil {
				return nil, fault.New(fault.ServerNotReady, "server %s is not ready", server).Retry()
			}
			return nil, p.unknownServer(server)
		}
	}
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		err := stdio.Serve(ctx, p.gateway, v, in, out)
		if err != nil && !errors.Is(err, net.ErrClosed) {
			p.log.Info("a client of the gateway is gone", "error", err)
		}
		return err
	}, nil
}
