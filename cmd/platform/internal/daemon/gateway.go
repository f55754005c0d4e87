package daemon

import (
	"context"
	"fmt"
	"net"

	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/settings"
	"github.com/aurorabot-dev/platform/cmd/platform/internal/daemon/teardown"
	"github.com/aurorabot-dev/platform/mcpkit/gateway"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/streamable/access"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
	"github.com/aurorabot-dev/platform/mcpkit/signal"
)

// openGateway serves other MCP hosts from here on.
func (p *Platform) openGateway(ctx context.Context, down *teardown.Stack) error {
	o := p.o.Gateway
	p.gateway = gateway.New(gateway.Options{
		Host: p.host, Offers: p.offers, Servers: p.gatewayServers, Settled: p.settled, Approvals: p.gate.Approvals, Logger: p.log, Version: settings.Version,
	})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); p.gateway.Run(running) }()
	down.Add("gateway", func(context.Context) error { stop(); <-done; return nil })
	if o.Listen == "" {
		return nil
	}
	h := streamable.Options{Gateway: p.gateway, Logger: p.log, Rules: access.Rules{Hosts: o.Hosts, Origins: o.Origins}}
	if o.Tokens == "" {
		h.Open = &view.View{} // any program of this machine may come, so nobody answers what a person is asked
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
	down.Add("gateway over http", func(context.Context) error { end(); return <-failed })
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
			out[i].Alias, out[i].About = m.Alias, m.Description
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
