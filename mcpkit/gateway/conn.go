package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"

	"github.com/aurorabot-dev/platform/mcpkit/fault"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/notify"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/rpc"
	"github.com/aurorabot-dev/platform/mcpkit/gateway/view"
)

// Conn is the conversation with one client: a session of the older revisions, or a
// pipe on which both eras are spoken. It is safe for concurrent use.
type Conn struct {
	*rpc.Conn
	g          *Gateway
	view       *view.View
	subscriber *notify.Subscriber
	asker      string // names the client among those that servers ask

	mu      sync.Mutex
	version string          // negotiated with initialize; empty before
	caps    json.RawMessage // the client's capabilities, from initialize
}

// Conn begins a conversation. What is sent unasked goes to out.
func (g *Gateway) Conn(v *view.View, out rpc.Stream) *Conn {
	return &Conn{Conn: rpc.NewConn(g.o.Limits.PerClient), g: g, view: v, subscriber: notify.NewSubscriber(v, out), asker: rand.Text()}
}

// Close ends the conversation: requests that are being answered are cancelled.
func (c *Conn) Close() {
	c.Conn.Close()
	c.g.hub.Remove(c.subscriber)
}

// Version is the revision that was negotiated, or "".
func (c *Conn) Version() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Begin counts a request in, so that the client can cancel it. The function it
// returns is [Conn.Serve] of that request and has to be called.
func (c *Conn) Begin(ctx context.Context, m *rpc.Message) (serve func(out rpc.Stream) ([]byte, *rpc.Error), _ *rpc.Error) {
	ctx, err := c.begin(ctx, m)
	if err != nil {
		return nil, err
	}
	return func(out rpc.Stream) ([]byte, *rpc.Error) { return c.serve(ctx, m, out) }, nil
}

// Serve answers a request. Messages that belong to the request and come before the
// answer go to out. Both results are nil where the client wants no answer any more;
// the error is an answer as well.
func (c *Conn) Serve(ctx context.Context, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	ctx, err := c.begin(ctx, m)
	if err != nil {
		return nil, err.For(m)
	}
	return c.serve(ctx, m, out)
}

// begin counts a request in.
func (c *Conn) begin(ctx context.Context, m *rpc.Message) (context.Context, *rpc.Error) {
	if !c.g.begin() {
		return nil, errBusy
	}
	ctx, err := c.Conn.Begin(ctx, m)
	if err != nil {
		c.g.end()
	}
	return ctx, err
}

// serve answers a request that has begun, and ends it.
func (c *Conn) serve(ctx context.Context, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	defer c.g.end()
	defer c.End(m)
	return (&request{Message: m, g: c.g, view: c.view, conn: c, out: out, stateless: m.Stateless()}).serve(ctx)
}

// Serve answers a request of the stateless protocol that belongs to no
// conversation, as [Conn.Serve] does. It is cancelled by ctx alone.
func (g *Gateway) Serve(ctx context.Context, v *view.View, m *rpc.Message, out rpc.Stream) ([]byte, *rpc.Error) {
	if !g.begin() {
		return nil, errBusy.For(m)
	}
	defer g.end()
	return (&request{Message: m, g: g, view: v, out: out, stateless: true}).serve(ctx)
}

var errBusy = &rpc.Error{Code: rpc.CodeBusy, Message: "the gateway has too many requests at once; try again later"}

// begin takes one of the slots for requests; false: all are taken.
func (g *Gateway) begin() bool {
	select {
	case g.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g *Gateway) end() { <-g.slots }

// serve answers the request.
func (r *request) serve(ctx context.Context) ([]byte, *rpc.Error) {
	if err := r.admit(); err != nil {
		return nil, err.For(r.Message)
	}
	reply, err := r.answer(ctx)
	if ctx.Err() != nil && (r.Name() != rpc.MethodListen || isCancelled(context.Cause(ctx))) {
		return nil, nil // 2025-11-25, basic/utilities/cancellation: no answer then
	}
	if err != nil {
		return nil, err.For(r.Message)
	}
	return reply, nil
}

func isCancelled(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.Cancelled
}
