// Package wire stands between an app's SDK server and its transport, for what the
// SDK (v1.8.0) does not do: it carries events and their acknowledgements, and it sees
// to it that each request gets one answer.
//
//	t := wire.New(transport, box, log, "the app failed")
//	server.AddReceivingMiddleware(… defer t.Returned(ctx, req.GetExtra()) …)
//	session, err := server.Connect(ctx, t, nil)
//	box.Deliver(ctx, t.Ready(), t.Send)
//
// It keeps no event: package outbox does.
package wire

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aurorabot-dev/platform/mcpkit/appkit/internal/outbox"
)

// The two notifications by which events travel: an event to the peer, and the
// peer's word that it holds the event durably. The server announces both as the
// experimental capability that is named by EventMethod.
const (
	EventMethod = "aurora/event"
	ackMethod   = "aurora/ack"
)

// Transport is a transport that also carries events and their acknowledgements, which
// the SDK has no words for: it would discard the one and cannot send the other.
//
// It serves one connection.
type Transport struct {
	mcp.Transport
	outbox  *outbox.Outbox
	answers *answers
	ready   chan struct{}
	conn    mcp.Connection
}

// New makes a Transport over t. Acknowledgements go to box. Failed is the message of
// the JSON-RPC error (code -32603) that answers a request which has no other answer.
func New(t mcp.Transport, box *outbox.Outbox, log *slog.Logger, failed string) *Transport {
	return &Transport{Transport: t, outbox: box, answers: newAnswers(log, failed), ready: make(chan struct{})}
}

// Ready is closed when the peer may be sent notifications.
func (t *Transport) Ready() <-chan struct{} { return t.ready }

// Returned is called when the handler of the request with that extra has returned.
// Ctx is the request's own, which the SDK cancels when it is done with the request; a
// request that is not answered by then is answered here.
func (t *Transport) Returned(ctx context.Context, extra *mcp.RequestExtra) {
	t.answers.returned(ctx, extra, t.conn)
}

// Connect implements mcp.Transport.
func (t *Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	t.conn = conn
	return &connection{Connection: conn, t: t}, err
}

// Send writes one event.
func (t *Transport) Send(ctx context.Context, params json.RawMessage) error {
	return t.conn.Write(ctx, &jsonrpc.Request{Method: EventMethod, Params: params})
}

type connection struct {
	mcp.Connection
	t     *Transport
	ready bool // only Read, which is serial, looks at it
}

// Read implements mcp.Connection. It keeps acknowledgements to itself, and it
// notices when the session has begun: with notifications/initialized, or, where
// the era knows no such thing, with the first request that is not part of
// getting to know each other.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		req, ok := m.(*jsonrpc.Request)
		if !ok {
			return m, nil
		}
		if req.IsCall() {
			c.t.answers.read(req)
		}
		switch req.Method {
		case ackMethod:
			if !req.IsCall() {
				c.t.outbox.Acknowledge(req.Params)
				continue
			}
		case "initialize", "server/discover", "ping":
		default:
			if !c.ready && (req.IsCall() || req.Method == "notifications/initialized") {
				c.ready = true
				close(c.t.ready)
			}
		}
		return m, nil
	}
}

// Write implements mcp.Connection. It keeps the answers' record.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	if answer, ok := m.(*jsonrpc.Response); ok {
		return c.t.answers.write(ctx, c.Connection, answer)
	}
	return c.Connection.Write(ctx, m)
}
